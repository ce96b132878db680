//! The front end of the Metal Shading Language: a source becomes C++ (`rewrite`), and clang makes a small library of
//! each kernel (`compiler`, `cache`). Whoever runs it brings the rest.

#[cfg(feature = "msl")]
mod apple_rules;
pub(crate) mod builtin;
#[cfg(feature = "msl")]
pub(crate) mod cache;
#[cfg(feature = "msl")]
mod clang;
#[cfg(feature = "msl")]
mod compiler;
pub(crate) mod compiler_info;
#[cfg(feature = "msl")]
mod diagnostics;
#[cfg(all(feature = "nvidia", target_os = "linux"))]
pub(crate) mod embedded_ptx;
#[cfg(feature = "msl")]
pub(crate) mod error;
#[cfg(feature = "msl")]
mod function_constants;
#[cfg(feature = "msl")]
mod headers;
#[cfg(feature = "msl")]
pub(crate) mod library;
#[cfg(feature = "msl")]
mod limits;
#[cfg(feature = "msl")]
mod object;
#[cfg(feature = "msl")]
mod process;
#[cfg(feature = "msl")]
#[cfg_attr(
    not(all(feature = "nvidia", target_os = "linux")),
    allow(dead_code, reason = "a check of sources needs a part of it")
)]
pub(crate) mod ptx;
#[cfg(all(feature = "nvidia", target_os = "linux"))]
pub(crate) mod ptx_library;
#[cfg(feature = "msl")]
mod registers;
#[cfg(feature = "msl")]
mod rewrite;
#[cfg(feature = "msl")]
mod scratch;
mod setting;
#[cfg(feature = "msl")]
mod target;
#[cfg(feature = "msl")]
mod tokens;

#[cfg(test)]
mod check;

#[cfg(feature = "msl")]
pub use library::Library;
pub use setting::Setting;
#[cfg(feature = "msl")]
pub use target::Instrumentation;

/// What a build without the feature `msl` says of every source.
#[cfg(not(feature = "msl"))]
pub const ABSENT: &str = "this build compiles no Metal source: it is without the feature msl";

/// The compiler that a Metal source would be compiled with now.
#[cfg(feature = "msl")]
pub fn compiler() -> Result<compiler_info::MetalCompiler, error::Error> {
    let clang = clang::Clang::find()?;
    let cache = cache::Cache::open()?;
    Ok(compiler_info::MetalCompiler {
        path: clang.path().to_path_buf(),
        version: clang.version.clone(),
        cache: cache.folder().to_path_buf(),
        cache_bytes: cache.bytes(),
    })
}

/// Nothing compiles.
#[cfg(not(feature = "msl"))]
pub fn compiler() -> Result<compiler_info::MetalCompiler, &'static str> {
    Err(ABSENT)
}

/// Whether there is a compiler now.
#[cfg(feature = "msl")]
pub fn has_compiler() -> bool {
    clang::Clang::find().is_ok()
}

/// There is none.
#[cfg(not(feature = "msl"))]
pub fn has_compiler() -> bool {
    false
}

/// Reads a preprocessed Metal source as far as it is read without a compiler: to what clang would get. Says whether
/// it was understood. For the fuzzer and its findings.
#[cfg(feature = "msl")]
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
    for kernel in &program.kernels {
        assert!(kernel.export().ends_with('\n'));
    }
    let mentions = program.mentions();
    assert!(mentions.is_empty() || mentions.ends_with('\n'));
    true
}

/// Whether `IRONBRIDGE_SOFT_VALIDATE` asks for every access of a kernel to be checked.
#[cfg(feature = "msl")]
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
