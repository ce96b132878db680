//! Files that are GGUF and no model that can run: each has its own error, and none gets as far as computing.

use crate::synthetic_models::gguf::{Storage, Value};
use crate::synthetic_models::parts::{Parts, Shape, VOCABULARY};
use ironbridge::llama::{LlamaError, Model};
use ironbridge::{Device, Error};
use proptest::prelude::*;

fn load(parts: &Parts) -> Result<Model, Error> {
    Model::open(&Device::open("default").unwrap(), parts.file().path())
}

/// The error of a good model that `spoil` has changed.
fn error(spoil: impl FnOnce(&mut Parts)) -> LlamaError {
    let mut parts = Parts::new(&Shape::default());
    spoil(&mut parts);
    match load(&parts) {
        Err(Error::Llama(error)) => error,
        Err(other) => panic!("not an error of the model: {other}"),
        Ok(_) => panic!("the model was loaded"),
    }
}

#[test]
fn the_model_is_good_before_it_is_spoilt() {
    assert!(load(&Parts::new(&Shape::default())).is_ok());
}

#[test]
fn each_missing_tensor_is_named() {
    for tensor in Parts::new(&Shape::default()).tensors {
        if tensor.name == "output.weight" {
            continue; // the embedding stands in
        }
        match error(|parts| parts.tensors.retain(|other| other.name != tensor.name)) {
            LlamaError::MissingTensor(name) => assert_eq!(name, tensor.name),
            other => panic!("{}: {other}", tensor.name),
        }
    }
}

#[test]
fn each_wrong_shape_is_named() {
    for tensor in Parts::new(&Shape::default()).tensors {
        let found = error(|parts| {
            let spoilt = parts.tensor(&tensor.name);
            let rows = spoilt.dimensions.len() - 1;
            spoilt.dimensions[rows] *= 2;
            spoilt.numbers.extend(spoilt.numbers.clone());
        });
        assert!(
            matches!(&found, LlamaError::TensorShape { name, .. } if *name == tensor.name),
            "{found}"
        );
        let found = error(|parts| parts.tensor(&tensor.name).dimensions.push(1));
        assert!(
            matches!(&found, LlamaError::TensorShape { name, .. } if *name == tensor.name),
            "{found}"
        );
    }
}

#[test]
fn types_that_cannot_be_computed_with_are_named() {
    for tensor in Parts::new(&Shape::default()).tensors {
        let found = error(|parts| parts.tensor(&tensor.name).storage = Storage::Q8_1);
        assert!(
            matches!(&found, LlamaError::TensorType { name, .. } if *name == tensor.name),
            "{found}"
        );
    }
    let found = error(|parts| parts.tensor("output_norm.weight").storage = Storage::Q8_0);
    assert!(
        matches!(
            found,
            LlamaError::TensorType {
                supported: "F32, F16 and BF16",
                ..
            }
        ),
        "{found}"
    );
}

#[test]
fn a_tensor_that_would_be_ignored_is_an_error() {
    let found = error(|parts| {
        let mut bias = Parts::new(&Shape::default()).tensors.remove(0);
        bias.name = "blk.0.attn_q_norm.weight".into();
        parts.tensors.push(bias);
    });
    assert!(
        matches!(&found, LlamaError::UnexpectedTensor(name) if name == "blk.0.attn_q_norm.weight"),
        "{found}"
    );
}

#[test]
fn absurd_hyperparameters_are_named() {
    let sizes = [
        "llama.embedding_length",
        "llama.block_count",
        "llama.attention.head_count",
        "llama.attention.head_count_kv",
        "llama.attention.key_length",
        "llama.feed_forward_length",
        "llama.context_length",
        "llama.rope.dimension_count",
    ];
    for key in sizes {
        for size in [0, u32::MAX, 1 << 30] {
            let found = error(|parts| parts.set(key, Some(Value::U32(size))));
            assert!(
                matches!(&found, LlamaError::Hyperparameter { key: named, .. } if named == key),
                "{key} {size}: {found}"
            );
        }
    }
    for key in [
        "llama.attention.layer_norm_rms_epsilon",
        "llama.rope.freq_base",
    ] {
        for number in [0.0, -1.0, f32::NAN, f32::INFINITY] {
            let found = error(|parts| parts.set(key, Some(Value::F32(number))));
            assert!(
                matches!(&found, LlamaError::Hyperparameter { key: named, .. } if named == key),
                "{key}: {found}"
            );
        }
    }
    for (key, value) in [
        ("general.architecture", Value::Text("mamba".into())),
        ("llama.attention.head_count_kv", Value::U32(3)),
        ("llama.attention.value_length", Value::U32(8)),
        ("llama.rope.dimension_count", Value::U32(7)),
        ("llama.rope.scaling.type", Value::Text("longrope".into())),
        ("llama.expert_count", Value::U32(8)),
        ("llama.vocab_size", Value::U32(VOCABULARY as u32 + 1)),
    ] {
        let found = error(|parts| parts.set(key, Some(value)));
        assert!(
            matches!(&found, LlamaError::Hyperparameter { key: named, .. } if named == key),
            "{key}: {found}"
        );
    }
    // More layers than there are tensors for.
    let found = error(|parts| parts.set("llama.block_count", Some(Value::U32(4096))));
    assert!(matches!(found, LlamaError::MissingTensor(_)), "{found}");
    let found = error(|parts| parts.set("llama.block_count", Some(Value::U32(1))));
    assert!(matches!(found, LlamaError::UnexpectedTensor(_)), "{found}");
}

#[test]
fn missing_metadata_is_named() {
    for key in [
        "general.architecture",
        "llama.embedding_length",
        "llama.block_count",
        "llama.attention.head_count",
        "llama.feed_forward_length",
        "llama.context_length",
        "llama.attention.layer_norm_rms_epsilon",
        "tokenizer.ggml.model",
        "tokenizer.ggml.tokens",
        "tokenizer.ggml.scores",
        "tokenizer.ggml.token_type",
    ] {
        let found = error(|parts| parts.set(key, None));
        assert!(
            matches!(&found, LlamaError::Metadata(_)) && found.to_string().contains(key),
            "{found}"
        );
        let found = error(|parts| parts.set(key, Some(Value::Bool(true))));
        assert!(
            matches!(&found, LlamaError::Metadata(_)) && found.to_string().contains(key),
            "{found}"
        );
    }
}

#[test]
fn a_tokenizer_that_does_not_fit_is_an_error() {
    for (key, value) in [
        ("tokenizer.ggml.model", Value::Text("rwkv".into())),
        ("tokenizer.ggml.bos_token_id", Value::U32(VOCABULARY as u32)),
        ("tokenizer.ggml.eot_token_id", Value::U32(u32::MAX)),
        ("tokenizer.ggml.scores", Value::Floats(vec![0.0; 3])),
        (
            "tokenizer.ggml.token_type",
            Value::Integers(vec![9; VOCABULARY]),
        ),
    ] {
        let found = error(|parts| parts.set(key, Some(value)));
        assert!(matches!(found, LlamaError::Tokenizer(_)), "{key}: {found}");
    }
}

#[test]
fn weights_that_are_no_numbers_end_in_an_error_and_not_in_a_token() {
    let mut parts = Parts::new(&Shape::default());
    parts.tensor("output_norm.weight").numbers[3] = f32::NAN;
    let model = load(&parts).unwrap();
    let mut session = model.session().unwrap();
    let sampler = ironbridge::llama::Sampler::new(Default::default()).unwrap();
    let piece = session.generate(&[1], sampler, 3).next().unwrap();
    assert!(
        matches!(piece, Err(Error::Llama(LlamaError::Sampler(_)))),
        "{piece:?}"
    );
}

#[test]
fn files_that_are_no_models_say_why() {
    let device = Device::open("default").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let open = |name: &str| match Model::open(&device, folder.path().join(name)) {
        Err(Error::Llama(error)) => error,
        other => panic!("{other:?}"),
    };
    assert!(matches!(open("absent.gguf"), LlamaError::Open { .. }));
    assert!(matches!(open("."), LlamaError::Open { .. }));
    let pipe = std::process::Command::new("mkfifo")
        .arg(folder.path().join("pipe"))
        .status();
    assert!(pipe.unwrap().success());
    assert!(matches!(open("pipe"), LlamaError::Open { .. }));
    std::fs::write(folder.path().join("empty.gguf"), b"").unwrap();
    let empty = open("empty.gguf");
    assert!(matches!(empty, LlamaError::Gguf { .. }), "{empty}");
    std::fs::write(folder.path().join("text.gguf"), b"not a model").unwrap();
    assert!(open("text.gguf").to_string().contains("text.gguf"));
    let whole = Parts::new(&Shape::default()).bytes();
    std::fs::write(folder.path().join("half.gguf"), &whole[..whole.len() / 2]).unwrap();
    assert!(matches!(open("half.gguf"), LlamaError::Gguf { .. }));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    /// It is not loaded, or it computes something; it does not crash.
    #[test]
    fn a_file_with_a_few_wrong_bytes_does_no_harm(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let parts = Parts::new(&Shape { layers: 1, ..Default::default() });
        let mut bytes = parts.bytes();
        let weights: usize = parts.tensors.iter().map(|tensor| tensor.numbers.len() * 4).sum();
        let header = bytes.len() - weights;
        for (index, byte) in changes {
            bytes[index.index(header)] = byte;
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        if let Ok(model) = Model::open(&Device::open("default").unwrap(), file.path()) {
            let mut session = model.session().unwrap();
            session.feed(&[1, 100, 270]).unwrap();
        }
    }
}
