//! `ironbridge completions` and `ironbridge man`: what the arguments' definition says, for shells and for readers.

use std::error::Error;
use std::fs;
use std::io::Write;
use std::path::PathBuf;

use clap::{Args, Command};
use clap_complete::Shell;

use crate::output;

#[derive(Args)]
pub struct CompletionsArguments {
    /// Whose completions to write
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

#[derive(Args)]
pub struct ManArguments {
    /// Write one page for each command into this folder, and not the first one to standard output
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
}

pub fn completions(
    arguments: &CompletionsArguments,
    mut command: Command,
) -> Result<(), Box<dyn Error>> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, "ironbridge", &mut script);
    output::stdout().write_all(&script)?;
    Ok(())
}

pub fn man(arguments: &ManArguments, command: Command) -> Result<(), Box<dyn Error>> {
    match &arguments.out {
        Some(folder) => {
            let written =
                fs::create_dir_all(folder).and_then(|()| clap_mangen::generate_to(command, folder));
            written.map_err(|error| {
                format!("cannot write pages into {}: {error}", folder.display())
            })?;
        }
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(command).render(&mut page)?;
            output::stdout().write_all(&page)?;
        }
    }
    Ok(())
}
