//! The sum of a matrix's rows.

use crate::commands::Commands;
use crate::error::{Result, check};
use crate::ffi;
use crate::ops::shapes::Shapes;
use crate::tensor::Tensor;

/// `out[j] = sum over i of x[i][j]` (`iron_sum_rows`): the gradient of a bias.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct SumRows<'a> {
    /// `rows × width`; F32.
    pub x: Tensor<'a>,
    /// `width` elements; F32.
    pub out: Tensor<'a>,
}

impl<'a> SumRows<'a> {
    /// Of these operands; everything else takes its default.
    pub fn new(x: Tensor<'a>, out: Tensor<'a>) -> Self {
        SumRows { x, out }
    }
}

impl Commands {
    /// Records the sum (`iron_encode_sum_rows`).
    #[track_caller]
    pub fn sum_rows(&mut self, sum: &SumRows<'_>) -> Result<()> {
        let call = "Commands::sum_rows";
        let [rows, width] = Shapes(call).of("x", sum.x)?;
        Shapes(call).vector("out", sum.out, width)?;
        let native = ffi::iron_sum_rows {
            size: size_of::<ffi::iron_sum_rows>(),
            rows: rows as u64,
            width: width as u64,
            x: sum.x.native(),
            out: sum.out.native(),
        };
        // SAFETY: the handle is live, and the struct starts with its size and outlives the call.
        check(call, unsafe {
            ffi::iron_encode_sum_rows(self.recorder(), &native)
        })
    }
}
