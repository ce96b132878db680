//! Tokens that were added to a model's own.

use serde::{Deserialize, Serialize};

/// One of `added_tokens`, with the package's rules for finding it in a text.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(in crate::llama) struct AddedToken {
    pub id: u64,
    pub content: String,
    #[serde(default)]
    pub special: bool,
    /// Takes the white space on its left, or on its right, with it.
    #[serde(default)]
    pub lstrip: bool,
    #[serde(default)]
    pub rstrip: bool,
    /// Is found between characters that are part of no word.
    #[serde(default)]
    pub single_word: bool,
    /// Is normalized itself, and found in the normalized text.
    #[serde(default)]
    pub normalized: bool,
}

impl AddedToken {
    /// Whether the text around it matters.
    pub fn takes_context(&self) -> bool {
        self.lstrip || self.rstrip || self.single_word
    }
}
