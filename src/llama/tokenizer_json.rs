//! The parts of Hugging Face's `tokenizer.json` that act on text around the model: normalizers, pre-tokenizers and
//! added tokens. A folder brings them as the file has them, and GGUF's metadata keeps them as JSON.

mod added_token;
mod character_map;
mod characters;
mod normalizer;
mod step;
mod word_splitter;

pub(in crate::llama) use added_token::AddedToken;
pub(in crate::llama) use character_map::CharacterMap;
pub(in crate::llama) use characters::is_word_character;
pub(in crate::llama) use normalizer::{Bert, Normalizer};
pub(in crate::llama) use step::UnknownStep;
pub(in crate::llama) use word_splitter::{Word, WordSplitter, bert_words};

/// The keys of GGUF's metadata that hold the parts, each as JSON.
pub(in crate::llama) mod keys {
    pub const NORMALIZER: &str = "tokenizer.huggingface.normalizer";
    pub const PRE_TOKENIZER: &str = "tokenizer.huggingface.pre_tokenizer";
    pub const ADDED_TOKENS: &str = "tokenizer.huggingface.added_tokens";
    /// WordPiece's longest word, in characters: a `u32`.
    pub const LONGEST_WORD: &str = "tokenizer.huggingface.max_input_chars_per_word";
}
