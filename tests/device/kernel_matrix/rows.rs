//! What works row by row or element by element.

use half::{bf16, f16};
use ironbridge::ops::{
    Activation, AddBias, Argmax, CopyBytes, CopyRows, Elementwise, Embedding, Fill, RmsNorm, Rope,
    RopePairing, Softmax, Transpose,
};
use ironbridge::{Commands, DType, Result};
use serial_test::serial;

use crate::kernel_matrix::EDGES;
use crate::kernel_matrix::typed::{FLOATS, Typed, floats, rows, weights};
use crate::kernel_matrix::ways::{Output, ROUNDING, Want, Ways, close, exactly, within};
use crate::oracle;
use crate::support::{f64s, numbers};

/// Rows and width with an edge in either.
fn shapes(other: usize) -> impl Iterator<Item = (usize, usize)> {
    EDGES
        .into_iter()
        .flat_map(move |edge| [(other, edge), (edge, other)])
}

#[test]
#[serial]
fn embedding() {
    let ways = Ways::open();
    let vocab = 7;
    for dtype in weights() {
        let unit = dtype.block_elements();
        for (count, width) in shapes(5) {
            let width = width.next_multiple_of(unit);
            // The last one of each eight has no row.
            let ids: Vec<u32> = (0..count as u32).map(|i| i * 5 % 8).collect();
            let table = Typed::made_up(dtype, vocab * width, 1);
            let row = |&id: &u32| match (id as usize) < vocab {
                true => table.values[id as usize * width..][..width].to_vec(),
                false => vec![f64::NAN; width],
            };
            // Exact with every type: a power of two.
            let scale = (count % 2 == 1).then_some(0.5);
            let scaled = |value| value * f64::from(scale.unwrap_or(1.0));
            let want = exactly(ids.iter().flat_map(row).map(scaled).collect());
            let ids = Typed::integers(&ids);
            let output = Output::strided(DType::F32, count, width, width + 3);
            let what = format!("embedding of {dtype:?}, {count} × {width}");
            ways.check(
                &what,
                &[&table, &ids],
                &output,
                &want,
                |commands, inputs, out| {
                    commands.embedding(
                        &Embedding::new(
                            inputs[0].matrix(vocab, width),
                            inputs[1].vector(count),
                            out.matrix(count, width),
                        )
                        .with_scale(scale),
                    )
                },
            );
        }
    }
}

#[test]
#[serial]
fn rms_norm_also_in_place() {
    let ways = Ways::open();
    for (count, width) in shapes(5) {
        let ((x, x_values), (weight, weight_values)) = (floats(count * width, 1), floats(width, 2));
        let values = oracle::rms_norm(&x_values, &weight_values, f64::from(1e-5f32));
        // The sum of squares is off by up to `width` roundings, halved by the root; then a handful.
        let want = close(values, (width as f64 / 2.0 + 6.0) * ROUNDING);
        let what = format!("rms_norm, {count} × {width}");
        let output = Output::strided(DType::F32, count, width, width + 3);
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
fn rope_in_both_pairings() {
    let ways = Ways::open();
    let sizes = EDGES
        .into_iter()
        .flat_map(|edge| [(edge, 2, 10), (3, edge, 8), (2, 2, 2 * edge)]);
    for (index, (tokens, heads, head_dim)) in sizes.enumerate() {
        for pairing in [RopePairing::Interleaved, RopePairing::Half] {
            // All of a head, or its first part.
            let part = (index % 2 == 1 && head_dim >= 4).then_some(head_dim / 4 * 2);
            let rope = oracle::Rope {
                heads,
                head_dim,
                rotary_dim: part.unwrap_or(head_dim),
                pairing,
                frequency_base: 10_000.0,
                frequency_scale: 0.5,
            };
            let (x, x_values) = floats(tokens * heads * head_dim, 1);
            let at: Vec<u32> = (0..tokens as u32).map(|token| token + 100).collect();
            let positions = Typed::integers(&at);
            let divisors: Vec<f32> = (0..head_dim).map(|i| 1.0 + i as f32 / 4.0).collect();
            let has_factors = index % 3 == 0;
            let factors = Typed::nearest(DType::F32, &divisors);
            let used = has_factors.then_some(&divisors[..]);
            let values = oracle::rope(&rope, &x_values, &at, used);
            // An angle below 2⁹ of some roundings; what is not rotated stays as it is.
            let want: Vec<Want> = (values.into_iter().zip(&x_values))
                .map(|(value, before)| match value == *before {
                    true => within(value, 0.0),
                    false => within(value, 8.0 * 512.0 * ROUNDING),
                })
                .collect();
            let output = Output::in_place(&x, tokens, heads * head_dim);
            let what = format!("{tokens} tokens, {rope:?}");
            ways.check(
                &what,
                &[&positions, &factors],
                &output,
                &want,
                |commands, inputs, x| {
                    let (x, positions) =
                        (x.matrix(tokens, heads * head_dim), inputs[0].vector(tokens));
                    commands.rope(
                        &Rope::new(x, positions, head_dim, rope.frequency_base)
                            .with_rotary_dim(part)
                            .with_factors(has_factors.then_some(inputs[1].vector(head_dim)))
                            .with_pairing(pairing)
                            .with_frequency_scale(rope.frequency_scale),
                    )
                },
            );
        }
    }
}

#[test]
#[serial]
fn add_and_gated_units_also_in_place() {
    type Record = fn(&mut Commands, &Elementwise<'_>) -> Result<()>;
    type Function = fn(f64, f64) -> f64;
    let functions: [(&str, Record, Function, f64); 3] = [
        (
            "add",
            |commands, operands| commands.add(operands),
            |a, b| a + b,
            ROUNDING,
        ),
        (
            "silu_mul",
            |commands, operands| commands.silu_mul(operands),
            |a, b| oracle::silu(a) * b,
            4.0 * ROUNDING,
        ),
        (
            "gelu_mul",
            |commands, operands| commands.gelu_mul(operands),
            |a, b| oracle::gelu(a) * b,
            // What the exponential is given, less than 1.7, has seven roundings.
            (8.0 + 7.0 * 1.7) * ROUNDING,
        ),
    ];
    let ways = Ways::open();
    for count in EDGES {
        let ((a, a_values), (b, b_values)) = (floats(count, 1), floats(count, 2));
        for (name, record, function, tolerance) in functions {
            let values = a_values
                .iter()
                .zip(&b_values)
                .map(|(&a, &b)| function(a, b));
            let want = close(values.collect(), tolerance);
            let what = format!("{name} of {count}");
            let output = Output::strided(DType::F32, 1, count, count);
            ways.check(&what, &[&a, &b], &output, &want, |commands, inputs, out| {
                let [a, b] = [inputs[0], inputs[1]];
                record(
                    commands,
                    &Elementwise::new(a.vector(count), b.vector(count), out.vector(count)),
                )
            });
            ways.check(
                &what,
                &[&b],
                &Output::in_place(&a, 1, count),
                &want,
                |commands, inputs, a| {
                    let (b, out) = (inputs[0], a);
                    record(
                        commands,
                        &Elementwise::new(a.vector(count), b.vector(count), out.vector(count)),
                    )
                },
            );
        }
    }
}

#[test]
#[serial]
fn activations_also_in_place() {
    type Record = fn(&mut Commands, &Activation<'_>) -> Result<()>;
    type Function = fn(f64) -> f64;
    let functions: [(&str, Record, Function); 3] = [
        (
            "relu",
            |commands, operands| commands.relu(operands),
            oracle::relu,
        ),
        (
            "sigmoid",
            |commands, operands| commands.sigmoid(operands),
            oracle::sigmoid,
        ),
        (
            "tanh",
            |commands, operands| commands.tanh(operands),
            f64::tanh,
        ),
    ];
    let ways = Ways::open();
    for count in EDGES {
        let x: Vec<f32> = numbers(count, 1).iter().map(|v| v * 10.0).collect();
        let x_values = f64s(&x);
        let x = Typed::nearest(DType::F32, &x);
        for (name, record, function) in functions {
            let want = close(
                x_values.iter().copied().map(function).collect(),
                4.0 * ROUNDING,
            );
            let what = format!("{name} of {count}");
            let output = Output::strided(DType::F32, 1, count, count);
            ways.check(&what, &[&x], &output, &want, |commands, inputs, out| {
                let x = inputs[0];
                record(
                    commands,
                    &Activation::new(x.vector(count), out.vector(count)),
                )
            });
            ways.check(
                &what,
                &[],
                &Output::in_place(&x, 1, count),
                &want,
                |commands, _, x| {
                    record(commands, &Activation::new(x.vector(count), x.vector(count)))
                },
            );
        }
    }
}

#[test]
#[serial]
fn add_bias_also_in_place() {
    let ways = Ways::open();
    for (count, width) in shapes(6) {
        let ((x, x_values), (bias, bias_values)) = (floats(count * width, 1), floats(width, 2));
        let sum = |(place, x): (usize, &f64)| x + bias_values[place % width];
        let want = close(x_values.iter().enumerate().map(sum).collect(), ROUNDING);
        let what = format!("add_bias, {count} × {width}");
        let output = Output::strided(DType::F32, count, width, width + 2);
        ways.check(
            &what,
            &[&x, &bias],
            &output,
            &want,
            |commands, inputs, out| {
                commands.add_bias(&AddBias::new(
                    inputs[0].matrix(count, width),
                    inputs[1].vector(width),
                    out.matrix(count, width),
                ))
            },
        );
        ways.check(
            &what,
            &[&bias],
            &Output::in_place(&x, count, width),
            &want,
            |commands, inputs, x| {
                commands.add_bias(&AddBias::new(
                    x.matrix(count, width),
                    inputs[0].vector(width),
                    x.matrix(count, width),
                ))
            },
        );
    }
}

#[test]
#[serial]
fn softmax_also_in_place() {
    let ways = Ways::open();
    for (count, width) in shapes(6) {
        let (x, x_values) = floats(count * (width + 1), 1);
        let scores = rows(&x_values, count, width, width + 1);
        let weights = |row: &[f64]| oracle::softmax(row, 20.0);
        let values: Vec<f64> = scores.chunks(width).flat_map(weights).collect();
        // Roundings of scores up to 20, of the largest and of their difference shift the exponent.
        let want = close(values, (2.0 * (20.0 + 20.0) + 8.0) * ROUNDING);
        let what = format!("softmax, {count} × {width}");
        let output = Output::strided(DType::F32, count, width, width + 3);
        ways.check(&what, &[&x], &output, &want, |commands, inputs, out| {
            let x = inputs[0].matrix(count, width).row_stride(width + 1);
            commands.softmax(&Softmax::new(x, out.matrix(count, width)).with_scale(20.0))
        });
        let packed: Vec<f32> = scores.iter().map(|&score| score as f32).collect();
        let packed = Typed::nearest(DType::F32, &packed);
        let output = Output::in_place(&packed, count, width);
        ways.check(&what, &[], &output, &want, |commands, _, x| {
            let x = x.matrix(count, width);
            commands.softmax(&Softmax::new(x, x).with_scale(20.0))
        });
    }
}

#[test]
#[serial]
fn argmax() {
    let ways = Ways::open();
    for (count, width) in shapes(7) {
        // Eight values, so that rows have several largest ones.
        let x: Vec<f32> = numbers(count * (width + 2), 1)
            .iter()
            .map(|v| (v * 4.0).floor())
            .collect();
        let lowest = |row: &[f64]| {
            let largest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            row.iter().position(|v| *v == largest).expect("one is") as f64
        };
        let seen = rows(&f64s(&x), count, width, width + 2);
        let want = exactly(seen.chunks(width).map(lowest).collect());
        let x = Typed::nearest(DType::F32, &x);
        let output = Output::strided(DType::U32, 1, count, count);
        let what = format!("argmax, {count} × {width}");
        ways.check(&what, &[&x], &output, &want, |commands, inputs, out| {
            commands.argmax(&Argmax::new(
                inputs[0].row_stride(width + 2).matrix(count, width),
                out.vector(count),
            ))
        });
    }
}

#[test]
#[serial]
fn transpose() {
    let ways = Ways::open();
    for dtype in FLOATS.into_iter().chain([DType::U32]) {
        for (count, width) in shapes(34) {
            let x = Typed::made_up(dtype, count * (width + 1), 1);
            let seen = rows(&x.values, count, width, width + 1);
            let want = exactly(oracle::transpose(&seen, count, width));
            let output = Output::strided(dtype, width, count, count + 2);
            let what = format!("transpose of {dtype:?}, {count} × {width}");
            ways.check(&what, &[&x], &output, &want, |commands, inputs, out| {
                commands.transpose(&Transpose::new(
                    inputs[0].row_stride(width + 1).matrix(count, width),
                    out.matrix(width, count),
                ))
            });
        }
    }
}

/// What `copy` must make of the values of `src`: the nearest, or for blocks no farther off than half a step of theirs.
pub fn copied(src: &[f64], to: DType) -> Vec<Want> {
    let nearest = |narrow: fn(f64) -> f64| exactly(src.iter().copied().map(narrow).collect());
    match to {
        DType::F16 => nearest(|v| f16::from_f64(v).to_f64()),
        DType::Bf16 => nearest(|v| bf16::from_f64(v).to_f64()),
        DType::Q8_0 => (src.chunks(32))
            .flat_map(|block| {
                let largest = block.iter().fold(0.0, |most: f64, v| most.max(v.abs()));
                // The scale is rounded to F16, which moves up to 127 steps.
                let tolerance = largest / 127.0 * (0.501 + 127.0 / 2048.0);
                block.iter().map(move |&value| within(value, tolerance))
            })
            .collect(),
        _ => exactly(src.to_vec()),
    }
}

#[test]
#[serial]
fn copies_between_all_types() {
    let ways = Ways::open();
    let floats = FLOATS
        .into_iter()
        .flat_map(|from| FLOATS.map(|to| (from, to)));
    let blocks = FLOATS.into_iter().map(|from| (from, DType::Q8_0));
    let others = [(DType::Q8_0, DType::F32), (DType::U32, DType::U32)];
    for (from, to) in floats.chain(blocks).chain(others) {
        let unit = from.block_elements().max(to.block_elements());
        for (count, width) in shapes(4) {
            let width = width.next_multiple_of(unit);
            let src = Typed::made_up(from, count * (width + unit), 1);
            let want = copied(&rows(&src.values, count, width, width + unit), to);
            let output = Output::strided(to, count, width, width + 2 * unit);
            let what = format!("{from:?} to {to:?}, {count} × {width}");
            ways.check(&what, &[&src], &output, &want, |commands, inputs, dst| {
                commands.copy(&CopyRows::new(
                    inputs[0].row_stride(width + unit).matrix(count, width),
                    dst.matrix(count, width),
                ))
            });
        }
    }
}

#[test]
#[serial]
fn bytes_copied_and_filled() {
    let ways = Ways::open();
    for words in EDGES {
        let src = Typed::made_up(DType::U32, words, 1);
        let output = Output::strided(DType::U32, 1, words, words);
        let what = format!("{words} words");
        let want = exactly(src.values.clone());
        ways.check(&what, &[&src], &output, &want, |commands, inputs, dst| {
            commands.copy_bytes(&CopyBytes::new(inputs[0], dst, 4 * words))
        });
        let want = exactly(vec![f64::from(0x1717_1717u32); words]);
        ways.check(&what, &[], &output, &want, |commands, _, out| {
            commands.fill(&Fill::new(out, 4 * words).with_value(0x17))
        });
    }
}
