//! What one process does: it prints a line of JSON for each thing it measured.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::engines::{self, Engine, NAMES, REST, Result};
use crate::limits;

/// Tokens that are in the text before single ones are measured.
const PROMPT: usize = 15;
/// Tokens of a text that memory is measured over.
pub const LONG: usize = 512;
/// What the shares of a type's trials are kept under.
const LIMIT: Duration = Duration::from_secs(200);

struct Phase {
    name: String,
    /// Tokens computed at once.
    batch: usize,
    /// How many times.
    times: usize,
    /// How many turns each engine has.
    rounds: usize,
}

fn tokens(count: usize) -> Vec<u32> {
    (0..count as u32).map(|i| 300 + i * 7919 % 31_000).collect()
}

pub fn speed(file: &Path, file_type: &str, threads: &str, effort: &str) -> Result<()> {
    let (start, threads) = (Instant::now(), threads.parse()?);
    let quick = effort == "quick";
    let mut engines = Vec::new();
    for name in NAMES {
        match engines::load(name, file, threads) {
            Ok(mut engine) => {
                engine.settle();
                engines.push((name, engine));
            }
            Err(error) => {
                let error = error.to_string();
                println!(
                    "{}",
                    json!({ "what": "failure", "of": format!("{name} {file_type}"), "error": error })
                );
            }
        }
    }
    compare_logits(&mut engines, file_type, threads)?;

    let prefill = |batch, rounds| Phase {
        name: format!("prefill {batch}"),
        batch,
        times: 1,
        rounds,
    };
    let decode = |times, rounds| Phase {
        name: format!("decode {times}"),
        batch: 1,
        times,
        rounds,
    };
    // Memory's speed changes more than the processor's.
    let phases = match quick {
        true => vec![prefill(15, 3), prefill(128, 3), decode(16, 3)],
        false => vec![
            prefill(15, 5),
            prefill(128, 5),
            decode(32, 9),
            prefill(512, 5),
        ],
    };
    let (limits, reader) = (limits::measure(threads), limits::Reader::new(threads));
    let mut reads = Vec::new();
    let mut far_behind = vec![false; engines.len()];
    for phase in phases {
        // Whoever is far behind need not prove it as often, nor at length.
        let mut best = f64::INFINITY;
        let mut seconds = vec![Vec::new(); engines.len()];
        let mut least = vec![f64::INFINITY; engines.len()];
        for round in 0..phase.rounds {
            if phase.times > 1 {
                thread::sleep(REST);
                reads.extend(reader.rate());
            }
            for (i, (_, engine)) in engines.iter_mut().enumerate() {
                let behind = round > 0 && least[i] > 1.8 * best;
                if (behind || far_behind[i]) && i > 0 || start.elapsed() > LIMIT && round >= 5 {
                    continue;
                }
                let time = turn(engine.as_mut(), &phase)?;
                seconds[i].push(time);
                least[i] = least[i].min(time);
                best = best.min(time);
            }
        }
        for (far, least) in far_behind.iter_mut().zip(&least) {
            *far = *least > 4.0 * best;
        }
        for ((name, _), seconds) in engines.iter().zip(seconds) {
            if seconds.is_empty() {
                continue;
            }
            let tokens = (phase.batch * phase.times) as f64;
            let rates: Vec<f64> = seconds.iter().map(|seconds| tokens / seconds).collect();
            println!(
                "{}",
                json!({
                    "what": "speed", "type": file_type, "threads": threads, "phase": phase.name, "engine": name,
                    "rates": rates,
                })
            );
        }
    }
    println!(
        "{}",
        json!({
            "what": "limits", "type": file_type, "threads": threads, "reads": reads,
            "f32": limits.f32_operations, "bytes": limits.byte_operations,
        })
    );
    Ok(())
}

/// The seconds of one phase.
fn turn(engine: &mut dyn Engine, phase: &Phase) -> Result<f64> {
    thread::sleep(REST);
    engine.reset()?;
    if phase.times > 1 {
        engine.feed(&tokens(PROMPT))?;
    } else {
        // Threads that sleep are woken before.
        engine.feed(&tokens(1))?;
        engine.reset()?;
    }
    let tokens = tokens(phase.batch * phase.times);
    let start = Instant::now();
    for part in tokens.chunks(phase.batch) {
        engine.feed(part)?;
    }
    Ok(start.elapsed().as_secs_f64())
}

/// All engines must say about the same after the same tokens: first a prompt, then one more token.
fn compare_logits(
    engines: &mut [(&str, Box<dyn Engine>)],
    file_type: &str,
    threads: usize,
) -> Result<()> {
    let mut all = Vec::new();
    for (name, engine) in engines.iter_mut() {
        engine.reset()?;
        let mut logits = engine.feed(&tokens(24))?;
        logits.extend(engine.feed(&[500])?);
        if logits.iter().any(|logit| !logit.is_finite()) {
            return Err(format!("{name} gives logits that are no numbers").into());
        }
        all.push((*name, logits));
    }
    let norm = |a: &[f32]| a.iter().map(|a| f64::from(*a).powi(2)).sum::<f64>().sqrt();
    for (name, logits) in &all {
        let (_, first) = &all[0];
        let difference: Vec<f32> = first.iter().zip(logits).map(|(a, b)| a - b).collect();
        let distance = norm(&difference) / norm(first);
        println!(
            "{}",
            json!({ "what": "logits", "type": file_type, "threads": threads, "engine": name, "distance": distance })
        );
        // Engines round activations each in a way of its own; two different models would be some 1.4 apart.
        if distance > 0.25 {
            return Err(format!("the logits of {name} are {distance} from ironbridge's").into());
        }
    }
    Ok(())
}

/// How long a file takes to be ready, with a first prompt, and what memory that took.
pub fn load(name: &str, file: &Path) -> Result<()> {
    let start = Instant::now();
    let mut engine = engines::load(name, file, 2)?;
    let ready = start.elapsed().as_secs_f64();
    engine.feed(&tokens(PROMPT))?;
    let first = start.elapsed().as_secs_f64();
    let peak = peak_memory()?;
    engine.reset()?;
    engine.feed(&tokens(LONG))?;
    println!(
        "{}",
        json!({
            "what": "load", "engine": name, "ready": ready, "first": first, "peak": peak, "peak_long": peak_memory()?,
        })
    );
    Ok(())
}

/// The most bytes that this process has had resident.
fn peak_memory() -> Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let number = line.and_then(|line| line.split_whitespace().nth(1));
    Ok(number.and_then(|number| number.parse().ok()).unwrap_or(0.0) * 1024.0)
}

/// What a token costs after how many others.
pub fn context(file: &Path, threads: &str) -> Result<()> {
    let threads = threads.parse()?;
    const EACH: usize = 8;
    let mut engines = Vec::new();
    for name in &NAMES[..2] {
        engines.push((*name, engines::load(name, file, threads)?));
    }
    let text = tokens(engines::CONTEXT);
    let mut position = 0;
    for (_, engine) in &mut engines {
        engine.reset()?;
        engine.settle();
    }
    for length in [0, 64, 128, 256, 512, 768, 1024, 1280, 1536, 1792, 2048] {
        for (name, engine) in &mut engines {
            if length > position {
                engine.feed(&text[position..length])?;
            }
            let start = Instant::now();
            for token in &text[length..length + EACH] {
                engine.feed(&[*token])?;
            }
            let seconds = start.elapsed().as_secs_f64() / EACH as f64;
            println!(
                "{}",
                json!({ "what": "context", "engine": name, "length": length, "seconds": seconds })
            );
        }
        position = length + EACH;
    }
    Ok(())
}
