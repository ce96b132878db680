//! Gradients of gated linear units.

use crate::commands::Commands;
use crate::error::{Result, check};
use crate::ffi;
use crate::tensor::Tensor;

/// Backward of `out = gate(a) · b` (`iron_gated`): `a_gradient = gradient · b · gate′(a)` and `b_gradient = gradient ·
/// gate(a)`.
#[derive(Debug, Clone, Copy, Default)]
pub struct GatedBackward<'a> {
    /// How many elements.
    pub count: usize,
    /// The gate: `count` elements, packed; F32.
    pub a: Tensor<'a>,
    /// `count` elements, packed; F32.
    pub b: Tensor<'a>,
    /// That of the output: `count` elements, packed; F32.
    pub gradient: Tensor<'a>,
    /// `count` elements, packed; F32.
    pub a_gradient: Tensor<'a>,
    /// `count` elements, packed; F32.
    pub b_gradient: Tensor<'a>,
}

impl GatedBackward<'_> {
    fn native(&self) -> ffi::iron_gated {
        ffi::iron_gated {
            size: size_of::<ffi::iron_gated>(),
            count: self.count as u64,
            a: self.a.native(),
            b: self.b.native(),
            gradient: self.gradient.native(),
            a_gradient: self.a_gradient.native(),
            b_gradient: self.b_gradient.native(),
        }
    }
}

impl Commands {
    /// Records the gradients of [`silu_mul`](Commands::silu_mul) (`iron_encode_silu_mul_backward`).
    #[track_caller]
    pub fn silu_mul_backward(&mut self, operands: &GatedBackward<'_>) -> Result<()> {
        let native = operands.native();
        // SAFETY: the handle is live, and the struct starts with its size and outlives the call.
        check("Commands::silu_mul_backward", unsafe {
            ffi::iron_encode_silu_mul_backward(self.recorder(), &native)
        })
    }

    /// Records the gradients of [`gelu_mul`](Commands::gelu_mul) (`iron_encode_gelu_mul_backward`).
    #[track_caller]
    pub fn gelu_mul_backward(&mut self, operands: &GatedBackward<'_>) -> Result<()> {
        let native = operands.native();
        // SAFETY: the handle is live, and the struct starts with its size and outlives the call.
        check("Commands::gelu_mul_backward", unsafe {
            ffi::iron_encode_gelu_mul_backward(self.recorder(), &native)
        })
    }
}
