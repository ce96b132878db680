//! Backward of a linear layer.

use crate::commands::Commands;
use crate::error::{Result, check};
use crate::ffi;
use crate::ops::shapes::Shapes;
use crate::tensor::Tensor;

/// The gradients of `y = x · weightᵀ + bias` from that of `y` (`iron_linear_backward`). The forward is a
/// [`Matmul`](crate::ops::Matmul) with a transposed weight and a bias.
///
/// A result that is left out is not computed, and `weight` or `x`, which only that needs, may be left out with it. One
/// at least is asked for.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct LinearBackward<'a> {
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

impl<'a> LinearBackward<'a> {
    /// With no result yet: one at least is to be added.
    pub fn new(x: Tensor<'a>, weight: Tensor<'a>, gradient: Tensor<'a>) -> Self {
        LinearBackward {
            x,
            weight,
            gradient,
            ..Default::default()
        }
    }

    /// Sets [`x_gradient`](Self::x_gradient).
    #[must_use]
    pub fn with_x_gradient(self, x_gradient: impl Into<Option<Tensor<'a>>>) -> Self {
        LinearBackward {
            x_gradient: x_gradient.into(),
            ..self
        }
    }

    /// Sets [`weight_gradient`](Self::weight_gradient).
    #[must_use]
    pub fn with_weight_gradient(self, weight_gradient: impl Into<Option<Tensor<'a>>>) -> Self {
        LinearBackward {
            weight_gradient: weight_gradient.into(),
            ..self
        }
    }

    /// Sets [`bias_gradient`](Self::bias_gradient).
    #[must_use]
    pub fn with_bias_gradient(self, bias_gradient: impl Into<Option<Tensor<'a>>>) -> Self {
        LinearBackward {
            bias_gradient: bias_gradient.into(),
            ..self
        }
    }
}

impl Commands {
    /// Records up to two products and a sum (`iron_encode_linear_backward`).
    #[track_caller]
    pub fn linear_backward(&mut self, linear: &LinearBackward<'_>) -> Result<()> {
        let call = "Commands::linear_backward";
        let shapes = Shapes(call);
        let [rows, outputs] = shapes.of("gradient", linear.gradient)?;
        let matrices = [
            Some(linear.x),
            Some(linear.weight),
            linear.x_gradient,
            linear.weight_gradient,
        ];
        // Only the sum of rows needs neither; then the number is not used.
        let given = matrices
            .into_iter()
            .flatten()
            .find(|matrix| !matrix.is_missing());
        let inputs = given.map_or(1, |matrix| matrix.shape()[1]);
        shapes.matrix("x", linear.x, [rows, inputs])?;
        shapes.matrix("weight", linear.weight, [outputs, inputs])?;
        if let Some(x_gradient) = linear.x_gradient {
            shapes.matrix("x_gradient", x_gradient, [rows, inputs])?;
        }
        if let Some(weight_gradient) = linear.weight_gradient {
            shapes.matrix("weight_gradient", weight_gradient, [outputs, inputs])?;
        }
        if let Some(bias_gradient) = linear.bias_gradient {
            shapes.vector("bias_gradient", bias_gradient, outputs)?;
        }
        let result = |result: Option<Tensor<'_>>| result.unwrap_or_default().native();
        let native = ffi::iron_linear_backward {
            size: size_of::<ffi::iron_linear_backward>(),
            rows: rows as u64,
            inputs: inputs as u64,
            outputs: outputs as u64,
            x: linear.x.native(),
            weight: linear.weight.native(),
            gradient: linear.gradient.native(),
            x_gradient: result(linear.x_gradient),
            weight_gradient: result(linear.weight_gradient),
            bias_gradient: result(linear.bias_gradient),
        };
        // SAFETY: the handle is live, and the struct starts with its size and outlives the call.
        check(call, unsafe {
            ffi::iron_encode_linear_backward(self.recorder(), &native)
        })
    }
}
