//! Matrix products on processors with AMX.

pub(crate) mod gemm;
mod pack_a;
pub(crate) mod unpack_b;
