//! Matrix products: [`matmul`] picks one of the loops beside it.

#![allow(
    clippy::needless_range_loop,
    reason = "closures of iterators need not be inlined, and then miss the instruction set"
)]

#[cfg(target_arch = "x86_64")]
mod amx;
#[cfg(target_arch = "x86_64")]
mod gemm_dot;
mod gemm_packed_a;
mod gemm_packed_b;
#[cfg(target_arch = "x86_64")]
mod gemm_x16;
mod gemv_axpy;
mod gemv_dot;
mod gemv_x16;
pub(crate) mod matmul;
pub mod microkernel;
mod problem;
mod quant;
mod rows;
pub mod select;
pub mod square;
