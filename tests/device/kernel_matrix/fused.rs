//! Operations that a GPU does in one kernel when they follow each other: everything that they write is what they write
//! in command buffers of their own, where nothing can be joined.

use std::collections::BTreeSet;

use ironbridge::ops::{CopyRows, Elementwise, Matmul, RmsNorm, Rope, RopePairing};
use ironbridge::{ActivationPrecision, Commands, DType, Device, Result, Tensor};
use serial_test::serial;

use crate::kernel_matrix::joined::kernels_of;
use crate::kernel_matrix::typed::{Typed, weights};
use crate::support::numbers;

const DTYPES: [DType; 6] = [
    DType::Q4_0,
    DType::Q8_0,
    DType::Q4K,
    DType::Q6K,
    DType::F16,
    DType::Bf16,
];
/// Those whose activations may be rounded to bytes.
const BLOCKS: &[DType] = DTYPES.first_chunk::<4>().expect("six");
/// What products are allowed, of which types, and by how much of the largest their results then differ when a norm is
/// joined: activations are rounded before its factor or behind it, and a few by another unit, which is 1/127 of the
/// largest of 32.
const PRECISIONS: [(ActivationPrecision, &[DType], f32); 2] = [
    (ActivationPrecision::Float, &DTYPES, 2e-4),
    (ActivationPrecision::Bytes, BLOCKS, 6e-3),
];
/// Of a row, and of one between a gate and what is added to the row: whole vectors of 16 bytes in each type.
const WIDTH: usize = 2048;

/// GPUs of few and of many cores.
fn devices() -> Vec<Device> {
    let mut all = devices_of_many_cores();
    if tested_gpu().is_none() {
        all.insert(0, opened("cpu:cores=8"));
    }
    all
}

/// Devices of many cores: the processor that is given their kernels, with little and with much threadgroup memory, or
/// the GPU that is to be tested.
pub fn devices_of_many_cores() -> Vec<Device> {
    let processors = ["cpu:cores=132", "cpu:cores=132,threadgroup_memory=227"];
    match tested_gpu() {
        Some(gpu) => vec![opened(&gpu)],
        None => processors.map(opened).to_vec(),
    }
}

fn tested_gpu() -> Option<String> {
    let gpu = std::env::var("IRONBRIDGE_DEVICE").ok();
    gpu.filter(|device| device.starts_with("nvidia"))
}

fn opened(selector: &str) -> Device {
    Device::open(selector).unwrap_or_else(|error| panic!("{selector}: {error}"))
}

/// The row of floats after the operations that `record` records for it, with operations joined and without. The row
/// has the inputs in front and room for `room` more.
fn both_ways(
    device: &Device,
    inputs: &[f32],
    room: usize,
    weights: &Typed,
    precision: ActivationPrecision,
    record: &dyn Fn(&mut Commands, Tensor<'_>, Tensor<'_>) -> Result<()>,
) -> [Vec<f32>; 2] {
    let mut start = inputs.to_vec();
    start.resize(inputs.len() + room, 7.0);
    let matrix = device.buffer_from(&weights.bytes).expect("memory");
    [0, 1].map(|operations| {
        let row = device.buffer_from(&start).expect("memory");
        let options = device.commands_options().max_operations(operations);
        let mut commands = options
            .activations(precision)
            .begin()
            .expect("the device is open");
        record(
            &mut commands,
            row.tensor(),
            matrix.tensor_at(0, weights.dtype),
        )
        .expect("they fit");
        commands.run().expect("they can be computed");
        row.to_vec().expect("it is complete")
    })
}

/// Activations of a joined norm are rounded before its factor, so that products differ by some of their roundings: each
/// is at most 1 / 32512 of the largest in its block, and their sum over a row grows like its root.
fn assert_close(results: [Vec<f32>; 2], what: &str) {
    assert_within(2e-4, results, what);
}

/// `tolerance`: of the largest.
fn assert_within(tolerance: f32, [joined, apart]: [Vec<f32>; 2], what: &str) {
    let largest = apart
        .iter()
        .fold(0.0f32, |most, value| most.max(value.abs()));
    for (place, (joined, apart)) in joined.iter().zip(&apart).enumerate() {
        let close = joined == apart || (joined - apart).abs() <= tolerance * largest;
        assert!(close, "{what}: element {place} is {joined}, not {apart}");
    }
}

/// How many shapes or places a precision is tried with: all of them once, since they are no kernel's own.
fn ways(precision: ActivationPrecision, few: usize) -> usize {
    match precision {
        ActivationPrecision::Bytes => few,
        _ => usize::MAX,
    }
}

/// Each precision with each of its types, and the tolerance.
fn precisions() -> impl Iterator<Item = (ActivationPrecision, DType, f32)> {
    let of_types = |(precision, dtypes, tolerance): (_, &'static [DType], _)| {
        dtypes
            .iter()
            .map(move |dtype| (precision, *dtype, tolerance))
    };
    PRECISIONS.into_iter().flat_map(of_types)
}

fn product<'a>(n: usize, a: Tensor<'a>, b: Tensor<'a>, c: Tensor<'a>) -> Matmul<'a> {
    Matmul::new(
        a.matrix(1, WIDTH),
        b.matrix(n, WIDTH).transposed(),
        c.matrix(1, n),
    )
}

#[test]
#[serial]
fn a_norm_its_product_and_a_gate() {
    for device in devices() {
        for (precision, dtype, tolerance) in precisions() {
            let inputs = numbers(2 * WIDTH, 3);
            // Rows that are no multiple of the cores' tiles, and one more for a bias.
            for half in [16, 12, 544].into_iter().take(ways(precision, 2)) {
                let weights = Typed::made_up(dtype, 2 * half * WIDTH, 4);
                let results = both_ways(
                    &device,
                    &inputs,
                    WIDTH + 2 * half,
                    &weights,
                    precision,
                    &|commands, row, b| {
                        let (normed, gate) = (row.skip(2 * WIDTH), row.skip(3 * WIDTH));
                        commands.rms_norm(&RmsNorm::new(
                            row.matrix(1, WIDTH),
                            row.skip(WIDTH).vector(WIDTH),
                            normed.matrix(1, WIDTH),
                            1e-5,
                        ))?;
                        commands.matmul(&product(2 * half, normed, b, gate))?;
                        commands.silu_mul(&Elementwise::new(
                            gate.vector(half),
                            gate.skip(half).vector(half),
                            gate.vector(half),
                        ))
                    },
                );
                assert!(results[0][2 * WIDTH..].iter().all(|value| *value != 7.0));
                assert_within(
                    tolerance,
                    results,
                    &format!("{precision:?}, {dtype:?}, {half} columns"),
                );
            }
        }
    }
}

/// The sum in place of what is added to, as in a residual stream, and of other places; and sums that a product must not
/// be joined with, because they write over what its threadgroups read.
#[test]
#[serial]
fn a_product_and_a_sum() {
    for device in devices() {
        let n = WIDTH;
        for (precision, dtype, tolerance) in precisions() {
            let (inputs, weights) = (numbers(2 * WIDTH, 5), Typed::made_up(dtype, n * WIDTH, 6));
            // Offsets of a, the product, the other summand, and the sum.
            for places @ [a, c, x, out] in [
                [0, 2 * WIDTH, WIDTH, WIDTH],
                [0, 2 * WIDTH, WIDTH, 3 * WIDTH],
                [0, 2 * WIDTH, 0, 0],
                [0, 2 * WIDTH, 0, 3 * WIDTH],
                [0, 2 * WIDTH, WIDTH, 2 * WIDTH],
                [0, 2 * WIDTH, 2 * WIDTH, WIDTH],
            ]
            .into_iter()
            .take(ways(precision, 1))
            {
                let results = both_ways(
                    &device,
                    &inputs,
                    2 * WIDTH,
                    &weights,
                    precision,
                    &|commands, row, b| {
                        commands.matmul(&product(n, row.skip(a), b, row.skip(c)))?;
                        commands.add(&Elementwise::new(
                            row.skip(x).vector(n),
                            row.skip(c).vector(n),
                            row.skip(out).vector(n),
                        ))
                    },
                );
                assert_within(
                    tolerance,
                    results,
                    &format!("{precision:?}, {dtype:?}, {places:?}"),
                );
            }
        }
    }
}

/// A norm in place and one whose row is written over by the product are not joined to it.
#[test]
#[serial]
fn a_norm_and_a_product_over_its_row() {
    for device in devices() {
        let weights = Typed::made_up(DType::Q8_0, WIDTH * WIDTH, 8);
        let inputs = numbers(2 * WIDTH, 7);
        for places @ [out, c] in [[0, 2 * WIDTH], [2 * WIDTH, 0], [2 * WIDTH, WIDTH]] {
            let results = both_ways(
                &device,
                &inputs,
                2 * WIDTH,
                &weights,
                ActivationPrecision::Float,
                &|commands, row, b| {
                    commands.rms_norm(&RmsNorm::new(
                        row.matrix(1, WIDTH),
                        row.skip(WIDTH).vector(WIDTH),
                        row.skip(out).matrix(1, WIDTH),
                        1e-5,
                    ))?;
                    commands.matmul(&product(WIDTH, row.skip(out), b, row.skip(c)))
                },
            );
            assert_close(results, &format!("{places:?}"));
        }
    }
}

/// Queries, keys and values of a token: rotated, and then keys and values to caches of halves and of floats. The same
/// bits, also where a copy follows that is of something else.
#[test]
#[serial]
fn a_rotation_and_copies_to_caches() {
    for device in devices() {
        let (head_dim, heads, kv_heads) = (64, 4, 2);
        let (query_dim, kv_dim) = (heads * head_dim, kv_heads * head_dim);
        let inputs = numbers(query_dim + 2 * kv_dim, 9);
        for pairing in [RopePairing::Interleaved, RopePairing::Half] {
            for cache in [DType::F16, DType::F32, DType::Q8_0] {
                for first in [query_dim, query_dim + 32, 0] {
                    let results = [0, 1].map(|operations| {
                        let x = device.buffer_from(&inputs).expect("memory");
                        let positions = device.buffer_from(&[77u32]).expect("memory");
                        let caches = device.buffer_from(&vec![0xaau8; 8 * 4 * kv_dim]);
                        let caches = caches.expect("memory");
                        let place = |number| caches.tensor_at(0, cache).skip(number * kv_dim);
                        let options = device.commands_options().max_operations(operations);
                        let mut commands = options.begin().expect("the device is open");
                        commands
                            .rope(
                                &Rope::new(
                                    x.matrix(1, (heads + kv_heads) * head_dim),
                                    positions.tensor().vector(1),
                                    head_dim,
                                    10000.0,
                                )
                                .with_pairing(pairing),
                            )
                            .expect("it fits");
                        for (from, to) in [(first, 1), (query_dim + kv_dim, 3), (query_dim, 5)] {
                            commands
                                .copy(&CopyRows::new(
                                    x.tensor().skip(from).matrix(1, kv_dim),
                                    place(to).matrix(1, kv_dim),
                                ))
                                .expect("it fits");
                        }
                        commands.run().expect("they can be computed");
                        let x = x.to_vec().expect("it is complete");
                        (x, caches.to_vec().expect("it is complete"))
                    });
                    let what = format!("{pairing:?}, {cache:?}, from {first}");
                    assert!(results[0] == results[1], "{what}: other bits");
                    assert!(results[0].0 != inputs, "{what}: it is rotated");
                }
            }
        }
    }
}

/// A norm, the queries, keys and values of it, their rotation, and copies to caches; also with a bias, with factors of
/// the angles, with copies of something else, and where positions stand in what the product writes over.
#[test]
#[serial]
fn a_product_its_rotation_and_copies() {
    for device in devices() {
        let (head_dim, heads, kv_heads) = (64, 4, 2);
        let (query_dim, kv_dim) = (heads * head_dim, kv_heads * head_dim);
        let n = query_dim + 2 * kv_dim;
        let inputs = numbers(2 * WIDTH + n + head_dim / 2, 10);
        let value = query_dim + kv_dim;
        for (dtype, cache, pairing, bias, factors, first) in [
            (
                DType::Q4_0,
                DType::F16,
                RopePairing::Interleaved,
                false,
                false,
                query_dim,
            ),
            (
                DType::Q8_0,
                DType::F16,
                RopePairing::Interleaved,
                true,
                false,
                query_dim,
            ),
            (
                DType::Q4K,
                DType::F32,
                RopePairing::Interleaved,
                false,
                true,
                query_dim,
            ),
            (
                DType::Q6K,
                DType::F16,
                RopePairing::Interleaved,
                true,
                true,
                query_dim + 34,
            ),
            (
                DType::F16,
                DType::F16,
                RopePairing::Interleaved,
                false,
                false,
                0,
            ),
            (
                DType::Bf16,
                DType::F32,
                RopePairing::Interleaved,
                false,
                false,
                query_dim,
            ),
            (
                DType::Q4_0,
                DType::F16,
                RopePairing::Half,
                false,
                false,
                query_dim,
            ),
            (
                DType::Q4_0,
                DType::Bf16,
                RopePairing::Interleaved,
                false,
                false,
                query_dim,
            ),
        ] {
            let weights = Typed::made_up(dtype, n * WIDTH, 11);
            let matrix = device.buffer_from(&weights.bytes).expect("memory");
            let given = device.buffer_from(&inputs).expect("memory");
            let precisions = match BLOCKS.contains(&dtype) {
                true => &PRECISIONS[..],
                false => &PRECISIONS[..1],
            };
            for (precision, _, tolerance) in precisions {
                let results = [0, 1].map(|operations| {
                    let x = device
                        .buffer_from(&vec![7.0f32; WIDTH + n])
                        .expect("memory");
                    let positions = device.buffer_from(&[77u32]).expect("memory");
                    let caches = device.buffer_from(&vec![0u8; 8 * 4 * kv_dim]);
                    let caches = caches.expect("memory");
                    let read = device.buffer_from(&vec![0.0f32; 8 * kv_dim]);
                    let read = read.expect("memory");
                    let (row, given) = (x.tensor(), given.tensor());
                    let place = |number| caches.tensor_at(0, cache).skip(number * kv_dim);
                    let options = device
                        .commands_options()
                        .max_operations(operations)
                        .activations(*precision);
                    let mut commands = options.begin().expect("the device is open");
                    let norm = RmsNorm::new(
                        given.matrix(1, WIDTH),
                        given.skip(WIDTH).vector(WIDTH),
                        row.matrix(1, WIDTH),
                        1e-5,
                    );
                    commands.rms_norm(&norm).expect("it fits");
                    let (b, out) = (matrix.tensor_at(0, dtype), row.skip(WIDTH));
                    let mut joined = product(n, row, b, out);
                    if bias {
                        joined = joined.with_bias(given.skip(2 * WIDTH).vector(n));
                    }
                    commands.matmul(&joined).expect("it fits");
                    let mut rope = Rope::new(
                        out.matrix(1, (heads + kv_heads) * head_dim),
                        positions.tensor().vector(1),
                        head_dim,
                        10000.0,
                    )
                    .with_pairing(pairing);
                    if factors {
                        let divisors = given.skip(2 * WIDTH + n).vector(head_dim / 2);
                        rope = rope.with_factors(divisors);
                    }
                    commands.rope(&rope).expect("it fits");
                    for (from, to) in [(first, 1), (value, 3), (query_dim, 5)] {
                        let from = out.skip(from).matrix(1, kv_dim);
                        let copy = CopyRows::new(from, place(to).matrix(1, kv_dim));
                        commands.copy(&copy).expect("it fits");
                    }
                    commands.run().expect("they can be computed");
                    let mut commands = device.commands().expect("the device is open");
                    let all = CopyRows::new(place(0).matrix(8, kv_dim), read.matrix(8, kv_dim));
                    commands.copy(&all).expect("it fits");
                    commands.run().expect("it can be computed");
                    let mut results = x.to_vec().expect("it is complete");
                    results.extend(read.to_vec().expect("it is complete"));
                    results
                });
                let what = format!(
                    "{precision:?}, {dtype:?}, {cache:?}, {pairing:?}, bias {bias}, factors {factors}"
                );
                assert!(
                    results[0][..WIDTH + n].iter().all(|value| *value != 7.0),
                    "{what}"
                );
                // Copies that are rounded once more may differ by a unit in the last place.
                let rounding = match cache {
                    DType::Bf16 => 4e-3,
                    DType::F16 => 1e-3,
                    _ => 2e-4,
                };
                assert_within(tolerance.max(rounding), results, &what);
            }
        }
    }
}

/// More pairs than threads have one of: then rotations are operations of their own.
#[test]
#[serial]
fn a_product_with_many_pairs() {
    let (k, head_dim) = (256, 64);
    for device in devices() {
        // Of a device with 132 cores, few tiles of a threadgroup, and more than it computes at once.
        for n in [132 * 4 * 16, 132 * 16 * 16 + head_dim] {
            let inputs = numbers(k, 31);
            let weights = Typed::made_up(DType::Q4_0, n * k, 32);
            let positions = device.buffer_from(&[77u32]).expect("memory");
            for (precision, _, tolerance) in PRECISIONS {
                let results = both_ways(
                    &device,
                    &inputs,
                    n,
                    &weights,
                    precision,
                    &|commands, row, b| {
                        let out = row.skip(k);
                        commands.matmul(&Matmul::new(
                            row.matrix(1, k),
                            b.matrix(n, k).transposed(),
                            out.matrix(1, n),
                        ))?;
                        commands.rope(&Rope::new(
                            out.matrix(1, n),
                            positions.tensor().vector(1),
                            head_dim,
                            10000.0,
                        ))
                    },
                );
                assert_within(tolerance, results, &format!("{precision:?}, {n} rows"));
            }
        }
    }
}

/// Activations that are rounded to bytes, against float64: with the same rounding the results are those, and without it
/// they are as far off as the rounding may take them. Rows of several segments, rows that fill no panel, and several
/// rows of activations.
#[test]
#[serial]
fn activations_of_bytes() {
    for device in devices_of_many_cores() {
        let mut cases: Vec<_> = BLOCKS.iter().map(|&dtype| (dtype, 1, 40, WIDTH)).collect();
        // A threadgroup has a second panel.
        cases.push((DType::Q4_0, 1, 2150, WIDTH));
        // A ring that rows of several segments fit beside, and the kernels of several rows.
        if device.info().unwrap().max_threadgroup_memory > 128 << 10 {
            for &dtype in BLOCKS {
                cases.push((dtype, 1, 17, 3 * WIDTH));
                // One slice, two of which one may be shorter, and four.
                cases.extend([
                    (dtype, 16, 40, WIDTH),
                    (dtype, 9, 33, 3 * WIDTH),
                    (dtype, 2, 17, 7 * WIDTH),
                ]);
            }
            // Products that are too large for two threadgroups on a core.
            for &dtype in BLOCKS {
                cases.push((dtype, 1, 2150, 2 * WIDTH));
            }
            // Sixteen teams, with fewer panels and with more; five of three SIMD-groups; a slice that leaves some idle.
            cases.extend([
                (DType::Q4_0, 2, 17, 256),
                (DType::Q8_0, 3, 5000, 256),
                (DType::Q4_0, 2, 34_000, 256),
                (DType::Q4_0, 9, 13_000, 768),
                (DType::Q4K, 4, 100, 2816),
            ]);
        }
        for (dtype, m, n, k) in cases {
            of_bytes(&device, dtype, m, n, k);
        }
    }
}

fn of_bytes(device: &Device, dtype: DType, m: usize, n: usize, k: usize) {
    let what = format!("{dtype:?}, {m} × {n} × {k}");
    let weights = Typed::made_up(dtype, n * k, 21);
    let mut inputs = numbers(m * k, 22);
    inputs[64..96].fill(0.0);
    inputs[100] *= 1e6;
    let bias = numbers(n, 23);
    let run = |inputs: &[f32], precision| {
        let (a, b) = (
            device.buffer_from(inputs),
            device.buffer_from(&weights.bytes),
        );
        let (a, b) = (a.expect("memory"), b.expect("memory"));
        let bias = device.buffer_from(&bias).expect("memory");
        let c = device.buffer_from(&vec![7.0f32; m * n]).expect("memory");
        let options = device.commands_options().activations(precision);
        let mut commands = options.begin().expect("the device is open");
        let matmul = Matmul::new(
            a.tensor().matrix(m, k),
            b.tensor_at(0, dtype).matrix(n, k).transposed(),
            c.tensor().matrix(m, n),
        );
        let matmul = matmul.with_bias(bias.tensor().vector(n));
        commands.matmul(&matmul).expect("it fits");
        commands.run().expect("it can be computed");
        c.to_vec().expect("it is complete")
    };
    let (bytes, float) = (
        run(&inputs, ActivationPrecision::Bytes),
        run(&inputs, ActivationPrecision::Float),
    );
    let exact: Vec<f64> = inputs.iter().map(|&value| value.into()).collect();
    let rounded: Vec<f64> = exact.chunks(32).flat_map(in_bytes).collect();
    for (place, (&bytes, &float)) in bytes.iter().zip(&float).enumerate() {
        let (row, column) = (place / n, place % n);
        let weights = &weights.values[column * k..][..k];
        let dot = |a: &[f64]| {
            let pairs = a[row * k..][..k].iter().zip(weights);
            pairs.map(|(a, b)| a * b).sum::<f64>() + f64::from(bias[column])
        };
        let blocks = exact[row * k..][..k].chunks(32).zip(weights.chunks(32));
        let size: f64 = blocks
            .map(|(a, weights)| largest(a) * weights.iter().map(|w| w.abs()).sum::<f64>())
            .sum();
        for (value, exact, tolerance) in [
            (bytes, dot(&rounded), 1e-5),
            (bytes, dot(&exact), 1.0 / 253.0),
            (float, dot(&exact), 1.0 / 30_000.0),
        ] {
            let off = (f64::from(value) - exact).abs();
            assert!(
                off <= tolerance * size,
                "{what}: {row}, {column} is {value}, off by {off}"
            );
        }
    }
    assert!(bytes != float, "{what}: nothing was rounded");

    inputs[70] = f32::NAN;
    let c = run(&inputs, ActivationPrecision::Bytes);
    let (first, others) = c.split_at(n);
    assert!(
        first.iter().all(|value| value.is_nan()),
        "{what}: a NaN is lost"
    );
    assert_eq!(others, &bytes[n..], "{what}: a NaN has left its row");
}

fn largest(block: &[f64]) -> f64 {
    block
        .iter()
        .fold(0.0, |most: f64, value| most.max(value.abs()))
}

/// A block, rounded as args.h says; ties are rare enough.
fn in_bytes(block: &[f64]) -> Vec<f64> {
    let scale = largest(block) / 127.0;
    let nearest = |value: &f64| match scale > 0.0 {
        true => (value / scale).round_ties_even() * scale,
        false => 0.0,
    };
    block.iter().map(nearest).collect()
}

/// Products of several rows with what stands behind them in a model, in one slice of the activations and in two: the
/// gate of two products, a sum that takes the place of its addend, and a sum with something between it and its product.
#[test]
#[serial]
fn several_rows_with_a_gate_and_with_sums() {
    let large = |device: &Device| device.info().unwrap().max_threadgroup_memory > 128 << 10;
    for device in devices().into_iter().filter(large) {
        let mut cases: Vec<_> = BLOCKS.iter().map(|&dtype| (dtype, 16, 80, WIDTH)).collect();
        cases.extend([
            (DType::Q4_0, 3, 80, WIDTH),
            (DType::Q4K, 9, 80, 3 * WIDTH),
            // Several gates for a threadgroup, by several teams.
            (DType::Q8_0, 3, 6400, 768),
        ]);
        for (dtype, m, n, k) in cases {
            let inputs = numbers(m * (k + n), 31);
            let weights = Typed::made_up(dtype, 2 * n * k, 32);
            let record = |commands: &mut Commands, row: Tensor<'_>, b: Tensor<'_>| {
                let place = |number: usize| row.skip(m * (k + number * n)).matrix(m, n);
                let [addend, gate, up, first, last] = [0, 1, 2, 3, 4].map(place);
                let product = |half: usize, c| {
                    let b = b.skip(half * n * k).matrix(n, k).transposed();
                    Matmul::new(row.matrix(m, k), b, c)
                };
                commands.matmul(&product(0, gate))?;
                commands.matmul(&product(1, up))?;
                commands.silu_mul(&Elementwise::new(gate, up, gate))?;
                commands.matmul(&product(1, first))?;
                commands.add(&Elementwise::new(addend, first, addend))?;
                commands.matmul(&product(0, last))?;
                commands.add(&Elementwise::new(first, up, up))?;
                commands.add(&Elementwise::new(last, up, first))
            };
            let bytes = ActivationPrecision::Bytes;
            let results = both_ways(&device, &inputs, 4 * m * n, &weights, bytes, &record);
            assert!(
                results[0].iter().all(|value| *value != 7.0),
                "{dtype:?}, {m} rows: something was not written"
            );
            assert_within(1e-6, results, &format!("{dtype:?}, {m} rows of {k}"));
        }
    }
}

/// A kernel that reads weights ahead does not when a command before it writes them, or those of the norm.
#[test]
#[serial]
fn weights_that_commands_before_write() {
    let n = 256;
    let source = numbers(n * WIDTH, 12);
    let inputs = numbers(2 * WIDTH, 13);
    for device in devices() {
        for (dtype, m, precision) in [
            (DType::F16, 1, ActivationPrecision::Float),
            (DType::Q8_0, 1, ActivationPrecision::Float),
            (DType::Q8_0, 1, ActivationPrecision::Bytes),
            (DType::Q8_0, 8, ActivationPrecision::Float),
        ] {
            let results = [0, 1].map(|operations| {
                let given = device.buffer_from(&source).expect("memory");
                let start = device.buffer_from(&inputs).expect("memory");
                let all = device.buffer_from(&vec![7.0f32; (2 * m + 1) * WIDTH + m * n]);
                let all = all.expect("memory");
                let matrix = device.buffer_from(&Typed::made_up(dtype, n * WIDTH, 14).bytes);
                let matrix = matrix.expect("memory");
                let options = device.commands_options().max_operations(operations);
                let mut commands = options
                    .activations(precision)
                    .begin()
                    .expect("the device is open");
                let (row, b) = (all.tensor(), matrix.tensor_at(0, dtype));
                let (norm, normed, out) = (
                    row.skip(m * WIDTH),
                    row.skip((m + 1) * WIDTH),
                    row.skip((2 * m + 1) * WIDTH),
                );
                for place in 0..m {
                    commands
                        .copy(&CopyRows::new(
                            start.tensor().matrix(1, WIDTH),
                            row.skip(place * WIDTH).matrix(1, WIDTH),
                        ))
                        .expect("it fits");
                }
                commands
                    .copy(&CopyRows::new(
                        given.tensor().matrix(n, WIDTH),
                        b.matrix(n, WIDTH),
                    ))
                    .expect("it fits");
                commands
                    .copy(&CopyRows::new(
                        start.tensor().skip(WIDTH).matrix(1, WIDTH),
                        norm.matrix(1, WIDTH),
                    ))
                    .expect("it fits");
                commands
                    .rms_norm(&RmsNorm::new(
                        row.matrix(m, WIDTH),
                        norm.vector(WIDTH),
                        normed.matrix(m, WIDTH),
                        1e-5,
                    ))
                    .expect("it fits");
                commands
                    .matmul(&Matmul::new(
                        normed.matrix(m, WIDTH),
                        b.matrix(n, WIDTH).transposed(),
                        out.matrix(m, n),
                    ))
                    .expect("it fits");
                commands.run().expect("they can be computed");
                all.to_vec().expect("it is complete")
            });
            let known = PRECISIONS.iter().find(|(known, ..)| *known == precision);
            let (_, _, tolerance) = known.expect("it is one of them");
            assert_within(
                *tolerance,
                results,
                &format!("{precision:?}, {dtype:?}, {m} rows"),
            );
        }
    }
}

/// What a model does to a row with matrices that do not follow each other: queries, keys and values, their rotation and
/// copies, then what is added to a row, and a gate. On a GPU of few cores that is one kernel each.
#[test]
#[serial]
fn products_of_several_matrices() {
    let names = |dtype: DType| {
        let joined = format!("matvec_joined_{}_f32", dtype.name().to_lowercase());
        BTreeSet::from([joined])
    };
    for dtype in weights() {
        for second in [DType::F32, dtype] {
            let [joined, apart] =
                [0, 1].map(|operations| several_matrices(dtype, second, operations));
            let what = format!("{dtype:?} and {second:?}");
            assert!(joined.0.iter().all(|value| *value != 7.0), "{what}");
            assert_within(2e-4, [joined.0, apart.0], &what);
            if tested_gpu().is_none() && second == dtype {
                let kernels = joined
                    .1
                    .into_iter()
                    .filter(|name| !name.contains("archive"));
                assert_eq!(kernels.collect::<BTreeSet<_>>(), names(dtype), "{what}");
            }
        }
    }
}

/// What is written then, and the names of the kernels that did. `second`: the type of the second and the last matrix.
fn several_matrices(dtype: DType, second: DType, operations: u32) -> (Vec<f32>, BTreeSet<String>) {
    const HEAD: usize = 64;
    let device = devices().remove(0);
    let [of_one, of_other] = [dtype, second].map(|dtype| Typed::made_up(dtype, 256 * WIDTH, 21));
    let one = device.buffer_from(&of_one.bytes).expect("memory");
    let other = device.buffer_from(&of_other.bytes).expect("memory");
    let given = device.buffer_from(&numbers(2 * WIDTH, 22)).expect("memory");
    let written = device.buffer_from(&[7.0f32; 8 * HEAD]).expect("memory");
    let positions = device.buffer_from(&[77u32]).expect("memory");
    let (given, out) = (given.tensor(), written.tensor());
    // Rows of matrices in another order than that of the outputs.
    let rows = |first: usize| one.tensor_at(0, dtype).skip(first * WIDTH);
    let of_second = |first: usize| other.tensor_at(0, second).skip(first * WIDTH);
    let kernels = kernels_of(&device, operations, |commands| {
        let recorded = (|| {
            commands.matmul(&product(2 * HEAD, given, rows(128), out))?;
            commands.matmul(&product(HEAD, given, of_second(64), out.skip(2 * HEAD)))?;
            commands.matmul(&product(HEAD, given, rows(0), out.skip(3 * HEAD)))?;
            let turned = out.matrix(1, 3 * HEAD);
            commands.rope(&Rope::new(
                turned,
                positions.tensor().vector(1),
                HEAD,
                10000.0,
            ))?;
            for (from, to) in [(2, 4), (3, 5)] {
                let [from, to] = [from, to].map(|place| out.skip(place * HEAD).matrix(1, HEAD));
                commands.copy(&CopyRows::new(from, to))?;
            }
            let [delta, sum, more] = [6, 7, 4].map(|place| out.skip(place * HEAD).vector(HEAD));
            commands.matmul(&product(
                HEAD,
                given.skip(WIDTH),
                rows(7),
                out.skip(6 * HEAD),
            ))?;
            commands.add(&Elementwise::new(more, delta, sum))?;
            commands.matmul(&product(HEAD, given, rows(64), out.skip(3 * HEAD)))?;
            commands.matmul(&product(HEAD, given, of_second(3), out.skip(4 * HEAD)))?;
            let [gate, up] = [3, 4].map(|place| out.skip(place * HEAD).vector(HEAD));
            commands.silu_mul(&Elementwise::new(gate, up, gate))
        })();
        let recorded: Result<()> = recorded;
        recorded.expect("they fit");
    });
    (written.to_vec().expect("it is complete"), kernels)
}
