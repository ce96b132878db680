//! Table lookup.

use crate::commands::Commands;
use crate::error::{Result, check};
use crate::ffi;
use crate::ops::optional_factor;
use crate::ops::shapes::Shapes;
use crate::tensor::Tensor;

/// `out[i] = scale · table[ids[i]]` (`iron_embedding`).
///
/// An id that is not in the table gives a row of NaN: visible at once, and never another token's row.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct Embedding<'a> {
    /// `vocabulary × width`; F32, F16, BF16 or a block type. May be in a buffer of
    /// [weights](crate::BufferUsage::Weights), without gaps.
    pub table: Tensor<'a>,
    /// Any number of ids; U32.
    pub ids: Tensor<'a>,
    /// `ids × width`; F32.
    pub out: Tensor<'a>,
    /// What each element is multiplied by; finite. `None`: 1. Gemma's is the square root of the width.
    pub scale: Option<f32>,
}

impl<'a> Embedding<'a> {
    /// Of these operands; everything else takes its default.
    pub fn new(table: Tensor<'a>, ids: Tensor<'a>, out: Tensor<'a>) -> Self {
        Embedding {
            table,
            ids,
            out,
            ..Default::default()
        }
    }

    /// Sets [`scale`](Self::scale).
    #[must_use]
    pub fn with_scale(self, scale: impl Into<Option<f32>>) -> Self {
        Embedding {
            scale: scale.into(),
            ..self
        }
    }
}

impl Commands {
    /// Records a table lookup (`iron_encode_embedding`).
    #[track_caller]
    pub fn embedding(&mut self, embedding: &Embedding<'_>) -> Result<()> {
        let call = "Commands::embedding";
        let shapes = Shapes(call);
        let [vocab, width] = shapes.of("table", embedding.table)?;
        let rows = shapes.count("ids", embedding.ids)?;
        shapes.matrix("out", embedding.out, [rows, width])?;
        let native = ffi::iron_embedding {
            size: size_of::<ffi::iron_embedding>(),
            rows: rows as u64,
            width: width as u64,
            vocab: vocab as u64,
            table: embedding.table.native(),
            ids: embedding.ids.native(),
            out: embedding.out.native(),
            scale: optional_factor(call, "scale", embedding.scale)?,
        };
        // SAFETY: the handle is live, and the struct starts with its size and outlives the call.
        check(call, unsafe {
            ffi::iron_encode_embedding(self.recorder(), &native)
        })
    }
}
