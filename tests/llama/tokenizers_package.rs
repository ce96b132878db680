//! Tokenizers do what the `tokenizers` package does: `scripts/tokenizers_package_fixtures.py` made the cases.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use ironbridge::llama::gguf::{Metadata, Value};
use ironbridge::llama::tokenizer::{Decoder, EncodeOptions, TokenKind};
use ironbridge::llama::{ModelFile, Tokenizer};
use proptest::prelude::*;
use serde::Deserialize;
use serde_json::Value as Json;

#[derive(Deserialize)]
struct Fixtures {
    texts: Vec<String>,
    tokenizers: Vec<Fixture>,
}

#[derive(Deserialize)]
struct Fixture {
    /// GGUF's name of the pre-tokenizer; SentencePiece's has none.
    pre: Option<String>,
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
    let text = fs::read_to_string(tests_data("tokenizers_package.json")).unwrap();
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
    fn in_gguf(&self, pre: &str) -> Tokenizer {
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
            ("pre", pre.into()),
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
    fn in_folder(&self) -> Tokenizer {
        let folder = tempfile::tempdir().unwrap();
        let model = tests_data("models/llama-2");
        let config = fs::read_to_string(model.join("config.json")).unwrap();
        let mut config: Json = serde_json::from_str(&config).unwrap();
        config["vocab_size"] = self.tokens().len().into();
        config["bos_token_id"] = i32::from(self.pre.is_none()).into();
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
        let pre = self.pre.as_deref();
        let in_gguf = pre.map(|pre| (format!("{pre} in GGUF"), self.in_gguf(pre)));
        let in_folder = match pre {
            Some("default") => None,
            Some(pre) => Some((format!("{pre} in a folder"), self.in_folder())),
            None => {
                let scheme = &self.tokenizer["pre_tokenizer"]["prepend_scheme"];
                let name = format!("SentencePiece's, converted, with {scheme}");
                Some((name, self.in_folder()))
            }
        };
        in_gguf.into_iter().chain(in_folder).collect()
    }

    /// Whether decoding gives each text back: normalisation C and the escape of spaces do not.
    fn keeps_texts(&self) -> bool {
        !matches!(self.pre.as_deref(), Some("qwen2") | None)
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
    for fixture in tokenizers.iter().filter(|fixture| fixture.keeps_texts()) {
        for (name, tokenizer) in fixture.tokenizers() {
            for text in &texts {
                let tokens = tokenizer.encode(text);
                assert_eq!(&tokenizer.decode(&tokens).unwrap(), text, "{name}");
            }
        }
    }
}

/// What a stream gives out for each token, and in the end.
fn streamed(tokenizer: &Tokenizer, tokens: &[u32]) -> Vec<String> {
    let mut decoder = Decoder::of_text(tokenizer);
    let parts = tokens
        .iter()
        .map(|token| decoder.push(*token).unwrap().to_owned());
    let mut parts: Vec<String> = parts.collect();
    parts.push(decoder.finish().to_owned());
    parts
}

/// One for every published pre-tokenizer.
fn byte_level() -> Vec<(String, Tokenizer)> {
    let fixtures = fixtures().tokenizers;
    let kept = fixtures.iter().filter(|fixture| fixture.keeps_texts());
    kept.flat_map(Fixture::tokenizers).collect()
}

#[test]
fn a_stream_never_splits_a_character() {
    let tokenizers = byte_level();
    // Any characters, and some whose bytes are tokens of their own.
    let text = "(\\PC|[a-z \\n'0-9\u{0}-\u{20}\u{301}\u{e9}\u{65e5}\u{1f980}\u{200d}]){0,30}";
    proptest!(|(text in text)| {
        for (name, tokenizer) in &tokenizers {
            let parts = streamed(tokenizer, &tokenizer.encode(&text));
            // A character that came in two parts would be replaced in both.
            prop_assert_eq!(parts.concat(), text.clone(), "{}", name);
            prop_assert_eq!(parts.last().map(String::as_str), Some(""), "{}", name);
        }
    });
}

#[test]
fn a_stream_of_any_tokens_is_the_text_of_their_bytes() {
    let tokenizers = byte_level();
    proptest!(|(tokens in proptest::collection::vec(0u32..420, 0..30))| {
        for (name, tokenizer) in &tokenizers {
            let pieces = tokens.iter().map(|token| tokenizer.piece(*token).unwrap());
            let pieces = pieces.filter(|(_, kind)| *kind != TokenKind::Control);
            let bytes: Vec<u8> = pieces.flat_map(|(piece, _)| piece.to_vec()).collect();
            let parts = streamed(tokenizer, &tokens);
            prop_assert_eq!(parts.concat(), String::from_utf8_lossy(&bytes), "{}", name);
        }
    });
}

/// SmolLM2's vocabulary, for one, has no token for some control characters: the package leaves them out before it
/// merges.
#[test]
fn bytes_without_a_token_are_left_out() {
    let text = fs::read_to_string(tests_data("pre_tokenizers.json")).unwrap();
    let fixtures: Json = serde_json::from_str(&text).unwrap();
    let missing = &fixtures["missing"];
    let strings = |key: &str| -> Vec<Box<[u8]>> {
        let list = missing[key].as_array().unwrap().iter();
        list.map(|text| text.as_str().unwrap().as_bytes().into())
            .collect()
    };
    let pieces = strings("pieces");
    let kinds = vec![1; pieces.len()];
    let mut metadata = Metadata::default();
    let entries: [(&str, Value); 5] = [
        ("model", "gpt2".into()),
        ("pre", "smollm".into()),
        ("tokens", pieces.into()),
        ("token_type", kinds.into()),
        ("merges", strings("merges").into()),
    ];
    for (key, value) in entries {
        metadata
            .set(format!("tokenizer.ggml.{key}"), value)
            .unwrap();
    }
    let tokenizer = Tokenizer::from_metadata(&metadata).unwrap();
    for case in missing["encode"].as_array().unwrap() {
        let expected: Vec<u32> = serde_json::from_value(case[1].clone()).unwrap();
        let text = case[0].as_str().unwrap();
        assert_eq!(tokenizer.encode(text), expected, "{text:?}");
    }
}
