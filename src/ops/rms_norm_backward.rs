//! Gradients of the root mean square normalization.

use crate::commands::Commands;
use crate::error::{Result, check};
use crate::ffi;
use crate::ops::shapes::Shapes;
use crate::tensor::Tensor;

/// Backward of [`RmsNorm`](crate::ops::RmsNorm) (`iron_rms_norm_backward`): the gradient of `x`, and products whose sum
/// over rows ([`SumRows`](crate::ops::SumRows)) is the gradient of the weight.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct RmsNormBackward<'a> {
    /// `rows × width`; F32.
    pub x: Tensor<'a>,
    /// `width` elements; F32.
    pub weight: Tensor<'a>,
    /// That of the output: `rows × width`; F32.
    pub gradient: Tensor<'a>,
    /// `rows × width`; F32.
    pub x_gradient: Tensor<'a>,
    /// `rows × width`; F32.
    pub products: Tensor<'a>,
    /// As for the norm.
    pub eps: f32,
}

impl<'a> RmsNormBackward<'a> {
    /// Of these operands; everything else takes its default.
    pub fn new(
        x: Tensor<'a>,
        weight: Tensor<'a>,
        gradient: Tensor<'a>,
        x_gradient: Tensor<'a>,
        products: Tensor<'a>,
        eps: f32,
    ) -> Self {
        RmsNormBackward {
            x,
            weight,
            gradient,
            x_gradient,
            products,
            eps,
        }
    }
}

impl Commands {
    /// Records the gradients (`iron_encode_rms_norm_backward`).
    #[track_caller]
    pub fn rms_norm_backward(&mut self, operands: &RmsNormBackward<'_>) -> Result<()> {
        let call = "Commands::rms_norm_backward";
        let shapes = Shapes(call);
        let [rows, width] = shapes.of("x", operands.x)?;
        shapes.vector("weight", operands.weight, width)?;
        shapes.matrix("gradient", operands.gradient, [rows, width])?;
        shapes.matrix("x_gradient", operands.x_gradient, [rows, width])?;
        shapes.matrix("products", operands.products, [rows, width])?;
        let native = ffi::iron_rms_norm_backward {
            size: size_of::<ffi::iron_rms_norm_backward>(),
            rows: rows as u64,
            width: width as u64,
            x: operands.x.native(),
            weight: operands.weight.native(),
            gradient: operands.gradient.native(),
            x_gradient: operands.x_gradient.native(),
            products: operands.products.native(),
            eps: operands.eps,
        };
        // SAFETY: the handle is live, and the struct starts with its size and outlives the call.
        check(call, unsafe {
            ffi::iron_encode_rms_norm_backward(self.recorder(), &native)
        })
    }
}
