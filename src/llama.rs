//! LLaMA: the file, the tokenizer, the model and the generation of text.

mod error;
pub mod gguf;
pub mod sampler;
pub mod tokenizer;

pub use error::LlamaError;
