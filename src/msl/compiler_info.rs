//! The compiler of Metal sources that was found on this machine.

use std::path::PathBuf;

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
