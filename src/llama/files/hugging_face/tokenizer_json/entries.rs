//! A tokenizer of `tokenizer.json` as GGUF's metadata has it.

use std::collections::HashMap;

use serde_json::Value as Json;

use super::vocabulary::JsonVocabulary;
use super::{JsonModel, TokenizerJson, parts, unsupported};
use crate::llama::files::gguf::Value;
use crate::llama::files::hugging_face::config::FolderConfig;
use crate::llama::files::hugging_face::error::HuggingFaceError;
use crate::llama::files::hugging_face::tokens::{Tokens, kinds};
use crate::llama::tokenizer_json::{Normalizer, UnknownStep, WordSplitter, keys};

/// Keys of the metadata and their values.
pub(in crate::llama::files::hugging_face) type Entries = Vec<(&'static str, Value)>;

pub(in crate::llama::files::hugging_face) fn from_json(
    described: &TokenizerJson,
    config: &FolderConfig,
) -> Result<Entries, HuggingFaceError> {
    let model = &described.model;
    let mut entries = match (model.kind.as_deref(), model.byte_fallback) {
        (Some("BPE") | None, Some(true)) => merges_of_text(described, config)?,
        (Some("BPE") | None, _) => merges_of_bytes(described, config)?,
        (Some("Unigram"), _) => unigram(described, config)?,
        (Some("WordPiece"), _) => word_piece(described, config)?,
        (Some(other), _) => {
            return Err(unsupported(
                "model.type",
                other,
                "BPE, Unigram and WordPiece are supported",
            ));
        }
    };
    let around = described.around();
    entries.extend([
        (
            "tokenizer.ggml.add_bos_token",
            around.begin.is_some().into(),
        ),
        ("tokenizer.ggml.add_eos_token", around.end.is_some().into()),
    ]);
    // The one that a text ends with is the first of those that end it.
    let others = config.eos.iter().copied();
    let others = others.filter(|eos| Some(*eos) != around.end);
    let eos: Vec<u32> = around.end.into_iter().chain(others).collect();
    special_tokens(&mut entries, around.begin.or(config.bos), &eos);
    Ok(entries)
}

/// The second token that ends a text is GGUF's end of a turn.
pub(in crate::llama::files::hugging_face) fn special_tokens(
    entries: &mut Entries,
    bos: Option<u32>,
    eos: &[u32],
) {
    let keys = [
        "tokenizer.ggml.bos_token_id",
        "tokenizer.ggml.eos_token_id",
        "tokenizer.ggml.eot_token_id",
    ];
    let ids = [bos, eos.first().copied(), eos.get(1).copied()];
    for (key, id) in keys.into_iter().zip(ids) {
        entries.extend(id.map(|id| (key, id.into())));
    }
}

/// The entries that every model has. The pieces of the file and the added ones.
fn vocabulary(model: &'static str, tokens: Tokens) -> Entries {
    vec![
        ("tokenizer.ggml.model", model.into()),
        ("tokenizer.ggml.tokens", tokens.pieces.into()),
        ("tokenizer.ggml.scores", tokens.scores.into()),
        ("tokenizer.ggml.token_type", tokens.kinds.into()),
    ]
}

/// The model's pieces, by their numbers.
fn numbered(model: &JsonModel) -> Result<&HashMap<String, u64>, HuggingFaceError> {
    let expected = "pieces with their numbers";
    let key = "model.vocab".to_owned();
    match &model.vocab {
        JsonVocabulary::Numbered(pieces) => Ok(pieces),
        JsonVocabulary::Scored(_) => Err(HuggingFaceError::WrongType { key, expected }),
    }
}

/// The model's own tokens.
fn own_tokens(model: &JsonModel) -> Result<Tokens, HuggingFaceError> {
    let mut tokens = Tokens::default();
    for (piece, id) in numbered(model)? {
        tokens.put(piece, *id, 0.0, kinds::NORMAL)?;
    }
    Ok(tokens)
}

/// Pieces of byte pairs are whole here: no model in use marks them.
fn marks_no_pieces(model: &JsonModel) -> Result<(), HuggingFaceError> {
    for (key, mark) in [
        (
            "model.continuing_subword_prefix",
            &model.continuing_subword_prefix,
        ),
        ("model.end_of_word_suffix", &model.end_of_word_suffix),
    ] {
        if let Some(mark) = mark.as_ref().filter(|mark| !mark.is_empty()) {
            return Err(unsupported(
                key,
                mark,
                "marked pieces are not supported with BPE",
            ));
        }
    }
    Ok(())
}

/// SentencePiece's, converted: the merges' order is that of its scores.
fn merges_of_text(
    described: &TokenizerJson,
    config: &FolderConfig,
) -> Result<Entries, HuggingFaceError> {
    let model = &described.model;
    marks_no_pieces(model)?;
    let mut tokens = own_tokens(model)?;
    let is_plain = described.only_escapes_spaces() && !described.has_rules();
    match is_plain {
        true => tokens.add(&described.added_tokens)?,
        false => tokens.add_to_own(&described.added_tokens)?,
    }
    let mut ranks = HashMap::new();
    for (rank, merge) in model.merges.iter().enumerate() {
        let (left, right) = merge.parts()?;
        ranks.entry(format!("{left}{right}")).or_insert(rank);
    }
    let pieces = numbered(model)?;
    for (piece, id) in pieces {
        let index = *id as usize; // put above
        let rank = ranks.get(piece).copied().unwrap_or(model.merges.len());
        tokens.scores[index] = -(rank as f32);
        if is_byte(piece) {
            tokens.kinds[index] = kinds::BYTE;
        }
    }
    let unknown = model
        .unk_token
        .as_ref()
        .and_then(|unknown| pieces.get(unknown));
    let unknown = unknown.copied().unwrap_or(0) as u32;
    if let Some(kind) = tokens.kinds.get_mut(unknown as usize) {
        *kind = kinds::UNKNOWN;
    }
    tokens.pad(config)?;
    let mut entries = vocabulary("llama", tokens);
    entries.push(("tokenizer.ggml.unknown_token_id", unknown.into()));
    entries.push((
        "tokenizer.ggml.add_space_prefix",
        described.prepends().into(),
    ));
    if !is_plain {
        entries.extend(pipeline(described, &described.pre_tokenizer)?);
    }
    Ok(entries)
}

fn merges_of_bytes(
    described: &TokenizerJson,
    config: &FolderConfig,
) -> Result<Entries, HuggingFaceError> {
    let model = &described.model;
    marks_no_pieces(model)?;
    let mut tokens = own_tokens(model)?;
    let (pre_tokenizer, normalizes) = described.pre_tokenizer()?;
    let is_plain = normalizes && !described.has_rules();
    match is_plain {
        true => tokens.add(&described.added_tokens)?,
        false => tokens.add_to_own(&described.added_tokens)?,
    }
    tokens.pad(config)?;
    let mut merges: Vec<Box<[u8]>> = Vec::with_capacity(model.merges.len());
    for merge in &model.merges {
        let (left, right) = merge.parts()?;
        merges.push(format!("{left} {right}").into_bytes().into());
    }
    let mut entries = vec![
        ("tokenizer.ggml.model", "gpt2".into()),
        ("tokenizer.ggml.pre", pre_tokenizer.name().into()),
        ("tokenizer.ggml.merges", merges.into()),
        ("tokenizer.ggml.tokens", tokens.pieces.into()),
        ("tokenizer.ggml.token_type", tokens.kinds.into()),
    ];
    if !is_plain {
        // The words are cut by the pre-tokenizer's name.
        entries.extend(pipeline(described, &Json::Null)?);
    }
    Ok(entries)
}

fn unigram(described: &TokenizerJson, config: &FolderConfig) -> Result<Entries, HuggingFaceError> {
    let model = &described.model;
    let JsonVocabulary::Scored(pieces) = &model.vocab else {
        return Err(HuggingFaceError::WrongType {
            key: "model.vocab".to_owned(),
            expected: "a list of pieces with their scores",
        });
    };
    let unknown = model
        .unk_id
        .ok_or_else(|| HuggingFaceError::Missing("model.unk_id".to_owned()))?;
    let mut tokens = Tokens::default();
    for (id, (piece, score)) in (0..).zip(pieces) {
        let kind = match id == u64::from(unknown) {
            true => kinds::UNKNOWN,
            false if model.byte_fallback == Some(true) && is_byte(piece) => kinds::BYTE,
            false => kinds::NORMAL,
        };
        tokens.put(piece, id, *score as f32, kind)?;
    }
    tokens.add_to_own(&described.added_tokens)?;
    tokens.pad(config)?;
    let mut entries = vocabulary("t5", tokens);
    entries.push(("tokenizer.ggml.unknown_token_id", unknown.into()));
    entries.push((
        "tokenizer.ggml.add_space_prefix",
        described.prepends().into(),
    ));
    entries.extend(pipeline(described, &described.pre_tokenizer)?);
    Ok(entries)
}

/// As llama.cpp's converter writes it: pieces that begin a word have an escaped space, and the others no mark.
fn word_piece(
    described: &TokenizerJson,
    config: &FolderConfig,
) -> Result<Entries, HuggingFaceError> {
    let model = &described.model;
    let prefix = model.continuing_subword_prefix.as_deref().unwrap_or("##");
    if prefix.is_empty() {
        let reason = "WordPiece without a mark of the pieces inside words is not supported";
        return Err(unsupported(
            "model.continuing_subword_prefix",
            prefix,
            reason,
        ));
    }
    let name = model.unk_token.as_deref().unwrap_or("[UNK]");
    let unknown = numbered(model)?.get(name);
    let unknown =
        unknown.ok_or_else(|| HuggingFaceError::Missing(format!("model.vocab.{name}")))?;
    let steps = parts(&described.pre_tokenizer, "pretokenizers");
    if !steps.iter().any(|step| step["type"] == "BertPreTokenizer") {
        // A word of other ones may begin with the mark, and would be read as the inside of one.
        let kind = described.pre_tokenizer["type"].as_str().unwrap_or("null");
        let reason = "WordPiece is supported with BertPreTokenizer alone";
        return Err(unsupported("pre_tokenizer", kind, reason));
    }
    let mut tokens = own_tokens(model)?;
    tokens.kinds[*unknown as usize] = kinds::UNKNOWN; // put above
    tokens.add_to_own(&described.added_tokens)?;
    for (piece, kind) in tokens.pieces.iter_mut().zip(&tokens.kinds) {
        if *kind == kinds::NORMAL {
            let inside = piece
                .strip_prefix(prefix.as_bytes())
                .filter(|rest| !rest.is_empty());
            let beginning = || ["\u{2581}".as_bytes(), piece].concat();
            *piece = inside.map_or_else(beginning, <[u8]>::to_vec).into();
        }
    }
    tokens.pad(config)?;
    let mut entries = vocabulary("bert", tokens);
    entries.push(("tokenizer.ggml.unknown_token_id", (*unknown as u32).into()));
    let longest_word = model.max_input_chars_per_word.unwrap_or(100);
    entries.push((keys::LONGEST_WORD, longest_word.into()));
    entries.extend(pipeline(described, &described.pre_tokenizer)?);
    Ok(entries)
}

/// What happens to a text around the model, as the file has it.
fn pipeline(described: &TokenizerJson, pre_tokenizer: &Json) -> Result<Entries, HuggingFaceError> {
    let named = |key| move |step: UnknownStep| unsupported(key, &step.kind, step.reason);
    Normalizer::parse(&described.normalizer).map_err(named("normalizer"))?;
    WordSplitter::parse(pre_tokenizer).map_err(named("pre_tokenizer"))?;
    let added = serde_json::to_string(&described.added_tokens);
    let added = added.map_err(|error| HuggingFaceError::Json(error.to_string()))?;
    Ok(vec![
        (keys::NORMALIZER, described.normalizer.to_string().into()),
        (keys::PRE_TOKENIZER, pre_tokenizer.to_string().into()),
        (keys::ADDED_TOKENS, added.into()),
    ])
}

/// `<0x41>`
fn is_byte(piece: &str) -> bool {
    let digits = piece
        .strip_prefix("<0x")
        .and_then(|rest| rest.strip_suffix('>'));
    digits.is_some_and(|digits| {
        digits.len() == 2 && digits.bytes().all(|digit| digit.is_ascii_hexdigit())
    })
}
