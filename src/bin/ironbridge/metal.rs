//! `ironbridge metal`: other people's Metal sources, compiled and run on this machine.

mod argument;
mod check;
mod compile;
mod elements;
mod finding;
mod npy;
mod run;
mod sarif;
mod texels;
mod trial;
mod values;

use std::error::Error;
use std::process::ExitCode;

use clap::Subcommand;

#[derive(Subcommand)]
pub enum Command {
    /// Compile every kernel of Metal sources, and run them with every memory access checked
    Check(check::CheckArguments),
    /// Run one kernel of a Metal source and print what it wrote
    Run(run::RunArguments),
    /// What `check --run` starts for each file and order of threads
    #[command(hide = true)]
    Trial(trial::TrialArguments),
}

pub fn run(command: &Command) -> Result<ExitCode, Box<dyn Error>> {
    match command {
        Command::Check(arguments) => check::run(arguments),
        Command::Run(arguments) => run::run(arguments).map(|()| ExitCode::SUCCESS),
        Command::Trial(arguments) => trial::run(arguments).map(|()| ExitCode::SUCCESS),
    }
}
