//! Fine-tuning: what is learned is what the runtime then computes, in every family of models.

use std::fs;
use std::path::{Path, PathBuf};

use ironbridge::finetune::{
    Finetune, FinetuneError, FinetuneOptions, FinetunePlan, LoraTarget, TrainingText,
};
use ironbridge::llama::gguf::{GgufFile, GgufWriter, Metadata, NewTensor, TensorType};
use ironbridge::llama::tokenizer::EncodeOptions;
use ironbridge::llama::{
    AdapterError, LlamaError, LoraAdapter, Model, ModelFile, Quantizer, Session, SessionOptions,
    Tokenizer,
};
use ironbridge::train::TrainError;
use ironbridge::{Device, Error};

use crate::synthetic_models::gguf::{Storage, Value};
use crate::synthetic_models::parts::{Parts, Shape};

const RUSTBOOK: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/assets/tiny-rustbook-q8_0.gguf"
);

fn device() -> Device {
    Device::open("default").expect("it is everywhere")
}

fn text() -> TrainingText {
    let words = "ab ba cab abba ac dc face cafe bead deaf add dad fade decade ace bed ".repeat(3);
    TrainingText::from_plain(&words).unwrap()
}

/// Short sequences, so that texts are cut and packed.
fn options() -> FinetuneOptions {
    FinetuneOptions {
        rank: 3,
        sequence: 8,
        batch: 3,
        steps: Some(12),
        learning_rate: 0.02,
        hold_out: 0.3,
        ..Default::default()
    }
}

fn start(file: &ModelFile, options: &FinetuneOptions) -> Finetune {
    let plan = FinetunePlan::new(file, &text(), options.clone()).unwrap();
    plan.start(&device(), &mut |_| ()).unwrap()
}

/// The pieces of the part of a text that is held out, from its formula.
fn held_out(file: &ModelFile, text: &TrainingText, options: &FinetuneOptions) -> Vec<Vec<u32>> {
    let tokenizer = Tokenizer::from_metadata(file.metadata()).unwrap();
    let encode = EncodeOptions {
        add_special: true,
        parse_special: false,
    };
    let mut tokens = tokenizer.encode_with(&text.documents()[0], encode);
    if let Some(eos) = tokenizer.eos().filter(|eos| tokens.last() != Some(eos)) {
        tokens.push(eos);
    }
    let count = (tokens.len() as f64 * f64::from(options.hold_out)) as usize;
    let held = &tokens[tokens.len() - count..];
    let (mut pieces, mut at, mut row) = (Vec::new(), 0, 0);
    let rows = options.sequence * options.batch;
    while at + 1 < held.len() {
        let length = options.sequence.min(held.len() - 1 - at).min(rows - row);
        pieces.push(held[at..=at + length].to_vec());
        at += length;
        row = (row + length) % rows;
    }
    pieces
}

/// The mean negative log-probability of the tokens of pieces that stand for themselves.
fn loss_of(model: &Model, pieces: &[Vec<u32>]) -> f64 {
    let session_options = SessionOptions {
        context: Some(pieces.iter().map(Vec::len).max().unwrap()),
        ..Default::default()
    };
    let mut session = Session::new(model, session_options).unwrap();
    let mut found = Vec::new();
    for piece in pieces {
        session.rewind(0);
        found.extend(session.log_probabilities(piece).unwrap());
    }
    -found.iter().sum::<f64>() / found.len() as f64
}

/// Sequences as long as the model's windows where those are shorter than the others: longer ones are refused.
fn fitting_options(file: &ModelFile) -> FinetuneOptions {
    let mut fitting = options();
    if let Err(error) = FinetunePlan::new(file, &text(), options()) {
        let said = error.to_string();
        let (_, rest) = said.split_once("it sees ").expect(&said);
        let (window, rest) = rest.split_once(' ').expect(&said);
        assert_eq!(rest, "tokens back, and sequences of 8 are longer");
        fitting.sequence = window.parse().expect(&said);
        assert!(fitting.sequence < 8, "{said}");
    }
    fitting
}

/// The loss of the tape is that of the runtime, before and after it learned.
fn check_family(file: &ModelFile, what: &str, tolerance: f64) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("adapter.gguf");
    let options = fitting_options(file);
    let pieces = held_out(file, &text(), &options);
    let model = Model::load(&device(), file, Default::default(), &mut |_| ()).unwrap();
    let mut run = start(file, &options);
    let close = |found: f64, expected: f64, when: &str| {
        assert!(
            (found - expected).abs() < tolerance * (1.0 + expected),
            "{what}, {when}: {found}, and the runtime's is {expected}"
        );
    };
    let before = run.evaluate().unwrap();
    close(before.loss, loss_of(&model, &pieces), "before");
    let predicted: usize = pieces.iter().map(|piece| piece.len() - 1).sum();
    assert_eq!(before.tokens, predicted);
    while run.steps() < run.all_steps() {
        run.step().unwrap();
    }
    let after = run.evaluate().unwrap();
    assert!(
        after.loss < before.loss - 50.0 * tolerance,
        "{what}: {} became {}, which a wrong adapter could be near to",
        before.loss,
        after.loss
    );
    run.write_adapter(&path, false).unwrap();
    let adapter = LoraAdapter::open(&path).unwrap();
    let tuned = model.with_adapter(&adapter, 1.0).unwrap();
    close(after.loss, loss_of(&tuned, &pieces), "after");
    // The model itself is as it was, and a scale of 0 is no adapter.
    let none = model.with_adapter(&adapter, 0.0).unwrap();
    assert_eq!(loss_of(&none, &pieces), loss_of(&model, &pieces));
    close(before.loss, loss_of(&model, &pieces), "still");
}

fn folders() -> Vec<PathBuf> {
    let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/models");
    let entries = fs::read_dir(models)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut folders: Vec<PathBuf> = entries.filter(|path| path.is_dir()).collect();
    folders.sort();
    folders
}

#[test]
fn every_family_learns_what_the_runtime_computes() {
    let mut tested = 0;
    for folder in folders() {
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        let file = ModelFile::open(&folder).unwrap();
        if name.starts_with("gemma2") {
            let error = FinetunePlan::new(&file, &text(), options()).unwrap_err();
            assert_eq!(
                error.to_string(),
                "a gemma2 cannot be fine-tuned here: its scores have soft caps, which have no gradient yet"
            );
            continue;
        }
        check_family(&file, &name, 2e-4);
        tested += 1;
    }
    assert!(tested > 5, "{tested} folders");
}

#[test]
fn every_shape_learns_what_the_runtime_computes() {
    let plain = Shape::default();
    for shape in [
        Shape {
            rotary_dim: 8,
            ..plain.clone()
        },
        Shape {
            rope_factor: 4.0,
            ..plain.clone()
        },
        Shape {
            rope_factors: true,
            tied: true,
            ..plain.clone()
        },
        Shape {
            window: 8,
            storage: Storage::F16,
            ..plain
        },
    ] {
        let file = Parts::new(&shape).file();
        let file = ModelFile::open(file.path()).unwrap();
        check_family(&file, &format!("{shape:?}"), 2e-4);
    }
}

/// Activations are rounded where blocks are multiplied, in either by as many bits.
#[test]
fn quantized_weights_learn_as_they_are_and_as_f32() {
    let shape = Shape {
        storage: Storage::Q8_0,
        ..Default::default()
    };
    let file = Parts::new(&shape).file();
    let file = ModelFile::open(file.path()).unwrap();
    check_family(&file, "Q8_0", 5e-3);
    let exact = FinetuneOptions {
        dequantize: true,
        ..options()
    };
    let [mut stored, mut dequantized] = [options(), exact].map(|options| start(&file, &options));
    let memory = [&stored, &dequantized].map(|run| run.memory().frozen);
    assert!(memory[1] > 3 * memory[0], "{memory:?}");
    for _ in 0..5 {
        let losses = [&mut stored, &mut dequantized].map(|run| run.step().unwrap().loss);
        assert!((losses[0] - losses[1]).abs() < 0.05, "{losses:?}");
        // Beside weights in blocks a processor rounds activations. NVIDIA's GPUs round both to halves.
        let processor = device().info().unwrap().unified_memory;
        assert!(losses[0] != losses[1] || !processor, "{losses:?}");
    }
}

#[test]
fn layers_computed_again_learn_the_same_in_less_memory() {
    let shape = Shape {
        layers: 6,
        ..Default::default()
    };
    let file = Parts::new(&shape).file();
    let file = ModelFile::open(file.path()).unwrap();
    let again = FinetuneOptions {
        recompute: true,
        ..options()
    };
    let [mut kept, mut computed] = [options(), again].map(|options| start(&file, &options));
    let memory = [&kept, &computed].map(|run| run.memory().activations);
    assert!(memory[1] < memory[0] / 2, "{memory:?}");
    for _ in 0..4 {
        assert_eq!(kept.step().unwrap(), computed.step().unwrap());
    }
}

#[test]
fn an_adapter_of_a_folder_fits_the_gguf_file_that_is_made_of_it() {
    let place = tempfile::tempdir().unwrap();
    let [path, gguf] = ["adapter.gguf", "model.gguf"].map(|name| place.path().join(name));
    let file = ModelFile::open(
        folders()
            .into_iter()
            .find(|p| p.ends_with("llama-2"))
            .unwrap(),
    );
    let file = file.unwrap();
    let mut run = start(&file, &options());
    for _ in 0..6 {
        run.step().unwrap();
    }
    run.write_adapter(&path, false).unwrap();
    let quantizer = Quantizer::new(TensorType::F32).unwrap();
    quantizer.write(&file, &gguf, &mut |_| ()).unwrap();
    let pieces = held_out(&file, &text(), &options());
    let adapter = LoraAdapter::open(&path).unwrap();
    let losses = [
        place.path().join("model.gguf"),
        folders()
            .into_iter()
            .find(|p| p.ends_with("llama-2"))
            .unwrap(),
    ]
    .map(|path| {
        let model = Model::open(&device(), path).unwrap();
        let tuned = model.with_adapter(&adapter, 1.0).unwrap();
        assert!((loss_of(&tuned, &pieces) - loss_of(&model, &pieces)).abs() > 0.02);
        loss_of(&tuned, &pieces)
    });
    assert!((losses[0] - losses[1]).abs() < 1e-4, "{losses:?}");
}

#[test]
fn a_run_that_goes_on_gives_the_same_bits() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    let file = Parts::new(&Shape::default()).file();
    let file = ModelFile::open(file.path()).unwrap();
    let mut whole = start(&file, &options());
    let losses: Vec<f32> = (0..12).map(|_| whole.step().unwrap().loss).collect();
    whole.write_adapter(at("whole.gguf"), false).unwrap();

    let mut first = start(&file, &options());
    for loss in &losses[..5] {
        assert_eq!(first.step().unwrap().loss, *loss);
        first.evaluate().unwrap(); // changes nothing
    }
    first.save(at("checkpoint")).unwrap();
    drop(first);
    let mut second = start(&file, &options());
    second.step().unwrap();
    second.restore(at("checkpoint")).unwrap();
    assert_eq!(second.steps(), 5);
    for loss in &losses[5..] {
        assert_eq!(second.step().unwrap().loss, *loss);
    }
    second.write_adapter(at("second.gguf"), false).unwrap();
    let read = |name: &str| fs::read(at(name)).unwrap();
    assert!(read("whole.gguf") == read("second.gguf"));

    // Another model, or another run, does not go on from it, and nothing is changed by that.
    let other = Parts::new(&Shape {
        rope_factor: 4.0,
        tied: true,
        ..Default::default()
    });
    let other = other.file();
    let other = ModelFile::open(other.path()).unwrap();
    let changed = |change: fn(&mut FinetuneOptions)| {
        let mut options = options();
        change(&mut options);
        options
    };
    for (file, options, names) in [
        (&other, options(), "its model is"),
        (
            &file,
            changed(|o| o.alpha = Some(1.0)),
            "its alpha is 6, and this run's is 1",
        ),
        (&file, changed(|o| o.seed = 1), "its seed is 0"),
        (&file, changed(|o| o.hold_out = 0.1), "its text is"),
        (
            &file,
            changed(|o| (o.rank, o.alpha) = (2, Some(6.0))),
            "its rank is 3",
        ),
    ] {
        let mut run = start(file, &options);
        let error = run.restore(at("checkpoint")).unwrap_err();
        assert!(
            matches!(error, FinetuneError::Train(TrainError::OtherModel { .. })),
            "{error}"
        );
        assert!(error.to_string().contains(names), "{error}");
        assert_eq!(run.steps(), 0);
        run.step().unwrap();
    }
}

/// A text that the model has not seen, in a few lines.
const FABLE: [&str; 4] = [
    "The crab met the gopher at the edge of the sea and asked what it carried in its little bag.",
    "A gopher carries acorns, said the gopher, and every acorn has one owner, as you well know.",
    "Then lend me one, said the crab, and I shall give it back before the tide comes in tonight.",
    "So the gopher lent an acorn, and the crab gave it back, and both slept well until the morning.",
];

#[test]
fn the_tiny_model_learns_a_fable() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("fable.gguf");
    let lines: Vec<String> = FABLE
        .iter()
        .map(|line| serde_json::json!({ "text": line }).to_string())
        .collect();
    let text = TrainingText::from_json_lines(&lines.join("\n")).unwrap();
    let options = FinetuneOptions {
        sequence: 64,
        batch: 2,
        steps: Some(24),
        learning_rate: 5e-3,
        hold_out: 0.0,
        ..Default::default()
    };
    let file = ModelFile::open(RUSTBOOK).unwrap();
    let plan = FinetunePlan::new(&file, &text, options).unwrap();
    assert_eq!(plan.held_out_tokens(), 0);
    let mut run = plan.start(&device(), &mut |_| ()).unwrap();
    while run.steps() < run.all_steps() {
        run.step().unwrap();
    }
    assert!(matches!(run.evaluate(), Err(FinetuneError::NothingHeldOut)));
    run.write_adapter(&path, false).unwrap();

    let model = Model::open(&device(), RUSTBOOK).unwrap();
    let tuned = model
        .with_adapter(&LoraAdapter::open(&path).unwrap(), 1.0)
        .unwrap();
    let pieces: Vec<Vec<u32>> = FABLE.iter().map(|line| model.encode_prompt(line)).collect();
    let [before, after] = [&model, &tuned].map(|model| loss_of(model, &pieces).exp());
    assert!(after < before / 2.0, "{before} became {after}");
}

#[test]
fn what_cannot_be_learned_is_refused() {
    let parts = Parts::new(&Shape::default());
    let file = parts.file();
    let file = ModelFile::open(file.path()).unwrap();
    let refused = |change: fn(&mut FinetuneOptions)| {
        let mut options = options();
        change(&mut options);
        FinetunePlan::new(&file, &text(), options)
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        refused(|o| o.rank = 0),
        "rank is 0, and must be from 1 to 32"
    );
    assert_eq!(
        refused(|o| o.rank = 33),
        "rank is 33, and must be from 1 to 32"
    );
    assert_eq!(
        refused(|o| o.sequence = 0),
        "sequence is 0, and must be from 1 to 64"
    );
    assert_eq!(
        refused(|o| o.sequence = 65),
        "sequence is 65, and must be from 1 to 64"
    );
    assert!(refused(|o| o.batch = 0).starts_with("batch is 0"));
    assert_eq!(
        refused(|o| o.steps = Some(0)),
        "steps is 0, and must be at least 1"
    );
    assert!(refused(|o| o.targets = Vec::new()).starts_with("targets is nothing"));
    assert!(refused(|o| o.alpha = Some(0.0)).starts_with("alpha is 0"));
    assert!(refused(|o| o.learning_rate = f32::NAN).starts_with("learning_rate is NaN"));
    assert!(refused(|o| o.hold_out = 0.6).starts_with("hold_out is 0.6"));
    let short = TrainingText::from_plain("ab").unwrap();
    let error = FinetunePlan::new(&file, &short, options()).unwrap_err();
    assert!(
        matches!(error, FinetuneError::TooShort { sequence: 8, .. }),
        "{error}"
    );

    let refused = |parts: &Parts, options: FinetuneOptions| {
        let file = parts.file();
        let file = ModelFile::open(file.path()).unwrap();
        FinetunePlan::new(&file, &text(), options)
            .unwrap_err()
            .to_string()
    };
    let window = Parts::new(&Shape {
        window: 7,
        ..Default::default()
    });
    let text = refused(&window, options());
    assert!(text.contains("it sees 7 tokens back"), "{text}");
    let mut unknown = Parts::new(&Shape::default());
    unknown.set("general.architecture", Some(Value::Text("mamba".into())));
    let text = refused(&unknown, options());
    assert!(
        text.contains("mamba") && text.contains("\"llama\""),
        "{text}"
    );
    let mut less = Parts::new(&Shape::default());
    less.tensors
        .retain(|tensor| tensor.name != "blk.1.ffn_up.weight");
    let text = refused(&less, options());
    assert_eq!(
        text,
        "the model file lacks the tensor \"blk.1.ffn_up.weight\""
    );
    let mut more = Parts::new(&Shape::default());
    more.tensor("output_norm.weight").dimensions.push(1);
    assert!(refused(&more, options()).contains("\"output_norm.weight\" should be [64]"));
}

/// The loss has no number, the weights stay, and what was saved before goes on.
#[test]
fn a_loss_that_is_no_number_changes_nothing() {
    let place = tempfile::tempdir().unwrap();
    let mut parts = Parts::new(&Shape::default());
    parts.tensor("blk.1.ffn_norm.weight").numbers[5] = f32::NAN;
    let file = parts.file();
    let file = ModelFile::open(file.path()).unwrap();
    let mut run = start(&file, &options());
    run.save(place.path().join("before")).unwrap();
    let error = run.step().unwrap_err();
    let text = error.to_string();
    assert!(
        matches!(
            error,
            FinetuneError::Train(TrainError::NotFinite { step: 1, .. })
        ),
        "{text}"
    );
    assert!(text.contains("\"blk.1.ffn_norm.weight\""), "{text}");
    assert_eq!(run.steps(), 0);
    run.save(place.path().join("after")).unwrap();
    let read = |name: &str| fs::read(place.path().join(name)).unwrap();
    assert!(read("before") == read("after"));
}

/// An adapter with these tensors, and what else is said of it.
fn adapter(
    path: &Path,
    metadata: &[(&str, &str)],
    alpha: Option<f32>,
    tensors: &[(&str, TensorType, &[u64])],
) -> Result<LoraAdapter, LlamaError> {
    let mut all = Metadata::default();
    for (key, value) in metadata {
        all.set(*key, *value).unwrap();
    }
    if let Some(alpha) = alpha {
        all.set("adapter.lora.alpha", alpha).unwrap();
    }
    let described: Vec<NewTensor> = tensors
        .iter()
        .map(|(name, tensor_type, dimensions)| NewTensor {
            name: (*name).to_owned(),
            tensor_type: *tensor_type,
            dimensions: dimensions.to_vec(),
        })
        .collect();
    let mut file = GgufWriter::new(fs::File::create(path).unwrap(), &all, &described).unwrap();
    for tensor in &described {
        let elements: u64 = tensor.dimensions.iter().product();
        let bytes = elements / tensor.tensor_type.block_length() * tensor.tensor_type.block_size();
        file.write(&vec![0; bytes as usize]).unwrap();
    }
    file.finish().unwrap();
    LoraAdapter::open(path)
}

#[test]
fn adapters_that_are_none_or_of_another_model() {
    use TensorType::{F16, F32, Q8_0};
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("adapter.gguf");
    let kinds = [
        ("general.type", "adapter"),
        ("adapter.type", "lora"),
        ("general.architecture", "llama"),
    ];
    let (down, up) = ("blk.0.attn_q.weight.lora_a", "blk.0.attn_q.weight.lora_b");
    let good: [(&str, TensorType, &[u64]); 2] = [(down, F32, &[64, 2]), (up, F16, &[2, 64])];
    let wrong = |result: Result<LoraAdapter, LlamaError>| match result.unwrap_err() {
        LlamaError::Adapter { source, .. } => source,
        other => panic!("{other}"),
    };
    let found = adapter(&path, &kinds, Some(4.0), &good).unwrap();
    assert_eq!((found.alpha(), found.architecture()), (4.0, "llama"));
    let changes: Vec<_> = found.changes().collect();
    assert_eq!(changes.len(), 1);
    assert_eq!(changes[0].0, "blk.0.attn_q.weight");
    assert_eq!(
        (changes[0].1.rank, changes[0].1.inputs, changes[0].1.outputs),
        (2, 64, 64)
    );

    let kind =
        |metadata: &[(&str, &str)]| wrong(adapter(&path, metadata, Some(1.0), &good)).to_string();
    assert_eq!(
        kind(&kinds[1..]),
        "its general.type is \"not there\", and must be adapter"
    );
    assert_eq!(
        kind(&[kinds[0], ("adapter.type", "control_vector")]),
        "its adapter.type is \"control_vector\", and must be lora"
    );
    assert!(adapter(&path, &kinds, None, &good).is_err());
    let alpha = wrong(adapter(&path, &kinds, Some(f32::NAN), &good));
    assert!(matches!(alpha, AdapterError::Alpha(_)), "{alpha}");
    let tensors =
        |tensors: &[(&str, TensorType, &[u64])]| wrong(adapter(&path, &kinds, Some(1.0), tensors));
    assert_eq!(tensors(&[]), AdapterError::Empty);
    assert!(matches!(tensors(&good[..1]), AdapterError::Alone { .. }));
    assert!(matches!(
        tensors(&[("norm", F32, &[2])]),
        AdapterError::Tensor(_)
    ));
    let q8: [(&str, TensorType, &[u64]); 2] = [(down, Q8_0, &[64, 2]), (up, F32, &[2, 64])];
    assert!(matches!(tensors(&q8), AdapterError::TensorType { .. }));
    let flat: [(&str, TensorType, &[u64]); 2] = [(down, F32, &[64]), (up, F32, &[2, 64])];
    assert!(matches!(tensors(&flat), AdapterError::Matrix(_)));
    let ranks: [(&str, TensorType, &[u64]); 2] = [(down, F32, &[64, 2]), (up, F32, &[3, 64])];
    assert!(matches!(
        tensors(&ranks),
        AdapterError::Rank { down: 2, up: 3, .. }
    ));

    // Of another model.
    let file = Parts::new(&Shape::default()).file();
    let model = Model::open(&device(), file.path()).unwrap();
    let refused = |adapter: &LoraAdapter, scale: f32| match model.with_adapter(adapter, scale) {
        Err(Error::Llama(LlamaError::Adapter { source, .. })) => source,
        other => panic!("{other:?}"),
    };
    assert!(matches!(refused(&found, f32::NAN), AdapterError::Scale(_)));
    let qwen = [kinds[0], kinds[1], ("general.architecture", "qwen2")];
    let qwen = adapter(&path, &qwen, Some(1.0), &good).unwrap();
    assert!(matches!(
        refused(&qwen, 1.0),
        AdapterError::Architecture { model: "llama", .. }
    ));
    for name in [
        "blk.2.attn_q",
        "blk.0.attn_x",
        "token_embd",
        "blk.x.attn_q",
        "output_norm",
    ] {
        let [down, up] = ["lora_a", "lora_b"].map(|end| format!("{name}.weight.{end}"));
        let named: [(&str, TensorType, &[u64]); 2] = [(&down, F32, &[64, 2]), (&up, F32, &[2, 64])];
        let named = adapter(&path, &kinds, Some(1.0), &named).unwrap();
        let error = refused(&named, 1.0);
        assert!(
            matches!(&error, AdapterError::NoWeight(of) if of.starts_with(name)),
            "{error}"
        );
    }
    let wide: [(&str, TensorType, &[u64]); 2] = [(down, F32, &[64, 2]), (up, F32, &[2, 65])];
    let wide = adapter(&path, &kinds, Some(1.0), &wide).unwrap();
    assert_eq!(
        refused(&wide, 1.0).to_string(),
        "its change of \"blk.0.attn_q.weight\" is of [64, 65] (inputs, outputs), and the model's has [64, 64]"
    );
}

#[test]
fn an_adapter_has_the_form_of_llama_cpp() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("adapter.gguf");
    let file = Parts::new(&Shape::default()).file();
    let file = ModelFile::open(file.path()).unwrap();
    let two = FinetuneOptions {
        targets: vec![LoraTarget::Query, LoraTarget::Down],
        ..options()
    };
    let run = start(&file, &two);
    run.write_adapter(&path, false).unwrap();
    let error = run.write_adapter(&path, false).unwrap_err();
    assert!(matches!(error, FinetuneError::Exists(_)), "{error}");
    run.write_adapter(&path, true).unwrap();
    let error = run
        .write_adapter(place.path().join("no/adapter"), true)
        .unwrap_err();
    assert!(matches!(error, FinetuneError::Write { .. }), "{error}");

    let gguf = GgufFile::open(&path).unwrap();
    let metadata = gguf.header().metadata();
    let said = |key: &str| metadata.get::<&str>(key).unwrap();
    assert_eq!(said("general.architecture"), Some("llama"));
    assert_eq!(said("general.type"), Some("adapter"));
    assert_eq!(said("adapter.type"), Some("lora"));
    assert_eq!(
        metadata.get::<f32>("adapter.lora.alpha").unwrap(),
        Some(6.0)
    );
    let tensors = gguf.header().tensors().iter();
    let described: Vec<(&str, &[u64])> = tensors.map(|t| (t.name(), t.dimensions())).collect();
    assert_eq!(described.len(), 8);
    assert_eq!(described[0], ("blk.0.attn_q.weight.lora_a", &[64, 3][..]));
    assert_eq!(described[1], ("blk.0.attn_q.weight.lora_b", &[3, 64][..]));
    assert_eq!(described[6], ("blk.1.ffn_down.weight.lora_a", &[96, 3][..]));
}

/// PyTorch's losses of the tiny model, of `scripts/finetune_fixtures.py`: first weights, packed batches, gradients,
/// clipping, the schedule and Adam in one.
#[test]
fn fifty_losses_are_those_of_pytorch() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/finetune.json");
    let fixture: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let of = |key: &str| fixture["options"][key].as_f64().unwrap();
    let documents = fixture["documents"].as_array().unwrap().iter();
    let lines: Vec<String> = documents
        .map(|text| serde_json::json!({ "text": text }).to_string())
        .collect();
    let text = TrainingText::from_json_lines(&lines.join("\n")).unwrap();
    let options = FinetuneOptions {
        rank: of("rank") as usize,
        alpha: Some(of("alpha") as f32),
        sequence: of("sequence") as usize,
        batch: of("batch") as usize,
        steps: Some(of("steps") as u64),
        warmup: Some(of("warmup") as u64),
        learning_rate: of("learning_rate") as f32,
        clip_norm: Some(of("clip_norm") as f32),
        seed: of("seed") as u64,
        hold_out: 0.0,
        dequantize: true,
        ..Default::default()
    };
    let file = ModelFile::open(RUSTBOOK).unwrap();
    let plan = FinetunePlan::new(&file, &text, options).unwrap();
    let mut run = plan.start(&device(), &mut |_| ()).unwrap();
    let losses = fixture["losses"].as_array().unwrap();
    assert_eq!(losses.len(), 50);
    let mut farthest = 0f64;
    for (step, expected) in losses.iter().enumerate() {
        let expected = expected.as_f64().unwrap();
        let found = f64::from(run.step().unwrap().loss);
        let off = (found - expected).abs() / expected;
        assert!(
            off < 1e-3,
            "step {}: {found}, and PyTorch's is {expected}",
            step + 1
        );
        farthest = farthest.max(off);
    }
    eprintln!("the farthest of 50 losses is {farthest:.1e} of PyTorch's away");
    assert!(losses[49].as_f64().unwrap() < losses[0].as_f64().unwrap() / 2.0);
}
