//! The families of models, and the description of each.

use std::slice;
use std::sync::LazyLock;

use super::spec::Spec;
use super::{gemma, llama, qwen};

/// A family of models. Mistral is a `llama` to its files, with a sliding window; TinyLlama, SmolLM and all of Meta's
/// are, too.
///
/// | | `llama` | `qwen2` | `qwen3` | `gemma` | `gemma2` | `gemma3` |
/// | --- | --- | --- | --- | --- | --- | --- |
/// | biases of Q, K and V | where the file has them | always | as `llama` | as `llama` | as `llama` | as `llama` |
/// | other biases | where the file has them | the same | the same | the same | the same | the same |
/// | norms of each query's and key's head | no | no | yes | no | no | yes |
/// | norms after attention and feed-forward network | no | no | no | no | yes | yes |
/// | gate | SiLU | SiLU | SiLU | GELU | GELU | GELU |
/// | soft caps of scores, if the file has them | no | no | no | no | yes | no |
/// | embeddings times √width | no | no | no | yes | yes | yes |
/// | layers with the window, if there is one | all | all | all | all | every other | five of six |
/// | rotated together, in GGUF | neighbors | halves | halves | halves | halves | halves |
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
    /// Gemma Team 2024, [arXiv:2403.08295](https://arxiv.org/abs/2403.08295).
    Gemma,
    /// Gemma Team 2024, [arXiv:2408.00118](https://arxiv.org/abs/2408.00118).
    Gemma2,
    /// Gemma Team 2025, [arXiv:2503.19786](https://arxiv.org/abs/2503.19786), its part for text.
    Gemma3,
}

impl Architecture {
    const ALL: [Architecture; 6] = [
        Architecture::Llama,
        Architecture::Qwen2,
        Architecture::Qwen3,
        Architecture::Gemma,
        Architecture::Gemma2,
        Architecture::Gemma3,
    ];

    /// GGUF's name: `"llama"`.
    pub fn name(self) -> &'static str {
        self.spec().name
    }

    /// The architecture of that name in GGUF.
    pub fn from_name(name: &str) -> Option<Architecture> {
        let mut all = Architecture::ALL.into_iter();
        all.find(|architecture| architecture.name() == name)
    }

    /// The architecture that transformers calls so.
    pub(crate) fn from_model_type(name: &str) -> Option<Architecture> {
        let mut all = Architecture::ALL.into_iter();
        all.find(|architecture| architecture.spec().model_types.contains(&name))
    }

    /// What it computes.
    pub(crate) fn spec(self) -> &'static Spec {
        match self {
            Architecture::Llama => &llama::LLAMA,
            Architecture::Qwen2 => &qwen::QWEN2,
            Architecture::Qwen3 => &qwen::QWEN3,
            Architecture::Gemma => &gemma::GEMMA,
            Architecture::Gemma2 => &gemma::GEMMA2,
            Architecture::Gemma3 => &gemma::GEMMA3,
        }
    }
}

/// What is said to a file of another family.
pub(crate) static SUPPORTED_NAMES: LazyLock<String> =
    LazyLock::new(|| supported(|spec| slice::from_ref(&spec.name)));
/// And to a folder.
pub(crate) static SUPPORTED_MODEL_TYPES: LazyLock<String> =
    LazyLock::new(|| supported(|spec| spec.model_types));

fn supported(names: impl Fn(&'static Spec) -> &'static [&'static str]) -> String {
    let all = Architecture::ALL.iter().flat_map(|one| names(one.spec()));
    let quoted: Vec<String> = all.map(|name| format!("\"{name}\"")).collect();
    format!("supported are {}", quoted.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_of_one_family() {
        for architecture in Architecture::ALL {
            assert_eq!(
                Architecture::from_name(architecture.name()),
                Some(architecture)
            );
            for model_type in architecture.spec().model_types {
                assert_eq!(
                    Architecture::from_model_type(model_type),
                    Some(architecture)
                );
                assert!(SUPPORTED_MODEL_TYPES.contains(model_type));
            }
        }
        assert!(SUPPORTED_NAMES.starts_with("supported are \"llama\", \"qwen2\""));
        assert_eq!(Architecture::from_model_type("gemma3"), None);
    }
}
