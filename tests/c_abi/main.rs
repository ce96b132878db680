//! The C functions with everything that can be wrong about a call: each gives the typed error with a message that names
//! the argument, nothing is lost, and the device goes on working.

#[path = "../abi/mod.rs"]
mod abi;
mod arguments;
#[cfg(ironbridge_native)]
mod bindings;
mod buffers;
mod commands;
mod descriptions;
mod failures;
mod fixture;
mod handles;
mod kernels;
mod lifetimes;
#[cfg(ironbridge_native)]
mod llama;
mod names;
mod operations;
#[path = "../abi/pool.rs"]
mod pool;
mod rowwise;
mod second_backend;
mod weights;
