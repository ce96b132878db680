//! Root mean square normalisation.

use crate::commands::Commands;
use crate::error::{Result, check};
use crate::ffi;
use crate::tensor::Tensor;

/// `out[i][j] = x[i][j] / sqrt(mean over j of x[i][j]² + eps) · weight[j]` (`iron_rms_norm`).
///
/// Zhang and Sennrich 2019, [arXiv:1910.07467](https://arxiv.org/abs/1910.07467), equation 4.
#[derive(Debug, Clone, Copy, Default)]
pub struct RmsNorm<'a> {
    /// Rows, normalised each by itself.
    pub rows: usize,
    /// Elements of a row.
    pub width: usize,
    /// `rows × width`; F32.
    pub x: Tensor<'a>,
    /// `width` elements; F32.
    pub weight: Tensor<'a>,
    /// `rows × width`; F32. May be `x`.
    pub out: Tensor<'a>,
    /// At least 0, which is the default.
    pub eps: f32,
}

impl Commands {
    /// Records a normalisation (`iron_encode_rms_norm`).
    #[track_caller]
    pub fn rms_norm(&mut self, norm: &RmsNorm<'_>) -> Result<()> {
        let native = ffi::iron_rms_norm {
            size: size_of::<ffi::iron_rms_norm>(),
            rows: norm.rows as u64,
            width: norm.width as u64,
            x: norm.x.native(),
            weight: norm.weight.native(),
            out: norm.out.native(),
            eps: norm.eps,
        };
        // SAFETY: the handle is live, and the struct starts with its size and outlives the call.
        check("Commands::rms_norm", unsafe {
            ffi::iron_encode_rms_norm(self.recorder(), &native)
        })
    }
}
