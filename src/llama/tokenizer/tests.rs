//! Against what the `sentencepiece` package does: `scripts/tokenizer_fixtures.py` made the cases.

use std::path::Path;

use proptest::prelude::*;
use serde_json::Value as Json;

use super::*;
use crate::llama::files::gguf::{Array, GgufFile};

fn repository(path: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn tiny_rustbook() -> Tokenizer {
    let file = GgufFile::open(repository("assets/tiny-rustbook-q8_0.gguf")).unwrap();
    Tokenizer::from_metadata(file.header().metadata()).unwrap()
}

fn fixtures() -> serde_json::Map<String, Json> {
    let read = |path| std::fs::read_to_string(repository(path)).unwrap();
    let files = ["tests/data/sentencepiece.json", "tests/data/unigram.json"].map(read);
    let maps = files.map(|text| serde_json::from_str::<serde_json::Map<_, _>>(&text).unwrap());
    maps.into_iter().flatten().collect()
}

/// The tokenizer of a fixture that describes one, else tiny-rustbook's.
fn tokenizer_of(model: &Json) -> Tokenizer {
    let Some(pieces) = model.get("pieces") else {
        return tiny_rustbook();
    };
    let items = |name: &str| model[name].as_array().unwrap().clone();
    let pieces = pieces.as_array().unwrap().iter();
    let pieces: Vec<Box<[u8]>> = pieces
        .map(|piece| piece.as_str().unwrap().as_bytes().into())
        .collect();
    let scores: Vec<f32> = items("scores")
        .iter()
        .map(|score| score.as_f64().unwrap() as f32)
        .collect();
    let kinds: Vec<i32> = items("kinds")
        .iter()
        .map(|kind| kind.as_i64().unwrap() as i32)
        .collect();
    let vocabulary = Vocabulary::new(&pieces, &scores, &kinds, 0).unwrap();
    let space_prefix = match model["add_space_prefix"].as_bool().unwrap() {
        true => SpacePrefix::EveryPart,
        false => SpacePrefix::Nowhere,
    };
    let algorithm = match model.get("unigram") {
        Some(_) => Algorithm::Unigram(Unigram::new(&vocabulary, Precision::Single)),
        None => Algorithm::Scores,
    };
    let mut tokenizer = Tokenizer::new(
        vocabulary,
        algorithm,
        SentencePieceNormalizer::new(space_prefix),
    );
    tokenizer.set_bos(Some(1)).unwrap();
    tokenizer.set_eos(Some(2)).unwrap();
    tokenizer
}

fn tokens_of(json: &Json) -> Vec<u32> {
    let tokens = json.as_array().unwrap().iter();
    tokens.map(|token| token.as_u64().unwrap() as u32).collect()
}

/// As llama.cpp's converter writes Gemma's, and as llama.cpp tokenizes with it.
#[test]
fn user_defined_pieces_of_spaces_are_found_in_the_text_as_it_is() {
    let pieces =
        ["<unk>", "▁", "a", "  ", "    ", "▁a", "<0x0A>"].map(|piece| piece.as_bytes().into());
    let kinds = [2, 1, 1, 4, 4, 1, 1];
    let vocabulary = Vocabulary::new(&pieces, &[0.0; 7], &kinds, 0).unwrap();
    let tokenizer = Tokenizer::new(
        vocabulary,
        Algorithm::Scores,
        SentencePieceNormalizer::new(SpacePrefix::Nowhere),
    );
    for (text, expected) in [
        ("    ", &[4][..]),
        ("a   a", &[2, 3, 5]),
        (" a", &[5]),
        ("     a", &[4, 5]),
        ("a  ", &[2, 3]),
        // Escaped spaces that a text brings with it are none.
        ("▁▁", &[1, 1]),
    ] {
        assert_eq!(tokenizer.encode(text), expected, "{text:?}");
    }
    assert_eq!(tokenizer.decode(&[2, 4, 3, 5]).unwrap(), "a       a");
}

/// A unigram model in GGUF, with one more key of its tokenizer.
fn unigram_in_gguf(
    key: &str,
    value: crate::llama::files::gguf::Value,
) -> Result<Tokenizer, LlamaError> {
    let pieces = ["<pad>", "</s>", "<unk>", "\u{2581}", "a", "b", "ab"];
    let pieces: Vec<Box<[u8]>> = pieces.map(|piece| piece.as_bytes().into()).to_vec();
    let mut metadata = Metadata::default();
    metadata.set("tokenizer.ggml.model", "t5")?;
    metadata.set("tokenizer.ggml.tokens", pieces)?;
    metadata.set(
        "tokenizer.ggml.scores",
        vec![0.0f32, 0.0, 0.0, -2.0, -3.0, -3.5, -4.0],
    )?;
    metadata.set("tokenizer.ggml.token_type", vec![3i32, 3, 2, 1, 1, 1, 1])?;
    metadata.set(format!("tokenizer.ggml.{key}"), value)?;
    Tokenizer::from_metadata(&metadata)
}

#[test]
fn a_unigram_file_ends_texts_and_removes_spaces() {
    let tokenizer = unigram_in_gguf("add_space_prefix", false.into()).unwrap();
    let whole = EncodeOptions {
        add_special: true,
        parse_special: false,
    };
    // A run of unknown characters is one token.
    assert_eq!(tokenizer.encode_with("ab axyb", whole), [6, 3, 4, 2, 5, 1]);
    let tokenizer = unigram_in_gguf("remove_extra_whitespaces", true.into()).unwrap();
    assert_eq!(tokenizer.encode("  ab   a "), [3, 6, 3, 4]);
    assert_eq!(tokenizer.encode("   "), [0; 0]);
    let error = |value| {
        unigram_in_gguf("precompiled_charsmap", value)
            .expect_err("no table")
            .to_string()
    };
    assert!(error("x".into()).contains("array of bytes"));
    let short = Array::U8(vec![9, 0, 0, 0, 1]);
    assert!(error(short.into()).contains("ends inside the array"));
}

/// As llama.cpp's converter writes BERT's.
fn bert_in_gguf(keys: &[(&str, &str)]) -> Result<Tokenizer, LlamaError> {
    let pieces = [
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "\u{2581}un",
        "able",
        "\u{2581}cafe",
        "\u{2581},",
        "\u{2581}\u{65e5}",
        "[MASK]",
    ];
    let pieces: Vec<Box<[u8]>> = pieces.map(|piece| piece.as_bytes().into()).to_vec();
    let mut metadata = Metadata::default();
    metadata.set("tokenizer.ggml.model", "bert")?;
    metadata.set("tokenizer.ggml.tokens", pieces)?;
    metadata.set(
        "tokenizer.ggml.token_type",
        vec![2i32, 3, 3, 1, 1, 1, 1, 1, 3],
    )?;
    for (name, id) in [("unknown", 0u32), ("cls", 1), ("seperator", 2)] {
        metadata.set(format!("tokenizer.ggml.{name}_token_id"), id)?;
    }
    for (key, value) in keys {
        metadata.set(*key, *value)?;
    }
    Tokenizer::from_metadata(&metadata)
}

#[test]
fn a_bert_file_splits_words_into_pieces() {
    let tokenizer = bert_in_gguf(&[]).unwrap();
    let whole = EncodeOptions {
        add_special: true,
        parse_special: true,
    };
    let text = "UNable,CAF\u{c9} \u{65e5}xyz [MASK]unq";
    assert_eq!(
        tokenizer.encode_with(text, whole),
        [1, 3, 4, 6, 5, 7, 0, 8, 0, 2]
    );
    assert_eq!(tokenizer.encode("[MASK]"), [0, 0, 0]);
    assert_eq!(
        tokenizer.decode(&[1, 3, 4, 6, 5, 2]).unwrap(),
        "unable , cafe"
    );
    assert_eq!(tokenizer.token("[MASK]"), Some(8));
}

#[test]
fn parts_of_a_pipeline_that_are_none_are_named() {
    use crate::llama::tokenizer_json::keys::{ADDED_TOKENS, NORMALIZER, PRE_TOKENIZER};
    for (key, value, part) in [
        (NORMALIZER, "{", "normalizer"),
        (NORMALIZER, "{\"type\":\"Reverse\"}", "\"Reverse\""),
        (PRE_TOKENIZER, "{\"type\":\"ByteLevel\"}", "\"ByteLevel\""),
        (ADDED_TOKENS, "{}", "added_tokens"),
        (
            ADDED_TOKENS,
            "[{\"id\":9,\"content\":\"x\"}]",
            "the added token is 9",
        ),
        (
            ADDED_TOKENS,
            "[{\"id\":99999999999,\"content\":\"x\"}]",
            "outside the vocabulary",
        ),
    ] {
        let error = bert_in_gguf(&[(key, value)]).expect_err(value).to_string();
        assert!(error.contains(part), "{value}: {error}");
    }
}

#[test]
fn texts_become_sentencepieces_tokens() {
    for (name, model) in fixtures() {
        let tokenizer = tokenizer_of(&model);
        for case in model["encode"].as_array().unwrap() {
            let text = case[0].as_str().unwrap();
            assert_eq!(
                tokenizer.encode(text),
                tokens_of(&case[1]),
                "{name}: {text:?}"
            );
        }
    }
}

#[test]
fn tokens_become_sentencepieces_text() {
    for (name, model) in fixtures() {
        let tokenizer = tokenizer_of(&model);
        for case in model["decode"].as_array().unwrap() {
            let (tokens, text) = (tokens_of(&case[0]), case[1].as_str().unwrap());
            assert_eq!(
                tokenizer.decode(&tokens).unwrap(),
                text,
                "{name}: {tokens:?}"
            );
        }
    }
}

#[test]
fn texts_survive_the_way_there_and_back() {
    for (name, model) in fixtures() {
        let tokenizer = tokenizer_of(&model);
        if tokenizer.vocabulary.byte(0).is_none() {
            continue; // without byte tokens some texts cannot be expressed
        }
        for case in model["encode"].as_array().unwrap() {
            let text = case[0].as_str().unwrap();
            let decoded = tokenizer.decode(&tokenizer.encode(text)).unwrap();
            assert_eq!(decoded, text.replace(SPACE, " "), "{name}: {text:?}");
        }
    }
}

#[test]
fn a_stream_never_ends_inside_a_character() {
    let tokenizer = tiny_rustbook();
    let crab = "\u{1F980}";
    let bytes = crab
        .bytes()
        .map(|byte| tokenizer.vocabulary.byte(byte).unwrap());
    let mut decoder = Decoder::of_continuation(&tokenizer);
    let parts: Vec<String> = bytes
        .map(|token| decoder.push(token).unwrap().to_owned())
        .collect();
    assert_eq!(parts, ["", "", "", crab]);
    assert_eq!(decoder.finish(), "");

    // Cut off after three bytes: by another token, and by the end.
    let cut: Vec<u32> = tokenizer.encode(crab)[1..4].to_vec();
    let after = tokenizer.encode("a")[0];
    let mut decoder = Decoder::of_continuation(&tokenizer);
    for token in &cut {
        assert_eq!(decoder.push(*token), Ok(""));
    }
    assert_eq!(decoder.push(after), Ok("\u{FFFD}\u{FFFD}\u{FFFD} a"));
    for token in &cut {
        assert_eq!(decoder.push(*token), Ok(""));
    }
    assert_eq!(decoder.finish(), "\u{FFFD}\u{FFFD}\u{FFFD}");
    assert_eq!(decoder.finish(), "");
}

#[test]
fn a_continuation_keeps_its_first_space() {
    let tokenizer = tiny_rustbook();
    let tokens = tokenizer.encode("Ownership is");
    let joined = |mut decoder: Decoder| {
        tokens
            .iter()
            .map(|token| decoder.push(*token).unwrap().to_owned())
            .collect()
    };
    let (text, continuation): (String, String) = (
        joined(Decoder::of_text(&tokenizer)),
        joined(Decoder::of_continuation(&tokenizer)),
    );
    assert_eq!(text, "Ownership is");
    assert_eq!(continuation, " Ownership is");
}

#[test]
fn control_tokens_are_read_only_when_asked_for() {
    let tokenizer = tiny_rustbook();
    let special = EncodeOptions {
        add_special: true,
        parse_special: true,
    };
    let text = "a</s>b<s>";
    let mut expected = vec![tokenizer.bos().unwrap()];
    expected.extend(tokenizer.encode("a"));
    expected.push(tokenizer.eos().unwrap());
    expected.extend(tokenizer.encode("b"));
    expected.push(tokenizer.bos().unwrap());
    assert_eq!(tokenizer.encode_with(text, special), expected);
    let plain = tokenizer.encode(text);
    assert!(
        !plain.contains(&tokenizer.eos().unwrap()) && !plain.contains(&tokenizer.bos().unwrap())
    );
    assert_eq!(tokenizer.decode(&plain).unwrap(), text);
    assert_eq!(tokenizer.decode(&expected).unwrap(), "a b");
    assert_eq!(
        tokenizer.encode_with("", special),
        [tokenizer.bos().unwrap()]
    );
}

#[test]
fn tokens_outside_the_vocabulary_are_errors() {
    let tokenizer = tiny_rustbook();
    let vocabulary = tokenizer.vocabulary_size();
    assert_eq!(vocabulary, 2048);
    for id in [2048, u32::MAX] {
        assert_eq!(
            tokenizer.decode(&[id]),
            Err(TokenizerError::OutOfRange { id, vocabulary })
        );
        assert_eq!(tokenizer.piece(id), None);
    }
    assert_eq!(
        tokenizer.piece(1),
        Some((b"<s>".as_slice(), TokenKind::Control))
    );
}

#[test]
fn a_vocabulary_that_is_none_is_an_error() {
    let piece = |text: &str| Box::from(text.as_bytes());
    let new = |pieces: &[Box<[u8]>], scores: &[f32], kinds: &[i32], unknown| {
        Vocabulary::new(pieces, scores, kinds, unknown)
            .map(|_| ())
            .unwrap_err()
    };
    assert!(matches!(
        new(&[], &[], &[], 0),
        TokenizerError::Lengths { .. }
    ));
    assert!(matches!(
        new(&[piece("a")], &[], &[1], 0),
        TokenizerError::Lengths { .. }
    ));
    assert!(matches!(
        new(&[piece("a")], &[0.0], &[1, 1], 0),
        TokenizerError::Lengths { .. }
    ));
    assert!(matches!(
        new(&[piece("a")], &[0.0], &[1], 1),
        TokenizerError::SpecialToken { id: 1, .. }
    ));
    assert_eq!(
        new(&[piece("a")], &[f32::NAN], &[1], 0),
        TokenizerError::Score(0)
    );
    for kind in [0, 7, -1] {
        assert_eq!(
            new(&[piece("a")], &[0.0], &[kind], 0),
            TokenizerError::Kind { id: 0, kind }
        );
    }
    for name in ["a", "<0x4>", "<0x+1>", "<0xGG>", "<0x411>", "<0x41"] {
        assert_eq!(
            new(&[piece(name)], &[0.0], &[6], 0),
            TokenizerError::Byte(0),
            "{name}"
        );
    }
}

#[test]
fn a_chain_of_unused_pieces_is_split_without_recursion() {
    // "aaaa…": each piece is one longer than the last, and none of them but "a" may be used.
    let pieces: Vec<Box<[u8]>> = (1..2000).map(|length| vec![b'a'; length].into()).collect();
    let scores: Vec<f32> = (0..pieces.len()).map(|id| -(id as f32)).collect();
    let kinds: Vec<i32> = (0..pieces.len())
        .map(|id| if id == 0 { 1 } else { 5 })
        .collect();
    let vocabulary = Vocabulary::new(&pieces, &scores, &kinds, 0).unwrap();
    let mut tokens = Vec::new();
    merge::encode(&vocabulary, &"a".repeat(1999), &mut tokens);
    assert_eq!(tokens, vec![0; 1999]);
}

proptest! {
    #[test]
    fn any_text_survives_the_way_there_and_back(text in "\\PC{0,40}|[a-z \\n\u{0}-\u{20}\u{1F980}é]{0,60}") {
        let tokenizer = tiny_rustbook();
        let decoded = tokenizer.decode(&tokenizer.encode(&text)).unwrap();
        prop_assert_eq!(decoded, text.replace(SPACE, " "));
    }

    #[test]
    fn a_stream_never_splits_a_character(text in "(\\PC|[a-z \n\u{0}-\u{20}\u{301}\u{1F980}\u{65e5}]){0,40}") {
        let tokenizer = tiny_rustbook();
        let mut decoder = Decoder::of_text(&tokenizer);
        let mut streamed = String::new();
        for token in tokenizer.encode(&text) {
            // A character that came in two parts would be replaced in both.
            streamed.push_str(decoder.push(token).unwrap());
            prop_assert!(text.replace(SPACE, " ").starts_with(&streamed));
        }
        prop_assert_eq!(decoder.finish(), "");
        prop_assert_eq!(streamed, text.replace(SPACE, " "));
    }
}
