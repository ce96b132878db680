//! Losses of rows, with their gradients.

use crate::commands::Commands;
use crate::error::{Result, check};
use crate::ffi;
use crate::ops::optional_factor;
use crate::ops::shapes::Shapes;
use crate::tensor::Tensor;

/// Squared error and its gradient: `loss[i] = scale · sum over j of (prediction[i][j] - target[i][j])²` and
/// `gradient = 2 · scale · (prediction - target)` (`iron_mse`).
///
/// With `1 / (rows · width)` as the scale the sum of the losses is the mean squared error, and the gradient is that
/// sum's.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct Mse<'a> {
    /// `rows × width`; F32.
    pub prediction: Tensor<'a>,
    /// As `prediction`; F32.
    pub target: Tensor<'a>,
    /// As `prediction`; F32.
    pub gradient: Tensor<'a>,
    /// `rows` elements; F32.
    pub loss: Tensor<'a>,
    /// `None`: 1.
    pub scale: Option<f32>,
}

impl<'a> Mse<'a> {
    /// Of these operands; everything else takes its default.
    pub fn new(
        prediction: Tensor<'a>,
        target: Tensor<'a>,
        gradient: Tensor<'a>,
        loss: Tensor<'a>,
    ) -> Self {
        Mse {
            prediction,
            target,
            gradient,
            loss,
            ..Default::default()
        }
    }

    /// Sets [`scale`](Self::scale).
    #[must_use]
    pub fn with_scale(self, scale: impl Into<Option<f32>>) -> Self {
        Mse {
            scale: scale.into(),
            ..self
        }
    }
}

/// Cross-entropy of a softmax and its gradient: `loss[i] = -scale · log(softmax(logits[i])[labels[i]])` and
/// `gradient[i] = scale · (softmax(logits[i]) - 1 at labels[i])` (`iron_cross_entropy`).
///
/// A row whose label is [`CrossEntropy::IGNORED`] has a loss and a gradient of 0. Any other label outside of the row
/// makes both NaN.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct CrossEntropy<'a> {
    /// `rows × classes`; F32.
    pub logits: Tensor<'a>,
    /// `rows` classes; U32.
    pub labels: Tensor<'a>,
    /// As `logits`; F32.
    pub gradient: Tensor<'a>,
    /// `rows` elements; F32.
    pub loss: Tensor<'a>,
    /// `None`: 1.
    pub scale: Option<f32>,
}

impl<'a> CrossEntropy<'a> {
    /// Of these operands; everything else takes its default.
    pub fn new(
        logits: Tensor<'a>,
        labels: Tensor<'a>,
        gradient: Tensor<'a>,
        loss: Tensor<'a>,
    ) -> Self {
        CrossEntropy {
            logits,
            labels,
            gradient,
            loss,
            ..Default::default()
        }
    }

    /// Sets [`scale`](Self::scale).
    #[must_use]
    pub fn with_scale(self, scale: impl Into<Option<f32>>) -> Self {
        CrossEntropy {
            scale: scale.into(),
            ..self
        }
    }
}

impl CrossEntropy<'_> {
    /// The label of a row that does not count.
    pub const IGNORED: u32 = ffi::IRON_IGNORED_LABEL;
}

impl Commands {
    /// Records a squared error and its gradient (`iron_encode_mse`).
    #[track_caller]
    pub fn mse(&mut self, mse: &Mse<'_>) -> Result<()> {
        let call = "Commands::mse";
        let shapes = Shapes(call);
        let [rows, width] = shapes.of("prediction", mse.prediction)?;
        shapes.matrix("target", mse.target, [rows, width])?;
        shapes.matrix("gradient", mse.gradient, [rows, width])?;
        shapes.vector("loss", mse.loss, rows)?;
        let native = ffi::iron_mse {
            size: size_of::<ffi::iron_mse>(),
            rows: rows as u64,
            width: width as u64,
            prediction: mse.prediction.native(),
            target: mse.target.native(),
            gradient: mse.gradient.native(),
            loss: mse.loss.native(),
            scale: optional_factor(call, "scale", mse.scale)?,
        };
        // SAFETY: the handle is live, and the struct starts with its size and outlives the call.
        check(call, unsafe {
            ffi::iron_encode_mse(self.recorder(), &native)
        })
    }

    /// Records a cross-entropy and its gradient (`iron_encode_cross_entropy`).
    #[track_caller]
    pub fn cross_entropy(&mut self, cross_entropy: &CrossEntropy<'_>) -> Result<()> {
        let call = "Commands::cross_entropy";
        let shapes = Shapes(call);
        let [rows, width] = shapes.of("logits", cross_entropy.logits)?;
        shapes.vector("labels", cross_entropy.labels, rows)?;
        shapes.matrix("gradient", cross_entropy.gradient, [rows, width])?;
        shapes.vector("loss", cross_entropy.loss, rows)?;
        let native = ffi::iron_cross_entropy {
            size: size_of::<ffi::iron_cross_entropy>(),
            rows: rows as u64,
            width: width as u64,
            logits: cross_entropy.logits.native(),
            labels: cross_entropy.labels.native(),
            gradient: cross_entropy.gradient.native(),
            loss: cross_entropy.loss.native(),
            scale: optional_factor(call, "scale", cross_entropy.scale)?,
        };
        // SAFETY: the handle is live, and the struct starts with its size and outlives the call.
        check(call, unsafe {
            ffi::iron_encode_cross_entropy(self.recorder(), &native)
        })
    }
}
