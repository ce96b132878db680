//! Gradients of a language model's operations, each against central differences of its function in float64.

use ironbridge::ops::{
    AttentionBackward, EmbeddingBackward, GatedBackward, RmsNormBackward, SoftmaxBackward,
};
use ironbridge::{Commands, DType, Result, Tensor};
use serial_test::serial;

use crate::kernel_matrix::EDGES;
use crate::kernel_matrix::training::{OF_DIFFERENCES, difference};
use crate::kernel_matrix::typed::{Typed, floats, rows};
use crate::kernel_matrix::ways::{Output, ROUNDING, Want, Ways, within};
use crate::oracle::{self, Cache};
use crate::support::{f64s, numbers};

/// The derivative of a function of many numbers with respect to number `place` of `at`.
fn partial(function: impl Fn(&[f64]) -> f64, at: &[f64], place: usize) -> f64 {
    let moved = |value: f64| {
        let mut at = at.to_vec();
        at[place] = value;
        function(&at)
    };
    difference(moved, at[place])
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// An output for each result of an operation of several: `record` is given all results, of which `out` is one.
fn check_each(
    ways: &Ways,
    what: &str,
    inputs: &[&Typed],
    results: &[(Output, Vec<Want>)],
    record: impl Fn(&mut Commands, &[Tensor<'_>], &[Tensor<'_>]) -> Result<()>,
) {
    let rooms: Vec<Typed> = (results.iter())
        .map(|(output, _)| floats(output.rows * output.stride, 9).0)
        .collect();
    let all: Vec<&Typed> = inputs.iter().copied().chain(&rooms).collect();
    for (index, (output, want)) in results.iter().enumerate() {
        let what = format!("{what}, result {index}");
        ways.check(&what, &all, output, want, |commands, all, out| {
            let (given, rooms) = all.split_at(inputs.len());
            let mut outs: Vec<Tensor> = (rooms.iter().zip(results))
                .map(|(room, (output, _))| room.row_stride(output.stride))
                .collect();
            outs[index] = out;
            record(commands, given, &outs)
        });
    }
}

#[test]
#[serial]
fn normalizations() {
    let ways = Ways::open();
    let eps = 0.01f32;
    for (count, width) in EDGES.into_iter().flat_map(|edge| [(edge, 5), (3, edge)]) {
        let ((x, all_x), (weight, w)) = (floats(count * (width + 2), 1), floats(width, 2));
        let (gradient, all_g) = floats(count * (width + 1), 3);
        let xs = rows(&all_x, count, width, width + 2);
        let gs = rows(&all_g, count, width, width + 1);
        let (mut of_x, mut products) = (Vec::new(), Vec::new());
        for (x, g) in xs.chunks(width).zip(gs.chunks(width)) {
            let loss = |x: &[f64], w: &[f64]| dot(&oracle::rms_norm(x, w, eps.into()), g);
            let factor = 1.0 / (dot(x, x) / width as f64 + f64::from(eps)).sqrt();
            let most: f64 = (0..width).map(|j| (g[j] * w[j] * x[j]).abs()).sum();
            for j in 0..width {
                let value = partial(|x| loss(x, &w), x, j);
                // Both sums have `width` roundings, and the second one is of terms that may cancel.
                let of_sum = factor.powi(3) * most / width as f64 * x[j].abs();
                let parts = factor * (g[j] * w[j]).abs() + 3.0 * of_sum;
                let off = (width as f64 + 12.0) * ROUNDING * parts;
                of_x.push(within(
                    value,
                    off + OF_DIFFERENCES * factor.powi(3).max(1.0),
                ));
                let value = partial(|w| loss(x, w), &w, j);
                let off = (width as f64 / 2.0 + 8.0) * ROUNDING * value.abs();
                products.push(within(value, off + OF_DIFFERENCES));
            }
        }
        let results = [
            (Output::strided(DType::F32, count, width, width + 3), of_x),
            (Output::strided(DType::F32, count, width, width), products),
        ];
        let what = format!("rms_norm_backward, {count} × {width}");
        let inputs = [&x, &weight, &gradient];
        check_each(&ways, &what, &inputs, &results, |commands, given, out| {
            commands.rms_norm_backward(&RmsNormBackward::new(
                given[0].row_stride(width + 2).matrix(count, width),
                given[1].vector(width),
                given[2].row_stride(width + 1).matrix(count, width),
                out[0].matrix(count, width),
                out[1].matrix(count, width),
                eps,
            ))
        });
    }
}

fn softmax_backward<'a>(
    [rows, width]: [usize; 2],
    scale: f32,
    [y, gradient, out]: [Tensor<'a>; 3],
) -> SoftmaxBackward<'a> {
    SoftmaxBackward::new(
        y.matrix(rows, width),
        gradient.matrix(rows, width),
        out.matrix(rows, width),
    )
    .with_scale(scale)
}

#[test]
#[serial]
fn softmaxes_also_in_place() {
    let ways = Ways::open();
    let scale = -0.5f32;
    for (count, width) in EDGES.into_iter().flat_map(|edge| [(edge, 4), (3, edge)]) {
        let x: Vec<f64> = f64s(&numbers(count * width, 1))
            .iter()
            .map(|x| x * 4.0)
            .collect();
        let y: Vec<f32> = (x.chunks(width))
            .flat_map(|row| oracle::softmax(row, scale.into()))
            .map(|y| y as f32)
            .collect();
        let (gradient, gs) = floats(count * width, 2);
        let mut want = Vec::new();
        for (x, g) in x.chunks(width).zip(gs.chunks(width)) {
            let y = oracle::softmax(x, scale.into());
            let most: f64 = (0..width).map(|j| (y[j] * g[j]).abs()).sum();
            for j in 0..width {
                let value = partial(|x| dot(&oracle::softmax(x, scale.into()), g), x, j);
                // Each y is rounded before it is given, and then the sum, a difference and products are.
                let off = y[j] * ((width as f64 + 4.0) * most + 4.0 * g[j].abs()) * ROUNDING;
                want.push(within(value, off + OF_DIFFERENCES));
            }
        }
        let y = Typed::nearest(DType::F32, &y);
        let what = format!("softmax_backward, {count} × {width}");
        let shape = [count, width];
        let output = Output::strided(DType::F32, count, width, width + 2);
        ways.check(
            &what,
            &[&y, &gradient],
            &output,
            &want,
            |commands, given, out| {
                commands.softmax_backward(&softmax_backward(
                    shape,
                    scale,
                    [given[0], given[1], out],
                ))
            },
        );
        let output = Output::in_place(&gradient, count, width);
        ways.check(&what, &[&y], &output, &want, |commands, given, out| {
            commands.softmax_backward(&softmax_backward(shape, scale, [given[0], out, out]))
        });
    }
}

#[test]
#[serial]
fn gated_units() {
    type Record = fn(&mut Commands, &GatedBackward<'_>) -> Result<()>;
    type Function = fn(f64) -> f64;
    let gates: [(&str, Record, Function); 2] = [
        (
            "silu",
            |commands, operands| commands.silu_mul_backward(operands),
            oracle::silu,
        ),
        (
            "gelu",
            |commands, operands| commands.gelu_mul_backward(operands),
            oracle::gelu,
        ),
    ];
    let ways = Ways::open();
    for count in EDGES {
        let a: Vec<f32> = numbers(count, 1).iter().map(|a| a * 4.0).collect();
        let (at, a) = (f64s(&a), Typed::nearest(DType::F32, &a));
        let ((b, bs), (gradient, gs)) = (floats(count, 2), floats(count, 3));
        for (name, record, gate) in gates {
            // The argument of the logistic function, at most 12, is rounded four times.
            let off = 64.0 * ROUNDING;
            let of_a = (0..count).map(|i| {
                let value = gs[i] * bs[i] * difference(gate, at[i]);
                within(
                    value,
                    off * (gs[i] * bs[i]).abs() * (1.0 + 2.0 * at[i].abs()) + OF_DIFFERENCES,
                )
            });
            let of_b = (0..count).map(|i| {
                let value = gs[i] * gate(at[i]);
                within(value, off * value.abs())
            });
            let output = || Output::strided(DType::F32, 1, count, count);
            let results = [(output(), of_a.collect()), (output(), of_b.collect())];
            let what = format!("backward of {name} of {count}");
            let inputs = [&a, &b, &gradient];
            check_each(&ways, &what, &inputs, &results, |commands, given, out| {
                let operands = GatedBackward::new(
                    given[0].vector(count),
                    given[1].vector(count),
                    given[2].vector(count),
                    out[0].vector(count),
                    out[1].vector(count),
                );
                record(commands, &operands)
            });
        }
    }
}

/// Ids of which some come often, some never, and the last one is outside of the table.
#[test]
#[serial]
fn embeddings() {
    let ways = Ways::open();
    let shapes = EDGES.into_iter();
    for (count, width, vocab) in
        shapes.flat_map(|edge| [(edge, 3, 7), (20, edge, 6), (30, 2, edge)])
    {
        let (gradient, all) = floats(count * (width + 1), 1);
        let gs = rows(&all, count, width, width + 1);
        let mut ids: Vec<u32> = (0..count).map(|row| (row * row % vocab) as u32).collect();
        ids[count - 1] = vocab as u32;
        let mut want = Vec::new();
        for id in 0..vocab {
            for j in 0..width {
                // The table's element moves what each of its rows has in this column.
                let mine = || (0..count).filter(|row| ids[*row] as usize == id);
                let loss = |x: f64| mine().map(|row| 0.75 * x * gs[row * width + j]).sum();
                let most: f64 = mine().map(|row| gs[row * width + j].abs()).sum();
                let off = (mine().count() + 1) as f64 * ROUNDING * most;
                want.push(within(difference(loss, 0.5), off + OF_DIFFERENCES));
            }
        }
        let ids = Typed::integers(&ids);
        let output = Output::strided(DType::F32, vocab, width, width + 2);
        let what = format!("embedding_backward, {count} × {width} of {vocab}");
        ways.check(
            &what,
            &[&ids, &gradient],
            &output,
            &want,
            |commands, given, out| {
                commands.embedding_backward(
                    &EmbeddingBackward::new(
                        given[0].vector(count),
                        given[1].row_stride(width + 1).matrix(count, width),
                        out.matrix(vocab, width),
                    )
                    .with_scale(0.75),
                )
            },
        );
    }
}

#[test]
#[serial]
fn attentions() {
    let ways = Ways::open();
    // Tokens, heads, kv_heads, head_dim.
    for [tokens, heads, kv_heads, head_dim] in [
        [1, 1, 1, 1],
        [5, 4, 2, 3],
        [4, 3, 3, 33],
        [9, 4, 1, 8],
        [33, 2, 1, 4],
        [3, 1, 1, 256],
    ] {
        let (wide, narrow) = (heads * head_dim, kv_heads * head_dim);
        let (q, qs) = floats(tokens * wide, 1);
        let ((k, ks), (v, vs)) = (floats(tokens * narrow, 2), floats(tokens * narrow, 3));
        let (gradient, gs) = floats(tokens * wide, 4);
        let scale = 1.0 / (head_dim as f64).sqrt();
        let cache = |values: &[f64]| Cache {
            values: values.to_vec(),
            position_stride: narrow,
            head_stride: head_dim,
        };
        let shape = oracle::Attention {
            tokens,
            heads,
            kv_heads,
            head_dim,
            ..Default::default()
        };
        let attend = |q: &[f64], k: &[f64], v: &[f64]| {
            oracle::attention(&shape, q, &cache(k), &cache(v), scale)
        };
        let loss = |q: &[f64], k: &[f64], v: &[f64]| dot(&attend(q, k, v), &gs);
        // Scores of at most head_dim · scale lose some roundings of that, as do the products with values.
        let tolerance = 2e-5 * (tokens * heads / kv_heads) as f64;
        let wants = |count: usize, at: &[f64], of: &dyn Fn(&[f64]) -> f64| -> Vec<Want> {
            (0..count)
                .map(|place| within(partial(of, at, place), tolerance))
                .collect()
        };
        let results = [
            (
                Output::strided(DType::F32, tokens, wide, wide + 3),
                wants(tokens * wide, &qs, &|q| loss(q, &ks, &vs)),
            ),
            (
                Output::strided(DType::F32, tokens, narrow, narrow),
                wants(tokens * narrow, &ks, &|k| loss(&qs, k, &vs)),
            ),
            (
                Output::strided(DType::F32, tokens, narrow, narrow + 1),
                wants(tokens * narrow, &vs, &|v| loss(&qs, &ks, v)),
            ),
        ];
        let out: Vec<f32> = attend(&qs, &ks, &vs).iter().map(|x| *x as f32).collect();
        let out = Typed::nearest(DType::F32, &out);
        let what = format!("attention_backward, {tokens} × {heads} / {kv_heads} × {head_dim}");
        let inputs = [&q, &k, &v, &out, &gradient];
        check_each(
            &ways,
            &what,
            &inputs,
            &results,
            |commands, given, results| {
                commands.attention_backward(&AttentionBackward::new(
                    [
                        given[0].matrix(tokens, heads * head_dim),
                        given[1].matrix(tokens, kv_heads * head_dim),
                        given[2].matrix(tokens, kv_heads * head_dim),
                    ],
                    [
                        given[3].matrix(tokens, heads * head_dim),
                        given[4].matrix(tokens, heads * head_dim),
                    ],
                    [
                        results[0].matrix(tokens, heads * head_dim),
                        results[1].matrix(tokens, kv_heads * head_dim),
                        results[2].matrix(tokens, kv_heads * head_dim),
                    ],
                    head_dim,
                ))
            },
        );
    }
}
