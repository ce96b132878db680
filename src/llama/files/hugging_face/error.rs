use crate::llama::quote::{message, quoted};

/// Why a folder is not a model of Hugging Face's that can be read. The file is named by
/// [`LlamaError::HuggingFace`](crate::llama::LlamaError::HuggingFace).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "each message says what its fields are")]
pub enum HuggingFaceError {
    #[error("it has {length} bytes, more than the limit of {limit}")]
    TooLarge { length: u64, limit: u64 },
    #[error("it is not the JSON that it should be: {0}")]
    Json(String),
    #[error("{quoted} is missing", quoted = quoted(.0))]
    Missing(String),
    #[error("{key} should be {expected}", key = quoted(key))]
    WrongType { key: String, expected: &'static str },
    #[error("{key} is {value}: {reason}", key = quoted(key), value = message(value))]
    Unsupported {
        key: String,
        value: String,
        reason: &'static str,
    },
    #[error(
        "the folder has neither model.safetensors nor model.safetensors.index.json; weights in other formats are not read"
    )]
    NoWeights,
    #[error("the index names {quoted}, which cannot be a file of the folder", quoted = quoted(.0))]
    ForeignFile(String),
    #[error("the index has {0} files, more than the limit of {1}")]
    TooManyFiles(usize, usize),
    #[error(
        "the index says that {file} has the tensor {tensor}, and it has not",
        file = quoted(file), tensor = quoted(tensor)
    )]
    MissingFromFile { tensor: String, file: String },
    #[error("tensor {quoted} is in two files, or has two names", quoted = quoted(.0))]
    DuplicateTensor(String),
    #[error(
        "tensor {name} is stored as {dtype}; F32, F16 and BF16 can be used",
        name = quoted(name)
    )]
    DType { name: String, dtype: &'static str },
    #[error(
        "tensor {name} has the shape {shape:?}; 1 to 4 sizes above zero are possible",
        name = quoted(name)
    )]
    Shape { name: String, shape: Vec<u64> },
    #[error(
        "tensor {name} has {rows} rows, which are not {heads} heads of an even size",
        name = quoted(name)
    )]
    Heads { name: String, rows: u64, heads: u64 },
    #[error("the folder has neither tokenizer.model nor tokenizer.json")]
    NoTokenizer,
    #[error("byte {offset}: {reason}")]
    SentencePiece { offset: usize, reason: &'static str },
    #[error("token {piece} has the number {id}: {reason}", piece = quoted(piece))]
    Token {
        piece: String,
        id: u64,
        reason: &'static str,
    },
}
