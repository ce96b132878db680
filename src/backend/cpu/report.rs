//! What the software device finds on this machine.

use super::gemm::select;
use super::simd::{Amx, Isa, Tuning};
use crate::backend::cpu::threads::thread_pool::configured_threads;
use crate::msl;
use crate::msl::compiler_info::MetalCompiler;

/// A row of the table that chooses how the software device multiplies matrices. The first row that fits wins.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct KernelRule {
    /// The layout and types of B: `"x16, block"`.
    pub b: String,
    /// Rows of A: `"1 to 4"`.
    pub rows: String,
    /// What the processor must have: `"AMX"`, or nothing.
    pub needs: &'static str,
    /// The source file, in `src/backend/cpu/gemm`.
    pub strategy: &'static str,
    /// Whether this processor can use it.
    pub used: bool,
}

/// What the software device has to work with, on this machine and in this environment.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SoftwareDevice {
    /// Threads that compute, or what is wrong with `IRONBRIDGE_THREADS`.
    pub threads: Result<usize, String>,
    /// The instruction set of its kernels: `"AVX-512"`.
    pub instruction_set: &'static str,
    /// The microarchitecture that they are tuned for: `"Zen 5"`.
    pub tuning: &'static str,
    /// Which kernel multiplies matrices. The first row that fits a product wins.
    pub kernels: Vec<KernelRule>,
    /// What compiles Metal source, or why there is nothing that does. Built-in operations do not need it.
    pub compiler: Result<MetalCompiler, String>,
}

impl SoftwareDevice {
    /// Looks for everything again.
    pub fn find() -> SoftwareDevice {
        let (isa, amx) = (Isa::best(), Amx::new());
        let tuning = Tuning::of(isa);
        SoftwareDevice {
            threads: configured_threads(),
            instruction_set: match amx {
                Some(_) => "AVX-512 and AMX",
                None => isa.name(),
            },
            tuning: tuning.name,
            kernels: kernels(isa, amx, tuning),
            compiler: msl::compiler().map_err(|error| error.to_string()),
        }
    }
}

fn kernels(isa: Isa, amx: Option<Amx>, tuning: &'static Tuning) -> Vec<KernelRule> {
    let table = select::table(isa, amx, tuning).into_iter();
    table
        .map(|row| KernelRule {
            b: row.b,
            rows: row.rows,
            needs: row.needs,
            strategy: row.strategy,
            used: row.used,
        })
        .collect()
}
