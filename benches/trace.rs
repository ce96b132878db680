//! What the trace costs: 100 operations that do next to nothing, recorded, committed and waited for, while nobody
//! listens and while a hook does. With IRONBRIDGE_MEM_TRACE=/a/file both write lines as well.
//!
//! `cargo bench --bench trace`

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use ironbridge::memory::set_trace_hook;
use ironbridge::ops::Elementwise;
use ironbridge::{Device, Error};

const OPERATIONS: u64 = 100;

fn record(device: &Device, buffer: &ironbridge::Buffer<f32>) -> Result<(), Error> {
    let (a, b, out) = (buffer.tensor(), buffer.tensor(), buffer.tensor());
    let mut commands = device.commands()?;
    for _ in 0..OPERATIONS {
        commands.add(&Elementwise::new(a.vector(4), b.vector(4), out.vector(4)))?;
    }
    commands.run()
}

fn trace(criterion: &mut Criterion) {
    let device = Device::open("default").expect("there is always the software device");
    let buffer = device.buffer::<f32>(4).expect("16 bytes");
    let mut group = criterion.benchmark_group("100_operations");
    group.throughput(Throughput::Elements(OPERATIONS));
    group.bench_function("nobody_listens", |bencher| {
        bencher.iter(|| record(&device, &buffer).expect("valid"));
    });
    set_trace_hook(Some(Box::new(|event| {
        black_box(event);
    })));
    group.bench_function("hook", |bencher| {
        bencher.iter(|| record(&device, &buffer).expect("valid"));
    });
    set_trace_hook(None);
    group.finish();
}

criterion_group!(benches, trace);
criterion_main!(benches);
