//! Transposition.

use crate::commands::Commands;
use crate::error::{Result, check};
use crate::ffi;
use crate::ops::shapes::Shapes;
use crate::tensor::Tensor;

/// `out[j][i] = x[i][j]` (`iron_transpose`).
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct Transpose<'a> {
    /// `rows × width`; F32, F16, BF16 or U32.
    pub x: Tensor<'a>,
    /// `width × rows`; the type of `x`.
    pub out: Tensor<'a>,
}

impl<'a> Transpose<'a> {
    /// Of these operands; everything else takes its default.
    pub fn new(x: Tensor<'a>, out: Tensor<'a>) -> Self {
        Transpose { x, out }
    }
}

impl Commands {
    /// Records a transposition (`iron_encode_transpose`).
    #[track_caller]
    pub fn transpose(&mut self, transpose: &Transpose<'_>) -> Result<()> {
        let call = "Commands::transpose";
        let [rows, width] = Shapes(call).of("x", transpose.x)?;
        Shapes(call).matrix("out", transpose.out, [width, rows])?;
        let native = ffi::iron_transpose {
            size: size_of::<ffi::iron_transpose>(),
            rows: rows as u64,
            width: width as u64,
            x: transpose.x.native(),
            out: transpose.out.native(),
        };
        // SAFETY: the handle is live, and the struct starts with its size and outlives the call.
        check(call, unsafe {
            ffi::iron_encode_transpose(self.recorder(), &native)
        })
    }
}
