//! `ironbridge finetune`

use std::error::Error;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use indicatif::ProgressBar;
use ironbridge::Device;
use ironbridge::finetune::{
    Evaluation, Finetune, FinetuneError, FinetuneOptions, FinetunePlan, FinetuneStep, LoraTarget,
    TrainingText,
};
use ironbridge::llama::ModelFile;
use ironbridge::train::{TrainError, TrainMemory};
use serde_json::json;

use crate::input::read_text;
use crate::interrupt::Interrupted;
use crate::output;
use crate::terminal::{bytes, progress, say};

#[derive(Args)]
pub struct FinetuneArguments {
    /// A GGUF file of any type of weights, or a folder with config.json and .safetensors files
    #[arg(short, long, value_name = "FILE")]
    model: PathBuf,
    /// The text; of a .jsonl file each line is a document: an object whose "text" it is
    #[arg(short, long, value_name = "FILE")]
    file: PathBuf,
    /// The adapter to write, a GGUF file as llama.cpp reads it
    #[arg(short, long, value_name = "FILE")]
    out: PathBuf,
    /// What the two matrices of each change have in common
    #[arg(long, default_value_t = 8, value_name = "N")]
    lora_rank: usize,
    /// Changes are multiplied by this over the rank [default: twice the rank]
    #[arg(long, value_name = "X")]
    lora_alpha: Option<f32>,
    /// The matrices of each layer that are changed [default: attn_q,attn_k,attn_v,attn_output,ffn_gate,ffn_up,ffn_down]
    #[arg(long, value_delimiter = ',', value_parser = target, value_name = "NAME,…")]
    lora_targets: Vec<LoraTarget>,
    /// The longest piece of a document, in tokens
    #[arg(long, default_value_t = 256, value_name = "N")]
    sequence: usize,
    /// A step learns from as many tokens as this many sequences have
    #[arg(long, default_value_t = 2, value_name = "N")]
    batch: usize,
    /// Steps in all [default: as many as go through the text three times]
    #[arg(long, value_name = "N")]
    steps: Option<u64>,
    /// The highest learning rate
    #[arg(long, default_value_t = 5e-4, value_name = "X")]
    learning_rate: f32,
    /// Steps in which the rate rises to it; then it falls to a tenth by half a cosine [default: a twentieth of all]
    #[arg(long, value_name = "N")]
    warmup: Option<u64>,
    /// AdamW's weight decay
    #[arg(long, default_value_t = 0.0, value_name = "X")]
    weight_decay: f32,
    /// The norm that gradients are scaled down to; 0: they are as they are
    #[arg(long, default_value_t = 1.0, value_name = "X")]
    clip_norm: f32,
    /// Of the first weights and of the order of documents
    #[arg(long, default_value_t = 0, value_name = "N")]
    seed: u64,
    /// The share of the text, its end, that is not learned but predicted, in percent
    #[arg(long, default_value_t = 10.0, value_name = "PERCENT")]
    hold_out: f32,
    /// Steps between two evaluations on that; one is made before the first step and one after the last
    #[arg(long, default_value_t = 100, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    evaluate_every: u64,
    /// Where the state of the run is saved [default: OUT with .checkpoint.safetensors]
    #[arg(long, value_name = "FILE")]
    checkpoint: Option<PathBuf>,
    /// Steps between two checkpoints; one is made when a signal stops the run, and one after the last step
    #[arg(long, default_value_t = 100, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    checkpoint_every: u64,
    /// Go on where the checkpoint ends
    #[arg(long)]
    resume: bool,
    /// Turn the weights into F32 first: more memory, and products are exact
    #[arg(long)]
    dequantize: bool,
    /// Compute each layer again in the backward pass: much less memory for a third more work, and the same numbers
    #[arg(long)]
    recompute: bool,
    /// Replace OUT and the checkpoint if they are there
    #[arg(long)]
    force: bool,
    /// Device: default, metal, cpu, or an index of `ironbridge devices`
    #[arg(long, default_value = "default")]
    device: String,
    /// Threads of the software device; without it, what IRONBRIDGE_THREADS says, or one for each processor
    #[arg(short, long, value_name = "T", value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: Option<u32>,
    /// Write each step and each evaluation as a JSON object, a line each
    #[arg(long)]
    json: bool,
    /// Write errors and nothing else
    #[arg(short, long)]
    quiet: bool,
}

fn target(name: &str) -> Result<LoraTarget, String> {
    LoraTarget::from_name(name).ok_or_else(|| {
        let names = LoraTarget::ALL.map(LoraTarget::name);
        format!("it should be one of {}", names.join(", "))
    })
}

impl FinetuneArguments {
    fn options(&self) -> FinetuneOptions {
        FinetuneOptions {
            rank: self.lora_rank,
            alpha: self.lora_alpha,
            targets: match self.lora_targets.is_empty() {
                true => LoraTarget::ALL.to_vec(),
                false => self.lora_targets.clone(),
            },
            sequence: self.sequence,
            batch: self.batch,
            steps: self.steps,
            learning_rate: self.learning_rate,
            warmup: self.warmup,
            weight_decay: self.weight_decay,
            clip_norm: (self.clip_norm != 0.0).then_some(self.clip_norm),
            seed: self.seed,
            hold_out: self.hold_out / 100.0,
            dequantize: self.dequantize,
            recompute: self.recompute,
        }
    }

    fn text(&self) -> Result<TrainingText, Box<dyn Error>> {
        let text = read_text(Some(&self.file))?;
        let lines = self.file.extension().is_some_and(|end| end == "jsonl");
        let text = match lines {
            true => TrainingText::from_json_lines(&text),
            false => TrainingText::from_plain(&text),
        };
        text.map_err(|error| format!("{}: {error}", self.file.display()).into())
    }

    fn checkpoint(&self) -> PathBuf {
        let beside = || self.out.with_extension("checkpoint.safetensors");
        self.checkpoint.clone().unwrap_or_else(beside)
    }

    /// Nobody wants to hear at the end of a long run that there is no place for what it made.
    fn check_places(&self, checkpoint: &Path) -> Result<(), Box<dyn Error>> {
        if !self.force && self.out.exists() {
            return Err(FinetuneError::Exists(self.out.clone()).into());
        }
        if !self.force && !self.resume && checkpoint.exists() {
            let name = checkpoint.display();
            let text = format!(
                "{name} is there already; --resume goes on where it ends, --force replaces it"
            );
            return Err(text.into());
        }
        Ok(())
    }
}

pub fn run(arguments: &FinetuneArguments) -> Result<(), Box<dyn Error>> {
    let checkpoint = arguments.checkpoint();
    arguments.check_places(&checkpoint)?;
    let text = arguments.text()?;
    let file = ModelFile::open(&arguments.model)?;
    let plan = FinetunePlan::new(&file, &text, arguments.options())?;
    let mut report = Report::new(arguments, plan.steps());
    report.plan(&plan)?;
    let device = Device::open(&arguments.device)?;
    if let Some(threads) = arguments.threads {
        device.set_compute_threads(threads)?;
    }
    let interrupted = Interrupted::by_signals()?;
    let loading = report.loading();
    let run = plan.start(&device, &mut |loaded| {
        loading.set_length(loaded.total);
        loading.set_position(loaded.done);
    });
    loading.finish_and_clear();
    let mut run = run?;
    if arguments.resume {
        run.restore(&checkpoint)?;
    }
    report.begin(&run);
    let learned = learn(&mut run, arguments, &checkpoint, &mut report, &interrupted);
    report.bar.finish_and_clear();
    match learned? {
        End::Interrupted => {
            report.remark(format_args!(
                "stopped after step {} of {}; --resume goes on from {}",
                run.steps(),
                run.all_steps(),
                checkpoint.display()
            ));
            interrupted.end()?;
        }
        End::Done => {
            run.write_adapter(&arguments.out, arguments.force)?;
            report.end(&arguments.out)?;
        }
    }
    Ok(())
}

enum End {
    Done,
    Interrupted,
}

fn learn(
    run: &mut Finetune,
    arguments: &FinetuneArguments,
    checkpoint: &Path,
    report: &mut Report,
    interrupted: &Interrupted,
) -> Result<End, Box<dyn Error>> {
    let mut saved = arguments.resume.then(|| run.steps());
    if run.steps() < run.all_steps() {
        evaluate(run, report)?;
    }
    while run.steps() < run.all_steps() {
        let step = match run.step() {
            Ok(step) => step,
            Err(FinetuneError::Train(
                error @ (TrainError::NotFinite { .. } | TrainError::GradientNotFinite { .. }),
            )) => return Err(last_good(&error, checkpoint, saved).into()),
            Err(error) => return Err(error.into()),
        };
        report.step(&step, run.all_steps())?;
        let is_last = step.step >= run.all_steps();
        if is_last || step.step.is_multiple_of(arguments.evaluate_every) {
            evaluate(run, report)?;
        }
        let is_over = is_last || interrupted.is_set();
        if is_over || step.step.is_multiple_of(arguments.checkpoint_every) {
            run.save(checkpoint)?;
            saved = Some(step.step);
        }
        if interrupted.is_set() && !is_last {
            return Ok(End::Interrupted);
        }
    }
    Ok(End::Done)
}

/// The error, and what there is to go on from.
fn last_good(error: &TrainError, checkpoint: &Path, saved: Option<u64>) -> String {
    match saved {
        None => {
            format!("{error}; there is no checkpoint yet, and a lower --learning-rate may help")
        }
        Some(step) => format!(
            "{error}; the last good checkpoint is {} of step {step}, and a lower --learning-rate may help",
            checkpoint.display()
        ),
    }
}

fn evaluate(run: &mut Finetune, report: &mut Report) -> Result<(), Box<dyn Error>> {
    match run.evaluate() {
        Ok(found) => Ok(report.evaluation(run.steps(), &found)?),
        Err(FinetuneError::NothingHeldOut) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// What a person or a program hears of a run.
struct Report {
    bar: ProgressBar,
    json: bool,
    quiet: bool,
    /// Where there is no bar, a line at every such number of steps.
    lines_every: Option<u64>,
    start: Instant,
    tokens: usize,
    done: u64,
    perplexities: Vec<f64>,
}

impl Report {
    fn new(arguments: &FinetuneArguments, steps: u64) -> Report {
        let shown = !arguments.quiet && !arguments.json;
        let is_terminal = io::stderr().is_terminal();
        Report {
            bar: match shown {
                true => progress(steps, "{bar:30} {pos}/{len} steps, {msg}"),
                false => ProgressBar::hidden(),
            },
            json: arguments.json,
            quiet: !shown,
            lines_every: (shown && !is_terminal).then(|| steps.div_ceil(20).max(1)),
            start: Instant::now(),
            tokens: 0,
            done: 0,
            perplexities: Vec::new(),
        }
    }

    fn remark(&self, remark: std::fmt::Arguments) {
        if !self.quiet {
            self.bar.suspend(|| say(remark));
        }
    }

    fn line(&self, line: &serde_json::Value) -> io::Result<()> {
        match self.json {
            true => writeln!(output::stdout(), "{line}"),
            false => Ok(()),
        }
    }

    fn plan(&self, plan: &FinetunePlan) -> io::Result<()> {
        let memory = plan.memory();
        let TrainMemory {
            frozen,
            activations,
            ..
        } = memory;
        self.remark(format_args!(
            "{} tokens to learn and {} held out, {} steps; {} numbers learn",
            plan.learned_tokens(),
            plan.held_out_tokens(),
            plan.steps(),
            plan.parameters(),
        ));
        self.remark(format_args!(
            "{} of memory: {} of weights, {} of activations and gradients, {} else",
            bytes(memory.total()),
            bytes(frozen),
            bytes(activations),
            bytes(memory.total() - frozen - activations),
        ));
        self.line(&json!({
            "tokens": plan.learned_tokens(),
            "held_out_tokens": plan.held_out_tokens(),
            "steps": plan.steps(),
            "parameters": plan.parameters(),
            "memory_bytes": memory.total(),
        }))
    }

    fn loading(&self) -> ProgressBar {
        match self.quiet {
            true => ProgressBar::hidden(),
            false => progress(0, "loading {bar:40} {bytes}/{total_bytes}"),
        }
    }

    fn begin(&mut self, run: &Finetune) {
        self.bar.set_position(run.steps());
        self.start = Instant::now();
    }

    fn step(&mut self, step: &FinetuneStep, all: u64) -> io::Result<()> {
        self.done += 1;
        self.tokens += step.tokens;
        let elapsed = self.start.elapsed();
        let rate = self.tokens as f64 / elapsed.as_secs_f64().max(1e-9);
        let left = elapsed.mul_f64((all.saturating_sub(step.step)) as f64 / self.done as f64);
        let text = format!(
            "loss {:.4}, {rate:.0} tokens/s, {} left",
            step.loss,
            duration(left)
        );
        self.bar.set_position(step.step);
        self.bar.set_message(text.clone());
        if self
            .lines_every
            .is_some_and(|every| step.step.is_multiple_of(every))
        {
            self.remark(format_args!("step {} of {all}: {text}", step.step));
        }
        self.line(&json!({
            "step": step.step,
            "loss": step.loss,
            "learning_rate": step.learning_rate,
            "gradient_norm": step.gradient_norm,
            "tokens": step.tokens,
            "tokens_per_second": rate,
            "seconds_left": left.as_secs_f64(),
        }))
    }

    fn evaluation(&mut self, step: u64, found: &Evaluation) -> io::Result<()> {
        self.perplexities.push(found.perplexity());
        self.remark(format_args!(
            "after step {step}: perplexity {:.3} of {} held-out tokens",
            found.perplexity(),
            found.tokens
        ));
        self.line(&json!({
            "evaluated_after_step": step,
            "perplexity": found.perplexity(),
            "held_out_tokens": found.tokens,
        }))
    }

    fn end(&self, out: &Path) -> io::Result<()> {
        let seconds = self.start.elapsed();
        match self.perplexities[..] {
            [first, .., last] => self.remark(format_args!(
                "{}: perplexity of the held-out part from {first:.3} to {last:.3} in {}",
                out.display(),
                duration(seconds)
            )),
            _ => self.remark(format_args!("{}: {}", out.display(), duration(seconds))),
        }
        self.line(&json!({
            "adapter": out.display().to_string(),
            "seconds": seconds.as_secs_f64(),
        }))
    }
}

/// "41 s", "2 min 5 s", "3 h 20 min".
fn duration(time: Duration) -> String {
    let seconds = time.as_secs_f64().round() as u64;
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_two_units() {
        for (seconds, expected) in [
            (0.4, "0 s"),
            (59.4, "59 s"),
            (125.0, "2 min 5 s"),
            (12_000.0, "3 h 20 min"),
        ] {
            assert_eq!(duration(Duration::from_secs_f64(seconds)), expected);
        }
    }
}
