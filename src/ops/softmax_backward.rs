//! The gradient of a softmax.

use crate::commands::Commands;
use crate::error::{Result, check};
use crate::ffi;
use crate::ops::optional_factor;
use crate::ops::shapes::Shapes;
use crate::tensor::Tensor;

/// Backward of [`Softmax`](crate::ops::Softmax) (`iron_softmax_backward`): `out[i] = scale · y[i] · (gradient[i] -
/// y[i] · gradient[i]ᵀ)`, from the output `y` and its gradient.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct SoftmaxBackward<'a> {
    /// The output: `rows × width`; F32.
    pub y: Tensor<'a>,
    /// That of the output: `rows × width`; F32.
    pub gradient: Tensor<'a>,
    /// `rows × width`; F32. May be `gradient`.
    pub out: Tensor<'a>,
    /// As for the softmax. `None`: 1.
    pub scale: Option<f32>,
}

impl<'a> SoftmaxBackward<'a> {
    /// Of these operands; everything else takes its default.
    pub fn new(y: Tensor<'a>, gradient: Tensor<'a>, out: Tensor<'a>) -> Self {
        SoftmaxBackward {
            y,
            gradient,
            out,
            ..Default::default()
        }
    }

    /// Sets [`scale`](Self::scale).
    #[must_use]
    pub fn with_scale(self, scale: impl Into<Option<f32>>) -> Self {
        SoftmaxBackward {
            scale: scale.into(),
            ..self
        }
    }
}

impl Commands {
    /// Records the gradient (`iron_encode_softmax_backward`).
    #[track_caller]
    pub fn softmax_backward(&mut self, operands: &SoftmaxBackward<'_>) -> Result<()> {
        let call = "Commands::softmax_backward";
        let shapes = Shapes(call);
        let [rows, width] = shapes.of("y", operands.y)?;
        shapes.matrix("gradient", operands.gradient, [rows, width])?;
        shapes.matrix("out", operands.out, [rows, width])?;
        let native = ffi::iron_softmax_backward {
            size: size_of::<ffi::iron_softmax_backward>(),
            rows: rows as u64,
            width: width as u64,
            y: operands.y.native(),
            gradient: operands.gradient.native(),
            out: operands.out.native(),
            scale: optional_factor(call, "scale", operands.scale)?,
        };
        // SAFETY: the handle is live, and the struct starts with its size and outlives the call.
        check(call, unsafe {
            ffi::iron_encode_softmax_backward(self.recorder(), &native)
        })
    }
}
