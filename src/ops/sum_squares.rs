//! The sum of squares of each row.

use crate::commands::Commands;
use crate::error::{Result, check};
use crate::ffi;
use crate::ops::shapes::Shapes;
use crate::tensor::Tensor;

/// `out[i] = sum over j of x[i][j]²` (`iron_sum_squares`): with [`SumRows`](crate::ops::SumRows) the square of a
/// global norm.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct SumSquares<'a> {
    /// `rows × width`; F32.
    pub x: Tensor<'a>,
    /// `rows` elements; F32.
    pub out: Tensor<'a>,
}

impl<'a> SumSquares<'a> {
    /// Of these operands; everything else takes its default.
    pub fn new(x: Tensor<'a>, out: Tensor<'a>) -> Self {
        SumSquares { x, out }
    }
}

impl Commands {
    /// Records the sums (`iron_encode_sum_squares`).
    #[track_caller]
    pub fn sum_squares(&mut self, sum: &SumSquares<'_>) -> Result<()> {
        let call = "Commands::sum_squares";
        let [rows, width] = Shapes(call).of("x", sum.x)?;
        Shapes(call).vector("out", sum.out, rows)?;
        let native = ffi::iron_sum_squares {
            size: size_of::<ffi::iron_sum_squares>(),
            rows: rows as u64,
            width: width as u64,
            x: sum.x.native(),
            out: sum.out.native(),
        };
        // SAFETY: the handle is live, and the struct starts with its size and outlives the call.
        check(call, unsafe {
            ffi::iron_encode_sum_squares(self.recorder(), &native)
        })
    }
}
