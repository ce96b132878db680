//! How fast the projections of a LLaMA layer are on the software device, through the whole bridge: TinyLlama's shapes, a prompt of 15 tokens and a
//! single token, for each type and layout of weights.
//!
//! `cargo bench --bench kernels`; `-- q8_0` for the ones whose name has it. `IRONBRIDGE_DEVICE` picks another device.

use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use ironbridge::ops::Matmul;
use ironbridge::{Device, Dtype, f16};

const D_MODEL: usize = 2048;
/// (name, outputs)
const PROJECTIONS: [(&str, usize); 2] = [("q", 2048), ("kv", 256)];
const TOKENS: [usize; 2] = [15, 1];
/// (name, type, stored output by input)
const WEIGHTS: [(&str, Dtype, bool); 4] = [
    ("f32", Dtype::F32, false),
    ("f32_transposed", Dtype::F32, true),
    ("f16_transposed", Dtype::F16, true),
    ("q8_0_transposed", Dtype::Q8_0, true),
];

/// `count` weights of no special values.
fn weights(dtype: Dtype, count: usize) -> Vec<u8> {
    let value = |i: usize| (i % 61) as f32 / 61.0 - 0.5;
    match dtype {
        Dtype::F32 => (0..count).flat_map(|i| value(i).to_le_bytes()).collect(),
        Dtype::F16 => (0..count)
            .flat_map(|i| f16::from_f32(value(i)).to_le_bytes())
            .collect(),
        Dtype::Q8_0 => (0..count / 32)
            .flat_map(|block| {
                let scale = f16::from_f32(0.01).to_le_bytes();
                let quants = (0..32).map(move |i| ((block * 32 + i) % 251) as u8);
                scale.into_iter().chain(quants)
            })
            .collect(),
        _ => unreachable!("no such weights here"),
    }
}

fn projections(criterion: &mut Criterion) {
    let device = Device::open("default").expect("there is always the software device");
    for (projection, outputs) in PROJECTIONS {
        for tokens in TOKENS {
            let mut group = criterion.benchmark_group(format!("{projection}/{tokens}_tokens"));
            group.throughput(Throughput::Elements(
                (2 * tokens * outputs * D_MODEL) as u64,
            ));
            for (name, dtype, transpose_b) in WEIGHTS {
                let x = device
                    .buffer_from(&vec![0.5f32; tokens * D_MODEL])
                    .expect("memory");
                let w = device
                    .buffer_from(&weights(dtype, outputs * D_MODEL))
                    .expect("memory");
                let y = device.buffer::<f32>(tokens * outputs).expect("memory");
                group.bench_function(BenchmarkId::from_parameter(name), |bencher| {
                    bencher.iter(|| {
                        let mut commands = device.commands().expect("commands");
                        let matmul = Matmul {
                            m: tokens,
                            n: outputs,
                            k: D_MODEL,
                            a: x.tensor(),
                            b: w.tensor_at(0, dtype),
                            c: y.tensor(),
                            transpose_b,
                            ..Default::default()
                        };
                        commands.matmul(black_box(&matmul)).expect("good operands");
                        commands
                            .commit()
                            .expect("a queue")
                            .wait()
                            .expect("no failure");
                    });
                });
            }
        }
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20).measurement_time(Duration::from_secs(2));
    targets = projections
}
criterion_main!(benches);
