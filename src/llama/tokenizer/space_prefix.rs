//! The space before a text, which makes its first word the one that it is after others.

use super::SPACE;
use crate::llama::files::gguf::{Metadata, MetadataError};

/// Where a space is put that the text does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SpacePrefix {
    Nowhere,
    /// Before a text and before every part of it behind a control token: llama.cpp's way, and the `tokenizers`
    /// package's Prepend.
    EveryPart,
    /// The same, but for parts that begin with a space: the package's Metaspace with the scheme `always`.
    EveryPartWithoutOne,
    /// Before a text, unless it begins with a space: Metaspace with the scheme `first`.
    TextWithoutOne,
}

impl SpacePrefix {
    /// SentencePiece's default is to put one. GGUF has a key for whether, and folders bring the scheme with them.
    pub fn from_metadata(metadata: &Metadata) -> Result<SpacePrefix, MetadataError> {
        let wanted: Option<bool> = metadata.get("tokenizer.ggml.add_space_prefix")?;
        let scheme: Option<&str> = metadata.get("tokenizer.huggingface.prepend_scheme")?;
        Ok(match (wanted, scheme) {
            (Some(false), _) => SpacePrefix::Nowhere,
            (_, Some("first")) => SpacePrefix::TextWithoutOne,
            (_, Some("always")) => SpacePrefix::EveryPartWithoutOne,
            _ => SpacePrefix::EveryPart,
        })
    }

    /// What comes before a part of a text, whose spaces are escaped; `first`: it begins the text.
    pub fn of(self, part: &str, first: bool) -> &'static str {
        let wanted = match self {
            SpacePrefix::Nowhere => false,
            SpacePrefix::EveryPart => true,
            SpacePrefix::EveryPartWithoutOne => !part.starts_with(SPACE),
            SpacePrefix::TextWithoutOne => first && !part.starts_with(SPACE),
        };
        if wanted { SPACE } else { "" }
    }
}
