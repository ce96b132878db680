//! Small matmuls for a long time, 784 × 100 times 100 × 10 (candle issue 2271), from one thread and then from eight,
//! and what the process's memory does meanwhile. `make soak` runs it.
//!
//!     soak COUNT FOLDER [PEER.csv…]
//!
//! COUNT multiplications for each number of threads, 0: only the peers' files; FOLDER gets `soak.csv`, `soak.md` and
//! `soak.svg`. A peer's file has lines of `share done,resident bytes` (see benches/soak-candle), its name is the
//! file's. Fails when memory grew by 1 MiB after the first tenth.

use std::error::Error;
use std::fmt::Write;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use ironbridge::MatmulExecutor;
use ironbridge::memory::process_memory;

const SHAPE: (usize, usize, usize) = (784, 100, 10);
const SAMPLES: usize = 200;
/// What may be allocated for the first time: pipelines, the pool, threads' arenas.
const WARM: f64 = 0.1;
const ALLOWED: u64 = 1 << 20;

struct Run {
    name: String,
    /// (share of the work done, resident bytes).
    samples: Vec<(f64, u64)>,
    seconds: f64,
}

impl Run {
    fn warm(&self) -> impl Iterator<Item = u64> + '_ {
        let warm = self.samples.iter().filter(|(share, _)| *share >= WARM);
        warm.map(|(_, resident)| *resident)
    }

    /// Resident bytes at the end against those when warm.
    fn growth(&self) -> i64 {
        let first = self.warm().next().unwrap_or(0);
        let last = self.warm().last().unwrap_or(0);
        last as i64 - first as i64
    }
}

/// A thread's share of the work, on buffers and a result of its own.
fn multiply(
    executor: &MatmulExecutor,
    done: &AtomicUsize,
    count: usize,
) -> Result<(), ironbridge::Error> {
    let (m, k, n) = SHAPE;
    let (a, b, mut c) = (vec![0.5; m * k], vec![0.25; k * n], vec![0.0; m * n]);
    while done.fetch_add(1, Ordering::Relaxed) < count {
        executor.matmul_f32(&a, &b, &mut c, m, k, n)?;
    }
    assert!(
        c.iter()
            .all(|&value| value == 0.125 * k as f32 || value == 0.0)
    );
    Ok(())
}

fn run(threads: usize, count: usize) -> Result<Run, Box<dyn Error>> {
    let executor = MatmulExecutor::new();
    let done = AtomicUsize::new(0);
    let start = Instant::now();
    let mut samples = Vec::with_capacity(SAMPLES + 1);
    std::thread::scope(|scope| -> Result<(), Box<dyn Error>> {
        let workers: Vec<_> = (0..threads)
            .map(|_| scope.spawn(|| multiply(&executor, &done, count)))
            .collect();
        for sample in 0..=SAMPLES {
            while done.load(Ordering::Relaxed) < count * sample / SAMPLES {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            let share = sample as f64 / SAMPLES as f64;
            samples.push((share, process_memory()?.resident_bytes));
        }
        for worker in workers {
            worker.join().map_err(|_| "a thread panicked")??;
        }
        Ok(())
    })?;
    Ok(Run {
        name: format!(
            "ironbridge, {threads} thread{}",
            if threads == 1 { "" } else { "s" }
        ),
        samples,
        seconds: start.elapsed().as_secs_f64(),
    })
}

fn peer(path: &str) -> Result<Run, Box<dyn Error>> {
    let text = std::fs::read_to_string(path)?;
    let samples: Vec<(f64, u64)> = text
        .lines()
        .map(|line| {
            let (share, resident) = line.split_once(',').ok_or("a line is SHARE,BYTES")?;
            Ok((share.parse()?, resident.parse()?))
        })
        .collect::<Result<_, Box<dyn Error>>>()?;
    let name = Path::new(path).file_stem().unwrap_or_default();
    Ok(Run {
        name: name.to_string_lossy().into_owned(),
        samples,
        seconds: 0.0,
    })
}

fn table(runs: &[Run], count: usize) -> String {
    let (m, k, n) = SHAPE;
    let mut text = format!(
        "{count} multiplications of {m} × {k} by {k} × {n} each; memory is the process's resident set.\n\n"
    );
    text += "| | warm, MiB | most after that, MiB | end, MiB | growth, KiB | µs each |\n| --- | --: | --: | --: | --: | --: |\n";
    for run in runs {
        let mib = |bytes: Option<u64>| bytes.unwrap_or(0) as f64 / f64::from(1 << 20);
        let each = match run.seconds > 0.0 {
            true => format!("{:.1}", run.seconds / count as f64 * 1e6),
            false => "–".into(),
        };
        let _ = writeln!(
            text,
            "| {} | {:.2} | {:.2} | {:.2} | {} | {each} |",
            run.name,
            mib(run.warm().next()),
            mib(run.warm().max()),
            mib(run.warm().last()),
            run.growth() / 1024,
        );
    }
    text
}

fn plot(runs: &[Run]) -> String {
    const WIDTH: f64 = 760.0;
    const HEIGHT: f64 = 300.0;
    const LEFT: f64 = 70.0;
    const TOP: f64 = 30.0;
    const COLOURS: [&str; 5] = ["#0b6e4f", "#1d4e89", "#c1440e", "#7b2d8b", "#555555"];
    let most = runs
        .iter()
        .flat_map(|run| run.samples.iter().map(|(_, bytes)| *bytes))
        .max();
    let top = most.unwrap_or(1) as f64 * 1.1;
    let y = |bytes: f64| TOP + HEIGHT * (1.0 - bytes / top);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
        LEFT + WIDTH + 20.0,
        TOP + HEIGHT + 60.0 + 18.0 * runs.len() as f64
    );
    for step in 0..=4 {
        let bytes = top * f64::from(step) / 4.0;
        let (x0, x1, y) = (LEFT, LEFT + WIDTH, y(bytes));
        let _ = writeln!(
            svg,
            "<path d=\"M{x0} {y:.1}H{x1}\" stroke=\"#ddd\"/><text x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\">{:.0} MiB</text>",
            x0 - 6.0,
            y + 4.0,
            bytes / f64::from(1 << 20)
        );
    }
    for (index, run) in runs.iter().enumerate() {
        let colour = COLOURS[index % COLOURS.len()];
        let points: Vec<String> = run
            .samples
            .iter()
            .map(|(share, bytes)| format!("{:.1},{:.1}", LEFT + WIDTH * share, y(*bytes as f64)))
            .collect();
        let line = TOP + HEIGHT + 44.0 + 18.0 * index as f64;
        let _ = writeln!(
            svg,
            "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\" points=\"{}\"/>\n\
             <path d=\"M{LEFT} {line}h24\" stroke=\"{colour}\" stroke-width=\"3\"/><text x=\"{}\" y=\"{}\">{}</text>",
            points.join(" "),
            LEFT + 32.0,
            line + 4.0,
            run.name
        );
    }
    let _ = writeln!(
        svg,
        "<text x=\"{LEFT}\" y=\"18\">Resident memory over the work done</text><text x=\"{}\" y=\"{}\" text-anchor=\"end\">all of it done</text></svg>",
        LEFT + WIDTH,
        TOP + HEIGHT + 18.0
    );
    svg
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [count, folder, peers @ ..] = arguments.as_slice() else {
        return Err("soak COUNT FOLDER [PEER.csv…]".into());
    };
    let count: usize = count.parse()?;
    let mut runs = Vec::new();
    if count > 0 {
        for threads in [1, 8] {
            runs.push(run(threads, count)?);
        }
    }
    let grown: Vec<String> = runs
        .iter()
        .filter(|run| run.growth() >= ALLOWED as i64)
        .map(|run| format!("{}: memory grew by {} bytes", run.name, run.growth()))
        .collect();
    for path in peers {
        runs.push(peer(path)?);
    }
    std::fs::create_dir_all(folder)?;
    let write = |name: &str, text: String| std::fs::write(Path::new(folder).join(name), text);
    let table = table(&runs, count);
    print!("{table}");
    write("soak.md", table)?;
    write("soak.svg", plot(&runs))?;
    let mut csv = String::from("run,share,resident_bytes\n");
    for run in &runs {
        for (share, resident) in &run.samples {
            let _ = writeln!(csv, "\"{}\",{share},{resident}", run.name);
        }
    }
    write("soak.csv", csv)?;
    match grown.is_empty() {
        true => Ok(()),
        false => Err(grown.join("; ").into()),
    }
}
