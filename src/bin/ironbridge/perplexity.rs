//! `ironbridge perplexity`

use std::error::Error;
use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use indicatif::ProgressBar;
use ironbridge::llama::{PerplexityOptions, PerplexityWindows, Session, SessionOptions};
use serde_json::json;

use crate::input::read_text;
use crate::model_options::RunOptions;
use crate::output;
use crate::terminal::progress;

/// Tokens whose logits are computed together: 32 MiB for a vocabulary of 128 Ki.
const OUTPUTS: usize = 64;

#[derive(Args)]
pub struct PerplexityArguments {
    #[command(flatten)]
    model: RunOptions,
    /// The text; -: standard input
    #[arg(short, long, value_name = "FILE")]
    file: PathBuf,
    /// Tokens by which the window moves on in a text that is longer than the context [default: half the context]
    #[arg(long, value_name = "N")]
    stride: Option<usize>,
    /// Cut the text as llama.cpp's llama-perplexity does, whose figures are the published ones: pieces of --context
    /// tokens, of which the second half is predicted
    #[arg(long, conflicts_with = "stride")]
    chunks: bool,
    /// Write one JSON object
    #[arg(long)]
    json: bool,
    /// Write the result and errors, no progress
    #[arg(short, long)]
    quiet: bool,
}

pub fn run(arguments: &PerplexityArguments) -> Result<(), Box<dyn Error>> {
    let text = read_text(Some(&arguments.file))?;
    let model = arguments.model.load(arguments.quiet)?;
    let options = SessionOptions {
        outputs: Some(OUTPUTS),
        ..arguments.model.session_options()
    };
    let mut session = Session::new(&model, options)?;
    let tokens = model.encode_prompt(&text);
    let bar = match arguments.quiet {
        true => ProgressBar::hidden(),
        false => progress(
            0,
            "perplexity {msg:<8} {bar:40} {pos}/{len} tokens, {eta} left",
        ),
    };
    let start = Instant::now();
    let reading = PerplexityOptions {
        stride: arguments.stride,
        windows: match arguments.chunks {
            true => PerplexityWindows::Chunks,
            false => PerplexityWindows::Overlapping,
        },
    };
    let found = session.perplexity(&tokens, reading, &mut |done| {
        bar.set_length(done.total as u64);
        bar.set_position(done.so_far.tokens() as u64);
        bar.set_message(format!("{:.3}", done.so_far.value()));
    });
    bar.finish_and_clear();
    let found = found?;
    let rate = found.tokens() as f64 / start.elapsed().as_secs_f64().max(1e-9);
    let mut out = output::stdout();
    match arguments.json {
        true => writeln!(
            out,
            "{}",
            json!({
                "perplexity": found.value(),
                "standard_error": found.standard_error(),
                "mean_log_probability": found.mean_log_probability(),
                "tokens": found.tokens(),
                "context": session.context(),
                "tokens_per_second": rate,
            })
        )?,
        false => writeln!(
            out,
            "perplexity  {:.4} ± {:.4}\ntokens      {} in a context of {}, {rate:.1} tokens/s",
            found.value(),
            found.standard_error(),
            found.tokens(),
            session.context(),
        )?,
    }
    Ok(())
}
