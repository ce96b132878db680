//! What the software device does about a Metal source that cannot be compiled, should not be, or never ends. In a
//! process of its own, for it changes the environment.

use std::path::Path;
use std::time::{Duration, Instant};

use ironbridge::kernel::{Argument, Dispatch, Grid, Library};
use ironbridge::{Device, Error, Status};

crate::harness::cases! {
    without_a_compiler_source_is_unsupported,
    a_loop_that_only_counts_ends_with_the_limit,
    a_source_that_is_too_much_for_the_compiler_is_one_error,
    an_object_with_a_constructor_is_refused_and_does_not_run,
    a_wrong_limit_is_an_error_that_names_it,
    #[cfg(target_os = "linux")]
    a_cache_that_cannot_be_made_is_no_error,
}

const GOOD: &str = "#include <metal_stdlib>\nkernel void good(device float *out [[buffer(0)]], uint i [[thread_position_in_grid]]) { out[i] = i; }";

/// Variables of the environment, as they were before once this is dropped.
struct Environment(Vec<(&'static str, Option<std::ffi::OsString>)>);

impl Environment {
    fn with(variables: &[(&'static str, &Path)]) -> Environment {
        let before = variables
            .iter()
            .map(|(name, value)| {
                let before = std::env::var_os(name);
                // SAFETY: the tests of this process run one after another, and no other thread of it reads the
                // environment now.
                unsafe { std::env::set_var(name, value) };
                (*name, before)
            })
            .collect();
        Environment(before)
    }
}

impl Drop for Environment {
    fn drop(&mut self) {
        for (name, value) in &self.0 {
            // SAFETY: as above.
            match value {
                Some(value) => unsafe { std::env::set_var(name, value) },
                None => unsafe { std::env::remove_var(name) },
            }
        }
    }
}

fn device() -> Device {
    Device::open("cpu").expect("the software device is everywhere")
}

/// What a kernel gives with 32 threads.
fn run(source: &str, kernel: &str) -> Result<Vec<f32>, Error> {
    let device = device();
    let kernel = Library::from_source(&device, source)?.kernel(kernel)?;
    let out = device.buffer::<f32>(32)?;
    let mut commands = device.commands()?;
    let dispatch = Dispatch {
        arguments: &[Argument::read_write(0, &out)],
        grid: Grid::Threads([32, 1, 1]),
        threadgroup: [32, 1, 1],
    };
    // SAFETY: the kernels write to `out` and nowhere else.
    unsafe { commands.dispatch(&kernel, &dispatch)? };
    commands.commit()?.wait()?;
    out.to_vec()
}

#[track_caller]
fn fails(source: &str, kernel: &str, status: Status, text: &str) {
    let error = run(source, kernel).expect_err(text);
    assert_eq!(error.status(), Some(status), "{error}");
    assert!(error.to_string().contains(text), "{error}");
}

#[track_caller]
fn good() {
    let numbers = run(GOOD, "good").unwrap_or_else(|error| panic!("{error}"));
    assert!(numbers.into_iter().eq((0..32).map(|i| i as f32)));
}

fn without_a_compiler_source_is_unsupported() {
    let folder = tempfile::tempdir().expect("a folder");
    {
        let _environment = Environment::with(&[
            ("PATH", folder.path()),
            ("IRONBRIDGE_CLANG", Path::new("")),
            ("XDG_CACHE_HOME", folder.path()),
        ]);
        fails(GOOD, "good", Status::Unsupported, "needs clang 16 or newer");
    }
    fails(
        "kernel void f(",
        "f",
        Status::Compile,
        "program_source:1:14: error: `(` is never closed",
    );
    good();
}

fn a_loop_that_only_counts_ends_with_the_limit() {
    let _environment = Environment::with(&[("IRONBRIDGE_SOFT_TIMEOUT", Path::new("1"))]);
    let source = "#include <metal_stdlib>\nusing namespace metal;\nkernel void k(device int *o [[buffer(0)]]) { while (true) { o[0] = o[0] + 1; } }";
    fails(
        source,
        "k",
        Status::DeviceTimeout,
        "IRONBRIDGE_SOFT_TIMEOUT",
    );
    good();
}

fn a_source_that_is_too_much_for_the_compiler_is_one_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let _environment = Environment::with(&[
        ("IRONBRIDGE_SOFT_COMPILE_MEMORY", Path::new("800")),
        ("IRONBRIDGE_SOFT_COMPILE_TIMEOUT", Path::new("50")),
        ("XDG_CACHE_HOME", folder.path()),
    ]);
    let source = "#include <metal_stdlib>\n#define A(x) x x x x x x x x x x\n#define B(x) A(A(A(x)))\n#define C(x) B(B(B(x)))\n\
        kernel void k(device int *o [[buffer(0)]]) { C(o[0] += 1;) }";
    let start = Instant::now();
    let limit = match cfg!(target_os = "linux") {
        true => "more than 800 MiB of memory for this source (IRONBRIDGE_SOFT_COMPILE_MEMORY)",
        false => "IRONBRIDGE_SOFT_COMPILE_",
    };
    fails(source, "k", Status::Compile, limit);
    assert!(start.elapsed() < Duration::from_secs(55));
    good();
}

fn an_object_with_a_constructor_is_refused_and_does_not_run() {
    let source = "#include <metal_stdlib>\nusing namespace metal;\nstruct A { A() { *(volatile int *)0 = 1; } };\nA a;\n\
        kernel void k(device int *o [[buffer(0)]]) {}";
    fails(
        source,
        "k",
        Status::Compile,
        "program_source:4: error: declaration requires a global constructor",
    );
    good();
}

fn a_wrong_limit_is_an_error_that_names_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let _environment = Environment::with(&[
        ("IRONBRIDGE_SOFT_COMPILE_MEMORY", Path::new("much")),
        ("XDG_CACHE_HOME", folder.path()),
    ]);
    fails(
        GOOD,
        "good",
        Status::Compile,
        "IRONBRIDGE_SOFT_COMPILE_MEMORY is \"much\"",
    );
}

/// /dev/full is a folder for nobody, so the cache can be made nowhere below it, and kernels are kept in the temporary
/// folder.
#[cfg(target_os = "linux")]
fn a_cache_that_cannot_be_made_is_no_error() {
    let temporary = tempfile::tempdir().expect("a folder");
    let _environment = Environment::with(&[
        ("XDG_CACHE_HOME", Path::new("/dev/full")),
        ("TMPDIR", temporary.path()),
    ]);
    good();
}
