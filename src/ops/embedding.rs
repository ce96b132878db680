//! Table lookup.

use crate::commands::Commands;
use crate::error::{Result, check};
use crate::ffi;
use crate::ops::optional_factor;
use crate::tensor::Tensor;

/// `out[i] = scale · table[ids[i]]` (`iron_embedding`).
///
/// An id that is not in the table gives a row of NaN: visible at once, and never another token's row.
#[derive(Debug, Clone, Copy, Default)]
pub struct Embedding<'a> {
    /// How many rows are looked up.
    pub rows: usize,
    /// Elements of a row.
    pub width: usize,
    /// Rows of the table.
    pub vocab: usize,
    /// `vocab × width`; F32, F16, BF16 or a block type. May be in a buffer of
    /// [weights](crate::BufferUsage::Weights), without gaps.
    pub table: Tensor<'a>,
    /// `rows` ids; U32.
    pub ids: Tensor<'a>,
    /// `rows × width`; F32.
    pub out: Tensor<'a>,
    /// What each element is multiplied by; finite. `None`: 1. Gemma's is the square root of the width.
    pub scale: Option<f32>,
}

impl Commands {
    /// Records a table lookup (`iron_encode_embedding`).
    #[track_caller]
    pub fn embedding(&mut self, embedding: &Embedding<'_>) -> Result<()> {
        let call = "Commands::embedding";
        let native = ffi::iron_embedding {
            size: size_of::<ffi::iron_embedding>(),
            rows: embedding.rows as u64,
            width: embedding.width as u64,
            vocab: embedding.vocab as u64,
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
