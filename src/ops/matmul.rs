//! Matrix multiplication.

use crate::commands::Commands;
use crate::error::{Result, check};
use crate::ffi;
use crate::ops::shapes::Shapes;
use crate::ops::{is_zero, optional_factor};
use crate::tensor::Tensor;

/// `C = alpha · A B + beta · C + bias`, accumulated in `f32` (`iron_matmul`).
///
/// A linear layer whose weights are stored `[outputs][inputs]`, as GGUF and PyTorch store them, takes
/// `weights.matrix(outputs, inputs).transposed()` as `b`.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct Matmul<'a> {
    /// `m × k`; F32 or F16. May be [transposed](Tensor::transposed).
    pub a: Tensor<'a>,
    /// `k × n`; F32, F16, BF16, or a block type (transposed only, `k` whole blocks). May be
    /// [transposed](Tensor::transposed), and transposed and without gaps in a buffer of
    /// [weights](crate::BufferUsage::Weights).
    pub b: Tensor<'a>,
    /// `n` elements added to every row, of the type of `a`. Default: none.
    pub bias: Option<Tensor<'a>>,
    /// `m × n`, of the type of `a`.
    pub c: Tensor<'a>,
    /// How many products are made, one matrix further on each time (see [`Tensor::batch_stride`], which `c` then
    /// needs). `None`: one.
    pub batch: Option<u32>,
    /// What products are multiplied by; not 0. `None`: 1. Another number, or a `beta`, needs scratch memory of the size
    /// of `C`, in which products are rounded to its type.
    pub alpha: Option<f32>,
    /// How much of the former `C` is added. 0, the default: `C` is not read.
    pub beta: f32,
}

impl<'a> Matmul<'a> {
    /// Of these operands; everything else takes its default.
    pub fn new(a: Tensor<'a>, b: Tensor<'a>, c: Tensor<'a>) -> Self {
        Matmul {
            a,
            b,
            c,
            ..Default::default()
        }
    }

    /// Sets [`bias`](Self::bias).
    #[must_use]
    pub fn with_bias(self, bias: impl Into<Option<Tensor<'a>>>) -> Self {
        Matmul {
            bias: bias.into(),
            ..self
        }
    }

    /// Sets [`batch`](Self::batch).
    #[must_use]
    pub fn with_batch(self, batch: impl Into<Option<u32>>) -> Self {
        Matmul {
            batch: batch.into(),
            ..self
        }
    }

    /// Sets [`alpha`](Self::alpha).
    #[must_use]
    pub fn with_alpha(self, alpha: impl Into<Option<f32>>) -> Self {
        Matmul {
            alpha: alpha.into(),
            ..self
        }
    }

    /// Sets [`beta`](Self::beta).
    #[must_use]
    pub fn with_beta(self, beta: f32) -> Self {
        Matmul { beta, ..self }
    }
}

impl Commands {
    /// Records a matrix multiplication (`iron_encode_matmul`).
    #[track_caller]
    pub fn matmul(&mut self, matmul: &Matmul<'_>) -> Result<()> {
        if matmul.batch == Some(0) {
            return Err(is_zero("Commands::matmul", "batch"));
        }
        let call = "Commands::matmul";
        let shapes = Shapes(call);
        let [m, k] = shapes.oriented_of("a", matmul.a)?;
        let [_, n] = shapes.oriented_of("b", matmul.b)?;
        shapes.oriented("b", matmul.b, [k, n])?;
        shapes.matrix("c", matmul.c, [m, n])?;
        if let Some(bias) = matmul.bias {
            shapes.vector("bias", bias, n)?;
        }
        let native = ffi::iron_matmul {
            size: size_of::<ffi::iron_matmul>(),
            m: m as u64,
            n: n as u64,
            k: k as u64,
            a: matmul.a.native(),
            b: matmul.b.native(),
            bias: matmul.bias.unwrap_or_default().native(),
            c: matmul.c.native(),
            batch: matmul.batch.unwrap_or(1),
            transpose_a: matmul.a.is_transposed().into(),
            transpose_b: matmul.b.is_transposed().into(),
            padding: 0,
            alpha: optional_factor(call, "alpha", matmul.alpha)?,
            beta: matmul.beta,
        };
        // SAFETY: the handle is live, and the struct starts with its size and outlives the call.
        check(call, unsafe {
            ffi::iron_encode_matmul(self.recorder(), &native)
        })
    }
}
