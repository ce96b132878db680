//! `tokenizer.json`: what is read of it, and what it says.

pub(super) mod entries;
mod vocabulary;

use serde::Deserialize;
use serde_json::Value as Json;

use super::error::HuggingFaceError;
use crate::llama::pre_tokenizer::PreTokenizer;
use crate::llama::tokenizer_json::AddedToken;
use vocabulary::JsonVocabulary;

#[derive(Deserialize)]
pub(super) struct TokenizerJson {
    model: JsonModel,
    #[serde(default)]
    pub added_tokens: Vec<AddedToken>,
    #[serde(default)]
    normalizer: Json,
    #[serde(default)]
    pre_tokenizer: Json,
    #[serde(default)]
    post_processor: Json,
}

/// The models' settings, each of which has some of them.
#[derive(Deserialize)]
struct JsonModel {
    #[serde(rename = "type")]
    kind: Option<String>,
    vocab: JsonVocabulary,
    #[serde(default)]
    merges: Vec<Merge>,
    byte_fallback: Option<bool>,
    unk_token: Option<String>,
    unk_id: Option<u32>,
    continuing_subword_prefix: Option<String>,
    end_of_word_suffix: Option<String>,
    max_input_chars_per_word: Option<u32>,
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

/// The tokens that are put around a text.
#[derive(Default)]
struct Around {
    begin: Option<u32>,
    end: Option<u32>,
}

impl TokenizerJson {
    /// Whether added tokens take the text around them into account.
    pub fn has_rules(&self) -> bool {
        self.added_tokens.iter().any(AddedToken::takes_context)
    }

    /// Whether the file says which tokens are put around a text.
    pub fn has_template(&self) -> bool {
        self.template().is_some() || self.pair().is_some()
    }

    fn around(&self) -> Around {
        let number = |id: &Json| id.as_u64().and_then(|id| u32::try_from(id).ok());
        if let Some(pair) = self.pair() {
            return Around {
                begin: number(&pair["cls"][1]),
                end: number(&pair["sep"][1]),
            };
        }
        let Some(template) = self.template() else {
            return Around::default();
        };
        let token = |item: Option<&Json>| {
            let name = item?["SpecialToken"]["id"].as_str()?;
            number(&template["special_tokens"][name]["ids"][0])
        };
        let items = template["single"].as_array();
        Around {
            begin: token(items.and_then(|items| items.first())),
            end: token(items.and_then(|items| items.last())),
        }
    }

    fn template(&self) -> Option<&Json> {
        let mut steps = parts(&self.post_processor, "processors").iter();
        steps.find(|part| part["type"] == "TemplateProcessing")
    }

    /// BERT's and RoBERTa's own form of a template.
    fn pair(&self) -> Option<&Json> {
        let mut steps = parts(&self.post_processor, "processors").iter();
        steps.find(|part| part["type"] == "BertProcessing" || part["type"] == "RobertaProcessing")
    }

    /// Of a vocabulary whose pieces have escaped spaces: whether nothing else happens to a text before it is split.
    fn only_escapes_spaces(&self) -> bool {
        let is_space = |step: &Json| step["pattern"]["String"] == " ";
        let normalizes = parts(&self.normalizer, "normalizers").iter().all(|step| {
            let escapes = is_space(step) && step["content"] == "\u{2581}";
            match step["type"].as_str() {
                None => step.is_null(),
                Some("Prepend") => step["prepend"] == "\u{2581}",
                Some("Replace") => escapes,
                Some(_) => false,
            }
        });
        let mut steps = parts(&self.pre_tokenizer, "pretokenizers").iter();
        normalizes
            && steps.all(|step| match step["type"].as_str() {
                None => step.is_null(),
                Some("Metaspace") => step["split"] == false,
                // Gemma's, which finds nothing: its spaces are escaped by then.
                Some("Split") => is_space(step),
                Some(_) => false,
            })
    }

    /// Whether a normalizer puts a space before every part of a text.
    fn prepends(&self) -> bool {
        parts(&self.normalizer, "normalizers")
            .iter()
            .any(|part| part["type"] == "Prepend")
    }

    /// Where the pre-tokenizer that escapes spaces puts one that the text does not have: `first`, `always` or `never`.
    pub fn space_scheme(&self) -> Option<&str> {
        let mut steps = parts(&self.pre_tokenizer, "pretokenizers").iter();
        let metaspace = steps.find(|part| part["type"] == "Metaspace")?;
        // Older ones have no scheme.
        let scheme = match metaspace["add_prefix_space"] == false {
            true => "never",
            false => "always",
        };
        Some(metaspace["prepend_scheme"].as_str().unwrap_or(scheme))
    }

    /// How a byte-level text is split before pairs are merged, and whether that has the file's normalizer in it.
    fn pre_tokenizer(&self) -> Result<(&'static PreTokenizer, bool), HuggingFaceError> {
        let steps = parts(&self.pre_tokenizer, "pretokenizers");
        let mut patterns = Vec::new();
        for step in steps {
            patterns.extend(published_pattern(step)?);
        }
        let mut normalizers = parts(&self.normalizer, "normalizers").iter();
        let composes = normalizers.len() == 1 && normalizers.all(|step| step["type"] == "NFC");
        let with = |composes| PreTokenizer::from_published_patterns(&patterns, composes);
        if (self.normalizer.is_null() || composes)
            && let Some(known) = with(composes)
        {
            return Ok((known, true));
        }
        let known = with(false).or_else(|| with(true));
        known.map(|known| (known, false)).ok_or_else(|| {
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

fn unsupported(key: &str, value: &str, reason: &'static str) -> HuggingFaceError {
    HuggingFaceError::Unsupported {
        key: key.to_owned(),
        value: value.chars().take(200).collect(),
        reason,
    }
}
