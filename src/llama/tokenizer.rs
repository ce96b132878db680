//! The tokenizer that a LLaMA file brings with it: SentencePiece's byte-pair encoding.
//!
//! Text becomes pieces of the vocabulary by merging neighbours, best score first, as SentencePiece's `bpe_model.cc`
//! does; what the vocabulary lacks is spelled in byte tokens. A space is the character `▁` (U+2581) inside a piece.

mod decoder;
mod merge;
mod vocabulary;

use super::LlamaError;
use super::gguf::Metadata;
pub use decoder::Decoder;
use vocabulary::Vocabulary;
pub use vocabulary::{TokenKind, TokenizerError};

/// What SentencePiece writes for a space.
const SPACE: &str = "\u{2581}";

/// Turns text into tokens and back.
#[derive(Clone, Debug)]
pub struct Tokenizer {
    vocabulary: Vocabulary,
    special: SpecialTokens,
    add_bos: bool,
    add_eos: bool,
    add_space_prefix: bool,
}

/// The tokens that mean something besides text.
#[derive(Clone, Copy, Debug)]
struct SpecialTokens {
    bos: u32,
    eos: u32,
    /// The end of a turn, where a model for conversations has such a token.
    eot: Option<u32>,
}

/// What [`Tokenizer::encode_with`] does besides splitting text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EncodeOptions {
    /// Puts the tokens for the begin and the end of a text where the model wants them.
    pub add_special: bool,
    /// Reads the names of control tokens, such as `</s>`, as those tokens and not as text. Leave it off for text from
    /// strangers.
    pub parse_special: bool,
}

impl Tokenizer {
    /// The tokenizer in a GGUF file's metadata, whose `tokenizer.ggml.model` must be `"llama"`.
    ///
    /// # Errors
    ///
    /// [`LlamaError::Metadata`] when a key is missing or of another type, [`LlamaError::Tokenizer`] when the values do
    /// not make a tokenizer.
    pub fn from_metadata(metadata: &Metadata) -> Result<Tokenizer, LlamaError> {
        let model: &str = metadata.require("tokenizer.ggml.model")?;
        if model != "llama" {
            return Err(TokenizerError::Model(model.to_owned()).into());
        }
        let unknown = metadata
            .get("tokenizer.ggml.unknown_token_id")?
            .unwrap_or(0);
        let vocabulary = Vocabulary::new(
            metadata.require("tokenizer.ggml.tokens")?,
            metadata.require("tokenizer.ggml.scores")?,
            metadata.require("tokenizer.ggml.token_type")?,
            unknown,
        )?;
        // Files that do not say have LLaMA's own: <unk>, <s>, </s> and a space before the text.
        let special = SpecialTokens {
            bos: metadata.get("tokenizer.ggml.bos_token_id")?.unwrap_or(1),
            eos: metadata.get("tokenizer.ggml.eos_token_id")?.unwrap_or(2),
            eot: metadata.get("tokenizer.ggml.eot_token_id")?,
        };
        for (name, id) in [
            ("bos", Some(special.bos)),
            ("eos", Some(special.eos)),
            ("eot", special.eot),
        ] {
            if let Some(id) = id.filter(|id| *id >= vocabulary.len()) {
                let vocabulary = vocabulary.len();
                return Err(TokenizerError::SpecialToken {
                    name,
                    id,
                    vocabulary,
                }
                .into());
            }
        }
        Ok(Tokenizer {
            vocabulary,
            special,
            add_bos: metadata
                .get("tokenizer.ggml.add_bos_token")?
                .unwrap_or(true),
            add_eos: metadata
                .get("tokenizer.ggml.add_eos_token")?
                .unwrap_or(false),
            add_space_prefix: metadata
                .get("tokenizer.ggml.add_space_prefix")?
                .unwrap_or(true),
        })
    }

    /// How many tokens there are.
    pub fn vocabulary_size(&self) -> u32 {
        self.vocabulary.len()
    }

    /// The token that begins a text.
    pub fn bos(&self) -> u32 {
        self.special.bos
    }

    /// The token that ends a text.
    pub fn eos(&self) -> u32 {
        self.special.eos
    }

    /// Whether a model that writes this token has finished.
    pub fn is_end(&self, token: u32) -> bool {
        token == self.special.eos || Some(token) == self.special.eot
    }

    /// A token's piece as the vocabulary has it and what kind it is; `None` outside the vocabulary.
    pub fn piece(&self, token: u32) -> Option<(&[u8], TokenKind)> {
        self.vocabulary.piece(token)
    }

    /// The tokens of a text, and nothing else.
    pub fn encode(&self, text: &str) -> Vec<u32> {
        self.encode_with(text, EncodeOptions::default())
    }

    /// The tokens of a text.
    pub fn encode_with(&self, text: &str, options: EncodeOptions) -> Vec<u32> {
        let mut tokens = Vec::new();
        if options.add_special && self.add_bos {
            tokens.push(self.special.bos);
        }
        let mut rest = text;
        if options.parse_special {
            while let Some((start, length, token)) = self.vocabulary.find_control(rest) {
                self.encode_text(&rest[..start], &mut tokens);
                tokens.push(token);
                rest = &rest[start + length..];
            }
        }
        self.encode_text(rest, &mut tokens);
        if options.add_special && self.add_eos {
            tokens.push(self.special.eos);
        }
        tokens
    }

    fn encode_text(&self, text: &str, tokens: &mut Vec<u32>) {
        if text.is_empty() {
            return;
        }
        let prefix = if self.add_space_prefix { SPACE } else { "" };
        let escaped = format!("{prefix}{}", text.replace(' ', SPACE));
        merge::encode(&self.vocabulary, &escaped, tokens);
    }

    /// The text of tokens. The space that encoding puts before a text is taken away again; control tokens have no text;
    /// bytes that are no UTF-8 become U+FFFD.
    ///
    /// # Errors
    ///
    /// [`TokenizerError::OutOfRange`] for a token outside the vocabulary.
    pub fn decode(&self, tokens: &[u32]) -> Result<String, TokenizerError> {
        let mut decoder = Decoder::of_text(self);
        let mut text = String::new();
        for token in tokens {
            text.push_str(decoder.push(*token)?);
        }
        text.push_str(decoder.finish());
        Ok(text)
    }
}

#[cfg(test)]
mod tests;
