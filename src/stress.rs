//! The load that broke other bridges, as a library: sequential Q, K and V matmuls for as long as you like, with every
//! value checked and everything counted before and after.
//!
//! The shapes are TinyLlama-1.1B's attention projections over a prompt of 15 tokens: per layer one `15 × 2048 · 2048 ×
//! 2048` and two `15 × 2048 · 2048 × 256`, each committed and waited for by itself. `ironbridge stress qkv` is this
//! with a report on the terminal.

mod projections;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::device::{Device, DeviceInfo, DeviceKind};
use crate::diagnostics::{diagnose, live_objects};
use crate::error::{Error, Result, Status};
use crate::memory::{Category, process_memory};

use projections::{Layer, Reference, Worker};

/// How far resident memory may drift after the warm-up without counting as growth.
pub const RESIDENT_GROWTH_LIMIT: u64 = 1 << 20;

/// What to run.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct QkvStress {
    /// The selector of [`Device::open`].
    pub device: String,
    /// How many devices are opened with it, each with weights of its own. At most `threads`.
    pub devices: usize,
    /// Layers, each with weights of its own.
    pub layers: usize,
    /// Tokens: rows of every matmul.
    pub seq: usize,
    /// Elements of a token, and of a query.
    pub d_model: usize,
    /// Elements of a key and of a value.
    pub kv_dim: usize,
    /// How often each thread goes through all layers, the warm-up not counted.
    pub rounds: u64,
    /// Rounds of the warm-up, after which nothing may grow.
    pub warm_up: u64,
    /// Threads that work at once, taking the devices in turn.
    pub threads: usize,
    /// Q, K and V of a layer in one commit and not in one each.
    pub together: bool,
    /// Where the random operands start.
    pub seed: u64,
}

impl Default for QkvStress {
    /// TinyLlama-1.1B with 15 tokens: 10 rounds on one thread.
    fn default() -> Self {
        QkvStress {
            device: "default".into(),
            devices: 1,
            layers: 22,
            seq: 15,
            d_model: 2048,
            kv_dim: 256,
            rounds: 10,
            warm_up: 2,
            threads: 1,
            together: false,
            seed: 1,
        }
    }
}

/// What the process and the devices held at one moment, with nothing in flight.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Figures {
    /// Resident memory of the process, bytes.
    pub resident_bytes: u64,
    /// What the devices say is allocated on them, bytes.
    pub device_bytes: u64,
    /// What ironbridge has on them by its own accounts, bytes.
    pub accounted_bytes: u64,
    /// Idle memory in the devices' pools, bytes.
    pub pool_bytes: u64,
    /// Buffers alive on the devices.
    pub buffers: u64,
    /// Handles given out and not given back.
    pub live_handles: i64,
    /// Live Objective-C objects of ironbridge's, by class.
    pub live_objects: BTreeMap<String, i64>,
    /// Objects autoreleased with no pool in place, since the process started; `None` where the runtime cannot tell.
    pub autoreleased_without_pool: Option<i64>,
}

/// What a run found.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct QkvReport {
    /// The devices' name.
    pub device: String,
    /// What kind of devices they are.
    pub kind: DeviceKind,
    /// Before any device was opened.
    pub start: Figures,
    /// After the warm-up.
    pub warm: Figures,
    /// After the last round.
    pub end: Figures,
    /// After everything was dropped.
    pub closed: Figures,
    /// Matmuls after the warm-up.
    pub matmuls: u64,
    /// Values that were compared with the float64 reference, the warm-up's included.
    pub values: u64,
    /// Values that were further from it than [`QkvReport::TOLERANCE`].
    pub wrong: u64,
    /// The largest distance, as a fraction of the root mean square of the reference matrix.
    pub worst_error: f64,
    /// Buffers that the run made itself.
    pub own_buffers: u64,
    /// How long the rounds took.
    pub elapsed: Duration,
    /// Floating-point operations per second of the rounds, in billions.
    pub gflops: f64,
}

impl QkvReport {
    /// The largest error that counts as right, as a fraction of the root mean square of the reference matrix. The
    /// rounding errors of an f32 sum of 2048 products stay an order of magnitude below.
    pub const TOLERANCE: f64 = 1e-4;

    /// Resident memory gained since the warm-up, bytes.
    pub fn resident_growth(&self) -> u64 {
        self.end
            .resident_bytes
            .saturating_sub(self.warm.resident_bytes)
    }

    /// What grew or was wrong, a sentence each. Empty when all is well.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let mut expect = |holds: bool, sentence: String| {
            if !holds {
                problems.push(sentence);
            }
        };
        expect(self.values > 0, "nothing was compared".into());
        expect(
            self.wrong == 0,
            format!("{} of {} values are wrong", self.wrong, self.values),
        );
        expect(
            self.resident_growth() <= RESIDENT_GROWTH_LIMIT,
            format!(
                "resident memory grew by {} bytes after the warm-up",
                self.resident_growth()
            ),
        );
        expect(
            self.end.autoreleased_without_pool == self.start.autoreleased_without_pool,
            format!(
                "{} objects were autoreleased with no pool in place",
                self.end.autoreleased_without_pool.unwrap_or(0)
                    - self.start.autoreleased_without_pool.unwrap_or(0)
            ),
        );
        expect(
            self.end.buffers == self.own_buffers,
            format!(
                "{} buffers are alive where the run made {}",
                self.end.buffers, self.own_buffers
            ),
        );
        for (earlier, later, when) in [
            (&self.warm, &self.end, "between the warm-up and the end"),
            (&self.start, &self.closed, "between the start and the close"),
        ] {
            expect(
                later.live_handles <= earlier.live_handles,
                format!(
                    "live handles went from {} to {} {when}",
                    earlier.live_handles, later.live_handles
                ),
            );
            for (class, &live) in &later.live_objects {
                let before = earlier.live_objects.get(class).copied().unwrap_or(0);
                expect(
                    live <= before,
                    format!("live {class} objects went from {before} to {live} {when}"),
                );
            }
            for (name, before, after) in [
                ("device", earlier.device_bytes, later.device_bytes),
                ("accounted", earlier.accounted_bytes, later.accounted_bytes),
                ("pool", earlier.pool_bytes, later.pool_bytes),
            ] {
                // Metal's figure of a GPU holds what its driver and everybody else in the process has there.
                let is_everybodys = name == "device" && self.kind == DeviceKind::Metal;
                expect(
                    is_everybodys || after <= before,
                    format!("{name} bytes went from {before} to {after} {when}"),
                );
            }
        }
        problems
    }
}

impl QkvStress {
    /// Runs it. `progress` is called with the rounds done so far by all threads, warm-up included, from any of them.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] when a size is zero, and whatever opening, allocating and running return. What grew
    /// or was wrong is not an error but in [`QkvReport::problems`].
    pub fn run(&self, progress: &(dyn Fn(u64) + Sync)) -> Result<QkvReport> {
        self.check()?;
        let start = figures(&[])?;
        let devices = (0..self.devices)
            .map(|_| Device::open(&self.device))
            .collect::<Result<Vec<_>>>()?;
        let DeviceInfo { name, kind, .. } = devices[0].info()?;
        let references = (0..self.layers)
            .map(|layer| Reference::random(self, layer as u64))
            .collect::<Vec<_>>();
        let layers = devices
            .iter()
            .map(|device| {
                references
                    .iter()
                    .map(|reference| Layer::new(device, reference))
                    .collect()
            })
            .collect::<Result<Vec<Vec<Layer>>>>()?;
        let mut workers = (0..self.threads)
            .map(|thread| {
                Worker::new(
                    self,
                    &devices[thread % self.devices],
                    &layers[thread % self.devices],
                    &references,
                )
            })
            .collect::<Result<Vec<_>>>()?;

        let done = AtomicU64::new(0);
        let mut go = |rounds: u64| -> Result<()> {
            let after_round = || progress(done.fetch_add(1, Ordering::Relaxed) + 1);
            thread::scope(|scope| {
                let running: Vec<_> = workers
                    .iter_mut()
                    .map(|worker| {
                        scope.spawn(|| {
                            (0..rounds).try_for_each(|_| worker.round().inspect(|()| after_round()))
                        })
                    })
                    .collect();
                // Every thread is joined before the first failure is returned.
                let results: Vec<Result<()>> = running
                    .into_iter()
                    .map(|thread| {
                        thread
                            .join()
                            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
                    })
                    .collect();
                results.into_iter().collect()
            })
        };
        go(self.warm_up)?;
        let warm = figures(&devices)?;
        let clock = Instant::now();
        go(self.rounds)?;
        let elapsed = clock.elapsed();
        let end = figures(&devices)?;

        let (values, wrong, worst_error) =
            workers
                .iter()
                .fold((0, 0, 0.0_f64), |(values, wrong, worst), worker| {
                    (
                        values + worker.values,
                        wrong + worker.wrong,
                        worst.max(worker.worst_error),
                    )
                });
        // Borrowers first.
        drop(workers);
        drop(layers);
        drop(references);
        drop(devices);
        let closed = figures(&[])?;

        let passes = self.rounds * self.threads as u64 * self.layers as u64;
        let operations = 2.0
            * (self.seq * self.d_model * (self.d_model + 2 * self.kv_dim)) as f64
            * passes as f64;
        Ok(QkvReport {
            device: name,
            kind,
            start,
            warm,
            end,
            closed,
            matmuls: 3 * passes,
            values,
            wrong,
            worst_error,
            own_buffers: (self.devices * self.layers * Layer::BUFFERS
                + self.threads * Worker::BUFFERS) as u64,
            elapsed,
            gflops: operations / elapsed.as_secs_f64() / 1e9,
        })
    }

    fn check(&self) -> Result<()> {
        for (name, value) in [
            ("devices", self.devices as u64),
            ("layers", self.layers as u64),
            ("seq", self.seq as u64),
            ("d_model", self.d_model as u64),
            ("kv_dim", self.kv_dim as u64),
            ("rounds", self.rounds),
            ("warm_up", self.warm_up),
            ("threads", self.threads as u64),
        ] {
            if value == 0 {
                return Err(invalid(format!("{name} must not be 0")));
            }
        }
        if self.devices > self.threads {
            return Err(invalid(format!(
                "{} devices need as many threads, not {}",
                self.devices, self.threads
            )));
        }
        Ok(())
    }
}

fn invalid(message: String) -> Error {
    Error::new("QkvStress::run", Status::InvalidArgument, message)
}

/// The figures once nothing runs any more: a device lets go of a command buffer a moment after its completion was
/// reported, so this waits, a second at most, until the number of live objects stands still.
fn figures(devices: &[Device]) -> Result<Figures> {
    for device in devices {
        device.sync()?;
    }
    let deadline = Instant::now() + Duration::from_secs(1);
    let mut objects = live_objects()?;
    loop {
        thread::sleep(Duration::from_millis(20));
        let later = live_objects()?;
        if later == objects || Instant::now() > deadline {
            break;
        }
        objects = later;
    }
    let diagnostics = diagnose()?;
    let mut figures = Figures {
        resident_bytes: process_memory()?.resident_bytes,
        live_handles: diagnostics.live_handles,
        live_objects: live_objects()?,
        autoreleased_without_pool: diagnostics.autoreleased_without_pool,
        ..Figures::default()
    };
    for device in devices {
        let memory = device.memory()?;
        figures.device_bytes += memory.device_bytes;
        let accounted = memory.device_bytes as i64 - memory.unaccounted_bytes;
        figures.accounted_bytes += u64::try_from(accounted).unwrap_or(0);
        figures.pool_bytes += memory.pool_bytes;
        figures.buffers += memory
            .categories()
            .filter(|(category, _)| {
                !matches!(
                    category,
                    Category::Pool | Category::Pipelines | Category::Queues
                )
            })
            .map(|(_, usage)| usage.count)
            .sum::<u64>();
    }
    Ok(figures)
}
