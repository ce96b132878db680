//! Rotary position embedding.

use crate::commands::Commands;
use crate::error::{Result, check};
use crate::ffi;
use crate::ops::shapes::Shapes;
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
#[non_exhaustive]
pub struct Rope<'a> {
    /// Elements of a head.
    pub head_dim: usize,
    /// Elements of a head that are rotated, its first ones; even. `None`: all.
    pub rotary_dim: Option<usize>,
    /// `tokens × (heads · head_dim)`; F32.
    pub x: Tensor<'a>,
    /// The position of each token; U32.
    pub positions: Tensor<'a>,
    /// `rotary_dim / 2` divisors of the frequencies; F32. Default: none.
    pub factors: Option<Tensor<'a>>,
    /// Which elements go together.
    pub pairing: RopePairing,
    /// The base of the frequencies, usually 10,000.
    pub frequency_base: f32,
    /// Stretches positions. `None`: 1.
    pub frequency_scale: Option<f32>,
}

impl<'a> Rope<'a> {
    /// Of these operands; everything else takes its default.
    pub fn new(x: Tensor<'a>, positions: Tensor<'a>, head_dim: usize, frequency_base: f32) -> Self {
        Rope {
            x,
            positions,
            head_dim,
            frequency_base,
            ..Default::default()
        }
    }

    /// Sets [`rotary_dim`](Self::rotary_dim).
    #[must_use]
    pub fn with_rotary_dim(self, rotary_dim: impl Into<Option<usize>>) -> Self {
        Rope {
            rotary_dim: rotary_dim.into(),
            ..self
        }
    }

    /// Sets [`factors`](Self::factors).
    #[must_use]
    pub fn with_factors(self, factors: impl Into<Option<Tensor<'a>>>) -> Self {
        Rope {
            factors: factors.into(),
            ..self
        }
    }

    /// Sets [`pairing`](Self::pairing).
    #[must_use]
    pub fn with_pairing(self, pairing: RopePairing) -> Self {
        Rope { pairing, ..self }
    }

    /// Sets [`frequency_scale`](Self::frequency_scale).
    #[must_use]
    pub fn with_frequency_scale(self, frequency_scale: impl Into<Option<f32>>) -> Self {
        Rope {
            frequency_scale: frequency_scale.into(),
            ..self
        }
    }
}

impl Commands {
    /// Records a rotation (`iron_encode_rope`).
    #[track_caller]
    pub fn rope(&mut self, rope: &Rope<'_>) -> Result<()> {
        let (call, stretch) = ("Commands::rope", rope.frequency_scale);
        let shapes = Shapes(call);
        let [tokens, _] = shapes.of("x", rope.x)?;
        let heads = shapes.heads("x", rope.x, rope.head_dim)?;
        shapes.vector("positions", rope.positions, tokens)?;
        let native = ffi::iron_rope {
            size: size_of::<ffi::iron_rope>(),
            tokens: tokens as u64,
            heads: heads as u64,
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
