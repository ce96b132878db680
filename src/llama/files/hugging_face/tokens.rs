//! A vocabulary in the making.

use super::config::FolderConfig;
use super::error::HuggingFaceError;
use crate::llama::tokenizer_json::AddedToken;

/// The most tokens. The largest vocabularies have 262,144.
const TOKENS: usize = 1 << 20;

/// GGUF's kinds of tokens that are made here.
pub(super) mod kinds {
    pub const NORMAL: i32 = 1;
    pub const UNKNOWN: i32 = 2;
    pub const CONTROL: i32 = 3;
    pub const USER_DEFINED: i32 = 4;
    pub const UNUSED: i32 = 5;
    pub const BYTE: i32 = 6;
}

/// A vocabulary in the making.
#[derive(Default)]
pub(super) struct Tokens {
    pub pieces: Vec<Box<[u8]>>,
    pub scores: Vec<f32>,
    pub kinds: Vec<i32>,
}

impl Tokens {
    pub fn put(
        &mut self,
        piece: &str,
        id: u64,
        score: f32,
        kind: i32,
    ) -> Result<(), HuggingFaceError> {
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
    pub fn add(&mut self, added: &[AddedToken]) -> Result<(), HuggingFaceError> {
        self.add_but(added, &[])
    }

    /// The same where added tokens are found before the model sees a text: the model finds its own ones besides.
    pub fn add_to_own(&mut self, added: &[AddedToken]) -> Result<(), HuggingFaceError> {
        self.add_but(added, &[kinds::NORMAL])
    }

    /// `kept`: the kinds that tokens of the model's own keep unless they are special.
    fn add_but(&mut self, added: &[AddedToken], kept: &[i32]) -> Result<(), HuggingFaceError> {
        for token in added {
            let own = self.kinds.get(token.id as usize);
            let kind = match own {
                // Unknown ones and bytes are special in their own ways.
                Some(&kinds::UNKNOWN | &kinds::BYTE) if token.special => continue,
                _ if token.special => kinds::CONTROL,
                Some(kind) if kept.contains(kind) => *kind,
                _ => kinds::USER_DEFINED,
            };
            let score = self.scores.get(token.id as usize).copied().unwrap_or(0.0);
            self.put(&token.content, token.id, score, kind)?;
        }
        Ok(())
    }

    /// Embeddings may have more rows than there are tokens.
    pub fn pad(&mut self, config: &FolderConfig) -> Result<(), HuggingFaceError> {
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
