use super::tensor_type::TensorType;
use super::value::ValueType;
use crate::llama::quote::quoted;

/// Why a file is not a GGUF file that can be read, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("GGUF file, byte {offset}: {kind}")]
pub struct GgufError {
    /// Bytes from the start of the file to the field that is wrong.
    pub offset: u64,
    /// What is wrong with it.
    pub kind: GgufErrorKind,
}

/// What can be wrong with a GGUF file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "each message says what its fields are")]
pub enum GgufErrorKind {
    #[error("the file starts with {found:02x?} and not with \"GGUF\"")]
    Magic { found: [u8; 4] },
    #[error("version {0} is not supported, only 2 and 3 are")]
    Version(u32),
    #[error("the file is big-endian, only little-endian files are supported")]
    BigEndian,
    #[error("the file ends inside the {what}: it needs {needed} bytes and {left} are left")]
    Truncated {
        what: &'static str,
        needed: u64,
        left: u64,
    },
    #[error("the {what} is {value}, more than the limit of {limit}")]
    TooLarge {
        what: &'static str,
        value: u64,
        limit: u64,
    },
    #[error("the {0} is not UTF-8")]
    NotUtf8(&'static str),
    #[error("{0} is not a metadata value type")]
    UnknownValueType(u32),
    #[error("{0} is neither true (1) nor false (0)")]
    Boolean(u8),
    #[error("the metadata key {quoted} appears twice", quoted = quoted(.0))]
    DuplicateKey(String),
    #[error(
        "general.alignment is {found}; it must be a power of two from 8 to {limit} of type u32"
    )]
    Alignment { found: String, limit: u32 },
    #[error("tensor {quoted} appears twice", quoted = quoted(.0))]
    DuplicateTensor(String),
    #[error("tensor {name} has {found} dimensions; 1 to 4 are possible", name = quoted(name))]
    DimensionCount { name: String, found: u32 },
    #[error("dimension {index} of tensor {name} is zero", name = quoted(name))]
    ZeroDimension { name: String, index: usize },
    #[error("{number} is not a tensor type (tensor {name})", name = quoted(name))]
    UnknownTensorType { name: String, number: u32 },
    #[error(
        "tensor {name} has rows of {columns}, not whole blocks of {tensor_type}",
        name = quoted(name)
    )]
    PartialBlock {
        name: String,
        columns: u64,
        tensor_type: TensorType,
    },
    #[error("tensor {quoted} has more bytes than 64 bits can count", quoted = quoted(.0))]
    TensorOverflow(String),
    #[error(
        "tensor {name} is at offset {found}, not a multiple of the alignment {alignment}",
        name = quoted(name)
    )]
    TensorMisaligned {
        name: String,
        found: u64,
        alignment: u32,
    },
    #[error("tensor {name} ends at byte {end}, but the file has {length}", name = quoted(name))]
    TensorOutsideFile { name: String, end: u64, length: u64 },
    #[error("tensors {first} and {second} overlap", first = quoted(first), second = quoted(second))]
    TensorOverlap { first: String, second: String },
    #[error("arrays of {0} are nested more than {1} deep")]
    Nesting(ValueType, u32),
}
