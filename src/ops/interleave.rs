//! Weights in an order that the software device reads faster.

use crate::commands::Commands;
use crate::error::{Result, check};
use crate::ffi;
use crate::tensor::Tensor;

/// Puts rows of weights into strips of 16 interleaved rows, for
/// [`Matmul::interleaved_b`](crate::ops::Matmul::interleaved_b) (`iron_interleave`).
#[derive(Debug, Clone, Copy, Default)]
pub struct Interleave<'a> {
    /// Rows of `x`, a multiple of [`STRIP`](Interleave::STRIP).
    pub rows: usize,
    /// Weights of a row, whole blocks.
    pub width: usize,
    /// `rows × width`; F16, BF16, Q8_0, Q4_0, Q4_K, Q5_K or Q6_K.
    pub x: Tensor<'a>,
    /// As many bytes as `x` packed, of its type.
    pub out: Tensor<'a>,
}

impl Interleave<'_> {
    /// Rows of a strip.
    pub const STRIP: usize = 16;
}

impl Commands {
    /// Records an interleaving (`iron_encode_interleave`).
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) for a type that cannot be interleaved and for rows
    /// that are not whole strips.
    #[track_caller]
    pub fn interleave(&mut self, interleave: &Interleave<'_>) -> Result<()> {
        let native = ffi::iron_interleave {
            size: size_of::<ffi::iron_interleave>(),
            rows: interleave.rows as u64,
            width: interleave.width as u64,
            x: interleave.x.native(),
            out: interleave.out.native(),
        };
        // SAFETY: the handle is live, and the struct starts with its size and outlives the call.
        check("Commands::interleave", unsafe {
            ffi::iron_encode_interleave(self.recorder(), &native)
        })
    }
}
