//! llama.cpp's mixes: `llama_tensor_get_type` of its `llama-quant.cpp`, for the architectures that are here and without
//! an importance matrix.

use crate::llama::files::gguf::TensorType;
use crate::llama::files::model_file::ModelFile;

/// Types by a tensor's place in the model. The tensors that matter more have more bits than the type in the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(
    non_camel_case_types,
    missing_docs,
    reason = "these are llama.cpp's names"
)]
#[non_exhaustive]
pub enum QuantizeMix {
    Q3_K_S,
    Q3_K_M,
    Q3_K_L,
    Q4_K_S,
    Q4_K_M,
    Q5_K_S,
    Q5_K_M,
}

/// What of a model the choice depends on.
pub(super) struct Layers(usize);

impl Layers {
    pub fn of(model: &ModelFile) -> Layers {
        let layers = model
            .tensors()
            .iter()
            .filter_map(|tensor| layer_of(tensor.name()));
        Layers(layers.max().map_or(0, |last| last.saturating_add(1)))
    }

    /// The first and the last eighth, and every third between.
    fn is_weighty(&self, layer: usize) -> bool {
        let eighth = self.0 / 8;
        layer < eighth || layer >= 7 * self.0 / 8 || (layer - eighth) % 3 == 2
    }
}

fn layer_of(name: &str) -> Option<usize> {
    let (number, _) = name.strip_prefix("blk.")?.split_once('.')?;
    number.parse().ok()
}

impl QuantizeMix {
    /// All of them.
    pub const ALL: &[QuantizeMix] = &[
        QuantizeMix::Q3_K_S,
        QuantizeMix::Q3_K_M,
        QuantizeMix::Q3_K_L,
        QuantizeMix::Q4_K_S,
        QuantizeMix::Q4_K_M,
        QuantizeMix::Q5_K_S,
        QuantizeMix::Q5_K_M,
    ];

    /// llama.cpp's name: `"Q4_K_M"`.
    pub fn name(self) -> &'static str {
        match self {
            QuantizeMix::Q3_K_S => "Q3_K_S",
            QuantizeMix::Q3_K_M => "Q3_K_M",
            QuantizeMix::Q3_K_L => "Q3_K_L",
            QuantizeMix::Q4_K_S => "Q4_K_S",
            QuantizeMix::Q4_K_M => "Q4_K_M",
            QuantizeMix::Q5_K_S => "Q5_K_S",
            QuantizeMix::Q5_K_M => "Q5_K_M",
        }
    }

    /// The type of most matrices.
    pub(super) fn most(self) -> TensorType {
        match self {
            QuantizeMix::Q3_K_S | QuantizeMix::Q3_K_M | QuantizeMix::Q3_K_L => TensorType::Q3_K,
            QuantizeMix::Q4_K_S | QuantizeMix::Q4_K_M => TensorType::Q4_K,
            QuantizeMix::Q5_K_S | QuantizeMix::Q5_K_M => TensorType::Q5_K,
        }
    }

    /// `general.file_type` (llama.cpp's `LlamaFileType`).
    pub(super) fn file_type(self) -> u32 {
        match self {
            QuantizeMix::Q3_K_S => 11,
            QuantizeMix::Q3_K_M => 12,
            QuantizeMix::Q3_K_L => 13,
            QuantizeMix::Q4_K_S => 14,
            QuantizeMix::Q4_K_M => 15,
            QuantizeMix::Q5_K_S => 16,
            QuantizeMix::Q5_K_M => 17,
        }
    }

    /// The type of a matrix by its name. The output's is chosen elsewhere.
    pub(super) fn tensor_type(self, name: &str, layers: &Layers) -> TensorType {
        use TensorType::{Q4_K, Q5_K, Q6_K};
        let most = self.most();
        let Some(layer) = layer_of(name) else {
            return most;
        };
        let part = name.split('.').nth(2).unwrap_or_default();
        let early = layer < layers.0 / 8;
        match (self, part) {
            (QuantizeMix::Q3_K_M, "attn_v") if layer < 2 => Q5_K,
            (QuantizeMix::Q3_K_M, "ffn_down") if layer < layers.0 / 16 => Q5_K,
            (QuantizeMix::Q3_K_M, "attn_v" | "ffn_down" | "attn_output") => Q4_K,
            (QuantizeMix::Q3_K_L, "attn_v" | "ffn_down" | "attn_output") => Q5_K,
            (QuantizeMix::Q4_K_S, "attn_v") if layer < 4 => Q5_K,
            (QuantizeMix::Q4_K_S, "ffn_down") if early => Q5_K,
            (QuantizeMix::Q4_K_M | QuantizeMix::Q5_K_M, "attn_v" | "ffn_down")
                if layers.is_weighty(layer) =>
            {
                Q6_K
            }
            _ => most,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of six layers that llama.cpp's quantizer wrote has these.
    #[test]
    fn the_mix_is_that_of_a_file_of_llama_cpp() {
        let layers = Layers(6);
        let of = |part: &str| -> Vec<usize> {
            let name = |layer: &usize| format!("blk.{layer}.{part}.weight");
            let is_larger = |layer: &usize| {
                QuantizeMix::Q4_K_M.tensor_type(&name(layer), &layers) == TensorType::Q6_K
            };
            (0..6).filter(is_larger).collect()
        };
        assert_eq!(of("ffn_down"), [2, 5]);
        assert_eq!(of("attn_v"), [2, 5]);
        assert!(of("attn_q").is_empty());
        let other = QuantizeMix::Q4_K_M.tensor_type("token_embd.weight", &layers);
        assert_eq!(other, TensorType::Q4_K);
    }
}
