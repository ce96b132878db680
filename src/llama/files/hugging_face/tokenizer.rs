//! `tokenizer.model` or `tokenizer.json`, and `tokenizer_config.json`.

use std::path::Path;

use serde_json::Value as Json;

use super::config::FolderConfig;
use super::error::HuggingFaceError;
use super::json::{Object, at, read, read_bytes};
use super::sentencepiece::SentencePieceModel;
use super::tokenizer_json::{TokenizerJson, entries};
use super::tokens::Tokens;
use crate::llama::error::LlamaError;
use crate::llama::files::gguf::{Array, Metadata, Value};

/// The most bytes in a file of these.
const LIMIT: u64 = 1 << 26;
/// Adds the tokenizer to `metadata`.
pub(super) fn read_folder(
    folder: &Path,
    config: &FolderConfig,
    metadata: &mut Metadata,
) -> Result<(), LlamaError> {
    let sentencepiece = folder.join("tokenizer.model");
    let json = folder.join("tokenizer.json");
    let described: Option<TokenizerJson> = match json.exists() {
        true => Some(read(&json, LIMIT)?),
        false => None,
    };
    // SentencePiece's file does not have the rules of added tokens.
    let has_rules = described.as_ref().is_some_and(TokenizerJson::has_rules);
    let from_json = has_rules || !sentencepiece.exists();
    let (path, entries) = if !from_json {
        let bytes = read_bytes(&sentencepiece, LIMIT)?;
        let entries = SentencePieceModel::parse(&bytes)
            .and_then(|model| from_sentencepiece(model, described.as_ref(), config));
        (sentencepiece, entries)
    } else if let Some(described) = &described {
        (json, entries::from_json(described, config))
    } else {
        return Err(at(folder, HuggingFaceError::NoTokenizer));
    };
    for (key, value) in entries.map_err(|error| at(&path, error))? {
        metadata.set(key, value)?;
    }
    // GGUF has a key for each of two.
    if let Some(others) = config.eos.get(2..).filter(|others| !others.is_empty()) {
        let others = Value::Array(Array::U32(others.to_vec()));
        metadata.set("tokenizer.huggingface.end_token_ids", others)?;
    }
    // Where both files are there, `transformers` goes by this one. GGUF has a key for whether a space is put, and none
    // for the scheme: that is a name in the part of it which is Hugging Face's.
    if let Some(scheme) = described.as_ref().and_then(TokenizerJson::space_scheme) {
        metadata.set("tokenizer.ggml.add_space_prefix", scheme != "never")?;
        metadata.set("tokenizer.huggingface.prepend_scheme", scheme)?;
    }
    // But for SentencePiece's of LLaMA the template says which tokens there are, whatever the settings say.
    let llamas = metadata.get("tokenizer.ggml.model")? == Some("llama");
    let has_template = described.is_some_and(|described| described.has_template());
    let by_template = from_json && !llamas && has_template;
    read_settings(folder, by_template, metadata)
}

/// `tokenizer_config.json` and the chat template.
fn read_settings(
    folder: &Path,
    by_template: bool,
    metadata: &mut Metadata,
) -> Result<(), LlamaError> {
    let template = folder.join("chat_template.jinja");
    if template.exists() {
        let text = read_bytes(&template, 1 << 20)?;
        metadata.set("tokenizer.chat_template", Value::String(text.into()))?;
    }
    let path = folder.join("tokenizer_config.json");
    if !path.exists() {
        return Ok(());
    }
    let json: Json = read(&path, LIMIT)?;
    let settings = Object::new(&json);
    let wrong = |error| at(&path, error);
    for (theirs, ours) in [
        ("add_bos_token", "tokenizer.ggml.add_bos_token"),
        ("add_eos_token", "tokenizer.ggml.add_eos_token"),
        ("add_prefix_space", "tokenizer.ggml.add_space_prefix"),
    ] {
        let setting = settings.boolean(theirs).map_err(wrong)?;
        if let Some(setting) = setting.filter(|_| !(by_template && theirs != "add_prefix_space")) {
            metadata.set(ours, setting)?;
        }
    }
    // The file's own is the newer way.
    if metadata.value("tokenizer.chat_template").is_none()
        && let Some(template) = settings.value("chat_template").and_then(default_template)
    {
        metadata.set("tokenizer.chat_template", template)?;
    }
    Ok(())
}

/// A template, or the default one of a list of named ones.
fn default_template(value: &Json) -> Option<&str> {
    let named = |template: &&Json| template["name"] == "default";
    match value {
        Json::Array(templates) => templates.iter().find(named)?["template"].as_str(),
        value => value.as_str(),
    }
}

fn from_sentencepiece(
    model: SentencePieceModel,
    described: Option<&TokenizerJson>,
    config: &FolderConfig,
) -> Result<entries::Entries, HuggingFaceError> {
    let mut tokens = Tokens::default();
    for (id, piece) in model.pieces.iter().enumerate() {
        let text = String::from_utf8_lossy(&piece.text);
        tokens.put(&text, id as u64, piece.score, piece.kind)?;
        tokens.pieces[id] = piece.text.clone(); // the bytes as they are
    }
    if let Some(described) = described {
        tokens.add(&described.added_tokens)?;
    }
    tokens.pad(config)?;
    let mut found: entries::Entries = vec![
        ("tokenizer.ggml.model", model.kind.in_gguf().into()),
        ("tokenizer.ggml.tokens", tokens.pieces.into()),
        ("tokenizer.ggml.scores", tokens.scores.into()),
        ("tokenizer.ggml.token_type", tokens.kinds.into()),
        ("tokenizer.ggml.unknown_token_id", model.unknown.into()),
        (
            "tokenizer.ggml.add_space_prefix",
            model.add_space_prefix.into(),
        ),
        (
            "tokenizer.ggml.remove_extra_whitespaces",
            model.removes_extra_spaces.into(),
        ),
        ("tokenizer.ggml.add_bos_token", true.into()),
        ("tokenizer.ggml.add_eos_token", false.into()),
    ];
    if !model.character_map.is_empty() {
        let map = Value::Array(Array::U8(model.character_map));
        found.push(("tokenizer.ggml.precompiled_charsmap", map));
    }
    let eos = match config.eos.is_empty() {
        true => Vec::from_iter(model.eos),
        false => config.eos.clone(),
    };
    entries::special_tokens(&mut found, config.bos.or(model.bos), &eos);
    Ok(found)
}
