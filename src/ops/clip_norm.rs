//! Scaling of gradients, and clipping by their norm.

use crate::commands::Commands;
use crate::error::{Result, check};
use crate::ffi;
use crate::ops::optional_factor;
use crate::tensor::Tensor;

/// `x *= scale · min(1, norm / (|scale| · √squares + 1e-6))`, in place (`iron_clip_norm`). The squares are in device
/// memory, so that no host waits for them.
///
/// Pascanu et al. 2012, [arXiv:1211.5063](https://arxiv.org/abs/1211.5063), algorithm 1, as PyTorch's
/// `clip_grad_norm_`.
#[derive(Debug, Clone, Copy, Default)]
pub struct ClipNorm<'a> {
    /// Elements of `x`.
    pub count: usize,
    /// One element, the sum of the squares of all that is clipped together, before it is scaled; F32.
    pub squares: Tensor<'a>,
    /// `count` elements, packed; F32.
    pub x: Tensor<'a>,
    /// The largest norm; at least 0.
    pub norm: f32,
    /// What gradients are multiplied by before they are clipped; not 0. `None`: 1.
    pub scale: Option<f32>,
}

impl Commands {
    /// Records the clipping (`iron_encode_clip_norm`).
    #[track_caller]
    pub fn clip_norm(&mut self, clip: &ClipNorm<'_>) -> Result<()> {
        let native = ffi::iron_clip_norm {
            size: size_of::<ffi::iron_clip_norm>(),
            count: clip.count as u64,
            squares: clip.squares.native(),
            x: clip.x.native(),
            norm: clip.norm,
            padding: 0,
            scale: optional_factor("Commands::clip_norm", "scale", clip.scale)?,
        };
        // SAFETY: the handle is live, and the struct starts with its size and outlives the call.
        check("Commands::clip_norm", unsafe {
            ffi::iron_encode_clip_norm(self.recorder(), &native)
        })
    }
}
