//! How the commands talk to a person: errors on one line, sizes and rates in units, progress bars on a terminal.

use std::error::Error;
use std::fmt::Write;
use std::io::{IsTerminal, stderr};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Prints an error and its causes on one line of standard error.
pub fn report(error: &dyn Error) {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        let text = next.to_string();
        if !line.contains(&text) {
            write!(line, ": {text}").expect("writing to a string succeeds");
        }
        cause = next.source();
    }
    eprintln!("ironbridge: {line}");
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
    use super::bytes;

    #[test]
    fn bytes_take_the_largest_unit_that_fits() {
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(1024), "1.0 KiB");
        assert_eq!(bytes(6_189_856), "5.9 MiB");
        assert_eq!(bytes(u64::MAX), "16777216.0 TiB");
    }
}
