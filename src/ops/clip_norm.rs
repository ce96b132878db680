//! Scaling of gradients, and clipping by their norm.

use crate::commands::Commands;
use crate::error::{Result, check};
use crate::ffi;
use crate::ops::optional_factor;
use crate::ops::shapes::Shapes;
use crate::tensor::Tensor;

/// `x *= scale · min(1, norm / (|scale| · √squares + 1e-6))`, in place (`iron_clip_norm`). The squares are in device
/// memory, so that no host waits for them.
///
/// Pascanu et al. 2012, [arXiv:1211.5063](https://arxiv.org/abs/1211.5063), algorithm 1, as PyTorch's
/// `clip_grad_norm_`.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct ClipNorm<'a> {
    /// One element, the sum of the squares of all that is clipped together, before it is scaled; F32.
    pub squares: Tensor<'a>,
    /// Any shape, packed; F32.
    pub x: Tensor<'a>,
    /// The largest norm; at least 0.
    pub norm: f32,
    /// What gradients are multiplied by before they are clipped; not 0. `None`: 1.
    pub scale: Option<f32>,
}

impl<'a> ClipNorm<'a> {
    /// Of these operands; everything else takes its default.
    pub fn new(x: Tensor<'a>, squares: Tensor<'a>, norm: f32) -> Self {
        ClipNorm {
            x,
            squares,
            norm,
            ..Default::default()
        }
    }

    /// Sets [`scale`](Self::scale).
    #[must_use]
    pub fn with_scale(self, scale: impl Into<Option<f32>>) -> Self {
        ClipNorm {
            scale: scale.into(),
            ..self
        }
    }
}

impl Commands {
    /// Records the clipping (`iron_encode_clip_norm`).
    #[track_caller]
    pub fn clip_norm(&mut self, clip: &ClipNorm<'_>) -> Result<()> {
        let call = "Commands::clip_norm";
        let shapes = Shapes(call);
        let count = shapes.count("x", clip.x)?;
        shapes.vector("squares", clip.squares, 1)?;
        let native = ffi::iron_clip_norm {
            size: size_of::<ffi::iron_clip_norm>(),
            count: count as u64,
            squares: clip.squares.native(),
            x: clip.x.native(),
            norm: clip.norm,
            padding: 0,
            scale: optional_factor(call, "scale", clip.scale)?,
        };
        // SAFETY: the handle is live, and the struct starts with its size and outlives the call.
        check(call, unsafe {
            ffi::iron_encode_clip_norm(self.recorder(), &native)
        })
    }
}
