use crate::llama::files::gguf::GgufError;
use crate::llama::quote::quoted;

/// Why bytes are no importance matrix.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "each message says what its fields are")]
pub enum ImportanceError {
    #[error(transparent)]
    Gguf(#[from] GgufError),
    #[error("it ends at byte {at}, in the middle of {what}")]
    Truncated { what: &'static str, at: usize },
    #[error("{what} at byte {at} is {found}")]
    Length {
        what: &'static str,
        at: usize,
        found: i32,
    },
    #[error("the text of {what} at byte {at} is no UTF-8")]
    Text { what: &'static str, at: usize },
    #[error("its general.type is {}, not imatrix", quoted(.0))]
    Kind(String),
    #[error("tensor {} should be F32 and of whole columns, and have counts beside it", quoted(.0))]
    Tensor(String),
    #[error("the importance of column {column} of {name} is {value}", name = quoted(name))]
    Value {
        name: String,
        column: usize,
        value: f32,
    },
    #[error("it has two entries for {}", quoted(.0))]
    Twice(String),
    #[error("it has no entry")]
    Empty,
}
