//! The safe facade through its public API, on the default device: the software one on Linux, Apple's on a Mac. Tests
//! that plan failures open a software device wherever they run.

mod buffers;
mod commands;
mod executor;
mod failures;
mod functions;
mod gpus;
mod interoperation;
mod kernels;
mod lifetimes;
mod matmul;
mod memory;
mod nvidia;
mod ops;
mod oracle;
mod projections;
mod properties;
mod public_api;
mod second_backend;
mod support;
mod textures;
#[cfg(feature = "train")]
mod training;
#[cfg(feature = "train")]
mod training_language;
#[cfg(feature = "train")]
mod training_lora;
#[cfg(feature = "train")]
mod training_precision;
#[cfg(feature = "train")]
mod training_pytorch;
mod wrapping;
