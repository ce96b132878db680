use crate::llama::quote::quoted;

/// Why a file is not a safetensors file that can be read, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("safetensors file, byte {offset}: {kind}")]
pub struct SafetensorsError {
    /// Bytes from the start of the file to what is wrong.
    pub offset: u64,
    /// What is wrong.
    pub kind: SafetensorsErrorKind,
}

/// What can be wrong with a safetensors file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "each message says what its fields are")]
pub enum SafetensorsErrorKind {
    #[error("the file has {0} bytes, too few for the header's length")]
    TooShort(u64),
    #[error("the header's length is {length}, more than the limit of {limit}")]
    HeaderTooLong { length: u64, limit: u64 },
    #[error("the file ends inside the header: it needs {needed} bytes and {left} are left")]
    Truncated { needed: u64, left: u64 },
    #[error("the header is not the JSON that it should be: {0}")]
    Json(String),
    #[error("tensor {quoted} appears twice", quoted = quoted(.0))]
    DuplicateTensor(String),
    #[error("tensor {name} has more elements than 64 bits can count", name = quoted(name))]
    Overflow { name: String },
    #[error("tensor {name} is from {begin} to {end} and needs {needed} bytes", name = quoted(name))]
    WrongLength {
        name: String,
        begin: u64,
        end: u64,
        needed: u64,
    },
    #[error(
        "tensor {name} ends at byte {end} of the data, which have {length}",
        name = quoted(name)
    )]
    OutsideFile { name: String, end: u64, length: u64 },
    #[error(
        "tensor {name} starts at byte {begin} of the data, and the one before it ends at {end}",
        name = quoted(name)
    )]
    OverlapOrHole { name: String, begin: u64, end: u64 },
    #[error("the last tensor ends at byte {end} of the data, which have {length}")]
    Unused { end: u64, length: u64 },
}
