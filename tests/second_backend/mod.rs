//! The tests of a binary once more, on a second backend: `tests/native/mock_backend.c` with memory and order of its
//! own, asynchronous, over the CPU's kernels.
#![cfg(target_os = "linux")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Compiled once for all tests of a process.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let name = format!("second-backend-{}.so", std::process::id());
        let library = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let output = Command::new(env!("IRONBRIDGE_NATIVE_CLANG"))
            .current_dir(ROOT)
            .args(["-std=c11", "-D_GNU_SOURCE", "-g", "-O1", "-fPIC", "-shared"])
            .args(["-Wall", "-Wextra", "-Werror", "-pthread"])
            .args(["-Inative/softmetal", "-Itests/native"])
            .arg("tests/native/mock_backend.c")
            .arg("tests/second_backend/cpu_kernels.c")
            .arg("-o")
            .arg(&library)
            .output()
            .expect("build.rs found this clang");
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        library
    })
}

/// What opens the second backend, with these options: a selector of a device.
pub fn selector(options: &str) -> String {
    format!("external:path={},{options}", library().display())
}

/// Runs tests of this binary on the second backend.
fn run(arguments: &[&str]) -> Output {
    Command::new(std::env::current_exe().expect("a running test has a path"))
        .args(arguments)
        .args(["--exact", "--test-threads", "2"])
        .env("IRONBRIDGE_TEST_BACKEND", selector("asynchronous=7"))
        .output()
        .expect("the test starts itself")
}

/// All tests of this binary pass on the second backend but `exceptions`, (name, reason), which fail there. `itself`:
/// the name of the calling test.
pub fn suite_passes(itself: &str, exceptions: &[(&str, &str)]) {
    let mut arguments = vec!["--skip", itself];
    for (name, reason) in exceptions {
        assert!(reason.len() > 10, "{name} is left out without a reason");
        arguments.extend(["--skip", name]);
    }
    let output = run(&arguments);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    assert!(!text.contains("running 0 tests"), "{text}");
    for (name, _) in exceptions {
        let output = run(&[name]);
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains("running 1 test"), "{name} is no test: {text}");
        assert!(!output.status.success(), "{name} passes: the list is stale");
    }
    let _ = std::fs::remove_file(library());
}
