//! `tokenizer.model` or `tokenizer.json`, and `tokenizer_config.json`.

use std::collections::HashMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value as Json;

use super::config::FolderConfig;
use super::error::HuggingFaceError;
use super::json::{Object, at, read, read_bytes};
use super::sentencepiece::SentencePieceModel;
use crate::llama::error::LlamaError;
use crate::llama::files::gguf::{Array, Metadata, Value};
use crate::llama::pre_tokenizer::PreTokenizer;

/// The most bytes in a file of these.
const LIMIT: u64 = 1 << 26;
/// The most tokens. The largest vocabularies have 262,144.
const TOKENS: usize = 1 << 20;

/// GGUF's kinds of tokens that are made here.
mod kinds {
    pub const NORMAL: i32 = 1;
    pub const UNKNOWN: i32 = 2;
    pub const CONTROL: i32 = 3;
    pub const USER_DEFINED: i32 = 4;
    pub const UNUSED: i32 = 5;
    pub const BYTE: i32 = 6;
}

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
    let (path, entries) = if sentencepiece.exists() {
        let bytes = read_bytes(&sentencepiece, LIMIT)?;
        let entries = SentencePieceModel::parse(&bytes)
            .and_then(|model| from_sentencepiece(model, described.as_ref(), config));
        (sentencepiece, entries)
    } else if let Some(described) = &described {
        (json, from_json(described, config))
    } else {
        return Err(at(folder, HuggingFaceError::NoTokenizer));
    };
    for (key, value) in entries.map_err(|error| at(&path, error))? {
        metadata.set(format!("tokenizer.ggml.{key}"), value)?;
    }
    // GGUF has a key for each of two.
    if let Some(others) = config.eos.get(2..).filter(|others| !others.is_empty()) {
        let others = Value::Array(Array::U32(others.to_vec()));
        metadata.set("tokenizer.huggingface.end_token_ids", others)?;
    }
    // Where both files are there, `transformers` goes by this one. GGUF has a key for whether a space is put, and none
    // for the scheme: that is a name in the part of it which is Hugging Face's.
    if let Some(metaspace) = described.as_ref().and_then(TokenizerJson::metaspace) {
        let wanted = metaspace.scheme != "never";
        metadata.set("tokenizer.ggml.add_space_prefix", wanted)?;
        metadata.set("tokenizer.huggingface.prepend_scheme", metaspace.scheme)?;
    }
    // Of a byte-level one the template says which tokens there are, whatever the settings say.
    let byte_level = metadata.get("tokenizer.ggml.model")? == Some("gpt2");
    let by_template =
        byte_level && described.is_some_and(|described| described.template().is_some());
    read_settings(folder, by_template, metadata)
}

type Entries = Vec<(&'static str, Value)>;

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
) -> Result<Entries, HuggingFaceError> {
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
    let mut entries = vec![
        ("model", "llama".into()),
        ("tokens", tokens.pieces.into()),
        ("scores", tokens.scores.into()),
        ("token_type", tokens.kinds.into()),
        ("unknown_token_id", model.unknown.into()),
        ("add_space_prefix", model.add_space_prefix.into()),
        ("add_bos_token", true.into()),
        ("add_eos_token", false.into()),
    ];
    let eos = match config.eos.is_empty() {
        true => Vec::from_iter(model.eos),
        false => config.eos.clone(),
    };
    special_tokens(&mut entries, config.bos.or(model.bos), &eos);
    Ok(entries)
}

fn from_json(
    described: &TokenizerJson,
    config: &FolderConfig,
) -> Result<Entries, HuggingFaceError> {
    let model = &described.model;
    if !matches!(model.kind.as_deref(), Some("BPE") | None) {
        return Err(HuggingFaceError::Unsupported {
            key: "model.type".to_owned(),
            value: model.kind.clone().unwrap_or_default(),
            reason: "only BPE is supported",
        });
    }
    let mut tokens = Tokens::default();
    for (piece, id) in &model.vocab {
        tokens.put(piece, *id, 0.0, kinds::NORMAL)?;
    }
    tokens.add(&described.added_tokens)?;
    let (bos, eos) = described.begins_and_ends();
    let mut entries: Entries = match model.byte_fallback {
        // SentencePiece's, converted: the merges' order is that of its scores.
        Some(true) => {
            let mut ranks = HashMap::new();
            for (rank, merge) in model.merges.iter().enumerate() {
                let (left, right) = merge.parts()?;
                ranks.entry(format!("{left}{right}")).or_insert(rank);
            }
            for (piece, id) in &model.vocab {
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
                .and_then(|unknown| model.vocab.get(unknown));
            let unknown = unknown.copied().unwrap_or(0) as u32;
            if let Some(kind) = tokens.kinds.get_mut(unknown as usize) {
                *kind = kinds::UNKNOWN;
            }
            tokens.pad(config)?;
            if described
                .metaspace()
                .is_some_and(|metaspace| metaspace.splits)
            {
                let reason = "Metaspace is supported with \"split\": false alone";
                return Err(another("pre_tokenizer", reason));
            }
            described.only_escapes_spaces()?;
            vec![
                ("model", "llama".into()),
                ("scores", tokens.scores.into()),
                ("unknown_token_id", unknown.into()),
                ("add_space_prefix", described.prepends().into()),
            ]
        }
        _ => {
            tokens.pad(config)?;
            let mut merges: Vec<Box<[u8]>> = Vec::with_capacity(model.merges.len());
            for merge in &model.merges {
                let (left, right) = merge.parts()?;
                merges.push(format!("{left} {right}").into_bytes().into());
            }
            vec![
                ("model", "gpt2".into()),
                ("pre", described.pre_tokenizer()?.into()),
                ("merges", merges.into()),
            ]
        }
    };
    entries.extend([
        ("tokens", tokens.pieces.into()),
        ("token_type", tokens.kinds.into()),
        ("add_bos_token", bos.into()),
        ("add_eos_token", eos.into()),
    ]);
    special_tokens(
        &mut entries,
        described.first_token().or(config.bos),
        &config.eos,
    );
    Ok(entries)
}

/// The second token that ends a text is GGUF's end of a turn.
fn special_tokens(entries: &mut Entries, bos: Option<u32>, eos: &[u32]) {
    let keys = ["bos_token_id", "eos_token_id", "eot_token_id"];
    let ids = [bos, eos.first().copied(), eos.get(1).copied()];
    for (key, id) in keys.into_iter().zip(ids) {
        entries.extend(id.map(|id| (key, id.into())));
    }
}

/// A vocabulary in the making.
#[derive(Default)]
struct Tokens {
    pieces: Vec<Box<[u8]>>,
    scores: Vec<f32>,
    kinds: Vec<i32>,
}

impl Tokens {
    fn put(&mut self, piece: &str, id: u64, score: f32, kind: i32) -> Result<(), HuggingFaceError> {
        let wrong = |reason| HuggingFaceError::Token {
            piece: piece.to_owned(),
            id,
            reason,
        };
        let index = usize::try_from(id)
            .ok()
            .filter(|index| *index < TOKENS)
            .ok_or_else(|| wrong("it is above the limit of 2^20"))?;
        if index >= self.pieces.len() {
            self.grow(index + 1);
        }
        if self.kinds[index] != kinds::UNUSED && *self.pieces[index] != *piece.as_bytes() {
            return Err(wrong("another token has the same"));
        }
        self.pieces[index] = piece.as_bytes().into();
        self.scores[index] = score;
        self.kinds[index] = kind;
        Ok(())
    }

    /// Tokens that were added to the model's own, or say of those that they are special.
    fn add(&mut self, added: &[AddedToken]) -> Result<(), HuggingFaceError> {
        for token in added {
            for (key, set) in [
                ("added_tokens.lstrip", token.lstrip),
                ("added_tokens.rstrip", token.rstrip),
                ("added_tokens.single_word", token.single_word),
            ] {
                if set {
                    let reason =
                        "tokens that take the text around them into account are not supported";
                    return Err(unsupported(key, &token.content, reason));
                }
            }
            let index = token.id as usize;
            let kind = match token.special {
                // Unknown ones and bytes are special in their own ways.
                true if self
                    .kinds
                    .get(index)
                    .is_some_and(|kind| matches!(*kind, kinds::UNKNOWN | kinds::BYTE)) =>
                {
                    continue;
                }
                true => kinds::CONTROL,
                false => kinds::USER_DEFINED,
            };
            let score = self.scores.get(index).copied().unwrap_or(0.0);
            self.put(&token.content, token.id, score, kind)?;
        }
        Ok(())
    }

    /// Embeddings may have more rows than there are tokens.
    fn pad(&mut self, config: &FolderConfig) -> Result<(), HuggingFaceError> {
        let vocabulary = config.vocabulary as usize;
        if self.pieces.len() > vocabulary || vocabulary > TOKENS {
            return Err(HuggingFaceError::Unsupported {
                key: "vocab_size".to_owned(),
                value: vocabulary.to_string(),
                reason: "the tokenizer has more tokens, or it is above the limit of 2^20",
            });
        }
        self.grow(vocabulary);
        Ok(())
    }

    fn grow(&mut self, length: usize) {
        let unused = |id| format!("[PAD{id}]").into_bytes().into_boxed_slice();
        self.pieces.extend((self.pieces.len()..length).map(unused));
        self.scores.resize(length, 0.0);
        self.kinds.resize(length, kinds::UNUSED);
    }
}

/// What of `tokenizer.json` is read.
#[derive(Deserialize)]
struct TokenizerJson {
    model: BytePairs,
    #[serde(default)]
    added_tokens: Vec<AddedToken>,
    #[serde(default)]
    normalizer: Json,
    #[serde(default)]
    pre_tokenizer: Json,
    #[serde(default)]
    post_processor: Json,
}

#[derive(Deserialize)]
struct BytePairs {
    #[serde(rename = "type")]
    kind: Option<String>,
    vocab: HashMap<String, u64>,
    #[serde(default)]
    merges: Vec<Merge>,
    byte_fallback: Option<bool>,
    unk_token: Option<String>,
}

#[derive(Deserialize)]
struct AddedToken {
    id: u64,
    content: String,
    #[serde(default)]
    special: bool,
    #[serde(default)]
    lstrip: bool,
    #[serde(default)]
    rstrip: bool,
    #[serde(default)]
    single_word: bool,
}

/// Two pieces that become one: older files have a space between them.
#[derive(Deserialize)]
#[serde(untagged)]
enum Merge {
    Joined(String),
    Pair(String, String),
}

impl Merge {
    fn parts(&self) -> Result<(&str, &str), HuggingFaceError> {
        let wrong = || HuggingFaceError::Json("a merge is not two pieces".to_owned());
        match self {
            Merge::Joined(joined) => joined.split_once(' ').ok_or_else(wrong),
            Merge::Pair(left, right) => Ok((left, right)),
        }
    }
}

/// The pre-tokenizer that escapes spaces.
struct Metaspace<'a> {
    /// Where it puts a space that the text does not have: `first`, `always` or `never`.
    scheme: &'a str,
    /// Whether no piece goes on after a space.
    splits: bool,
}

impl TokenizerJson {
    /// Whether the template of a text puts tokens before and behind it.
    fn begins_and_ends(&self) -> (bool, bool) {
        let Some(single) = self
            .template()
            .and_then(|template| template["single"].as_array())
        else {
            return (false, false);
        };
        let special =
            |item: Option<&Json>| item.is_some_and(|item| item["SpecialToken"].is_object());
        (special(single.first()), special(single.last()))
    }

    fn template(&self) -> Option<&Json> {
        let mut steps = parts(&self.post_processor, "processors").iter();
        steps.find(|part| part["type"] == "TemplateProcessing")
    }

    /// The token that the template of a text puts before it.
    fn first_token(&self) -> Option<u32> {
        let template = self.template()?;
        let name = template["single"][0]["SpecialToken"]["id"].as_str()?;
        let id = template["special_tokens"][name]["ids"][0].as_u64()?;
        u32::try_from(id).ok()
    }

    /// Of a vocabulary whose pieces have escaped spaces: whether nothing else happens to a text before it is split.
    fn only_escapes_spaces(&self) -> Result<(), HuggingFaceError> {
        let is_space = |step: &Json| step["pattern"]["String"] == " ";
        for step in parts(&self.normalizer, "normalizers") {
            match step["type"].as_str() {
                None | Some("Prepend") => (),
                Some("Replace") if is_space(step) && step["content"] == "\u{2581}" => (),
                Some(kind) => {
                    let reason = "only the escaping of spaces is supported with byte_fallback";
                    return Err(unsupported("normalizer", kind, reason));
                }
            }
        }
        for step in parts(&self.pre_tokenizer, "pretokenizers") {
            match step["type"].as_str() {
                None | Some("Metaspace") => (),
                // Gemma's, which finds nothing: its spaces are escaped by then.
                Some("Split") if is_space(step) => (),
                Some(kind) => {
                    let reason = "only Metaspace is supported with byte_fallback";
                    return Err(unsupported("pre_tokenizer", kind, reason));
                }
            }
        }
        Ok(())
    }

    /// Whether a normalizer puts a space before every part of a text.
    fn prepends(&self) -> bool {
        parts(&self.normalizer, "normalizers")
            .iter()
            .any(|part| part["type"] == "Prepend")
    }

    /// What newer files have for it.
    fn metaspace(&self) -> Option<Metaspace<'_>> {
        let mut steps = parts(&self.pre_tokenizer, "pretokenizers").iter();
        let metaspace = steps.find(|part| part["type"] == "Metaspace")?;
        // Older ones have no scheme.
        let scheme = match metaspace["add_prefix_space"] == false {
            true => "never",
            false => "always",
        };
        Some(Metaspace {
            scheme: metaspace["prepend_scheme"].as_str().unwrap_or(scheme),
            splits: metaspace["split"] != false,
        })
    }

    /// GGUF's name for how text is normalised and split before pairs are merged.
    fn pre_tokenizer(&self) -> Result<&'static str, HuggingFaceError> {
        let steps = parts(&self.pre_tokenizer, "pretokenizers");
        let mut patterns = Vec::new();
        for step in steps {
            patterns.extend(published_pattern(step)?);
        }
        let normalizers: Vec<&Json> = parts(&self.normalizer, "normalizers")
            .iter()
            .map(|part| &part["type"])
            .filter(|kind| !kind.is_null())
            .collect();
        let composes = match normalizers[..] {
            [] => false,
            [kind] if kind == "NFC" => true,
            _ => return Err(another("normalizer", "only NFC is known")),
        };
        let known = PreTokenizer::from_published_patterns(&patterns, composes);
        known.map(PreTokenizer::name).ok_or_else(|| {
            let value = patterns.join("; ");
            let reason = "it splits text by patterns of no family that is known";
            unsupported("pre_tokenizer", &value, reason)
        })
    }
}

/// The pattern that a step of the pre-tokenizer splits by, if it splits.
fn published_pattern(step: &Json) -> Result<Option<String>, HuggingFaceError> {
    const GPT_2: &str =
        r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
    let kind = step["type"].as_str().unwrap_or("none");
    let isolates = || step["behavior"] == "Isolated" && step["invert"] != true;
    // The package's own files write "Removed" and "invert" for the same: the matches are the words.
    let removes = || step["behavior"] == "Removed" && step["invert"] == true;
    match (kind, step["pattern"]["Regex"].as_str()) {
        ("ByteLevel", _) if step["add_prefix_space"] == true => {
            let reason = "a space before a text is not supported in a byte-level vocabulary";
            Err(unsupported(
                "pre_tokenizer.add_prefix_space",
                "true",
                reason,
            ))
        }
        ("ByteLevel", _) => Ok((step["use_regex"] != false).then(|| GPT_2.to_owned())),
        ("Digits", _) if step["individual_digits"] == true => Ok(Some(r"\p{N}".to_owned())),
        ("Split", Some(pattern)) if isolates() || removes() => Ok(Some(pattern.to_owned())),
        _ => {
            let reason = "only splits by a pattern, single digits and ByteLevel are known";
            Err(unsupported("pre_tokenizer", kind, reason))
        }
    }
}

/// The steps of a part of the file: itself, or those of a sequence.
fn parts<'a>(part: &'a Json, list: &str) -> &'a [Json] {
    let own = std::slice::from_ref(part);
    part[list].as_array().map_or(own, Vec::as_slice)
}

fn another(key: &str, reason: &'static str) -> HuggingFaceError {
    unsupported(key, "another one", reason)
}

fn unsupported(key: &str, value: &str, reason: &'static str) -> HuggingFaceError {
    HuggingFaceError::Unsupported {
        key: key.to_owned(),
        value: value.chars().take(200).collect(),
        reason,
    }
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
