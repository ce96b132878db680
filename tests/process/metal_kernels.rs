//! Kernels from Metal source in whole processes: text from a model with `IRONBRIDGE_SOFT_KERNELS=msl`, and a cache that
//! processes share.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;

use ironbridge::Device;
use ironbridge::kernel::{Argument, Dispatch, Grid, Library};

use crate::harness;

harness::cases! {
    the_text_is_the_same_in_every_lane_order_and_with_checks,
    wrong_wishes_are_errors,
    two_processes_that_compile_the_same_kernels_compile_each_once,
    eight_threads_compile_the_same_kernel,
    two_processes_of_eight_threads_compile_a_kernel_once,
}

const MODEL: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/assets/tiny-rustbook-q8_0.gguf"
);

/// `ironbridge generate` with the kernels of that choice, started.
fn generate(kernels: &str, environment: &[(&str, &str)]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_ironbridge"))
        .args([
            "generate",
            "-m",
            MODEL,
            "-p",
            "Ownership is",
            "-n",
            "24",
            "--device",
            "cpu",
        ])
        .env("IRONBRIDGE_SOFT_KERNELS", kernels)
        .envs(environment.iter().copied())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command line starts")
}

/// What it wrote.
#[track_caller]
fn text(child: Child) -> String {
    let output = child.wait_with_output().expect("it ends");
    let messages = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{messages}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

fn the_text_is_the_same_in_every_lane_order_and_with_checks() {
    let native = text(generate("native", &[]));
    for (variable, value) in [
        ("IRONBRIDGE_SOFT_LANE_ORDER", "forward"),
        ("IRONBRIDGE_SOFT_LANE_ORDER", "reverse"),
        ("IRONBRIDGE_SOFT_LANE_ORDER", "random:42"),
        ("IRONBRIDGE_SOFT_VALIDATE", "1"),
    ] {
        let msl = text(generate("msl", &[(variable, value)]));
        assert_eq!(msl, native, "{variable}={value}");
    }
}

fn wrong_wishes_are_errors() {
    for (variable, value) in [
        ("IRONBRIDGE_SOFT_LANE_ORDER", "sideways"),
        ("IRONBRIDGE_SOFT_VALIDATE", "perhaps"),
        ("IRONBRIDGE_CLANG", "/nowhere/clang"),
    ] {
        let cache = tempfile::tempdir().expect("a folder");
        let folder = cache.path().to_str().expect("UTF-8");
        let child = generate("msl", &[(variable, value), ("XDG_CACHE_HOME", folder)]);
        let output = child.wait_with_output().expect("it ends");
        let messages = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success());
        assert!(messages.contains(variable), "{messages}");
    }
}

/// A clang that notes what it makes for the cache, one line for each: sources, prefixes and libraries, whose objects it
/// compiles. Linking them may be left to others.
fn counting_clang(folder: &Path) -> (PathBuf, PathBuf) {
    let (script, log) = (folder.join("clang"), folder.join("log"));
    let code = format!(
        "#!/bin/sh\ncase \" $* \" in *\" -E \"*) echo source >> '{0}';; \
         *\" -xc++-header \"*) echo prefix >> '{0}';; *\" -c \"*) echo library >> '{0}';; esac\n\
         for clang in clang-19 clang-18 clang-17 clang-16 clang; do\n  \
         command -v $clang > /dev/null && exec $clang \"$@\"\ndone\nexit 1\n",
        log.display()
    );
    fs::write(&script, code).expect("a script");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("an executable one");
    (script, log)
}

fn two_processes_that_compile_the_same_kernels_compile_each_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let (clang, log) = counting_clang(folder.path());
    let cache = folder.path().join("cache");
    let environment = [
        ("XDG_CACHE_HOME", cache.to_str().expect("UTF-8")),
        ("IRONBRIDGE_CLANG", clang.to_str().expect("UTF-8")),
    ];
    let start = || generate("msl", &environment);
    let (one, other) = (start(), start());
    assert_eq!(text(one), text(other));

    let runs = fs::read_to_string(&log).expect("clang ran");
    let entries = cached(&cache);
    assert!(entries > 0);
    assert_eq!(runs.lines().count(), entries, "{runs}");

    // A third process finds all it needs.
    text(start());
    assert_eq!(fs::read_to_string(&log).expect("it is there"), runs);
}

/// How many sources, prefixes and libraries a cache holds.
fn cached(cache: &Path) -> usize {
    fs::read_dir(cache.join("ironbridge/msl"))
        .expect("a cache")
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|kind| kind == "entry"))
        .count()
}

const TRIPLE: &str = r"
#include <metal_stdlib>
using namespace metal;

kernel void triple(device float *x [[buffer(0)]], uint i [[thread_position_in_grid]]) { x[i] *= 3.0f; }
";

/// A process of the test below.
fn eight_threads_compile_the_same_kernel() {
    let triple = || {
        let device = Device::open("cpu")?;
        let kernel = Library::from_source(&device, TRIPLE)?.kernel("triple")?;
        let x = device.buffer_from(&[1.0_f32, 2.0, 3.0])?;
        let mut commands = device.commands()?;
        // SAFETY: the grid is as long as the buffer.
        unsafe {
            commands.dispatch(
                &kernel,
                &Dispatch {
                    arguments: &[Argument::write(0, &x)],
                    grid: Grid::Threads([3, 1, 1]),
                    threadgroup: [3, 1, 1],
                },
            )?;
        }
        commands.commit()?.wait()?;
        x.to_vec()
    };
    let threads: Vec<_> = (0..8).map(|_| thread::spawn(triple)).collect();
    for thread in threads {
        assert_eq!(thread.join().unwrap().unwrap(), [3.0, 6.0, 9.0]);
    }
}

fn two_processes_of_eight_threads_compile_a_kernel_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let (clang, log) = counting_clang(folder.path());
    let cache = folder.path().join("cache");
    let start = || {
        harness::command("metal_kernels::eight_threads_compile_the_same_kernel")
            .env("XDG_CACHE_HOME", &cache)
            .env("IRONBRIDGE_CLANG", &clang)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("a test starts")
    };
    let both = [start(), start()];
    both.into_iter().for_each(|child| drop(text(child)));
    // The source, what every source begins with, and the kernel's library.
    assert_eq!(cached(&cache), 3);
    let runs = fs::read_to_string(&log).expect("clang ran");
    assert_eq!(runs.lines().count(), 3, "{runs}");
}
