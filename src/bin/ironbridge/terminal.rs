//! How the commands talk to a person: errors on one line, sizes in units, progress bars and colours on a terminal only.

use std::borrow::Cow;
use std::error::Error;
use std::fmt::{self, Write};
use std::io::{IsTerminal, Write as _, stderr};

use anstyle::{AnsiColor, Style};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use ironbridge::Failure;

use crate::hint::hint;

/// What matters less than the text around it.
pub const FAINT: Style = Style::new().dimmed();
/// What a person looks for.
pub const STRONG: Style = Style::new().bold();
/// What went wrong.
pub const WRONG: Style = AnsiColor::Red.on_default().bold();

/// Prints an error, its causes and what may help on one line of standard error.
pub fn report(error: &(dyn Error + 'static)) {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        let text = next.to_string();
        // The bridge's failures have said it in their own sentence.
        if !line.contains(&text) && !next.is::<Failure>() {
            write!(line, ": {text}").expect("writing to a string succeeds");
        }
        cause = next.source();
    }
    match hint(error) {
        Some(hint) => refuse(&format!("{line}; {hint}")),
        None => refuse(&line),
    }
}

/// Prints what is wrong on one line of standard error.
pub fn refuse(message: &str) {
    let message = message.replace('\n', " ");
    let message = printable(&message);
    say(format_args!("{WRONG}ironbridge:{WRONG:#} {message}"));
}

/// Prints a remark on standard error. Where that is full or closed, nobody is there to be told.
pub fn say(remark: fmt::Arguments) {
    let _ = writeln!(anstream::stderr(), "{remark}");
}

/// Text from strangers, files and models, without what would steer a terminal.
pub fn printable(text: &str) -> Cow<'_, str> {
    let steers = |character: char| character.is_control() && !matches!(character, '\n' | '\t');
    match text.contains(steers) {
        true => text.replace(steers, "\u{FFFD}").into(),
        false => text.into(),
    }
}

/// Bytes in the largest binary unit that keeps the number above 1: "6.2 MiB".
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = count as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    match unit {
        0 => format!("{count} B"),
        _ => format!("{value:.1} {}", UNITS[unit]),
    }
}

/// A bar on standard error while it is a terminal, nothing otherwise. `template` is indicatif's.
pub fn progress(length: u64, template: &str) -> ProgressBar {
    let target = match stderr().is_terminal() {
        true => ProgressDrawTarget::stderr(),
        false => ProgressDrawTarget::hidden(),
    };
    let style = ProgressStyle::with_template(template)
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .progress_chars("━╸ ");
    ProgressBar::with_draw_target(Some(length), target).with_style(style)
}

#[cfg(test)]
mod tests {
    use super::{bytes, printable};

    #[test]
    fn bytes_take_the_largest_unit_that_fits() {
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(1024), "1.0 KiB");
        assert_eq!(bytes(6_189_856), "5.9 MiB");
        assert_eq!(bytes(u64::MAX), "16777216.0 TiB");
    }

    #[test]
    fn text_from_strangers_cannot_steer_the_terminal() {
        assert_eq!(printable("\u{1b}[2J\tä\r\n"), "\u{FFFD}[2J\tä\u{FFFD}\n");
    }
}
