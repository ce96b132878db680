//! What the architectures have in common is the model; this is what they do not.

use crate::ops::RopePairing;

/// A family of models. Mistral is a `llama` to its files, with a sliding window; TinyLlama and all of Meta's are, too.
///
/// | | `llama` | `qwen2` | `qwen3` |
/// | --- | --- | --- | --- |
/// | biases of Q, K and V | where the file has them | always | where the file has them |
/// | biases of O, gate, up and down | where the file has them | where the file has them | where the file has them |
/// | norms of each query's and key's head | no | no | always |
/// | rotated together, in GGUF | neighbours | halves | halves |
///
/// Everything else is in the numbers of a [`Config`](crate::llama::Config). Weights in Hugging Face's order are rotated
/// in halves, whatever the architecture: only llama.cpp's converter reorders those of `llama`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Architecture {
    /// Touvron et al. 2023, [arXiv:2302.13971](https://arxiv.org/abs/2302.13971).
    Llama,
    /// Yang et al. 2024, [arXiv:2407.10671](https://arxiv.org/abs/2407.10671).
    Qwen2,
    /// Yang et al. 2025, [arXiv:2505.09388](https://arxiv.org/abs/2505.09388).
    Qwen3,
}

impl Architecture {
    const ALL: [Architecture; 3] = [
        Architecture::Llama,
        Architecture::Qwen2,
        Architecture::Qwen3,
    ];

    /// GGUF's name: `"llama"`.
    pub fn name(self) -> &'static str {
        match self {
            Architecture::Llama => "llama",
            Architecture::Qwen2 => "qwen2",
            Architecture::Qwen3 => "qwen3",
        }
    }

    /// The architecture of that name in GGUF.
    pub fn from_name(name: &str) -> Option<Architecture> {
        let mut all = Architecture::ALL.into_iter();
        all.find(|architecture| architecture.name() == name)
    }

    /// Whether Q, K and V must have biases.
    pub(crate) fn needs_qkv_bias(self) -> bool {
        self == Architecture::Qwen2
    }

    /// Whether each head of a query and of a key is normalised before it is rotated.
    pub(crate) fn has_head_norms(self) -> bool {
        self == Architecture::Qwen3
    }

    pub(crate) fn rope_pairing_in_gguf(self) -> RopePairing {
        match self {
            Architecture::Llama => RopePairing::Interleaved,
            Architecture::Qwen2 | Architecture::Qwen3 => RopePairing::Half,
        }
    }
}
