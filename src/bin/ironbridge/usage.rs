//! Mistakes in the arguments, on one line like every other error.

use std::env;
use std::io::Write;
use std::process::ExitCode;

use clap::Command;
use clap::error::ErrorKind;

use crate::{output, terminal};

/// Prints help or the version to standard output, anything else as one line to standard error.
pub fn answer(error: &clap::Error, program: &Command) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            let written = write!(output::styled(), "{}", error.render().ansi());
            output::end(written.map(|()| ExitCode::SUCCESS).map_err(Into::into))
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            terminal::say(format_args!("{}", error.render().ansi()));
            ExitCode::from(2)
        }
        _ => {
            // Not every error comes with the usage of its command.
            let first = env::args().nth(1);
            let command = first.and_then(|name| program.find_subcommand(name));
            let command = command.map_or("ironbridge".to_owned(), |it| {
                format!("ironbridge {}", it.get_name())
            });
            terminal::refuse(&one_line(&error.to_string(), &command));
            ExitCode::from(2)
        }
    }
}

/// Clap's paragraphs: the error, tips, perhaps the usage, and how to get help. `command` is what help there is for
/// without a usage.
fn one_line(text: &str, command: &str) -> String {
    let joined = |paragraph: &str| {
        let lines = paragraph.lines().map(str::trim);
        let lines: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
        lines.join(" ")
    };
    let mut parts: Vec<String> = Vec::new();
    let mut help = format!("{command} --help");
    for paragraph in text.split("\n\n").map(joined) {
        if let Some(usage) = paragraph.strip_prefix("Usage: ") {
            let words = usage.split(' ');
            let words: Vec<&str> = words
                .take_while(|word| !word.starts_with(['[', '<', '-']))
                .collect();
            help = format!("{} --help", words.join(" "));
        } else if !paragraph.is_empty() && !paragraph.starts_with("For more information") {
            let plain = paragraph
                .strip_prefix("error: ")
                .or(paragraph.strip_prefix("tip: "));
            parts.push(plain.unwrap_or(&paragraph).to_owned());
        }
    }
    parts.push(format!("see `{help}`"));
    parts.join("; ")
}

#[cfg(test)]
mod tests {
    use super::one_line;

    #[test]
    fn claps_paragraphs_become_one_line() {
        let text = "error: the following required arguments were not provided:\n  --model <FILE>\n\n\
            Usage: ironbridge generate --model <FILE>\n\nFor more information, try '--help'.\n";
        assert_eq!(
            one_line(text, "ironbridge"),
            "the following required arguments were not provided: --model <FILE>; see `ironbridge generate --help`"
        );
        let text = "error: invalid value 'x' for '--seed <SEED>': invalid digit found in string\n\n\
            For more information, try '--help'.\n";
        assert_eq!(
            one_line(text, "ironbridge chat"),
            "invalid value 'x' for '--seed <SEED>': invalid digit found in string; see `ironbridge chat --help`"
        );
        let text = "error: unexpected argument '--modl' found\n\n  tip: a similar argument exists: '--model'\n\n\
            Usage: ironbridge generate --model <FILE>\n\nFor more information, try '--help'.\n";
        assert_eq!(
            one_line(text, "ironbridge"),
            "unexpected argument '--modl' found; a similar argument exists: '--model'; see `ironbridge generate --help`"
        );
    }
}
