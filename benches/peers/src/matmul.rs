//! f32 matrix products through ironbridge's facade beside the crates that multiply matrices, and their table.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use ironbridge::memory::Category;
use ironbridge::ops::Matmul;
use ironbridge::{Buffer, Device};
use serde_json::{Value, json};

use crate::engines::{REST, Result};
use crate::limits;

/// The crates, ironbridge first.
const NAMES: [&str; 4] = ["ironbridge", "gemm", "matrixmultiply", "faer"];
/// A library of C++ in a column of its own, where it was built with: feature `onednn`.
const ONEDNN: &str = "oneDNN";
/// What matrixmultiply takes its number of threads from.
pub const THREADS_VARIABLE: &str = "MATMUL_NUM_THREADS";
const HEADING: &str = "## f32 matmul\n";
/// A turn repeats a product for about this long.
const TURN: Duration = Duration::from_millis(40);

#[derive(Clone, Copy)]
struct Shape {
    m: usize,
    k: usize,
    n: usize,
    /// The weight is stored (n,k), as LLaMA's are; else (k,n).
    by_outputs: bool,
}

const fn shape(m: usize, k: usize, n: usize, by_outputs: bool) -> Shape {
    Shape {
        m,
        k,
        n,
        by_outputs,
    }
}

const SHAPES: [Shape; 7] = [
    shape(1, 2048, 2048, true),
    shape(1, 2048, 5632, true),
    shape(15, 2048, 256, true),
    shape(15, 2048, 2048, true),
    shape(128, 2048, 2048, true),
    shape(512, 2048, 5632, true),
    shape(784, 100, 10, false),
];

/// One product with all that it needs.
struct Operands {
    shape: Shape,
    threads: usize,
    x: Vec<f32>,
    weight: Vec<f32>,
    /// ironbridge's copies of these.
    device: Device,
    device_x: Buffer<f32>,
    device_weight: Buffer<f32>,
    device_y: Buffer<f32>,
}

impl Operands {
    fn new(device: &Device, shape: Shape, threads: usize) -> Result<Operands> {
        let Shape { m, k, n, .. } = shape;
        let mut state = 1u32;
        let mut values = |count: usize| -> Vec<f32> {
            let mut value = || {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 8) as f32 / (1 << 23) as f32 - 1.0
            };
            (0..count).map(|_| value()).collect()
        };
        let (x, weight) = (values(m * k), values(k * n));
        let weights = device.buffer_options().category(Category::Weights);
        Ok(Operands {
            shape,
            threads,
            device: device.clone(),
            device_x: device.buffer_from(&x)?,
            device_weight: weights.create_from(&weight)?,
            device_y: device.buffer(m * n)?,
            x,
            weight,
        })
    }

    /// Computes `y`, [m][n]. ironbridge leaves its result on the device.
    fn multiply(&self, name: &str, y: &mut [f32]) -> Result<()> {
        let Shape {
            m,
            k,
            n,
            by_outputs,
        } = self.shape;
        // From row to row and from column to column of the weight as a (k,n) matrix.
        let (down, right) = if by_outputs { (1, k) } else { (n, 1) };
        let (down, right) = (down as isize, right as isize);
        match name {
            "ironbridge" => {
                let mut commands = self.device.commands()?;
                let weight = self.device_weight.tensor();
                commands.matmul(&Matmul::new(
                    self.device_x.matrix(m, k),
                    weight.oriented(k, n, by_outputs),
                    self.device_y.matrix(m, n),
                ))?;
                commands.run()?;
            }
            "gemm" => {
                let parallelism = match self.threads {
                    1 => gemm::Parallelism::None,
                    threads => gemm::Parallelism::Rayon(threads),
                };
                // SAFETY: the operands are as long as the shape and the strides say, and `y` is nobody else's.
                unsafe {
                    gemm::gemm(
                        m,
                        n,
                        k,
                        y.as_mut_ptr(),
                        1,
                        n as isize,
                        false,
                        self.x.as_ptr(),
                        1,
                        k as isize,
                        self.weight.as_ptr(),
                        right,
                        down,
                        0.0,
                        1.0,
                        false,
                        false,
                        false,
                        parallelism,
                    );
                }
            }
            "matrixmultiply" => {
                let (x, weight, k_stride) = (self.x.as_ptr(), self.weight.as_ptr(), k as isize);
                // SAFETY: as above.
                unsafe {
                    matrixmultiply::sgemm(
                        m,
                        k,
                        n,
                        1.0,
                        x,
                        k_stride,
                        1,
                        weight,
                        down,
                        right,
                        0.0,
                        y.as_mut_ptr(),
                        n as isize,
                        1,
                    );
                }
            }
            #[cfg(feature = "onednn")]
            ONEDNN => crate::onednn::multiply((m, k, n), &self.x, &self.weight, by_outputs, y)?,
            _ => {
                let x = faer::MatRef::from_row_major_slice(&self.x, m, k);
                let weight = match by_outputs {
                    true => faer::MatRef::from_column_major_slice(&self.weight, k, n),
                    false => faer::MatRef::from_row_major_slice(&self.weight, k, n),
                };
                let y = faer::MatMut::from_row_major_slice_mut(y, m, n);
                let parallelism = match self.threads {
                    1 => faer::Par::Seq,
                    threads => faer::Par::rayon(threads),
                };
                let replace = faer::Accum::Replace;
                faer::linalg::matmul::matmul(y, replace, x, weight, 1.0, parallelism);
            }
        }
        Ok(())
    }

    fn operations(&self) -> f64 {
        2.0 * (self.shape.m * self.shape.k * self.shape.n) as f64
    }

    /// All must compute the same, but for the order of the sums.
    fn compare(&self) -> Result<()> {
        let mut first = vec![0.0; self.shape.m * self.shape.n];
        self.multiply(NAMES[0], &mut first)?;
        self.device_y.read_into(&mut first)?;
        for name in &names()[1..] {
            let mut other = vec![0.0; first.len()];
            self.multiply(name, &mut other)?;
            let differences = first.iter().zip(&other).map(|(a, b)| (a - b).abs());
            let worst = differences.fold(0.0, f32::max);
            // Sums of k products of up to 1.
            if worst.is_nan() || worst > 1e-6 * self.shape.k as f32 {
                return Err(format!("{name} differs by {worst}").into());
            }
        }
        Ok(())
    }
}

/// All that this program was built with.
fn names() -> Vec<&'static str> {
    let onednn = cfg!(feature = "onednn").then_some(ONEDNN);
    NAMES.into_iter().chain(onednn).collect()
}

/// Prints a line of JSON for each shape and crate, in GFLOP/s, and one for the processor's rate.
pub fn speed(threads: &str, effort: &str) -> Result<()> {
    let threads = threads.parse()?;
    let rounds = if effort == "quick" { 3 } else { 7 };
    let device = Device::open("cpu")?;
    for (index, shape) in SHAPES.into_iter().enumerate() {
        let operands = Operands::new(&device, shape, threads)?;
        operands.compare()?;
        // Beside each shape: a virtual machine's rate drifts.
        thread::sleep(REST);
        let limit = limits::measure_floats(threads);
        let mut y = vec![0.0; shape.m * shape.n];
        let names = names();
        let mut rates = vec![Vec::new(); names.len()];
        for _ in 0..rounds {
            for (name, rates) in names.iter().zip(&mut rates) {
                thread::sleep(REST);
                // The first one wakes threads that sleep.
                operands.multiply(name, &mut y)?;
                let (start, mut times) = (Instant::now(), 0);
                while times == 0 || start.elapsed() < TURN {
                    operands.multiply(name, &mut y)?;
                    times += 1;
                }
                let seconds = start.elapsed().as_secs_f64() / f64::from(times);
                rates.push(operands.operations() / seconds / 1e9);
            }
        }
        for (name, rates) in names.iter().zip(rates) {
            println!(
                "{}",
                json!({
                    "what": "matmul", "shape": index, "threads": threads, "engine": name, "rates": rates, "limit": limit,
                })
            );
        }
    }
    Ok(())
}

/// The part of the report.
pub fn section(lines: &[Value]) -> Result<String> {
    let onednn = lines.iter().any(|line| line["engine"] == ONEDNN);
    let mut text = format!(
        "{HEADING}\nGFLOP/s: medians with ranges. The libraries take turns in one process; ironbridge runs through its facade, with one\n\
         command buffer per product. *Limit* is the share of the processor's multiply-add rate, as the median of measurements\n\
         beside each shape. With the feature `onednn`, oneDNN's `dnnl_sgemm` has a column beside the best of the crates.\n\n\
         | threads | m, k, n | weight | ironbridge | gemm | matrixmultiply | faer | ironbridge ÷ best peer | limit |{}\n\
         | --- | --- | --- | --- | --- | --- | --- | --- | --- |{}\n",
        if onednn {
            " oneDNN | ironbridge ÷ oneDNN |"
        } else {
            ""
        },
        if onednn { " --- | --- |" } else { "" },
    );
    for threads in [1, 2] {
        let mut limits: Vec<f64> = lines
            .iter()
            .filter(|line| line["what"] == "matmul" && line["threads"] == threads)
            .filter_map(|line| line["limit"].as_f64())
            .collect();
        limits.sort_by(f64::total_cmp);
        let limit = limits.get(limits.len() / 2).copied();
        for (index, shape) in SHAPES.iter().enumerate() {
            let of: Vec<&Value> = lines
                .iter()
                .filter(|line| {
                    line["what"] == "matmul" && line["threads"] == threads && line["shape"] == index
                })
                .collect();
            if of.is_empty() {
                continue;
            }
            let Shape { m, k, n, .. } = shape;
            let order = if shape.by_outputs { "(n,k)" } else { "(k,n)" };
            write!(text, "| {threads} | {m}, {k}, {n} | {order} |")?;
            let mut medians = Vec::new();
            for name in NAMES {
                let (median, cell) = cell(&of, name)?;
                write!(text, " {cell} |")?;
                medians.push(median);
            }
            let best = medians[1..].iter().copied().fold(0.0, f64::max);
            write!(text, " **{:.2}** |", medians[0] / best)?;
            match limit {
                Some(limit) => write!(text, " {:.0} % |", medians[0] / limit * 100.0)?,
                None => write!(text, " — |")?,
            }
            if onednn {
                let (median, cell) = cell(&of, ONEDNN)?;
                write!(text, " {cell} | **{:.2}** |", medians[0] / median)?;
            }
            text.push('\n');
        }
    }
    Ok(text)
}

/// The median of what one of them reached, and that with its range.
fn cell(lines: &[&Value], name: &str) -> Result<(f64, String)> {
    let line = lines.iter().find(|line| line["engine"] == name);
    let mut rates: Vec<f64> = line
        .and_then(|line| line["rates"].as_array())
        .into_iter()
        .flatten()
        .filter_map(Value::as_f64)
        .collect();
    rates.sort_by(f64::total_cmp);
    let (Some(least), Some(most)) = (rates.first(), rates.last()) else {
        return Err(format!("no figures of {name}").into());
    };
    let median = rates[rates.len() / 2];
    Ok((median, format!("{median:.1} ({least:.1}–{most:.1})")))
}

/// Writes `section` into the report in place of the one that is there, or at its end.
pub fn replace_section(report: &Path, section: &str) -> Result<()> {
    let text = fs::read_to_string(report)
        .map_err(|error| format!("{}: {error}; a full run writes it", report.display()))?;
    let start = text.find(HEADING).unwrap_or(text.len());
    let after = text[start..].trim_start_matches(HEADING);
    let rest = after.find("\n## ").map_or("", |end| &after[end..]);
    let text = format!(
        "{}\n\n{}\n{rest}",
        text[..start].trim_end(),
        section.trim_end()
    );
    fs::write(report, text.trim_end().to_owned() + "\n")?;
    Ok(())
}
