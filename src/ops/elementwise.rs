//! Operations on elements of the same index.

use crate::commands::Commands;
use crate::error::{Result, check};
use crate::ffi;
use crate::ops::shapes::Shapes;
use crate::tensor::Tensor;

/// `out[i] = f(a[i], b[i])` (`iron_elementwise`).
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct Elementwise<'a> {
    /// Any shape, packed; F32.
    pub a: Tensor<'a>,
    /// As many elements as `a`, packed; F32.
    pub b: Tensor<'a>,
    /// As many elements as `a`, packed; F32. May be `a` or `b`.
    pub out: Tensor<'a>,
}

impl<'a> Elementwise<'a> {
    /// Of these operands; everything else takes its default.
    pub fn new(a: Tensor<'a>, b: Tensor<'a>, out: Tensor<'a>) -> Self {
        Elementwise { a, b, out }
    }
}

impl Elementwise<'_> {
    pub(super) fn native(&self, call: &'static str) -> Result<ffi::iron_elementwise> {
        let shapes = Shapes(call);
        let count = shapes.count("a", self.a)?;
        shapes.vector("b", self.b, count)?;
        shapes.vector("out", self.out, count)?;
        Ok(ffi::iron_elementwise {
            size: size_of::<ffi::iron_elementwise>(),
            count: count as u64,
            a: self.a.native(),
            b: self.b.native(),
            out: self.out.native(),
        })
    }
}

impl Commands {
    /// Records `out = a + b` (`iron_encode_add`).
    #[track_caller]
    pub fn add(&mut self, operands: &Elementwise<'_>) -> Result<()> {
        let call = "Commands::add";
        let native = operands.native(call)?;
        // SAFETY: the handle is live, and the struct starts with its size and outlives the call.
        check(call, unsafe {
            ffi::iron_encode_add(self.recorder(), &native)
        })
    }

    /// Records `out = a / (1 + exp(-a)) · b`: SwiGLU, with `a` the gate and `b` the up projection
    /// (`iron_encode_silu_mul`). Shazeer 2020, [arXiv:2002.05202](https://arxiv.org/abs/2002.05202).
    #[track_caller]
    pub fn silu_mul(&mut self, operands: &Elementwise<'_>) -> Result<()> {
        let call = "Commands::silu_mul";
        let native = operands.native(call)?;
        // SAFETY: the handle is live, and the struct starts with its size and outlives the call.
        check(call, unsafe {
            ffi::iron_encode_silu_mul(self.recorder(), &native)
        })
    }

    /// Records `out = gelu(a) · b` with `gelu(x) = x/2 · (1 + tanh(√(2/π) · (x + 0.044715 x³)))`: GeGLU as Gemma has
    /// it, with `a` the gate and `b` the up projection (`iron_encode_gelu_mul`). Hendrycks & Gimpel 2016,
    /// [arXiv:1606.08415](https://arxiv.org/abs/1606.08415), and Shazeer 2020, as above.
    #[track_caller]
    pub fn gelu_mul(&mut self, operands: &Elementwise<'_>) -> Result<()> {
        let call = "Commands::gelu_mul";
        let native = operands.native(call)?;
        // SAFETY: the handle is live, and the struct starts with its size and outlives the call.
        check(call, unsafe {
            ffi::iron_encode_gelu_mul(self.recorder(), &native)
        })
    }
}
