//! `ironbridge generate`

use std::error::Error;
use std::io::Write;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use ironbridge::Device;
use ironbridge::llama::tokenizer::EncodeOptions;
use ironbridge::llama::{
    Generation, GenerationOptions, GenerationStats, Model, Piece, Sampler, Session, Stop, WhenFull,
};
use ironbridge::memory::process_memory;
use serde_json::{Value as Json, json};

use crate::chat::interrupt::Interrupt;
use crate::input::{read_prompt, unescaped};
use crate::model_options::RunOptions;
use crate::output;
use crate::sampling_options::SamplingOptions;
use crate::terminal::{FAINT, STRONG, bytes, printable, say};

#[derive(Args)]
pub struct GenerateArguments {
    #[command(flatten)]
    model: RunOptions,
    /// The text to go on from
    #[arg(short, long, value_name = "TEXT")]
    prompt: Option<String>,
    /// A file with the text to go on from, without the line end at its end; without it and --prompt, or -: standard
    /// input
    #[arg(short, long, value_name = "FILE", conflicts_with = "prompt")]
    file: Option<PathBuf>,
    /// Read \n, \r, \t, \\, \", \' and \x41 in the text as what they stand for
    #[arg(short, long)]
    escape: bool,
    /// Read the names of control tokens, such as <|im_start|>, in the text as those tokens
    #[arg(long)]
    parse_special: bool,
    /// Tokens to write at most; -1: until the text ends or the context is full
    #[arg(
        short = 'n',
        long = "tokens",
        default_value = "128",
        value_name = "N",
        value_parser = token_limit,
        allow_negative_numbers = true
    )]
    tokens: usize,
    /// End before this text; can be given again
    #[arg(long = "stop", value_name = "TEXT")]
    stop_strings: Vec<String>,
    /// When the context is full, forget the older half of the text behind its first N tokens and go on
    #[arg(long, value_name = "N")]
    forget: Option<usize>,
    /// With --json: each token's log-probability and those of this many likeliest
    #[arg(long, value_name = "N", requires = "json")]
    log_probabilities: Option<usize>,
    /// Write JSON and nothing else: an object at the end, or with =lines one on each line while the text is written
    #[arg(
        long,
        value_enum,
        value_name = "FORM",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "whole"
    )]
    json: Option<JsonForm>,
    /// Write the text and nothing else
    #[arg(short, long)]
    quiet: bool,
    #[command(flatten)]
    sampling: SamplingOptions,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum JsonForm {
    /// One object at the end: the text, its tokens, why it ended, and the figures
    Whole,
    /// An object for each token when it is written, then one with "stop" and the figures
    Lines,
}

/// How many tokens are written at most, as the argument says it.
pub fn token_limit(text: &str) -> Result<usize, String> {
    match text {
        "-1" => Ok(usize::MAX),
        number => number
            .parse()
            .map_err(|_| "it should be a number, or -1 for no limit".to_owned()),
    }
}

pub fn run(arguments: &GenerateArguments) -> Result<(), Box<dyn Error>> {
    // What needs no model is checked before one is loaded.
    let sampling = arguments.sampling.sampler_options(0.0);
    let sampler = Sampler::new(sampling)?;
    let text = match (&arguments.prompt, &arguments.file) {
        (Some(prompt), _) => prompt.clone(),
        (None, file) => read_prompt(file.as_deref())?,
    };
    let text = match arguments.escape {
        true => unescaped(&text),
        false => text,
    };
    let model = arguments
        .model
        .load(arguments.quiet || arguments.json.is_some())?;
    model.device().set_memory_baseline()?;
    let mut session = Session::new(&model, arguments.model.session_options())?;

    let encoding = EncodeOptions {
        add_special: true,
        parse_special: arguments.parse_special,
    };
    let prompt = model.tokenizer().encode_with(&text, encoding);
    // The last token written needs no room; a prompt that has none is the session's error to tell.
    let room = match arguments.forget {
        Some(_) => usize::MAX,
        None => (session.context() + 1).saturating_sub(prompt.len()).max(1),
    };
    let limit = arguments.tokens.min(room);
    // What was written, and the figures, are there when it is stopped, too.
    let interrupt = Interrupt::install()?;
    let interrupted = interrupt.catch();
    let options = GenerationOptions {
        limit: Some(limit),
        stop_strings: arguments.stop_strings.clone(),
        log_probabilities: arguments.log_probabilities,
        when_full: match arguments.forget {
            Some(keep) => WhenFull::Forget { keep },
            None => WhenFull::Fail,
        },
        cancel: interrupted.token().clone(),
        ..Default::default()
    };
    let mut generation = session.generate_with(&prompt, sampler, options);
    if let Some(form) = arguments.json {
        let mut json = write_pieces(&model, &text, &mut generation, form)?;
        // What has changed there since the baseline is what the session took.
        json["seed"] = sampling.seed.into();
        json["memory"] = serde_json::from_str(&model.device().memory()?.to_json())?;
        writeln!(output::stdout(), "{json}")?;
        return Ok(());
    }

    let mut out = output::styled();
    write!(out, "{STRONG}{}{STRONG:#}", printable(&text))?;
    out.flush()?;
    for piece in generation.by_ref() {
        let piece = match piece {
            Ok(piece) => piece,
            Err(error) => {
                // What is said of it gets a line of its own.
                writeln!(out)?;
                return Err(error.into());
            }
        };
        write!(out, "{}", printable(&piece.text))?;
        out.flush()?;
    }
    writeln!(out)?;

    let (stats, stop) = (generation.stats(), generation.stop());
    if !arguments.quiet {
        if stop == Some(Stop::Limit) && limit < arguments.tokens {
            say(format_args!(
                "\nstopped: the context of {} positions is full",
                session.context()
            ));
        }
        if stop == Some(Stop::Cancelled) {
            say(format_args!("\nstopped: interrupted"));
        }
        let seed = (sampling.temperature > 0.0).then_some(sampling.seed);
        summarise(model.device(), &stats, seed)?;
    }
    Ok(())
}

/// Generates, and writes the pieces one by one where the form wants it so; the last object to write.
fn write_pieces(
    model: &Model,
    prompt: &str,
    generation: &mut Generation,
    form: JsonForm,
) -> Result<Json, Box<dyn Error>> {
    let mut out = output::stdout();
    let (mut text, mut tokens) = (String::new(), Vec::new());
    for piece in generation.by_ref() {
        let piece = piece?;
        let json = describe(model, &piece);
        match form {
            JsonForm::Lines => writeln!(out, "{json}")?,
            JsonForm::Whole => {
                text.push_str(&piece.text);
                tokens.push(json);
            }
        }
    }
    let stats = generation.stats();
    let mut json = match form {
        JsonForm::Lines => json!({}),
        JsonForm::Whole => json!({ "prompt": prompt, "text": text, "tokens": tokens }),
    };
    json["stop"] = generation.stop().map(stop_name).into();
    json["prompt_tokens"] = stats.prompt_tokens.into();
    json["prompt_tokens_per_second"] = stats.prompt_rate().into();
    json["generated_tokens"] = stats.generated_tokens.into();
    json["generated_tokens_per_second"] = stats.generation_rate().into();
    Ok(json)
}

fn describe(model: &Model, piece: &Piece) -> Json {
    let piece_of = |token: u32| {
        let piece = model.tokenizer().piece(token);
        piece.map(|(bytes, _)| String::from_utf8_lossy(bytes).into_owned())
    };
    let mut json = json!({ "id": piece.token, "text": piece.text });
    if let Some(scores) = &piece.log_probabilities {
        json["log_probability"] = scores.picked.into();
        let likeliest = scores.likeliest.iter().map(|(token, score)| {
            json!({ "id": token, "piece": piece_of(*token), "log_probability": score })
        });
        json["likeliest"] = likeliest.collect();
    }
    json
}

/// What JSON calls it.
pub fn stop_name(stop: Stop) -> &'static str {
    match stop {
        Stop::EndOfText => "end_of_text",
        Stop::Limit => "limit",
        Stop::StopString => "stop_string",
        Stop::Cancelled => "cancelled",
        _ => "failed",
    }
}

/// `seed` where it mattered.
fn summarise(
    device: &Device,
    stats: &GenerationStats,
    seed: Option<u64>,
) -> Result<(), Box<dyn Error>> {
    let memory = device.memory()?;
    let seed = seed.map_or(String::new(), |seed| format!("\nseed       {seed}"));
    // Nothing is asked of the model where nothing is to be written.
    let prompt = match stats.prompt_time.is_zero() {
        true => format!("{} tokens, nothing computed", stats.prompt_tokens),
        false => format!(
            "{} tokens, {:.1} tokens/s",
            stats.prompt_tokens,
            stats.prompt_rate()
        ),
    };
    say(format_args!(
        "{FAINT}\nprompt     {prompt}\ngenerated  {} tokens, {:.1} tokens/s\nmemory     {} peak device memory, {} resident\ndevice     {}{seed}{FAINT:#}",
        stats.generated_tokens,
        stats.generation_rate(),
        bytes(memory.peak_bytes),
        bytes(process_memory()?.resident_bytes),
        device.info()?.name,
    ));
    Ok(())
}
