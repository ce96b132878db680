//! One Objective-C bridge to Metal, a safe facade over it and a LLaMA runtime; on hosts without Metal, the same bridge
//! over a software Metal device.
//!
//! A [`Device`] makes [`Buffer`]s and [`Commands`]. Operations are recorded over [`Tensor`]s, which are views of
//! buffers, and committed; the [`Pending`] work can be waited for.
//!
//! ```
//! use ironbridge::{Device, ops::Matmul};
//!
//! # fn main() -> Result<(), ironbridge::Error> {
//! let device = Device::open("cpu")?; // "default" takes a GPU where there is one
//! let a = device.buffer_from(&[1.0f32, 2.0, 3.0, 4.0])?; // 2 × 2, row-major
//! let b = device.buffer_from(&[0.0f32, 1.0, 1.0, 0.0])?;
//! let c = device.buffer::<f32>(4)?;
//!
//! let mut commands = device.commands()?;
//! commands.matmul(&Matmul::new(a.matrix(2, 2), b.matrix(2, 2), c.matrix(2, 2)))?;
//! let pending = commands.commit()?;
//! drop((a, b)); // the commands keep what they use
//! pending.wait()?;
//!
//! assert_eq!(c.to_vec()?, [2.0, 1.0, 4.0, 3.0]);
//! # Ok(())
//! # }
//! ```
//!
//! Code that keeps its data in slices can use [`MatmulExecutor`] instead.
//!
//! # A program's Cargo.toml
//!
//! A plain `cargo run` compiles dependencies without optimization, and native kernels are then many times slower. These
//! lines, in the Cargo.toml of the program or its workspace, compile them as a release does. The program itself stays
//! as quick to build as it was. With the feature `tracing`, an event of level warn says so when they are missing.
//!
//! ```toml
//! [profile.dev.package."*"]
//! opt-level = 3
//! ```
//!
//! # Features
//!
//! A default build has the first five. Without them the crate is the bridge, its operations and Metal's devices: a
//! program that wants one matmul on a Mac compiles nothing else.
//!
//! | feature | what it brings |
//! | --- | --- |
//! | `llama` | the module `llama`, and its functions in C |
//! | `chat` | chat templates; brings `llama` |
//! | `software-device` | the software Metal device, the only one on Linux |
//! | `msl` | Metal source on the software device, by the clang that is there; brings `software-device` |
//! | `nvidia` | NVIDIA's GPUs on Linux, elsewhere nothing; brings `msl` |
//! | `tracing` | operations, their memory and warnings as events of the crate `tracing` |
//! | `cli`, `pull` | the command line, and models from a hub; a library never needs them |
//!
//! # What safe means here
//!
//! 1. Host access waits for the device, and the device never sees memory that the host has mapped for writing. The
//!    borrow checker settles host against host, the bridge host against device, and the latter answers with
//!    [`Error::InUse`].
//! 2. Handles may be dropped at any time, in any order, on any thread. Work in flight keeps what it needs.
//! 3. Objects of different devices do not mix: [`Error::WrongDevice`].
//! 4. A failure of the device is reported by [`Pending::wait`] or [`Device::sync`], and what it should have written
//!    cannot be read ([`Error::Poisoned`]): there are errors, never wrong numbers.
//! 5. What nobody but the caller can judge is unsafe: [`Commands::dispatch`](Commands#method.dispatch), which runs a
//!    kernel of the caller's, [`FileMapping::of`], which maps a file that others could change, and the trait
//!    [`HostMemory`], whose implementors vouch for foreign memory.
//!
//! No thread needs an autorelease pool: every entry of the bridge drains its own.

// docs.rs says at each item which feature it needs.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![deny(missing_docs)]
#![warn(clippy::undocumented_unsafe_blocks)]

#[cfg(feature = "software-device")]
mod backend;
mod buffer;
mod build_profile;
#[cfg(feature = "llama")]
mod capi;
mod commands;
mod device;
mod device_selector;
pub mod diagnostics;
mod dtype;
mod error;
/// The C ABI as bindgen declares it, for the tests of the C ABI; no part of the interface. Rust programs that need the
/// C functions can declare them from the headers.
#[doc(hidden)]
pub mod ffi;
#[cfg(feature = "llama")]
mod file_mapping;
#[cfg(feature = "train")]
pub mod finetune;
mod handle;
pub mod interoperation;
pub mod kernel;
#[cfg(feature = "llama")]
pub mod llama;
pub mod memory;
#[cfg(feature = "software-device")]
mod msl;
#[cfg(feature = "llama")]
mod new_file;
pub mod ops;
pub mod projections;
/// For `ironbridge stress` and the tests; no part of the interface.
#[doc(hidden)]
pub mod stress;
mod tables;
mod tensor;
#[cfg(feature = "train")]
pub mod train;
mod weights;

pub use buffer::{Buffer, BufferOptions, HostMemory, ReadGuard, WriteGuard};
pub use commands::{
    ActivationPrecision, Commands, CommandsInfo, CommandsOptions, CommandsState, Pending,
    Submission,
};
pub use device::{Device, DeviceInfo, DeviceKind, DeviceOptions};
pub use device_selector::DeviceSelector;
pub use dtype::{DType, Element, Number};
pub use error::{Error, Failure, Result, Status};
#[cfg(feature = "llama")]
pub use file_mapping::FileMapping;
pub use half::{bf16, f16};
pub use memory::monitor;
pub use memory::{BufferUsage, Storage};
pub use projections::MatmulExecutor;
pub use tensor::Tensor;
pub use weights::WeightMatrix;

/// For the fuzzer of Metal sources and its findings; no part of the interface.
#[cfg(feature = "msl")]
#[doc(hidden)]
pub fn read_metal_source(source: &str) -> bool {
    crate::msl::read_source(source)
}

/// The README's programs compile and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// And so do those of the guide to models.
#[cfg(doctest)]
#[doc = include_str!("../docs/LLAMA.md")]
struct LlamaGuide;
