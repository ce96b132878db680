//! Tokens per second of one thread, for `scripts/models/tokenizer_speed.py`, which runs it alternately with the
//! `tokenizers` package.
//!
//! usage: tokenizer_speed MODEL TEXT COUNT
//!
//! Tokenizes the file TEXT once to warm up and COUNT times. It prints one JSON object: how many tokens there are, a sum
//! that tells whether they are the package's, and the processor time of each in seconds. Without arguments, as
//! `cargo test --benches` calls it, it does so once with the model in `assets/` and this file.

use std::time::Duration;

use ironbridge::llama::{ModelFile, Tokenizer};

/// The processor time of this process: others on the machine do not count.
fn processor_time() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a timespec to write, and the clock is one that POSIX has.
    let status = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    assert_eq!(
        status, 0,
        "every system that the crate runs on has this clock"
    );
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| argument != "--bench")
        .collect();
    let [model, text, count] = match &arguments[..] {
        [] => [
            concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/assets/tiny-rustbook-q8_0.gguf"
            ),
            concat!(env!("CARGO_MANIFEST_DIR"), "/benches/tokenizer_speed.rs"),
            "1",
        ],
        [model, text, count] => [model.as_str(), text, count],
        _ => return Err("usage: tokenizer_speed MODEL TEXT COUNT".into()),
    };
    let file = ModelFile::open(model)?;
    let tokenizer = Tokenizer::from_metadata(file.metadata())?;
    let text = std::fs::read_to_string(text)?;
    let tokens = tokenizer.encode(&text);
    let mut seconds = Vec::new();
    for _ in 0..count.parse()? {
        let start = processor_time();
        let again = tokenizer.encode(&text);
        seconds.push((processor_time() - start).as_secs_f64());
        assert_eq!(again.len(), tokens.len());
    }
    let sum = tokens.iter().fold(0u64, |sum, token| {
        (sum * 31 + u64::from(*token)) % 1_000_000_007
    });
    println!(
        "{}",
        serde_json::json!({ "tokens": tokens.len(), "sum": sum, "seconds": seconds })
    );
    Ok(())
}
