//! `ironbridge monitor` over real processes, one of which is killed.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

crate::harness::cases! {
    every_process_is_listed_until_it_is_killed,
    without_a_terminal_it_says_what_to_do,
}

const PATIENCE: Duration = Duration::from_secs(60);

fn ironbridge(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ironbridge"));
    command
        .args(arguments)
        .env("IRONBRIDGE_PUBLISH", folder)
        .env_remove("IRONBRIDGE_DEVICE")
        .stdin(Stdio::null());
    command
}

/// A process that multiplies matrices until it is killed.
struct Load(Child);

impl Load {
    fn start(folder: &Path) -> Load {
        let arguments = [
            "stress",
            "qkv",
            "--device",
            "cpu",
            "--layers",
            "1",
            "--seq",
            "1",
            "--d-model",
            "256",
            "--kv-dim",
            "64",
            "--rounds",
            "1000000000",
        ];
        let mut command = ironbridge(folder, &arguments);
        Load(
            command
                .stdout(Stdio::null())
                .spawn()
                .expect("the command line starts"),
        )
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.0.kill().expect("a child");
        self.0.wait().expect("a child");
    }
}

fn once(folder: &Path) -> Value {
    let Output {
        status,
        stdout,
        stderr,
    } = ironbridge(folder, &["monitor", "--once", "--json"])
        .output()
        .expect("the command line starts");
    assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
    serde_json::from_slice(&stdout).expect("JSON")
}

/// The monitor's figures as soon as it lists devices of `count` processes that have worked.
fn figures(folder: &Path, count: usize) -> Value {
    let start = Instant::now();
    loop {
        let figures = once(folder);
        let processes = figures["processes"].as_array().expect("an array");
        let works = |process: &Value| {
            let device = &process["devices"][0];
            device["operations_per_second"].as_f64() > Some(0.0)
                && device["active_bytes"].as_u64() > Some(0)
        };
        if processes.len() == count && processes.iter().all(works) {
            return figures;
        }
        assert!(start.elapsed() < PATIENCE, "{figures:#}");
    }
}

fn every_process_is_listed_until_it_is_killed() {
    let folder = private_folder();
    assert_eq!(once(folder.path())["processes"], Value::Array(vec![]));

    let mut loads: Vec<Load> = (0..3).map(|_| Load::start(folder.path())).collect();
    let all = figures(folder.path(), 3);
    let processes = all["processes"].as_array().expect("an array");
    for load in &loads {
        let process = processes
            .iter()
            .find(|process| process["pid"] == load.0.id());
        let process = process.unwrap_or_else(|| panic!("{} is not in {all:#}", load.0.id()));
        let device = &process["devices"][0];
        assert_eq!(process["program"], "ironbridge");
        assert_eq!(
            (&device["kind"], &device["index"]),
            (&"cpu".into(), &0.into())
        );
        assert!(process["resident_bytes"].as_u64() > Some(1 << 20));
        assert!(device["peak_bytes"].as_u64() >= device["active_bytes"].as_u64());
        assert_eq!(device["delta_bytes"], device["active_bytes"], "{all:#}");
    }
    let active = |process: &Value| process["devices"][0]["active_bytes"].as_u64().unwrap_or(0);
    let sum: u64 = processes.iter().map(active).sum();
    assert_eq!(all["active_bytes"], sum);

    let killed = loads.pop().expect("three").0.id();
    // Its file is still there, its bytes are not.
    let rest = figures(folder.path(), 2);
    let processes = rest["processes"].as_array().expect("an array");
    assert!(processes.iter().all(|process| process["pid"] != killed));
    assert_eq!(
        rest["active_bytes"],
        processes.iter().map(active).sum::<u64>()
    );
    assert_eq!(files(folder.path()), 3);
    assert_eq!(remove_stale(folder.path()), 1);
    assert_eq!(files(folder.path()), 2);

    let table = ironbridge(folder.path(), &["monitor", "--once"]).output();
    let table = String::from_utf8(table.expect("the command line starts").stdout).expect("UTF-8");
    assert_eq!(table.lines().count(), 3, "{table}");
    assert!(
        table
            .lines()
            .next()
            .is_some_and(|line| line.contains("ACTIVE"))
    );
}

fn without_a_terminal_it_says_what_to_do() {
    let folder = private_folder();
    let output = ironbridge(folder.path(), &["monitor"]).output();
    let output = output.expect("the command line starts");
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("--once"), "{text}");
}

/// Processes publish where nobody else can.
fn private_folder() -> tempfile::TempDir {
    let mode = PermissionsExt::from_mode(0o700);
    tempfile::Builder::new()
        .permissions(mode)
        .tempdir()
        .expect("a folder")
}

fn files(folder: &Path) -> usize {
    std::fs::read_dir(folder).expect("a folder").count()
}

/// In a process of its own: the folder is an environment variable's.
fn remove_stale(folder: &Path) -> u64 {
    let output = ironbridge(folder, &["doctor", "--json", "--seconds", "0"]).output();
    let output = output.expect("the command line starts").stdout;
    let report: Value = serde_json::from_slice(&output).expect("JSON");
    report["stale_files_removed"].as_u64().expect("a number")
}
