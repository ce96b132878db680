//! Models of every shape and type of weights compute what float64 computes.

use crate::synthetic_models::gguf::{Fixture, Storage};
use crate::synthetic_models::oracle::Oracle;
use crate::synthetic_models::parts::{Parts, Shape};
use ironbridge::llama::{
    CacheType, LlamaError, LoadOptions, Model, ModelFile, Sequences, Session, SessionOptions,
    WeightStorage,
};
use ironbridge::memory::Category;
use ironbridge::{ActivationPrecision, DType, Device};

/// Bounds the largest difference of two lists of logits, all of which are around 1 in size.
fn assert_close(found: &[f32], expected: &[f64], tolerance: f64, what: &str) {
    assert_eq!(found.len(), expected.len());
    for (token, (found, expected)) in found.iter().zip(expected).enumerate() {
        let difference = (f64::from(*found) - expected).abs();
        assert!(
            difference <= tolerance,
            "{what}, token {token}: {found} and {expected}"
        );
    }
}

/// Measured are 1e-6; a GPU's fast exponential and its sums in another order may be a little further off.
const TOLERANCE: f64 = 2e-5;

const TOKENS: [u32; 11] = [1, 270, 5, 271, 260, 260, 287, 0, 100, 263, 42];

/// The same for Q8_0: beside its integers activations are rounded, to 15 bits for up to eight tokens, else mostly to 8.
/// Measured are 3.5e-4 and 2.2e-2.
const TOLERANCE_OF_FEW: f64 = 1e-3;
const TOLERANCE_OF_MANY: f64 = 5e-2;

/// As one batch, in two, and token by token.
fn check(shape: &Shape) {
    check_parts(shape, &Parts::new(shape));
}

fn check_parts(shape: &Shape, parts: &Parts) {
    let file = parts.file();
    let model = Model::open(&Device::open("default").unwrap(), file.path()).unwrap();
    let expected = Oracle::new(shape, parts).logits(&TOKENS);
    for batch in [512, 7, 1] {
        let options = SessionOptions {
            batch: Some(batch),
            activations: ActivationPrecision::Float,
            ..Default::default()
        };
        let mut session = Session::new(&model, options).unwrap();
        session.feed(&TOKENS).unwrap();
        let tolerance = match shape.storage {
            Storage::Q8_0 | Storage::Blocks(_) if batch > 8 => TOLERANCE_OF_MANY,
            Storage::Q8_0 | Storage::Blocks(_) => TOLERANCE_OF_FEW,
            _ => TOLERANCE,
        };
        let what = format!("{shape:?}, batches of {batch}");
        assert_close(&session.logits().unwrap(), &expected, tolerance, &what);
    }
}

#[test]
fn weights_of_every_type() {
    for storage in [Storage::F32, Storage::F16, Storage::Bf16, Storage::Q8_0] {
        check(&Shape {
            storage,
            ..Default::default()
        });
    }
}

/// Files of every block type are read, and their weights are those of the `gguf` package.
#[test]
fn blocks_of_every_type() {
    let all = DType::ALL.iter().copied();
    for dtype in all.filter(|dtype| dtype.block_elements() > 1) {
        let shape = Shape {
            width: 256,
            layers: 1,
            head_dim: 64,
            rotary_dim: 64,
            feed_forward: 256,
            storage: Storage::Blocks(dtype),
            ..Default::default()
        };
        let mut parts = Parts::new(&shape);
        // Some blocks have weights of about a thousand: norms are as much smaller, so that scores and logits are around
        // 1.
        let factor = 1.0 / (128.0 * Fixture::of(dtype).size());
        let norms = parts
            .tensors
            .iter_mut()
            .filter(|tensor| tensor.dimensions.len() == 1);
        norms
            .flat_map(|norm| &mut norm.numbers)
            .for_each(|number| *number *= factor as f32);
        check_parts(&shape, &parts);
    }
}

#[test]
fn heads_of_every_kind() {
    for (heads, kv_heads, head_dim) in [
        (4, 4, 16),
        (4, 1, 16),
        (6, 3, 8),
        (2, 1, 64),
        (1, 1, 256),
        (3, 1, 32),
    ] {
        check(&Shape {
            heads,
            kv_heads,
            head_dim,
            rotary_dim: head_dim,
            ..Default::default()
        });
    }
}

#[test]
fn one_layer_and_many() {
    for layers in [1, 7] {
        check(&Shape {
            layers,
            ..Default::default()
        });
    }
}

#[test]
fn rotations_of_every_kind() {
    let plain = Shape::default();
    check(&Shape {
        rotary_dim: 8,
        ..plain.clone()
    });
    check(&Shape {
        rope_base: 500_000.0,
        ..plain.clone()
    });
    check(&Shape {
        rope_factor: 4.0,
        ..plain.clone()
    });
    check(&Shape {
        rope_factors: true,
        ..plain
    });
}

#[test]
fn a_sliding_window() {
    for window in [1, 4, 100] {
        check(&Shape {
            window,
            ..Default::default()
        });
    }
}

#[test]
fn an_embedding_that_is_the_output_too() {
    for storage in [Storage::F32, Storage::Q8_0] {
        check(&Shape {
            tied: true,
            storage,
            ..Default::default()
        });
    }
}

/// Differences from float64, of logits around 1 in size. Measured are 1.2e-3 for F16 and 2.8e-2 for Q8_0.
#[test]
fn smaller_caches_are_a_little_off() {
    let shape = Shape {
        head_dim: 32,
        rotary_dim: 32,
        ..Default::default()
    };
    let parts = Parts::new(&shape);
    let device = Device::open("default").unwrap();
    let model = Model::open(&device, parts.file().path()).unwrap();
    let expected = Oracle::new(&shape, &parts).logits(&TOKENS);
    let logits = |cache, batch| {
        let options = SessionOptions {
            cache,
            batch,
            ..Default::default()
        };
        let mut session = Session::new(&model, options).unwrap();
        let bytes = device.memory().unwrap().category(Category::KvCache).bytes;
        session.feed(&TOKENS).unwrap();
        (session.logits().unwrap().to_vec(), bytes)
    };
    let (whole, bytes) = logits(CacheType::F32, None);
    for (cache, (part, whole_part), tolerance) in [
        (CacheType::F16, (2, 4), 2.5e-3),
        (CacheType::Q8_0, (34, 32 * 4), 5e-2),
    ] {
        for batch in [None, Some(4), Some(1)] {
            let (found, used) = logits(cache, batch);
            assert_ne!(found, whole);
            assert_close(&found, &expected, tolerance, &format!("{cache:?} cache"));
            assert_eq!(used, bytes * part / whole_part);
        }
    }
}

#[test]
fn heads_that_are_not_whole_blocks_cannot_be_cached_as_such() {
    let parts = Parts::new(&Shape::default());
    let model = Model::open(&Device::open("default").unwrap(), parts.file().path()).unwrap();
    let options = SessionOptions {
        cache: CacheType::Q8_0,
        ..Default::default()
    };
    let refused = LlamaError::CacheType {
        cache: "Q8_0",
        head_dim: 16,
        block: 32,
    };
    for error in [
        Session::new(&model, options).unwrap_err(),
        Sequences::new(&model, 2, options).unwrap_err(),
    ] {
        assert_eq!(error.to_string(), refused.to_string());
    }
}

#[test]
fn copied_weights_outlive_their_file() {
    // A GPU's kernels read rows as the file has them, the processor's native ones do not.
    for selector in ["default", "cpu:cores=8"] {
        copied_weights_outlive_theirs(selector);
    }
}

fn copied_weights_outlive_theirs(selector: &str) {
    let shape = Shape {
        storage: Storage::Q8_0,
        ..Default::default()
    };
    let parts = Parts::new(&shape);
    let file = parts.file();
    let options = LoadOptions {
        weights: WeightStorage::Copied,
    };
    let gguf = ModelFile::open(file.path()).unwrap();
    let model = Model::load(
        &Device::open(selector).unwrap(),
        &gguf,
        options,
        &mut |_| (),
    )
    .unwrap();
    drop(gguf);
    file.as_file().set_len(0).unwrap(); // mapped weights would end the process here
    let mut session = model.session().unwrap();
    session.feed(&TOKENS).unwrap();
    let expected = Oracle::new(&shape, &parts).logits(&TOKENS);
    assert_close(
        &session.logits().unwrap(),
        &expected,
        TOLERANCE_OF_MANY,
        "copied",
    );
}

/// Several texts on a device of many cores, which stores and attends to all of them by one kernel each, with caches in
/// one buffer and in two: texts of different lengths, of which not each is in every pass, and whose caches are copied,
/// saved, restored and rewound.
#[test]
fn texts_of_a_device_of_many_cores() {
    let shape = Shape {
        heads: 2,
        kv_heads: 1,
        head_dim: 64,
        rotary_dim: 64,
        context: 192,
        ..Default::default()
    };
    let parts = Parts::new(&shape);
    let file = parts.file();
    let long: Vec<u32> = TOKENS.iter().copied().cycle().take(150).collect();
    for (selector, cache, tolerance) in [
        ("cpu:cores=132", CacheType::F32, TOLERANCE),
        ("cpu:cores=132", CacheType::F16, 2.5e-3),
        ("cpu:cores=132", CacheType::Q8_0, 5e-2),
        // A text's keys have 48 KiB.
        (
            "cpu:cores=132,max_buffer_length=147456",
            CacheType::F32,
            TOLERANCE,
        ),
    ] {
        let device = Device::open(selector).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let kernels = folder.path().join("kernels");
        device.open_pipeline_cache(&kernels).unwrap();
        let model = Model::open(&device, file.path()).unwrap();
        let options = SessionOptions {
            batch: Some(16),
            cache,
            ..Default::default()
        };
        let mut texts = Sequences::new(&model, 4, options).unwrap();
        let feed = |texts: &mut Sequences, work: &[(usize, &[u32])]| {
            texts.feed(work).unwrap();
            for (index, _) in work {
                let seen = texts.tokens(*index);
                let expected = Oracle::new(&shape, &parts).logits(seen);
                let what = format!("{selector}, {cache:?}, text {index} of {}", seen.len());
                assert_close(&texts.logits(*index).unwrap(), &expected, tolerance, &what);
            }
        };
        let start = [
            (0, &TOKENS[..4]),
            (1, &long[..]),
            (2, &TOKENS[..1]),
            (3, &TOKENS[..]),
        ];
        feed(&mut texts, &start);
        for token in [5, 270] {
            feed(
                &mut texts,
                &[(0, &[token]), (1, &[token]), (2, &[token]), (3, &[token])],
            );
        }
        feed(&mut texts, &[(3, &[7]), (0, &[8])]);
        let saved = texts.save(1).unwrap();
        texts.copy(1, 0).unwrap();
        texts.rewind(1, 30);
        feed(&mut texts, &[(0, &[9]), (1, &[10]), (2, &[11])]);
        texts.restore(3, &saved).unwrap();
        texts.rewind(3, 135);
        feed(
            &mut texts,
            &[(0, &[12]), (1, &[13]), (2, &[14]), (3, &[15])],
        );

        device.save_pipeline_cache().unwrap();
        let kernels = std::fs::read_to_string(kernels).unwrap();
        for name in [
            "attention_texts_64_",
            "attention_texts_merge_64",
            "copies_f32_",
        ] {
            assert!(kernels.contains(name), "{name}: {kernels}");
        }
    }
}

#[test]
fn a_file_longer_than_the_longest_buffer_is_wrapped_in_parts() {
    let shape = Shape {
        layers: 4,
        ..Default::default()
    };
    let parts = Parts::new(&shape);
    let longest = 96 << 10; // the embedding alone has 72 KiB, all weights 620 KiB
    assert!(parts.bytes().len() > 5 * longest);
    let device = Device::open(&format!("cpu:max_buffer_length={longest}")).unwrap();
    let model = Model::open(&device, parts.file().path()).unwrap();
    let options = SessionOptions {
        batch: Some(16),
        ..Default::default()
    };
    let mut session = Session::new(&model, options).unwrap();
    session.feed(&TOKENS).unwrap();
    let expected = Oracle::new(&shape, &parts).logits(&TOKENS);
    assert_close(&session.logits().unwrap(), &expected, TOLERANCE, "in parts");
}
