//! A bias for every row.

use crate::commands::Commands;
use crate::error::{Result, check};
use crate::ffi;
use crate::tensor::Tensor;

/// `out[i] = x[i] + bias`, row by row (`iron_add_bias`).
#[derive(Debug, Clone, Copy, Default)]
pub struct AddBias<'a> {
    /// Rows.
    pub rows: usize,
    /// Elements of a row.
    pub width: usize,
    /// `rows × width`; F32.
    pub x: Tensor<'a>,
    /// `width` elements; F32.
    pub bias: Tensor<'a>,
    /// `rows × width`; F32. May be `x`.
    pub out: Tensor<'a>,
}

impl Commands {
    /// Records the addition of a bias (`iron_encode_add_bias`). A matrix product takes its bias along:
    /// [`Matmul::bias`](crate::ops::Matmul::bias).
    #[track_caller]
    pub fn add_bias(&mut self, add_bias: &AddBias<'_>) -> Result<()> {
        let native = ffi::iron_add_bias {
            size: size_of::<ffi::iron_add_bias>(),
            rows: add_bias.rows as u64,
            width: add_bias.width as u64,
            x: add_bias.x.native(),
            bias: add_bias.bias.native(),
            out: add_bias.out.native(),
        };
        // SAFETY: the handle is live, and the struct starts with its size and outlives the call.
        check("Commands::add_bias", unsafe {
            ffi::iron_encode_add_bias(self.recorder(), &native)
        })
    }
}
