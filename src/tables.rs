//! The tables of `native/kernels/*.def` as macros: each calls the macro that it is given with its rows.
//!
//! A type's row is `Q4K { block BlockQ4K, name "q4_k", constant IRON_Q4_K, ggml Q4_K = 12, 256 in 144, aligned 2,
//! scale F16, "256 weights in 144 bytes." }`: the variant of [`DType`](crate::DType), the native block, the name in
//! kernels, the C constant, the type in files, elements in bytes of a block, the alignment in bytes, how the scale is
//! stored, and the documentation. A constant of 0 is not in C.
//!
//! An operation's row is `add { form elementwise "operands", encoder iron_encode_add(iron_elementwise), values
//! [DIMENSION(count)], operands [REUSED(a, F32, 1, count) …], kernel [elementwise THREAD_PER_POINT] }`, the cells of
//! `ops.def`; the kernel is left out of operations of types.

include!(concat!(env!("OUT_DIR"), "/tables.rs"));
