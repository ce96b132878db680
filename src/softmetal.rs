//! What the software Metal device executes: the CPU executor behind `native/softmetal/executor.h`.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`about`] | what it finds on this machine, for people |
//! | [`executor`] | the C table that the device calls, and nothing but the crossing of that border |
//! | [`library`] | which kernels a Metal source stands for |
//! | [`dispatch`] | one dispatch's bindings, typed and checked against the memory that is bound |
//! | [`elements`] | what buffers hold, and how it becomes f32 |
//! | [`simd`] | vectors of f32, one implementation for each instruction set |
//! | [`compute_pool`] | the threads that compute, shared by every queue of the process |
//! | [`kernels`] | the native kernels, by family, and the table of their names |
//! | [`msl`] | Metal Shading Language: a source to kernels, and threadgroups to run them |

pub mod about;
mod affinity;
mod bindings;
mod compute_pool;
mod dispatch;
mod elements;
mod executor;
mod kernels;
mod library;
mod msl;
mod simd;

pub use msl::read_source;
