//! The place of the largest element.

use crate::commands::Commands;
use crate::error::{Result, check};
use crate::ffi;
use crate::tensor::Tensor;

/// `out[i]` = the lowest index of the largest element of `x[i]`; NaN is less than everything (`iron_argmax`).
#[derive(Debug, Clone, Copy, Default)]
pub struct Argmax<'a> {
    /// Rows, each by itself.
    pub rows: usize,
    /// Elements of a row.
    pub width: usize,
    /// `rows × width`; F32.
    pub x: Tensor<'a>,
    /// `rows` indices; U32.
    pub out: Tensor<'a>,
}

impl Commands {
    /// Records an argmax (`iron_encode_argmax`).
    #[track_caller]
    pub fn argmax(&mut self, argmax: &Argmax<'_>) -> Result<()> {
        let native = ffi::iron_argmax {
            size: size_of::<ffi::iron_argmax>(),
            rows: argmax.rows as u64,
            width: argmax.width as u64,
            x: argmax.x.native(),
            out: argmax.out.native(),
        };
        // SAFETY: the handle is live, and the struct starts with its size and outlives the call.
        check("Commands::argmax", unsafe {
            ffi::iron_encode_argmax(self.recorder(), &native)
        })
    }
}
