//! Matrix products with block-quantized weights, as integers: [`matmul`] picks one of the loops beside it.

mod block_dot;
mod gemm_packed_b;
mod gemv_dot;
#[cfg(target_arch = "x86_64")]
mod gemv_wide;
mod gemv_x16;
pub(crate) mod matmul;
mod quantize_a;
