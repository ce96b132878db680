//! A small LLaMA on a tape: its gradients, and that it learns a text.

use ironbridge::Device;
use ironbridge::ops::RopePairing;
use ironbridge::train::{
    Adam, Attention, Embedding, Heads, Linear, RmsNorm, Rotation, Schedule, Sgd, Tape, TrainError,
    Trainer, Variable,
};

use crate::oracle::{self, Cache};
use crate::support::{f64s, numbers};

fn device() -> Device {
    Device::open("cpu").expect("it is everywhere")
}

#[derive(Clone, Copy)]
struct Shape {
    vocab: usize,
    width: usize,
    feed_forward: usize,
    heads: Heads,
    sequence: usize,
    sequences: usize,
}

const EPS: f32 = 1e-5;

impl Shape {
    fn rows(&self) -> usize {
        self.sequence * self.sequences
    }
}

/// One block with an embedding before it and a norm and a projection after it.
struct Model {
    shape: Shape,
    ids: Variable,
    labels: Variable,
    logits: Variable,
    /// In the order of the tape.
    parameters: Vec<Variable>,
}

impl Model {
    fn trainer(
        shape: Shape,
        seed: u64,
        optimizer: impl Into<ironbridge::train::Optimizer>,
    ) -> (Model, Trainer) {
        let mut tape = Tape::new(seed);
        let t = &mut tape;
        let rows = shape.rows();
        let ids = t.ids("ids", rows).unwrap();
        let labels = t.labels("labels", rows).unwrap();
        let positions = t.positions("positions", rows, shape.sequence).unwrap();
        let embedding = Embedding::new(t, "embedding", shape.vocab, shape.width).unwrap();
        let before = RmsNorm::new(t, "attention_norm", shape.width, EPS).unwrap();
        let attention = Attention::new(t, "attention", shape.width, shape.heads).unwrap();
        let between = RmsNorm::new(t, "feed_forward_norm", shape.width, EPS).unwrap();
        let weights = |t: &mut Tape, name: &str, outputs: usize, inputs: usize, seed: u64| {
            let bound = 1.0 / (inputs as f32).sqrt();
            let values: Vec<f32> = numbers(outputs * inputs, seed)
                .iter()
                .map(|v| v * bound)
                .collect();
            t.parameter(name, outputs, inputs, &values).unwrap()
        };
        let gate = weights(t, "gate", shape.feed_forward, shape.width, seed + 1);
        let up = weights(t, "up", shape.feed_forward, shape.width, seed + 2);
        let down = weights(t, "down", shape.width, shape.feed_forward, seed + 3);
        let after = RmsNorm::new(t, "norm", shape.width, EPS).unwrap();
        let head = weights(t, "head", shape.vocab, shape.width, seed + 4);

        let x = embedding.forward(t, ids).unwrap();
        let normed = before.forward(t, x).unwrap();
        let attended = attention
            .forward(t, normed, positions, shape.sequence)
            .unwrap();
        let x = t.add("after attention", x, attended).unwrap();
        let normed = between.forward(t, x).unwrap();
        let gated = t.linear("gate.out", normed, gate, None).unwrap();
        let upped = t.linear("up.out", normed, up, None).unwrap();
        let hidden = t.silu_mul("hidden", gated, upped).unwrap();
        let fed = t.linear("down.out", hidden, down, None).unwrap();
        let x = t.add("after feed forward", x, fed).unwrap();
        let x = after.forward(t, x).unwrap();
        let logits = t.linear("logits", x, head, None).unwrap();
        t.keep(logits).unwrap();
        let loss = t.cross_entropy("loss", logits, labels).unwrap();
        let [q, k, v, o] = attention.weights();
        let parameters = vec![
            embedding.weight(),
            before.weight(),
            q,
            k,
            v,
            o,
            between.weight(),
            gate,
            up,
            down,
            after.weight(),
            head,
        ];
        let plan = tape.plan(loss).unwrap();
        let trainer = plan
            .trainer(&device(), optimizer, Schedule::constant(0.01))
            .unwrap();
        let model = Model {
            shape,
            ids,
            labels,
            logits,
            parameters,
        };
        (model, trainer)
    }

    /// The loss in float64.
    fn formula(&self, parameters: &[Vec<f64>], ids: &[u32], labels: &[u32]) -> f64 {
        let Shape {
            vocab,
            width,
            feed_forward,
            heads:
                Heads {
                    heads,
                    kv_heads,
                    rotation,
                },
            sequence,
            ..
        } = self.shape;
        let rows = self.shape.rows();
        let [table, n1, wq, wk, wv, wo, n2, gate, up, down, n3, head] = parameters else {
            panic!("twelve parameters")
        };
        let linear = |x: &[f64], weight: &[f64], inputs: usize| {
            let outputs = weight.len() / inputs;
            oracle::matmul(
                x,
                &oracle::transpose(weight, outputs, inputs),
                rows,
                inputs,
                outputs,
            )
        };
        let add =
            |a: &[f64], b: &[f64]| -> Vec<f64> { a.iter().zip(b).map(|(a, b)| a + b).collect() };
        let dim = rotation.head_dim;
        let positions: Vec<u32> = (0..rows).map(|row| (row % sequence) as u32).collect();
        let turn = |x: &[f64], heads: usize| {
            let rope = oracle::Rope {
                heads,
                head_dim: dim,
                rotary_dim: dim,
                frequency_base: rotation.base,
                frequency_scale: 1.0,
                pairing: rotation.pairing,
            };
            oracle::rope(&rope, x, &positions, None)
        };
        let x: Vec<f64> = (ids.iter())
            .flat_map(|id| &table[*id as usize * width..][..width])
            .copied()
            .collect();
        let eps = f64::from(EPS);
        let normed = oracle::rms_norm(&x, n1, eps);
        let q = turn(&linear(&normed, wq, width), heads);
        let k = turn(&linear(&normed, wk, width), kv_heads);
        let v = linear(&normed, wv, width);
        let (wide, narrow) = (heads * dim, kv_heads * dim);
        let mut attended = Vec::new();
        for part in 0..self.shape.sequences {
            let cache = |values: &[f64]| Cache {
                values: values[part * sequence * narrow..][..sequence * narrow].to_vec(),
                position_stride: narrow,
                head_stride: dim,
            };
            let shape = oracle::Attention {
                tokens: sequence,
                heads,
                kv_heads,
                head_dim: dim,
                ..Default::default()
            };
            let q = &q[part * sequence * wide..][..sequence * wide];
            let scale = 1.0 / (dim as f64).sqrt();
            attended.extend(oracle::attention(&shape, q, &cache(&k), &cache(&v), scale));
        }
        let x = add(&x, &linear(&attended, wo, wide));
        let normed = oracle::rms_norm(&x, n2, eps);
        let hidden: Vec<f64> = (linear(&normed, gate, width).iter())
            .zip(linear(&normed, up, width))
            .map(|(gate, up)| oracle::silu(*gate) * up)
            .collect();
        let x = add(&x, &linear(&hidden, down, feed_forward));
        let logits = linear(&oracle::rms_norm(&x, n3, eps), head, width);
        let losses = (logits.chunks(vocab).zip(labels))
            .map(|(row, label)| -oracle::softmax(row, 1.0)[*label as usize].ln());
        losses.sum::<f64>() / rows as f64
    }
}

#[test]
fn the_gradients_of_a_whole_block_are_central_differences() {
    for (pairing, kv_heads) in [(RopePairing::Interleaved, 1), (RopePairing::Half, 2)] {
        let shape = Shape {
            vocab: 7,
            width: 6,
            feed_forward: 5,
            heads: Heads {
                heads: 2,
                kv_heads,
                rotation: Rotation {
                    head_dim: 4,
                    base: 100.0,
                    pairing,
                },
            },
            sequence: 5,
            sequences: 2,
        };
        let (model, mut trainer) = Model::trainer(shape, 3, Sgd::default());
        // Embeddings of a size that the norms do not have to blow up.
        let table = numbers(shape.vocab * shape.width, 5);
        trainer.write(model.parameters[0], &table).unwrap();
        let ids: Vec<u32> = (0..10).map(|row| row * row % 7).collect();
        let labels: Vec<u32> = (0..10).map(|row| (row * 3 + 1) % 7).collect();
        trainer.write_ids(model.ids, &ids).unwrap();
        trainer.write_labels(model.labels, &labels).unwrap();
        let mut parameters: Vec<Vec<f64>> = (model.parameters.iter())
            .map(|parameter| f64s(&trainer.read(*parameter).unwrap()))
            .collect();
        let loss = model.formula(&parameters, &ids, &labels);
        let got = f64::from(trainer.forward().unwrap());
        assert!((got - loss).abs() < 1e-5 * loss, "{got} is not {loss}");
        trainer.backward().unwrap();
        for (index, parameter) in model.parameters.iter().enumerate() {
            let gradient = trainer.gradient(*parameter).unwrap();
            for (place, got) in gradient.iter().enumerate() {
                let before = parameters[index][place];
                let mut at = |moved: f64| {
                    parameters[index][place] = moved;
                    model.formula(&parameters, &ids, &labels)
                };
                let want = (at(before + 1e-5) - at(before - 1e-5)) / 2e-5;
                at(before);
                let off = (f64::from(*got) - want).abs();
                assert!(
                    off < 3e-6 + 2e-5 * want.abs(),
                    "parameter {index}, {place}: {got}, not {want}"
                );
            }
        }
    }
}

/// The gates and the softmax that the block has no use for.
#[test]
fn gradients_of_softmax_and_gelu() {
    let (rows, width) = (4, 5);
    let mut tape = Tape::new(1);
    let x = tape.input("x", rows, 3).unwrap();
    let target = tape.input("target", rows, width).unwrap();
    let first = Linear::new(&mut tape, "first", 3, width).unwrap();
    let hidden = first.forward(&mut tape, x).unwrap();
    let shares = tape.softmax("shares", hidden).unwrap();
    let gated = tape.gelu_mul("gated", hidden, shares).unwrap();
    let loss = tape.mse("loss", gated, target).unwrap();
    let plan = tape.plan(loss).unwrap();
    let mut trainer = plan
        .trainer(&device(), Adam::default(), Schedule::constant(0.01))
        .unwrap();
    let (xs, targets) = (numbers(rows * 3, 1), numbers(rows * width, 2));
    trainer.write(x, &xs).unwrap();
    trainer.write(target, &targets).unwrap();
    trainer.forward().unwrap();
    trainer.backward().unwrap();
    let mut weight = f64s(&trainer.read(first.weight()).unwrap());
    let bias = f64s(&trainer.read(first.bias()).unwrap());
    let formula = |weight: &[f64]| {
        let x = f64s(&xs);
        let turned = oracle::transpose(weight, width, 3);
        let hidden = oracle::matmul(&x, &turned, rows, 3, width);
        let mut loss = 0.0;
        for (row, hidden) in hidden.chunks(width).enumerate() {
            let hidden: Vec<f64> = hidden.iter().zip(&bias).map(|(h, b)| h + b).collect();
            let shares = oracle::softmax(&hidden, 1.0);
            for j in 0..width {
                let out = oracle::gelu(hidden[j]) * shares[j];
                loss += (out - f64::from(targets[row * width + j])).powi(2);
            }
        }
        loss / (rows * width) as f64
    };
    let gradient = trainer.gradient(first.weight()).unwrap();
    for (place, got) in gradient.iter().enumerate() {
        let before = weight[place];
        let mut at = |moved: f64| {
            weight[place] = moved;
            formula(&weight)
        };
        let want = (at(before + 1e-5) - at(before - 1e-5)) / 2e-5;
        at(before);
        let off = (f64::from(*got) - want).abs();
        assert!(off < 1e-6 + 1e-5 * want.abs(), "{place}: {got}, not {want}");
    }
}

#[test]
fn a_tiny_model_learns_a_text_by_heart() {
    let text = b"the quick brown fox jumps over the lazy dog and runs to the hill.";
    let mut letters: Vec<u8> = text.to_vec();
    letters.sort_unstable();
    letters.dedup();
    let id = |letter: &u8| letters.iter().position(|other| other == letter).unwrap() as u32;
    let ids: Vec<u32> = text.iter().map(id).collect();
    let shape = Shape {
        vocab: letters.len(),
        width: 32,
        feed_forward: 64,
        heads: Heads {
            heads: 4,
            kv_heads: 2,
            rotation: Rotation {
                head_dim: 8,
                base: 10_000.0,
                pairing: RopePairing::Interleaved,
            },
        },
        sequence: 32,
        sequences: 2,
    };
    let (model, mut trainer) = Model::trainer(shape, 1, Adam::default());
    trainer.clip_norm(1.0).unwrap();
    trainer.write_ids(model.ids, &ids[..64]).unwrap();
    trainer.write_labels(model.labels, &ids[1..65]).unwrap();
    let first = trainer.step().unwrap();
    let even = (shape.vocab as f32).ln();
    assert!((first - even).abs() < 0.5, "{first} is not about {even}");
    for _ in 0..120 {
        trainer.step().unwrap();
    }
    let loss = trainer.forward().unwrap();
    assert!(loss < 0.05, "{loss}");
    let logits = trainer.read(model.logits).unwrap();
    let best = |row: &[f32]| {
        let largest = (0..row.len()).max_by(|&a, &b| row[a].total_cmp(&row[b]));
        largest.unwrap() as u32
    };
    let said: Vec<u32> = logits.chunks(shape.vocab).map(best).collect();
    assert_eq!(said, ids[1..65]);
}

#[test]
fn arguments_of_language_operations_that_do_not_fit() {
    let mut tape = Tape::new(0);
    let x = tape.input("x", 6, 8).unwrap();
    let narrow = tape.input("narrow", 6, 3).unwrap();
    let table = tape.parameter("table", 5, 8, &[0.5; 40]).unwrap();
    let ids = tape.ids("ids", 6).unwrap();
    let labels = tape.labels("labels", 6).unwrap();
    let positions = tape.positions("positions", 6, 3).unwrap();
    let rotation = Rotation {
        head_dim: 4,
        base: 10.0,
        pairing: RopePairing::Half,
    };
    let says = |result: Result<Variable, TrainError>, text: &str| {
        let error = result.unwrap_err().to_string();
        assert!(error.contains(text), "{error}");
    };
    says(tape.positions("p", 6, 4), "tensor \"p\" would have 6 × 4");
    says(tape.positions("p", 6, 0), "tensor \"p\" would have 6 × 0");
    says(
        tape.embedding("y", table, labels),
        "embedding: tensor \"labels\"",
    );
    says(tape.embedding("y", ids, ids), "embedding: tensor \"ids\"");
    says(
        tape.rms_norm("y", x, narrow, 0.1),
        "rms_norm: tensor \"narrow\" is 6 × 3 F32, and must be 1 × a divisor of 8",
    );
    let weight = tape.parameter("weight", 1, 8, &[1.0; 8]).unwrap();
    for eps in [-1.0, f32::NAN, f32::INFINITY] {
        says(tape.rms_norm("y", x, weight, eps), "eps: is ");
    }
    says(tape.silu_mul("y", x, narrow), "silu_mul: tensor \"narrow\"");
    says(tape.gelu_mul("y", x, narrow), "gelu_mul: tensor \"narrow\"");
    says(tape.softmax("y", ids), "softmax: tensor \"ids\"");
    says(
        tape.rope("y", narrow, positions, rotation),
        "rope: tensor \"narrow\"",
    );
    says(tape.rope("y", x, ids, rotation), "rope: tensor \"ids\"");
    let odd = Rotation {
        head_dim: 1,
        ..rotation
    };
    says(tape.rope("y", x, positions, odd), "rope: tensor \"x\"");
    let base = Rotation {
        base: 0.0,
        ..rotation
    };
    says(tape.rope("y", x, positions, base), "base: is 0");
    says(
        tape.attention("y", [x, x, x], 3, 3),
        "attention: tensor \"x\"",
    );
    says(
        tape.attention("y", [x, x, x], 4, 4),
        "whole sequences of 4 rows",
    );
    says(
        tape.attention("y", [x, narrow, x], 4, 3),
        "attention: tensor \"narrow\"",
    );
    says(
        tape.attention("y", [x, x, narrow], 4, 3),
        "attention: tensor \"narrow\"",
    );
    says(
        tape.attention("y", [x, x, x], 0, 3),
        "attention: tensor \"x\"",
    );

    let y = tape.embedding("y", table, ids).unwrap();
    let loss = tape.mse("loss", y, x).unwrap();
    let plan = tape.plan(loss).unwrap();
    let mut trainer = plan
        .trainer(&device(), Sgd::default(), Schedule::constant(0.1))
        .unwrap();
    let text = trainer
        .write_ids(ids, &[0, 1, 5, 0, 0, 0])
        .unwrap_err()
        .to_string();
    assert!(
        text.contains("\"ids\": id 5 of row 2 is outside of the table's 5 rows"),
        "{text}"
    );
    for wrong in [labels, positions, x] {
        let values = vec![0; trainer.tensors()[0].elements().min(6)];
        let error = trainer.write_ids(wrong, &values).unwrap_err();
        assert!(
            matches!(
                error,
                TrainError::NotWritable { .. } | TrainError::Length { .. }
            ),
            "{error}"
        );
    }
    assert!(matches!(
        trainer.write_labels(ids, &[0; 6]).unwrap_err(),
        TrainError::NotWritable { .. }
    ));
}

/// What models have besides: heads with norms of their own, divided frequencies, scaled embeddings and scores.
struct Stretched {
    ids: Variable,
    target: Variable,
    factors: Variable,
    parameters: Vec<Variable>,
}

const STRETCHED_ROWS: usize = 12;

impl Stretched {
    fn trainer() -> (Stretched, Trainer) {
        let mut tape = Tape::new(5);
        let t = &mut tape;
        let (vocab, width, head_dim, sequence) = (9, 16, 8, 4);
        let ids = t.ids("ids", STRETCHED_ROWS).unwrap();
        let target = t.input("target", STRETCHED_ROWS, width).unwrap();
        let positions = t.positions("positions", STRETCHED_ROWS, sequence).unwrap();
        let factors = t.input("factors", 1, 3).unwrap();
        let weights = |t: &mut Tape, name: &str, rows: usize, seed: u64| {
            let values: Vec<f32> = numbers(rows * width, seed)
                .iter()
                .map(|v| v / 2.0)
                .collect();
            t.parameter(name, rows, width, &values).unwrap()
        };
        let table = weights(t, "table", vocab, 31);
        let [q, k, v] =
            [("q", 32), ("k", 33), ("v", 34)].map(|(name, seed)| weights(t, name, width, seed));
        let norm = t
            .parameter("norm", 1, head_dim, &numbers(head_dim, 35))
            .unwrap();
        let rotation = Rotation {
            head_dim,
            base: 100.0,
            pairing: RopePairing::Half,
        };
        let x = t.scaled_embedding("x", table, ids, 3.0).unwrap();
        let turned = |t: &mut Tape, name: &str, weight: Variable| {
            let named = |part: &str| format!("{name}.{part}");
            let x = t.linear(&named("out"), x, weight, None).unwrap();
            let x = t.rms_norm(&named("normed"), x, norm, EPS).unwrap();
            t.rope_with_factors(&named("turned"), x, positions, rotation, factors)
                .unwrap()
        };
        let (turned_q, turned_k) = (turned(t, "q", q), turned(t, "k", k));
        let values = t.linear("v.out", x, v, None).unwrap();
        let out = t
            .scaled_attention(
                "heads",
                [turned_q, turned_k, values],
                head_dim,
                sequence,
                0.7,
            )
            .unwrap();
        let loss = t.mse("loss", out, target).unwrap();
        let plan = tape.plan(loss).unwrap();
        let schedule = Schedule::constant(0.01);
        let mut trainer = plan.trainer(&device(), Sgd::default(), schedule).unwrap();
        let tokens: Vec<u32> = (0..STRETCHED_ROWS as u32).map(|row| row * 5 % 9).collect();
        trainer.write_ids(ids, &tokens).unwrap();
        trainer
            .write(target, &numbers(STRETCHED_ROWS * width, 36))
            .unwrap();
        trainer.write(factors, &[1.0, 2.0, 0.5]).unwrap();
        let stretched = Stretched {
            ids,
            target,
            factors,
            parameters: vec![table, q, k, v, norm],
        };
        (stretched, trainer)
    }
}

/// Along a random direction of each parameter. `tests/llama/finetune.rs` holds the forward pass to the runtime's.
fn check_directions(trainer: &mut Trainer, parameters: &[Variable], what: &str) {
    trainer.forward().unwrap();
    trainer.backward().unwrap();
    let gradients: Vec<Vec<f32>> = parameters
        .iter()
        .map(|parameter| trainer.gradient(*parameter).unwrap())
        .collect();
    for (index, (parameter, gradient)) in parameters.iter().zip(gradients).enumerate() {
        let before = trainer.read(*parameter).unwrap();
        let direction = numbers(before.len(), 50 + index as u64);
        let mut at = |step: f32| {
            let moved: Vec<f32> = before
                .iter()
                .zip(&direction)
                .map(|(b, d)| b + step * d)
                .collect();
            trainer.write(*parameter, &moved).unwrap();
            f64::from(trainer.forward().unwrap())
        };
        // The rounding of both losses over the step is below 1e-4.
        let step = 2e-3;
        let want = (at(step) - at(-step)) / f64::from(2.0 * step);
        at(0.0);
        let got: f64 = gradient
            .iter()
            .zip(&direction)
            .map(|(g, d)| f64::from(g * d))
            .sum();
        assert!(want.abs() > 1e-3, "{what} {index}: {want} says little");
        assert!(
            (got - want).abs() < 2e-4 + 5e-3 * want.abs(),
            "{what} {index}: {got}, not {want}"
        );
    }
}

#[test]
fn what_stretched_models_have_has_gradients() {
    let (stretched, mut trainer) = Stretched::trainer();
    check_directions(&mut trainer, &stretched.parameters, "equal sequences");
    let equal = trainer.forward().unwrap();
    trainer.write(stretched.factors, &[1.0; 3]).unwrap();
    assert_ne!(trainer.forward().unwrap(), equal);
    // Only three of four pairs are turned; a fourth factor turns the last one.
    trainer.pack(&[5, 1, 6]).unwrap();
    check_directions(&mut trainer, &stretched.parameters, "packed sequences");
}

#[test]
fn packed_sequences_are_as_if_they_were_alone() {
    let width = 16;
    let (stretched, mut trainer) = Stretched::trainer();
    let tokens: Vec<u32> = (0..STRETCHED_ROWS as u32).map(|row| row * 5 % 9).collect();
    let targets = numbers(STRETCHED_ROWS * width, 36);
    trainer.pack(&[4, 4, 4]).unwrap();
    let packed = trainer.forward().unwrap();
    let (_, mut equal) = Stretched::trainer();
    assert_eq!(packed, equal.forward().unwrap(), "the tape's own");

    // Each sequence three times is a batch whose mean is its own.
    let lengths = [6, 2, 4];
    trainer.pack(&lengths).unwrap();
    let whole = f64::from(trainer.forward().unwrap());
    let (mut start, mut sum) = (0, 0.0);
    for length in lengths {
        let times = STRETCHED_ROWS / length;
        let tokens = tokens[start..start + length].repeat(times);
        let targets = targets[start * width..(start + length) * width].repeat(times);
        trainer.write_ids(stretched.ids, &tokens).unwrap();
        trainer.write(stretched.target, &targets).unwrap();
        trainer.pack(&vec![length; times]).unwrap();
        sum += f64::from(trainer.forward().unwrap()) * length as f64;
        start += length;
    }
    let mean = sum / STRETCHED_ROWS as f64;
    assert!((whole - mean).abs() < 1e-5 * mean, "{whole}, not {mean}");

    for wrong in [&[4, 4][..], &[6, 0, 6], &[], &[usize::MAX, 12]] {
        let error = trainer.pack(wrong).unwrap_err();
        assert!(
            matches!(error, TrainError::Sequences { rows: 12, .. }),
            "{error}"
        );
    }
}

#[test]
fn what_is_computed_again_gives_the_same_bits_in_less_memory() {
    let trainer = |again: bool| {
        let mut tape = Tape::new(2);
        let (rows, width) = (32, 24);
        let x = tape.input("x", rows, width).unwrap();
        let target = tape.input("target", rows, width).unwrap();
        let layers: Vec<Linear> = (0..6)
            .map(|layer| Linear::new(&mut tape, &format!("layer{layer}"), width, width).unwrap())
            .collect();
        let mut out = x;
        for (index, layer) in layers.iter().enumerate() {
            let record = |tape: &mut Tape| -> Result<Variable, TrainError> {
                let hidden = layer.forward(tape, out)?;
                let named = |part: &str| format!("{part}{index}");
                let silu = tape.silu(&named("silu"), hidden)?;
                let gelu = tape.gelu(&named("gelu"), hidden)?;
                let both = tape.silu_mul(&named("both"), silu, gelu)?;
                tape.add(&named("sum"), both, out)
            };
            out = match again {
                true => tape.recomputed(record).unwrap(),
                false => record(&mut tape).unwrap(),
            };
        }
        let loss = tape.mse("loss", out, target).unwrap();
        let plan = tape.plan(loss).unwrap();
        let memory = plan.memory(Adam::default()).activations;
        let mut trainer = plan
            .trainer(&device(), Adam::default(), Schedule::constant(0.01))
            .unwrap();
        trainer.write(x, &numbers(rows * width, 1)).unwrap();
        trainer.write(target, &numbers(rows * width, 2)).unwrap();
        let losses: Vec<f32> = (0..5).map(|_| trainer.step().unwrap()).collect();
        let weights: Vec<Vec<f32>> = layers
            .iter()
            .map(|layer| trainer.read(layer.weight()).unwrap())
            .collect();
        (memory, losses, weights)
    };
    let (all, kept_losses, kept) = trainer(false);
    let (less, losses, again) = trainer(true);
    assert_eq!(losses, kept_losses);
    assert_eq!(again, kept);
    assert!(losses[4] < losses[0]);
    assert!(less < all * 2 / 3, "{less} of {all} bytes");
}

#[test]
fn silu_and_gelu_alone_have_gradients() {
    let mut tape = Tape::new(0);
    let weights = numbers(21, 3);
    let x = tape.parameter("x", 3, 7, &weights).unwrap();
    let target = tape.input("target", 3, 7).unwrap();
    let silu = tape.silu("silu", x).unwrap();
    let out = tape.gelu("gelu", silu).unwrap();
    tape.keep(silu).unwrap();
    tape.keep(out).unwrap();
    let loss = tape.mse("loss", out, target).unwrap();
    let plan = tape.plan(loss).unwrap();
    let schedule = Schedule::constant(0.01);
    let mut trainer = plan.trainer(&device(), Sgd::default(), schedule).unwrap();
    trainer.write(target, &numbers(21, 4)).unwrap();
    let formula = |x: f64| {
        let silu = x / (1.0 + (-x).exp());
        let inner = (2.0 / std::f64::consts::PI).sqrt() * (silu + 0.044_715 * silu.powi(3));
        [silu, silu / 2.0 * (1.0 + inner.tanh())]
    };
    trainer.forward().unwrap();
    let found = [silu, out].map(|kept| trainer.read(kept).unwrap());
    for (place, x) in weights.iter().enumerate() {
        for (found, want) in found.iter().zip(formula(f64::from(*x))) {
            assert!((f64::from(found[place]) - want).abs() < 1e-6, "{x}: {want}");
        }
    }
    check_directions(&mut trainer, &[x], "silu and gelu");
}
