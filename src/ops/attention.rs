//! Attention over a cache.

use crate::commands::Commands;
use crate::error::{Result, check};
use crate::ffi;
use crate::ops::{optional, optional_factor};
use crate::tensor::Tensor;

/// Causal grouped-query attention (`iron_attention`): `out[t][h] = sum over j of softmax over j of (q[t][h] · k[j][g] ·
/// scale) · v[j][g]` with `g = h / (heads / kv_heads)`.
///
/// Query `t` stands at position `first_position + t` and sees the keys up to its own position. The keys and values of
/// all those positions must be in the cache when it runs.
///
/// Vaswani et al. 2017, [arXiv:1706.03762](https://arxiv.org/abs/1706.03762), equation 1; grouped queries: Ainslie et
/// al. 2023, [arXiv:2305.13245](https://arxiv.org/abs/2305.13245).
#[derive(Debug, Clone, Copy, Default)]
pub struct Attention<'a> {
    /// Queries.
    pub tokens: usize,
    /// Heads of a query, a multiple of `kv_heads`.
    pub heads: usize,
    /// Heads of a key and of a value.
    pub kv_heads: usize,
    /// Elements of a head, at most 256.
    pub head_dim: usize,
    /// The position of the first query.
    pub first_position: usize,
    /// How many positions back a query sees, its own counted. `None`: all.
    pub window: Option<usize>,
    /// `tokens × heads × head_dim`; F32. Its row stride is from token to token.
    pub q: Tensor<'a>,
    /// The cache of keys, `(first_position + tokens) × kv_heads × head_dim`; F32, F16, BF16 or Q8_0 (`head_dim` and
    /// strides multiples of 32). Its row stride is from position to position.
    pub k: Tensor<'a>,
    /// The cache of values, as `k` and of its type.
    pub v: Tensor<'a>,
    /// `tokens × heads × head_dim`; F32. Its row stride is from token to token.
    pub out: Tensor<'a>,
    /// From head to head of a key, in elements. `None`: `head_dim`.
    pub k_head_stride: Option<usize>,
    /// From head to head of a value, in elements. `None`: `head_dim`.
    pub v_head_stride: Option<usize>,
    /// What scores are multiplied by. `None`: `1 / sqrt(head_dim)`.
    pub scale: Option<f32>,
    /// What scores are softly kept below: a score `s`, multiplied with `scale`, becomes `softcap · tanh(s / softcap)`.
    /// `None`: scores are as they are.
    pub softcap: Option<f32>,
}

impl Commands {
    /// Records attention (`iron_encode_attention`).
    #[track_caller]
    pub fn attention(&mut self, attention: &Attention<'_>) -> Result<()> {
        let call = "Commands::attention";
        let (k_stride, v_stride) = (attention.k_head_stride, attention.v_head_stride);
        let native = ffi::iron_attention {
            size: size_of::<ffi::iron_attention>(),
            tokens: attention.tokens as u64,
            heads: attention.heads as u64,
            kv_heads: attention.kv_heads as u64,
            head_dim: attention.head_dim as u64,
            first_position: attention.first_position as u64,
            window: optional(call, "window", attention.window)?,
            q: attention.q.native(),
            k: attention.k.native(),
            v: attention.v.native(),
            out: attention.out.native(),
            k_head_stride: optional(call, "k_head_stride", k_stride)?,
            v_head_stride: optional(call, "v_head_stride", v_stride)?,
            scale: optional_factor(call, "scale", attention.scale)?,
            padding: 0,
            softcap: optional_factor(call, "softcap", attention.softcap)?,
        };
        // SAFETY: the handle is live, and the struct starts with its size and outlives the call.
        check(call, unsafe {
            ffi::iron_encode_attention(self.recorder(), &native)
        })
    }
}
