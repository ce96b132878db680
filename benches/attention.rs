//! How fast attention over a cache is on the software device, through the whole bridge: a prompt and single tokens
//! after many, with keys that eight, four and one of the heads share.
//!
//! `cargo bench --bench attention`; `-- f16` for the ones whose name has it. `IRONBRIDGE_DEVICE` picks another device.

use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use ironbridge::ops::Attention;
use ironbridge::{DType, Device, f16};

/// Those of a query, and elements of each.
const HEADS: usize = 32;
const HEAD_DIM: usize = 64;
/// (name, tokens, position of the first one)
const TEXTS: [(&str, usize, usize); 4] = [
    ("prompt_512", 512, 0),
    ("prompt_15", 15, 0),
    ("token_256", 1, 255),
    ("token_2048", 1, 2047),
];
const KV_HEADS: [usize; 3] = [4, 8, 32];

fn attention(criterion: &mut Criterion) {
    let device = Device::open("default").expect("there is always the software device");
    for (text, tokens, first_position) in TEXTS {
        for kv_heads in KV_HEADS {
            let mut group = criterion.benchmark_group(format!("{text}/{kv_heads}_kv_heads"));
            // Multiplications and additions of the keys and values that are seen.
            let seen: usize = (1..=tokens).map(|token| first_position + token).sum();
            group.throughput(Throughput::Elements((4 * seen * HEADS * HEAD_DIM) as u64));
            let value = |i: usize| (i % 61) as f32 / 61.0 - 0.5;
            let width = HEADS * HEAD_DIM;
            let q: Vec<f32> = (0..tokens * width).map(value).collect();
            let q = device.buffer_from(&q).expect("memory");
            let out = device.buffer::<f32>(tokens * width).expect("memory");
            let cached = (first_position + tokens) * kv_heads * HEAD_DIM;
            let wide: Vec<u8> = (0..cached).flat_map(|i| value(i).to_le_bytes()).collect();
            let half = |i| f16::from_f32(value(i)).to_le_bytes();
            let half: Vec<u8> = (0..cached).flat_map(half).collect();
            for (name, dtype, bytes) in [("f32", DType::F32, wide), ("f16", DType::F16, half)] {
                let [k, v] = [(), ()].map(|()| device.buffer_from(&bytes).expect("memory"));
                group.bench_function(BenchmarkId::from_parameter(name), |bencher| {
                    bencher.iter(|| {
                        let mut commands = device.commands().expect("commands");
                        let attention = Attention::new(
                            q.matrix(tokens, HEADS * HEAD_DIM),
                            k.tensor_at(0, dtype)
                                .matrix(first_position + tokens, kv_heads * HEAD_DIM),
                            v.tensor_at(0, dtype)
                                .matrix(first_position + tokens, kv_heads * HEAD_DIM),
                            out.matrix(tokens, HEADS * HEAD_DIM),
                            HEAD_DIM,
                        );
                        commands
                            .attention(black_box(&attention))
                            .expect("good operands");
                        commands.run().expect("no failure");
                    });
                });
            }
        }
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(20)
        .measurement_time(Duration::from_secs(1))
        .warm_up_time(Duration::from_millis(300));
    targets = attention
}
criterion_main!(benches);
