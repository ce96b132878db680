//! `ironbridge monitor`

mod reading;
mod screen;

use std::error::Error;
use std::io::{IsTerminal, Write, stdin};
use std::thread::sleep;
use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::output;
use crate::terminal::refuse;
use reading::Reading;

/// Between the two readings of `--once`, whose difference is the rate.
const SAMPLE: Duration = Duration::from_millis(250);

#[derive(Args)]
pub struct MonitorArguments {
    /// Print the figures once and end
    #[arg(long)]
    once: bool,
    /// As JSON; bytes, seconds, operations per second
    #[arg(long, requires = "once")]
    json: bool,
    /// Seconds between two refreshes
    #[arg(long, default_value_t = 1.0, value_name = "SECONDS", value_parser = interval)]
    interval: f64,
    /// The column to sort by, largest first
    #[arg(long, value_enum, default_value_t = Column::Active)]
    sort: Column,
}

/// What rows can be sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Column {
    Pid,
    Active,
    Cached,
    Peak,
    Delta,
    Rate,
    Rss,
    Age,
}

fn interval(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.05..=3600.0).contains(&seconds) => Ok(seconds),
        _ => Err(String::from("is not a number of seconds from 0.05 to 3600")),
    }
}

pub fn run(arguments: &MonitorArguments) -> Result<(), Box<dyn Error>> {
    if arguments.once {
        let first = Reading::take(None)?;
        sleep(SAMPLE);
        let mut reading = Reading::take(Some(&first))?;
        reading.sort(arguments.sort);
        for skipped in reading.skipped() {
            refuse(&skipped);
        }
        let mut out = output::stdout();
        match arguments.json {
            true => writeln!(out, "{:#}", reading.json())?,
            false => write!(out, "{}", reading.text())?,
        }
        return Ok(());
    }
    if !stdin().is_terminal() || !output::is_terminal() {
        return Err(
            "monitor needs a terminal; --once prints the figures, --json for scripts".into(),
        );
    }
    screen::run(Duration::from_secs_f64(arguments.interval), arguments.sort)
}
