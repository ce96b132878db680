//! The gradient of an embedding table.

use crate::commands::Commands;
use crate::error::{Result, check};
use crate::ffi;
use crate::ops::optional_factor;
use crate::ops::shapes::Shapes;
use crate::tensor::Tensor;

/// Backward of [`Embedding`](crate::ops::Embedding) (`iron_embedding_backward`): `out[v]` is the sum of the rows of
/// `gradient` whose id is `v`, in their order, and 0 where there is none.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct EmbeddingBackward<'a> {
    /// Any number of ids; U32. One outside of the table adds to nothing.
    pub ids: Tensor<'a>,
    /// That of the output: `ids × width`; F32.
    pub gradient: Tensor<'a>,
    /// `vocabulary × width`; F32.
    pub out: Tensor<'a>,
    /// As for the embedding. `None`: 1.
    pub scale: Option<f32>,
}

impl<'a> EmbeddingBackward<'a> {
    /// Of these operands; everything else takes its default.
    pub fn new(ids: Tensor<'a>, gradient: Tensor<'a>, out: Tensor<'a>) -> Self {
        EmbeddingBackward {
            ids,
            gradient,
            out,
            ..Default::default()
        }
    }

    /// Sets [`scale`](Self::scale).
    #[must_use]
    pub fn with_scale(self, scale: impl Into<Option<f32>>) -> Self {
        EmbeddingBackward {
            scale: scale.into(),
            ..self
        }
    }
}

impl Commands {
    /// Records the gradient (`iron_encode_embedding_backward`).
    #[track_caller]
    pub fn embedding_backward(&mut self, operands: &EmbeddingBackward<'_>) -> Result<()> {
        let call = "Commands::embedding_backward";
        let [vocab, width] = Shapes(call).of("out", operands.out)?;
        let shapes = Shapes(call);
        let rows = shapes.count("ids", operands.ids)?;
        shapes.matrix("gradient", operands.gradient, [rows, width])?;
        let native = ffi::iron_embedding_backward {
            size: size_of::<ffi::iron_embedding_backward>(),
            rows: rows as u64,
            width: width as u64,
            vocab: vocab as u64,
            ids: operands.ids.native(),
            gradient: operands.gradient.native(),
            out: operands.out.native(),
            scale: optional_factor(call, "scale", operands.scale)?,
        };
        // SAFETY: the handle is live, and the struct starts with its size and outlives the call.
        check(call, unsafe {
            ffi::iron_encode_embedding_backward(self.recorder(), &native)
        })
    }
}
