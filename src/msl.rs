//! The front end of the Metal Shading Language: a source becomes C++ (`rewrite`), and clang makes a small library of
//! each kernel (`compiler`, `cache`). Whoever runs it brings the rest.

mod apple_rules;
pub(crate) mod builtin;
pub(crate) mod cache;
mod clang;
mod compiler;
pub(crate) mod compiler_info;
mod diagnostics;
#[cfg(all(feature = "nvidia", target_os = "linux"))]
pub(crate) mod embedded_ptx;
pub(crate) mod error;
pub(crate) mod function_constants;
mod headers;
pub(crate) mod library;
mod limits;
mod object;
mod process;
#[cfg(all(feature = "nvidia", target_os = "linux"))]
pub(crate) mod ptx;
#[cfg(all(feature = "nvidia", target_os = "linux"))]
pub(crate) mod ptx_library;
mod rewrite;
mod scratch;
mod target;
mod tokens;

#[cfg(test)]
mod check;

pub use function_constants::Setting;
pub use library::Library;

/// The compiler that a Metal source would be compiled with now.
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
