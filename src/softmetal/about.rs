//! What the software device finds on this machine.

use std::path::PathBuf;

use super::compute_pool::configured_threads;
use super::msl;
use super::simd::Isa;

/// What the software device has to work with, on this machine and in this environment.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SoftwareDevice {
    /// Threads that compute, or what is wrong with `IRONBRIDGE_THREADS`.
    pub threads: Result<usize, String>,
    /// The instruction set of its kernels: `"AVX-512"`.
    pub instruction_set: &'static str,
    /// What compiles Metal source, or why there is nothing that does. Built-in operations do not need it.
    pub compiler: Result<MetalCompiler, String>,
}

/// The clang that compiles Metal source for the software device.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MetalCompiler {
    /// The program.
    pub path: PathBuf,
    /// The first line of its `--version`.
    pub version: String,
    /// Where compiled kernels are kept for later processes.
    pub cache: PathBuf,
    /// The bytes of the kernels that are kept there.
    pub cache_bytes: u64,
}

impl SoftwareDevice {
    /// Looks for everything again.
    pub fn find() -> SoftwareDevice {
        SoftwareDevice {
            threads: configured_threads(),
            instruction_set: Isa::best().name(),
            compiler: msl::compiler().map_err(|error| error.to_string()),
        }
    }
}
