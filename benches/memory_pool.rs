//! A buffer made and dropped: one that the pool has, one that it has not, and one past the pool.
//!
//! `cargo bench --bench memory_pool`

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use ironbridge::memory::{Category, IdlePolicy, MemoryReport, MemorySettings};
use ironbridge::{Device, Result};

/// Bytes: small arguments, the activations of a token, those of a prompt.
const SIZES: [usize; 3] = [256, 64 << 10, 4 << 20];

/// How the pool is set up, and which of its counters must go up.
struct Case {
    name: &'static str,
    settings: fn(&mut MemorySettings),
    /// Each buffer is so many times as large as the one before, and as the one after.
    alternates: usize,
    counter: fn(&MemoryReport) -> u64,
}

const CASES: [Case; 3] = [
    Case {
        name: "hit",
        settings: |_| (),
        alternates: 1,
        counter: |memory| memory.pool_hits,
    },
    // The pool keeps one buffer, always of the other size.
    Case {
        name: "miss",
        settings: |settings| settings.pool_max_buffers = Some(1),
        alternates: 2,
        counter: |memory| memory.pool_misses,
    },
    Case {
        name: "bypass",
        settings: |settings| settings.pool_policy = IdlePolicy::Release,
        alternates: 1,
        counter: |memory| memory.pool_bypasses,
    },
];

fn device(case: &Case) -> Result<Device> {
    let device = Device::open("default")?;
    let mut settings = device.memory_settings()?;
    (case.settings)(&mut settings);
    device.set_memory_settings(&settings)?;
    Ok(device)
}

fn memory_pool(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("memory_pool");
    group.throughput(Throughput::Elements(1));
    for case in CASES {
        let device = device(&case).expect("there is always the software device");
        let counter = || (case.counter)(&device.memory().expect("a live device"));
        for bytes in SIZES {
            let mut large = false;
            let mut make_and_drop = || {
                large = !large;
                let bytes = if large {
                    bytes * case.alternates
                } else {
                    bytes
                };
                let buffer = device.buffer_options().category(Category::Activations);
                buffer.pooled().create::<u8>(bytes).expect("memory");
            };
            make_and_drop();
            let before = counter();
            group.bench_function(BenchmarkId::new(case.name, bytes), |bencher| {
                bencher.iter(&mut make_and_drop);
            });
            assert!(counter() > before, "{} of {bytes} bytes", case.name);
        }
    }
    group.finish();
}

criterion_group!(benches, memory_pool);
criterion_main!(benches);
