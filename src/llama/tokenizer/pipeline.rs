//! What `tokenizer.json` does to a text before its words become tokens.

use serde_json::Value as Json;

use super::added_tokens::{AddedTokens, Segment};
use super::vocabulary::TokenizerError;
use crate::llama::error::LlamaError;
use crate::llama::files::gguf::Metadata;
use crate::llama::tokenizer_json::{AddedToken, Normalizer, UnknownStep, Word, WordSplitter, keys};

/// Added tokens are found in the text, what is between them is normalized, more are found in that, and the rest is cut
/// into words.
#[derive(Clone, Debug)]
pub(super) struct Pipeline {
    added: AddedTokens,
    normalizer: Option<Normalizer>,
    splitter: Option<WordSplitter>,
}

impl Pipeline {
    /// Whether the metadata describes one.
    pub fn is_described(metadata: &Metadata) -> bool {
        let parts = [keys::NORMALIZER, keys::PRE_TOKENIZER, keys::ADDED_TOKENS];
        parts.iter().any(|key| metadata.value(key).is_some())
    }

    /// The one that the metadata describes, if it does; `vocabulary`: how many tokens there are.
    pub fn from_metadata(
        metadata: &Metadata,
        vocabulary: u32,
    ) -> Result<Option<Pipeline>, LlamaError> {
        if !Pipeline::is_described(metadata) {
            return Ok(None);
        }
        let normalizer =
            Normalizer::parse(&part::<Json>(metadata, keys::NORMALIZER)?.unwrap_or_default());
        let normalizer = normalizer.map_err(|step| unknown("normalizer", step))?;
        let splitter =
            WordSplitter::parse(&part::<Json>(metadata, keys::PRE_TOKENIZER)?.unwrap_or_default());
        let splitter = splitter.map_err(|step| unknown("pre-tokenizer", step))?;
        let added: Vec<AddedToken> = part(metadata, keys::ADDED_TOKENS)?.unwrap_or_default();
        if let Some(token) = added.iter().find(|token| token.id >= u64::from(vocabulary)) {
            let outside = TokenizerError::SpecialToken {
                name: "added",
                id: u32::try_from(token.id).unwrap_or(u32::MAX),
                vocabulary,
            };
            return Err(outside.into());
        }
        Ok(Some(Pipeline {
            added: AddedTokens::new(added, normalizer.as_ref()),
            normalizer,
            splitter,
        }))
    }

    /// Appends the tokens of a text; `begins`: it begins the whole text; `control`: names of control tokens count;
    /// `encode` appends those of a word.
    pub fn encode(
        &self,
        text: &str,
        begins: bool,
        control: bool,
        tokens: &mut Vec<u32>,
        mut encode: impl FnMut(&str, &mut Vec<u32>),
    ) {
        let mut first = begins;
        for segment in self.added.split_written(text, control) {
            match segment {
                Segment::Token(token) => tokens.push(token),
                Segment::Text(part) => self.encode_part(part, first, control, tokens, &mut encode),
            }
            first = false;
        }
    }

    fn encode_part(
        &self,
        part: &str,
        mut first: bool,
        control: bool,
        tokens: &mut Vec<u32>,
        encode: &mut impl FnMut(&str, &mut Vec<u32>),
    ) {
        let normalized = self
            .normalizer
            .as_ref()
            .map(|normalizer| normalizer.apply(part));
        for segment in self
            .added
            .split_normalized(normalized.as_deref().unwrap_or(part), control)
        {
            match segment {
                Segment::Token(token) => tokens.push(token),
                Segment::Text(text) => match &self.splitter {
                    None => encode(text, tokens),
                    Some(splitter) => {
                        for Word { text, .. } in splitter.split(text, first) {
                            encode(&text, tokens);
                        }
                    }
                },
            }
            first = false;
        }
    }
}

/// A part of the file, as JSON in the metadata.
fn part<T: serde::de::DeserializeOwned>(
    metadata: &Metadata,
    key: &'static str,
) -> Result<Option<T>, LlamaError> {
    let Some(json) = metadata.get::<&str>(key)? else {
        return Ok(None);
    };
    let parsed = serde_json::from_str(json);
    let wrong = |error: serde_json::Error| TokenizerError::Json {
        key,
        error: crate::llama::quote::message(error),
    };
    Ok(Some(parsed.map_err(wrong)?))
}

fn unknown(part: &'static str, step: UnknownStep) -> TokenizerError {
    TokenizerError::Step {
        part,
        kind: step.kind,
        reason: step.reason,
    }
}
