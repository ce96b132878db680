//! What SentencePiece does to a text before it is split: `Normalizer::Normalize` of its `normalizer.cc`.

use std::borrow::Cow;

use super::SPACE;
use super::space_prefix::SpacePrefix;
use super::vocabulary::{TokenizerError, Vocabulary};
use crate::llama::error::LlamaError;
use crate::llama::files::gguf::{Array, Metadata, MetadataError, Value};
use crate::llama::tokenizer_json::CharacterMap;

const CHARACTER_MAP: &str = "tokenizer.ggml.precompiled_charsmap";

#[derive(Clone, Debug)]
pub(super) struct SentencePieceNormalizer {
    map: Option<Box<CharacterMap>>,
    /// Spaces at the begin, at the end, and behind another space are left out.
    removes_extra_spaces: bool,
    prefix: SpacePrefix,
}

impl SentencePieceNormalizer {
    /// One that escapes spaces, and nothing else.
    pub fn new(prefix: SpacePrefix) -> SentencePieceNormalizer {
        SentencePieceNormalizer {
            map: None,
            removes_extra_spaces: false,
            prefix,
        }
    }

    pub fn from_metadata(metadata: &Metadata) -> Result<SentencePieceNormalizer, LlamaError> {
        let map = character_map(metadata)?.filter(|bytes| !bytes.is_empty());
        let map = map.map(|bytes| CharacterMap::parse(&bytes)).transpose();
        let removes = metadata.get("tokenizer.ggml.remove_extra_whitespaces")?;
        Ok(SentencePieceNormalizer {
            map: map.map_err(TokenizerError::Normalizer)?.map(Box::new),
            removes_extra_spaces: removes.unwrap_or(false),
            prefix: SpacePrefix::from_metadata(metadata)?,
        })
    }

    pub fn prefix(&self) -> SpacePrefix {
        self.prefix
    }

    pub fn removes_extra_spaces(&self) -> bool {
        self.removes_extra_spaces
    }

    /// A part of a text with escaped spaces and what comes before it; `first`: it begins the text.
    pub fn apply(&self, vocabulary: &Vocabulary, text: &str, first: bool) -> String {
        let normalized = match self.map.is_some() || self.removes_extra_spaces {
            true => Cow::Owned(self.normalize(vocabulary, text)),
            false => Cow::Borrowed(text),
        };
        let escaped = normalized.replace(' ', SPACE);
        let mut whole = format!("{}{escaped}", self.prefix.of(&escaped, first));
        if self.removes_extra_spaces {
            whole.truncate(whole.trim_end_matches(SPACE).len());
        }
        whole
    }

    fn normalize(&self, vocabulary: &Vocabulary, text: &str) -> String {
        let mut normalized = String::with_capacity(text.len());
        let mut behind_space = self.removes_extra_spaces;
        let mut rest = text;
        while let Some((part, length)) = self.normalize_start(vocabulary, rest) {
            rest = &rest[length..];
            let part = match behind_space {
                true => part.trim_start_matches(' '),
                false => part,
            };
            normalized.push_str(part);
            if !part.is_empty() {
                behind_space = self.removes_extra_spaces && part.ends_with(' ');
            }
        }
        normalized
    }

    /// What the begin of a text becomes, and that begin's length: a user-defined piece stays, the longest entry of the
    /// table is replaced, and another character stays.
    fn normalize_start<'a>(
        &'a self,
        vocabulary: &Vocabulary,
        text: &'a str,
    ) -> Option<(&'a str, usize)> {
        let character = text.chars().next()?;
        let own = vocabulary.user_defined_prefix(text.as_bytes());
        if let Some(length) = own.filter(|length| text.is_char_boundary(*length)) {
            return Some((&text[..length], length));
        }
        let found = self
            .map
            .as_ref()
            .and_then(|map| map.longest_prefix(text.as_bytes()));
        let found = found.filter(|(length, _)| text.is_char_boundary(*length));
        let length = character.len_utf8();
        Some(found.map_or((&text[..length], length), |(length, text)| (text, length)))
    }
}

/// The table as the file has it: llama.cpp reads bytes of both signs.
fn character_map(metadata: &Metadata) -> Result<Option<Vec<u8>>, MetadataError> {
    Ok(match metadata.value(CHARACTER_MAP) {
        None => None,
        Some(Value::Array(Array::U8(bytes))) => Some(bytes.clone()),
        Some(Value::Array(Array::I8(bytes))) => {
            Some(bytes.iter().map(|byte| *byte as u8).collect())
        }
        Some(other) => {
            return Err(MetadataError::WrongType {
                key: CHARACTER_MAP.to_owned(),
                expected: "an array of bytes",
                found: other.value_type().to_string(),
            });
        }
    })
}
