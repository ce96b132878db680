//! The `ironbridge` command line, built on the crate's public API.
#![deny(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "output.rs has standard output, terminal.rs standard error"
)]

mod bench;
mod chat;
mod devices;
mod doctor;
mod embed;
mod finetune;
mod generate;
mod hint;
mod input;
mod inspect;
mod interrupt;
mod manual;
mod metal;
mod model_options;
mod monitor;
mod output;
mod perplexity;
#[cfg(feature = "pull")]
mod pull;
mod quantize;
mod rope_options;
mod sampling_options;
mod stress;
mod terminal;
mod tokenize;
mod usage;

use std::error::Error;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

/// Run LLaMA models through ironbridge, and test the bridge itself.
#[derive(Parser)]
#[command(name = "ironbridge", version, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Write text with a model
    Generate(generate::GenerateArguments),
    /// Talk with a model that was trained on conversations
    Chat(chat::ChatArguments),
    /// Turn text into a model's tokens, or back
    Tokenize(tokenize::TokenizeArguments),
    /// Measure how well a model predicts a text
    Perplexity(perplexity::PerplexityArguments),
    /// Measure how fast a model runs, beside what the machine's memory allows
    Bench(bench::BenchArguments),
    /// Turn texts into vectors
    Embed(embed::EmbedArguments),
    /// Let a model learn a text: a LoRA adapter, which other commands take with --lora
    Finetune(finetune::FinetuneArguments),
    /// Print a model's metadata and tensors
    Inspect(inspect::InspectArguments),
    /// Fetch a model from a hub into the cache that other programs use, too, and print its path
    #[cfg(feature = "pull")]
    Pull(pull::PullArguments),
    /// Write a model with smaller numbers, as a GGUF file
    Quantize(quantize::QuantizeArguments),
    /// Load the bridge for a long time and check that nothing grows and nothing is wrong
    #[command(subcommand)]
    Stress(stress::Command),
    /// Compile, check and run Metal sources
    #[command(subcommand)]
    Metal(metal::Command),
    /// List the devices of this machine and their limits
    Devices(devices::DevicesArguments),
    /// Look at the machine and its devices, clean up after dead processes and test the bridge
    Doctor(doctor::DoctorArguments),
    /// Watch the memory of all your processes that use ironbridge
    Monitor(monitor::MonitorArguments),
    /// Write a shell's completions to standard output
    Completions(manual::CompletionsArguments),
    /// Write the manual page to standard output, or all pages into a folder
    Man(manual::ManArguments),
}

fn main() -> ExitCode {
    let command = match Arguments::try_parse() {
        Ok(arguments) => arguments.command,
        Err(error) => return usage::answer(&error, &Arguments::command()),
    };
    output::end(run(command))
}

fn run(command: Command) -> Result<ExitCode, Box<dyn Error>> {
    match command {
        Command::Generate(arguments) => generate::run(&arguments)?,
        Command::Chat(arguments) => chat::run(&arguments)?,
        Command::Tokenize(arguments) => tokenize::run(&arguments)?,
        Command::Perplexity(arguments) => perplexity::run(&arguments)?,
        Command::Bench(arguments) => bench::run(&arguments)?,
        Command::Embed(arguments) => embed::run(&arguments)?,
        Command::Finetune(arguments) => finetune::run(&arguments)?,
        Command::Inspect(arguments) => inspect::run(&arguments)?,
        #[cfg(feature = "pull")]
        Command::Pull(arguments) => pull::run(&arguments)?,
        Command::Quantize(arguments) => quantize::run(&arguments)?,
        Command::Stress(stress::Command::Qkv(arguments)) => return stress::run(&arguments),
        Command::Metal(command) => return metal::run(&command),
        Command::Devices(arguments) => devices::run(&arguments)?,
        Command::Doctor(arguments) => return doctor::run(&arguments),
        Command::Monitor(arguments) => monitor::run(&arguments)?,
        Command::Completions(arguments) => manual::completions(&arguments, Arguments::command())?,
        Command::Man(arguments) => manual::man(&arguments, Arguments::command())?,
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_are_consistent() {
        Arguments::command().debug_assert();
    }
}
