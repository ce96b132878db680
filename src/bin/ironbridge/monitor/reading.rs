//! The figures of all processes at one moment, as rows and as JSON.

use std::cmp::Reverse;
use std::time::{Duration, Instant, SystemTime};

use ironbridge::DeviceKind;
use ironbridge::monitor::{PublishedDevice, Skipped, Survey, survey};
use serde_json::{Value, json};

use super::Column;
use crate::terminal::bytes;

pub struct Reading {
    taken: Instant,
    pub rows: Vec<Row>,
    /// Processes without an open device have no row.
    survey: Survey,
}

/// A device of a process.
pub struct Row {
    pub pid: u64,
    pub program: String,
    pub device: PublishedDevice,
    pub resident_bytes: Option<u64>,
    /// Since the device was opened.
    pub age: Duration,
    /// Operations per second since the reading before; `None` in a first one.
    pub rate: Option<f64>,
}

/// A process's number and when the device was opened: the same in every reading, wherever the row is.
pub type RowKey = (u64, SystemTime);

impl Reading {
    /// Reads every process. Rates are counted from `before`.
    pub fn take(before: Option<&Reading>) -> ironbridge::Result<Reading> {
        let (taken, now) = (Instant::now(), SystemTime::now());
        let survey = survey()?;
        let mut rows = Vec::new();
        for process in &survey.processes {
            for device in &process.devices {
                let earlier = before.and_then(|before| {
                    let row = before.find((process.pid, device.opened_at))?;
                    Some((&before.rows[row], taken - before.taken))
                });
                rows.push(Row {
                    pid: process.pid,
                    program: process.program.clone(),
                    device: device.clone(),
                    resident_bytes: process.resident_bytes,
                    age: now.duration_since(device.opened_at).unwrap_or_default(),
                    rate: earlier.map(|(row, time)| {
                        let operations = device.operations.saturating_sub(row.device.operations);
                        operations as f64 / time.as_secs_f64()
                    }),
                });
            }
        }
        Ok(Reading {
            taken,
            rows,
            survey,
        })
    }

    pub fn sort(&mut self, column: Column) {
        let signed = |bytes: Option<u64>| bytes.map_or(-1, i128::from);
        self.rows.sort_by_key(|row| {
            let key: i128 = match column {
                Column::Pid => -i128::from(row.pid),
                Column::Active => row.device.active_bytes.into(),
                Column::Cached => row.device.cached_bytes.into(),
                Column::Peak => row.device.peak_bytes.into(),
                Column::Delta => row.device.delta_bytes(),
                Column::Rate => row.rate.unwrap_or(-1.0) as i128,
                Column::Rss => signed(row.resident_bytes),
                Column::Age => row.age.as_nanos() as i128,
            };
            (Reverse(key), row.pid)
        });
    }

    /// The place of a device among the rows.
    pub fn find(&self, key: RowKey) -> Option<usize> {
        self.rows.iter().position(|row| row.key() == key)
    }

    pub fn process_count(&self) -> usize {
        self.survey.processes.len()
    }

    pub fn active_bytes(&self) -> u64 {
        self.sum(|row| row.device.active_bytes)
    }

    pub fn cached_bytes(&self) -> u64 {
        self.sum(|row| row.device.cached_bytes)
    }

    /// Figures are what processes say, and may be any.
    fn sum(&self, of: impl Fn(&Row) -> u64) -> u64 {
        self.rows.iter().map(of).fold(0, u64::saturating_add)
    }

    /// What could not be read, a sentence each.
    pub fn skipped(&self) -> Vec<String> {
        let skipped = self.survey.skipped.iter();
        let sentence = |it: &Skipped| format!("skipped {}: {}", it.path.display(), it.reason);
        skipped.map(sentence).collect()
    }

    /// A table for people, in lines.
    pub fn text(&self) -> String {
        if self.rows.is_empty() {
            return String::from("no process of yours has a device of ironbridge open\n");
        }
        let mut text = line(HEADERS.map(String::from));
        for row in &self.rows {
            text += &line(row.cells());
        }
        text
    }

    pub fn json(&self) -> Value {
        let processes = self.survey.processes.iter().map(|process| {
            let of_process = |row: &&Row| row.pid == process.pid;
            json!({
                "pid": process.pid,
                "program": process.program,
                "resident_bytes": process.resident_bytes,
                "unpublished_devices": process.unpublished_devices,
                "devices": self.rows.iter().filter(of_process).map(Row::json).collect::<Vec<_>>(),
            })
        });
        let skipped =
            |it: &Skipped| json!({ "path": it.path.to_string_lossy(), "reason": it.reason });
        json!({
            "processes": processes.collect::<Vec<_>>(),
            "skipped": self.survey.skipped.iter().map(skipped).collect::<Vec<_>>(),
            "active_bytes": self.active_bytes(),
            "cached_bytes": self.cached_bytes(),
        })
    }
}

pub const HEADERS: [&str; 10] = [
    "PID", "PROGRAM", "DEVICE", "ACTIVE", "CACHED", "PEAK", "DELTA", "OPS/S", "RSS", "AGE",
];
/// Columns, of which the second and third are text.
pub const WIDTHS: [u16; 10] = [8, 14, 7, 10, 10, 10, 11, 8, 10, 9];

/// The columns that a terminal of `width` has room for: a figure that is cut looks like another one.
pub fn columns(width: u16) -> Vec<usize> {
    const FIRST_TO_GO: [usize; 7] = [9, 2, 5, 4, 7, 8, 6];
    let mut columns: Vec<usize> = (0..WIDTHS.len()).collect();
    for gone in FIRST_TO_GO {
        let gaps = columns.len() as u16 - 1;
        if columns.iter().map(|&column| WIDTHS[column]).sum::<u16>() + gaps <= width {
            break;
        }
        columns.retain(|&column| column != gone);
    }
    columns
}

fn line(cells: [String; 10]) -> String {
    let mut line = String::new();
    for (index, (cell, width)) in cells.into_iter().zip(WIDTHS).enumerate() {
        let width = usize::from(width);
        line += &match index {
            1 | 2 => format!(" {:<width$}", cell.chars().take(width).collect::<String>()),
            _ => format!(" {cell:>width$}"),
        };
    }
    format!("{}\n", line.trim_end())
}

impl Row {
    pub fn key(&self) -> RowKey {
        (self.pid, self.device.opened_at)
    }

    pub fn cells(&self) -> [String; 10] {
        let device = &self.device;
        let delta = device.delta_bytes();
        let magnitude = u64::try_from(delta.unsigned_abs()).unwrap_or(u64::MAX);
        let sign = if delta < 0 { "-" } else { "+" };
        [
            self.pid.to_string(),
            self.program.clone(),
            format!("{}:{}", selector(device.kind), device.index),
            bytes(device.active_bytes),
            bytes(device.cached_bytes),
            bytes(device.peak_bytes),
            format!("{sign}{}", bytes(magnitude)),
            self.rate
                .map_or_else(|| "-".into(), |rate| format!("{rate:.0}")),
            self.resident_bytes.map_or_else(|| "-".into(), bytes),
            age(self.age),
        ]
    }

    fn json(&self) -> Value {
        let device = &self.device;
        json!({
            "kind": selector(device.kind),
            "index": device.index,
            "name": device.name,
            "active_bytes": device.active_bytes,
            "active_buffers": device.active_buffers,
            "cached_bytes": device.cached_bytes,
            "cached_buffers": device.cached_buffers,
            "peak_bytes": device.peak_bytes,
            "baseline_bytes": device.baseline_bytes,
            "delta_bytes": i64::try_from(device.delta_bytes()).ok(),
            "memory_limit": device.memory_limit,
            "allocations": device.allocations,
            "releases": device.releases,
            "pool_hits": device.pool_hits,
            "pool_misses": device.pool_misses,
            "operations": device.operations,
            "operations_per_second": self.rate,
            "age_seconds": self.age.as_secs_f64(),
        })
    }
}

fn selector(kind: DeviceKind) -> &'static str {
    match kind {
        DeviceKind::Metal => "metal",
        DeviceKind::Software => "cpu",
        _ => "?",
    }
}

/// "59 s", "3 m 07 s", "5 h 03 m", "12 d 4 h".
fn age(age: Duration) -> String {
    let seconds = age.as_secs();
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{minutes} m {:02} s", seconds % 60),
        3600..86400 => format!("{hours} h {:02} m", minutes % 60),
        _ => format!("{days} d {} h", hours % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_have_two_units() {
        let of = |seconds| age(Duration::from_secs(seconds));
        assert_eq!(of(59), "59 s");
        assert_eq!(of(187), "3 m 07 s");
        assert_eq!(of(5 * 3600 + 180), "5 h 03 m");
        assert_eq!(of(12 * 86400 + 4 * 3600), "12 d 4 h");
    }

    #[test]
    fn a_narrow_terminal_has_fewer_columns() {
        assert_eq!(columns(200).len(), 10);
        assert_eq!(columns(106).len(), 10);
        assert_eq!(columns(105), [0, 1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(columns(80), [0, 1, 3, 4, 6, 7, 8]);
        assert_eq!(columns(20), [0, 1, 3]);
    }

    #[test]
    fn a_line_keeps_its_columns() {
        let text = line(HEADERS.map(String::from));
        assert_eq!(text.find("PROGRAM"), Some(10));
        let cells = std::array::from_fn(|_| "a name that is too long for it".to_string());
        assert!(line(cells).contains(" a name that is "));
    }
}
