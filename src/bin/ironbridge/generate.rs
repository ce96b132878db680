//! `ironbridge generate`

use std::error::Error;
use std::io::{Write, stdout};
use std::path::PathBuf;

use clap::Args;
use ironbridge::Device;
use ironbridge::llama::{
    GenerationStats, LoadOptions, Model, ModelFile, Sampler, SamplerOptions, Session,
    SessionOptions, Stop,
};
use ironbridge::memory::process_memory;

use crate::terminal::{bytes, progress};

#[derive(Args)]
pub struct GenerateArguments {
    /// A GGUF file of the llama architecture
    #[arg(short, long, value_name = "FILE")]
    model: PathBuf,
    /// The text to go on from
    #[arg(short, long, value_name = "TEXT")]
    prompt: String,
    /// Tokens to write at most
    #[arg(short = 'n', long = "tokens", default_value_t = 128, value_name = "N")]
    tokens: usize,
    /// Temperature; 0 always takes the likeliest token
    #[arg(
        long = "temp",
        default_value_t = 0.0,
        value_name = "T",
        allow_negative_numbers = true
    )]
    temperature: f32,
    /// Draw from the so many likeliest tokens only; 0: all
    #[arg(long, default_value_t = 40, value_name = "K")]
    top_k: u32,
    /// Draw from the fewest tokens whose probabilities reach this
    #[arg(
        long,
        default_value_t = 0.95,
        value_name = "P",
        allow_negative_numbers = true
    )]
    top_p: f32,
    /// The same seed gives the same text
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Positions to make room for; 0: what the model was trained on, up to 4096
    #[arg(long, default_value_t = 0, value_name = "N")]
    context: usize,
    /// Device: default, metal, cpu, or an index of `ironbridge devices`
    #[arg(long, default_value = "default")]
    device: String,
    /// Write the text and nothing else
    #[arg(short, long)]
    quiet: bool,
}

pub fn run(arguments: &GenerateArguments) -> Result<(), Box<dyn Error>> {
    // What needs no model is checked before one is loaded.
    let sampler = Sampler::new(SamplerOptions {
        temperature: arguments.temperature,
        top_k: arguments.top_k,
        top_p: arguments.top_p,
        seed: arguments.seed,
        ..Default::default()
    })?;
    let device = Device::open(&arguments.device)?;
    let model = load(&device, arguments)?;
    let mut session = Session::new(
        &model,
        SessionOptions {
            context: arguments.context,
            ..Default::default()
        },
    )?;

    let prompt = model.encode_prompt(&arguments.prompt);
    // The last token written needs no room; a prompt that has none is the session's error to tell.
    let room = (session.context() + 1).saturating_sub(prompt.len()).max(1);
    let limit = arguments.tokens.min(room);
    let mut out = stdout().lock();
    write!(out, "{}", arguments.prompt)?;
    out.flush()?;
    let mut generation = session.generate(&prompt, sampler, limit);
    for piece in generation.by_ref() {
        write!(out, "{}", piece?.text)?;
        out.flush()?;
    }
    writeln!(out)?;

    let (stats, stop) = (generation.stats(), generation.stop());
    if !arguments.quiet {
        if stop == Some(Stop::Limit) && limit < arguments.tokens {
            eprintln!(
                "\nstopped: the context of {} positions is full",
                session.context()
            );
        }
        summarise(&device, &stats)?;
    }
    Ok(())
}

fn load(device: &Device, arguments: &GenerateArguments) -> Result<Model, Box<dyn Error>> {
    let file = ModelFile::open(&arguments.model)?;
    let name = arguments
        .model
        .file_name()
        .unwrap_or_default()
        .to_string_lossy();
    let bar = match arguments.quiet {
        true => indicatif::ProgressBar::hidden(),
        false => progress(0, "{msg} {bar:40} {bytes}/{total_bytes}")
            .with_message(format!("loading {name}")),
    };
    let model = Model::load(device, &file, LoadOptions::default(), &mut |loaded| {
        bar.set_length(loaded.total);
        bar.set_position(loaded.done);
    });
    bar.finish_and_clear();
    Ok(model?)
}

fn summarise(device: &Device, stats: &GenerationStats) -> Result<(), Box<dyn Error>> {
    let memory = device.memory()?;
    eprintln!(
        "\nprompt     {} tokens, {:.1} tokens/s\ngenerated  {} tokens, {:.1} tokens/s\nmemory     {} peak device memory, {} resident\ndevice     {}",
        stats.prompt_tokens,
        stats.prompt_rate(),
        stats.generated_tokens,
        stats.generation_rate(),
        bytes(memory.peak_bytes),
        bytes(process_memory()?.resident_bytes),
        device.info()?.name,
    );
    Ok(())
}
