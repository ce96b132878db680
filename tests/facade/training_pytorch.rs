//! Gradients and losses beside PyTorch's, which scripts/training_fixtures.py has made.

use ironbridge::ops::{self, RopePairing};
use ironbridge::train::{Adam, Optimizer, Rotation, Schedule, Sgd, Tape, Trainer, Variable};
use ironbridge::{Commands, Device, Result, Tensor};
use serde_json::Value;

use crate::support::{device, run};

/// The script's `number`.
fn number(place: usize, seed: usize) -> f64 {
    ((place * 7919 + seed * 104_729) % 2048) as f64 / 1024.0 - 1.0
}

/// The script's `tensor`.
fn made(count: usize, seed: usize, scale: f64) -> Vec<f32> {
    (0..count)
        .map(|place| (number(place, seed) * scale) as f32)
        .collect()
}

fn fixtures() -> Value {
    serde_json::from_str(include_str!("../data/training.json")).expect("JSON")
}

fn floats(list: &Value) -> Vec<f64> {
    let list = list.as_array().expect("a list").iter();
    list.map(|number| number.as_f64().expect("a number"))
        .collect()
}

/// The results of an operation, of the lengths that the fixture has. It is given the inputs and then the integers, if
/// there are some.
fn check(
    name: &str,
    inputs: &[&[f32]],
    integers: &[u32],
    record: impl Fn(&mut Commands, &[Tensor<'_>], &[Tensor<'_>]) -> Result<()>,
) {
    let all = fixtures();
    let wanted: Vec<Vec<f64>> = all["gradients"][name]
        .as_array()
        .unwrap_or_else(|| panic!("{name}"))
        .iter()
        .map(floats)
        .collect();
    let device = device();
    let inputs: Vec<_> = inputs
        .iter()
        .map(|it| device.buffer_from(it).unwrap())
        .collect();
    let results: Vec<_> = (wanted.iter())
        .map(|it| device.buffer::<f32>(it.len()).unwrap())
        .collect();
    let integers = (!integers.is_empty()).then(|| device.buffer_from(integers).unwrap());
    run(&device, |commands| {
        let given = inputs.iter().map(|it| it.tensor());
        let given: Vec<Tensor> = given.chain(integers.iter().map(|it| it.tensor())).collect();
        let results: Vec<Tensor> = results.iter().map(|it| it.tensor()).collect();
        record(commands, &given, &results)
    })
    .unwrap();
    for (index, (got, want)) in results.iter().zip(&wanted).enumerate() {
        for (place, (got, want)) in got.to_vec().unwrap().iter().zip(want).enumerate() {
            // Numbers of about 1 that some dozen roundings have changed.
            let off = (f64::from(*got) - want).abs();
            assert!(
                off < 4e-6 * want.abs().max(1.0),
                "{name} {index}, {place}: {got}, not {want}"
            );
        }
    }
}

#[test]
fn gradients_of_activations_and_gates() {
    let (x, gradient) = (made(35, 1, 1.0), made(35, 99, 1.0));
    type Record = fn(&mut Commands, &ops::Elementwise<'_>) -> Result<()>;
    type Function = fn(f32) -> f32;
    let functions: [(&str, Record, Function); 3] = [
        (
            "relu",
            |commands, it| commands.relu_backward(it),
            |x| x.max(0.0),
        ),
        (
            "sigmoid",
            |commands, it| commands.sigmoid_backward(it),
            |x| 1.0 / (1.0 + (-x).exp()),
        ),
        ("tanh", |commands, it| commands.tanh_backward(it), f32::tanh),
    ];
    for (name, record, function) in functions {
        let y: Vec<f32> = x.iter().map(|x| function(*x)).collect();
        check(name, &[&y, &gradient], &[], |commands, given, out| {
            let (a, b) = (given[0], given[1]);
            record(
                commands,
                &ops::Elementwise::new(a.vector(35), b.vector(35), out[0].vector(35)),
            )
        });
    }
    type RecordGated = fn(&mut Commands, &ops::GatedBackward<'_>) -> Result<()>;
    let gates: [(&str, RecordGated); 2] = [
        ("silu_mul", |commands, it| commands.silu_mul_backward(it)),
        ("gelu_mul", |commands, it| commands.gelu_mul_backward(it)),
    ];
    let (a, b) = (made(35, 1, 4.0), made(35, 3, 1.0));
    for (name, record) in gates {
        check(name, &[&a, &b, &gradient], &[], |commands, given, out| {
            let operands = ops::GatedBackward::new(
                given[0].vector(35),
                given[1].vector(35),
                given[2].vector(35),
                out[0].vector(35),
                out[1].vector(35),
            );
            record(commands, &operands)
        });
    }
}

#[test]
fn gradients_of_rows() {
    let (rows, width) = (5, 7);
    let (x, gradient) = (made(35, 1, 1.0), made(35, 99, 1.0));
    let room = [0.0f32; 35];
    check(
        "softmax",
        &[&x, &gradient, &room],
        &[],
        |commands, given, out| {
            commands.softmax(&ops::Softmax::new(
                given[0].matrix(rows, width),
                given[2].matrix(rows, width),
            ))?;
            commands.softmax_backward(&ops::SoftmaxBackward::new(
                given[2].matrix(rows, width),
                given[1].matrix(rows, width),
                out[0].matrix(rows, width),
            ))
        },
    );
    let weight = made(7, 2, 1.0);
    check(
        "rms_norm",
        &[&x, &weight, &gradient, &room],
        &[],
        |commands, given, out| {
            commands.rms_norm_backward(&ops::RmsNormBackward::new(
                given[0].matrix(rows, width),
                given[1].vector(width),
                given[2].matrix(rows, width),
                out[0].matrix(rows, width),
                given[3].matrix(rows, width),
                1e-5,
            ))?;
            commands.sum_rows(&ops::SumRows::new(
                given[3].matrix(rows, width),
                out[1].vector(width),
            ))
        },
    );
    let (weight, gradient) = (made(21, 2, 1.0), made(15, 99, 1.0));
    check(
        "linear",
        &[&x, &weight, &gradient],
        &[],
        |commands, given, out| {
            commands.linear_backward(
                &ops::LinearBackward::new(
                    given[0].matrix(rows, width),
                    given[1].matrix(3, width),
                    given[2].matrix(rows, 3),
                )
                .with_x_gradient(out[0].matrix(rows, width))
                .with_weight_gradient(out[1].matrix(3, width))
                .with_bias_gradient(out[2].vector(3)),
            )
        },
    );
}

#[test]
fn gradients_of_tables_positions_and_attention() {
    let (ids, gradient) = ([3, 0, 3, 1, 3], made(35, 99, 1.0));
    check("embedding", &[&gradient], &ids, |commands, given, out| {
        commands.embedding_backward(&ops::EmbeddingBackward::new(
            given[1].vector(5),
            given[0].matrix(5, 7),
            out[0].matrix(4, 7),
        ))
    });
    let (positions, gradient) = ([0, 1, 2, 3, 4], made(40, 99, 1.0));
    check("rope", &[&gradient], &positions, |commands, given, out| {
        commands.copy(&ops::CopyRows::new(
            given[0].matrix(5, 8),
            out[0].matrix(5, 8),
        ))?;
        commands.rope(
            &ops::Rope::new(out[0].matrix(5, 2 * 4), given[1].vector(5), 4, 100.0)
                .with_frequency_scale(-1.0),
        )
    });
    let (q, k, v) = (made(60, 1, 1.0), made(30, 2, 1.0), made(30, 3, 1.0));
    let (gradient, room) = (made(60, 99, 1.0), [0.0f32; 60]);
    check(
        "attention",
        &[&q, &k, &v, &gradient, &room],
        &[],
        |commands, given, out| {
            let (tokens, heads, kv_heads, head_dim) = (5, 4, 2, 3);
            commands.attention(&ops::Attention::new(
                given[0].matrix(tokens, heads * head_dim),
                given[1].matrix(tokens, kv_heads * head_dim),
                given[2].matrix(tokens, kv_heads * head_dim),
                given[4].matrix(tokens, heads * head_dim),
                head_dim,
            ))?;
            commands.attention_backward(&ops::AttentionBackward::new(
                [
                    given[0].matrix(tokens, heads * head_dim),
                    given[1].matrix(tokens, kv_heads * head_dim),
                    given[2].matrix(tokens, kv_heads * head_dim),
                ],
                [
                    given[4].matrix(tokens, heads * head_dim),
                    given[3].matrix(tokens, heads * head_dim),
                ],
                [
                    out[0].matrix(tokens, heads * head_dim),
                    out[1].matrix(tokens, kv_heads * head_dim),
                    out[2].matrix(tokens, kv_heads * head_dim),
                ],
                head_dim,
            ))
        },
    );
}

fn sum_of_rows(commands: &mut Commands, x: Tensor<'_>, out: Tensor<'_>) -> Result<()> {
    commands.sum_rows(&ops::SumRows::new(x.matrix(5, 1), out.vector(1)))
}

#[test]
fn losses_and_their_gradients() {
    // The sum of the rows' losses is the fixture's.
    let (x, target, room) = (made(35, 1, 1.0), made(35, 3, 1.0), [0.0f32; 5]);
    check("mse", &[&x, &target, &room], &[], |commands, given, out| {
        commands.mse(
            &ops::Mse::new(
                given[0].matrix(5, 7),
                given[1].matrix(5, 7),
                out[1].matrix(5, 7),
                given[2].vector(5),
            )
            .with_scale(1.0 / 35.0),
        )?;
        sum_of_rows(commands, given[2], out[0])
    });
    let labels = [6, ops::CrossEntropy::IGNORED, 0, 3, 3];
    let logits = made(35, 1, 4.0);
    check(
        "cross_entropy",
        &[&logits, &room],
        &labels,
        |commands, given, out| {
            commands.cross_entropy(
                &ops::CrossEntropy::new(
                    given[0].matrix(5, 7),
                    given[2].vector(5),
                    out[1].matrix(5, 7),
                    given[1].vector(5),
                )
                .with_scale(1.0 / 5.0),
            )?;
            sum_of_rows(commands, given[1], out[0])
        },
    );
}

/// The script's `parameter`, as the tape's tensor `NUMBER`.
fn parameter(tape: &mut Tape, seed: usize, [rows, width]: [usize; 2]) -> Variable {
    let values = made(rows * width, seed, (width as f64).powf(-0.5));
    tape.parameter(&seed.to_string(), rows, width, &values)
        .unwrap()
}

/// 50 steps whose losses are the fixture's to a thousandth.
fn follow(name: &str, trainer: &mut Trainer) {
    let wanted = floats(&fixtures()["losses"][name]);
    assert_eq!(wanted.len(), 50);
    for (step, want) in wanted.into_iter().enumerate() {
        let got = f64::from(trainer.step().unwrap());
        assert!(
            (got - want).abs() < 1e-3 * want,
            "{name}, step {step}: {got}, not {want}"
        );
    }
}

fn sine(optimizer: impl Into<Optimizer>, rate: f32) -> Trainer {
    let mut tape = Tape::new(0);
    let t = &mut tape;
    let points = t.input("points", 64, 1).unwrap();
    let wanted = t.input("wanted", 64, 1).unwrap();
    let shapes = [[64, 1], [1, 64], [64, 64], [1, 64], [1, 64], [1, 1]];
    let weights: Vec<Variable> = (0..6)
        .map(|seed| parameter(t, seed, shapes[seed]))
        .collect();
    let sum = t.linear("a", points, weights[0], Some(weights[1])).unwrap();
    let hidden = t.tanh("b", sum).unwrap();
    let sum = t.linear("c", hidden, weights[2], Some(weights[3])).unwrap();
    let hidden = t.tanh("d", sum).unwrap();
    let out = t.linear("e", hidden, weights[4], Some(weights[5])).unwrap();
    let loss = t.mse("loss", out, wanted).unwrap();
    let plan = tape.plan(loss).unwrap();
    let device = Device::open("cpu").unwrap();
    let mut trainer = plan
        .trainer(&device, optimizer, Schedule::constant(rate))
        .unwrap();
    let at = |i: usize| 2.0 * i as f32 / 63.0 - 1.0;
    let x: Vec<f32> = (0..64).map(at).collect();
    let y: Vec<f32> = x.iter().map(|x| (x * std::f32::consts::PI).sin()).collect();
    trainer.write(points, &x).unwrap();
    trainer.write(wanted, &y).unwrap();
    trainer
}

#[test]
fn the_sine_is_learned_step_by_step_as_pytorch_learns_it() {
    follow("sine with Adam", &mut sine(Adam::default(), 0.01));
    let decay = Adam {
        weight_decay: 0.1,
        ..Adam::default()
    };
    let mut trainer = sine(decay, 0.01);
    trainer.clip_norm(0.05).unwrap();
    follow("sine with AdamW and clipping", &mut trainer);
    let momentum = Sgd {
        momentum: 0.9,
        ..Sgd::default()
    };
    follow("sine with momentum", &mut sine(momentum, 0.02));
}

#[test]
fn a_llama_block_learns_step_by_step_as_in_pytorch() {
    let (vocab, width, deep, rows) = (20, 32, 48, 32);
    let rotation = Rotation {
        head_dim: 8,
        base: 10_000.0,
        pairing: RopePairing::Interleaved,
    };
    let mut tape = Tape::new(0);
    let t = &mut tape;
    let ids = t.ids("ids", rows).unwrap();
    let labels = t.labels("labels", rows).unwrap();
    let positions = t.positions("positions", rows, 16).unwrap();
    let table = parameter(t, 0, [vocab, width]);
    let [wq, wk, wv, wo] = [(2, 32), (3, 16), (4, 16), (5, 32)]
        .map(|(seed, outputs)| parameter(t, seed, [outputs, width]));
    let [gate, up] = [7, 8].map(|seed| parameter(t, seed, [deep, width]));
    let down = parameter(t, 9, [width, deep]);
    let head = parameter(t, 11, [vocab, width]);
    let [n1, n2, n3] =
        ["n1", "n2", "n3"].map(|name| t.parameter(name, 1, width, &[1.0; 32]).unwrap());

    let x = t.embedding("x", table, ids).unwrap();
    let normed = t.rms_norm("normed", x, n1, 1e-5).unwrap();
    let [q, k, v] = [("q", wq), ("k", wk), ("v", wv)]
        .map(|(name, weight)| t.linear(name, normed, weight, None).unwrap());
    let q = t.rope("q turned", q, positions, rotation).unwrap();
    let k = t.rope("k turned", k, positions, rotation).unwrap();
    let attended = t.attention("attended", [q, k, v], 8, 16).unwrap();
    let attended = t.linear("o", attended, wo, None).unwrap();
    let x = t.add("x + attended", x, attended).unwrap();
    let normed = t.rms_norm("normed again", x, n2, 1e-5).unwrap();
    let gated = t.linear("gated", normed, gate, None).unwrap();
    let upped = t.linear("upped", normed, up, None).unwrap();
    let hidden = t.silu_mul("hidden", gated, upped).unwrap();
    let fed = t.linear("fed", hidden, down, None).unwrap();
    let x = t.add("x + fed", x, fed).unwrap();
    let x = t.rms_norm("last", x, n3, 1e-5).unwrap();
    let logits = t.linear("logits", x, head, None).unwrap();
    let loss = t.cross_entropy("loss", logits, labels).unwrap();
    let plan = tape.plan(loss).unwrap();
    let device = Device::open("cpu").unwrap();
    let mut trainer = plan
        .trainer(&device, Adam::default(), Schedule::constant(0.003))
        .unwrap();
    trainer.clip_norm(1.0).unwrap();
    let all: Vec<u32> = (0..33).map(|i| (i * i + 3 * i) % vocab as u32).collect();
    trainer.write_ids(ids, &all[..32]).unwrap();
    trainer.write_labels(labels, &all[1..]).unwrap();
    follow("block with Adam and clipping", &mut trainer);
}
