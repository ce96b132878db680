//! Gradients, each against central differences of its function in float64, and the steps of optimizers against their
//! formulas.

use ironbridge::ops::{
    Adam, ClipNorm, CrossEntropy, Elementwise, LinearBackward, Mse, Sgd, SumRows, SumSquares,
};
use ironbridge::{Commands, DType, Result, Tensor};
use serial_test::serial;

use crate::kernel_matrix::EDGES;
use crate::kernel_matrix::typed::{Typed, floats, rows};
use crate::kernel_matrix::ways::{Output, ROUNDING, Want, Ways, exactly, within};
use crate::oracle;
use crate::support::{f64s, numbers};

/// The step of a central difference. Its error is a third of the third derivative times H², and roundings of float64
/// over H: less than 1e-9 for functions of about 1 whose derivatives are so too.
pub(super) const H: f64 = 1e-5;
pub(super) const OF_DIFFERENCES: f64 = 1e-9;

pub(super) fn difference(function: impl Fn(f64) -> f64, at: f64) -> f64 {
    (function(at + H) - function(at - H)) / (2.0 * H)
}

#[test]
#[serial]
fn activations_also_in_place() {
    type Record = fn(&mut Commands, &Elementwise<'_>) -> Result<()>;
    type Function = fn(f64) -> f64;
    // A function and its inverse.
    let functions: [(&str, Record, Function, Function); 3] = [
        (
            "relu",
            |commands, operands| commands.relu_backward(operands),
            oracle::relu,
            // Off its corner, where there is no derivative.
            |y| if y > 0.0 { y } else { -1.0 },
        ),
        (
            "sigmoid",
            |commands, operands| commands.sigmoid_backward(operands),
            oracle::sigmoid,
            |y| (y / (1.0 - y)).ln(),
        ),
        (
            "tanh",
            |commands, operands| commands.tanh_backward(operands),
            f64::tanh,
            f64::atanh,
        ),
    ];
    let ways = Ways::open();
    for count in EDGES {
        let x: Vec<f32> = numbers(count, 1).iter().map(|x| x * 3.0).collect();
        let (gradient, gradients) = floats(count, 2);
        for (name, record, function, inverse) in functions {
            let y: Vec<f32> = x.iter().map(|&x| function(x.into()) as f32).collect();
            let want: Vec<Want> = (y.iter().zip(&gradients))
                .map(|(&y, gradient)| {
                    let value = gradient * difference(function, inverse(y.into()));
                    within(value, 5.0 * ROUNDING * value.abs() + OF_DIFFERENCES)
                })
                .collect();
            let y = Typed::nearest(DType::F32, &y);
            let what = format!("backward of {name} of {count}");
            let output = Output::strided(DType::F32, 1, count, count);
            ways.check(
                &what,
                &[&y, &gradient],
                &output,
                &want,
                |commands, inputs, out| {
                    let [a, b] = [inputs[0], inputs[1]];
                    record(
                        commands,
                        &Elementwise::new(a.vector(count), b.vector(count), out.vector(count)),
                    )
                },
            );
            let output = Output::in_place(&gradient, 1, count);
            ways.check(&what, &[&y], &output, &want, |commands, inputs, b| {
                let (a, out) = (inputs[0], b);
                record(
                    commands,
                    &Elementwise::new(a.vector(count), b.vector(count), out.vector(count)),
                )
            });
        }
    }
}

#[test]
#[serial]
fn sums_of_rows() {
    let ways = Ways::open();
    for (count, width) in EDGES.into_iter().flat_map(|edge| [(edge, 6), (7, edge)]) {
        let (x, all) = floats(count * (width + 2), 1);
        let seen = rows(&all, count, width, width + 2);
        let column = |j: usize| seen.iter().skip(j).step_by(width);
        let want: Vec<Want> = (0..width)
            .map(|j| {
                let magnitude: f64 = column(j).map(|x| x.abs()).sum();
                within(column(j).sum(), count as f64 * ROUNDING * magnitude)
            })
            .collect();
        let output = Output::strided(DType::F32, 1, width, width);
        let what = format!("sum_rows, {count} × {width}");
        ways.check(&what, &[&x], &output, &want, |commands, inputs, out| {
            commands.sum_rows(&SumRows::new(
                inputs[0].row_stride(width + 2).matrix(count, width),
                out.vector(width),
            ))
        });
    }
}

#[test]
#[serial]
fn norms_of_gradients() {
    let ways = Ways::open();
    for (count, width) in EDGES.into_iter().flat_map(|edge| [(edge, 6), (7, edge)]) {
        let (x, all) = floats(count * (width + 2), 1);
        let seen = rows(&all, count, width, width + 2);
        let want: Vec<Want> = (seen.chunks(width))
            .map(|row| {
                let squares: f64 = row.iter().map(|x| x * x).sum();
                within(squares, (width as f64 + 1.0) * ROUNDING * squares)
            })
            .collect();
        let output = Output::strided(DType::F32, 1, count, count);
        let what = format!("sum_squares, {count} × {width}");
        ways.check(&what, &[&x], &output, &want, |commands, inputs, out| {
            commands.sum_squares(&SumSquares::new(
                inputs[0].row_stride(width + 2).matrix(count, width),
                out.vector(count),
            ))
        });
    }
    for count in EDGES {
        let (x, all) = floats(count, 2);
        for (norm, scale) in [
            (0.5f32, None),
            (3.0, None),
            (0.5, Some(0.6f32)),
            (1.0, Some(-0.6)),
        ] {
            let squares = Typed::nearest(DType::F32, &[2.25]);
            let by = f64::from(scale.unwrap_or(1.0));
            let factor = by * (f64::from(norm) / (by.abs() * 1.5 + 1e-6)).min(1.0);
            let scaled = |x: &f64| within(factor * x, 7.0 * ROUNDING * x.abs());
            let want: Vec<Want> = all.iter().map(scaled).collect();
            let output = Output::in_place(&x, 1, count);
            let what = format!("clip_norm of {count} to {norm}, times {scale:?}");
            ways.check(&what, &[&squares], &output, &want, |commands, inputs, x| {
                commands.clip_norm(
                    &ClipNorm::new(x.vector(count), inputs[0].vector(1), norm).with_scale(scale),
                )
            });
        }
    }
}

#[test]
#[serial]
fn squared_errors() {
    let ways = Ways::open();
    for (count, width) in EDGES.into_iter().flat_map(|edge| [(edge, 3), (2, edge)]) {
        let (prediction, p) = floats(count * (width + 1), 1);
        let (target, t) = floats(count * width, 2);
        let p = rows(&p, count, width, width + 1);
        let scale = 0.25f32;
        let loss = |p: f64, t: f64| f64::from(scale) * (p - t).powi(2);
        let losses: Vec<Want> = (p.chunks(width).zip(t.chunks(width)))
            .map(|(p, t)| {
                let value: f64 = p.iter().zip(t).map(|(&p, &t)| loss(p, t)).sum();
                within(value, (width as f64 + 4.0) * ROUNDING * value)
            })
            .collect();
        let gradients: Vec<Want> = (p.iter().zip(&t))
            .map(|(&p, &t)| {
                let value = difference(|p| loss(p, t), p);
                within(value, 3.0 * ROUNDING * value.abs() + OF_DIFFERENCES)
            })
            .collect();
        let record = |commands: &mut Commands,
                      inputs: &[Tensor<'_>],
                      gradient: Tensor<'_>,
                      loss: Tensor<'_>| {
            commands.mse(
                &Mse::new(
                    inputs[0].row_stride(width + 1).matrix(count, width),
                    inputs[1].matrix(count, width),
                    gradient.matrix(count, width),
                    loss.vector(count),
                )
                .with_scale(scale),
            )
        };
        let what = format!("mse, {count} × {width}");
        let (room, one) = (floats(count * width, 3).0, floats(count, 4).0);
        let output = Output::strided(DType::F32, count, width, width + 3);
        let inputs = [&prediction, &target, &one];
        ways.check(
            &what,
            &inputs,
            &output,
            &gradients,
            |commands, inputs, gradient| record(commands, inputs, gradient, inputs[2]),
        );
        let output = Output::strided(DType::F32, 1, count, count);
        let inputs = [&prediction, &target, &room];
        ways.check(
            &what,
            &inputs,
            &output,
            &losses,
            |commands, inputs, loss| record(commands, inputs, inputs[2], loss),
        );
    }
}

/// Labels of which the last one of each five is ignored, and the last of all rows is none.
#[test]
#[serial]
fn cross_entropies() {
    let ways = Ways::open();
    for (count, width) in EDGES.into_iter().flat_map(|edge| [(edge, 5), (6, edge)]) {
        let logits: Vec<f32> = numbers(count * (width + 1), 1)
            .iter()
            .map(|x| x * 8.0)
            .collect();
        let seen = rows(&f64s(&logits), count, width, width + 1);
        let logits = Typed::nearest(DType::F32, &logits);
        let label = |row: usize| match row {
            _ if row + 1 == count => width as u32,
            _ if row % 5 == 4 => CrossEntropy::IGNORED,
            _ => (row * 3 % width) as u32,
        };
        let labels: Vec<u32> = (0..count).map(label).collect();
        let scale = 0.5f32;
        let loss =
            |row: &[f64], label: usize| f64::from(scale) * -oracle::softmax(row, 1.0)[label].ln();
        let (mut losses, mut gradients) = (Vec::new(), Vec::new());
        for (row, &label) in seen.chunks(width).zip(&labels) {
            if label as usize >= width {
                let value = match label {
                    CrossEntropy::IGNORED => 0.0,
                    _ => f64::NAN,
                };
                losses.extend(exactly(vec![value]));
                gradients.extend(exactly(vec![value; width]));
                continue;
            }
            let label = label as usize;
            // The sum of exponentials has `width` roundings and those of arguments below 16.
            let of_sum = (width as f64 + 16.0 + 8.0) * ROUNDING;
            let value = loss(row, label);
            losses.push(within(value, of_sum + 4.0 * 16.0 * ROUNDING));
            for j in 0..width {
                let moved = |x: f64| {
                    let mut row = row.to_vec();
                    row[j] = x;
                    loss(&row, label)
                };
                let value = difference(moved, row[j]);
                let tolerance = 2.0 * of_sum + 3.0 * ROUNDING * value.abs() + OF_DIFFERENCES;
                gradients.push(within(value, tolerance));
            }
        }
        let labels = Typed::integers(&labels);
        let record = |commands: &mut Commands,
                      inputs: &[Tensor<'_>],
                      gradient: Tensor<'_>,
                      loss: Tensor<'_>| {
            commands.cross_entropy(
                &CrossEntropy::new(
                    inputs[0].row_stride(width + 1).matrix(count, width),
                    inputs[1].vector(count),
                    gradient.matrix(count, width),
                    loss.vector(count),
                )
                .with_scale(scale),
            )
        };
        let what = format!("cross_entropy, {count} × {width}");
        let (room, one) = (floats(count * width, 3).0, floats(count, 4).0);
        let output = Output::strided(DType::F32, count, width, width + 3);
        let inputs = [&logits, &labels, &one];
        ways.check(
            &what,
            &inputs,
            &output,
            &gradients,
            |commands, inputs, gradient| record(commands, inputs, gradient, inputs[2]),
        );
        let output = Output::strided(DType::F32, 1, count, count);
        let inputs = [&logits, &labels, &room];
        ways.check(
            &what,
            &inputs,
            &output,
            &losses,
            |commands, inputs, loss| record(commands, inputs, inputs[2], loss),
        );
    }
}

/// A sum of products, of which each and each addition rounds.
fn product(terms: impl Iterator<Item = (f64, f64)> + Clone) -> f64 {
    let count = terms.clone().count() as f64;
    let magnitude: f64 = terms.map(|(a, b)| (a * b).abs()).sum();
    (count + 2.0) * ROUNDING * magnitude + OF_DIFFERENCES
}

/// The loss is the sum of y times its gradient, of which a weight moves one column, an input one row.
#[test]
#[serial]
fn linear_layers() {
    let ways = Ways::open();
    let shapes = EDGES
        .into_iter()
        .flat_map(|edge| [(edge, 3, 2), (4, edge, 5), (3, 2, edge)])
        .chain([(33, 65, 34)]);
    for (count, inputs, outputs) in shapes {
        let ((x, xs), (weight, weights)) = (floats(count * inputs, 1), floats(outputs * inputs, 2));
        let (gradient, gradients) = floats(count * outputs, 3);
        let y = |row: usize,
                 output: usize,
                 weight: &dyn Fn(usize) -> f64,
                 x: &dyn Fn(usize) -> f64|
         -> f64 {
            let sum: f64 = (0..inputs).map(|i| x(i) * weight(i)).sum();
            gradients[row * outputs + output] * sum
        };
        let mut of_x = Vec::new();
        for row in 0..count {
            for input in 0..inputs {
                let loss = |moved: f64| -> f64 {
                    let x = |i: usize| {
                        if i == input {
                            moved
                        } else {
                            xs[row * inputs + i]
                        }
                    };
                    (0..outputs)
                        .map(|output| y(row, output, &|i| weights[output * inputs + i], &x))
                        .sum()
                };
                let value = difference(loss, xs[row * inputs + input]);
                let terms = (0..outputs)
                    .map(|o| (gradients[row * outputs + o], weights[o * inputs + input]));
                of_x.push(within(value, product(terms)));
            }
        }
        let mut of_weight = Vec::new();
        for output in 0..outputs {
            for input in 0..inputs {
                let loss = |moved: f64| -> f64 {
                    let weight = |i: usize| match i == input {
                        true => moved,
                        false => weights[output * inputs + i],
                    };
                    (0..count)
                        .map(|row| y(row, output, &weight, &|i| xs[row * inputs + i]))
                        .sum()
                };
                let value = difference(loss, weights[output * inputs + input]);
                let terms = (0..count)
                    .map(|row| (gradients[row * outputs + output], xs[row * inputs + input]));
                of_weight.push(within(value, product(terms)));
            }
        }
        let of_bias: Vec<Want> = (0..outputs)
            .map(|o| {
                let terms = (0..count).map(|row| (gradients[row * outputs + o], 1.0));
                within(terms.clone().map(|(g, _)| g).sum(), product(terms))
            })
            .collect();
        let what = format!("linear_backward, {count} × {inputs} to {outputs}");
        // Each result alone, and with the others.
        let room: Vec<Typed> = [count * inputs, outputs * inputs, outputs]
            .map(|elements| floats(elements, 4).0)
            .into();
        let given = [&x, &weight, &gradient, &room[0], &room[1], &room[2]];
        let wanted = [
            (Output::strided(DType::F32, count, inputs, inputs + 3), of_x),
            (
                Output::strided(DType::F32, outputs, inputs, inputs + 1),
                of_weight,
            ),
            (Output::strided(DType::F32, 1, outputs, outputs), of_bias),
        ];
        for (result, (output, want)) in wanted.iter().enumerate() {
            for alone in [true, false] {
                ways.check(&what, &given, output, want, |commands, all, out| {
                    let of = |place: usize| match (place == result, alone) {
                        (true, _) => Some(out),
                        (false, true) => None,
                        (false, false) => Some(all[3 + place]),
                    };
                    commands.linear_backward(
                        &LinearBackward::new(
                            all[0].matrix(count, inputs),
                            all[1].matrix(outputs, inputs),
                            all[2].matrix(count, outputs),
                        )
                        .with_x_gradient(of(0).map(|of| of.matrix(count, inputs)))
                        .with_weight_gradient(of(1).map(|of| of.matrix(outputs, inputs)))
                        .with_bias_gradient(of(2).map(|of| of.vector(outputs))),
                    )
                });
            }
        }
    }
}

#[test]
#[serial]
fn steps_of_optimizers() {
    let ways = Ways::open();
    for (index, count) in EDGES.into_iter().enumerate() {
        let ((gradient, g), (weights, w), (first, m)) =
            (floats(count, 1), floats(count, 2), floats(count, 3));
        let second: Vec<f32> = numbers(count, 4).into_iter().map(f32::abs).collect();
        let v = f64s(&second);
        let second = Typed::nearest(DType::F32, &second);
        let (rate, decay) = (0.01f32, if index % 2 == 0 { 0.0 } else { 0.1f32 });
        let step = 1 + 10 * index as u64;
        let of = |place: usize| {
            let (beta1, beta2) = (f64::from(0.9f32), f64::from(0.999f32));
            let (t, rate, decay) = (step as i32, f64::from(rate), f64::from(decay));
            let m = beta1 * m[place] + (1.0 - beta1) * g[place];
            let v = beta2 * v[place] + (1.0 - beta2) * g[place].powi(2);
            let size = (v / (1.0 - beta2.powi(t))).sqrt() + 1e-8;
            let update = rate / (1.0 - beta1.powi(t)) * m / size;
            let kept = (1.0 - rate * decay) * w[place];
            let of_moment = rate / (1.0 - beta1.powi(t)) * 3.0 * (beta1 + (1.0 - beta1)) / size;
            let off = of_moment * ROUNDING
                + 12.0 * ROUNDING * update.abs()
                + 3.0 * ROUNDING * w[place].abs();
            within(kept - update, off)
        };
        let want: Vec<Want> = (0..count).map(of).collect();
        let output = Output::in_place(&weights, 1, count);
        let what = format!("adam_step {step} of {count}");
        let inputs = [&gradient, &first, &second];
        ways.check(
            &what,
            &inputs,
            &output,
            &want,
            |commands, inputs, weights| {
                commands.adam_step(
                    &Adam::new(
                        weights.vector(count),
                        inputs[0].vector(count),
                        inputs[1].vector(count),
                        inputs[2].vector(count),
                        step,
                        rate,
                    )
                    .with_weight_decay(decay),
                )
            },
        );
        let momentum = 0.875f32;
        let of = |place: usize| {
            let (rate, decay, momentum) = (f64::from(rate), f64::from(decay), f64::from(momentum));
            let moved = momentum * m[place] + g[place] + decay * w[place];
            let off = 4.0 * ROUNDING * 3.0 * rate + 2.0 * ROUNDING * (w[place].abs() + rate * 3.0);
            within(w[place] - rate * moved, off)
        };
        let want: Vec<Want> = (0..count).map(of).collect();
        let what = format!("sgd_step of {count}");
        ways.check(
            &what,
            &[&gradient, &first],
            &output,
            &want,
            |commands, inputs, weights| {
                commands.sgd_step(
                    &Sgd::new(
                        weights.vector(count),
                        inputs[0].vector(count),
                        inputs[1].vector(count),
                        rate,
                    )
                    .with_momentum(momentum)
                    .with_weight_decay(decay),
                )
            },
        );
    }
}
