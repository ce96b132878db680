//! The safe facade through its public API, on the default device: the software one on Linux, Apple's on a Mac. Tests
//! that plan failures open a software device wherever they run.

mod buffers;
mod commands;
mod executor;
mod failures;
mod gpus;
mod interoperation;
mod kernels;
mod lifetimes;
mod matmul;
mod memory;
mod ops;
mod oracle;
mod projections;
mod properties;
mod public_api;
mod second_backend;
mod support;
#[cfg(feature = "train")]
mod training;
mod wrapping;
