//! The sum of squares of each row.

use crate::commands::Commands;
use crate::error::{Result, check};
use crate::ffi;
use crate::tensor::Tensor;

/// `out[i] = sum over j of x[i][j]²` (`iron_sum_squares`): with [`SumRows`](crate::ops::SumRows) the square of a
/// global norm.
#[derive(Debug, Clone, Copy, Default)]
pub struct SumSquares<'a> {
    /// Rows.
    pub rows: usize,
    /// Elements of a row.
    pub width: usize,
    /// `rows × width`; F32.
    pub x: Tensor<'a>,
    /// `rows` elements; F32.
    pub out: Tensor<'a>,
}

impl Commands {
    /// Records the sums (`iron_encode_sum_squares`).
    #[track_caller]
    pub fn sum_squares(&mut self, sum: &SumSquares<'_>) -> Result<()> {
        let native = ffi::iron_sum_squares {
            size: size_of::<ffi::iron_sum_squares>(),
            rows: sum.rows as u64,
            width: sum.width as u64,
            x: sum.x.native(),
            out: sum.out.native(),
        };
        // SAFETY: the handle is live, and the struct starts with its size and outlives the call.
        check("Commands::sum_squares", unsafe {
            ffi::iron_encode_sum_squares(self.recorder(), &native)
        })
    }
}
