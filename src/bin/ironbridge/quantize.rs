//! `ironbridge quantize`

use std::error::Error;
use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use ironbridge::llama::gguf::TensorType;
use ironbridge::llama::{
    CancelToken, ImportanceMatrix, LlamaError, ModelFile, ModelTensor, QuantizeError, QuantizeMix,
    QuantizeReport, Quantizer,
};
use serde_json::{Value as Json, json};

use crate::interrupt::Interrupted;
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
    /// Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q2_K to Q6_K, IQ4_NL, IQ4_XS, MXFP4, F16, BF16 or F32, for matrices; the output is
    /// at least Q6_K. Or a mix of llama.cpp's: Q3_K_S, Q3_K_M, Q3_K_L, Q4_K_S, Q4_K_M, Q5_K_S, Q5_K_M
    #[arg(value_name = "TYPE", value_parser = target)]
    target: Target,
    /// Another type for one tensor, or for all whose names fit a pattern with * for any text; can be given again
    #[arg(long = "tensor", value_name = "NAME=TYPE", value_parser = tensor_target)]
    tensors: Vec<(String, TensorType)>,
    /// How much each column of each matrix matters: a file of llama.cpp's llama-imatrix, in GGUF or .dat
    #[arg(long = "imatrix", value_name = "FILE")]
    importance: Option<PathBuf>,
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

#[derive(Clone, Copy)]
enum Target {
    Type(TensorType),
    Mix(QuantizeMix),
}

fn target(name: &str) -> Result<Target, String> {
    let mut mixes = QuantizeMix::ALL.iter();
    match mixes.find(|known| known.name().eq_ignore_ascii_case(name)) {
        Some(mix) => Ok(Target::Mix(*mix)),
        None => tensor_type(name).map(Target::Type).map_err(|error| {
            let names: Vec<&str> = QuantizeMix::ALL.iter().map(|known| known.name()).collect();
            format!("{error}, or of the mixes {}", names.join(", "))
        }),
    }
}

fn tensor_type(name: &str) -> Result<TensorType, String> {
    let mut types = Quantizer::TYPES.iter();
    let found = types.find(|known| known.name().eq_ignore_ascii_case(name));
    found.copied().ok_or_else(|| {
        let names: Vec<&str> = Quantizer::TYPES.iter().map(|known| known.name()).collect();
        format!("it should be one of {}", names.join(", "))
    })
}

fn tensor_target(text: &str) -> Result<(String, TensorType), String> {
    let (name, kind) = text.rsplit_once('=').ok_or("it should be NAME=TYPE")?;
    Ok((name.to_owned(), tensor_type(kind)?))
}

/// The names of a model's tensors that fit: the name itself, or a pattern with `*` for any text.
fn fitting<'a>(model: &'a ModelFile, pattern: &'a str) -> Result<Vec<&'a str>, String> {
    if !pattern.contains('*') {
        return Ok(vec![pattern]);
    }
    let names = model.tensors().iter().map(ModelTensor::name);
    let found: Vec<&str> = names.filter(|name| fits(name, pattern)).collect();
    match found.is_empty() {
        true => Err(format!("no tensor of the model fits {pattern}")),
        false => Ok(found),
    }
}

fn fits(name: &str, pattern: &str) -> bool {
    let Some((before, after)) = pattern.split_once('*') else {
        return name == pattern;
    };
    let Some(rest) = name.strip_prefix(before) else {
        return false;
    };
    let mut ends = rest.char_indices().map(|(at, _)| at).chain([rest.len()]);
    ends.any(|at| fits(&rest[at..], after))
}

pub fn run(arguments: &QuantizeArguments) -> Result<(), Box<dyn Error>> {
    let quantizer = match arguments.target {
        Target::Type(kind) => Quantizer::new(kind)?,
        Target::Mix(mix) => Quantizer::mix(mix),
    };
    let mut quantizer = quantizer.overwrite(arguments.force);
    if arguments.threads > 0 {
        quantizer = quantizer.threads(arguments.threads);
    }
    if let Some(path) = &arguments.importance {
        quantizer = quantizer.importance(ImportanceMatrix::open(path)?);
    }
    let model = ModelFile::open(&arguments.model)?;
    for (pattern, kind) in &arguments.tensors {
        for name in fitting(&model, pattern)? {
            quantizer = quantizer.tensor(name, *kind)?;
        }
    }
    // The writing takes its partial file away.
    let interrupted = Interrupted::by_signals()?;
    quantizer = quantizer.cancel(CancelToken::from(interrupted.flag()));
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
        interrupted.end()?;
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
        for remark in remarks(&report) {
            say(format_args!("{remark}"));
        }
    }
    Ok(())
}

/// What is not as it was asked for, a line for each pair of types.
fn remarks(report: &QuantizeReport) -> Vec<String> {
    let mut pairs: Vec<((TensorType, TensorType), usize)> = Vec::new();
    for (_, asked, stored) in &report.not_as_asked {
        match pairs
            .iter_mut()
            .find(|(pair, _)| *pair == (*asked, *stored))
        {
            Some((_, count)) => *count += 1,
            None => pairs.push(((*asked, *stored), 1)),
        }
    }
    let remark = |((asked, stored), count): ((TensorType, TensorType), usize)| {
        format!(
            "{count} tensors are {stored} and not {asked}, of whose blocks of {} their rows are no multiple",
            asked.block_length()
        )
    };
    let mut remarks: Vec<String> = pairs.into_iter().map(remark).collect();
    if let [first, rest @ ..] = report.without_importance.as_slice() {
        remarks.push(match rest.len() {
            0 => format!("the importance matrix says nothing about {first}"),
            more => format!("the importance matrix says nothing about {first} and {more} others"),
        });
    }
    remarks
}

fn describe(report: &QuantizeReport) -> Json {
    let tensor =
        |(name, kind): &(String, _)| json!({ "name": name, "type": TensorType::name(*kind) });
    let fallback = |(name, asked, stored): &(String, TensorType, TensorType)| {
        let (asked, stored) = (asked.name(), stored.name());
        json!({ "name": name, "asked": asked, "type": stored })
    };
    json!({
        "tensors": report.tensors.iter().map(tensor).collect::<Vec<_>>(),
        "not_as_asked": report.not_as_asked.iter().map(fallback).collect::<Vec<_>>(),
        "without_importance": report.without_importance,
        "bytes_before": report.bytes_before,
        "bytes_after": report.bytes_after,
    })
}

#[cfg(test)]
mod tests {
    use super::fits;

    #[test]
    fn a_star_is_any_text() {
        for (pattern, expected) in [
            ("blk.*.attn_v.weight", true),
            ("*", true),
            ("blk.1*.attn_v.*", true),
            ("blk.*.attn_q.weight", false),
            ("*.attn_v", false),
            ("blk.10.attn_v.weight", true),
        ] {
            assert_eq!(fits("blk.10.attn_v.weight", pattern), expected, "{pattern}");
        }
    }
}
