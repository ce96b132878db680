//! The software Metal device by itself, over a mock backend: `native/softmetal` is compiled together with the
//! Objective-C test program in `tests/native` and run plainly and under sanitizers.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// The values that build.rs joined.
fn split(joined: &'static str) -> impl Iterator<Item = &'static str> {
    joined.split('\u{1f}').filter(|value| !value.is_empty())
}

fn sources() -> Vec<PathBuf> {
    let mut sources = Vec::new();
    for folder in ["native/softmetal", "native/objects", "tests/native"] {
        let entries = fs::read_dir(Path::new(ROOT).join(folder)).unwrap();
        sources.extend(entries.map(|entry| entry.unwrap().path()).filter(|path| {
            path.extension()
                .is_some_and(|kind| kind == "m" || kind == "c")
        }));
    }
    sources.sort();
    sources
}

/// Compiles and links the test program with these flags on top of build.rs's.
fn build(name: &str, flags: &[&str]) -> PathBuf {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let mut includes = vec![
        "native",
        "native/softmetal",
        "native/objects",
        "tests/native",
    ];
    if cfg!(target_os = "linux") {
        includes.push("native/softmetal/headers");
    }
    let output = Command::new(env!("IRONBRIDGE_NATIVE_CLANG"))
        .current_dir(ROOT)
        .args(split(env!("IRONBRIDGE_NATIVE_FLAGS")))
        .arg("-DIRON_CHECK_LOCKS")
        .args(["-std=c11", "-g", "-O1", "-Wall", "-Wextra", "-Werror"])
        .args(includes.iter().map(|folder| format!("-I{folder}")))
        .args(flags)
        .args(sources())
        .arg("-o")
        .arg(&program)
        .args(split(env!("IRONBRIDGE_NATIVE_LIBRARIES")))
        .output()
        .expect("build.rs found this clang");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    program
}

/// A backend that begins one submission before it completes the last (`tests/native/mock_backend.h`).
const ASYNCHRONOUS: (&str, &str) = ("MOCK_MODE", "asynchronous=7");

struct Run {
    status: ExitStatus,
    stdout: String,
    stderr: String,
}

/// Runs the program for at most two minutes.
fn run(program: &Path, argument: Option<&str>, environment: &[(&str, &str)]) -> Run {
    let paths = ["stdout", "stderr"].map(|stream| program.with_extension(stream));
    let [stdout, stderr] = paths.each_ref().map(|path| File::create(path).unwrap());
    let mut child = Command::new(program)
        .args(argument)
        .envs(environment.iter().copied())
        .stdout(stdout)
        .stderr(stderr)
        .spawn()
        .unwrap();
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if start.elapsed() > Duration::from_secs(120) {
            child.kill().unwrap();
            break child.wait().unwrap();
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    let [stdout, stderr] =
        paths.map(|path| String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned());
    Run {
        status,
        stdout,
        stderr,
    }
}

/// Every case of the source ran and passed, and nothing was autoreleased with no pool in place.
fn assert_all_cases_pass(run: &Run) {
    let report = format!(
        "{}\n{}\n{}",
        run.status,
        run.stdout
            .lines()
            .filter(|line| !line.ends_with(": ok"))
            .collect::<Vec<_>>()
            .join("\n"),
        run.stderr
    );
    assert!(run.status.success(), "{report}");
    let tests = sources().into_iter().filter(|path| {
        let name = path.file_name().unwrap_or_default();
        name.to_string_lossy().ends_with("_test.m")
    });
    let cases: usize = tests
        .map(|path| fs::read_to_string(path).unwrap())
        .map(|source| {
            source
                .lines()
                .filter(|line| line.starts_with("CASE("))
                .count()
        })
        .sum();
    let passed = run
        .stdout
        .lines()
        .filter(|line| line.starts_with("case ") && line.ends_with(": ok"))
        .count();
    assert!(cases > 50, "the source has only {cases} cases");
    assert_eq!(passed, cases, "{report}");
    let total = run.stdout.lines().last().unwrap_or_default();
    assert!(
        total.starts_with(&format!("{cases} cases, ")) && total.ends_with(", 0 failures"),
        "{report}"
    );
    assert!(
        !run.stderr.contains("autorelease called without pool"),
        "{report}"
    );
}

#[test]
fn every_case_passes() {
    let program = build("softmetal", &[]);
    assert_all_cases_pass(&run(&program, None, &[]));
    assert_all_cases_pass(&run(&program, None, &[ASYNCHRONOUS]));

    for _ in 0..20 {
        let run = run(&program, Some("--exit-in-flight"), &[]);
        assert!(run.status.success(), "{} {}", run.status, run.stderr);
        assert_eq!(run.stdout, "in flight\n");
    }
    // What the other assertions rest on: a leak and a missing pool do show.
    let leaking = run(&program, Some("--leak"), &[]);
    assert_eq!(
        leaking.stdout, "50 live\n",
        "a device is four objects of ours, and the mock's backend one"
    );
    if cfg!(target_os = "linux") {
        let poolless = run(&program, Some("--autorelease-without-a-pool"), &[]);
        assert_eq!(poolless.stdout, "autoreleased\n");
        assert!(
            poolless.stderr.contains("autorelease called without pool"),
            "{}",
            poolless.stderr
        );
    }
}

/// Apple's clang ships no leak sanitizer, and Foundation's own findings there are not ours to list.
#[cfg(target_os = "linux")]
mod sanitizers {
    use super::*;

    fn suppressions(file: &str) -> String {
        format!("suppressions={ROOT}/tests/native/{file}")
    }

    #[test]
    fn every_case_passes_under_the_address_and_leak_sanitizers() {
        let flags = ["-fsanitize=address", "-fno-omit-frame-pointer"];
        let program = build("softmetal-address", &flags);
        let suppressed = suppressions("lsan.supp");
        // The fast unwinder stops at GNUstep's frames and could not tell its allocations from ours.
        let environment = [
            ("ASAN_OPTIONS", "detect_leaks=1:fast_unwind_on_malloc=0"),
            ("LSAN_OPTIONS", suppressed.as_str()),
        ];
        assert_all_cases_pass(&run(&program, None, &environment));
        let [address, leaks] = environment;
        assert_all_cases_pass(&run(&program, None, &[address, leaks, ASYNCHRONOUS]));
        let leaking = run(&program, Some("--leak"), &environment);
        assert!(!leaking.status.success(), "the leak goes unseen");
        assert!(
            leaking
                .stderr
                .contains("LeakSanitizer: detected memory leaks"),
            "{}",
            leaking.stderr
        );
    }

    #[test]
    fn every_case_passes_under_the_thread_sanitizer() {
        let program = build("softmetal-thread", &["-fsanitize=thread"]);
        let suppressed = suppressions("tsan.supp");
        let suppressed = ("TSAN_OPTIONS", suppressed.as_str());
        assert_all_cases_pass(&run(&program, None, &[suppressed]));
        assert_all_cases_pass(&run(&program, None, &[suppressed, ASYNCHRONOUS]));
    }
}
