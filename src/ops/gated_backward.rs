//! Gradients of gated linear units.

use crate::commands::Commands;
use crate::error::{Result, check};
use crate::ffi;
use crate::ops::shapes::Shapes;
use crate::tensor::Tensor;

/// Backward of `out = gate(a) · b` (`iron_gated`): `a_gradient = gradient · b · gate′(a)` and `b_gradient = gradient ·
/// gate(a)`.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct GatedBackward<'a> {
    /// The gate, of any shape, packed; F32.
    pub a: Tensor<'a>,
    /// As many elements as `a`, packed; F32.
    pub b: Tensor<'a>,
    /// That of the output: as many elements, packed; F32.
    pub gradient: Tensor<'a>,
    /// As many elements as `a`, packed; F32.
    pub a_gradient: Tensor<'a>,
    /// As many elements as `a`, packed; F32.
    pub b_gradient: Tensor<'a>,
}

impl<'a> GatedBackward<'a> {
    /// Of these operands; everything else takes its default.
    pub fn new(
        a: Tensor<'a>,
        b: Tensor<'a>,
        gradient: Tensor<'a>,
        a_gradient: Tensor<'a>,
        b_gradient: Tensor<'a>,
    ) -> Self {
        GatedBackward {
            a,
            b,
            gradient,
            a_gradient,
            b_gradient,
        }
    }
}

impl GatedBackward<'_> {
    fn native(&self, call: &'static str) -> Result<ffi::iron_gated> {
        let shapes = Shapes(call);
        let count = shapes.count("a", self.a)?;
        shapes.vector("b", self.b, count)?;
        shapes.vector("gradient", self.gradient, count)?;
        shapes.vector("a_gradient", self.a_gradient, count)?;
        shapes.vector("b_gradient", self.b_gradient, count)?;
        Ok(ffi::iron_gated {
            size: size_of::<ffi::iron_gated>(),
            count: count as u64,
            a: self.a.native(),
            b: self.b.native(),
            gradient: self.gradient.native(),
            a_gradient: self.a_gradient.native(),
            b_gradient: self.b_gradient.native(),
        })
    }
}

impl Commands {
    /// Records the gradients of [`silu_mul`](Commands::silu_mul) (`iron_encode_silu_mul_backward`).
    #[track_caller]
    pub fn silu_mul_backward(&mut self, operands: &GatedBackward<'_>) -> Result<()> {
        let call = "Commands::silu_mul_backward";
        let native = operands.native(call)?;
        // SAFETY: the handle is live, and the struct starts with its size and outlives the call.
        check(call, unsafe {
            ffi::iron_encode_silu_mul_backward(self.recorder(), &native)
        })
    }

    /// Records the gradients of [`gelu_mul`](Commands::gelu_mul) (`iron_encode_gelu_mul_backward`).
    #[track_caller]
    pub fn gelu_mul_backward(&mut self, operands: &GatedBackward<'_>) -> Result<()> {
        let call = "Commands::gelu_mul_backward";
        let native = operands.native(call)?;
        // SAFETY: the handle is live, and the struct starts with its size and outlives the call.
        check(call, unsafe {
            ffi::iron_encode_gelu_mul_backward(self.recorder(), &native)
        })
    }
}
