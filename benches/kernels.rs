//! How fast the projections of a LLaMA layer are on the software device, through the whole bridge: TinyLlama's shapes,
//! a prompt of 15 tokens, a few and a single one, for each type and layout of weights. All but the output's weights fit
//! a cache.
//!
//! `cargo bench --bench kernels`; `-- q8_0` for the ones whose name has it. `IRONBRIDGE_DEVICE` picks another device.

use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use ironbridge::memory::Category;
use ironbridge::ops::Matmul;
use ironbridge::{Buffer, BufferUsage, DType, Device, Error, WeightMatrix, f16};

const D_MODEL: usize = 2048;
/// (name, outputs)
const PROJECTIONS: [(&str, usize); 3] = [("q", 2048), ("kv", 256), ("output", 32_000)];
const TOKENS: [usize; 4] = [15, 5, 4, 1];
/// (name, type, stored output by input, in a buffer of weights: the device lays their rows out)
const WEIGHTS: [(&str, DType, bool, bool); 17] = [
    ("f32", DType::F32, false, false),
    ("f32_transposed", DType::F32, true, false),
    ("f16_transposed", DType::F16, true, false),
    ("q8_0_transposed", DType::Q8_0, true, false),
    ("q4_0_transposed", DType::Q4_0, true, false),
    ("q4_k_transposed", DType::Q4K, true, false),
    ("q6_k_transposed", DType::Q6K, true, false),
    ("f16_interleaved", DType::F16, true, true),
    ("q8_0_interleaved", DType::Q8_0, true, true),
    ("q4_0_interleaved", DType::Q4_0, true, true),
    ("q4_k_interleaved", DType::Q4K, true, true),
    ("q6_k_interleaved", DType::Q6K, true, true),
    ("q2_k_interleaved", DType::Q2K, true, true),
    ("q3_k_interleaved", DType::Q3K, true, true),
    ("iq4_nl_interleaved", DType::Iq4Nl, true, true),
    ("iq4_xs_interleaved", DType::Iq4Xs, true, true),
    ("mxfp4_interleaved", DType::Mxfp4, true, true),
];

/// `count` weights of no special values.
fn weights(dtype: DType, count: usize) -> Vec<u8> {
    let value = |i: usize| (i % 61) as f32 / 61.0 - 0.5;
    match dtype {
        DType::F32 => (0..count).flat_map(|i| value(i).to_le_bytes()).collect(),
        DType::F16 => (0..count)
            .flat_map(|i| f16::from_f32(value(i)).to_le_bytes())
            .collect(),
        DType::Q8_0 => blocks(count / 32, &[0], 34),
        DType::Q4_0 => blocks(count / 32, &[0], 18),
        DType::Q2K => blocks(count / 256, &[80, 82], 84),
        DType::Q3K => blocks(count / 256, &[108], 110),
        DType::Q4K => blocks(count / 256, &[0, 2], 144),
        DType::Q6K => blocks(count / 256, &[208], 210),
        DType::Iq4Nl => blocks(count / 32, &[0], 18),
        DType::Iq4Xs => blocks(count / 256, &[0], 136),
        // A block's first byte is its power of two.
        DType::Mxfp4 => [&[120][..], &[0x5a; 16]].concat().repeat(count / 32),
        _ => unreachable!("no such weights here"),
    }
}

/// Blocks of some length with scales in some places.
fn blocks(count: usize, scales: &[usize], length: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..count * length).map(|i| (i % 251) as u8).collect();
    for block in bytes.chunks_mut(length) {
        for scale in scales {
            block[*scale..scale + 2].copy_from_slice(&f16::from_f32(0.01).to_le_bytes());
        }
    }
    bytes
}

/// A buffer of weights with one matrix.
fn written(device: &Device, rows: usize, dtype: DType, bytes: &[u8]) -> Result<Buffer<u8>, Error> {
    let buffer = device
        .buffer_options()
        .usage(BufferUsage::Weights)
        .category(Category::Weights)
        .create(bytes.len())?;
    buffer.write_weights(&WeightMatrix::new(rows, D_MODEL, dtype), 0, bytes)?;
    Ok(buffer)
}

fn projections(criterion: &mut Criterion) {
    let device = Device::open("default").expect("there is always the software device");
    for (projection, outputs) in PROJECTIONS {
        for tokens in TOKENS {
            let mut group = criterion.benchmark_group(format!("{projection}/{tokens}_tokens"));
            group.throughput(Throughput::Elements(
                (2 * tokens * outputs * D_MODEL) as u64,
            ));
            for (name, dtype, transpose_b, laid_out) in WEIGHTS {
                let x = device
                    .buffer_from(&vec![0.5f32; tokens * D_MODEL])
                    .expect("memory");
                let bytes = weights(dtype, outputs * D_MODEL);
                let w = match laid_out {
                    true => written(&device, outputs, dtype, &bytes),
                    false => device.buffer_from(&bytes),
                };
                let w = w.expect("memory");
                let y = device.buffer::<f32>(tokens * outputs).expect("memory");
                group.bench_function(BenchmarkId::from_parameter(name), |bencher| {
                    bencher.iter(|| {
                        let mut commands = device.commands().expect("commands");
                        let matmul = Matmul::new(
                            x.matrix(tokens, D_MODEL),
                            w.tensor_at(0, dtype)
                                .oriented(D_MODEL, outputs, transpose_b),
                            y.matrix(tokens, outputs),
                        );
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
