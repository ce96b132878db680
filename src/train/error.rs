//! What can go wrong with training.

use std::io;
use std::path::PathBuf;

use crate::llama::safetensors::SafetensorsError;

/// What can go wrong with training: the network, its data, its numbers, or a checkpoint.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "each message says what its fields are")]
pub enum TrainError {
    #[error(transparent)]
    Device(#[from] crate::Error),
    #[error("a tensor cannot be called {name:?}: {reason}")]
    Name { name: String, reason: &'static str },
    #[error("tensor {tensor:?} would have {rows} × {width} elements")]
    Size {
        tensor: String,
        rows: usize,
        width: usize,
    },
    #[error("{operation}: tensor {tensor:?} is {found}, and must be {expected}")]
    Shape {
        operation: &'static str,
        tensor: String,
        found: String,
        expected: String,
    },
    #[error("a variable of another tape")]
    ForeignVariable,
    #[error("tensor {tensor:?} does not depend on a parameter: there is nothing to learn")]
    NothingToLearn { tensor: String },
    #[error(
        "tensor {tensor:?} is no loss: mse and cross_entropy make one, and it is the tape's last operation"
    )]
    NoLoss { tensor: String },
    #[error("tensor {tensor:?} has {expected} elements, {given} were given")]
    Length {
        tensor: String,
        expected: usize,
        given: usize,
    },
    #[error("tensor {tensor:?} has {expected} bytes, {given} were given")]
    Bytes {
        tensor: String,
        expected: usize,
        given: usize,
    },
    #[error("tensor {tensor:?}: rows of {inputs} {dtype} are no weights")]
    Frozen {
        tensor: String,
        dtype: &'static str,
        inputs: usize,
    },
    #[error("tensor {tensor:?} is computed, and cannot be written")]
    NotWritable { tensor: String },
    #[error(
        "tensor {tensor:?} is not kept: its memory is another tensor's by now; Tape::keep changes that"
    )]
    NotKept { tensor: String },
    #[error("tensor {tensor:?}: label {label} of row {row} is outside of the {classes} classes")]
    Label {
        tensor: String,
        row: usize,
        label: u32,
        classes: usize,
    },
    #[error("tensor {tensor:?}: id {id} of row {row} is outside of the table's {vocab} rows")]
    Id {
        tensor: String,
        row: usize,
        id: u32,
        vocab: usize,
    },
    #[error(
        "sequences of {given} rows in all, each with at least one, were given, and the tape has {rows} rows"
    )]
    Sequences { rows: usize, given: usize },
    #[error("{call}: the tape was not played forward since the last time")]
    PlayedTwice { call: &'static str },
    #[error(
        "step {step}: the loss is {loss}, and the first tensor that is not finite is {tensor:?}; nothing was learned from it"
    )]
    NotFinite {
        step: u64,
        tensor: String,
        loss: f32,
    },
    #[error(
        "step {step}: the norm of the gradients is {norm} because of tensor {tensor:?}; nothing was learned from it"
    )]
    GradientNotFinite {
        step: u64,
        tensor: String,
        norm: f32,
    },
    #[error("{option}: is {value}, and must be {expected}")]
    Option {
        option: &'static str,
        value: f32,
        expected: &'static str,
    },
    #[error("cannot write the checkpoint {}: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("cannot read the checkpoint {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot read the checkpoint {}: {source}", path.display())]
    Safetensors {
        path: PathBuf,
        source: SafetensorsError,
    },
    #[error("the checkpoint {} is of another model: {reason}", path.display())]
    OtherModel { path: PathBuf, reason: String },
}
