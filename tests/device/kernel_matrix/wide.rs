//! The kernels that GPUs of many cores, and of few, are given: from their Metal source on the processor, and on such a
//! GPU.

use ironbridge::ops::{Argmax, Elementwise, Matmul, RmsNorm};
use ironbridge::{DType, Device};
use serial_test::serial;

use crate::kernel_matrix::typed::{FLOATS, Typed, floats, rows, weights};
use crate::kernel_matrix::ways::{Output, ROUNDING, Ways, close, exactly};
use crate::kernel_matrix::{attention, products};
use crate::oracle;
use crate::support::{f64s, numbers, run};

/// Around what one step along k takes, of each type; and around a tile of 128 rows and columns, of weights that become
/// halves and of those that are.
#[test]
#[serial]
fn products_of_many_rows() {
    let ways = Ways::of_many_cores();
    let small = weights().map(|b| (b, 57, 5, 64));
    let large = [(DType::Q4_0, 130, 129, 96), (DType::F16, 129, 130, 64)];
    for (index, (b, m, n, k)) in small.chain(large).enumerate() {
        let case = products::Case {
            b,
            t: DType::F32,
            m,
            n,
            k: usize::next_multiple_of(k, b.block_elements()),
            batch: 1,
            transpose_a: false,
            transpose_b: true,
            has_bias: index % 2 == 0,
            gap: index % 4,
        };
        products::check(&ways, case);
    }
}

/// c of a product of `n` rows of Q4_0 with a bias.
fn product_with_bias(selector: &str, m: usize, n: usize, k: usize) -> Vec<f32> {
    let device = Device::open(selector).expect("the software device is everywhere");
    let weights = Typed::made_up(DType::Q4_0, n * k, 2);
    let a = device.buffer_from(&numbers(m * k, 1)).expect("memory");
    let b = device.buffer_from(&weights.bytes).expect("memory");
    let bias = device.buffer_from(&numbers(n, 3)).expect("memory");
    let c = device.buffer::<f32>(m * n).expect("memory");
    run(&device, |commands| {
        commands.matmul(
            &Matmul::new(
                a.matrix(m, k),
                b.tensor_at(0, DType::Q4_0).matrix(n, k).transposed(),
                c.matrix(m, n),
            )
            .with_bias(bias.tensor().vector(n)),
        )
    })
    .expect("it is a product");
    c.to_vec().expect("it is complete")
}

/// Of rounded factors: not the same bits, and close.
fn are_alike(some: &[f32], others: &[f32]) {
    assert_ne!(some, others);
    let largest = some.iter().fold(0.0f32, |most, v| most.max(v.abs()));
    for (place, (one, other)) in some.iter().zip(others).enumerate() {
        let close = (one - other).abs() <= largest / 256.0;
        assert!(close, "{place}: {one}, {other}");
    }
}

/// A product of many rows keeps its floats where there is no memory for halves: operands take 138 KB, and halves nearly
/// as much again.
#[test]
#[serial]
fn a_product_without_memory_for_halves() {
    let [with, without] = ["cpu:cores=132", "cpu:cores=132,memory_limit=240K"]
        .map(|selector| product_with_bias(selector, 64, 128, 320));
    are_alike(&with, &without);
}

/// Weights become halves in two pieces: 64 tiles of 128 rows for 64 cores, and what is left.
#[test]
#[serial]
fn a_product_in_pieces() {
    let [wide, native] =
        ["cpu:cores=64", "cpu"].map(|selector| product_with_bias(selector, 130, 8200, 32));
    are_alike(&wide, &native);
}

/// Around what the 128 threads of a product take in one step, of each type, and around four rows.
#[test]
#[serial]
fn products_of_one_row_and_of_some() {
    let ways = Ways::of_many_cores();
    let blocks = [DType::Q8_0, DType::Q4_0, DType::Q4K, DType::Q6K];
    for b in FLOATS.into_iter().chain(blocks) {
        let unit = b.block_elements().max(8);
        let shapes = [
            (1, 1, 1),
            (1, 4, 512),
            (1, 5, 1024),
            (2, 3, 1025),
            (1, 9, 2100),
            (1, 6, 4096),
            (5, 9, 1030),
            (33, 5, 64),
        ];
        for (index, (m, n, k)) in shapes.into_iter().enumerate() {
            let case = products::Case {
                b,
                t: DType::F32,
                m,
                n,
                k: usize::next_multiple_of(k, unit),
                batch: 1 + index % 2,
                transpose_a: false,
                transpose_b: true,
                has_bias: index % 3 == 0,
                gap: index % 4,
            };
            products::check(&ways, case);
        }
    }
}

/// On a GPU of few cores, of each type: around what a SIMD-group takes in one step, and its four rows.
#[test]
#[serial]
fn products_of_one_row_on_few_cores() {
    let ways = Ways::of_few_cores();
    for b in weights() {
        let shapes = [(1, 1), (4, 127), (5, 128), (9, 515), (17, 1024), (6, 4096)];
        for (index, (n, k)) in shapes.into_iter().enumerate() {
            let case = products::Case {
                b,
                t: DType::F32,
                m: 1,
                n,
                k: usize::next_multiple_of(k, b.block_elements()),
                batch: 1,
                transpose_a: false,
                transpose_b: true,
                has_bias: index % 3 == 0,
                gap: index % 4,
            };
            products::check(&ways, case);
        }
    }
}

/// Slices of k of which there is one, several, and one that is not whole, of each type; around 16 rows of both.
#[test]
#[serial]
fn products_of_few_rows_in_slices() {
    let ways = Ways::of_many_cores();
    let types = [DType::Q8_0, DType::Q4_0, DType::Q4K, DType::Q6K, DType::F16];
    for b in types {
        // A whole number of vectors of 16 bytes.
        let unit = match b {
            DType::F16 => 32,
            DType::Q6K => 2048,
            _ => 256,
        };
        let shapes = [
            (5, 16, 256),
            (15, 33, 1024),
            (16, 50, 2304),
            (17, 16, 800),
            (33, 47, 1280),
        ];
        for (index, (m, n, k)) in shapes.into_iter().enumerate() {
            let case = products::Case {
                b,
                t: DType::F32,
                m,
                n,
                k: usize::next_multiple_of(k, unit),
                batch: 1,
                transpose_a: false,
                transpose_b: true,
                has_bias: index % 2 == 0,
                gap: 0,
            };
            products::check(&ways, case);
        }
    }
}

/// Around one step of the threads, and past what they keep in registers.
const WIDTHS: [usize; 4] = [1024, 4096, 4100, 20_000];

#[test]
#[serial]
fn rms_norm_of_long_rows_also_in_place() {
    let ways = Ways::of_many_cores();
    for (count, width) in WIDTHS
        .into_iter()
        .enumerate()
        .map(|(i, width)| (1 + i % 3, width))
    {
        let ((x, x_values), (weight, weight_values)) = (floats(count * width, 1), floats(width, 2));
        let values = oracle::rms_norm(&x_values, &weight_values, f64::from(1e-5f32));
        // The sum of squares is off by up to `width` roundings, halved by the root; then a handful.
        let want = close(values, (width as f64 / 2.0 + 6.0) * ROUNDING);
        let what = format!("rms_norm, {count} × {width}");
        let output = Output::strided(DType::F32, count, width, width + 4);
        ways.check(
            &what,
            &[&x, &weight],
            &output,
            &want,
            |commands, inputs, out| {
                let x = inputs[0].matrix(count, width);
                let (weight, out) = (inputs[1].vector(width), out.matrix(count, width));
                commands.rms_norm(&RmsNorm::new(x, weight, out, 1e-5))
            },
        );
        let output = Output::in_place(&x, count, width);
        ways.check(&what, &[&weight], &output, &want, |commands, inputs, x| {
            let x = x.matrix(count, width);
            commands.rms_norm(&RmsNorm::new(x, inputs[0].vector(width), x, 1e-5))
        });
    }
}

#[test]
#[serial]
fn argmax_of_long_rows() {
    let ways = Ways::of_many_cores();
    for (count, width) in WIDTHS
        .into_iter()
        .enumerate()
        .map(|(i, width)| (1 + i % 3, width))
    {
        let stride = width + 4;
        // Eight values, so that rows have several largest ones, of which the first ones of a row are not.
        let x: Vec<f32> = numbers(count * stride, 1)
            .iter()
            .enumerate()
            .map(|(place, v)| {
                if place % stride < 900 {
                    -9.0
                } else {
                    (v * 4.0).floor()
                }
            })
            .collect();
        let lowest = |row: &[f64]| {
            let largest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            row.iter().position(|v| *v == largest).expect("one is") as f64
        };
        let seen = rows(&f64s(&x), count, width, stride);
        let want = exactly(seen.chunks(width).map(lowest).collect());
        let x = Typed::nearest(DType::F32, &x);
        let output = Output::strided(DType::U32, 1, count, count);
        let what = format!("argmax, {count} × {width}");
        ways.check(&what, &[&x], &output, &want, |commands, inputs, out| {
            commands.argmax(&Argmax::new(
                inputs[0].row_stride(stride).matrix(count, width),
                out.vector(count),
            ))
        });
    }
}

/// One piece, several, and as many as there may be; with a window, and in both layouts of a cache.
#[test]
#[serial]
fn attention_in_small_pieces() {
    let ways = Ways::of_many_cores();
    for cache in FLOATS.into_iter().chain([DType::Q8_0]) {
        for head_dim in [64, 128] {
            for (index, (tokens, first_position, window)) in [
                (1, 0, 0),
                (1, 31, 0),
                (1, 32, 0),
                (3, 70, 0),
                (2, 150, 45),
                (1, 1100, 0),
            ]
            .into_iter()
            .enumerate()
            {
                let case = attention::Case {
                    cache,
                    tokens,
                    kv_heads: 1 + index % 2,
                    head_dim,
                    first_position,
                    window,
                    head_major: index % 2 == 1,
                    ..attention::PLAIN
                };
                attention::check(&ways, case);
            }
        }
    }
}

/// Enough keys to be read once for four heads: of groups with fewer heads, with more, and of none.
#[test]
#[serial]
fn attention_of_several_heads_at_once() {
    let ways = Ways::of_many_cores();
    for (cache, head_dim, group, tokens, first_position, window) in [
        (DType::F16, 128, 4, 1, 1023, 0),
        (DType::F32, 128, 7, 8, 130, 0),
        (DType::Q8_0, 128, 2, 3, 520, 350),
        (DType::Bf16, 128, 4, 1, 1100, 0),
        (DType::F16, 64, 5, 2, 1030, 0),
        (DType::Q8_0, 64, 4, 1, 2047, 0),
        (DType::F32, 64, 1, 1, 2047, 0),
    ] {
        let case = attention::Case {
            cache,
            tokens,
            kv_heads: 8,
            group,
            head_dim,
            first_position,
            window,
            head_major: window > 0 || tokens == 1,
            ..attention::PLAIN
        };
        attention::check(&ways, case);
    }
}

/// Keys without any weight beside the others, and threads that have no key: an exponential of a score alone would be
/// infinite.
#[test]
#[serial]
fn attention_with_large_scores() {
    let ways = Ways::of_many_cores();
    for (head_dim, first_position) in [(64, 0), (128, 40), (128, 1030)] {
        let case = attention::Case {
            cache: DType::F16,
            kv_heads: 8,
            group: 4,
            head_dim,
            first_position,
            scale: 200.0,
            ..attention::PLAIN
        };
        attention::check(&ways, case);
    }
}

/// Around a tile of 64 queries, of each size of head; with a window, and in both layouts of a cache.
#[test]
#[serial]
fn attention_of_many_queries() {
    let ways = Ways::of_many_cores();
    for (index, cache) in FLOATS.into_iter().chain([DType::Q8_0]).enumerate() {
        for (tokens, head_dim, first_position, window) in [
            (9, 64, 0, 0),
            (65, 40, 3, 0),
            (66, 128, 30, 20),
            (33, 100, 70, 0),
        ] {
            let case = attention::Case {
                cache,
                tokens,
                kv_heads: 1 + index % 2,
                head_dim: usize::next_multiple_of(head_dim, cache.block_elements()),
                first_position,
                window,
                head_major: index % 2 == 1,
                ..attention::PLAIN
            };
            attention::check(&ways, case);
        }
    }
}

/// Activations that were rounded for one product serve the next one, until something may have changed them.
#[test]
#[serial]
fn rounded_activations_are_those_of_their_product() {
    let device = Device::open("cpu:cores=132").expect("the software device is everywhere");
    let (n, k) = (5, 64);
    let (a, weights) = (numbers(k, 1), Typed::made_up(DType::Q4_0, n * k, 2));
    let a = device.buffer_from(&a).expect("memory");
    let b = device.buffer_from(&weights.bytes).expect("memory");
    let c = device.buffer::<f32>(3 * n).expect("memory");
    run(&device, |commands| {
        for product in 0..3 {
            if product == 2 {
                commands.add(&Elementwise::new(
                    a.tensor().vector(k),
                    a.tensor().vector(k),
                    a.tensor().vector(k),
                ))?;
            }
            commands.matmul(&Matmul::new(
                a.matrix(1, k),
                b.tensor_at(0, DType::Q4_0).matrix(n, k).transposed(),
                c.tensor().skip(product * n).matrix(1, n),
            ))?;
        }
        Ok(())
    })
    .expect("they are products");
    let c = c.to_vec().expect("it is complete");
    assert!(c[..n].iter().all(|value| *value != 0.0), "{c:?}");
    assert_eq!(c[..n], c[n..2 * n]);
    let twice: Vec<f32> = c[..n].iter().map(|value| 2.0 * value).collect();
    assert_eq!(c[2 * n..], twice);
}
