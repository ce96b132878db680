//! Byte-level tokenizers do what the `tokenizers` package does: `scripts/byte_level_fixtures.py` made the cases.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use ironbridge::llama::gguf::{Metadata, Value};
use ironbridge::llama::tokenizer::EncodeOptions;
use ironbridge::llama::{ModelFile, Tokenizer};
use serde::Deserialize;
use serde_json::Value as Json;

#[derive(Deserialize)]
struct Fixtures {
    texts: Vec<String>,
    tokenizers: Vec<Fixture>,
}

#[derive(Deserialize)]
struct Fixture {
    /// GGUF's name of the pre-tokenizer.
    pre: String,
    /// `tokenizer.json`.
    tokenizer: Json,
    /// For each text: its tokens; and those with special tokens, where they differ.
    encode: Vec<Vec<Vec<u32>>>,
    decode: Vec<(Vec<u32>, String)>,
}

fn tests_data(path: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data")).join(path)
}

fn fixtures() -> Fixtures {
    let text = fs::read_to_string(tests_data("byte_level.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

impl Fixture {
    /// Each token's text and whether it is special; `None` where it is one of the model's own.
    fn tokens(&self) -> Vec<(String, Option<bool>)> {
        let vocabulary = self.tokenizer["model"]["vocab"].as_object().unwrap();
        let own = vocabulary
            .iter()
            .map(|(text, id)| (id, text.as_str(), None));
        let added = self.tokenizer["added_tokens"].as_array().unwrap().iter();
        let added = added.map(|token| {
            let text = token["content"].as_str().unwrap();
            (&token["id"], text, token["special"].as_bool())
        });
        let tokens: BTreeMap<u64, _> = own
            .chain(added)
            .map(|(id, text, special)| (id.as_u64().unwrap(), (text.to_owned(), special)))
            .collect();
        tokens.into_values().collect()
    }

    /// As a GGUF file would have it.
    fn from_metadata(&self) -> Tokenizer {
        let tokens = self.tokens();
        let merges = self.tokenizer["model"]["merges"].as_array().unwrap().iter();
        let merges: Vec<Box<[u8]>> = merges
            .map(|pair| {
                let half = |index: usize| pair[index].as_str().unwrap();
                format!("{} {}", half(0), half(1)).into_bytes().into()
            })
            .collect();
        let kinds = tokens.iter().map(|(_, special)| match special {
            None => 1,
            Some(true) => 3,
            Some(false) => 4,
        });
        let kinds: Vec<i32> = kinds.collect();
        let pieces = tokens.into_iter().map(|(text, _)| text.into_bytes().into());
        let pieces: Vec<Box<[u8]>> = pieces.collect();
        let begins = !self.tokenizer["post_processor"].is_null();
        let mut metadata = Metadata::default();
        let entries: [(&str, Value); 8] = [
            ("model", "gpt2".into()),
            ("pre", self.pre.as_str().into()),
            ("tokens", pieces.into()),
            ("token_type", kinds.into()),
            ("merges", merges.into()),
            ("bos_token_id", 0u32.into()),
            ("eos_token_id", 1u32.into()),
            ("add_bos_token", begins.into()),
        ];
        for (key, value) in entries {
            metadata
                .set(format!("tokenizer.ggml.{key}"), value)
                .unwrap();
        }
        Tokenizer::from_metadata(&metadata).unwrap()
    }

    /// From a folder with it and any small model.
    fn from_folder(&self) -> Tokenizer {
        let folder = tempfile::tempdir().unwrap();
        let model = tests_data("models/llama-2");
        let config = fs::read_to_string(model.join("config.json")).unwrap();
        let mut config: Json = serde_json::from_str(&config).unwrap();
        config["vocab_size"] = self.tokens().len().into();
        fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
        fs::write(
            folder.path().join("tokenizer.json"),
            self.tokenizer.to_string(),
        )
        .unwrap();
        fs::copy(
            model.join("model.safetensors"),
            folder.path().join("model.safetensors"),
        )
        .unwrap();
        let file = ModelFile::open(folder.path()).unwrap();
        Tokenizer::from_metadata(file.metadata()).unwrap()
    }

    /// As a GGUF file has it, and as a folder does where there are folders of its kind.
    fn tokenizers(&self) -> Vec<(String, Tokenizer)> {
        let mut tokenizers = vec![(format!("{} in GGUF", self.pre), self.from_metadata())];
        if self.pre != "default" {
            tokenizers.push((format!("{} in a folder", self.pre), self.from_folder()));
        }
        tokenizers
    }
}

#[test]
fn texts_become_the_packages_tokens() {
    let Fixtures { texts, tokenizers } = fixtures();
    let mut wrong = Vec::new();
    for fixture in &tokenizers {
        assert_eq!(fixture.encode.len(), texts.len());
        for (name, tokenizer) in fixture.tokenizers() {
            for (text, expected) in texts.iter().zip(&fixture.encode) {
                let whole = EncodeOptions {
                    add_special: true,
                    parse_special: true,
                };
                for (found, expected) in [
                    (tokenizer.encode(text), expected.first()),
                    (tokenizer.encode_with(text, whole), expected.last()),
                ] {
                    if Some(&found) != expected {
                        wrong.push(format!("{name}, {text:?}: {found:?} and not {expected:?}"));
                    }
                }
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

#[test]
fn tokens_become_the_packages_text() {
    for fixture in &fixtures().tokenizers {
        for (name, tokenizer) in fixture.tokenizers() {
            for (tokens, text) in &fixture.decode {
                assert_eq!(
                    &tokenizer.decode(tokens).unwrap(),
                    text,
                    "{name}, {tokens:?}"
                );
            }
        }
    }
}

#[test]
fn texts_survive_the_way_there_and_back() {
    let Fixtures { texts, tokenizers } = fixtures();
    for fixture in tokenizers.iter().filter(|fixture| fixture.pre != "qwen2") {
        for (name, tokenizer) in fixture.tokenizers() {
            for text in &texts {
                let tokens = tokenizer.encode(text);
                assert_eq!(&tokenizer.decode(&tokens).unwrap(), text, "{name}");
            }
        }
    }
}
