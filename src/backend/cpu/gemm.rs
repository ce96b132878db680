//! Matrix products: [`matmul`] picks one of the loops beside it.

#[cfg(target_arch = "x86_64")]
mod amx;
mod gemm_dot;
mod gemm_packed_a;
mod gemm_packed_b;
mod gemm_x16;
mod gemv_axpy;
mod gemv_dot;
mod gemv_x16;
pub(crate) mod matmul;
pub mod microkernel;
mod problem;
mod quant;
