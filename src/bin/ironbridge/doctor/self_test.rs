//! A short load of the bridge, with a verdict: right values, nothing left, and a kernel from source where that is
//! possible.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use ironbridge::kernel::{Argument, Dispatch, Grid, Library};
use ironbridge::stress::QkvStress;
use ironbridge::{Device, Result};
use serde_json::{Value, json};

use crate::terminal::progress;

const SOURCE: &str = "#include <metal_stdlib>
using namespace metal;
kernel void twice(device const float *x [[buffer(0)]], device float *y [[buffer(1)]],
                  uint i [[thread_position_in_grid]]) {
  y[i] = 2 * x[i];
}
";

pub struct SelfTest {
    pub device: String,
    pub matmuls: u64,
    pub values: u64,
    pub gflops: f64,
    pub elapsed: Duration,
    /// Whether a kernel was compiled from source; `None` when nothing on this machine can.
    pub compiled: Option<bool>,
    /// What failed, a sentence each.
    pub problems: Vec<String>,
}

/// Loads the bridge until `limit` has passed, but at least once.
pub fn run(device: &str, limit: Duration, compiler: bool) -> Result<SelfTest> {
    let start = Instant::now();
    let bar = progress(limit.as_millis() as u64, "testing {bar:40} {percent}%");
    let mut test = SelfTest {
        device: String::new(),
        matmuls: 0,
        values: 0,
        gflops: 0.0,
        elapsed: Duration::ZERO,
        compiled: None,
        problems: Vec::new(),
    };
    let mut busy = Duration::ZERO;
    let mut operations = 0.0;
    while test.problems.is_empty() && (test.matmuls == 0 || start.elapsed() < limit) {
        let mut stress = QkvStress::default();
        stress.device = device.into();
        stress.layers = 4;
        stress.rounds = 8;
        stress.threads = 1 + usize::from(test.matmuls > 0); // alone first, then two at once
        let show = |_| bar.set_position(start.elapsed().as_millis() as u64);
        let report = stress.run(&show)?;
        test.problems.extend(report.problems());
        test.device.clone_from(&report.device);
        test.matmuls += report.matmuls;
        test.values += report.values;
        operations += report.gflops * report.elapsed.as_secs_f64();
        busy += report.elapsed;
    }
    test.gflops = operations / busy.as_secs_f64().max(1e-9);
    let device = Device::open(device)?;
    // Apple's Metal compiles by itself.
    if compiler || device.info()?.kind == ironbridge::DeviceKind::Metal {
        test.compiled = Some(match twice(&device) {
            Ok(true) => true,
            Ok(false) => {
                test.problems
                    .push("a kernel compiled from source gave wrong values".into());
                false
            }
            Err(error) => {
                test.problems
                    .push(format!("a kernel could not be compiled: {error}"));
                false
            }
        });
    }
    test.elapsed = start.elapsed();
    bar.finish_and_clear();
    Ok(test)
}

/// Whether a kernel from source doubles numbers.
fn twice(device: &Device) -> Result<bool> {
    let kernel = Library::from_source(device, SOURCE)?.kernel("twice")?;
    let numbers: Vec<f32> = (0..100u8).map(f32::from).collect();
    let x = device.buffer_from(&numbers)?;
    let y = device.buffer::<f32>(numbers.len())?;
    let arguments = [Argument::read(0, &x), Argument::write(1, &y)];
    let mut commands = device.commands()?;
    // SAFETY: a thread for each element, of which both buffers have as many.
    unsafe {
        commands.dispatch(
            &kernel,
            &Dispatch {
                arguments: &arguments,
                grid: Grid::Threads([numbers.len() as u32, 1, 1]),
                threadgroup: [32, 1, 1],
            },
        )?;
    }
    commands.run()?;
    let expected = numbers.iter().map(|number| 2.0 * number);
    Ok(y.to_vec()?.into_iter().eq(expected))
}

impl SelfTest {
    pub fn print(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(
            out,
            "tested      {}: {} matmuls in {:.1} s, {:.1} GFLOP/s, {} values compared with float64",
            self.device,
            self.matmuls,
            self.elapsed.as_secs_f64(),
            self.gflops,
            self.values
        )?;
        writeln!(
            out,
            "            a kernel from source: {}",
            match self.compiled {
                Some(true) => "compiled, right",
                Some(false) => "FAILED",
                None => "not tried, there is no compiler",
            }
        )
    }

    pub fn json(&self) -> Value {
        json!({
            "device": self.device,
            "matmuls": self.matmuls,
            "values": self.values,
            "gflops": self.gflops,
            "seconds": self.elapsed.as_secs_f64(),
            "kernel_from_source": self.compiled,
        })
    }
}
