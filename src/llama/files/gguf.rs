//! GGUF, the file format of llama.cpp's models: versions 2 and 3, little-endian.
//!
//! A file is a header, a table of typed metadata, a table of tensors and the tensors' bytes
//! (<https://github.com/ggml-org/ggml/blob/master/docs/gguf.md>). Files come from strangers, so nothing in one is
//! believed: each count, length, offset and alignment is held against the file's size and against a cap before anything
//! is allocated or read for it, and whatever is wrong is a [`GgufError`] that names the byte.

mod cursor;
mod error;
mod file;
mod header;
mod metadata;
mod tensor;
mod tensor_type;
mod value;
mod writer;

pub use error::{GgufError, GgufErrorKind};
pub use file::GgufFile;
pub use header::{GgufHeader, limits};
pub use metadata::{FromValue, Metadata, MetadataError};
pub use tensor::TensorInfo;
pub use tensor_type::TensorType;
pub use value::{Array, Value, ValueType};
pub use writer::{GgufWriter, NewTensor};

#[cfg(test)]
mod tests;
