//! docs/perf/MACHINE/BENCHMARKS.md and its charts, from the lines that the trials printed.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, process};

use serde_json::Value;

use crate::engines::{NAMES, Result};
use crate::matmul;
use crate::models::{TYPES, cost};
use crate::scaling;
use crate::trial::LONG;

pub struct Speed<'a> {
    engine: &'a str,
    rates: Vec<f64>,
}

/// All lines of one kind.
fn lines<'a>(all: &'a [Value], what: &str) -> Vec<&'a Value> {
    all.iter().filter(|line| line["what"] == what).collect()
}

fn numbers(value: &Value) -> Vec<f64> {
    let values = value.as_array().into_iter().flatten();
    values.filter_map(Value::as_f64).collect()
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The median, the least and the most, and how many there are.
fn with_range(values: &[f64], decimals: usize) -> String {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(0.0, f64::max);
    match values.len() {
        0 => "—".to_owned(),
        count => format!(
            "{:.decimals$} ({least:.decimals$}–{most:.decimals$}; {count})",
            median(values)
        ),
    }
}

/// The page of a machine, in its folder.
pub const PAGE: &str = "BENCHMARKS.md";

/// Writes the page and its charts, and returns the page's path.
pub fn write(folder: &Path, all: &[Value], effort: &str, took: Duration) -> Result<PathBuf> {
    let mut text = String::from(
        "# Benchmarks\n\nWritten by `make bench-peers`. ironbridge on its software device, llama.cpp (`llama-cpp-2`) and candle take turns in one\n\
         process, on the same GGUF file. The models have TinyLlama's shape (1.1 B parameters) and random weights. A cell is the\n\
         median of tokens/s, with the range and the number of runs in parentheses. *Limit* is the share of what the machine can\n\
         do, measured in the same process. For decode that is the read bandwidth of memory in 2 MiB pages, measured between\n\
         the engines' runs. For prefill it is the rate of vector multiply-adds, of bytes (VNNI, or AVX2 without it), or of f32\n\
         for F16; AMX can exceed it.\n\n\
         An engine that is 1.8 times behind is measured once in a phase. One that is 4 times behind in a phase is not measured\n\
         in the next, which is a dash (—). The better peer is then the other one.\n\n",
    );
    writeln!(text, "{}\n", machine(effort, took))?;
    for file_type in TYPES {
        writeln!(text, "## {file_type}\n")?;
        writeln!(
            text,
            "| threads | phase | ironbridge | llama.cpp | candle | ironbridge ÷ better peer | limit |\n| --- | --- | --- | --- | --- | --- | --- |"
        )?;
        for threads in [1, 2] {
            for phase in phases(all, file_type, threads) {
                let speeds = speeds(all, file_type, threads, &phase);
                row(&mut text, all, file_type, threads, &phase, &speeds)?;
            }
        }
        text.push('\n');
    }
    text.push_str("The ratio to the better peer:\n\n![Ratio to the better peer](peers.svg)\n\nThe speed of two threads over that of one, by engine:\n\n![Two threads over one](scaling.svg)\n\n");
    agreement(&mut text, all)?;
    loading(&mut text, all)?;
    if !lines(all, "context").is_empty() {
        text.push_str("## Decode by context length\n\nMilliseconds per token by the length of the context, Q4_K_M, two threads:\n\n![Milliseconds per token by context length](context.svg)\n\n");
    }
    write_charts(folder, all)?;
    writeln!(text, "{}", matmul::section(all)?)?;
    for failure in lines(all, "failure") {
        writeln!(text, "Failed: {}: {}\n", failure["of"], failure["error"])?;
    }
    let page = folder.join(PAGE);
    fs::write(&page, text.trim_end().to_owned() + "\n")?;
    Ok(page)
}

/// Draws the charts of the report.
pub fn write_charts(folder: &Path, all: &[Value]) -> Result<()> {
    let mut bars = Vec::new();
    for (file_type, threads) in TYPES.into_iter().flat_map(|it| [(it, 1), (it, 2)]) {
        for phase in phases(all, file_type, threads) {
            let speeds = speeds(all, file_type, threads, &phase);
            bars.push((format!("{file_type} T{threads} {phase}"), ratio(&speeds)));
        }
    }
    fs::write(folder.join("peers.svg"), bar_chart(&bars))?;
    fs::write(folder.join(scaling::CHART), scaling::chart(all))?;
    match lines(all, "context").is_empty() {
        true => Ok(()),
        false => write_context(folder, all),
    }
}

fn machine(effort: &str, took: Duration) -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let cpu = read("/proc/cpuinfo");
    let model = cpu
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or("unknown processor", |(_, name)| name);
    let amx = if cpu.contains(" amx_tile ") {
        " with AMX"
    } else {
        ""
    };
    let load = read("/proc/loadavg");
    let load = load.split(' ').take(3).collect::<Vec<_>>().join(" ");
    let date = process::Command::new("date")
        .args(["-u", "+%F %H:%M UTC"])
        .output();
    let date = date.map(|date| String::from_utf8_lossy(&date.stdout).trim().to_owned());
    format!(
        "{} · {model}{amx}, {} processors · {effort} run of {} s\n\
         · load average at its end {load} (its own two threads make 1 to 2 of it)",
        date.unwrap_or_default(),
        std::thread::available_parallelism().map_or(0, |count| count.get()),
        took.as_secs(),
    )
}

pub fn phases(all: &[Value], file_type: &str, threads: u64) -> Vec<String> {
    let mut phases: Vec<String> = Vec::new();
    for line in lines(all, "speed") {
        let phase = line["phase"].as_str().unwrap_or_default().to_owned();
        if line["type"] == file_type && line["threads"] == threads && !phases.contains(&phase) {
            phases.push(phase);
        }
    }
    phases
}

pub fn speeds<'a>(all: &'a [Value], file_type: &str, threads: u64, phase: &str) -> Vec<Speed<'a>> {
    let of = |line: &&Value| {
        line["type"] == file_type && line["threads"] == threads && line["phase"] == phase
    };
    let speed = |line: &'a Value| Speed {
        engine: line["engine"].as_str().unwrap_or_default(),
        rates: numbers(&line["rates"]),
    };
    lines(all, "speed")
        .into_iter()
        .filter(of)
        .map(speed)
        .collect()
}

pub fn rate(speeds: &[Speed], engine: &str) -> Option<f64> {
    let speed = speeds.iter().find(|speed| speed.engine == engine)?;
    Some(median(&speed.rates))
}

/// ironbridge's median over the better peer's.
fn ratio(speeds: &[Speed]) -> f64 {
    let peers = NAMES[1..].iter().filter_map(|name| rate(speeds, name));
    rate(speeds, NAMES[0]).unwrap_or(f64::NAN) / peers.fold(f64::NAN, f64::max)
}

fn row(
    text: &mut String,
    all: &[Value],
    file_type: &str,
    threads: u64,
    phase: &str,
    speeds: &[Speed],
) -> Result<()> {
    write!(text, "| {threads} | {phase} |")?;
    for name in NAMES {
        match speeds.iter().find(|speed| speed.engine == name) {
            Some(speed) => write!(text, " {} |", with_range(&speed.rates, 1))?,
            None => write!(text, " — |")?,
        }
    }
    let limits = lines(all, "limits");
    let limits = limits
        .iter()
        .find(|line| line["type"] == file_type && line["threads"] == threads);
    let share = limits.and_then(|limits| {
        let (rate, cost) = (rate(speeds, NAMES[0])? / 1e9, cost(file_type));
        Some(if phase.starts_with("decode") {
            rate * cost.bytes / median(&numbers(&limits["reads"]))
        } else {
            let key = if file_type == "F16" { "f32" } else { "bytes" };
            rate * 2.0 * cost.weights / limits[key].as_f64()?
        })
    });
    let share = share.map_or("—".to_owned(), |share| format!("{:.0} %", share * 100.0));
    writeln!(text, " **{:.2}** | {share} |", ratio(speeds))?;
    Ok(())
}

fn agreement(text: &mut String, all: &[Value]) -> Result<()> {
    text.push_str("## Agreement and limits\n\nThe relative distance of a peer's logits from ironbridge's, ‖a − b‖ / ‖a‖, after 24 tokens and one more. Beside it the\nmachine's limits, measured in the same process.\n\n");
    text.push_str("| type | threads | llama.cpp | candle | read GB/s | f32 GFLOP/s | bytes GOP/s |\n| --- | --- | --- | --- | --- | --- | --- |\n");
    for limits in lines(all, "limits") {
        let (file_type, threads) = (&limits["type"], &limits["threads"]);
        write!(
            text,
            "| {} | {threads} |",
            file_type.as_str().unwrap_or_default()
        )?;
        for name in &NAMES[1..] {
            let logits = lines(all, "logits").into_iter().find(|line| {
                line["type"] == *file_type && line["threads"] == *threads && line["engine"] == *name
            });
            let distance = logits.and_then(|line| line["distance"].as_f64());
            let distance = distance.map_or("—".to_owned(), |distance| format!("{distance:.1e}"));
            write!(text, " {distance} |")?;
        }
        write!(text, " {} |", with_range(&numbers(&limits["reads"]), 0))?;
        for key in ["f32", "bytes"] {
            let value = limits[key].as_f64();
            let value = value.map_or("—".to_owned(), |value| format!("{value:.0}"));
            write!(text, " {value} |")?;
        }
        text.push('\n');
    }
    text.push('\n');
    Ok(())
}

fn loading(text: &mut String, all: &[Value]) -> Result<()> {
    writeln!(
        text,
        "## Loading\n\nQ8_0 (1.1 GB, in the page cache), two threads, one process per engine. The columns are the seconds until the model is\n\
         ready and until a prompt of 15 tokens is computed, and the peak resident memory then and after {LONG} tokens.\n\n\
         | | ready | first prompt | peak GB | with {LONG} tokens |\n| --- | --- | --- | --- | --- |"
    )?;
    for name in NAMES {
        let of: Vec<_> = lines(all, "load")
            .into_iter()
            .filter(|line| line["engine"] == name)
            .collect();
        let middle = |key: &str| {
            let values: Vec<f64> = of.iter().filter_map(|line| line[key].as_f64()).collect();
            median(&values)
        };
        writeln!(
            text,
            "| {name} | {:.2} | {:.2} | {:.2} | {:.2} |",
            middle("ready"),
            middle("first"),
            middle("peak") / 1e9,
            middle("peak_long") / 1e9
        )?;
    }
    text.push('\n');
    Ok(())
}

pub const STYLE: &str = "<style>text{font:12px sans-serif;fill:#444}.a{fill:#2a7ab9;stroke:#2a7ab9}.b{fill:#c8502d;stroke:#c8502d}.l{stroke:#999}</style>";

/// A bar for each ratio, with lines at 1 and 1.2.
fn bar_chart(bars: &[(String, f64)]) -> String {
    let (bar, left, unit) = (18, 180.0, 200.0);
    let height = bar * bars.len() + 30;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 840 {height}\" role=\"img\">{STYLE}<rect width=\"840\" height=\"{height}\" fill=\"#fff\"/>\n"
    );
    for (i, (label, ratio)) in bars.iter().enumerate() {
        let (y, ratio) = (bar * i + 24, if ratio.is_finite() { *ratio } else { 0.0 });
        let width = (ratio * unit).min(600.0);
        let _ = writeln!(
            svg,
            "<text x=\"4\" y=\"{}\">{label}</text><rect class=\"{}\" x=\"{left}\" y=\"{y}\" width=\"{width:.0}\" height=\"12\"/><text x=\"{:.0}\" y=\"{}\">{ratio:.2}</text>",
            y + 11,
            if ratio >= 1.2 { "a" } else { "b" },
            left + width + 4.0,
            y + 11
        );
    }
    for line in [1.0, 1.2] {
        let x = left + line * unit;
        let _ = writeln!(
            svg,
            "<path class=\"l\" d=\"M{x} 18V{height}\"/><text x=\"{}\" y=\"14\">{line}</text>",
            x - 8.0
        );
    }
    svg + "</svg>\n"
}

const CONTEXT_CHART: &str = "context.svg";

/// Draws the time per token by the length of the context.
pub fn write_context(folder: &Path, all: &[Value]) -> Result<()> {
    let contexts = lines(all, "context");
    if contexts.is_empty() {
        return Err("there is nothing to draw".into());
    }
    Ok(fs::write(
        folder.join(CONTEXT_CHART),
        context_chart(&contexts),
    )?)
}

/// Milliseconds by length, a line for each engine.
fn context_chart(lines: &[&Value]) -> String {
    let most = lines
        .iter()
        .filter_map(|line| line["seconds"].as_f64())
        .fold(0.0, f64::max)
        * 1.1;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 640 360\" role=\"img\">{STYLE}<rect width=\"640\" height=\"360\" fill=\"#fff\"/>\n<path class=\"l\" fill=\"none\" d=\"M50 10V320H630\"/>"
    );
    for length in (0..=2048).step_by(512) {
        let x = 50.0 + f64::from(length) / 2048.0 * 570.0;
        let _ = write!(svg, "<text x=\"{:.0}\" y=\"338\">{length}</text>", x - 10.0);
    }
    for step in 0..=4 {
        let value = most * f64::from(step) / 4.0;
        let y = 324.0 - 310.0 * f64::from(step) / 4.0;
        let _ = write!(
            svg,
            "<text x=\"4\" y=\"{y:.0}\">{:.0} ms</text>",
            value * 1e3
        );
    }
    for (name, class) in [(NAMES[0], "a"), (NAMES[1], "b")] {
        let mut path = String::new();
        for line in lines.iter().filter(|line| line["engine"] == name) {
            let (length, seconds) = (line["length"].as_f64(), line["seconds"].as_f64());
            let (Some(length), Some(seconds)) = (length, seconds) else {
                continue;
            };
            let (x, y) = (
                50.0 + length / 2048.0 * 570.0,
                320.0 - 310.0 * seconds / most,
            );
            let _ = write!(
                path,
                "{}{x:.0} {y:.0}",
                if path.is_empty() { "M" } else { "L" }
            );
        }
        let y = if class == "a" { 30 } else { 48 };
        let _ = writeln!(
            svg,
            "<path class=\"{class}\" style=\"fill:none;stroke-width:2\" d=\"{path}\"/><rect class=\"{class}\" x=\"520\" y=\"{}\" width=\"10\" height=\"10\"/><text x=\"534\" y=\"{y}\">{name}</text>",
            y - 10
        );
    }
    svg + "</svg>\n"
}
