//! `ironbridge stress`

use std::collections::BTreeSet;
use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use ironbridge::stress::{Figures, QkvReport, QkvStress};
use serde_json::{Value as Json, json};

use crate::output;
use crate::terminal::{bytes, progress};

#[derive(Subcommand)]
pub enum Command {
    /// Sequential Q, K and V matmuls, every value checked against float64 and everything counted before and after
    Qkv(QkvArguments),
}

#[derive(Args)]
pub struct QkvArguments {
    /// Device: default, metal, cpu, or an index of `ironbridge devices`
    #[arg(long, default_value = "default")]
    device: String,
    /// Devices to open, each with weights of its own; threads take them in turn
    #[arg(long, default_value_t = 1, value_name = "D")]
    devices: usize,
    /// Layers, each with weights of its own
    #[arg(long, default_value_t = 22)]
    layers: usize,
    /// Tokens in the prompt: rows of every matmul
    #[arg(long, default_value_t = 15)]
    seq: usize,
    /// Elements of a token and of a query
    #[arg(long, default_value_t = 2048)]
    d_model: usize,
    /// Elements of a key and of a value
    #[arg(long, default_value_t = 256)]
    kv_dim: usize,
    /// How often each thread goes through all layers
    #[arg(long, default_value_t = 10, value_name = "N")]
    rounds: u64,
    /// Rounds before the first measurement
    #[arg(long, default_value_t = 2, value_name = "N")]
    warm_up: u64,
    /// Threads that work at once
    #[arg(long, default_value_t = 1, value_name = "T")]
    threads: usize,
    /// Commit Q, K and V of a layer together and not one by one
    #[arg(long)]
    together: bool,
    /// Seed of the random operands
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write one JSON object; bytes, seconds
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &QkvArguments) -> Result<ExitCode, Box<dyn Error>> {
    let mut stress = QkvStress::default();
    stress.device = arguments.device.clone();
    stress.devices = arguments.devices;
    stress.layers = arguments.layers;
    stress.seq = arguments.seq;
    stress.d_model = arguments.d_model;
    stress.kv_dim = arguments.kv_dim;
    stress.rounds = arguments.rounds;
    stress.warm_up = arguments.warm_up;
    stress.threads = arguments.threads;
    stress.together = arguments.together;
    stress.seed = arguments.seed;

    let rounds = arguments.rounds.saturating_add(arguments.warm_up);
    let bar = progress(
        rounds.saturating_mul(arguments.threads as u64),
        "{bar:40} {pos}/{len} rounds, {eta} left",
    );
    let report = stress.run(&|done| bar.set_position(done));
    bar.finish_and_clear();
    let report = report?;
    let problems = report.problems();
    let mut out = output::stdout();
    if arguments.json {
        writeln!(out, "{}", describe(&report, &problems))?;
    } else {
        print(&mut out, &stress, &report)?;
        for problem in &problems {
            writeln!(out, "FAILED: {problem}")?;
        }
        if problems.is_empty() {
            writeln!(out, "passed: nothing grew and every value is right")?;
        }
    }
    Ok(match problems.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

fn describe(report: &QkvReport, problems: &[String]) -> Json {
    let figures = |figures: &Figures| {
        json!({
            "resident_bytes": figures.resident_bytes,
            "device_bytes": figures.device_bytes,
            "accounted_bytes": figures.accounted_bytes,
            "pool_bytes": figures.pool_bytes,
            "buffers": figures.buffers,
            "live_handles": figures.live_handles,
            "live_objects": figures.live_objects,
            "autoreleased_without_pool": figures.autoreleased_without_pool,
        })
    };
    json!({
        "device": report.device,
        "matmuls": report.matmuls,
        "seconds": report.elapsed.as_secs_f64(),
        "gflops": report.gflops,
        "values": report.values,
        "wrong": report.wrong,
        "worst_error": report.worst_error,
        "start": figures(&report.start),
        "warm": figures(&report.warm),
        "end": figures(&report.end),
        "closed": figures(&report.closed),
        "resident_growth": report.resident_growth(),
        "problems": problems,
    })
}

fn print(out: &mut impl Write, stress: &QkvStress, report: &QkvReport) -> io::Result<()> {
    writeln!(out, "device       {}", report.device)?;
    writeln!(
        out,
        "load         {} thread{} on {} device{}, {} layers, Q {seq}×{d}·{d}×{d}, K and V {seq}×{d}·{d}×{kv}",
        stress.threads,
        plural(stress.threads),
        stress.devices,
        plural(stress.devices),
        stress.layers,
        seq = stress.seq,
        d = stress.d_model,
        kv = stress.kv_dim,
    )?;
    writeln!(
        out,
        "matmuls      {} in {:.1} s, {:.1} GFLOP/s",
        report.matmuls,
        report.elapsed.as_secs_f64(),
        report.gflops
    )?;
    writeln!(
        out,
        "values       {} compared, {} wrong, worst error {:.1e} of the root mean square",
        report.values, report.wrong, report.worst_error
    )?;
    writeln!(out)?;
    let columns = [&report.start, &report.warm, &report.end, &report.closed];
    writeln!(
        out,
        "{:<28}{:>14}{:>14}{:>14}{:>14}",
        "", "start", "warm", "end", "closed"
    )?;
    let mut row = |name: &str, cell: &dyn Fn(&Figures) -> String| {
        write!(out, "{name:<28}")?;
        for figures in columns {
            write!(out, "{:>14}", cell(figures))?;
        }
        writeln!(out)
    };
    row("resident memory", &|figures| bytes(figures.resident_bytes))?;
    row("device bytes", &|figures| bytes(figures.device_bytes))?;
    row("of these ironbridge's", &|figures| {
        bytes(figures.accounted_bytes)
    })?;
    row("pool bytes", &|figures| bytes(figures.pool_bytes))?;
    row("buffers", &|figures| figures.buffers.to_string())?;
    row("live handles", &|figures| figures.live_handles.to_string())?;
    row(
        "autoreleased without a pool",
        &|figures| match figures.autoreleased_without_pool {
            Some(count) => count.to_string(),
            None => "not known".into(),
        },
    )?;
    let classes: BTreeSet<&String> = columns
        .iter()
        .flat_map(|figures| &figures.live_objects)
        .filter(|&(_, &live)| live != 0)
        .map(|(class, _)| class)
        .collect();
    for class in classes {
        row(&format!("live {class}"), &|figures| {
            figures
                .live_objects
                .get(class)
                .copied()
                .unwrap_or(0)
                .to_string()
        })?;
    }
    writeln!(
        out,
        "\nresident growth after the warm-up: {} bytes",
        report.resident_growth()
    )
}

fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}
