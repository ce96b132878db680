//! LLaMA, and what is a `llama` to its files: Mistral, with a window, TinyLlama, SmolLM.

use super::spec::{Spec, USUAL};
use crate::ops::RopePairing;

/// Touvron et al. 2023, [arXiv:2302.13971](https://arxiv.org/abs/2302.13971).
pub(super) const LLAMA: Spec = Spec {
    name: "llama",
    model_types: &["llama", "mistral"],
    // llama.cpp's converter makes pairs of neighbors out of halves, of this family only.
    rope_pairing: RopePairing::Interleaved,
    ..USUAL
};
