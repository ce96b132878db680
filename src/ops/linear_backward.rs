//! Backward of a linear layer.

use crate::commands::Commands;
use crate::error::{Result, check};
use crate::ffi;
use crate::tensor::Tensor;

/// The gradients of `y = x · weightᵀ + bias` from that of `y` (`iron_linear_backward`). The forward is a
/// [`Matmul`](crate::ops::Matmul) with `transpose_b` and a bias.
///
/// A result that is left out is not computed, and `weight` or `x`, which only that needs, may be left out with it. One
/// at least is asked for.
#[derive(Debug, Clone, Copy, Default)]
pub struct LinearBackward<'a> {
    /// Rows of `x` and `y`.
    pub rows: usize,
    /// Elements of a row of `x`.
    pub inputs: usize,
    /// Elements of a row of `y`.
    pub outputs: usize,
    /// `rows × inputs`; F32.
    pub x: Tensor<'a>,
    /// `outputs × inputs`; F32.
    pub weight: Tensor<'a>,
    /// That of `y`, `rows × outputs`; F32.
    pub gradient: Tensor<'a>,
    /// `gradient · weight`, `rows × inputs`; F32.
    pub x_gradient: Option<Tensor<'a>>,
    /// `gradientᵀ · x`, `outputs × inputs`; F32.
    pub weight_gradient: Option<Tensor<'a>>,
    /// The sum of the gradient's rows, `outputs` elements; F32.
    pub bias_gradient: Option<Tensor<'a>>,
}

impl Commands {
    /// Records up to two products and a sum (`iron_encode_linear_backward`).
    #[track_caller]
    pub fn linear_backward(&mut self, linear: &LinearBackward<'_>) -> Result<()> {
        let result = |result: Option<Tensor<'_>>| result.unwrap_or_default().native();
        let native = ffi::iron_linear_backward {
            size: size_of::<ffi::iron_linear_backward>(),
            rows: linear.rows as u64,
            inputs: linear.inputs as u64,
            outputs: linear.outputs as u64,
            x: linear.x.native(),
            weight: linear.weight.native(),
            gradient: linear.gradient.native(),
            x_gradient: result(linear.x_gradient),
            weight_gradient: result(linear.weight_gradient),
            bias_gradient: result(linear.bias_gradient),
        };
        // SAFETY: the handle is live, and the struct starts with its size and outlives the call.
        check("Commands::linear_backward", unsafe {
            ffi::iron_encode_linear_backward(self.recorder(), &native)
        })
    }
}
