//! The `ironbridge` command line, built on the crate's public API.

mod devices;
mod doctor;
mod generate;
<<<<<<< HEAD
mod monitor;
=======
mod inspect;
mod quantize;
>>>>>>> 4bdf35f (ironbridge inspect and quantize; hostile folders of Hugging Face's are errors)
mod stress;
mod terminal;

use std::io;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Run LLaMA models through ironbridge, and test the bridge itself.
#[derive(Parser)]
#[command(name = "ironbridge", version, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Write text with a GGUF model
    Generate(generate::GenerateArguments),
    /// Print a model's metadata and tensors
    Inspect(inspect::InspectArguments),
    /// Write a model with smaller numbers, as a GGUF file
    Quantize(quantize::QuantizeArguments),
    /// Load the bridge for a long time and check that nothing grows and nothing is wrong
    #[command(subcommand)]
    Stress(stress::Command),
    /// List the devices of this machine and their limits
    Devices,
    /// Look at the machine and its devices, clean up after dead processes and test the bridge
    Doctor(doctor::DoctorArguments),
    /// Watch the memory of all your processes that use ironbridge
    Monitor(monitor::MonitorArguments),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Generate(arguments) => generate::run(&arguments).map(|()| ExitCode::SUCCESS),
        Command::Inspect(arguments) => inspect::run(&arguments).map(|()| ExitCode::SUCCESS),
        Command::Quantize(arguments) => quantize::run(&arguments).map(|()| ExitCode::SUCCESS),
        Command::Stress(stress::Command::Qkv(arguments)) => stress::run(&arguments),
        Command::Devices => devices::run().map(|()| ExitCode::SUCCESS),
        Command::Doctor(arguments) => doctor::run(&arguments),
        Command::Monitor(arguments) => monitor::run(&arguments).map(|()| ExitCode::SUCCESS),
    };
    result.unwrap_or_else(|error| match error.downcast_ref::<io::Error>() {
        // Whoever read our output has seen enough.
        Some(closed) if closed.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        _ => {
            terminal::report(error.as_ref());
            ExitCode::FAILURE
        }
    })
}
