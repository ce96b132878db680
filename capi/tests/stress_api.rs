//! The program of `make stress-api` against the shared library that cargo just built: for a few seconds, without a
//! sanitizer.

mod library;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use library::{ROOT, libraries, shared_library};

fn files(folder: &str, extension: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(Path::new(ROOT).join(folder)).expect("the folder is there");
    entries
        .map(|entry| entry.expect("it can be read").path())
        .filter(|path| path.extension().is_some_and(|kind| kind == extension))
        .collect()
}

/// Compiled once for all tests.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("stress-api");
        let output = Command::new("cc")
            .args(["-std=c11", "-D_DEFAULT_SOURCE", "-O1", "-g", "-pedantic"])
            .args(["-Wall", "-Wextra", "-Werror"])
            .arg(format!("-I{ROOT}/include"))
            .args(files("tests/stress_api", "c"))
            .arg(shared_library())
            .arg(format!("-Wl,-rpath,{}", libraries().display()))
            .args(["-lpthread", "-o"])
            .arg(&program)
            .output()
            .expect("cc starts");
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        program
    })
}

fn run(arguments: &[&str]) -> (Output, String) {
    let published = tempfile::tempdir().expect("a temporary folder");
    let output = Command::new(program())
        .current_dir(ROOT)
        .args(arguments)
        .env("IRONBRIDGE_PUBLISH", published.path())
        .output()
        .expect("the program starts");
    let text = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    let text = text.concat();
    (output, text)
}

/// The functions that a header declares.
fn declared(header: &str) -> impl Iterator<Item = String> {
    header.split("\nIRON_API ").skip(1).map(|declaration| {
        let head = declaration.split('(').next().unwrap_or_default();
        let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let start = head.rfind(|c| !is_of_name(c)).map_or(0, |at| at + 1);
        head[start..].to_string()
    })
}

#[test]
fn every_function_of_every_header_is_called() {
    let headers = files("include", "h");
    let declared: BTreeSet<String> = headers
        .iter()
        .flat_map(|path| {
            let header = fs::read_to_string(path).expect("a header can be read");
            declared(&header).collect::<Vec<_>>()
        })
        .collect();
    assert!(headers.len() >= 2 && declared.contains("iron_version") && declared.len() > 140);
    let (_, list) = run(&["--functions"]);
    let called: BTreeSet<String> = list.lines().map(String::from).collect();
    assert_eq!(called, declared, "tests/stress_api/functions.h");
}

#[test]
fn random_calls_crash_nothing_and_leave_nothing_behind() {
    let (output, text) = run(&["4", "4", "1"]);
    assert!(output.status.success(), "{}\n{text}", output.status);
    assert!(text.contains(" 0 failures, seed 1\n"), "{text}");
}

#[test]
fn what_is_left_behind_is_a_failure() {
    let (output, text) = run(&["--keep-a-buffer"]);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(
        text.contains("at the end: 1 buffers active, 0 expected"),
        "{text}"
    );
}
