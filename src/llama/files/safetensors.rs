//! Safetensors, the file format of Hugging Face's weights.
//!
//! A file is the length of a JSON header, the header and the tensors' bytes
//! (<https://huggingface.co/docs/safetensors>). Files come from strangers, so nothing in one is believed: what is wrong
//! is a [`SafetensorsError`] that names the byte, and nothing is allocated that the header's length, which is capped,
//! does not account for.

mod error;
mod header;

pub use error::{SafetensorsError, SafetensorsErrorKind};
pub use header::{SafetensorsDtype, SafetensorsHeader, SafetensorsTensor, limits};

#[cfg(test)]
mod tests;
