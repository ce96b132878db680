//! Gradients of attention.

use crate::commands::Commands;
use crate::error::{Result, check};
use crate::ffi;
use crate::ops::optional_factor;
use crate::tensor::Tensor;

/// Backward of [`Attention`](crate::ops::Attention) with `first_position` 0, no window and no softcap
/// (`iron_attention_backward`). Probabilities are computed again from `q` and `k`.
///
/// Dao 2023, [arXiv:2307.08691](https://arxiv.org/abs/2307.08691), algorithm 2.
#[derive(Debug, Clone, Copy, Default)]
pub struct AttentionBackward<'a> {
    /// Queries, keys and values.
    pub tokens: usize,
    /// Heads of a query, a multiple of `kv_heads`.
    pub heads: usize,
    /// Heads of a key and of a value.
    pub kv_heads: usize,
    /// Elements of a head, at most 256.
    pub head_dim: usize,
    /// `tokens × heads × head_dim`; F32. Its row stride is from token to token, as everywhere here.
    pub q: Tensor<'a>,
    /// `tokens × kv_heads × head_dim`; F32.
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

impl Commands {
    /// Records the gradients (`iron_encode_attention_backward`).
    #[track_caller]
    pub fn attention_backward(&mut self, operands: &AttentionBackward<'_>) -> Result<()> {
        let call = "Commands::attention_backward";
        let native = ffi::iron_attention_backward {
            size: size_of::<ffi::iron_attention_backward>(),
            tokens: operands.tokens as u64,
            heads: operands.heads as u64,
            kv_heads: operands.kv_heads as u64,
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
