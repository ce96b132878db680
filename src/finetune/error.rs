//! What can go wrong with fine-tuning.

use std::io;
use std::path::PathBuf;

use crate::llama::LlamaError;
use crate::train::TrainError;

/// What can go wrong with fine-tuning: the text, the model, the options, the numbers, or a file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "each message says what its fields are")]
pub enum FinetuneError {
    #[error(transparent)]
    Train(#[from] TrainError),
    #[error(transparent)]
    Llama(#[from] LlamaError),
    #[error(transparent)]
    Device(#[from] crate::Error),
    #[error("there is no text to learn")]
    NoText,
    #[error("line {line}: {reason}")]
    Line { line: usize, reason: String },
    #[error(
        "the text has {tokens} tokens to learn, which fill no sequence of {sequence}; shorter sequences or more text will do"
    )]
    TooShort { tokens: usize, sequence: usize },
    #[error("{option} is {value}, and must be {expected}")]
    Option {
        option: &'static str,
        value: String,
        expected: String,
    },
    #[error("a {architecture} cannot be fine-tuned here: {reason}")]
    Architecture {
        architecture: &'static str,
        reason: String,
    },
    #[error("nothing was held out of the text, so there is nothing to evaluate")]
    NothingHeldOut,
    #[error("{} is there already", .0.display())]
    Exists(PathBuf),
    #[error("cannot write the adapter {}: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
}
