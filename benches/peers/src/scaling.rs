//! How much faster two threads are than one, drawn for each type, phase and engine.

use std::fmt::Write;

use serde_json::Value;

use crate::engines::NAMES;
use crate::models::TYPES;
use crate::report::{STYLE, phases, rate, speeds};

pub const CHART: &str = "scaling.svg";
/// For each engine, in the order of [`NAMES`].
const COLOURS: [&str; 3] = ["#2a7ab9", "#c8502d", "#8a8a8a"];

/// A group of bars for each type and phase: the median rate of two threads over that of one. Lines at 1 and 2.
pub fn chart(all: &[Value]) -> String {
    let (bar, gap, left, unit) = (8, 6, 150.0, 260.0);
    let mut bars = String::new();
    let mut y = 40;
    for file_type in TYPES {
        for phase in phases(all, file_type, 1) {
            let (one, two) = (
                speeds(all, file_type, 1, &phase),
                speeds(all, file_type, 2, &phase),
            );
            let _ = writeln!(
                bars,
                "<text x=\"4\" y=\"{}\">{file_type} {phase}</text>",
                y + 16
            );
            for (name, colour) in NAMES.iter().zip(COLOURS) {
                if let (Some(one), Some(two)) = (rate(&one, name), rate(&two, name)) {
                    let ratio = two / one;
                    let _ = writeln!(
                        bars,
                        "<rect fill=\"{colour}\" x=\"{left}\" y=\"{y}\" width=\"{:.0}\" height=\"{}\"/><text style=\"font-size:8px\" x=\"{:.0}\" y=\"{}\">{ratio:.2}</text>",
                        ratio * unit,
                        bar - 1,
                        left + ratio * unit + 3.0,
                        y + 7
                    );
                }
                y += bar;
            }
            y += gap;
        }
    }
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 760 {y}\" role=\"img\">{STYLE}<rect width=\"760\" height=\"{y}\" fill=\"#fff\"/>\n"
    );
    for (i, (name, colour)) in NAMES.iter().zip(COLOURS).enumerate() {
        let x = 4 + 110 * i;
        let _ = writeln!(
            svg,
            "<rect fill=\"{colour}\" x=\"{x}\" y=\"6\" width=\"10\" height=\"10\"/><text x=\"{}\" y=\"15\">{name}</text>",
            x + 14
        );
    }
    for line in [1.0, 2.0] {
        let x = left + line * unit;
        let _ = writeln!(
            svg,
            "<path class=\"l\" d=\"M{x} 34V{y}\"/><text x=\"{}\" y=\"30\">{line} ×</text>",
            x - 8.0
        );
    }
    svg + &bars + "</svg>\n"
}
