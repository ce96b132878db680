//! The command line where its output is closed or full, where its inputs have no end, where signals come, and where
//! other processes have strange names.

use std::ffi::OsStr;
use std::fs::{self, File};
#[cfg(target_os = "linux")]
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
#[cfg(target_os = "linux")]
use std::os::unix::fs::{FileExt, symlink};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
#[cfg(target_os = "linux")]
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use ironbridge::llama::gguf::{GgufWriter, Metadata, NewTensor, TensorType};
#[cfg(target_os = "linux")]
use serde_json::Value;
use tempfile::TempDir;

crate::harness::cases! {
    a_closed_pipe_is_no_error,
    #[cfg(target_os = "linux")]
    a_full_disk_is_one_line,
    what_was_given_is_named_once,
    #[cfg(target_os = "linux")]
    a_name_that_is_no_text_is_a_live_process,
    #[cfg(target_os = "linux")]
    one_bad_entry_does_not_hide_the_others,
    #[cfg(target_os = "linux")]
    totals_of_any_figures_stop_at_the_largest,
    an_interrupted_quantize_leaves_nothing,
}

const PROGRAM: &str = env!("CARGO_BIN_EXE_ironbridge");
const MODEL: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/assets/tiny-rustbook-q8_0.gguf"
);
const PATIENCE: Duration = Duration::from_secs(60);

/// A folder where nobody else can publish.
fn private_folder() -> TempDir {
    tempfile::Builder::new()
        .permissions(PermissionsExt::from_mode(0o700))
        .tempdir()
        .expect("a folder")
}

fn command(program: impl AsRef<OsStr>, folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env("IRONBRIDGE_PUBLISH", folder)
        .env_remove("IRONBRIDGE_DEVICE")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn run(folder: &Path, arguments: &[&str]) -> Output {
    command(PROGRAM, folder, arguments)
        .output()
        .expect("the command line starts")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Failed with one line that has all parts.
#[track_caller]
fn assert_refused(output: &Output, parts: &[&str]) {
    let text = stderr(output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
}

fn wait_until(what: &str, done: impl Fn() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Killed at the end.
#[cfg(target_os = "linux")]
struct Running(Child);

#[cfg(target_os = "linux")]
impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().expect("a child");
        self.0.wait().expect("a child");
    }
}

const COMMANDS: &[&[&str]] = &[
    &["--help"],
    &["--version"],
    &["devices"],
    &["devices", "--json"],
    &["doctor", "--seconds", "0"],
    &["doctor", "--seconds", "0", "--json"],
    &["monitor", "--once"],
    &["monitor", "--once", "--json"],
    &[
        "stress",
        "qkv",
        "--device",
        "cpu",
        "--layers",
        "1",
        "--seq",
        "1",
        "--d-model",
        "64",
        "--kv-dim",
        "32",
        "--rounds",
        "1",
    ],
    &["generate", "-m", MODEL, "-p", "Rust", "-n", "2", "-q"],
    &["generate", "-m", MODEL, "-p", "Rust", "-n", "2", "--json"],
    &["inspect", MODEL],
    &["tokenize", "-m", MODEL, "Rust"],
    &["embed", "-m", MODEL, "-q", "Rust"],
    &["completions", "bash"],
    &["man"],
];

fn a_closed_pipe_is_no_error() {
    let folder = private_folder();
    for arguments in COMMANDS {
        let mut child = command(PROGRAM, folder.path(), arguments)
            .spawn()
            .expect("the command line starts");
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("it ends");
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {text}");
        assert_eq!(text, "", "{arguments:?}");
    }
}

#[cfg(target_os = "linux")]
fn a_full_disk_is_one_line() {
    let folder = private_folder();
    let full = || {
        File::options()
            .write(true)
            .open("/dev/full")
            .expect("there is a /dev/full")
    };
    for arguments in COMMANDS {
        let output = command(PROGRAM, folder.path(), arguments)
            .stdout(full())
            .output()
            .expect("the command line starts");
        assert_refused(&output, &["standard output", "No space left"]);
    }
    // Remarks that nobody can read are no error.
    let output = command(
        PROGRAM,
        folder.path(),
        &["generate", "-m", MODEL, "-p", "Rust", "-n", "2"],
    )
    .stderr(full())
    .output()
    .expect("the command line starts");
    assert_eq!(output.status.code(), Some(0));
    assert!(!output.stdout.is_empty());
}

fn what_was_given_is_named_once() {
    let folder = private_folder();
    let device = "99999999999999999999";
    let output = run(
        folder.path(),
        &["generate", "-m", MODEL, "-p", "x", "--device", device],
    );
    assert_refused(
        &output,
        &["there is no device 99999999999999999999, indices end at 4294967295"],
    );
    let output = run(
        folder.path(),
        &[
            "bench", "-m", MODEL, "-p", "8", "-n", "1", "-t", "1025", "--device", "cpu",
        ],
    );
    assert_refused(&output, &["1025"]);
    // It has no end.
    let output = run(folder.path(), &["tokenize", "-m", MODEL, "-f", "/dev/zero"]);
    assert_refused(&output, &["/dev/zero", "longer than 256.0 MiB"]);
}

/// The processes that the monitor lists, and what it skips.
#[cfg(target_os = "linux")]
fn monitored(folder: &Path) -> Value {
    let output = run(folder, &["monitor", "--once", "--json"]);
    assert!(output.status.success(), "{}", stderr(&output));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[cfg(target_os = "linux")]
fn load(program: &Path, folder: &Path) -> Running {
    let arguments = [
        "stress",
        "qkv",
        "--device",
        "cpu",
        "--layers",
        "1",
        "--seq",
        "1",
        "--rounds",
        "1000000000",
    ];
    let child = command(program, folder, &arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let running = Running(child.expect("it starts"));
    wait_until("it publishes", || {
        published(folder, running.0.id()).is_some()
    });
    running
}

/// Where a process publishes.
#[cfg(target_os = "linux")]
fn published(folder: &Path, pid: u32) -> Option<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder");
    entries
        .map(|entry| entry.expect("an entry").path())
        .find(|path| {
            let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
            name.starts_with(&format!("{pid}-"))
        })
}

#[cfg(target_os = "linux")]
fn a_name_that_is_no_text_is_a_live_process() {
    let (folder, programs) = (private_folder(), private_folder());
    let program = programs.path().join(OsStr::from_bytes(b"ib\xff\xfe"));
    fs::copy(PROGRAM, &program).expect("a copy");
    let running = load(&program, folder.path());
    let listed = monitored(folder.path());
    assert_eq!(listed["processes"][0]["pid"], running.0.id(), "{listed:#}");

    let output = run(folder.path(), &["doctor", "--seconds", "0", "--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(report["stale_files_removed"], 0);
    assert!(published(folder.path(), running.0.id()).is_some());
}

/// The name under which a process would publish.
#[cfg(target_os = "linux")]
fn publication_name(pid: u32) -> String {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("a live process");
    let rest = stat.rsplit_once(')').expect("a name").1;
    format!(
        "{pid}-{}",
        rest.split_whitespace().nth(19).expect("a start time")
    )
}

#[cfg(target_os = "linux")]
fn one_bad_entry_does_not_hide_the_others() {
    let folder = private_folder();
    let running = load(PROGRAM.as_ref(), folder.path());
    // This process has no device open, so that its name is free.
    let bad = folder.path().join(publication_name(std::process::id()));
    let skips = |reason: &str| {
        let listed = monitored(folder.path());
        assert_eq!(listed["processes"][0]["pid"], running.0.id(), "{listed:#}");
        assert_eq!(
            listed["skipped"][0]["path"],
            bad.to_str().expect("UTF-8"),
            "{listed:#}"
        );
        let said = listed["skipped"][0]["reason"].as_str().expect("a reason");
        assert!(said.contains(reason), "{said}");
        let output = run(folder.path(), &["doctor", "--seconds", "0"]);
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && text.contains("skipped "),
            "{text}"
        );
    };
    fs::create_dir(&bad).expect("a folder");
    skips("directory");
    fs::remove_dir(&bad).expect("a folder");
    for (target, reason) in [
        ("/etc/passwd", "not to a descriptor"),
        ("/no/such/file", "not to a descriptor"),
        (
            &format!("/proc/{}/fd/0", std::process::id()),
            "has closed it",
        ),
        (&format!("/proc/{}/fd/99999", std::process::id()), ""),
    ] {
        symlink(target, &bad).expect("a link");
        skips(reason);
        fs::remove_file(&bad).expect("a link");
    }
}

#[cfg(target_os = "linux")]
fn totals_of_any_figures_stop_at_the_largest() {
    use ironbridge::ffi::monitor::*;
    use std::mem::offset_of;

    let folder = private_folder();
    let name = publication_name(std::process::id());
    let file = File::create(folder.path().join(&name)).expect("a file");
    let slot = size_of::<iron_published_process>() as u64;
    let length = size_of::<iron_published_device>() as u64;
    file.set_len(slot + 2 * length).expect("room");
    let write =
        |offset: usize, value: &[u8]| file.write_all_at(value, offset as u64).expect("written");
    let numbers = [
        IRON_PUBLISHED_MAGIC,
        IRON_PUBLISHED_VERSION,
        slot as u32,
        length as u32,
        2,
    ];
    for (index, number) in numbers.into_iter().enumerate() {
        write(4 * index, &number.to_ne_bytes());
    }
    let pid = u64::from(std::process::id());
    write(offset_of!(iron_published_process, pid), &pid.to_ne_bytes());
    for device in 0..2 {
        let of = |offset: usize| (slot + device * length) as usize + offset;
        write(
            of(offset_of!(iron_published_device, opened_at)),
            &1u64.to_ne_bytes(),
        );
        for figure in [
            offset_of!(iron_published_device, active_bytes),
            offset_of!(iron_published_device, cached_bytes),
        ] {
            write(of(figure), &u64::MAX.to_ne_bytes());
        }
    }
    let listed = monitored(folder.path());
    assert_eq!(listed["active_bytes"], u64::MAX, "{listed:#}");
    assert_eq!(listed["cached_bytes"], u64::MAX, "{listed:#}");
    let output = run(folder.path(), &["doctor", "--seconds", "0", "--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(
        report["processes"][0]["active_bytes"],
        u64::MAX,
        "{report:#}"
    );
}

/// A matrix of zeros that takes seconds to write.
fn write_long_model(path: &Path) {
    let mut metadata = Metadata::default();
    metadata
        .set("general.architecture", "llama")
        .expect("a value");
    let tensor = NewTensor {
        name: "token_embd.weight".into(),
        tensor_type: TensorType::F32,
        dimensions: vec![256, 1 << 20],
    };
    let file = File::create(path).expect("a file");
    let header = GgufWriter::new(&file, &metadata, &[tensor])
        .expect("a header")
        .header()
        .clone();
    let end = header.tensors()[0].bytes().end;
    file.set_len(end).expect("a sparse file");
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder");
    let mut names: Vec<_> = entries
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    names.sort();
    names
}

fn an_interrupted_quantize_leaves_nothing() {
    let (folder, publications) = (private_folder(), private_folder());
    let (source, out) = (
        folder.path().join("in.gguf"),
        folder.path().join("out.gguf"),
    );
    write_long_model(&source);
    let paths = [&source, &out].map(|path| path.to_str().expect("UTF-8").to_owned());
    let start = || {
        let arguments = [
            "quantize",
            &paths[0],
            &paths[1],
            "q4_k",
            "--threads",
            "1",
            "-q",
        ];
        let child = command(PROGRAM, publications.path(), &arguments).spawn();
        let child = child.expect("the command line starts");
        let partial = folder
            .path()
            .join(format!(".out.gguf.{}.partial", child.id()));
        wait_until("it writes", || partial.exists());
        child
    };
    let end = |mut child: Child, signal: i32| {
        // SAFETY: the child was not waited for, so that the number is its own.
        assert_eq!(unsafe { libc::kill(child.id() as i32, signal) }, 0);
        assert_eq!(child.wait().expect("a child").signal(), Some(signal));
    };
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        end(start(), signal);
        assert_eq!(names(folder.path()), ["in.gguf"], "{signal}");
    }
    // Nobody can do anything about this one, but the next.
    end(start(), libc::SIGKILL);
    assert_eq!(names(folder.path()).len(), 2);
    let others = folder.path().join(".other.gguf.1.partial");
    fs::write(&others, "of another file").expect("a file");
    let (one, another) = (start(), start());
    let kept = names(folder.path());
    assert_eq!(kept.len(), 4, "those that are being written stay: {kept:?}");
    end(one, libc::SIGTERM);
    end(another, libc::SIGTERM);
    assert_eq!(names(folder.path()), [".other.gguf.1.partial", "in.gguf"]);
}
