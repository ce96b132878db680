//! The sum of a matrix's rows.

use crate::commands::Commands;
use crate::error::{Result, check};
use crate::ffi;
use crate::tensor::Tensor;

/// `out[j] = sum over i of x[i][j]` (`iron_sum_rows`): the gradient of a bias.
#[derive(Debug, Clone, Copy, Default)]
pub struct SumRows<'a> {
    /// Rows.
    pub rows: usize,
    /// Elements of a row.
    pub width: usize,
    /// `rows × width`; F32.
    pub x: Tensor<'a>,
    /// `width` elements; F32.
    pub out: Tensor<'a>,
}

impl Commands {
    /// Records the sum (`iron_encode_sum_rows`).
    #[track_caller]
    pub fn sum_rows(&mut self, sum: &SumRows<'_>) -> Result<()> {
        let native = ffi::iron_sum_rows {
            size: size_of::<ffi::iron_sum_rows>(),
            rows: sum.rows as u64,
            width: sum.width as u64,
            x: sum.x.native(),
            out: sum.out.native(),
        };
        // SAFETY: the handle is live, and the struct starts with its size and outlives the call.
        check("Commands::sum_rows", unsafe {
            ffi::iron_encode_sum_rows(self.recorder(), &native)
        })
    }
}
