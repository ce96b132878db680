//! Rotary position embedding.

use crate::commands::Commands;
use crate::error::{Result, check};
use crate::ffi;
use crate::ops::{optional, optional_factor};
use crate::tensor::Tensor;

/// Which elements of a head are rotated together (`iron_rope_pairing`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum RopePairing {
    /// Elements `2i` and `2i + 1`: GGUF's llama tensors are stored for this one.
    #[default]
    Interleaved,
    /// Elements `i` and `i + rotary_dim / 2`: Hugging Face's order; qwen2 and qwen3 in GGUF.
    Half,
}

/// Rotates pair `i` of each head, in place, by
/// `positions[token] · frequency_scale · frequency_base^(-2i / rotary_dim) / factors[i]` radians (`iron_rope`).
///
/// Su et al. 2021, [arXiv:2104.09864](https://arxiv.org/abs/2104.09864), section 3.2.2.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rope<'a> {
    /// Tokens.
    pub tokens: usize,
    /// Heads of each token.
    pub heads: usize,
    /// Elements of a head.
    pub head_dim: usize,
    /// Elements of a head that are rotated, its first ones; even. `None`: all.
    pub rotary_dim: Option<usize>,
    /// `tokens × heads × head_dim`; F32. Its row stride is from token to token.
    pub x: Tensor<'a>,
    /// The position of each token; U32.
    pub positions: Tensor<'a>,
    /// `rotary_dim / 2` divisors of the frequencies; F32. Default: none.
    pub factors: Option<Tensor<'a>>,
    /// Which elements go together.
    pub pairing: RopePairing,
    /// The base of the frequencies, usually 10,000. There is no default.
    pub frequency_base: f32,
    /// Stretches positions. `None`: 1.
    pub frequency_scale: Option<f32>,
}

impl Commands {
    /// Records a rotation (`iron_encode_rope`).
    #[track_caller]
    pub fn rope(&mut self, rope: &Rope<'_>) -> Result<()> {
        let (call, stretch) = ("Commands::rope", rope.frequency_scale);
        let native = ffi::iron_rope {
            size: size_of::<ffi::iron_rope>(),
            tokens: rope.tokens as u64,
            heads: rope.heads as u64,
            head_dim: rope.head_dim as u64,
            rotary_dim: optional(call, "rotary_dim", rope.rotary_dim)?,
            x: rope.x.native(),
            positions: rope.positions.native(),
            factors: rope.factors.unwrap_or_default().native(),
            pairing: match rope.pairing {
                RopePairing::Interleaved => ffi::IRON_ROPE_INTERLEAVED,
                RopePairing::Half => ffi::IRON_ROPE_HALF,
            },
            frequency_base: rope.frequency_base,
            frequency_scale: optional_factor(call, "frequency_scale", stretch)?,
        };
        // SAFETY: the handle is live, and the struct starts with its size and outlives the call.
        check(call, unsafe {
            ffi::iron_encode_rope(self.recorder(), &native)
        })
    }
}
