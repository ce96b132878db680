use std::io;
use std::ops::Range;
use std::path::PathBuf;

#[cfg(feature = "chat")]
use super::chat::ChatError;
use super::quantize::QuantizeError;
use super::quote::{message, quoted};
use super::tokenizer::TokenizerError;
use crate::llama::files::adapter::AdapterError;
use crate::llama::files::gguf::{GgufError, MetadataError, TensorType};
use crate::llama::files::hugging_face::HuggingFaceError;
use crate::llama::files::importance::ImportanceError;
use crate::llama::files::safetensors::SafetensorsError;
use crate::llama::sampling::sampler::SamplerError;

/// What can go wrong with a model: its file, its numbers, or what is asked of it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "each message says what its fields are")]
pub enum LlamaError {
    #[error("cannot open the model file {}: {source}", path.display())]
    Open { path: PathBuf, source: io::Error },
    #[error("{} is no part of a whole model: {reason}", path.display())]
    Split { path: PathBuf, reason: String },
    #[error("cannot read the model file {}: {source}", path.display())]
    Gguf { path: PathBuf, source: GgufError },
    #[error("cannot read the importance matrix {}: {source}", path.display())]
    Importance {
        path: PathBuf,
        source: ImportanceError,
    },
    #[error("cannot use the adapter {}: {source}", path.display())]
    Adapter { path: PathBuf, source: AdapterError },
    #[error("cannot read the weights {}: {source}", path.display())]
    Safetensors {
        path: PathBuf,
        source: SafetensorsError,
    },
    #[error("cannot read the model in {}: {source}", path.display())]
    HuggingFace {
        path: PathBuf,
        source: HuggingFaceError,
    },
    #[error(transparent)]
    Metadata(#[from] MetadataError),
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
    #[error(transparent)]
    Sampler(#[from] SamplerError),
    #[error(transparent)]
    Quantize(#[from] QuantizeError),
    #[cfg(feature = "chat")]
    #[error(transparent)]
    Chat(#[from] ChatError),
    #[error("the model's {key} is {value}: {reason}", value = message(value))]
    Hyperparameter {
        key: String,
        value: String,
        reason: &'static str,
    },
    #[error("the model file lacks the tensor {quoted}", quoted = quoted(.0))]
    MissingTensor(String),
    #[error(
        "the model file has a tensor {quoted} that this architecture does not use",
        quoted = quoted(.0)
    )]
    UnexpectedTensor(String),
    #[error(
        "tensor {name} should be {expected:?} and is {found:?} (sizes in GGML's order)",
        name = quoted(name)
    )]
    TensorShape {
        name: String,
        expected: Vec<u64>,
        found: Vec<u64>,
    },
    #[error(
        "tensor {name} is stored as {found}, only {supported} can be used there",
        name = quoted(name)
    )]
    TensorType {
        name: String,
        found: TensorType,
        supported: &'static str,
    },
    #[error("there is no token to start from")]
    NoTokens,
    #[error("token {id} is outside the vocabulary of {vocabulary}")]
    TokenOutOfRange { id: u32, vocabulary: u32 },
    #[error("{tokens} tokens do not fit in the context of {context}")]
    ContextFull { tokens: usize, context: usize },
    #[error("a text of {0} tokens has none to predict")]
    NothingToPredict(usize),
    #[error(
        "{tokens} tokens are no whole chunk of {context}, and chunks have at least 3; a shorter context cuts the text"
    )]
    NoWholeChunk { tokens: usize, context: usize },
    #[error("there must be at least one sequence")]
    NoSequences,
    #[error("{0}: is 0, and must be at least 1")]
    ZeroOption(&'static str),
    #[error("sequence {index} of {count} is not there, or is named twice")]
    Sequence { index: usize, count: usize },
    #[error(
        "positions {} to {} cannot be forgotten: {seen} were seen",
        positions.start, positions.end
    )]
    Forget {
        positions: Range<usize>,
        seen: usize,
    },
    #[error(
        "heads of {head_dim} elements cannot be cached as {cache}: they must be blocks of {block}"
    )]
    CacheType {
        cache: &'static str,
        head_dim: usize,
        block: usize,
    },
    #[error("the text's vector has the length {0}, and no direction")]
    Embedding(f64),
    #[error("{0} was cancelled")]
    Cancelled(&'static str),
    #[error("the saved sequence cannot be restored: {0}")]
    Snapshot(String),
    #[error("a context of {asked} was asked for, and the model was trained on one of {trained}")]
    ContextTooLong { asked: usize, trained: usize },
}

// So that `?` turns the errors of the parts into the crate's in one step.
macro_rules! join_the_crates_error {
    ($($part:ty),*) => {$(
        impl From<$part> for crate::Error {
            fn from(error: $part) -> crate::Error {
                LlamaError::from(error).into()
            }
        }
    )*};
}
join_the_crates_error!(MetadataError, TokenizerError, SamplerError, QuantizeError);
#[cfg(feature = "chat")]
join_the_crates_error!(ChatError);
