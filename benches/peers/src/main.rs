//! ironbridge beside llama.cpp and candle: the same file, the same tokens and one process, in which the engines take
//! turns.
//!
//! `make bench-peers` at the root of the repository runs it and writes docs/perf/MACHINE/BENCHMARKS.md. Each type and
//! number of threads has a process of its own, because two of the engines fix their number of threads per process. The
//! process compares what the engines compute, measures the machine's limits, and then lets the engines take turns. A
//! process that fails or hangs costs only its own lines of the table.

mod engines;
mod limits;
mod machine;
mod matmul;
mod models;
#[cfg(feature = "onednn")]
mod onednn;
mod report;
mod scaling;
mod trial;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use engines::Result;
use serde_json::Value;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let result = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["trial", file, file_type, threads, effort] => {
            trial::speed(Path::new(file), file_type, threads, effort)
        }
        ["load", engine, file] => trial::load(engine, Path::new(file)),
        ["matmul", threads, effort] => matmul::speed(threads, effort),
        ["context", file, threads] => trial::context(Path::new(file), threads),
        [] => compare("full"),
        ["--quick"] => compare("quick"),
        ["--only", "matmul"] => compare_matmul("full"),
        ["--only", "matmul", "--quick"] => compare_matmul("quick"),
        ["--only", "context"] => compare_context(),
        ["--only", "charts"] => draw_charts(),
        _ => Err("usage: ironbridge-peers [--only matmul|context|charts] [--quick]".into()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ironbridge-peers: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs every trial in a process of its own and writes the report.
fn compare(effort: &str) -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let start = Instant::now();
    let folder = models_folder(&root);
    let mut files = Vec::new();
    for file_type in models::TYPES {
        eprintln!("{file_type}: the model");
        files.push((file_type, models::make(&folder, file_type)?));
    }

    let mut lines = Vec::new();
    for (file_type, file) in &files {
        for threads in [1, 2] {
            let started = start.elapsed().as_secs();
            eprintln!("[{started:3} s] {file_type}, {threads} threads");
            let threads_text = threads.to_string();
            let text = [
                "trial",
                &file.to_string_lossy(),
                file_type,
                &threads_text,
                effort,
            ];
            lines.extend(process(&text, threads));
        }
    }
    let (_, large) = &files[2];
    for _ in 0..if effort == "quick" { 1 } else { 3 } {
        for engine in engines::NAMES {
            lines.extend(process(&["load", engine, &large.to_string_lossy()], 2));
        }
    }
    lines.extend(matmul_lines(effort));
    if effort == "full" {
        let (_, file) = &files[1];
        lines.extend(context_lines(file));
    }
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    fs::write(folder.join(LINES), text)?;
    let report = report::write(&machine::folder()?, &lines, effort, start.elapsed())?;
    eprintln!(
        "{} s; {} is written",
        start.elapsed().as_secs(),
        report.display()
    );
    Ok(())
}

/// What the trials of the last run printed, in the folder of the models.
const LINES: &str = "lines.jsonl";

/// Only the charts, from the last run's lines.
fn draw_charts() -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = fs::read_to_string(models_folder(&root).join(LINES))?;
    let lines: std::result::Result<Vec<Value>, _> =
        text.lines().map(serde_json::from_str).collect();
    report::write_charts(&machine::folder()?, &lines?)
}

fn models_folder(root: &Path) -> PathBuf {
    match env::var_os("IRONBRIDGE_PEERS_MODELS") {
        Some(folder) => PathBuf::from(folder),
        None => root.join("target/peers"),
    }
}

fn context_lines(file: &Path) -> Vec<Value> {
    process(&["context", &file.to_string_lossy(), "2"], 2)
}

/// Only the cost of a token by the length of the text, into the chart that is there.
fn compare_context() -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let file = models::make(&models_folder(&root), models::TYPES[1])?;
    let lines = context_lines(&file);
    lines.iter().for_each(|line| println!("{line}"));
    report::write_context(&machine::folder()?, &lines)
}

fn matmul_lines(effort: &str) -> Vec<Value> {
    let lines = |threads: usize| process(&["matmul", &threads.to_string(), effort], threads);
    [1, 2].into_iter().flat_map(lines).collect()
}

/// Only the products of matrices, into the report that is there.
fn compare_matmul(effort: &str) -> Result<()> {
    let report = machine::folder()?.join(report::PAGE);
    let section = matmul::section(&matmul_lines(effort))?;
    println!("{section}");
    matmul::replace_section(&report, &section)
}

/// A trial may take that long; what it printed until then counts.
const LIMIT: Duration = Duration::from_secs(900);

/// The lines of JSON that a process of this program prints. What goes wrong becomes a line, too.
fn process(arguments: &[&str], threads: usize) -> Vec<Value> {
    let failed = |text: String| {
        eprintln!("{}: {text}", arguments.join(" "));
        serde_json::json!({ "what": "failure", "of": arguments.join(" "), "error": text })
    };
    let run = || -> Result<Vec<Value>> {
        let mut child = Command::new(env::current_exe()?)
            .args(arguments)
            .envs(engines::environment(threads))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut out = child.stdout.take().ok_or("no pipe")?;
        let reader = thread::spawn(move || {
            let mut text = String::new();
            std::io::Read::read_to_string(&mut out, &mut text).map(|_| text)
        });
        let start = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break status;
            }
            if start.elapsed() > LIMIT {
                child.kill()?;
                break child.wait()?;
            }
            thread::sleep(Duration::from_millis(50));
        };
        let text = reader.join().map_err(|_| "the reader panicked")??;
        let mut lines: Vec<Value> = text
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect();
        if !status.success() {
            lines.push(failed(status.to_string()));
        }
        Ok(lines)
    };
    run().unwrap_or_else(|error| vec![failed(error.to_string())])
}
