//! Attention over a cache.

use crate::commands::Commands;
use crate::error::{Result, check};
use crate::ffi;
use crate::ops::shapes::Shapes;
use crate::ops::{optional, optional_factor};
use crate::tensor::Tensor;

/// Causal grouped-query attention (`iron_attention`): `out[t][h] = sum over j of softmax over j of (q[t][h] · k[j][g] ·
/// scale) · v[j][g]` with `g = h / (heads / kv_heads)`.
///
/// The queries are those of the last of the keys' positions: with `tokens` queries and `positions` keys, query `t`
/// stands at position `positions - tokens + t` and sees the keys up to its own position.
///
/// Vaswani et al. 2017, [arXiv:1706.03762](https://arxiv.org/abs/1706.03762), equation 1; grouped queries: Ainslie et
/// al. 2023, [arXiv:2305.13245](https://arxiv.org/abs/2305.13245).
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct Attention<'a> {
    /// Elements of a head, at most 256.
    pub head_dim: usize,
    /// How many positions back a query sees, its own counted. `None`: all.
    pub window: Option<usize>,
    /// `tokens × (heads · head_dim)`, where `heads` is a multiple of `kv_heads`; F32.
    pub q: Tensor<'a>,
    /// The cache of keys, `positions × (kv_heads · head_dim)`; F32, F16, BF16 or Q8_0 (`head_dim` and strides multiples
    /// of 32).
    pub k: Tensor<'a>,
    /// The cache of values, of the shape and type of `k`.
    pub v: Tensor<'a>,
    /// The shape of `q`; F32.
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

impl<'a> Attention<'a> {
    /// Of these operands; everything else takes its default.
    pub fn new(
        q: Tensor<'a>,
        k: Tensor<'a>,
        v: Tensor<'a>,
        out: Tensor<'a>,
        head_dim: usize,
    ) -> Self {
        Attention {
            q,
            k,
            v,
            out,
            head_dim,
            ..Default::default()
        }
    }

    /// Sets [`window`](Self::window).
    #[must_use]
    pub fn with_window(self, window: impl Into<Option<usize>>) -> Self {
        Attention {
            window: window.into(),
            ..self
        }
    }

    /// Sets [`k_head_stride`](Self::k_head_stride).
    #[must_use]
    pub fn with_k_head_stride(self, k_head_stride: impl Into<Option<usize>>) -> Self {
        Attention {
            k_head_stride: k_head_stride.into(),
            ..self
        }
    }

    /// Sets [`v_head_stride`](Self::v_head_stride).
    #[must_use]
    pub fn with_v_head_stride(self, v_head_stride: impl Into<Option<usize>>) -> Self {
        Attention {
            v_head_stride: v_head_stride.into(),
            ..self
        }
    }

    /// Sets [`scale`](Self::scale).
    #[must_use]
    pub fn with_scale(self, scale: impl Into<Option<f32>>) -> Self {
        Attention {
            scale: scale.into(),
            ..self
        }
    }

    /// Sets [`softcap`](Self::softcap).
    #[must_use]
    pub fn with_softcap(self, softcap: impl Into<Option<f32>>) -> Self {
        Attention {
            softcap: softcap.into(),
            ..self
        }
    }
}

impl Commands {
    /// Records attention (`iron_encode_attention`).
    #[track_caller]
    pub fn attention(&mut self, attention: &Attention<'_>) -> Result<()> {
        let call = "Commands::attention";
        let (k_stride, v_stride) = (attention.k_head_stride, attention.v_head_stride);
        let Attention {
            q,
            k,
            v,
            out,
            head_dim,
            ..
        } = *attention;
        let shapes = Shapes(call);
        let [[tokens, _], [positions, _]] = [shapes.of("q", q)?, shapes.of("k", k)?];
        let [heads, kv_heads] = [
            shapes.heads("q", q, head_dim)?,
            shapes.heads("k", k, head_dim)?,
        ];
        shapes.matrix("v", v, k.shape())?;
        shapes.matrix("out", out, q.shape())?;
        let first_position = shapes.first_position(positions, tokens)?;
        let native = ffi::iron_attention {
            size: size_of::<ffi::iron_attention>(),
            tokens: tokens as u64,
            heads: heads as u64,
            kv_heads: kv_heads as u64,
            head_dim: head_dim as u64,
            first_position: first_position as u64,
            window: optional(call, "window", attention.window)?,
            q: q.native(),
            k: k.native(),
            v: v.native(),
            out: out.native(),
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
