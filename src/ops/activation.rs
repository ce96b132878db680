//! Functions of one element.

use crate::commands::Commands;
use crate::error::{Result, check};
use crate::ffi;
use crate::ops::optional_factor;
use crate::ops::shapes::Shapes;
use crate::tensor::Tensor;

/// `out[i] = scale · f(x[i] / scale)` (`iron_activation`).
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct Activation<'a> {
    /// Any shape, packed; F32.
    pub x: Tensor<'a>,
    /// As many elements as `x`, packed; F32. May be `x`.
    pub out: Tensor<'a>,
    /// Above 0. `None`: 1. A `tanh` with a scale is a soft cap.
    pub scale: Option<f32>,
}

impl<'a> Activation<'a> {
    /// Of these operands; everything else takes its default.
    pub fn new(x: Tensor<'a>, out: Tensor<'a>) -> Self {
        Activation {
            x,
            out,
            ..Default::default()
        }
    }

    /// Sets [`scale`](Self::scale).
    #[must_use]
    pub fn with_scale(self, scale: impl Into<Option<f32>>) -> Self {
        Activation {
            scale: scale.into(),
            ..self
        }
    }
}

impl Activation<'_> {
    fn native(&self, call: &'static str) -> Result<ffi::iron_activation> {
        let shapes = Shapes(call);
        let count = shapes.count("x", self.x)?;
        shapes.vector("out", self.out, count)?;
        Ok(ffi::iron_activation {
            size: size_of::<ffi::iron_activation>(),
            count: count as u64,
            x: self.x.native(),
            out: self.out.native(),
            scale: optional_factor(call, "scale", self.scale)?,
        })
    }
}

impl Commands {
    /// Records `f(x) = max(x, 0)`; NaN stays NaN (`iron_encode_relu`).
    #[track_caller]
    pub fn relu(&mut self, operands: &Activation<'_>) -> Result<()> {
        let call = "Commands::relu";
        let native = operands.native(call)?;
        // SAFETY: the handle is live, and the struct starts with its size and outlives the call.
        check(call, unsafe {
            ffi::iron_encode_relu(self.recorder(), &native)
        })
    }

    /// Records `f(x) = 1 / (1 + exp(-x))` (`iron_encode_sigmoid`).
    #[track_caller]
    pub fn sigmoid(&mut self, operands: &Activation<'_>) -> Result<()> {
        let call = "Commands::sigmoid";
        let native = operands.native(call)?;
        // SAFETY: the handle is live, and the struct starts with its size and outlives the call.
        check(call, unsafe {
            ffi::iron_encode_sigmoid(self.recorder(), &native)
        })
    }

    /// Records `f(x) = tanh(x)` (`iron_encode_tanh`).
    #[track_caller]
    pub fn tanh(&mut self, operands: &Activation<'_>) -> Result<()> {
        let call = "Commands::tanh";
        let native = operands.native(call)?;
        // SAFETY: the handle is live, and the struct starts with its size and outlives the call.
        check(call, unsafe {
            ffi::iron_encode_tanh(self.recorder(), &native)
        })
    }
}
