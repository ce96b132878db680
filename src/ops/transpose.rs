//! Transposition.

use crate::commands::Commands;
use crate::error::{Result, check};
use crate::ffi;
use crate::tensor::Tensor;

/// `out[j][i] = x[i][j]` (`iron_transpose`).
#[derive(Debug, Clone, Copy, Default)]
pub struct Transpose<'a> {
    /// Rows of `x`.
    pub rows: usize,
    /// Elements of a row of `x`.
    pub width: usize,
    /// `rows × width`; F32, F16, BF16 or U32.
    pub x: Tensor<'a>,
    /// `width × rows`; the type of `x`.
    pub out: Tensor<'a>,
}

impl Commands {
    /// Records a transposition (`iron_encode_transpose`).
    #[track_caller]
    pub fn transpose(&mut self, transpose: &Transpose<'_>) -> Result<()> {
        let native = ffi::iron_transpose {
            size: size_of::<ffi::iron_transpose>(),
            rows: transpose.rows as u64,
            width: transpose.width as u64,
            x: transpose.x.native(),
            out: transpose.out.native(),
        };
        // SAFETY: the handle is live, and the struct starts with its size and outlives the call.
        check("Commands::transpose", unsafe {
            ffi::iron_encode_transpose(self.recorder(), &native)
        })
    }
}
