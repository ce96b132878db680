//! Matrix products with block-quantized weights, as integers: [`matmul`] picks one of the loops beside it.

#![allow(
    clippy::needless_range_loop,
    reason = "closures of iterators need not be inlined, and then miss the instruction set"
)]

mod block_dot;
mod gemm_packed_b;
mod gemv_dot;
#[cfg(target_arch = "x86_64")]
mod gemv_wide;
mod gemv_x16;
pub(crate) mod matmul;
mod quantize_a;
