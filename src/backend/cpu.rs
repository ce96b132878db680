//! The CPU backend of the software Metal device.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`backend`] | what the device opens: the machine, its buffers, modules and streams |
//! | [`stream`] | executes lists of commands: on a thread of its own, or on the one that waits |
//! | [`execute`] | one command of a list |
//! | [`memory`] | the pages behind buffers |
//! | [`weights`] | which rows of a buffer of weights lie in x16 panels |
//! | [`report`] | what it finds on this machine, for people |
//! | `work` | what kernels did, on devices that count it (feature `msl`) |
//! | [`library`] | which kernels a Metal source stands for |
//! | [`registry`] | the native kernels by name |
//! | [`attention`], [`gemm`], [`kernels`] | the native kernels, by family |
//! | [`bindings`] | one dispatch's bindings, typed and checked against the memory that is bound |
//! | [`range`] | memory that a kernel is given |
//! | [`limits`] | what a dispatch may take |
//! | [`deadline`] | an end for dispatches that nobody waits for |
//! | [`quants`] | what buffers hold, and how it becomes f32 |
//! | [`simd`] | vectors of f32, one implementation for each instruction set |
//! | [`threads`] | the threads that compute, shared by every queue of the process |
//! | `metal_source` | libraries and launches of Metal sources that are compiled (feature `msl`) |
//! | `msl` | a threadgroup of a compiled Metal kernel on the CPU: fibers, barriers, stacks, faults |

mod attention;
pub(crate) mod backend;
mod bindings;
mod deadline;
mod execute;
mod gemm;
mod kernels;
mod library;
mod limits;
mod machine;
mod memory;
#[cfg(feature = "msl")]
mod metal_source;
#[cfg(feature = "msl")]
pub(crate) mod msl;
mod process_machine;
mod quants;
mod range;
mod registry;
pub mod report;
mod rules;
mod scratch;
mod simd;
mod stream;
mod threads;
mod weights;
#[cfg(feature = "msl")]
pub mod work;

#[cfg(test)]
mod kernel_matrix;
#[cfg(test)]
mod testing;
