//! Low-rank changes of frozen weights.

use half::f16;
use ironbridge::train::{Adam, Lora, Schedule, Tape, TrainError, Trainer, Variable};
use ironbridge::{DType, Device};

use crate::oracle;
use crate::support::{f64s, halves, numbers};

const ROWS: usize = 10;
const WIDTH: usize = 32;
const RANK: usize = 4;
const ALPHA: f32 = 8.0;

/// Frozen weights as their type stores them, and what they are worth.
fn stored(dtype: DType, seed: u64) -> (Vec<u8>, Vec<f64>) {
    let values: Vec<f32> = numbers(WIDTH * WIDTH, seed)
        .iter()
        .map(|v| v / 4.0)
        .collect();
    match dtype {
        DType::F32 => (
            values.iter().flat_map(|v| v.to_le_bytes()).collect(),
            f64s(&values),
        ),
        DType::F16 => {
            let halves: Vec<f16> = halves(&values);
            let bytes = halves.iter().flat_map(|v| v.to_le_bytes()).collect();
            (bytes, halves.iter().map(|v| v.to_f64()).collect())
        }
        _ => oracle::q8_0(&values),
    }
}

/// Two layers, so that a gradient goes through the second one's frozen weights.
struct Network {
    x: Variable,
    target: Variable,
    frozen: [Variable; 2],
    layers: [Lora; 2],
}

impl Network {
    fn trainer(dtype: DType) -> (Network, Trainer) {
        let mut tape = Tape::new(4);
        let x = tape.input("x", ROWS, WIDTH).unwrap();
        let target = tape.input("target", ROWS, WIDTH).unwrap();
        let frozen = ["first", "second"].map(|name| {
            let name = format!("{name}.weight");
            tape.frozen(&name, WIDTH, WIDTH, dtype).unwrap()
        });
        let first = Lora::new(&mut tape, "first", frozen[0], RANK, ALPHA).unwrap();
        let second = Lora::new(&mut tape, "second", frozen[1], RANK, ALPHA).unwrap();
        let hidden = first.forward(&mut tape, x).unwrap();
        let hidden = tape.tanh("hidden", hidden).unwrap();
        let out = second.forward(&mut tape, hidden).unwrap();
        let loss = tape.mse("loss", out, target).unwrap();
        let plan = tape.plan(loss).unwrap();
        let memory = plan.memory(Adam::default());
        let device = Device::open("cpu").expect("it is everywhere");
        let mut trainer = plan
            .trainer(&device, Adam::default(), Schedule::constant(0.01))
            .unwrap();
        let mut bytes = 0;
        for (seed, frozen) in frozen.into_iter().enumerate() {
            let weights = stored(dtype, seed as u64).0;
            trainer.write_frozen(frozen, &weights).unwrap();
            bytes += weights.len() as u64;
        }
        assert_eq!(memory.frozen, bytes);
        trainer.write(x, &numbers(ROWS * WIDTH, 7)).unwrap();
        trainer.write(target, &numbers(ROWS * WIDTH, 8)).unwrap();
        let network = Network {
            x,
            target,
            frozen,
            layers: [first, second],
        };
        (network, trainer)
    }

    fn parameters(&self) -> [Variable; 4] {
        let [first, second] = &self.layers;
        [first.down(), first.up(), second.down(), second.up()]
    }
}

/// The loss in float64.
fn formula(frozen: &[Vec<f64>; 2], parameters: &[Vec<f64>]) -> f64 {
    let product = |x: &[f64], weight: &[f64], inputs: usize| {
        let outputs = weight.len() / inputs;
        let weight = oracle::transpose(weight, outputs, inputs);
        oracle::matmul(x, &weight, ROWS, inputs, outputs)
    };
    let layer = |x: &[f64], weight: &[f64], down: &[f64], up: &[f64]| -> Vec<f64> {
        let change = product(&product(x, down, WIDTH), up, RANK);
        let scale = f64::from(ALPHA) / RANK as f64;
        (product(x, weight, WIDTH).iter().zip(change))
            .map(|(frozen, change)| frozen + scale * change)
            .collect()
    };
    let x = f64s(&numbers(ROWS * WIDTH, 7));
    let hidden = layer(&x, &frozen[0], &parameters[0], &parameters[1]);
    let hidden: Vec<f64> = hidden.iter().map(|x| x.tanh()).collect();
    let out = layer(&hidden, &frozen[1], &parameters[2], &parameters[3]);
    let target = f64s(&numbers(ROWS * WIDTH, 8));
    let squares = out.iter().zip(&target).map(|(o, t)| (o - t).powi(2));
    squares.sum::<f64>() / out.len() as f64
}

#[test]
fn gradients_through_frozen_weights_are_central_differences() {
    for dtype in [DType::F32, DType::F16, DType::Q8_0] {
        let (network, mut trainer) = Network::trainer(dtype);
        let frozen = [0, 1].map(|seed| stored(dtype, seed).1);
        // Zeros would hide the gradients of what is before them.
        for (seed, layer) in network.layers.iter().enumerate() {
            let values: Vec<f32> = numbers(WIDTH * RANK, 20 + seed as u64);
            let values: Vec<f32> = values.iter().map(|v| v / 8.0).collect();
            trainer.write(layer.up(), &values).unwrap();
        }
        let mut parameters: Vec<Vec<f64>> = (network.parameters().iter())
            .map(|parameter| f64s(&trainer.read(*parameter).unwrap()))
            .collect();
        // Products with Q8_0 round each activation to 8 bits of the largest of 32, which is below 2.
        let rounding = match dtype {
            DType::Q8_0 => 2.0 / 254.0,
            _ => 1e-6,
        };
        let loss = formula(&frozen, &parameters);
        let got = f64::from(trainer.forward().unwrap());
        assert!(
            (got - loss).abs() < rounding * (1.0 + loss),
            "{dtype:?}: {got} is not {loss}"
        );
        trainer.backward().unwrap();
        for (index, parameter) in network.parameters().iter().enumerate() {
            let gradient = trainer.gradient(*parameter).unwrap();
            let largest = gradient.iter().fold(0f32, |most, g| most.max(g.abs()));
            for (place, got) in gradient.iter().enumerate() {
                let before = parameters[index][place];
                let mut at = |moved: f64| {
                    parameters[index][place] = moved;
                    formula(&frozen, &parameters)
                };
                let want = (at(before + 1e-5) - at(before - 1e-5)) / 2e-5;
                at(before);
                let off = (f64::from(*got) - want).abs();
                let tolerance = 1e-6 + 4.0 * rounding * f64::from(largest);
                assert!(
                    off < tolerance,
                    "{dtype:?} {index}, {place}: {got}, not {want}"
                );
            }
        }
    }
}

#[test]
fn only_the_change_learns_and_is_saved() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("adapter.safetensors");
    let (_, mut trainer) = Network::trainer(DType::Q8_0);
    let first = trainer.step().unwrap();
    for _ in 0..150 {
        trainer.step().unwrap();
    }
    let last = trainer.forward().unwrap();
    assert!(last < first / 2.0, "{first} became {last}");
    trainer.save(&path).unwrap();
    // Four parameters with two moments each, and no frozen weight.
    let names = |bytes: &[u8]| {
        let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        let header: serde_json::Value = serde_json::from_slice(&bytes[8..8 + length]).unwrap();
        let names = header.as_object().unwrap().keys().cloned();
        names
            .filter(|name| !name.starts_with("__") && name != "optimizer.step")
            .collect::<Vec<String>>()
    };
    let names = names(&std::fs::read(&path).unwrap());
    assert!(names.iter().all(|name| name.contains("lora_")), "{names:?}");
    assert_eq!(names.len(), 12, "{names:?}");
    let (_, mut again) = Network::trainer(DType::Q8_0);
    assert_eq!(again.forward().unwrap(), first);
    again.restore(&path).unwrap();
    assert_eq!(again.forward().unwrap(), last);
}

#[test]
fn frozen_weights_that_do_not_fit() {
    let mut tape = Tape::new(0);
    for (inputs, dtype) in [(33, DType::Q8_0), (32, DType::Q4K), (32, DType::U32)] {
        let error = tape.frozen("weight", 2, inputs, dtype).unwrap_err();
        assert!(matches!(error, TrainError::Frozen { .. }), "{error}");
    }
    let weight = tape.frozen("weight", 2, 32, DType::Q8_0).unwrap();
    for alpha in [0.0, f32::NAN, f32::INFINITY] {
        let error = Lora::new(&mut tape, "lora", weight, 2, alpha).unwrap_err();
        assert!(error.to_string().starts_with("alpha: is "), "{error}");
    }
    let error = Lora::new(&mut tape, "lora", weight, 0, 1.0).unwrap_err();
    assert!(matches!(error, TrainError::Size { .. }), "{error}");

    let (network, mut trainer) = Network::trainer(DType::F16);
    let text = trainer
        .write_frozen(network.frozen[0], &[0; 7])
        .unwrap_err()
        .to_string();
    assert_eq!(text, "tensor \"first.weight\" has 2048 bytes, 7 were given");
    for other in [network.x, network.target, network.layers[0].up()] {
        let error = trainer.write_frozen(other, &[0; 7]).unwrap_err();
        assert!(matches!(error, TrainError::NotWritable { .. }), "{error}");
    }
    let error = trainer
        .write(network.frozen[0], &[0.0; WIDTH * WIDTH])
        .unwrap_err();
    assert!(matches!(error, TrainError::NotWritable { .. }), "{error}");
    assert!(trainer.read(network.frozen[0]).is_err());
}
