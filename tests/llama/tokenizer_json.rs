//! Every model, normalizer, pre-tokenizer and rule of `tokenizer.json` does what the `tokenizers` package does:
//! `scripts/tokenizer_json_fixtures.py` made the cases.

use std::fs;

use ironbridge::llama::Tokenizer;
use ironbridge::llama::tokenizer::EncodeOptions;
use serde::Deserialize;
use serde_json::Value as Json;

use crate::tokenizer_folder::open_with;

#[derive(Deserialize)]
struct Fixtures {
    texts: Vec<String>,
    tokenizers: Vec<Fixture>,
}

#[derive(Deserialize)]
struct Fixture {
    name: String,
    /// `tokenizer.json`.
    tokenizer: Json,
    /// For each text: its tokens, where it has no name of a control token; and its tokens with such names, and with
    /// those around a text.
    encode: Vec<[Option<Vec<u32>>; 2]>,
}

fn fixtures() -> Fixtures {
    // Another file of the script's, such as one with a large table of characters.
    let path = std::env::var("IRONBRIDGE_TOKENIZER_JSON");
    let own = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/data/tokenizer_json.json"
    );
    let text = fs::read_to_string(path.unwrap_or(own.to_owned())).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// How many numbers of tokens a file has.
fn vocabulary(tokenizer: &Json) -> usize {
    let added = tokenizer["added_tokens"].as_array().unwrap().iter();
    let added = added.map(|token| token["id"].as_u64().unwrap() as usize + 1);
    let vocab = &tokenizer["model"]["vocab"];
    let own = vocab
        .as_array()
        .map_or_else(|| vocab.as_object().unwrap().len(), Vec::len);
    added.chain([own]).max().unwrap()
}

impl Fixture {
    fn check(&self, texts: &[String], tokenizer: &Tokenizer, wrong: &mut Vec<String>) {
        assert_eq!(self.encode.len(), texts.len());
        let whole = EncodeOptions {
            add_special: true,
            parse_special: true,
        };
        for (text, [plain, parsed]) in texts.iter().zip(&self.encode) {
            let pairs = [
                (tokenizer.encode(text), plain.as_ref()),
                (tokenizer.encode_with(text, whole), parsed.as_ref()),
            ];
            for (found, expected) in pairs {
                if expected.is_some_and(|expected| *expected != found) {
                    wrong.push(format!(
                        "{}, {text:?}: {found:?} and not {expected:?}",
                        self.name
                    ));
                }
            }
        }
    }
}

#[test]
fn texts_become_the_packages_tokens() {
    let Fixtures { texts, tokenizers } = fixtures();
    assert_eq!(tokenizers.len(), 19);
    let mut wrong = Vec::new();
    for fixture in &tokenizers {
        let json = fixture.tokenizer.to_string();
        let file = open_with(
            "tokenizer.json",
            json.as_bytes(),
            vocabulary(&fixture.tokenizer),
        );
        let file = file.unwrap_or_else(|error| panic!("{}: {error}", fixture.name));
        let tokenizer = Tokenizer::from_metadata(file.metadata()).unwrap();
        fixture.check(&texts, &tokenizer, &mut wrong);
    }
    assert!(
        wrong.is_empty(),
        "{} are wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
