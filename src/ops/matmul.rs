//! Matrix multiplication.

use crate::commands::Commands;
use crate::error::{Result, check};
use crate::ffi;
use crate::ops::{is_zero, optional_factor};
use crate::tensor::Tensor;

/// `C = alpha · op(A) op(B) + beta · C + bias`, accumulated in `f32` (`iron_matmul`).
///
/// A linear layer with weights stored `[n][k]`, as GGUF and PyTorch store them, has `transpose_b`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Matmul<'a> {
    /// Rows of `C`.
    pub m: usize,
    /// Columns of `C`.
    pub n: usize,
    /// Columns of `op(A)`, rows of `op(B)`.
    pub k: usize,
    /// `m × k`, or `k × m` when transposed; F32 or F16.
    pub a: Tensor<'a>,
    /// `k × n`, or `n × k` when transposed; F32, F16, BF16, or a block type (transposed only, `k` whole blocks). May be
    /// in a buffer of [weights](crate::BufferUsage::Weights), transposed and without gaps.
    pub b: Tensor<'a>,
    /// `n` elements added to every row, of the type of `a`. Default: none.
    pub bias: Option<Tensor<'a>>,
    /// `m × n`, of the type of `a`.
    pub c: Tensor<'a>,
    /// How many products are made, one matrix further on each time (see [`Tensor::batch_stride`], which `c` then
    /// needs). `None`: one.
    pub batch: Option<u32>,
    /// `a` is stored `k × m`.
    pub transpose_a: bool,
    /// `b` is stored `n × k`.
    pub transpose_b: bool,
    /// What products are multiplied by; not 0. `None`: 1. Another number, or a `beta`, needs scratch memory of the size
    /// of `C`, in which products are rounded to its type.
    pub alpha: Option<f32>,
    /// How much of the former `C` is added. 0, the default: `C` is not read.
    pub beta: f32,
}

impl Commands {
    /// Records a matrix multiplication (`iron_encode_matmul`).
    #[track_caller]
    pub fn matmul(&mut self, matmul: &Matmul<'_>) -> Result<()> {
        if matmul.batch == Some(0) {
            return Err(is_zero("Commands::matmul", "batch"));
        }
        let native = ffi::iron_matmul {
            size: size_of::<ffi::iron_matmul>(),
            m: matmul.m as u64,
            n: matmul.n as u64,
            k: matmul.k as u64,
            a: matmul.a.native(),
            b: matmul.b.native(),
            bias: matmul.bias.unwrap_or_default().native(),
            c: matmul.c.native(),
            batch: matmul.batch.unwrap_or(1),
            transpose_a: matmul.transpose_a.into(),
            transpose_b: matmul.transpose_b.into(),
            padding: 0,
            alpha: optional_factor("Commands::matmul", "alpha", matmul.alpha)?,
            beta: matmul.beta,
        };
        // SAFETY: the handle is live, and the struct starts with its size and outlives the call.
        check("Commands::matmul", unsafe {
            ffi::iron_encode_matmul(self.recorder(), &native)
        })
    }
}
