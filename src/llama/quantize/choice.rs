//! Which type each tensor gets.

use super::error::QuantizeError;
use crate::llama::error::LlamaError;
use crate::llama::files::gguf::TensorType;
use crate::llama::files::model_file::{ModelFile, ModelFormat, ModelTensor};

/// Types of a tensor.
pub(super) struct Choice {
    pub asked: TensorType,
    /// The one whose blocks its rows are made of.
    pub fits: TensorType,
}

impl Choice {
    fn same(tensor_type: TensorType) -> Choice {
        Choice {
            asked: tensor_type,
            fits: tensor_type,
        }
    }
}

/// The type of a tensor in a file of `wanted` matrices.
pub(super) fn tensor_type(
    model: &ModelFile,
    tensor: &ModelTensor,
    wanted: TensorType,
    overrides: &[(String, TensorType)],
) -> Result<Choice, LlamaError> {
    let name = tensor.name();
    if model.format() == ModelFormat::HuggingFace && name == tensor.stored_name() {
        return Err(LlamaError::UnexpectedTensor(name.to_owned()));
    }
    let columns = tensor.dimensions()[0];
    // The last word counts.
    if let Some((_, tensor_type)) = overrides.iter().rev().find(|(other, _)| other == name) {
        return match columns % tensor_type.block_length() {
            0 => Ok(Choice::same(*tensor_type)),
            _ => Err(QuantizeError::PartialBlock {
                name: name.to_owned(),
                columns,
                tensor_type: *tensor_type,
            }
            .into()),
        };
    }
    if tensor.dimensions().len() == 1 {
        return Ok(Choice::same(TensorType::F32));
    }
    let is_output = match name {
        "output.weight" => true,
        "token_embd.weight" => model.tensor("output.weight").is_none(),
        _ => false,
    };
    let wanted = match is_output && bits(wanted) < bits(TensorType::Q6_K) {
        true => TensorType::Q6_K,
        false => wanted,
    };
    Ok(Choice {
        asked: wanted,
        fits: fitting(wanted, columns),
    })
}

/// Bits of 256 numbers.
fn bits(tensor_type: TensorType) -> u64 {
    tensor_type.block_size() * 8 * 256 / tensor_type.block_length()
}

/// A type of about the size that can store rows of this many numbers.
fn fitting(wanted: TensorType, columns: u64) -> TensorType {
    let smaller_blocks = match wanted {
        TensorType::Q2_K | TensorType::Q3_K => TensorType::Q4_0,
        TensorType::Q4_K => TensorType::Q5_0,
        TensorType::Q5_K => TensorType::Q5_1,
        TensorType::Q6_K => TensorType::Q8_0,
        TensorType::IQ4_XS => TensorType::IQ4_NL,
        other => other,
    };
    [wanted, smaller_blocks]
        .into_iter()
        .find(|tensor_type| columns.is_multiple_of(tensor_type.block_length()))
        .unwrap_or(TensorType::F16)
}

/// The number of a file's type in `general.file_type` (llama.cpp's `LlamaFileType`): for the K types that of the
/// mixture with the fewest other types.
pub(super) fn file_type(tensor_type: TensorType) -> Option<u32> {
    match tensor_type {
        TensorType::F32 => Some(0),
        TensorType::F16 => Some(1),
        TensorType::Q4_0 => Some(2),
        TensorType::Q4_1 => Some(3),
        TensorType::Q8_0 => Some(7),
        TensorType::Q5_0 => Some(8),
        TensorType::Q5_1 => Some(9),
        TensorType::Q3_K => Some(11),
        TensorType::Q4_K => Some(14),
        TensorType::Q5_K => Some(16),
        TensorType::Q6_K => Some(18),
        TensorType::Q2_K => Some(21),
        TensorType::IQ4_NL => Some(25),
        TensorType::IQ4_XS => Some(30),
        TensorType::BF16 => Some(32),
        TensorType::MXFP4 => Some(38),
        _ => None,
    }
}
