//! Tapes, plans, steps and checkpoints of `ironbridge::train`.

use ironbridge::memory::Category;
use ironbridge::ops::CrossEntropy;
use ironbridge::train::{
    Adam, Linear, Optimizer, Plan, Schedule, Sgd, Tape, TrainError, Trainer, Variable,
};
use ironbridge::{DType, Device};

use crate::oracle;
use crate::support::{eventually, f64s, numbers};

/// On the software device: its figures of memory are exact.
fn device() -> Device {
    Device::open("cpu").expect("it is everywhere")
}

/// A network with everything that a tape records but a cross-entropy; `shared` is used twice, and so is `hidden`.
struct Network {
    x: Variable,
    target: Variable,
    parameters: Vec<Variable>,
    out: Variable,
}

const ROWS: usize = 40;
const SHAPES: [[usize; 2]; 5] = [[4, 3], [1, 4], [4, 4], [2, 4], [1, 2]];

impl Network {
    fn plan(seed: u64) -> (Network, Plan) {
        let mut tape = Tape::new(seed);
        let x = tape.input("x", ROWS, 3).unwrap();
        let target = tape.input("target", ROWS, 2).unwrap();
        let first = Linear::new(&mut tape, "first", 3, 4).unwrap();
        let values = numbers(16, seed);
        let shared = tape.parameter("shared", 4, 4, &values).unwrap();
        let last = Linear::new(&mut tape, "last", 4, 2).unwrap();

        let hidden = first.forward(&mut tape, x).unwrap();
        let hidden = tape.tanh("hidden", hidden).unwrap();
        let once = tape.linear("once", hidden, shared, None).unwrap();
        let once = tape.relu("once.relu", once).unwrap();
        let twice = tape.linear("twice", once, shared, None).unwrap();
        let twice = tape.sigmoid("twice.sigmoid", twice).unwrap();
        let sum = tape.add("sum", hidden, twice).unwrap();
        let double = tape.add("double", sum, sum).unwrap();
        let out = last.forward(&mut tape, double).unwrap();
        tape.keep(out).unwrap();
        let loss = tape.mse("loss", out, target).unwrap();
        let parameters = vec![
            first.weight(),
            first.bias(),
            shared,
            last.weight(),
            last.bias(),
        ];
        let network = Network {
            x,
            target,
            parameters,
            out,
        };
        (network, tape.plan(loss).unwrap())
    }

    fn trainer(seed: u64, optimizer: impl Into<Optimizer>) -> (Network, Trainer) {
        let (network, plan) = Network::plan(seed);
        let schedule = Schedule::cosine(0.05, 0.01, 40).warmup(3);
        let mut trainer = plan.trainer(&device(), optimizer, schedule).unwrap();
        network.feed(&mut trainer, 1);
        (network, trainer)
    }

    fn feed(&self, trainer: &mut Trainer, seed: u64) {
        trainer.write(self.x, &numbers(ROWS * 3, seed)).unwrap();
        trainer
            .write(self.target, &numbers(ROWS * 2, seed + 100))
            .unwrap();
    }

    /// The output and the loss in float64.
    fn formula(parameters: &[Vec<f64>], x: &[f64], target: &[f64]) -> (Vec<f64>, f64) {
        let linear = |x: &[f64], weight: &[f64], bias: Option<&[f64]>, inputs: usize| {
            let outputs = weight.len() / inputs;
            let weight = oracle::transpose(weight, outputs, inputs);
            let mut y = oracle::matmul(x, &weight, ROWS, inputs, outputs);
            for (place, y) in y.iter_mut().enumerate() {
                *y += bias.map_or(0.0, |bias| bias[place % outputs]);
            }
            y
        };
        let each = |x: Vec<f64>, of: fn(f64) -> f64| x.into_iter().map(of).collect::<Vec<f64>>();
        let [w, b, shared, v, c] = parameters else {
            panic!("five parameters")
        };
        let hidden = each(linear(x, w, Some(b), 3), f64::tanh);
        let once = each(linear(&hidden, shared, None, 4), oracle::relu);
        let twice = each(linear(&once, shared, None, 4), oracle::sigmoid);
        let double: Vec<f64> = (hidden.iter().zip(&twice))
            .map(|(a, b)| 2.0 * (a + b))
            .collect();
        let out = linear(&double, v, Some(c), 4);
        let squares = out.iter().zip(target).map(|(o, t)| (o - t).powi(2));
        let loss = squares.sum::<f64>() / out.len() as f64;
        (out, loss)
    }
}

#[test]
fn the_gradients_of_a_whole_network_are_central_differences() {
    for seed in 1..4 {
        let (network, mut trainer) = Network::trainer(seed, Sgd::default());
        let (x, target) = (
            f64s(&numbers(ROWS * 3, 1)),
            f64s(&numbers(ROWS * 2, 1 + 100)),
        );
        let mut parameters: Vec<Vec<f64>> = (network.parameters.iter())
            .map(|parameter| f64s(&trainer.read(*parameter).unwrap()))
            .collect();
        let (out, loss) = Network::formula(&parameters, &x, &target);
        let got = trainer.forward().unwrap();
        // Sums of at most four products of numbers below 8, each after the one before.
        assert!(
            (f64::from(got) - loss).abs() < 1e-5 * loss,
            "{got} is not {loss}"
        );
        for (got, want) in trainer.read(network.out).unwrap().iter().zip(out) {
            assert!((f64::from(*got) - want).abs() < 1e-5, "{got} is not {want}");
        }
        trainer.backward().unwrap();
        for (index, parameter) in network.parameters.iter().enumerate() {
            let gradient = trainer.gradient(*parameter).unwrap();
            assert_eq!(gradient.len(), SHAPES[index][0] * SHAPES[index][1]);
            for (place, got) in gradient.iter().enumerate() {
                let before = parameters[index][place];
                let mut at = |moved: f64| {
                    parameters[index][place] = moved;
                    Network::formula(&parameters, &x, &target).1
                };
                let want = (at(before + 1e-5) - at(before - 1e-5)) / 2e-5;
                at(before);
                let off = (f64::from(*got) - want).abs();
                assert!(
                    off < 2e-6 + 1e-5 * want.abs(),
                    "parameter {index}, {place}: {got}, not {want}"
                );
            }
        }
    }
}

#[test]
fn the_memory_is_known_before_the_first_step_and_stays() {
    for optimizer in [
        Optimizer::from(Adam::default()),
        Optimizer::from(Sgd::default()),
    ] {
        let (network, plan) = Network::plan(1);
        let planned = plan.memory(optimizer);
        let weights: usize = SHAPES.iter().map(|[rows, width]| rows * width).sum();
        let copies = match optimizer {
            Optimizer::Adam(_) => 2,
            _ => 1,
        };
        assert_eq!(planned.parameters, 4 * weights as u64);
        assert_eq!(planned.optimizer, copies * planned.parameters);
        // x, the target, and the loss of each row.
        assert_eq!(planned.inputs, 4 * (ROWS * (3 + 2 + 1)) as u64);
        assert!(planned.activations < planned.unshared_activations);

        let device = device();
        let baseline = device.memory().unwrap().active_bytes;
        let schedule = Schedule::constant(0.01);
        let mut trainer = plan.trainer(&device, optimizer, schedule).unwrap();
        let bytes = |category| device.memory().unwrap().category(category).bytes;
        let of_weights = planned.parameters + planned.optimizer;
        assert_eq!(bytes(Category::Weights), of_weights);
        assert_eq!(
            bytes(Category::Activations),
            planned.inputs + planned.activations
        );
        assert_eq!(trainer.memory(), planned);
        network.feed(&mut trainer, 1);
        trainer.step().unwrap();
        let after = device.memory().unwrap();
        for _ in 0..200 {
            trainer.step().unwrap();
        }
        let later = device.memory().unwrap();
        assert_eq!(later.allocations, after.allocations);
        assert_eq!(later.active_bytes, after.active_bytes);
        assert_eq!(later.peak_bytes, after.peak_bytes);
        drop(trainer);
        device.sync().unwrap();
        assert!(eventually(
            || device.memory().unwrap().active_bytes == baseline
        ));
    }
}

/// The bits of all parameters.
fn bits(network: &Network, trainer: &Trainer) -> Vec<u32> {
    let parameters = network.parameters.iter();
    let values = parameters.flat_map(|parameter| trainer.read(*parameter).unwrap());
    values.map(f32::to_bits).collect()
}

/// Step by step, each with data of its own.
fn run(network: &Network, trainer: &mut Trainer, until: u64) -> Vec<u32> {
    let mut losses = Vec::new();
    while trainer.steps() < until {
        network.feed(trainer, trainer.steps());
        losses.push(trainer.step().unwrap().to_bits());
    }
    losses
}

#[test]
fn an_interrupted_run_goes_on_with_the_same_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.safetensors");
    let optimizers = [
        Optimizer::from(Adam {
            weight_decay: 0.1,
            ..Adam::default()
        }),
        Optimizer::from(Sgd {
            momentum: 0.9,
            weight_decay: 0.01,
        }),
    ];
    for optimizer in optimizers {
        let (network, mut whole) = Network::trainer(3, optimizer);
        let losses = run(&network, &mut whole, 30);
        let weights = bits(&network, &whole);

        let (network, mut first) = Network::trainer(3, optimizer);
        let mut parts = run(&network, &mut first, 13);
        first.save(&path).unwrap();
        drop(first);
        // Other first weights: all that counts is in the file.
        let (network, mut second) = Network::trainer(4, optimizer);
        second.restore(&path).unwrap();
        assert_eq!(second.steps(), 13);
        parts.extend(run(&network, &mut second, 30));
        assert_eq!(parts, losses);
        assert_eq!(bits(&network, &second), weights);
        assert!(f32::from_bits(losses[29]).is_finite());
    }
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

#[test]
fn ten_runs_one_after_another_are_the_same() {
    let runs: Vec<Vec<u32>> = (0..10)
        .map(|_| {
            let (network, mut trainer) = Network::trainer(5, Adam::default());
            let mut seen = run(&network, &mut trainer, 20);
            seen.extend(bits(&network, &trainer));
            seen
        })
        .collect();
    assert!(runs.windows(2).all(|pair| pair[0] == pair[1]));
}

/// Points of three classes around their corners of a triangle.
#[test]
fn a_classifier_learns_and_ignores_rows_without_a_label() {
    let mut tape = Tape::new(2);
    let x = tape.input("x", 30, 2).unwrap();
    let labels = tape.labels("labels", 30).unwrap();
    let hidden = Linear::new(&mut tape, "hidden", 2, 8).unwrap();
    let hidden = hidden.forward(&mut tape, x).unwrap();
    let hidden = tape.relu("hidden.relu", hidden).unwrap();
    let logits = Linear::new(&mut tape, "logits", 8, 3).unwrap();
    let logits = logits.forward(&mut tape, hidden).unwrap();
    tape.keep(logits).unwrap();
    let loss = tape.cross_entropy("loss", logits, labels).unwrap();
    let plan = tape.plan(loss).unwrap();
    let schedule = Schedule::constant(0.05);
    let mut trainer = plan.trainer(&device(), Adam::default(), schedule).unwrap();

    let corners = [[1.0, 0.0], [-0.5, 0.9], [-0.5, -0.9]];
    let noise = numbers(60, 1);
    let points: Vec<f32> = (0..60)
        .map(|i| corners[i / 2 % 3][i % 2] + 0.2 * noise[i])
        .collect();
    let right: Vec<u32> = (0..30).map(|row| row % 3).collect();
    trainer.write(x, &points).unwrap();
    let mut given = right.clone();
    given[10..20].fill(CrossEntropy::IGNORED);
    trainer.write_labels(labels, &given).unwrap();
    for _ in 0..150 {
        trainer.step().unwrap();
    }
    assert!(trainer.forward().unwrap() < 0.02);
    let logits = trainer.read(logits).unwrap();
    let best = |row: &[f32]| (0..3).max_by(|&a, &b| row[a].total_cmp(&row[b])).unwrap() as u32;
    assert_eq!(logits.chunks(3).map(best).collect::<Vec<u32>>(), right);

    given[7] = 3;
    let error = trainer.write_labels(labels, &given).unwrap_err();
    let text = error.to_string();
    assert!(matches!(
        error,
        TrainError::Label {
            row: 7,
            label: 3,
            classes: 3,
            ..
        }
    ));
    assert!(text.contains("\"labels\": label 3 of row 7"), "{text}");
    assert!(matches!(
        trainer.write_labels(x, &[0; 60]).unwrap_err(),
        TrainError::NotWritable { .. }
    ));
    assert!(matches!(
        trainer.write(labels, &[0.0; 30]).unwrap_err(),
        TrainError::NotWritable { .. }
    ));
}

#[test]
fn a_loss_that_is_not_finite_names_the_step_and_the_tensor_and_teaches_nothing() {
    let (network, mut trainer) = Network::trainer(1, Adam::default());
    run(&network, &mut trainer, 4);
    let before = bits(&network, &trainer);
    let mut x = numbers(ROWS * 3, 1);
    x[4] = f32::NAN;
    trainer.write(network.x, &x).unwrap();
    match trainer.step().unwrap_err() {
        TrainError::NotFinite { step, tensor, loss } => {
            assert_eq!((step, &tensor[..]), (5, "x"));
            assert!(loss.is_nan());
        }
        error => panic!("{error}"),
    }
    assert_eq!((bits(&network, &trainer), trainer.steps()), (before, 4));
    // An overflow that begins inside of the network.
    let (network, mut trainer) = Network::trainer(1, Adam::default());
    trainer.write(network.parameters[3], &[3e38; 8]).unwrap();
    let text = trainer.step().unwrap_err().to_string();
    assert!(
        text.starts_with("step 1: the loss is ") && text.contains("\"last.out\""),
        "{text}"
    );
    network.feed(&mut trainer, 2);
    trainer
        .write(network.parameters[3], &numbers(8, 9))
        .unwrap();
    assert!(trainer.step().unwrap().is_finite());
}

/// An infinite input that a saturated tanh hides from the loss.
#[test]
fn gradients_that_are_not_finite_name_the_step_and_the_tensor_and_teach_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("good");
    let (network, mut trainer) = Network::trainer(1, Adam::default());
    run(&network, &mut trainer, 4);
    trainer.save(&path).unwrap();
    let (before, saved) = (bits(&network, &trainer), std::fs::read(&path).unwrap());
    let mut x = numbers(ROWS * 3, 1);
    x[4] = f32::INFINITY;
    trainer.write(network.x, &x).unwrap();
    assert!(trainer.forward().unwrap().is_finite());
    let check = |error: TrainError| match error {
        TrainError::GradientNotFinite { step, tensor, norm } => {
            assert_eq!((step, &tensor[..]), (5, "x"));
            assert!(norm.is_nan());
        }
        error => panic!("{error}"),
    };
    check(trainer.backward().unwrap_err());
    assert!(matches!(
        trainer.update().unwrap_err(),
        TrainError::PlayedTwice { .. }
    ));
    check(trainer.step().unwrap_err());
    assert_eq!((bits(&network, &trainer), trainer.steps()), (before, 4));
    assert_eq!(std::fs::read(&path).unwrap(), saved);
    // Finite numbers whose squares are not.
    network.feed(&mut trainer, 4);
    trainer.write(network.x, &[1e30; ROWS * 3]).unwrap();
    trainer.write(network.parameters[0], &[0.0; 12]).unwrap();
    let text = trainer.step().unwrap_err().to_string();
    assert!(
        text.starts_with(
            "step 5: the norm of the gradients is inf because of tensor \"first.weight\""
        ),
        "{text}"
    );
    network.feed(&mut trainer, 4);
    assert!(trainer.step().unwrap().is_finite());
}

fn weights_of(network: &Network, trainer: &Trainer) -> Vec<f64> {
    let all = network.parameters.iter();
    let all = all.flat_map(|parameter| trainer.read(*parameter).unwrap());
    all.map(f64::from).collect()
}

#[test]
fn the_norm_of_gradients_and_its_clipping() {
    let sgd = Sgd::default();
    let (network, mut trainer) = Network::trainer(2, sgd);
    trainer.forward().unwrap();
    assert_eq!(trainer.gradient_norm(), None);
    trainer.backward().unwrap();
    let squares = |trainer: &Trainer| -> f64 {
        let all = network.parameters.iter();
        let all = all.flat_map(|parameter| trainer.gradient(*parameter).unwrap());
        all.map(|gradient| f64::from(gradient).powi(2)).sum()
    };
    let norm = squares(&trainer).sqrt();
    let got = f64::from(trainer.gradient_norm().unwrap());
    // Sums in float64, each rounded once, and the root.
    assert!((got - norm).abs() < 3e-7 * norm, "{got} is not {norm}");
    let before = weights_of(&network, &trainer);
    let moved = |clip: Option<f32>| -> Vec<f64> {
        let (network, mut trainer) = Network::trainer(2, sgd);
        if let Some(clip) = clip {
            trainer.clip_norm(clip).unwrap();
        }
        trainer.step().unwrap();
        let after = weights_of(&network, &trainer);
        after.iter().zip(&before).map(|(a, b)| a - b).collect()
    };
    let whole = moved(None);
    assert_eq!(moved(Some(2.0 * norm as f32)), whole);
    let quarter = moved(Some(norm as f32 / 4.0));
    for (quarter, whole) in quarter.iter().zip(&whole) {
        // A weight is at most 1 and is rounded once.
        assert!((4.0 * quarter - whole).abs() < 1e-5 * whole.abs() + 4e-7);
    }
    for wrong in [0.0, -1.0, f32::NAN, f32::INFINITY] {
        let error = trainer.clip_norm(wrong).unwrap_err().to_string();
        assert!(error.starts_with("clip_norm: is "), "{error}");
    }
}

#[test]
fn a_pass_is_played_once() {
    let (network, mut trainer) = Network::trainer(1, Adam::default());
    let twice = |error: TrainError, call: &str| {
        assert!(matches!(error, TrainError::PlayedTwice { .. }));
        assert!(error.to_string().starts_with(call), "{error}");
    };
    twice(trainer.backward().unwrap_err(), "backward");
    twice(trainer.update().unwrap_err(), "update");
    let parameter = network.parameters[0];
    twice(trainer.gradient(parameter).unwrap_err(), "gradient");
    trainer.forward().unwrap();
    twice(trainer.update().unwrap_err(), "update");
    trainer.backward().unwrap();
    twice(trainer.backward().unwrap_err(), "backward");
    trainer.update().unwrap();
    assert_eq!(trainer.steps(), 1);
    twice(trainer.update().unwrap_err(), "update");
    // In three calls as in one.
    let parts = bits(&network, &trainer);
    let (network, mut trainer) = Network::trainer(1, Adam::default());
    trainer.step().unwrap();
    assert_eq!(bits(&network, &trainer), parts);
    twice(trainer.backward().unwrap_err(), "backward");
}

#[test]
fn shapes_and_names_that_do_not_fit() {
    let mut tape = Tape::new(0);
    let x = tape.input("x", 4, 3).unwrap();
    let other = tape.input("other", 4, 5).unwrap();
    let labels = tape.labels("labels", 4).unwrap();
    let weight = tape.parameter("weight", 2, 3, &[0.0; 6]).unwrap();
    let says = |error: TrainError, text: &str| {
        assert!(error.to_string().contains(text), "{error}");
    };
    let error = tape.linear("y", other, weight, None).unwrap_err();
    says(
        error,
        "linear: tensor \"weight\" is 2 × 3 F32, and must be 2 × 5 F32",
    );
    let error = tape.linear("y", x, weight, Some(x)).unwrap_err();
    says(
        error,
        "linear: tensor \"x\" is 4 × 3 F32, and must be 1 × 2 F32",
    );
    let error = tape.add("y", x, other).unwrap_err();
    says(
        error,
        "add: tensor \"other\" is 4 × 5 F32, and must be 4 × 3 F32",
    );
    let error = tape.mse("y", x, other).unwrap_err();
    says(error, "mse: tensor \"other\" is 4 × 5 F32");
    let error = tape.cross_entropy("y", x, other).unwrap_err();
    says(
        error,
        "cross_entropy: tensor \"other\" is 4 × 5 F32, and must be 4 × 1 U32",
    );
    let error = tape.relu("y", labels).unwrap_err();
    says(
        error,
        "relu: tensor \"labels\" is 4 × 1 U32, and must be 4 × 1 F32",
    );
    says(tape.input("x", 1, 1).unwrap_err(), "has such a tensor");
    says(tape.input("", 1, 1).unwrap_err(), "it is empty");
    says(
        tape.input("optimizer.step", 1, 1).unwrap_err(),
        "optimizer's state",
    );
    says(tape.input("z", 0, 1).unwrap_err(), "\"z\" would have 0 × 1");
    says(
        tape.input("z", usize::MAX, 2).unwrap_err(),
        "\"z\" would have",
    );
    let error = tape.parameter("z", 2, 2, &[0.0; 3]).unwrap_err();
    says(error, "\"z\" has 4 elements, 3 were given");
    let mut stranger = Tape::new(0);
    says(stranger.relu("y", x).unwrap_err(), "another tape");
    let spec = tape.spec(weight).unwrap();
    assert_eq!(
        (spec.shape, spec.strides, spec.dtype),
        ([2, 3], [3, 1], DType::F32)
    );

    // A tape that ends in no loss, and one that has nothing to learn.
    let out = tape.linear("y", x, weight, None).unwrap();
    says(tape.plan(out).unwrap_err(), "\"y\" is no loss");
    let mut tape = Tape::new(0);
    let x = tape.input("x", 4, 3).unwrap();
    let target = tape.input("target", 4, 3).unwrap();
    let loss = tape.mse("loss", x, target).unwrap();
    says(tape.plan(loss).unwrap_err(), "there is nothing to learn");

    // Of a run.
    let (network, mut trainer) = Network::trainer(1, Adam::default());
    let error = trainer.write(network.x, &[0.0; 3]).unwrap_err();
    says(error, "\"x\" has 120 elements, 3 were given");
    let error = trainer.write(network.out, &[0.0; ROWS * 2]).unwrap_err();
    says(error, "\"last.out\" is computed");
    says(trainer.read(x).unwrap_err(), "another tape");
    let options = [
        (
            Optimizer::from(Adam {
                beta1: 1.0,
                ..Adam::default()
            }),
            "beta1: is 1",
        ),
        (
            Optimizer::from(Adam {
                eps: 0.0,
                ..Adam::default()
            }),
            "eps: is 0",
        ),
        (
            Optimizer::from(Sgd {
                momentum: f32::NAN,
                ..Sgd::default()
            }),
            "momentum: is NaN",
        ),
        (
            Optimizer::from(Sgd {
                weight_decay: -1.0,
                ..Sgd::default()
            }),
            "weight_decay: is -1",
        ),
    ];
    for (optimizer, text) in options {
        let schedule = Schedule::constant(0.1);
        let made = Network::plan(1).1.trainer(&device(), optimizer, schedule);
        says(made.unwrap_err(), text);
    }
}

#[test]
fn checkpoints_of_other_models_and_files_that_are_none() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("checkpoint");
    let (network, mut trainer) = Network::trainer(1, Adam::default());
    run(&network, &mut trainer, 3);
    trainer.save(&path).unwrap();
    let whole = std::fs::read(&path).unwrap();
    let before = bits(&network, &trainer);

    // Of the same shapes, but another optimizer: in both directions.
    let (_, mut other) = Network::trainer(1, Sgd::default());
    let says = |error: TrainError, text: &str| {
        assert!(error.to_string().contains(text), "{error}");
    };
    let error = other.restore(&path).unwrap_err();
    says(error, "is of another model: ");
    let of_sgd = folder.path().join("sgd");
    other.save(&of_sgd).unwrap();
    let error = trainer.restore(&of_sgd).unwrap_err();
    says(
        error,
        "it lacks the tensor \"optimizer.first_moment.first.weight\"",
    );

    let mut tape = Tape::new(0);
    let x = tape.input("x", 1, 2).unwrap();
    let linear = Linear::new(&mut tape, "first", 2, 4).unwrap();
    let y = linear.forward(&mut tape, x).unwrap();
    let target = tape.input("target", 1, 4).unwrap();
    let loss = tape.mse("loss", y, target).unwrap();
    let plan = tape.plan(loss).unwrap();
    let schedule = Schedule::constant(0.1);
    let small = plan.trainer(&device(), Adam::default(), schedule).unwrap();
    let of_small = folder.path().join("small");
    small.save(&of_small).unwrap();
    let error = trainer.restore(&of_small).unwrap_err();
    says(
        error,
        "its tensor \"first.weight\" is [4, 2] F32, and must be [4, 3] F32",
    );

    // Cut anywhere, and with bytes too many.
    let broken = folder.path().join("broken");
    for length in (0..whole.len()).step_by(37) {
        std::fs::write(&broken, &whole[..length]).unwrap();
        let error = trainer.restore(&broken).unwrap_err();
        assert!(matches!(error, TrainError::Safetensors { .. }), "{error}");
    }
    std::fs::write(&broken, [&whole[..], &[0]].concat()).unwrap();
    assert!(trainer.restore(&broken).is_err());
    std::fs::write(&broken, vec![b' '; 1 << 20]).unwrap();
    says(
        trainer.restore(&broken).unwrap_err(),
        "it has 1048576 bytes",
    );
    let error = trainer.restore(folder.path().join("none")).unwrap_err();
    assert!(matches!(error, TrainError::Read { .. }), "{error}");
    let error = trainer.save(folder.path().join("no/folder")).unwrap_err();
    assert!(matches!(error, TrainError::Write { .. }), "{error}");
    // None of it has changed anything.
    assert_eq!((bits(&network, &trainer), trainer.steps()), (before, 3));
    trainer.restore(&path).unwrap();
    assert_eq!(trainer.steps(), 3);
}
