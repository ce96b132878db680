//! A bias for every row.

use crate::commands::Commands;
use crate::error::{Result, check};
use crate::ffi;
use crate::ops::shapes::Shapes;
use crate::tensor::Tensor;

/// `out[i] = x[i] + bias`, row by row (`iron_add_bias`).
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct AddBias<'a> {
    /// Rows; F32.
    pub x: Tensor<'a>,
    /// As many elements as a row of `x`; F32.
    pub bias: Tensor<'a>,
    /// The shape of `x`; F32. May be `x`.
    pub out: Tensor<'a>,
}

impl<'a> AddBias<'a> {
    /// Of these operands; everything else takes its default.
    pub fn new(x: Tensor<'a>, bias: Tensor<'a>, out: Tensor<'a>) -> Self {
        AddBias { x, bias, out }
    }
}

impl Commands {
    /// Records the addition of a bias (`iron_encode_add_bias`). A matrix product takes its bias along:
    /// [`Matmul::bias`](crate::ops::Matmul::bias).
    #[track_caller]
    pub fn add_bias(&mut self, add_bias: &AddBias<'_>) -> Result<()> {
        let call = "Commands::add_bias";
        let AddBias { x, bias, out } = *add_bias;
        let shapes = Shapes(call);
        let [rows, width] = shapes.of("x", x)?;
        shapes.vector("bias", bias, width)?;
        shapes.matrix("out", out, [rows, width])?;
        let native = ffi::iron_add_bias {
            size: size_of::<ffi::iron_add_bias>(),
            rows: rows as u64,
            width: width as u64,
            x: x.native(),
            bias: bias.native(),
            out: out.native(),
        };
        // SAFETY: the handle is live, and the struct starts with its size and outlives the call.
        check(call, unsafe {
            ffi::iron_encode_add_bias(self.recorder(), &native)
        })
    }
}
