//! Whole `tokenizer.model` files that normalize do what the `sentencepiece` package does:
//! `scripts/sentencepiece_model_fixtures.py` made the cases.

use std::fs;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use ironbridge::llama::Tokenizer;
use serde::Deserialize;

use crate::tokenizer_folder::open_with;

#[derive(Deserialize)]
struct Fixtures {
    texts: Vec<String>,
    models: Vec<Fixture>,
}

#[derive(Deserialize)]
struct Fixture {
    name: String,
    /// `tokenizer.model` in base64.
    model: String,
    vocabulary: usize,
    /// The tokens of each text.
    encode: Vec<Vec<u32>>,
    decode: Vec<(Vec<u32>, String)>,
}

fn fixtures() -> Fixtures {
    // Another file of the script's, such as one with a large table of characters.
    let path = std::env::var("IRONBRIDGE_SENTENCEPIECE_MODELS");
    let own = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/data/sentencepiece_models.json"
    );
    serde_json::from_str(&fs::read_to_string(path.unwrap_or(own.to_owned())).unwrap()).unwrap()
}

#[test]
fn whole_models_do_what_the_package_does() {
    let Fixtures { texts, models } = fixtures();
    assert_eq!(models.len(), 8);
    let mut wrong = Vec::new();
    for model in &models {
        let bytes = BASE64_STANDARD.decode(&model.model).unwrap();
        let file = open_with("tokenizer.model", &bytes, model.vocabulary).unwrap();
        let tokenizer = Tokenizer::from_metadata(file.metadata()).unwrap();
        assert_eq!(texts.len(), model.encode.len());
        for (text, expected) in texts.iter().zip(&model.encode) {
            let found = tokenizer.encode(text);
            if found != *expected {
                wrong.push(format!(
                    "{}, {text:?}: {found:?} and not {expected:?}",
                    model.name
                ));
            }
        }
        for (tokens, text) in &model.decode {
            let found = tokenizer.decode(tokens).unwrap();
            if found != *text {
                wrong.push(format!(
                    "{}, {tokens:?}: {found:?} and not {text:?}",
                    model.name
                ));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} are wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
