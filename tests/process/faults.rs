//! Faults on purpose, over whole generations: an allocation that fails, a command buffer that fails, a device with
//! little memory or with short buffers. Each run ends with the right text or with one error on one line, and leaves
//! nothing behind.
//!
//! This short form is part of `make test`. `make faults` sets `IRONBRIDGE_FAULTS=full`: every allocation from 1 to
//! 200, every error code at six places, and the command line as well.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use std::{env, thread};

use ironbridge::diagnostics::diagnose;
use ironbridge::llama::{
    LoadOptions, Model, ModelFile, Sampler, SamplerOptions, Session, SessionOptions, WeightStorage,
};
use ironbridge::{Device, Result};

crate::harness::cases! {
    every_fault_ends_with_the_right_text_or_one_error,
}

const MODEL: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/assets/tiny-rustbook-q8_0.gguf"
);
const PROMPT: &str = "Ownership is";
const TOKENS: usize = 8;
const CONTEXT: usize = 32;

const STORAGES: [(&str, WeightStorage); 4] = [
    ("automatic", WeightStorage::Automatic),
    ("copied", WeightStorage::Copied),
    ("moved", WeightStorage::Moved),
    ("mapped", WeightStorage::Mapped),
];

/// Codes of Metal's, by name where the software device has one, and numbers that no header knows yet.
const CODES: [&str; 17] = [
    "internal",
    "timeout",
    "page_fault",
    "access_revoked",
    "not_permitted",
    "out_of_memory",
    "invalid_resource",
    "device_removed",
    "5",
    "6",
    "10",
    "12",
    "13",
    "14",
    "15",
    "77",
    "4000000000",
];

/// One kind of fault and the selectors that plan it.
struct Kind {
    name: &'static str,
    faults: Vec<String>,
    /// It happens once: the same model gives the right text afterwards.
    once: bool,
}

fn kinds(full: bool) -> Vec<Kind> {
    let allocations: Vec<u32> = match full {
        true => (1..=200).collect(),
        false => (1..=12).chain((16..=200).step_by(23)).collect(),
    };
    let (places, codes): (&[u32], _) = match full {
        true => (&[1, 2, 3, 5, 8, 9], &CODES[..]),
        false => (&[1, 2, 6], &CODES[..3]),
    };
    let memory: &[&str] = match full {
        true => &[
            "0", "4K", "64K", "256K", "512K", "1M", "2M", "3M", "4M", "8M", "12M", "32M",
        ],
        false => &["0", "64K", "4M", "32M"],
    };
    let lengths: &[&str] = match full {
        true => &["4K", "16K", "64K", "256K", "1M", "4M"],
        false => &["4K", "256K", "4M"],
    };
    let codes = codes.iter().flat_map(|code| {
        let at = |place: &u32| format!("fail_command_buffer={place}:{code}");
        places.iter().map(at).collect::<Vec<_>>()
    });
    let kind = |name, faults, once| Kind { name, faults, once };
    vec![
        kind(
            "allocations",
            allocations
                .iter()
                .map(|n| format!("fail_allocation={n}"))
                .collect(),
            true,
        ),
        kind("command buffers", codes.collect(), true),
        kind(
            "memory limits",
            memory
                .iter()
                .map(|bytes| format!("memory_limit={bytes}"))
                .collect(),
            false,
        ),
        kind(
            "buffer limits",
            lengths
                .iter()
                .map(|bytes| format!("max_buffer_length={bytes}"))
                .collect(),
            false,
        ),
    ]
}

#[derive(Default)]
struct Counts {
    runs: u32,
    texts: u32,
    errors: u32,
    /// Runs whose model went on after its error.
    recovered: u32,
}

fn load(device: &Device, weights: WeightStorage) -> Result<Model> {
    let file = ModelFile::open(MODEL)?;
    Model::load(device, &file, LoadOptions { weights }, &mut |_| ())
}

fn write(model: &Model) -> Result<String> {
    let options = SessionOptions {
        context: Some(CONTEXT),
        ..SessionOptions::default()
    };
    let mut session = Session::new(model, options)?;
    let sampler = Sampler::new(SamplerOptions {
        temperature: 0.0,
        ..SamplerOptions::default()
    })?;
    let prompt = model.encode_prompt(PROMPT);
    let mut text = String::new();
    for piece in session.generate(&prompt, sampler, TOKENS) {
        text += &piece?.text;
    }
    Ok(text)
}

/// What one fault did, in this process.
fn run(fault: &str, weights: WeightStorage, expected: &str, once: bool, counts: &mut Counts) {
    counts.runs += 1;
    let outcome = Device::open(&format!("cpu:{fault}")).and_then(|device| {
        let outcome = load(&device, weights).and_then(|model| {
            let outcome = write(&model);
            if outcome.is_err() && once {
                let text = write(&model)?;
                assert_eq!(text, expected, "{fault}, afterwards");
                counts.recovered += 1;
            }
            outcome
        });
        let memory = device.memory()?;
        assert_eq!(
            (memory.active_bytes, memory.active_buffers),
            (0, 0),
            "{fault}"
        );
        assert_eq!(memory.unaccounted_bytes, 0, "{fault}");
        outcome
    });
    match outcome {
        Ok(text) => {
            assert_eq!(text, expected, "{fault}");
            counts.texts += 1;
        }
        Err(error) => {
            one_line(fault, &error.to_string());
            counts.errors += 1;
        }
    }
}

fn one_line(fault: &str, message: &str) {
    assert_eq!(message.lines().count(), 1, "{fault}: {message}");
    assert!(message.len() > 10, "{fault}: {message}");
}

/// The same from the command line: the right text and status 0, or one line and status 1.
fn run_command(fault: &str, storage: &str, expected: &str, counts: &mut Counts) {
    counts.runs += 1;
    let (tokens, context) = (TOKENS.to_string(), CONTEXT.to_string());
    let output = Command::new(env!("CARGO_BIN_EXE_ironbridge"))
        .args([
            "generate", "-q", "-m", MODEL, "-p", PROMPT, "-n", &tokens, "--temp", "0",
        ])
        .args(["--context", &context, "--weights", storage])
        .args(["--device", &format!("cpu:{fault}")])
        .env_remove("IRONBRIDGE_DEVICE")
        .env("IRONBRIDGE_PUBLISH", "0")
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    match output.status.code() {
        Some(0) => {
            assert_eq!(
                (text.trim_end(), &*error),
                (format!("{PROMPT}{expected}").trim_end(), ""),
                "{fault}, {storage}"
            );
            counts.texts += 1;
        }
        Some(1) => {
            assert!(
                error.starts_with("ironbridge: "),
                "{fault}, {storage}: {error}"
            );
            one_line(fault, error.trim_end());
            counts.errors += 1;
        }
        other => panic!("{fault}, {storage}: {other:?} {error}"),
    }
}

/// No handle, no object and nothing autoreleased without a pool is left. A stream's thread may still hold the last
/// objects of a device for a moment after it was dropped.
fn nothing_is_left(after: &str) {
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        let now = diagnose().unwrap();
        let autoreleased = now.autoreleased_without_pool.unwrap_or(0);
        if (now.live_handles, now.live_objects, autoreleased) == (0, 0, 0) {
            return;
        }
        assert!(Instant::now() < end, "after {after}: {now:?}");
        thread::sleep(Duration::from_millis(1));
    }
}

fn every_fault_ends_with_the_right_text_or_one_error() {
    let full = match env::var("IRONBRIDGE_FAULTS").as_deref() {
        Ok("full") => true,
        Ok("short") | Err(_) => false,
        Ok(other) => panic!("IRONBRIDGE_FAULTS is {other:?}; it may be \"full\" or \"short\""),
    };
    assert!(Path::new(MODEL).exists());
    let expected =
        write(&load(&Device::open("cpu").unwrap(), WeightStorage::Copied).unwrap()).unwrap();
    assert!(expected.len() > TOKENS, "{expected:?}");
    nothing_is_left("a run without faults");

    let mut table = BTreeMap::new();
    for Kind { name, faults, once } in kinds(full) {
        for (storage, weights) in STORAGES {
            let mut counts = Counts::default();
            for fault in &faults {
                run(fault, weights, &expected, once, &mut counts);
                nothing_is_left(fault);
            }
            table.insert((name, storage, "library"), counts);
            let mut counts = Counts::default();
            for (place, fault) in faults.iter().enumerate() {
                // In the short form two of each.
                if !full && place != 1 && place + 1 != faults.len() {
                    continue;
                }
                run_command(fault, storage, &expected, &mut counts);
            }
            table.insert((name, storage, "command line"), counts);
        }
    }

    println!(
        "{:<16} {:<9} {:<13} {:>5} {:>6} {:>7} {:>10}",
        "fault", "weights", "through", "runs", "texts", "errors", "went on"
    );
    let mut all = Counts::default();
    for ((name, storage, through), counts) in &table {
        let Counts {
            runs,
            texts,
            errors,
            recovered,
        } = counts;
        println!(
            "{name:<16} {storage:<9} {through:<13} {runs:>5} {texts:>6} {errors:>7} {recovered:>10}"
        );
        all.runs += runs;
        all.texts += texts;
        all.errors += errors;
        all.recovered += recovered;
        // Each kind of fault was met, and survived.
        assert!(
            *through != "library" || *errors > 0,
            "{name}, {storage}: no fault was met"
        );
    }
    let Counts {
        runs,
        texts,
        errors,
        recovered,
    } = all;
    println!(
        "{:<40} {runs:>5} {texts:>6} {errors:>7} {recovered:>10}",
        "all"
    );
    assert_eq!(texts + errors, runs);
}
