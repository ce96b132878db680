//! Metal Shading Language on the CPU: a source becomes C++ (`rewrite`), clang makes a small library of each kernel
//! (`compile`, `cache`), and threadgroups run it with their threads as fibers (`threadgroup`, `fiber`).

mod cache;
mod clang;
mod compile;
mod diagnostics;
mod dispatch;
mod error;
mod fiber;
mod function;
mod library;
mod limits;
mod object;
mod order;
mod process;
mod rewrite;
mod runtime;
mod scratch;
mod setting;
mod shim;
mod stacks;
mod threadgroup;
mod tokens;
mod traps;
mod watchdog;

#[cfg(test)]
mod check;
#[cfg(test)]
mod conformance;

pub use dispatch::{Dispatch, Failure};
pub use function::Function;
pub use library::Library;
pub use order::LaneOrder;
pub use runtime::Range;
pub use setting::Setting;
pub use watchdog::limit_from_environment;

/// The compiler that a Metal source would be compiled with now.
pub fn compiler() -> Result<super::about::MetalCompiler, error::Error> {
    let clang = clang::Clang::find()?;
    let cache = cache::Cache::open()?;
    Ok(super::about::MetalCompiler {
        path: clang.path().to_path_buf(),
        version: clang.version.clone(),
        cache: cache.folder().to_path_buf(),
        cache_bytes: cache.bytes(),
    })
}

/// Whether there is a compiler now.
pub fn has_compiler() -> bool {
    clang::Clang::find().is_ok()
}

/// Reads a preprocessed Metal source as far as it is read without a compiler: to what clang would get. Says whether
/// it was understood. For the fuzzer and its findings.
pub fn read_source(source: &str) -> bool {
    let Ok(program) = rewrite::Program::parse(source) else {
        return false;
    };
    let text = program.text(&program.samples());
    let lines = |text: &str| text.bytes().filter(|byte| *byte == b'\n').count();
    assert_eq!(
        lines(&text),
        lines(source) + 1,
        "a message would name another line"
    );
    for (index, kernel) in program.kernels.iter().enumerate() {
        assert!(kernel.mention(index).ends_with('\n') && kernel.export().ends_with('\n'));
    }
    true
}

/// Whether `IRONBRIDGE_SOFT_VALIDATE` asks for every access of a kernel to be checked.
pub fn validation_from_environment() -> Result<bool, String> {
    const VARIABLE: &str = "IRONBRIDGE_SOFT_VALIDATE";
    match std::env::var_os(VARIABLE) {
        None => Ok(false),
        Some(text) => match text.to_str() {
            Some("" | "0") => Ok(false),
            Some("1") => Ok(true),
            _ => Err(format!("{VARIABLE} is {text:?}; it must be 0 or 1")),
        },
    }
}
