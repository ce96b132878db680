//! The place of the largest element.

use crate::commands::Commands;
use crate::error::{Result, check};
use crate::ffi;
use crate::ops::shapes::Shapes;
use crate::tensor::Tensor;

/// `out[i]` = the lowest index of the largest element of `x[i]`; NaN is less than everything (`iron_argmax`).
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct Argmax<'a> {
    /// Rows, each by itself; F32.
    pub x: Tensor<'a>,
    /// An index for each row of `x`; U32.
    pub out: Tensor<'a>,
}

impl<'a> Argmax<'a> {
    /// Of these operands; everything else takes its default.
    pub fn new(x: Tensor<'a>, out: Tensor<'a>) -> Self {
        Argmax { x, out }
    }
}

impl Commands {
    /// Records an argmax (`iron_encode_argmax`).
    #[track_caller]
    pub fn argmax(&mut self, argmax: &Argmax<'_>) -> Result<()> {
        let call = "Commands::argmax";
        let [rows, width] = Shapes(call).of("x", argmax.x)?;
        Shapes(call).vector("out", argmax.out, rows)?;
        let native = ffi::iron_argmax {
            size: size_of::<ffi::iron_argmax>(),
            rows: rows as u64,
            width: width as u64,
            x: argmax.x.native(),
            out: argmax.out.native(),
        };
        // SAFETY: the handle is live, and the struct starts with its size and outlives the call.
        check(call, unsafe {
            ffi::iron_encode_argmax(self.recorder(), &native)
        })
    }
}
