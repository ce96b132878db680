//! Operations on elements of the same index.

use crate::commands::Commands;
use crate::error::{Result, check};
use crate::ffi;
use crate::tensor::Tensor;

/// `out[i] = f(a[i], b[i])` (`iron_elementwise`).
#[derive(Debug, Clone, Copy, Default)]
pub struct Elementwise<'a> {
    /// How many elements.
    pub count: usize,
    /// `count` elements, packed; F32.
    pub a: Tensor<'a>,
    /// `count` elements, packed; F32.
    pub b: Tensor<'a>,
    /// `count` elements, packed; F32. May be `a` or `b`.
    pub out: Tensor<'a>,
}

impl Elementwise<'_> {
    pub(super) fn native(&self) -> ffi::iron_elementwise {
        ffi::iron_elementwise {
            size: size_of::<ffi::iron_elementwise>(),
            count: self.count as u64,
            a: self.a.native(),
            b: self.b.native(),
            out: self.out.native(),
        }
    }
}

impl Commands {
    /// Records `out = a + b` (`iron_encode_add`).
    #[track_caller]
    pub fn add(&mut self, operands: &Elementwise<'_>) -> Result<()> {
        let native = operands.native();
        // SAFETY: the handle is live, and the struct starts with its size and outlives the call.
        check("Commands::add", unsafe {
            ffi::iron_encode_add(self.recorder(), &native)
        })
    }

    /// Records `out = a / (1 + exp(-a)) · b`: SwiGLU, with `a` the gate and `b` the up projection
    /// (`iron_encode_silu_mul`). Shazeer 2020, [arXiv:2002.05202](https://arxiv.org/abs/2002.05202).
    #[track_caller]
    pub fn silu_mul(&mut self, operands: &Elementwise<'_>) -> Result<()> {
        let native = operands.native();
        // SAFETY: the handle is live, and the struct starts with its size and outlives the call.
        check("Commands::silu_mul", unsafe {
            ffi::iron_encode_silu_mul(self.recorder(), &native)
        })
    }

    /// Records `out = gelu(a) · b` with `gelu(x) = x/2 · (1 + tanh(√(2/π) · (x + 0.044715 x³)))`: GeGLU as Gemma has
    /// it, with `a` the gate and `b` the up projection (`iron_encode_gelu_mul`). Hendrycks & Gimpel 2016,
    /// [arXiv:1606.08415](https://arxiv.org/abs/1606.08415), and Shazeer 2020, as above.
    #[track_caller]
    pub fn gelu_mul(&mut self, operands: &Elementwise<'_>) -> Result<()> {
        let native = operands.native();
        // SAFETY: the handle is live, and the struct starts with its size and outlives the call.
        check("iron_encode_gelu_mul", unsafe {
            ffi::iron_encode_gelu_mul(self.recorder(), &native)
        })
    }
}
