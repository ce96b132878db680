//! The files that models come in: GGUF, safetensors and Hugging Face folders; and what comes beside them.

pub(crate) mod adapter;
pub(crate) mod floats;
pub mod gguf;
pub(crate) mod hugging_face;
pub(crate) mod importance;
pub(crate) mod iq;
pub(crate) mod mapped_file;
pub(crate) mod model_file;
mod open;
pub(crate) mod progress;
pub mod safetensors;
mod split;
