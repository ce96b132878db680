//! Qwen.

use super::spec::{Spec, USUAL};

/// Yang et al. 2024, [arXiv:2407.10671](https://arxiv.org/abs/2407.10671).
pub(super) const QWEN2: Spec = Spec {
    name: "qwen2",
    model_types: &["qwen2"],
    qkv_bias: true,
    ..USUAL
};

/// Yang et al. 2025, [arXiv:2505.09388](https://arxiv.org/abs/2505.09388).
pub(super) const QWEN3: Spec = Spec {
    name: "qwen3",
    model_types: &["qwen3"],
    head_norms: true,
    ..USUAL
};
