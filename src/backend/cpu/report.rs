//! What the software device finds on this machine.

use super::simd::Isa;
use crate::backend::cpu::threads::thread_pool::configured_threads;
use crate::msl;
use crate::msl::compiler_info::MetalCompiler;

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
