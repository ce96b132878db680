//! Gradients of attention.

use crate::commands::Commands;
use crate::error::{Result, check};
use crate::ffi;
use crate::ops::optional_factor;
use crate::ops::shapes::Shapes;
use crate::tensor::Tensor;

/// Backward of [`Attention`](crate::ops::Attention) of as many keys as queries, with no window and no softcap
/// (`iron_attention_backward`). Probabilities are computed again from `q` and `k`.
///
/// Dao 2023, [arXiv:2307.08691](https://arxiv.org/abs/2307.08691), algorithm 2.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct AttentionBackward<'a> {
    /// Elements of a head, at most 256.
    pub head_dim: usize,
    /// `tokens × (heads · head_dim)`, where `heads` is a multiple of `kv_heads`; F32.
    pub q: Tensor<'a>,
    /// `tokens × (kv_heads · head_dim)`; F32.
    pub k: Tensor<'a>,
    /// As `k`.
    pub v: Tensor<'a>,
    /// Attention's result, as `q`.
    pub out: Tensor<'a>,
    /// That of `out`, as `q`.
    pub gradient: Tensor<'a>,
    /// As `q`.
    pub q_gradient: Tensor<'a>,
    /// As `k`.
    pub k_gradient: Tensor<'a>,
    /// As `k`.
    pub v_gradient: Tensor<'a>,
    /// What scores are multiplied by. `None`: `1 / sqrt(head_dim)`.
    pub scale: Option<f32>,
}

impl<'a> AttentionBackward<'a> {
    /// Of `q`, `k` and `v`, attention's result and its gradient, and where the gradients of `q`, `k` and `v` go.
    pub fn new(
        [q, k, v]: [Tensor<'a>; 3],
        [out, gradient]: [Tensor<'a>; 2],
        [q_gradient, k_gradient, v_gradient]: [Tensor<'a>; 3],
        head_dim: usize,
    ) -> Self {
        AttentionBackward {
            q,
            k,
            v,
            out,
            gradient,
            q_gradient,
            k_gradient,
            v_gradient,
            head_dim,
            ..Default::default()
        }
    }

    /// Sets [`scale`](Self::scale).
    #[must_use]
    pub fn with_scale(self, scale: impl Into<Option<f32>>) -> Self {
        AttentionBackward {
            scale: scale.into(),
            ..self
        }
    }
}

impl Commands {
    /// Records the gradients (`iron_encode_attention_backward`).
    #[track_caller]
    pub fn attention_backward(&mut self, operands: &AttentionBackward<'_>) -> Result<()> {
        let call = "Commands::attention_backward";
        let (shapes, q, k) = (Shapes(call), operands.q, operands.k);
        let [[tokens, _], [_, kv_width]] = [shapes.of("q", q)?, shapes.of("k", k)?];
        let [heads, kv_heads] = [
            shapes.heads("q", q, operands.head_dim)?,
            shapes.heads("k", k, operands.head_dim)?,
        ];
        for (name, operand) in [
            ("k", k),
            ("v", operands.v),
            ("k_gradient", operands.k_gradient),
            ("v_gradient", operands.v_gradient),
        ] {
            shapes.matrix(name, operand, [tokens, kv_width])?;
        }
        for (name, operand) in [
            ("out", operands.out),
            ("gradient", operands.gradient),
            ("q_gradient", operands.q_gradient),
        ] {
            shapes.matrix(name, operand, q.shape())?;
        }
        let native = ffi::iron_attention_backward {
            size: size_of::<ffi::iron_attention_backward>(),
            tokens: tokens as u64,
            heads: heads as u64,
            kv_heads: kv_heads as u64,
            head_dim: operands.head_dim as u64,
            q: operands.q.native(),
            k: operands.k.native(),
            v: operands.v.native(),
            out: operands.out.native(),
            gradient: operands.gradient.native(),
            q_gradient: operands.q_gradient.native(),
            k_gradient: operands.k_gradient.native(),
            v_gradient: operands.v_gradient.native(),
            scale: optional_factor(call, "scale", operands.scale)?,
        };
        // SAFETY: the handle is live, and the struct starts with its size and outlives the call.
        check(call, unsafe {
            ffi::iron_encode_attention_backward(self.recorder(), &native)
        })
    }
}
