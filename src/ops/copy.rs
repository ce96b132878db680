//! Copies.

use crate::commands::Commands;
use crate::error::{Result, check};
use crate::ffi;
use crate::ops::shapes::Shapes;
use crate::tensor::Tensor;

/// `dst[i] = src[i]`: among F32, F16 and BF16 (to nearest, ties to even), from these to Q8_0, from Q8_0 to F32, or U32
/// to U32 (`iron_copy`).
///
/// Q8_0 is quantised as GGML does: each 32 elements have the scale `max |x| / 127`, rounded to F16, and the elements
/// that many times it, rounded to nearest. A NaN or infinity among them makes all 32 NaN.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct CopyRows<'a> {
    /// Rows.
    pub src: Tensor<'a>,
    /// The shape of `src`.
    pub dst: Tensor<'a>,
}

impl<'a> CopyRows<'a> {
    /// Of these operands; everything else takes its default.
    pub fn new(src: Tensor<'a>, dst: Tensor<'a>) -> Self {
        CopyRows { src, dst }
    }
}

/// Copies bytes as they are. Within one buffer the ranges must not overlap.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct CopyBytes<'a> {
    /// How many bytes; a multiple of 4.
    pub length: usize,
    /// Where they start; only its buffer and offset, a multiple of 4, matter.
    pub src: Tensor<'a>,
    /// Where they go; only its buffer and offset, a multiple of 4, matter.
    pub dst: Tensor<'a>,
}

impl<'a> CopyBytes<'a> {
    /// Of these operands; everything else takes its default.
    pub fn new(src: Tensor<'a>, dst: Tensor<'a>, length: usize) -> Self {
        CopyBytes { src, dst, length }
    }
}

impl Commands {
    /// Records a copy of rows (`iron_encode_copy`).
    #[track_caller]
    pub fn copy(&mut self, copy: &CopyRows<'_>) -> Result<()> {
        let call = "Commands::copy";
        let [rows, width] = Shapes(call).of("src", copy.src)?;
        Shapes(call).matrix("dst", copy.dst, [rows, width])?;
        let native = ffi::iron_copy {
            size: size_of::<ffi::iron_copy>(),
            rows: rows as u64,
            width: width as u64,
            src: copy.src.native(),
            dst: copy.dst.native(),
        };
        // SAFETY: the handle is live, and the struct starts with its size and outlives the call.
        check(call, unsafe {
            ffi::iron_encode_copy(self.recorder(), &native)
        })
    }

    /// Records a copy of bytes (`iron_encode_copy_bytes`).
    #[track_caller]
    pub fn copy_bytes(&mut self, copy: &CopyBytes<'_>) -> Result<()> {
        // SAFETY: the commands are live, and the buffers are live or null, which the bridge refuses.
        check("Commands::copy_bytes", unsafe {
            ffi::iron_encode_copy_bytes(
                self.recorder(),
                copy.src.native_buffer(),
                copy.src.byte_offset(),
                copy.dst.native_buffer(),
                copy.dst.byte_offset(),
                copy.length as u64,
            )
        })
    }
}
