//! `ironbridge bench --explain`: what a token's kernels ask memory for, beside what Apple's GPUs can deliver.

use std::error::Error;
use std::io::Write;

use ironbridge::diagnostics::{self, KernelWork, RecordedWork};
use ironbridge::llama::{LlamaError, ModelFile, Sampler, SamplerOptions, Session};
use ironbridge::{Device, DeviceSelector};
use serde_json::{Value, json};

use super::BenchArguments;
use crate::terminal::progress;

/// Kernels are chosen as for an Apple GPU, and run from their Metal source.
const DEVICE: &str = "gpu=apple9,cores=8,count=1";

const REMARK: &str = "A model, not a measurement: no Mac ran this.";
const SOURCES: &str = "GPU cores and bandwidths: Apple's newsroom and technical specifications, largest \
                       configurations. Apple publishes no bandwidth of the M1: it is LPDDR4X-4266 of 128 bits.";

struct Chip {
    name: &'static str,
    cores: u32,
    /// GB/s.
    bandwidth: f64,
}

const fn chip(name: &'static str, cores: u32, bandwidth: f64) -> Chip {
    Chip {
        name,
        cores,
        bandwidth,
    }
}

const CHIPS: [Chip; 15] = [
    chip("M1", 8, 68.25),
    chip("M1 Pro", 16, 200.0),
    chip("M1 Max", 32, 400.0),
    chip("M1 Ultra", 64, 800.0),
    chip("M2", 10, 100.0),
    chip("M2 Pro", 19, 200.0),
    chip("M2 Max", 38, 400.0),
    chip("M2 Ultra", 76, 800.0),
    chip("M3", 10, 100.0),
    chip("M3 Pro", 18, 150.0),
    chip("M3 Max", 40, 400.0),
    chip("M3 Ultra", 80, 819.0),
    chip("M4", 10, 120.0),
    chip("M4 Pro", 20, 273.0),
    chip("M4 Max", 40, 546.0),
];

impl Chip {
    /// The seconds that the bytes take at least.
    fn seconds(&self, bytes: u64) -> f64 {
        bytes as f64 / (self.bandwidth * 1e9)
    }
}

/// What a token was found to do.
struct Explanation {
    model: String,
    behind: usize,
    layers: usize,
    /// Dispatches from one layer's attention to the next one's, on average.
    of_a_layer: f64,
    matrix_bytes: u64,
    work: RecordedWork,
    total: KernelWork,
}

pub fn run(arguments: &BenchArguments, out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let found = explain(arguments)?;
    match (arguments.json, arguments.markdown) {
        (true, _) => writeln!(out, "{}", found.json())?,
        (_, true) => found.write_tables(out)?,
        _ => found.write(out)?,
    }
    Ok(())
}

fn explain(arguments: &BenchArguments) -> Result<Explanation, Box<dyn Error>> {
    let file = ModelFile::open(&arguments.model.model)?;
    let device = Device::open(DeviceSelector::Cpu(DEVICE.to_owned()))?;
    let model = arguments.model.load_on(&device, false)?;
    model.settle();
    let mut session = Session::new(&model, arguments.model.session_options())?;
    let (tokens, context) = (arguments.behind + 1, session.context());
    if tokens > context {
        return Err(LlamaError::ContextFull { tokens, context }.into());
    }
    let bar = progress(tokens as u64, "{msg} {bar:40}").with_message("reading the tokens before");
    // One by one: a processor is slow at the kernels that read many for a GPU.
    for token in super::tokens(&model, arguments.behind) {
        super::read_text(&mut session, &[token])?;
        bar.inc(1);
    }
    bar.set_message("counting a token");
    let greedy = Sampler::new(SamplerOptions::default())?;
    diagnostics::record_work();
    let token = session.generate(&[0], greedy, 1).next().transpose();
    let work = diagnostics::recorded_work();
    bar.finish_and_clear();
    token?;
    let layers = model.config().layers;
    Ok(Explanation {
        model: arguments.model.name(),
        behind: arguments.behind,
        layers,
        of_a_layer: dispatches_of_a_layer(&work),
        matrix_bytes: super::bytes_for_a_token(&file),
        total: total(&work.kernels),
        work,
    })
}

/// Dispatches from the first layer's attention to the last one's, for each layer between them. Of a single layer: all.
fn dispatches_of_a_layer(work: &RecordedWork) -> f64 {
    let is_attention = |kernel: usize| work.kernels[kernel].kernel.starts_with("attention");
    let places: Vec<usize> = (0..work.order.len())
        .filter(|&place| is_attention(work.order[place]))
        .filter(|&place| place == 0 || !is_attention(work.order[place - 1]))
        .collect();
    match places[..] {
        [first, .., last] => (last - first) as f64 / (places.len() - 1) as f64,
        _ => work.order.len() as f64,
    }
}

fn total(kernels: &[KernelWork]) -> KernelWork {
    let mut total = KernelWork::default();
    total.kernel = "all".to_owned();
    for kernel in kernels {
        total.dispatches += kernel.dispatches;
        total.work += kernel.work;
    }
    total
}

const HEADINGS: [&str; 9] = [
    "kernel",
    "dispatches",
    "threadgroups",
    "MB read",
    "MB written",
    "MB loaded",
    "MB stored",
    "barriers",
    "MB threadgroup",
];
const CHIP_HEADINGS: [&str; 5] = ["GPU", "cores", "GB/s", "ms", "tokens/s"];

fn megabytes(bytes: u64) -> String {
    format!("{:.3}", bytes as f64 / 1e6)
}

/// A kernel's row. Threadgroups are those of a dispatch, from the fewest to the most, and barriers those of a
/// threadgroup.
fn cells(kernel: &KernelWork) -> [String; 9] {
    let barriers = kernel.work.barriers as f64 / kernel.work.threadgroups.max(1) as f64;
    let threadgroups = match (kernel.least_threadgroups, kernel.most_threadgroups) {
        (0, 0) => kernel.work.threadgroups.to_string(),
        (least, most) if least == most => most.to_string(),
        (least, most) => format!("{least} to {most}"),
    };
    [
        kernel.kernel.clone(),
        kernel.dispatches.to_string(),
        threadgroups,
        megabytes(kernel.work.read),
        megabytes(kernel.work.written),
        megabytes(kernel.work.loaded),
        megabytes(kernel.work.stored),
        format!("{barriers:.1}"),
        megabytes(kernel.work.threadgroup_loaded + kernel.work.threadgroup_stored),
    ]
}

impl Explanation {
    /// Bytes that memory delivers and takes when every kernel's caches hold all that it needs again.
    fn bytes(&self) -> u64 {
        self.total.work.read + self.total.work.written
    }

    fn rows(&self) -> Vec<[String; 9]> {
        let all = self.work.kernels.iter().chain([&self.total]);
        all.map(cells).collect()
    }

    fn chip_rows(&self) -> Vec<[String; 5]> {
        let row = |chip: &Chip| {
            let seconds = chip.seconds(self.bytes());
            [
                chip.name.to_owned(),
                chip.cores.to_string(),
                chip.bandwidth.to_string(),
                format!("{:.3}", 1e3 * seconds),
                format!("{:.1}", 1.0 / seconds),
            ]
        };
        CHIPS.iter().map(row).collect()
    }

    fn summary(&self) -> String {
        format!(
            "{} layers, {:.1} dispatches a layer (from one attention to the next), {} in all",
            self.layers, self.of_a_layer, self.total.dispatches
        )
    }

    fn title(&self) -> String {
        let (model, behind) = (&self.model, self.behind);
        format!("{model}: a token behind {behind} others. {REMARK}")
    }

    fn legend(&self) -> String {
        "Read and written: lines of 64 bytes that a dispatch touches, each once. Loaded and stored: what threads ask \
         for. Threadgroups: of a dispatch. Barriers: of a threadgroup."
            .to_owned()
    }

    fn write(&self, out: &mut impl Write) -> std::io::Result<()> {
        writeln!(out, "{}\n", self.title())?;
        write_columns(out, &HEADINGS, &self.rows())?;
        writeln!(out, "\n{}\n{}\n", self.legend(), self.summary())?;
        write_columns(out, &CHIP_HEADINGS, &self.chip_rows())?;
        writeln!(out, "\nWhat memory alone allows. {SOURCES}\n{REMARK}")
    }

    fn write_tables(&self, out: &mut impl Write) -> std::io::Result<()> {
        writeln!(out, "{}\n", self.title().replace('|', "\\|"))?;
        write_table(out, &HEADINGS, &self.rows())?;
        writeln!(out, "\n{}\n\n{}.\n", self.legend(), self.summary())?;
        write_table(out, &CHIP_HEADINGS, &self.chip_rows())?;
        writeln!(out, "\nWhat memory alone allows. {SOURCES}")
    }

    fn json(&self) -> Value {
        let work = |kernel: &KernelWork| {
            json!({
                "kernel": kernel.kernel,
                "dispatches": kernel.dispatches,
                "threadgroups": kernel.work.threadgroups,
                "threads": kernel.work.threads,
                "bytes_read": kernel.work.read,
                "bytes_written": kernel.work.written,
                "bytes_loaded": kernel.work.loaded,
                "bytes_stored": kernel.work.stored,
                "barriers": kernel.work.barriers,
                "threadgroup_bytes_loaded": kernel.work.threadgroup_loaded,
                "threadgroup_bytes_stored": kernel.work.threadgroup_stored,
            })
        };
        let chip = |chip: &Chip| {
            let seconds = chip.seconds(self.bytes());
            json!({
                "name": chip.name,
                "cores": chip.cores,
                "bandwidth": chip.bandwidth * 1e9,
                "seconds": seconds,
                "rate": 1.0 / seconds,
            })
        };
        let kernels: Vec<Value> = self.work.kernels.iter().map(work).collect();
        let gpus: Vec<Value> = CHIPS.iter().map(chip).collect();
        json!({
            "model": self.model,
            "measured": false,
            "remark": REMARK,
            "behind": self.behind,
            "layers": self.layers,
            "dispatches_of_a_layer": self.of_a_layer,
            "matrix_bytes": self.matrix_bytes,
            "counted_dispatches": self.work.counted,
            "kernels": kernels,
            "total": work(&self.total),
            "sources": SOURCES,
            "gpus": gpus,
        })
    }
}

/// The first column to the left, numbers to the right.
fn write_columns<const N: usize>(
    out: &mut impl Write,
    headings: &[&str; N],
    rows: &[[String; N]],
) -> std::io::Result<()> {
    let widths: [usize; N] = std::array::from_fn(|column| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([headings[column].len()]).max().unwrap_or(0)
    });
    let headings: [String; N] = headings.map(str::to_owned);
    for row in [&headings].into_iter().chain(rows) {
        write!(out, "{:<1$}", row[0], widths[0])?;
        for (cell, width) in row.iter().zip(widths).skip(1) {
            write!(out, "  {cell:>width$}")?;
        }
        writeln!(out)?;
    }
    Ok(())
}

fn write_table<const N: usize>(
    out: &mut impl Write,
    headings: &[&str; N],
    rows: &[[String; N]],
) -> std::io::Result<()> {
    writeln!(out, "| {} |", headings.join(" | "))?;
    writeln!(out, "| --- |{}", " --: |".repeat(N - 1))?;
    for row in rows {
        writeln!(out, "| {} |", row.join(" | "))?;
    }
    Ok(())
}
