//! Softmax.

use crate::commands::Commands;
use crate::error::{Result, check};
use crate::ffi;
use crate::ops::optional_factor;
use crate::ops::shapes::Shapes;
use crate::tensor::Tensor;

/// `out[i][j] = exp(scale · x[i][j]) / sum over j of exp(scale · x[i][j])`, row by row and without overflow
/// (`iron_softmax`).
///
/// A row of nothing but negative infinity gives NaN, as the formula does.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct Softmax<'a> {
    /// Rows, each by itself; F32.
    pub x: Tensor<'a>,
    /// The shape of `x`; F32. May be `x`.
    pub out: Tensor<'a>,
    /// What elements are multiplied by. `None`: 1.
    pub scale: Option<f32>,
}

impl<'a> Softmax<'a> {
    /// Of these operands; everything else takes its default.
    pub fn new(x: Tensor<'a>, out: Tensor<'a>) -> Self {
        Softmax {
            x,
            out,
            ..Default::default()
        }
    }

    /// Sets [`scale`](Self::scale).
    #[must_use]
    pub fn with_scale(self, scale: impl Into<Option<f32>>) -> Self {
        Softmax {
            scale: scale.into(),
            ..self
        }
    }
}

impl Commands {
    /// Records a softmax (`iron_encode_softmax`).
    #[track_caller]
    pub fn softmax(&mut self, softmax: &Softmax<'_>) -> Result<()> {
        let call = "Commands::softmax";
        let [rows, width] = Shapes(call).of("x", softmax.x)?;
        Shapes(call).matrix("out", softmax.out, [rows, width])?;
        let native = ffi::iron_softmax {
            size: size_of::<ffi::iron_softmax>(),
            rows: rows as u64,
            width: width as u64,
            x: softmax.x.native(),
            out: softmax.out.native(),
            scale: optional_factor(call, "scale", softmax.scale)?,
        };
        // SAFETY: the handle is live, and the struct starts with its size and outlives the call.
        check(call, unsafe {
            ffi::iron_encode_softmax(self.recorder(), &native)
        })
    }
}
