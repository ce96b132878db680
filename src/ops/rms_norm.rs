//! Root mean square normalisation.

use crate::commands::Commands;
use crate::error::{Result, check};
use crate::ffi;
use crate::ops::shapes::Shapes;
use crate::tensor::Tensor;

/// `out[i][j] = x[i][j] / sqrt(mean over j of x[i][j]² + eps) · weight[j]` (`iron_rms_norm`).
///
/// Zhang and Sennrich 2019, [arXiv:1910.07467](https://arxiv.org/abs/1910.07467), equation 4.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct RmsNorm<'a> {
    /// Rows, normalized each by itself; F32.
    pub x: Tensor<'a>,
    /// As many elements as a row of `x`; F32.
    pub weight: Tensor<'a>,
    /// The shape of `x`; F32. May be `x`.
    pub out: Tensor<'a>,
    /// At least 0.
    pub eps: f32,
}

impl<'a> RmsNorm<'a> {
    /// Of these operands; everything else takes its default.
    pub fn new(x: Tensor<'a>, weight: Tensor<'a>, out: Tensor<'a>, eps: f32) -> Self {
        RmsNorm {
            x,
            weight,
            out,
            eps,
        }
    }
}

impl Commands {
    /// Records a normalisation (`iron_encode_rms_norm`).
    #[track_caller]
    pub fn rms_norm(&mut self, norm: &RmsNorm<'_>) -> Result<()> {
        let call = "Commands::rms_norm";
        let shapes = Shapes(call);
        let [rows, width] = shapes.of("x", norm.x)?;
        shapes.vector("weight", norm.weight, width)?;
        shapes.matrix("out", norm.out, [rows, width])?;
        let native = ffi::iron_rms_norm {
            size: size_of::<ffi::iron_rms_norm>(),
            rows: rows as u64,
            width: width as u64,
            x: norm.x.native(),
            weight: norm.weight.native(),
            out: norm.out.native(),
            eps: norm.eps,
        };
        // SAFETY: the handle is live, and the struct starts with its size and outlives the call.
        check(call, unsafe {
            ffi::iron_encode_rms_norm(self.recorder(), &native)
        })
    }
}
