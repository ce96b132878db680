//! `ironbridge quantize`

use std::error::Error;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use clap::Args;
use ironbridge::llama::gguf::TensorType;
use ironbridge::llama::{
    CancelToken, LlamaError, ModelFile, QuantizeError, QuantizeReport, Quantizer,
};
use serde_json::{Value as Json, json};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::{flag, low_level};

use crate::output;
use crate::terminal::{bytes, progress, say};

#[derive(Args)]
pub struct QuantizeArguments {
    /// A GGUF file in F32, F16 or BF16, or a folder with config.json and .safetensors files
    #[arg(value_name = "IN")]
    model: PathBuf,
    /// The GGUF file to write
    #[arg(value_name = "OUT")]
    out: PathBuf,
    /// Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q2_K to Q6_K, IQ4_NL, F16, BF16 or F32, for matrices; the output is at least Q6_K
    #[arg(value_name = "TYPE", value_parser = target)]
    target: TensorType,
    /// Another type for one tensor; can be given again
    #[arg(long = "tensor", value_name = "NAME=TYPE", value_parser = tensor_target)]
    tensors: Vec<(String, TensorType)>,
    /// Replace OUT if it is there
    #[arg(long)]
    force: bool,
    /// Threads; 0: one for each processor
    #[arg(long, default_value_t = 0, value_name = "T")]
    threads: usize,
    /// Write what became of each tensor as one JSON object
    #[arg(long)]
    json: bool,
    /// Write errors and nothing else
    #[arg(short, long)]
    quiet: bool,
}

fn target(name: &str) -> Result<TensorType, String> {
    let mut types = Quantizer::TYPES.iter();
    let found = types.find(|known| known.name().eq_ignore_ascii_case(name));
    found.copied().ok_or_else(|| {
        let names: Vec<&str> = Quantizer::TYPES.iter().map(|known| known.name()).collect();
        format!("it should be one of {}", names.join(", "))
    })
}

fn tensor_target(text: &str) -> Result<(String, TensorType), String> {
    let (name, kind) = text.rsplit_once('=').ok_or("it should be NAME=TYPE")?;
    Ok((name.to_owned(), target(kind)?))
}

pub fn run(arguments: &QuantizeArguments) -> Result<(), Box<dyn Error>> {
    let mut quantizer = Quantizer::new(arguments.target)?.overwrite(arguments.force);
    if arguments.threads > 0 {
        quantizer = quantizer.threads(arguments.threads);
    }
    for (name, kind) in &arguments.tensors {
        quantizer = quantizer.tensor(name, *kind)?;
    }
    let model = ModelFile::open(&arguments.model)?;
    let interrupted = catch_signals()?;
    quantizer = quantizer.cancel(CancelToken::from(interrupted.flag.clone()));
    let bar = match arguments.quiet || arguments.json {
        true => indicatif::ProgressBar::hidden(),
        false => progress(0, "{bar:40} {bytes}/{total_bytes}, {eta} left"),
    };
    let report = quantizer.write(&model, &arguments.out, &mut |done| {
        bar.set_length(done.total);
        bar.set_position(done.done);
    });
    bar.finish_and_clear();
    if let Err(LlamaError::Quantize(QuantizeError::Cancelled(_))) = report {
        // As the shell expects of a program that a signal has ended; it returns only if the signal has no such default.
        low_level::emulate_default_handler(interrupted.signal.load(Ordering::SeqCst) as i32)?;
    }
    let report = report?;
    if arguments.json {
        writeln!(output::stdout(), "{}", describe(&report))?;
    } else if !arguments.quiet {
        say(format_args!(
            "{}: {} tensors, {} became {}",
            arguments.out.display(),
            report.tensors.len(),
            bytes(report.bytes_before),
            bytes(report.bytes_after)
        ));
    }
    Ok(())
}

/// Which signal came.
struct Interrupted {
    flag: Arc<AtomicBool>,
    signal: Arc<AtomicUsize>,
}

/// The first signal ends the writing, which takes its partial file away; a second one ends the process at once.
fn catch_signals() -> io::Result<Interrupted> {
    let interrupted = Interrupted {
        flag: Arc::default(),
        signal: Arc::default(),
    };
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        flag::register_conditional_default(signal, interrupted.flag.clone())?;
        flag::register_usize(signal, interrupted.signal.clone(), signal as usize)?;
        flag::register(signal, interrupted.flag.clone())?;
    }
    Ok(interrupted)
}

fn describe(report: &QuantizeReport) -> Json {
    let tensor =
        |(name, kind): &(String, _)| json!({ "name": name, "type": TensorType::name(*kind) });
    json!({
        "tensors": report.tensors.iter().map(tensor).collect::<Vec<_>>(),
        "bytes_before": report.bytes_before,
        "bytes_after": report.bytes_after,
    })
}
