//! Tapes whose products are of 16 bits: their gradients, the scale of the loss, and that they learn.

use ironbridge::Device;
use ironbridge::ops::RopePairing;
use ironbridge::train::{
    Adam, Attention, Heads, Linear, Plan, Precision, RmsNorm, Rotation, Schedule, Sgd, Tape,
    TrainError, Trainer, Variable,
};

use crate::oracle;
use crate::support::{f64s, f64s_of_halves, halves, numbers};

fn device() -> Device {
    Device::open("cpu").expect("it is everywhere")
}

/// As F16 stores them.
fn in_halves(values: &[f64]) -> Vec<f64> {
    let values: Vec<f32> = values.iter().map(|value| *value as f32).collect();
    f64s_of_halves(&halves(&values))
}

const ROWS: usize = 9;
const WIDTHS: [usize; 3] = [7, 5, 3];

/// Two layers, one after another.
struct Layers {
    x: Variable,
    target: Variable,
    layers: [Linear; 2],
}

impl Layers {
    fn trainer(precision: Precision) -> (Layers, Trainer) {
        let mut tape = Tape::new(3);
        tape.set_precision(precision);
        let [inputs, hidden, outputs] = WIDTHS;
        let x = tape.input("x", ROWS, inputs).unwrap();
        let target = tape.input("target", ROWS, outputs).unwrap();
        let layers = [
            Linear::new(&mut tape, "first", inputs, hidden).unwrap(),
            Linear::new(&mut tape, "second", hidden, outputs).unwrap(),
        ];
        let y = layers[0].forward(&mut tape, x).unwrap();
        let y = layers[1].forward(&mut tape, y).unwrap();
        let loss = tape.mse("loss", y, target).unwrap();
        let plan = tape.plan(loss).unwrap();
        let schedule = Schedule::constant(0.1);
        let trainer = plan.trainer(&device(), Sgd::default(), schedule).unwrap();
        let layers = Layers { x, target, layers };
        (layers, trainer)
    }

    fn feed(&self, trainer: &mut Trainer, size_of_target: f32) {
        let x = numbers(ROWS * WIDTHS[0], 1);
        let target = numbers(ROWS * WIDTHS[2], 2);
        let target: Vec<f32> = target.iter().map(|value| value * size_of_target).collect();
        trainer.write(self.x, &x).unwrap();
        trainer.write(self.target, &target).unwrap();
    }

    fn parameters(&self) -> [Variable; 4] {
        let [first, second] = &self.layers;
        [first.weight(), first.bias(), second.weight(), second.bias()]
    }

    fn bits(&self, trainer: &Trainer) -> Vec<u32> {
        let values = self.parameters().map(|it| trainer.read(it).unwrap());
        values
            .iter()
            .flatten()
            .map(|value| value.to_bits())
            .collect()
    }
}

/// Gradients in float64, with numbers rounded to F16 where the passes do that.
fn expected(layers: &Layers, trainer: &Trainer, scale: f64) -> [Vec<f64>; 4] {
    let [inputs, hidden, outputs] = WIDTHS;
    let read = |variable| f64s(&trainer.read(variable).unwrap());
    let [w1, b1, w2, b2] = layers.parameters().map(|it| in_halves(&read(it)));
    let forward = |x: &[f64], weight: &[f64], bias: &[f64], inputs: usize| {
        let outputs = bias.len();
        let transposed = oracle::transpose(weight, outputs, inputs);
        let mut y = oracle::matmul(x, &transposed, ROWS, inputs, outputs);
        for (place, y) in y.iter_mut().enumerate() {
            *y += bias[place % outputs];
        }
        in_halves(&y)
    };
    let x = in_halves(&read(layers.x));
    let y1 = forward(&x, &w1, &b1, inputs);
    let y2 = forward(&y1, &w2, &b2, hidden);
    let target = read(layers.target);
    let count = target.len() as f64;
    let exact: Vec<f64> = (y2.iter().zip(&target))
        .map(|(y, t)| scale * 2.0 * (y - t) / count)
        .collect();
    let of_weight = |gradient: &[f64], x: &[f64], outputs: usize, inputs: usize| {
        let transposed = oracle::transpose(gradient, ROWS, outputs);
        let product = in_halves(&oracle::matmul(&transposed, x, outputs, ROWS, inputs));
        product.iter().map(|value| value / scale).collect()
    };
    let of_bias = |gradient: &[f64], outputs: usize| -> Vec<f64> {
        let column = |j: usize| gradient.iter().skip(j).step_by(outputs).sum::<f64>() / scale;
        (0..outputs).map(column).collect()
    };
    let g2 = in_halves(&exact);
    let back = in_halves(&oracle::matmul(&g2, &w2, ROWS, outputs, hidden));
    [
        of_weight(&back, &x, hidden, inputs),
        of_bias(&back, hidden),
        of_weight(&g2, &y1, outputs, hidden),
        of_bias(&exact, outputs),
    ]
}

#[test]
fn gradients_are_those_of_numbers_of_16_bits() {
    let (layers, mut trainer) = Layers::trainer(Precision::F16);
    layers.feed(&mut trainer, 1.0);
    for scale in [1.0f32, 1024.0] {
        trainer.set_loss_scale(scale).unwrap();
        trainer.forward().unwrap();
        trainer.backward().unwrap();
        let wanted = expected(&layers, &trainer, scale.into());
        let mut squares = 0.0;
        for (variable, wanted) in layers.parameters().into_iter().zip(wanted) {
            let got = f64s(&trainer.gradient(variable).unwrap());
            let largest = wanted.iter().fold(0.0, |most: f64, it| most.max(it.abs()));
            for (got, wanted) in got.iter().zip(&wanted) {
                // A sum in another order may be rounded to the next F16, and so may a number that goes into it.
                assert!(
                    (got - wanted).abs() < 2e-3 * largest,
                    "{got} is not {wanted}"
                );
            }
            squares += got.iter().map(|it| it * it).sum::<f64>();
        }
        let norm = f64::from(trainer.gradient_norm().unwrap());
        assert!((norm - squares.sqrt()).abs() < 1e-6 * norm, "{norm}");
    }
}

#[test]
fn a_scale_keeps_gradients_from_vanishing() {
    let gradients = |precision, scale: Option<f32>| {
        let (layers, mut trainer) = Layers::trainer(precision);
        layers.feed(&mut trainer, 1.0);
        // Weights and inputs so small that gradients of the first layer are near 1e-9.
        let small: Vec<f32> = numbers(ROWS * WIDTHS[0], 1)
            .iter()
            .map(|x| x * 1e-7)
            .collect();
        trainer.write(layers.x, &small).unwrap();
        if let Some(scale) = scale {
            trainer.set_loss_scale(scale).unwrap();
        }
        trainer.forward().unwrap();
        trainer.backward().unwrap();
        trainer.gradient(layers.layers[0].weight()).unwrap()
    };
    let lost = gradients(Precision::F16, Some(1.0));
    assert!(lost.iter().all(|gradient| *gradient == 0.0), "{lost:?}");
    let kept = gradients(Precision::F16, None);
    let exact = gradients(Precision::F32, None);
    let largest = exact.iter().fold(0.0f32, |most, it| most.max(it.abs()));
    assert!(largest > 0.0 && largest < 1e-7);
    for (kept, exact) in kept.iter().zip(&exact) {
        // Inputs of 1e-7 are subnormal as F16, with a step of 2^-24.
        assert!(
            (kept - exact).abs() < 0.5 * largest,
            "{kept} is not {exact}"
        );
    }
}

#[test]
fn an_update_from_gradients_that_overflow_is_left_out() {
    let (layers, mut trainer) = Layers::trainer(Precision::F16);
    layers.feed(&mut trainer, 1.0);
    let before = layers.bits(&trainer);
    let first = 2f32.powi(30);
    trainer.set_loss_scale(first).unwrap();
    let loss = trainer.step().unwrap();
    assert!(loss.is_finite() && !trainer.gradient_norm().unwrap().is_finite());
    assert_eq!((trainer.steps(), trainer.skipped_updates()), (0, 1));
    assert_eq!(trainer.loss_scale(), Some(first / 2.0));
    assert_eq!(layers.bits(&trainer), before);
    // One by one it is the same.
    assert_eq!(trainer.forward().unwrap(), loss);
    trainer.backward().unwrap();
    trainer.update().unwrap();
    assert_eq!((trainer.steps(), trainer.skipped_updates()), (0, 2));
    while trainer.steps() == 0 {
        assert_eq!(trainer.step().unwrap(), loss);
    }
    assert!(trainer.skipped_updates() < 30 && layers.bits(&trainer) != before);
    assert!(trainer.step().unwrap() < loss);

    // What no scale can mend.
    trainer.write(layers.x, &[1e6; ROWS * WIDTHS[0]]).unwrap();
    let before = layers.bits(&trainer);
    let error = trainer.step().unwrap_err();
    assert!(matches!(error, TrainError::NotFinite { .. }), "{error}");
    assert_eq!(layers.bits(&trainer), before);
}

#[test]
fn only_f16_has_a_scale() {
    for precision in [Precision::F32, Precision::Bf16] {
        let (_, mut trainer) = Layers::trainer(precision);
        assert_eq!(trainer.loss_scale(), None);
        let error = trainer.set_loss_scale(2.0).unwrap_err().to_string();
        assert!(error.starts_with("loss_scale: is 2"), "{error}");
    }
    let (_, mut trainer) = Layers::trainer(Precision::F16);
    for wrong in [0.5, 0.0, -2.0, f32::NAN, f32::INFINITY] {
        let error = trainer.set_loss_scale(wrong).unwrap_err().to_string();
        assert!(error.starts_with("loss_scale: is "), "{error}");
    }
    assert_eq!(trainer.loss_scale(), Some(65536.0));
}

#[test]
fn clipping_is_of_the_gradients_without_the_scale() {
    let moved = |precision, clip: f32| {
        let (layers, mut trainer) = Layers::trainer(precision);
        layers.feed(&mut trainer, 3.0);
        trainer.clip_norm(clip).unwrap();
        let read = |trainer: &Trainer| {
            layers
                .parameters()
                .map(|it| trainer.read(it).unwrap())
                .concat()
        };
        let before = read(&trainer);
        trainer.step().unwrap();
        let after = read(&trainer);
        let moved = after.iter().zip(before).map(|(a, b)| f64::from(a - b));
        moved.map(|it| it * it).sum::<f64>().sqrt()
    };
    for clip in [0.01f32, 0.1] {
        for precision in [Precision::F32, Precision::F16, Precision::Bf16] {
            // The learning rate is 0.1.
            let (got, wanted) = (moved(precision, clip), 0.1 * f64::from(clip));
            assert!((got - wanted).abs() < 1e-3 * wanted, "{precision:?}: {got}");
        }
    }
}

/// A LLaMA block of which nothing is random; it learns to give back what it is given.
fn block(precision: Precision, recomputed: bool) -> ([Variable; 2], Plan) {
    const WIDTH: usize = 16;
    const HIDDEN: usize = 24;
    let rotation = Rotation {
        head_dim: 8,
        pairing: RopePairing::Half,
        base: 10_000.0,
    };
    let heads = Heads {
        heads: 2,
        kv_heads: 1,
        rotation,
    };
    let mut tape = Tape::new(11);
    let t = &mut tape;
    t.set_precision(precision);
    let given = t.input("given", 24, WIDTH).unwrap();
    let target = t.input("target", 24, WIDTH).unwrap();
    let positions = t.positions("positions", 24, 12).unwrap();
    let attention = Attention::new(t, "attention", WIDTH, heads).unwrap();
    let norms = ["one", "two"].map(|name| RmsNorm::new(t, name, WIDTH, 1e-5).unwrap());
    let [gate, up] = ["gate", "up"].map(|name| Linear::new(t, name, WIDTH, HIDDEN).unwrap());
    let down = Linear::new(t, "down", HIDDEN, WIDTH).unwrap();
    let record = |t: &mut Tape| -> Result<Variable, TrainError> {
        let normed = norms[0].forward(t, given)?;
        let attended = attention.forward(t, normed, positions, 12)?;
        let x = t.add("after attention", given, attended)?;
        let normed = norms[1].forward(t, x)?;
        let gated = gate.forward(t, normed)?;
        let upped = up.forward(t, normed)?;
        let hidden = t.silu_mul("hidden", gated, upped)?;
        let fed = down.forward(t, hidden)?;
        t.add("after feed forward", x, fed)
    };
    let out = match recomputed {
        true => t.recomputed(record),
        false => record(t),
    };
    let loss = t.mse("loss", out.unwrap(), target).unwrap();
    ([given, target], tape.plan(loss).unwrap())
}

fn losses(precision: Precision, recomputed: bool, steps: usize) -> Vec<f32> {
    let (variables, plan) = block(precision, recomputed);
    let mut trainer = trainer_of(variables, plan);
    (0..steps).map(|_| trainer.step().unwrap()).collect()
}

fn trainer_of([given, target]: [Variable; 2], plan: Plan) -> Trainer {
    let schedule = Schedule::constant(0.01);
    let mut trainer = plan.trainer(&device(), Adam::default(), schedule).unwrap();
    trainer.write(given, &numbers(24 * 16, 5)).unwrap();
    trainer.write(target, &numbers(24 * 16, 6)).unwrap();
    trainer
}

#[test]
fn a_block_learns_as_in_f32() {
    let exact = losses(Precision::F32, false, 60);
    assert!(exact[59] < 0.3 * exact[0], "{exact:?}");
    for (precision, most) in [(Precision::F16, 1e-3), (Precision::Bf16, 1e-2)] {
        let got = losses(precision, false, 60);
        assert_ne!(got, exact);
        for (step, (got, wanted)) in got.iter().zip(&exact).enumerate() {
            // Roundings of 2^-11 and 2^-8, which later steps carry on.
            let apart = (got - wanted).abs() / exact[0];
            assert!(
                apart < most,
                "{precision:?}, step {step}: {got} is not {wanted}"
            );
        }
    }
}

#[test]
fn recomputed_layers_give_the_same_bits() {
    for precision in [Precision::F16, Precision::Bf16] {
        let (once, twice) = (losses(precision, false, 8), losses(precision, true, 8));
        assert_eq!(once, twice, "{precision:?}");
    }
}

#[test]
fn a_checkpoint_has_the_scale() {
    let folder = tempfile::tempdir().unwrap();
    let [path, other] = ["scaled", "plain"].map(|name| folder.path().join(name));
    let new = || {
        let (variables, plan) = block(Precision::F16, false);
        trainer_of(variables, plan)
    };
    let mut trainer = new();
    trainer.set_loss_scale(256.0).unwrap();
    for _ in 0..3 {
        trainer.step().unwrap();
    }
    trainer.save(&path).unwrap();
    let whole: Vec<f32> = (0..4).map(|_| trainer.step().unwrap()).collect();
    let mut resumed = new();
    resumed.restore(&path).unwrap();
    assert_eq!(resumed.loss_scale(), Some(256.0));
    let rest: Vec<f32> = (0..4).map(|_| resumed.step().unwrap()).collect();
    assert_eq!(rest, whole);

    let (variables, plan) = block(Precision::F32, false);
    let mut plain = trainer_of(variables, plan);
    let error = plain.restore(&path).unwrap_err().to_string();
    assert!(error.contains("optimizer.loss_scale"), "{error}");
    plain.save(&other).unwrap();
    let error = resumed.restore(&other).unwrap_err().to_string();
    assert!(error.contains("optimizer.loss_scale"), "{error}");

    // The scale is the last tensor of the file.
    let good = std::fs::read(&path).unwrap();
    for wrong in [0.0f32, 0.5, f32::NAN, f32::INFINITY] {
        let mut bytes = good.clone();
        let place = bytes.len() - 8;
        bytes[place..place + 4].copy_from_slice(&wrong.to_le_bytes());
        std::fs::write(&other, &bytes).unwrap();
        let error = resumed.restore(&other).unwrap_err();
        assert!(matches!(error, TrainError::OtherModel { .. }), "{error}");
        assert_eq!(resumed.loss_scale(), Some(256.0));
    }
}

#[test]
fn what_layers_keep_takes_less_memory_as_f16() {
    const WIDTH: usize = 64;
    let memory = |precision| {
        let mut tape = Tape::new(1);
        tape.set_precision(precision);
        let target = tape.input("target", 512, WIDTH).unwrap();
        let mut x = tape.input("x", 512, WIDTH).unwrap();
        for layer in 0..6 {
            let norm = RmsNorm::new(&mut tape, &format!("norm.{layer}"), WIDTH, 1e-5).unwrap();
            let linear = Linear::new(&mut tape, &format!("{layer}"), WIDTH, WIDTH).unwrap();
            let normed = norm.forward(&mut tape, x).unwrap();
            x = linear.forward(&mut tape, normed).unwrap();
        }
        let loss = tape.mse("loss", x, target).unwrap();
        tape.plan(loss).unwrap().memory(Adam::default())
    };
    let [half, whole] = [Precision::F16, Precision::F32].map(memory);
    assert_eq!(half.parameters, whole.parameters);
    assert_eq!(half.optimizer, whole.optimizer);
    // Of the two tensors that each of six layers keeps the norm is F16; copies take a part of that back.
    let kept = 4 * 512 * WIDTH as u64;
    assert!(
        half.activations + kept < whole.activations,
        "{half:?} {whole:?}"
    );
}
