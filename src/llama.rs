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

mod arch;
#[cfg(feature = "chat")]
mod chat;
mod error;
mod files;
mod model;
mod pre_tokenizer;
mod quantize;
mod quote;
mod runtime;
mod sampling;
pub mod tokenizer;
mod tokenizer_json;

pub use arch::architecture::Architecture;
pub use arch::config::{Config, LayerPlan};
pub use arch::rope_scaling::{RopeScaling, Yarn};
#[cfg(feature = "train")]
pub(crate) use arch::spec;
#[cfg(feature = "chat")]
pub use chat::{
    ChatEncoder, ChatError, ChatMessage, ChatTemplate, ChatTemplateLimit, ChatTemplateLimits,
};
pub use error::LlamaError;
pub use files::adapter::{AdapterError, LoraAdapter, LoraSizes};
pub use files::gguf::GgufFile;
pub use files::hugging_face::HuggingFaceError;
pub use files::importance::{ImportanceError, ImportanceMatrix};
pub use files::model_file::{ModelFile, ModelFormat, ModelTensor};
pub use files::progress::LoadProgress;
#[cfg(feature = "train")]
pub(crate) use files::{adapter, floats, iq};
pub use files::{gguf, safetensors};
pub use model::kv_cache::CacheType;
pub use model::weights::WeightStorage;
pub use model::{LoadOptions, Model};
pub use quantize::{QuantizeError, QuantizeMix, QuantizeReport, Quantizer, quantize};
pub use runtime::cancel::CancelToken;
pub use runtime::decoder::{GenerationOptions, LogProbabilities, Piece, Stop, WhenFull, Writer};
pub use runtime::evaluation::Pooling;
pub(crate) use runtime::generation::GenerationSteps;
pub use runtime::generation::{Generation, GenerationStats};
pub use runtime::options::SessionOptions;
pub use runtime::perplexity::{
    Perplexity, PerplexityOptions, PerplexityProgress, PerplexityWindows,
};
pub use runtime::sequences::{Logits, Sequences};
pub use runtime::session::Session;
pub use sampling::sampler::{LogitMask, Sampler, SamplerError, SamplerOptions};
pub use tokenizer::Tokenizer;
