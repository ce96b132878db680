//! LLaMA: reading a model's file, and writing text with it.
//!
//! A [`Model`] is a file's weights on a [`Device`](crate::Device), a [`Session`] is one text in the making, and a
//! [`Generation`] writes it token by token. [`Sequences`] are many texts that are computed together. What the families
//! of models differ in is told by [`Architecture`].
//!
//! ```
//! use ironbridge::Device;
//! use ironbridge::llama::{Model, Sampler, SamplerOptions};
//!
//! # fn main() -> Result<(), ironbridge::Error> {
//! # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/tiny-rustbook-q8_0.gguf");
//! let model = Model::open(&Device::open("cpu")?, path)?;
//! let mut session = model.session()?;
//! let greedy = Sampler::new(SamplerOptions::default())?;
//! let mut text = String::new();
//! for piece in session.generate(&model.encode_prompt("Ownership is"), greedy, 8) {
//!     text.push_str(&piece?.text);
//! }
//! assert_eq!(text, " a set of rules that govern");
//! # Ok(())
//! # }
//! ```

mod activations;
mod architecture;
mod cancel;
#[cfg(feature = "chat")]
mod chat;
mod config;
mod error;
mod evaluation;
mod generation;
pub mod gguf;
mod hugging_face;
mod kv_cache;
mod mapped_file;
mod model;
mod model_file;
mod perplexity;
mod quantize;
mod quote;
mod rope_scaling;
pub mod safetensors;
mod sampler;
mod sequences;
mod session;
mod stop_strings;
pub mod tokenizer;
mod weights;
mod writer;

pub use architecture::Architecture;
pub use cancel::CancelToken;
#[cfg(feature = "chat")]
pub use chat::{
    ChatEncoder, ChatError, ChatMessage, ChatTemplate, ChatTemplateLimit, ChatTemplateLimits,
};
pub use config::Config;
pub use error::LlamaError;
pub use evaluation::Pooling;
pub use generation::{Generation, GenerationStats};
pub use gguf::GgufFile;
pub use hugging_face::HuggingFaceError;
pub use kv_cache::CacheType;
pub use model::{LoadOptions, Model};
pub use model_file::{ModelFile, ModelFormat, ModelTensor};
pub use perplexity::{Perplexity, PerplexityOptions, PerplexityProgress};
pub use quantize::{QuantizeError, QuantizeReport, Quantizer, quantize};
pub use rope_scaling::{RopeScaling, Yarn};
pub use sampler::{LogitMask, Sampler, SamplerError, SamplerOptions};
pub use sequences::{Logits, Sequences};
pub use session::{Session, SessionOptions};
pub use tokenizer::Tokenizer;
pub use weights::{LoadProgress, WeightStorage};
pub use writer::{GenerationOptions, LogProbabilities, Piece, Stop, WhenFull, Writer};
