//! Mistakes in the arguments, on one line like every other error.

use std::process::ExitCode;

use clap::error::ErrorKind;

use crate::terminal;

/// Prints help or the version to standard output, anything else as one line to standard error.
pub fn answer(error: &clap::Error) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            // Nobody may be reading.
            let _ = error.print();
            ExitCode::SUCCESS
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = error.print();
            ExitCode::from(2)
        }
        _ => {
            terminal::refuse(&one_line(&error.to_string()));
            ExitCode::from(2)
        }
    }
}

/// Clap's paragraphs: the error, tips, the usage, and how to get help.
fn one_line(text: &str) -> String {
    let joined = |paragraph: &str| {
        let lines = paragraph.lines().map(str::trim);
        let lines: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
        lines.join(" ")
    };
    let mut parts: Vec<String> = Vec::new();
    let mut help = "ironbridge --help".to_owned();
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
            one_line(text),
            "the following required arguments were not provided: --model <FILE>; see `ironbridge generate --help`"
        );
        let text = "error: unexpected argument '--modl' found\n\n  tip: a similar argument exists: '--model'\n\n\
            Usage: ironbridge generate --model <FILE>\n\nFor more information, try '--help'.\n";
        assert_eq!(
            one_line(text),
            "unexpected argument '--modl' found; a similar argument exists: '--model'; see `ironbridge generate --help`"
        );
    }
}
