//! Softmax.

use crate::commands::Commands;
use crate::error::{Result, check};
use crate::ffi;
use crate::ops::optional_factor;
use crate::tensor::Tensor;

/// `out[i][j] = exp(scale · x[i][j]) / sum over j of exp(scale · x[i][j])`, row by row and without overflow
/// (`iron_softmax`).
///
/// A row of nothing but negative infinity gives NaN, as the formula does.
#[derive(Debug, Clone, Copy, Default)]
pub struct Softmax<'a> {
    /// Rows, each by itself.
    pub rows: usize,
    /// Elements of a row.
    pub width: usize,
    /// `rows × width`; F32.
    pub x: Tensor<'a>,
    /// `rows × width`; F32. May be `x`.
    pub out: Tensor<'a>,
    /// What elements are multiplied by. `None`: 1.
    pub scale: Option<f32>,
}

impl Commands {
    /// Records a softmax (`iron_encode_softmax`).
    #[track_caller]
    pub fn softmax(&mut self, softmax: &Softmax<'_>) -> Result<()> {
        let call = "Commands::softmax";
        let native = ffi::iron_softmax {
            size: size_of::<ffi::iron_softmax>(),
            rows: softmax.rows as u64,
            width: softmax.width as u64,
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
