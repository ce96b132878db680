//! Folders made here, right and wrong ones.

use std::fs;
use std::path::Path;

use serde_json::{Value as Json, json};

use super::*;
use crate::llama::files::gguf::TensorType;
use crate::llama::quantize::Quantizer;

/// A `llama` of one layer: width 8, two heads of 4, one key head.
fn config() -> Json {
    json!({
        "model_type": "llama", "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2,
        "num_key_value_heads": 1, "intermediate_size": 8, "max_position_embeddings": 64, "vocab_size": 3,
        "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "bos_token_id": 1, "eos_token_id": [2, 0],
    })
}

fn tokenizer() -> Json {
    json!({
        "model": { "type": "BPE", "vocab": { "a": 0, "b": 1, "ab": 2 }, "merges": ["a b"] },
        "added_tokens": [{ "id": 1, "content": "b", "special": true }],
        "pre_tokenizer": { "type": "ByteLevel", "use_regex": true },
    })
}

/// A safetensors file of F32 tensors, each of whose rows holds the row's number.
fn safetensors(tensors: &[(&str, &[u64])]) -> Vec<u8> {
    let (mut header, mut data) = (serde_json::Map::new(), Vec::new());
    for (name, shape) in tensors {
        let begin = data.len();
        let columns: u64 = shape[1..].iter().product();
        for index in 0..shape[0] * columns {
            data.extend(((index / columns) as f32).to_le_bytes());
        }
        let entry = json!({ "dtype": "F32", "shape": shape, "data_offsets": [begin, data.len()] });
        header.insert((*name).to_owned(), entry);
    }
    let header = Json::from(header).to_string();
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.as_bytes());
    file.extend(data);
    file
}

const TENSORS: &[(&str, &[u64])] = &[
    ("model.embed_tokens.weight", &[3, 8]),
    ("model.layers.0.self_attn.q_proj.weight", &[8, 8]),
    ("model.layers.0.self_attn.k_proj.weight", &[4, 8]),
    ("model.layers.0.self_attn.q_proj.bias", &[8]),
    ("model.norm.weight", &[8]),
];

fn write(folder: &Path, config: &Json, tokenizer: &Json, weights: &[u8]) {
    fs::write(folder.join("config.json"), config.to_string()).unwrap();
    fs::write(folder.join("tokenizer.json"), tokenizer.to_string()).unwrap();
    fs::write(folder.join("model.safetensors"), weights).unwrap();
}

/// The error of a good folder whose configuration is changed.
fn config_error(key: &str, value: Json) -> String {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config();
    config[key] = value;
    write(folder.path(), &config, &tokenizer(), &safetensors(TENSORS));
    open(folder.path()).expect_err(key).to_string()
}

#[test]
fn a_folder_has_ggufs_metadata_and_names() {
    let folder = tempfile::tempdir().unwrap();
    write(
        folder.path(),
        &config(),
        &tokenizer(),
        &safetensors(TENSORS),
    );
    let model = open(folder.path()).unwrap();
    let metadata = model.metadata();
    assert_eq!(
        metadata.require::<&str>("general.architecture"),
        Ok("llama")
    );
    assert_eq!(metadata.require::<u32>("llama.attention.key_length"), Ok(4));
    assert_eq!(metadata.require::<&str>("tokenizer.ggml.pre"), Ok("gpt-2"));
    assert_eq!(
        metadata.require::<u32>("tokenizer.ggml.eot_token_id"),
        Ok(0)
    );
    let kinds: &[i32] = metadata.require("tokenizer.ggml.token_type").unwrap();
    assert_eq!(kinds, [1, 3, 1]);
    let query = model.tensor("blk.0.attn_q.weight").unwrap();
    assert_eq!(query.dimensions(), [8, 8]);
    assert_eq!(
        query.stored_name(),
        "model.layers.0.self_attn.q_proj.weight"
    );
    assert!(model.tensor("blk.0.attn_q.bias").is_some());
}

/// Halves 0 1 | 2 3 of a head become pairs 0 2 | 1 3: llama.cpp's converter's `permute`.
#[test]
fn queries_and_keys_are_reordered_in_a_gguf_file() {
    let folder = tempfile::tempdir().unwrap();
    write(
        folder.path(),
        &config(),
        &tokenizer(),
        &safetensors(TENSORS),
    );
    let out = folder.path().join("out.gguf");
    Quantizer::new(TensorType::F32)
        .unwrap()
        .write(&open(folder.path()).unwrap(), &out, &mut |_| ())
        .unwrap();
    let written = ModelFile::open(out).unwrap();
    let rows = |name: &str, columns: usize| -> Vec<f32> {
        let bytes = written.bytes(written.tensor(name).unwrap());
        let numbers = bytes.as_chunks().0.iter().step_by(columns);
        numbers.map(|number| f32::from_le_bytes(*number)).collect()
    };
    let query = [0.0, 2.0, 1.0, 3.0, 4.0, 6.0, 5.0, 7.0];
    assert_eq!(rows("blk.0.attn_q.weight", 8), query);
    assert_eq!(rows("blk.0.attn_q.bias", 1), query);
    assert_eq!(rows("blk.0.attn_k.weight", 8), [0.0, 2.0, 1.0, 3.0]);
    assert_eq!(rows("token_embd.weight", 8), [0.0, 1.0, 2.0]);
}

/// Of a folder with only `tokenizer.json`, and of one that has SentencePiece's file beside it.
#[test]
fn metaspace_says_where_a_space_is_put() {
    let mut tokenizer = tokenizer();
    tokenizer["model"]["byte_fallback"] = true.into();
    tokenizer["added_tokens"] = json!([]);
    let metaspace = |scheme: &str, split: bool| json!({ "type": "Metaspace", "replacement": "\u{2581}", "prepend_scheme": scheme, "split": split });
    for both in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let open_with = |pre_tokenizer: Json| {
            let mut tokenizer = tokenizer.clone();
            tokenizer["pre_tokenizer"] = pre_tokenizer;
            write(folder.path(), &config(), &tokenizer, &safetensors(TENSORS));
            if both {
                fs::write(folder.path().join("tokenizer.model"), sentencepiece_model()).unwrap();
            }
            open(folder.path())
        };
        for (pre_tokenizer, space, scheme) in [
            (Json::Null, both, None), // SentencePiece's own default
            (metaspace("first", false), true, Some("first")),
            (metaspace("always", false), true, Some("always")),
            (metaspace("never", false), false, Some("never")),
        ] {
            let model = open_with(pre_tokenizer).unwrap();
            let metadata = model.metadata();
            assert_eq!(
                metadata.require("tokenizer.ggml.add_space_prefix"),
                Ok(space)
            );
            let found = metadata.get::<&str>("tokenizer.huggingface.prepend_scheme");
            assert_eq!(found, Ok(scheme));
        }
        // It cuts words where SentencePiece's pieces go on, and is kept as it is.
        let split = open_with(metaspace("first", true)).unwrap();
        let kept = split
            .metadata()
            .value("tokenizer.huggingface.pre_tokenizer");
        assert_eq!(kept.is_some(), !both);
    }
}

#[test]
fn weights_may_be_in_several_files() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), &config(), &tokenizer(), b"");
    fs::remove_file(folder.path().join("model.safetensors")).unwrap();
    let (first, second) = TENSORS.split_at(2);
    fs::write(folder.path().join("1.safetensors"), safetensors(first)).unwrap();
    fs::write(folder.path().join("2.safetensors"), safetensors(second)).unwrap();
    let place = |of: &[(&str, &[u64])], file: &str| -> Vec<(String, Json)> {
        let name = |(name, _): &(&str, &[u64])| ((*name).to_owned(), file.into());
        of.iter().map(name).collect()
    };
    let index = |second_file: &str| {
        let mut map = place(first, "1.safetensors");
        map.extend(place(second, second_file));
        let map: serde_json::Map<String, Json> = map.into_iter().collect();
        let path = folder.path().join("model.safetensors.index.json");
        fs::write(path, json!({ "weight_map": map }).to_string()).unwrap();
    };
    index("2.safetensors");
    assert_eq!(open(folder.path()).unwrap().tensors().len(), TENSORS.len());
    let long = format!("{}.safetensors", "2".repeat(300));
    for foreign in [
        "../2.safetensors",
        "/etc/passwd",
        "..",
        "",
        "2.bin",
        "\u{1b}[2J.safetensors",
        &long,
    ] {
        index(foreign);
        let error = open(folder.path()).unwrap_err().to_string();
        assert!(error.contains("cannot be a file"), "{error}");
    }
    index("1.safetensors");
    let error = open(folder.path()).unwrap_err().to_string();
    assert!(error.contains("and it has not"), "{error}");
}

#[test]
fn what_is_wrong_in_the_configuration_is_named() {
    for (key, value) in [
        ("model_type", json!("mamba")),
        ("model_type", Json::Null),
        ("hidden_size", json!(0)),
        ("hidden_size", json!(-1)),
        ("num_attention_heads", json!(0)),
        ("num_hidden_layers", json!("two")),
        ("vocab_size", json!(u64::MAX)),
        ("vocab_size", json!(u32::MAX)),
        ("vocab_size", json!(2)),
        ("hidden_act", json!("gelu")),
        ("quantization_config", json!({})),
        ("rms_norm_eps", Json::Null),
        ("eos_token_id", json!("</s>")),
    ] {
        let error = config_error(key, value.clone());
        assert!(error.contains(key), "{key} {value}: {error}");
    }
    for heads in [0u32, 3, u32::MAX] {
        let error = config_error("num_key_value_heads", heads.into());
        assert!(error.contains("k_proj"), "{heads}: {error}");
    }
    for method in ["awq", "gptq", "fp8", "compressed-tensors", "bitsandbytes"] {
        let settings = json!({ "quant_method": method, "bits": 4 });
        let error = config_error("quantization_config", settings);
        let found = format!("\"quantization_config\" is {method}");
        assert!(
            error.contains(&found) && error.contains("GGUF"),
            "{method}: {error}"
        );
    }
    let ramp = json!({ "rope_type": "yarn", "factor": 4.0, "truncate": false });
    let error = config_error("rope_parameters", ramp);
    assert!(error.contains("truncate"), "{error}");
    let error = config_error("rope_scaling", json!({ "rope_type": "dynamic" }));
    assert!(error.contains("dynamic"), "{error}");
}

/// Folders of FP8, and of AWQ's and GPTQ's packed integers, whose configuration does not say so.
#[test]
fn weights_of_other_types_are_refused_by_name() {
    for (name, dtype, bytes) in [
        ("model.layers.0.self_attn.q_proj.weight", "F8_E4M3", 64),
        ("model.layers.0.self_attn.q_proj.qweight", "I32", 256),
    ] {
        let entry = json!({ "dtype": dtype, "shape": [8, 8], "data_offsets": [0, bytes] });
        let header = json!({ (name): entry }).to_string();
        let length = (header.len() as u64).to_le_bytes();
        let weights = [&length[..], header.as_bytes(), &vec![0; bytes]].concat();
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), &config(), &tokenizer(), &weights);
        let error = open(folder.path()).unwrap_err().to_string();
        assert!(error.contains(name) && error.contains(dtype), "{error}");
    }
}

#[test]
fn every_cut_of_every_file_is_an_error_or_a_model() {
    let folder = tempfile::tempdir().unwrap();
    let weights = safetensors(TENSORS);
    let (config, tokenizer) = (config(), tokenizer());
    write(folder.path(), &config, &tokenizer, &weights);
    let files = [
        ("config.json", config.to_string().into_bytes()),
        ("tokenizer.json", tokenizer.to_string().into_bytes()),
        ("model.safetensors", weights),
    ];
    for (name, bytes) in files {
        let path = folder.path().join(name);
        for length in 0..bytes.len() {
            fs::write(&path, &bytes[..length]).unwrap();
            assert!(open(folder.path()).is_err(), "{name} cut to {length}");
        }
        for position in 0..bytes.len().min(900) {
            let mut changed = bytes.clone();
            changed[position] ^= 1;
            fs::write(&path, changed).unwrap();
            let _ = open(folder.path());
        }
        fs::write(&path, &bytes).unwrap();
    }
    open(folder.path()).unwrap();
}

/// Pieces <unk> and "ab", then a trainer of byte-pair encoding and a normalizer that leaves spaces as they are.
fn sentencepiece_model() -> Vec<u8> {
    let mut file = vec![0x0A, 9, 0x0A, 5];
    file.extend(b"<unk>");
    file.extend([0x18, 2]);
    file.extend([0x0A, 9, 0x0A, 2, b'a', b'b', 0x15]);
    file.extend(1.5f32.to_le_bytes());
    file.extend([0x12, 2, 0x18, 2]);
    file.extend([0x1A, 2, 0x20, 0]);
    file
}

#[test]
fn what_a_sentencepiece_model_does_to_text_first_is_read() {
    let file = sentencepiece_model();
    let without_normalizer = &file[..file.len() - 4];
    let parse = |normalizer: &[u8]| {
        let file = [without_normalizer, normalizer].concat();
        sentencepiece::SentencePieceModel::parse(&file)
    };
    // The format's default.
    assert!(parse(&[]).unwrap().removes_extra_spaces);
    assert!(parse(&[0x1A, 2, 0x20, 1]).unwrap().removes_extra_spaces);
    assert!(!parse(&[0x1A, 2, 0x20, 0]).unwrap().removes_extra_spaces);
    for (normalizer, part) in [
        (&[0x1A, 5, 0x12, 1, 7, 0x20, 0][..], "too short"),
        (&[0x1A, 2, 0x28, 0], "escape spaces"),
        (&[0x12, 2, 0x18, 3], "words or characters"),
        (&[0x12, 3, 0xC0, 0x01, 1], "behind words"),
    ] {
        let error = parse(normalizer).unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
    }
}

#[test]
fn what_a_tokenizer_would_do_besides_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |tokenizer: &Json, part: &str| {
        write(folder.path(), &config(), tokenizer, &safetensors(TENSORS));
        let error = open(folder.path()).unwrap_err();
        let error = format!("{error}: {:?}", std::error::Error::source(&error));
        assert!(error.contains(part), "{part}: {error}");
    };
    let with = |key: &str, value: Json| {
        let mut tokenizer = tokenizer();
        tokenizer[key] = value;
        tokenizer
    };
    let model = |key: &str, value: Json| {
        let mut tokenizer = tokenizer();
        tokenizer["model"][key] = value;
        tokenizer
    };
    let byte_level = json!({ "type": "ByteLevel", "use_regex": true, "add_prefix_space": true });
    refused(&with("pre_tokenizer", byte_level), "add_prefix_space");
    refused(&with("normalizer", json!({ "type": "Reverse" })), "Reverse");
    refused(&model("type", "WordLevel".into()), "WordLevel");
    refused(
        &model("end_of_word_suffix", "</w>".into()),
        "end_of_word_suffix",
    );
    refused(&model("type", "Unigram".into()), "a list of pieces");
    let mut fallback = model("byte_fallback", true.into());
    fallback["pre_tokenizer"] = json!({ "type": "UnicodeScripts" });
    refused(&fallback, "UnicodeScripts");
    let pieces = json!([["a", 0.0], ["b", -1.0], ["ab", -2.0]]);
    let mut unigram = with("model", json!({ "type": "Unigram", "vocab": pieces }));
    refused(&unigram, "unk_id");
    unigram["model"]["unk_id"] = 0.into();
    refused(&unigram, "ByteLevel");
    unigram["pre_tokenizer"] = json!({ "type": "WhitespaceSplit" });
    write(folder.path(), &config(), &unigram, &safetensors(TENSORS));
    open(folder.path()).unwrap();
    let mut words = model("type", "WordPiece".into());
    refused(&words, "[UNK]");
    words["model"]["unk_token"] = "a".into();
    refused(&words, "BertPreTokenizer");
    words["pre_tokenizer"] = json!({ "type": "BertPreTokenizer" });
    words["model"]["continuing_subword_prefix"] = "".into();
    refused(&words, "continuing_subword_prefix");
    words["model"]["continuing_subword_prefix"] = "##".into();
    words["model"]["vocab"] = json!([["a", 0.0]]);
    refused(&words, "model.vocab");
    // Those of LLaMA 2 and of Gemma need no keys but GGUF's.
    let space =
        |kind: &str| json!({ "type": kind, "pattern": { "String": " " }, "content": "\u{2581}" });
    for normalizer in [
        json!({ "type": "Sequence", "normalizers": [{ "type": "Prepend", "prepend": "\u{2581}" }, space("Replace")] }),
        space("Replace"),
    ] {
        let mut right = model("byte_fallback", true.into());
        right["normalizer"] = normalizer;
        right["pre_tokenizer"] = space("Split");
        write(folder.path(), &config(), &right, &safetensors(TENSORS));
        let model = open(folder.path()).unwrap();
        assert!(
            model
                .metadata()
                .value("tokenizer.huggingface.normalizer")
                .is_none()
        );
    }
}

/// SentencePiece's file beside it has no rules for them.
#[test]
fn a_folder_whose_added_tokens_have_rules_goes_by_its_json() {
    let folder = tempfile::tempdir().unwrap();
    let mut tokenizer = tokenizer();
    tokenizer["model"]["byte_fallback"] = true.into();
    tokenizer["pre_tokenizer"] = Json::Null;
    for lstrip in [true, false] {
        tokenizer["added_tokens"] =
            json!([{ "id": 1, "content": "b", "special": true, "lstrip": lstrip }]);
        // SentencePiece's file has another token of that number.
        let file = sentencepiece_model();
        write(folder.path(), &config(), &tokenizer, &safetensors(TENSORS));
        fs::write(folder.path().join("tokenizer.model"), &file).unwrap();
        let opened = open(folder.path());
        assert_eq!(opened.is_ok(), lstrip, "{:?}", opened.err());
    }
}

/// As transformers, whose tokenizer goes by the template and not by the settings.
#[test]
fn the_template_of_a_byte_level_tokenizer_says_which_token_begins_a_text() {
    let mut tokenizer = tokenizer();
    tokenizer["model"]["merges"] = json!([]);
    tokenizer["post_processor"] = json!({
        "type": "TemplateProcessing",
        "single": [{ "SpecialToken": { "id": "b", "type_id": 0 } }, { "Sequence": { "id": "A", "type_id": 0 } }],
        "special_tokens": { "b": { "id": "b", "ids": [1], "tokens": ["b"] } },
    });
    let mut config = config();
    config.as_object_mut().unwrap().remove("bos_token_id");
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), &config, &tokenizer, &safetensors(TENSORS));
    for settings in [json!({}), json!({ "add_bos_token": false })] {
        fs::write(
            folder.path().join("tokenizer_config.json"),
            settings.to_string(),
        )
        .unwrap();
        let model = open(folder.path()).unwrap();
        let tokenizer = crate::llama::Tokenizer::from_metadata(model.metadata()).unwrap();
        let options = crate::llama::tokenizer::EncodeOptions {
            add_special: true,
            ..Default::default()
        };
        assert_eq!(tokenizer.encode_with("a", options), [1, 0], "{settings}");
    }
}

#[test]
fn a_sentencepiece_model_cut_anywhere_does_no_harm() {
    let file = sentencepiece_model();
    let model = sentencepiece::SentencePieceModel::parse(&file).unwrap();
    assert_eq!(model.pieces.len(), 2);
    assert_eq!((model.pieces[0].kind, model.pieces[1].score), (2, 1.5));
    // Between two fields it is a shorter file of the same format.
    let whole = [0, 11, 22, 26];
    for length in 0..file.len() {
        let cut = sentencepiece::SentencePieceModel::parse(&file[..length]);
        assert_eq!(cut.is_ok(), whole.contains(&length), "{length}");
    }
    for position in 0..file.len() {
        for byte in 0..=255 {
            let mut changed = file.clone();
            changed[position] = byte;
            let _ = sentencepiece::SentencePieceModel::parse(&changed);
        }
    }
}

/// Messages quote what a file says, but not all of it.
#[test]
fn messages_are_short_whatever_a_file_says() {
    let long = "\u{1b}long".repeat(2_000_000);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let message = |config: &Json, tokenizer: &Json, weights: &[u8]| {
        write(path, config, tokenizer, weights);
        let message = ModelFile::open(path).unwrap_err().to_string();
        let length = message
            .replace(&path.display().to_string(), "")
            .chars()
            .count();
        assert!(length < 300, "{length} characters");
        assert_eq!(message.lines().count(), 1);
        assert!(!message.contains('\u{1b}'), "{message:?}");
    };
    let weights = safetensors(TENSORS);
    message(&config(), &json!(long), &weights);
    message(&json!(long), &tokenizer(), &weights);
    let mut other = config();
    other["model_type"] = json!(long);
    message(&other, &tokenizer(), &weights);
    let mut other = config();
    other["hidden_size"] = json!(long);
    message(&other, &tokenizer(), &weights);
    let mut other = tokenizer();
    other["model"]["type"] = json!(long);
    message(&config(), &other, &weights);
    let mut other = tokenizer();
    other["model"]["merges"] = json!([long]);
    message(&config(), &other, &weights);
    let mut other = tokenizer();
    other["added_tokens"][0]["content"] = json!(long);
    other["added_tokens"][0]["id"] = json!(1_000_000_000_u64);
    message(&config(), &other, &weights);
    let mut header = (long.len() as u64 + 2).to_le_bytes().to_vec();
    header.extend(json!(long.replace('\u{1b}', "x")).to_string().as_bytes());
    message(&config(), &tokenizer(), &header);
}
