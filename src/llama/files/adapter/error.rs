use crate::llama::files::gguf::TensorType;
use crate::llama::quote::quoted;

/// Why a file is no LoRA adapter, or none of a model.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "each message says what its fields are")]
pub enum AdapterError {
    #[error("its {key} is {}, and must be {expected}", quoted(found))]
    Kind {
        key: &'static str,
        found: String,
        expected: &'static str,
    },
    #[error("its alpha is {0}, and must be finite")]
    Alpha(f32),
    #[error("tensor {} is of no LoRA: names end with .lora_a or .lora_b", quoted(.0))]
    Tensor(String),
    #[error("tensor {} is there without {}", quoted(name), quoted(other))]
    Alone { name: String, other: String },
    #[error("tensor {} is no matrix", quoted(.0))]
    Matrix(String),
    #[error(
        "tensor {} is stored as {found}, and must be F32, F16 or BF16",
        quoted(name)
    )]
    TensorType { name: String, found: TensorType },
    #[error(
        "the change of {} has rank {down} in lora_a and {up} in lora_b",
        quoted(weight)
    )]
    Rank {
        weight: String,
        down: usize,
        up: usize,
    },
    #[error("it changes nothing")]
    Empty,
    #[error("it was made for a {}, and the model is a {model}", quoted(adapter))]
    Architecture {
        adapter: String,
        model: &'static str,
    },
    #[error("it changes {}, which the model does not have as a matrix of weights", quoted(.0))]
    NoWeight(String),
    #[error(
        "its change of {weight} is of {found:?} (inputs, outputs), and the model's has {expected:?}",
        weight = quoted(weight)
    )]
    Sizes {
        weight: String,
        found: [usize; 2],
        expected: [usize; 2],
    },
    #[error("its scale is {0}, and must be finite")]
    Scale(f32),
}
