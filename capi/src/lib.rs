//! The libraries for C: all of it is in the crate `ironbridge`, whose C functions are linked in.

extern crate runtime as _;
