//! Filling with one byte.

use crate::commands::Commands;
use crate::error::{Result, check};
use crate::ffi;
use crate::tensor::Tensor;

/// Sets bytes to one value. Filling a whole buffer clears a poisoning.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct Fill<'a> {
    /// How many bytes; a multiple of 4.
    pub length: usize,
    /// Where they start; only its buffer and offset, a multiple of 4, matter.
    pub out: Tensor<'a>,
    /// What each becomes. Default: 0.
    pub value: u8,
}

impl<'a> Fill<'a> {
    /// Of these operands; everything else takes its default.
    pub fn new(out: Tensor<'a>, length: usize) -> Self {
        Fill {
            out,
            length,
            ..Default::default()
        }
    }

    /// Sets [`value`](Self::value).
    #[must_use]
    pub fn with_value(self, value: u8) -> Self {
        Fill { value, ..self }
    }
}

impl Commands {
    /// Records a filling (`iron_encode_fill`).
    #[track_caller]
    pub fn fill(&mut self, fill: &Fill<'_>) -> Result<()> {
        // SAFETY: the commands are live, and the buffer is live or null, which the bridge refuses.
        check("Commands::fill", unsafe {
            ffi::iron_encode_fill(
                self.recorder(),
                fill.out.native_buffer(),
                fill.out.byte_offset(),
                fill.length as u64,
                fill.value,
            )
        })
    }
}
