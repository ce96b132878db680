//! Runs a scenario under many seeds, in a process of its own: a crash or a hang there is a failure here, which names
//! the seed.

use std::io::{BufRead, BufReader, Read};
use std::ops::Range;
use std::process::{Child, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use crate::abi::Baseline;
use crate::harness;

/// For one seed. Most take a few milliseconds.
const PATIENCE: Duration = Duration::from_secs(30);

/// One seed, in this process.
const ONE: &str = "IRONBRIDGE_SCHEDULE_SEED";
/// All seeds, in this process: the child's part.
const ALL: &str = "IRONBRIDGE_SCHEDULE_SEEDS";

fn play(scenario: fn(u64), seed: u64) {
    println!("seed {seed}");
    let baseline = Baseline::take();
    scenario(seed);
    baseline.holds();
}

pub fn explore(name: &str, scenario: fn(u64), seeds: Range<u64>) {
    if let Ok(seed) = std::env::var(ONE) {
        let seed = seed.parse().expect("IRONBRIDGE_SCHEDULE_SEED is a number");
        play(scenario, seed);
    } else if std::env::var_os(ALL).is_some() {
        seeds.for_each(|seed| play(scenario, seed));
        println!("all seeds");
    } else {
        watch(name, start(name));
    }
}

fn start(name: &str) -> Child {
    harness::command(name)
        .env(ALL, "1")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the test starts itself")
}

/// Fails, with the seed that was played, when the child crashes, fails, or says nothing for too long.
fn watch(name: &str, mut child: Child) {
    let stdout = BufReader::new(child.stdout.take().expect("it is a pipe"));
    let mut stderr = child.stderr.take().expect("it is a pipe");
    let complaint = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        stderr.read_to_end(&mut bytes).map(|_| bytes)
    });
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        for line in stdout.lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    let (mut seed, mut complete, mut hung) = (String::from("no seed"), false, false);
    let mut played = 0;
    loop {
        match lines.recv_timeout(PATIENCE) {
            Ok(line) if line.starts_with("seed ") => {
                seed = line;
                played += 1;
            }
            Ok(line) => complete |= line == "all seeds",
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                hung = true;
                child.kill().expect("it is ours");
                break;
            }
        }
    }
    let status = child.wait().expect("it is ours");
    let complaint = complaint.join().expect("no panic").unwrap_or_default();
    let number = seed.trim_start_matches("seed ");
    assert!(
        status.success() && complete && !hung,
        "{name}, {seed}: {}\n{}\nonce more: {ONE}={number} cargo test --features cli,tracing --test process -- --case {name}",
        if hung {
            format!("nothing happened for {PATIENCE:?}")
        } else {
            status.to_string()
        },
        String::from_utf8_lossy(&complaint),
    );
    println!("{name}: {played} seeds");
}
