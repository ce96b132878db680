//! `ironbridge bench`

mod bandwidth;
mod explain;

use std::error::Error;
use std::io::Write;
use std::process::Command;
use std::time::Instant;

use clap::Args;
use ironbridge::llama::{
    GenerationOptions, LlamaError, Model, ModelFile, Sampler, SamplerOptions, Sequences, Session,
    Writer,
};
use serde_json::{Value, json};

use crate::model_options::ModelOptions;
use crate::output;
use crate::terminal::say;

#[derive(Args)]
pub struct BenchArguments {
    #[command(flatten)]
    model: ModelOptions,
    /// Lengths of prompts to measure
    #[arg(short, long, value_delimiter = ',', default_value = "15,128,512")]
    #[arg(value_name = "N,…", value_parser = positive)]
    prompt: Vec<usize>,
    /// Tokens to write one by one, the likeliest each time
    #[arg(short = 'n', long = "tokens", default_value_t = 64, value_name = "N", value_parser = positive)]
    tokens: usize,
    /// Tokens that stand before those that are written
    #[arg(long, default_value_t = 15, value_name = "N", value_parser = positive)]
    behind: usize,
    /// Also measure this many texts that are written together, a token of each in every pass
    #[arg(short, long, value_name = "N", value_parser = positive)]
    sequences: Option<usize>,
    /// Numbers of threads of the software device to measure with; without it, what IRONBRIDGE_THREADS says
    #[arg(short, long, value_delimiter = ',', value_name = "N,…", value_parser = positive)]
    threads: Vec<usize>,
    /// Times to measure each; the median counts
    #[arg(short, long, default_value_t = 5, value_name = "N", value_parser = positive)]
    rounds: usize,
    /// Count what the kernels of a token ask memory for, instead of measuring, beside the limits of Apple's GPUs: a
    /// model, not a measurement
    #[arg(long, conflicts_with_all = ["prompt", "tokens", "sequences", "threads", "rounds", "device"])]
    explain: bool,
    /// Write one JSON object
    #[arg(long)]
    json: bool,
    /// Write a table in Markdown
    #[arg(long, conflicts_with = "json")]
    markdown: bool,
    /// Measure in this process, with the threads that it has
    #[arg(long, hide = true)]
    here: bool,
}

fn positive(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err("a whole number above 0 is needed".to_owned()),
        Ok(number) => Ok(number),
    }
}

pub fn run(arguments: &BenchArguments) -> Result<(), Box<dyn Error>> {
    let mut out = output::stdout();
    if arguments.explain {
        return explain::run(arguments, &mut out);
    }
    if arguments.here {
        writeln!(out, "{}", measure(arguments)?)?;
        return Ok(());
    }
    // What is wrong with the file is told once, and before anything is measured.
    ModelFile::open(&arguments.model.model)?;
    let mut runs = Vec::new();
    match arguments.threads.is_empty() {
        true => runs.push(measure(arguments)?),
        false => {
            for threads in &arguments.threads {
                runs.push(measure_with(*threads)?);
            }
        }
    }
    if arguments.json {
        writeln!(
            out,
            "{}",
            json!({ "model": arguments.model.name(), "runs": runs })
        )?;
        return Ok(());
    }
    if arguments.markdown {
        write_table(&mut out, &arguments.model.name(), &runs)?;
        return Ok(());
    }
    for run in &runs {
        write(&mut out, run)?;
    }
    Ok(())
}

/// The threads are the process's: another one measures with that many.
fn measure_with(threads: usize) -> Result<Value, Box<dyn Error>> {
    let output = Command::new(std::env::current_exe()?)
        .args(std::env::args_os().skip(1))
        .arg("--here")
        .env("IRONBRIDGE_THREADS", threads.to_string())
        .output()?;
    let remarks = String::from_utf8_lossy(&output.stderr);
    let remarks = remarks.trim_end();
    if !output.status.success() {
        // It has said in one line what is wrong, unless it had no time to.
        let reason = remarks.strip_prefix("ironbridge: ");
        return Err(match reason {
            Some(reason) => format!("with {threads} threads: {reason}"),
            None => format!(
                "the measurement with {threads} threads ended with {}",
                output.status
            ),
        }
        .into());
    }
    if !remarks.is_empty() {
        say(format_args!("{remarks}"));
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn measure(arguments: &BenchArguments) -> Result<Value, Box<dyn Error>> {
    let start = Instant::now();
    let model = arguments.model.load(true)?;
    let load = start.elapsed().as_secs_f64();
    let start = Instant::now();
    model.settle();
    let settle = start.elapsed().as_secs_f64();
    let mut session = Session::new(&model, arguments.model.session_options())?;
    let longest = arguments.prompt.iter().copied().max().unwrap_or(0);
    let needed = longest.max(arguments.behind + arguments.tokens);
    if needed > session.context() {
        let (tokens, context) = (needed, session.context());
        return Err(LlamaError::ContextFull { tokens, context }.into());
    }
    let threads = std::env::var("IRONBRIDGE_THREADS").ok();
    let threads = threads.and_then(|threads| threads.trim().parse().ok());
    let threads = threads
        .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, |count| count.get()));
    let bandwidth = bandwidth::measure(threads)?;

    let mut prompts = Vec::new();
    for length in &arguments.prompt {
        let rates = rates(arguments.rounds, *length, || {
            session.rewind(0);
            Ok(read_text(&mut session, &tokens(&model, *length))?)
        })?;
        prompts.push(json!({ "tokens": length, "rate": middle(&rates), "rates": rates }));
    }
    let mut idle = Vec::new();
    let rates = rates(arguments.rounds, arguments.tokens, || {
        session.rewind(0);
        read_text(&mut session, &tokens(&model, arguments.behind))?;
        let worked = model.device().info()?.worked;
        let seconds = write_text(&mut session, arguments.tokens)?;
        let worked = model.device().info()?.worked - worked;
        idle.push((seconds - worked.as_secs_f64()).max(0.0) / arguments.tokens as f64);
        Ok(seconds)
    })?;
    let idle = &idle[1..]; // as `rates`
    let bytes = bytes_for_a_token(&ModelFile::open(&arguments.model.model)?);
    drop(session);
    let together = match arguments.sequences {
        None => Value::Null,
        Some(count) => measure_together(&model, arguments, count)?,
    };
    Ok(json!({
        "device": model.device().info()?.name,
        "threads": threads,
        "load_seconds": load,
        "settle_seconds": settle,
        "read_bandwidth": bandwidth,
        "prompts": prompts,
        "generation": {
            "tokens": arguments.tokens,
            "rate": middle(&rates),
            "rates": rates,
            "bytes_for_a_token": bytes,
            "fraction_of_bandwidth": middle(&rates) * bytes as f64 / bandwidth,
            "idle_seconds": middle(idle),
        },
        "together": together,
    }))
}

/// Texts of [`Sequences`]: the tokens of all of them in a second.
fn measure_together(
    model: &Model,
    arguments: &BenchArguments,
    count: usize,
) -> Result<Value, Box<dyn Error>> {
    let mut options = arguments.model.session_options();
    let needed = arguments.behind + arguments.tokens;
    options.context = Some(options.context.unwrap_or(needed));
    let mut sequences = Sequences::new(model, count, options)?;
    let mut idle = Vec::new();
    let rates = rates(arguments.rounds, count * arguments.tokens, || {
        let (seconds, worked) = write_together(&mut sequences, arguments)?;
        idle.push((seconds - worked).max(0.0) / arguments.tokens as f64);
        Ok(seconds)
    })?;
    let idle = &idle[1..]; // as `rates`
    Ok(json!({
        "sequences": count,
        "tokens": arguments.tokens,
        "rate": middle(&rates),
        "rates": rates,
        "idle_seconds": middle(idle),
    }))
}

/// The seconds that writing the tokens of each text takes, behind those that they begin with, and how many of them the
/// device worked.
fn write_together(
    sequences: &mut Sequences,
    arguments: &BenchArguments,
) -> ironbridge::Result<(f64, f64)> {
    let begins: Vec<Vec<u32>> = (0..sequences.count())
        .map(|text| {
            let vocabulary = sequences.model().config().vocabulary;
            let token = |i| ((7 * i + text) % vocabulary) as u32;
            (0..arguments.behind).map(token).collect()
        })
        .collect();
    let writer = |begin: &Vec<u32>| {
        let greedy = Sampler::new(SamplerOptions::default())?;
        let options = GenerationOptions::default();
        Ok(Writer::new(sequences.model(), begin, greedy, options))
    };
    let mut writers: Vec<Writer> = begins
        .iter()
        .map(writer)
        .collect::<ironbridge::Result<_>>()?;
    for index in 0..sequences.count() {
        sequences.rewind(index, 0);
    }
    let work: Vec<(usize, &[u32])> = begins.iter().map(Vec::as_slice).enumerate().collect();
    sequences.feed(&work)?;
    let worked = sequences.model().device().info()?.worked;
    let start = Instant::now();
    for _ in 0..arguments.tokens {
        let mut picked = Vec::with_capacity(writers.len());
        for (index, writer) in writers.iter_mut().enumerate() {
            picked.push([writer.write(&sequences.logits(index)?)?.token]);
        }
        let work: Vec<(usize, &[u32])> = picked.iter().map(|it| &it[..]).enumerate().collect();
        sequences.feed(&work)?;
    }
    let seconds = start.elapsed().as_secs_f64();
    let worked = sequences.model().device().info()?.worked - worked;
    Ok((seconds, worked.as_secs_f64()))
}

/// Tokens of the vocabulary, no two neighbours the same.
fn tokens(model: &Model, count: usize) -> Vec<u32> {
    let vocabulary = model.config().vocabulary;
    (0..count).map(|i| (7 * i % vocabulary) as u32).collect()
}

/// The seconds that `tokens` take at once.
fn read_text(session: &mut Session, tokens: &[u32]) -> ironbridge::Result<f64> {
    let start = Instant::now();
    session.feed(tokens)?;
    session.logits()?;
    Ok(start.elapsed().as_secs_f64())
}

/// The seconds that writing `tokens` takes, all that users of [`Session::generate`] wait for.
fn write_text(session: &mut Session, tokens: usize) -> ironbridge::Result<f64> {
    let start = Instant::now();
    let (mut last, mut written) = (0, 0);
    // A model of made-up weights may say at any time that the text ends.
    while written < tokens {
        let greedy = Sampler::new(SamplerOptions::default())?;
        for piece in session.generate(&[last], greedy, tokens - written) {
            last = piece?.token;
            written += 1;
        }
    }
    Ok(start.elapsed().as_secs_f64())
}

/// Tokens per second, of `rounds` times after one that does not count.
fn rates(
    rounds: usize,
    tokens: usize,
    mut seconds: impl FnMut() -> Result<f64, Box<dyn Error>>,
) -> Result<Vec<f64>, Box<dyn Error>> {
    seconds()?;
    let rate = |_| Ok(tokens as f64 / seconds()?.max(1e-9));
    (0..rounds).map(rate).collect()
}

fn middle(measured: &[f64]) -> f64 {
    let mut sorted = measured.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

/// The weights that every token is multiplied with: all matrices, but the embedding, of which a token reads a row,
/// unless it is the output as well.
fn bytes_for_a_token(file: &ModelFile) -> u64 {
    let tied = file.tensor("output.weight").is_none();
    let counts = |name: &str| tied || name != "token_embd.weight";
    let tensors = file.tensors().iter();
    let counted = tensors.filter(|tensor| tensor.dimensions().len() > 1 && counts(tensor.name()));
    counted.map(|tensor| tensor.byte_length()).sum()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(f64::NAN)
}

/// The least and the most of a measurement's rates.
fn range(measured: &Value) -> (f64, f64) {
    let rates = measured["rates"]
        .as_array()
        .into_iter()
        .flatten()
        .map(number);
    let ends = (f64::INFINITY, f64::NEG_INFINITY);
    rates.fold(ends, |(least, most), rate| {
        (least.min(rate), most.max(rate))
    })
}

fn write(out: &mut impl Write, run: &Value) -> std::io::Result<()> {
    writeln!(
        out,
        "{}\n  load            {:.2} s, and {:.2} s until the weights have moved",
        run["device"].as_str().unwrap_or_default(),
        number(&run["load_seconds"]),
        number(&run["settle_seconds"]),
    )?;
    let speed = |measured: &Value| {
        let (least, most) = range(measured);
        let rate = number(&measured["rate"]);
        format!("{rate:.1} tokens/s ({least:.1} to {most:.1})")
    };
    for prompt in run["prompts"].as_array().into_iter().flatten() {
        writeln!(out, "  prompt {:<8} {}", prompt["tokens"], speed(prompt))?;
    }
    let generation = &run["generation"];
    let threads = match run["threads"].as_u64() {
        Some(1) => "1 thread reads".to_owned(),
        _ => format!("{} threads read", run["threads"]),
    };
    writeln!(
        out,
        "  generation {:<4} {}, {:.0} % of the {:.1} GB/s that {threads}",
        generation["tokens"],
        speed(generation),
        100.0 * number(&generation["fraction_of_bandwidth"]),
        number(&run["read_bandwidth"]) / 1e9,
    )?;
    writeln!(
        out,
        "  of a token      {:.1} µs while the device had nothing to do",
        1e6 * number(&generation["idle_seconds"]),
    )?;
    if let Some(together) = together(run) {
        let (texts, tokens) = (&together["sequences"], &together["tokens"]);
        writeln!(out, "  {texts} texts of {tokens}  {}", speed(together))?;
        writeln!(
            out,
            "  of a step       {:.1} µs while the device had nothing to do",
            1e6 * number(&together["idle_seconds"]),
        )?;
    }
    Ok(())
}

/// What was measured of several texts, if anything.
fn together(run: &Value) -> Option<&Value> {
    run["together"].is_object().then(|| &run["together"])
}

/// A row for each measurement: the median of its rates, the least and the most.
fn write_table(out: &mut impl Write, model: &str, runs: &[Value]) -> std::io::Result<()> {
    writeln!(
        out,
        "| model | device | threads | test | tokens/s | least | most |"
    )?;
    writeln!(out, "| --- | --- | --: | --- | --: | --: | --: |")?;
    // Names are the file's and the driver's, and may have a bar.
    let cell = |text: &str| text.replace('|', "\\|");
    for run in runs {
        let prompts = run["prompts"].as_array().into_iter().flatten();
        let prompts = prompts.map(|prompt| ("prompt".to_owned(), prompt));
        let generation = [("generation".to_owned(), &run["generation"])];
        let together = together(run).map(|it| (format!("{} texts of", it["sequences"]), it));
        for (test, measured) in prompts.chain(generation).chain(together) {
            let (least, most) = range(measured);
            writeln!(
                out,
                "| {} | {} | {} | {test} {} | {:.1} | {least:.1} | {most:.1} |",
                cell(model),
                cell(run["device"].as_str().unwrap_or_default()),
                run["threads"],
                measured["tokens"],
                number(&measured["rate"]),
            )?;
        }
    }
    Ok(())
}
