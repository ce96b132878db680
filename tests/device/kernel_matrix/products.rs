//! Matrix products, by each of their kernels: of one row, of few rows, in tiles, and of any layout.

use std::collections::BTreeSet;

use half::f16;
use ironbridge::DType;
use ironbridge::ops::Matmul;
use serial_test::serial;

use crate::kernel_matrix::EDGES;
use crate::kernel_matrix::typed::{FLOATS, Typed, floats, weights};
use crate::kernel_matrix::ways::{Output, ROUNDING, Want, Ways};
use crate::oracle::{self, transpose};
use crate::support::numbers;

#[derive(Clone, Copy, Debug)]
pub struct Case {
    pub b: DType,
    /// Of a, of the bias and of c.
    pub t: DType,
    pub m: usize,
    pub n: usize,
    pub k: usize,
    pub batch: usize,
    pub transpose_a: bool,
    pub transpose_b: bool,
    pub has_bias: bool,
    /// Elements between the rows of c.
    pub gap: usize,
}

/// The products of one batch: values, sums of magnitudes, and what the integers of the native kernels lose.
fn expected(case: &Case, a: &[f64], b: &[f64]) -> [Vec<f64>; 3] {
    let Case { m, n, k, .. } = *case;
    let a = match case.transpose_a {
        true => transpose(a, k, m),
        false => a.to_vec(),
    };
    let b = match case.transpose_b {
        true => transpose(b, n, k),
        false => b.to_vec(),
    };
    let magnitudes = |values: &[f64]| values.iter().map(|v| v.abs()).collect::<Vec<_>>();
    let (a_magnitudes, b_magnitudes) = (magnitudes(&a), magnitudes(&b));
    // Half a step of the integers that the largest of 32 activations becomes.
    let levels = if m <= 8 { 127.0 * 128.0 } else { 127.0 };
    let steps: Vec<f64> = match case.b.block_elements() {
        1 => vec![0.0; m * k],
        _ => (a_magnitudes.chunks(32))
            .flat_map(|group| {
                let largest = group.iter().copied().fold(0.0, f64::max);
                vec![largest / (2.0 * levels); group.len()]
            })
            .collect(),
    };
    [
        (&a, &b),
        (&a_magnitudes, &b_magnitudes),
        (&steps, &b_magnitudes),
    ]
    .map(|(a, b)| oracle::matmul(a, b, m, k, n))
}

fn largest(values: &[f64]) -> f64 {
    values.iter().fold(0.0, |most, value| value.abs().max(most))
}

pub fn check(ways: &Ways, case: Case) {
    let Case { m, n, k, batch, .. } = case;
    // Weights in blocks may be thousands; F16 ends at 65504.
    let small = if case.b.block_elements() > 1 {
        1.0 / 64.0
    } else {
        1.0
    };
    let a: Vec<f32> = numbers(batch * m * k, 1)
        .iter()
        .map(|v| v * small)
        .collect();
    let a = Typed::nearest(case.t, &a);
    let b = Typed::made_up(case.b, n * k, 2); // shared by the batch
    let bias = Typed::made_up(case.t, n, 3);
    let rounding = match case.t {
        DType::F16 => 1.0 / 2048.0,
        _ => ROUNDING,
    };
    let mut want = Vec::new();
    for a in a.values.chunks(m * k) {
        let [values, magnitudes, steps] = expected(&case, a, &b.values);
        let largest = largest(a) * largest(&b.values);
        for (place, value) in values.into_iter().enumerate() {
            let bias = if case.has_bias {
                bias.values[place % n]
            } else {
                0.0
            };
            let (value, magnitude) = (value + bias, magnitudes[place] + bias.abs());
            // Any order of summation keeps within this bound (Higham 2002, section 3.1); then one rounding to T.
            let metal = (k + 2) as f64 * ROUNDING * magnitude
                + rounding * value.abs()
                + f64::from(f16::MIN_POSITIVE_SUBNORMAL);
            let native = metal + (1.01 + rounding) * steps[place];
            // Where many rows are multiplied as halves, each factor is off by 2^-12 of itself. Far below the largest of
            // its row it may be by 2^-25 of what becomes 2^14: no product is off by more than 2^-38 of the largest one.
            let halves = match m > 8 && case.b != DType::F32 {
                true => magnitude / 2047.0 + k as f64 * largest / (1u64 << 38) as f64,
                false => 0.0,
            };
            want.push(Want {
                value,
                native,
                metal,
                wide: native + halves,
            });
        }
    }
    let stride = n + case.gap;
    let output = Output::strided(case.t, batch * m, n, stride);
    ways.check(
        &format!("{case:?}"),
        &[&a, &b, &bias],
        &output,
        &want,
        |commands, inputs, c| {
            commands.matmul(
                &Matmul::new(
                    inputs[0]
                        .batch_stride(m * k)
                        .oriented(m, k, case.transpose_a),
                    inputs[1].oriented(k, n, case.transpose_b),
                    c.batch_stride(m * stride).matrix(m, n),
                )
                .with_bias(case.has_bias.then_some(inputs[2]))
                .with_batch(batch as u32),
            )
        },
    );
}

/// Shapes with an edge in one dimension, for each kernel that the number of rows chooses; k in whole blocks.
fn shapes(unit: usize) -> BTreeSet<(usize, usize, usize)> {
    let shapes = EDGES.into_iter().flat_map(|edge| {
        [
            (1, edge, 64),
            (1, 5, edge),
            (3, edge, 33),
            (5, 7, edge),
            (edge, 5, 33),
            (9, edge, 64),
            (9, 5, edge),
        ]
    });
    shapes
        .map(|(m, n, k)| (m, n, k.next_multiple_of(unit)))
        .collect()
}

/// Types of weights take different shapes. Without a GPU each takes a third of them: the processor's kernels meet every
/// edge in their own tests, and this one has 40 pairs of types in four ways.
fn check_type(ways: &Ways, turn: usize, b: DType, t: DType) {
    let step = if ways.has_gpu() { 1 } else { 3 };
    let shapes = shapes(b.block_elements()).into_iter().enumerate();
    for (index, (m, n, k)) in shapes.skip(turn % step).step_by(step) {
        let case = Case {
            b,
            t,
            m,
            n,
            k,
            batch: 1 + usize::from(index % 3 == 0),
            transpose_a: false,
            transpose_b: true,
            has_bias: index % 2 == 0,
            gap: index % 4,
        };
        check(ways, case);
        // Any layout is for the tiles, or for the kernel that takes all numbers.
        if b.block_elements() == 1 || m > 8 {
            check(
                ways,
                Case {
                    transpose_a: index % 2 == 1,
                    transpose_b: b.block_elements() > 1,
                    ..case
                },
            );
        }
    }
}

#[test]
#[serial]
fn products_of_numbers() {
    let ways = Ways::open();
    for (turn, b) in FLOATS.into_iter().enumerate() {
        check_type(&ways, turn, b, DType::F32);
        check_type(&ways, turn + 1, b, DType::F16);
    }
}

#[test]
#[serial]
fn products_of_blocks() {
    let ways = Ways::open();
    let blocks = weights().filter(|b| b.block_elements() > 1);
    for (turn, b) in blocks.enumerate() {
        check_type(&ways, turn, b, DType::F32);
        check_type(&ways, turn + 1, b, DType::F16);
    }
}

#[test]
#[serial]
fn any_strides_in_a_shared_matrix() {
    // a is columns 3 to 8 of wider rows; b has rows with gaps, c too.
    let ways = Ways::open();
    for edge in EDGES {
        let (m, n, k) = (edge, 7, 5);
        let (a, a_values) = floats(m * 11, 1);
        let (b, b_values) = floats(k * (n + 4), 2);
        let left: Vec<f64> = (a_values.chunks(11))
            .flat_map(|row| row[3..8].to_vec())
            .collect();
        let right = crate::kernel_matrix::typed::rows(&b_values, k, n, n + 4);
        let want: Vec<Want> = oracle::matmul(&left, &right, m, k, n)
            .into_iter()
            // Five products of at most 1.
            .map(|value| crate::kernel_matrix::ways::within(value, 7.0 * ROUNDING * 5.0))
            .collect();
        let output = Output::strided(DType::F32, m, n, n + 2);
        ways.check(
            &format!("{m} rows"),
            &[&a, &b],
            &output,
            &want,
            |commands, inputs, c| {
                commands.matmul(&Matmul::new(
                    inputs[0].skip(3).row_stride(11).matrix(m, k),
                    inputs[1].row_stride(n + 4).matrix(k, n),
                    c.matrix(m, n),
                ))
            },
        );
    }
}

/// What is in c counts as much as `beta` says, and not at all, whatever it is, where that is 0.
#[test]
#[serial]
fn products_that_are_scaled_and_added_up() {
    let ways = Ways::open();
    let types = [
        (DType::F32, DType::F32, ROUNDING),
        (DType::F16, DType::F16, 1.0 / 2048.0),
        (DType::Q8_0, DType::F32, ROUNDING),
    ];
    for (b_type, t, rounding) in types {
        for (index, edge) in EDGES.into_iter().enumerate() {
            let (m, n, k, batch) = (edge, 6, 32, 1 + index % 2);
            let has_bias = index % 3 == 0;
            let (alpha, beta) = [(None, 1.0), (Some(-0.5), 2.0), (Some(3.0), 0.0)][index % 3];
            let case = Case {
                b: b_type,
                t,
                m,
                n,
                k,
                batch,
                transpose_a: false,
                transpose_b: true,
                has_bias,
                gap: 2,
            };
            let a = Typed::nearest(t, &numbers(batch * m * k, 1));
            let (b, bias) = (Typed::made_up(b_type, n * k, 2), Typed::made_up(t, n, 3));
            let before = Typed::made_up(t, batch * m * n, 4);
            let factor = f64::from(alpha.unwrap_or(1.0));
            let mut want = Vec::new();
            for (z, a) in a.values.chunks(m * k).enumerate() {
                let [values, magnitudes, steps] = expected(&case, a, &b.values);
                for (place, value) in values.into_iter().enumerate() {
                    let bias = if has_bias {
                        bias.values[place % n]
                    } else {
                        0.0
                    };
                    let kept = f64::from(beta) * before.values[z * m * n + place];
                    let sum = factor * value + kept + bias;
                    let magnitude = (factor * magnitudes[place]).abs() + kept.abs() + bias.abs();
                    let metal = (k + 6) as f64 * ROUNDING * magnitude
                        + rounding * ((factor * value).abs() + sum.abs())
                        + 4.0 * f64::from(f16::MIN_POSITIVE_SUBNORMAL);
                    let native = metal + (1.01 + rounding) * factor.abs() * steps[place];
                    want.push(Want {
                        value: sum,
                        native,
                        metal,
                        wide: native,
                    });
                }
            }
            let output = Output {
                before: (beta != 0.0).then(|| before.bytes.clone()),
                ..Output::strided(t, batch * m, n, n + 2)
            };
            let what = format!("{case:?} · {alpha:?} + {beta} c");
            ways.check(
                &what,
                &[&a, &b, &bias],
                &output,
                &want,
                |commands, inputs, c| {
                    commands.matmul(
                        &Matmul::new(
                            inputs[0].batch_stride(m * k).matrix(m, k),
                            inputs[1].matrix(n, k).transposed(),
                            c.batch_stride(m * (n + 2)).matrix(m, n),
                        )
                        .with_bias(has_bias.then_some(inputs[2]))
                        .with_batch(batch as u32)
                        .with_alpha(alpha)
                        .with_beta(beta),
                    )
                },
            );
        }
    }
}
