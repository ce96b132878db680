use std::io;
use std::path::PathBuf;

use crate::llama::files::gguf::TensorType;
use crate::llama::quote::quoted;

/// Why numbers or a model cannot be quantised.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "each message says what its fields are")]
pub enum QuantizeError {
    #[error(
        "{0} cannot be written, only F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_NL, IQ4_XS and MXFP4 can"
    )]
    Target(TensorType),
    #[error(
        "tensor {name} is stored as {found}; only F32, F16 and BF16 can be quantised, for rounding twice would lose more",
        name = quoted(name)
    )]
    Source { name: String, found: TensorType },
    #[error(
        "tensor {name} has rows of {columns}, not whole blocks of {tensor_type}",
        name = quoted(name)
    )]
    PartialBlock {
        name: String,
        columns: u64,
        tensor_type: TensorType,
    },
    #[error(
        "number {index} of tensor {name} is {value}, which {tensor_type} cannot hold",
        name = quoted(name)
    )]
    Number {
        name: String,
        index: u64,
        value: f32,
        tensor_type: TensorType,
    },
    #[error(
        "the importance matrix has {found} columns for {name}, which has {columns}",
        name = quoted(name)
    )]
    Importance {
        name: String,
        found: usize,
        columns: u64,
    },
    #[error("the importance matrix knows no matrix of this model")]
    NoImportance,
    #[error("writing {} was cancelled, and nothing is left of it", .0.display())]
    Cancelled(PathBuf),
    #[error("{} exists already", .0.display())]
    Exists(PathBuf),
    #[error("cannot write {}: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
}
