//! Small models of every variant of the architectures compute what `transformers` computes: `scripts/model_fixtures.py`
//! made the folders.

use std::path::PathBuf;

use ironbridge::Device;
use ironbridge::llama::{
    Model, Pooling, Sampler, SamplerOptions, Sequences, Session, SessionOptions,
};
use serde::Deserialize;

const VARIANTS: [&str; 26] = [
    "gemma",
    "gemma2",
    "gemma2-three-layers",
    "gemma3",
    "gemma3-scaled",
    "llama-1",
    "llama-2",
    "llama-3",
    "llama-3-scaled",
    "llama-3-scaled-tied",
    "llama-biases",
    "llama-grouped-tied",
    "llama-linear",
    "llama-tiny",
    "llama-wide-heads",
    "llama-window-ignored",
    "llama-yarn",
    "llama-yarn-attention-factor",
    "llama-yarn-mscale",
    "mistral-window",
    "qwen2",
    "qwen2-layer-types",
    "qwen2-window-tied",
    "qwen3",
    "qwen3-max-window-layers",
    "qwen3-tied-yarn",
];

/// Of the largest number, against the reference.
const TO_REFERENCE: f64 = 1e-4;
/// And between two ways to the same.
const TO_EACH_OTHER: f64 = 1e-5;

/// What `transformers` computes.
#[derive(Deserialize)]
struct Reference {
    prompt: Vec<u32>,
    logits: Vec<At>,
    log_probabilities: Vec<f64>,
    mean_embedding: Vec<f64>,
    last_embedding: Vec<f64>,
    greedy: Vec<u32>,
}

/// The logits after the token at `position`.
#[derive(Deserialize)]
struct At {
    position: usize,
    values: Vec<f64>,
}

fn folder(name: &str) -> PathBuf {
    let models = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/models");
    PathBuf::from(models).join(name)
}

fn open(name: &str) -> (Model, Reference) {
    let model = Model::open(&Device::open("default").unwrap(), folder(name)).unwrap();
    let reference = std::fs::read_to_string(folder(name).join("reference.json")).unwrap();
    (model, serde_json::from_str(&reference).unwrap())
}

fn session(model: &Model, batch: usize) -> Session {
    let options = SessionOptions {
        batch: (batch > 0).then_some(batch),
        ..Default::default()
    };
    Session::new(model, options).unwrap()
}

fn exact(numbers: &[f32]) -> Vec<f64> {
    numbers.iter().map(|number| f64::from(*number)).collect()
}

fn logits(session: &Session) -> Vec<f64> {
    exact(&session.logits().unwrap())
}

/// Bounds the largest difference, as a part of the largest number.
#[track_caller]
fn assert_close(found: &[f64], expected: &[f64], tolerance: f64, what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let largest = expected
        .iter()
        .fold(0.0f64, |largest, number| largest.max(number.abs()));
    for (index, (found, expected)) in found.iter().zip(expected).enumerate() {
        let difference = (found - expected).abs() / largest;
        // A number that is none is not close, either.
        assert!(
            difference <= tolerance,
            "{what}, {index}: {found} and {expected} differ by {difference}"
        );
    }
}

#[test]
fn every_folder_is_tested() {
    let mut folders: Vec<_> = std::fs::read_dir(folder(""))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    folders.sort();
    assert_eq!(folders, VARIANTS);
}

#[test]
fn logits_are_those_of_transformers() {
    // `make test-models` makes a table of the differences.
    let table = std::env::var_os("IRONBRIDGE_DIFFERENCES");
    let mut differences = serde_json::Map::new();
    for name in VARIANTS {
        let (model, reference) = open(name);
        let mut largest: f64 = 0.0;
        for At { position, values } in &reference.logits {
            let mut session = session(&model, 0);
            session.feed(&reference.prompt[..position + 1]).unwrap();
            let what = format!("{name} at {position}");
            let found = logits(&session);
            assert_close(&found, values, TO_REFERENCE, &what);
            let of = |numbers: &mut dyn Iterator<Item = f64>| numbers.fold(0.0, f64::max);
            let most = of(&mut values.iter().map(|value| value.abs()));
            let off = of(&mut found
                .iter()
                .zip(values)
                .map(|(found, value)| (found - value).abs()));
            largest = largest.max(off / most);
        }
        differences.insert(name.to_owned(), largest.into());
    }
    if let Some(path) = table {
        std::fs::write(path, serde_json::Value::from(differences).to_string()).unwrap();
    }
}

#[test]
fn a_prompt_in_any_batches_is_the_prompt_step_by_step() {
    for name in VARIANTS {
        let (model, Reference { prompt, .. }) = open(name);
        let mut steps = session(&model, 0);
        let after_each: Vec<Vec<f64>> = prompt
            .iter()
            .map(|token| {
                steps.feed(&[*token]).unwrap();
                logits(&steps)
            })
            .collect();
        let whole = after_each.last().unwrap();
        for batch in 1..=prompt.len() {
            let mut batches = session(&model, batch);
            batches.feed(&prompt).unwrap();
            let what = format!("{name}, batches of {batch}");
            assert_close(&logits(&batches), whole, TO_EACH_OTHER, &what);
        }
        for cut in 1..prompt.len() {
            let mut halves = session(&model, 0);
            halves.feed(&prompt[..cut]).unwrap();
            let what = format!("{name}, cut at {cut}");
            assert_close(&logits(&halves), &after_each[cut - 1], TO_EACH_OTHER, &what);
            halves.feed(&prompt[cut..]).unwrap();
            assert_close(&logits(&halves), whole, TO_EACH_OTHER, &what);
        }
    }
}

#[test]
fn log_probabilities_are_those_of_transformers() {
    for name in VARIANTS {
        let (model, reference) = open(name);
        for (batch, outputs) in [(0, 0), (7, 3), (5, 5), (1, 1)] {
            let options = SessionOptions {
                batch: (batch > 0).then_some(batch),
                outputs: (outputs > 0).then_some(outputs),
                ..Default::default()
            };
            let mut session = Session::new(&model, options).unwrap();
            let found = session.log_probabilities(&reference.prompt).unwrap();
            let what = format!("{name}, batches of {batch}, {outputs} outputs");
            assert_close(&found, &reference.log_probabilities, TO_REFERENCE, &what);
            assert_eq!(session.tokens(), reference.prompt);
        }
    }
}

#[test]
fn embeddings_are_those_of_transformers() {
    for name in VARIANTS {
        let (model, reference) = open(name);
        for batch in [0, 7] {
            for (pooling, expected) in [
                (Pooling::Mean, &reference.mean_embedding),
                (Pooling::Last, &reference.last_embedding),
            ] {
                let found = session(&model, batch)
                    .embed(&reference.prompt, pooling)
                    .unwrap();
                let what = format!("{name}, {pooling:?}, batches of {batch}");
                assert_close(&exact(&found), expected, TO_REFERENCE, &what);
            }
        }
    }
}

#[test]
fn greedy_texts_are_those_of_transformers() {
    for name in VARIANTS {
        let (model, reference) = open(name);
        let greedy = Sampler::new(SamplerOptions::default()).unwrap();
        let mut session = session(&model, 0);
        let written: Vec<u32> = session
            .generate(&reference.prompt, greedy, reference.greedy.len())
            .map(|piece| piece.unwrap().token)
            .collect();
        assert_eq!(written, reference.greedy, "{name}");
    }
}

/// Sequences of different lengths, of which some read prompts while others write.
#[test]
fn sequences_computed_together_are_those_computed_alone() {
    for name in VARIANTS {
        let (model, Reference { prompt, .. }) = open(name);
        let texts = [&prompt[..], &prompt[3..14], &prompt[9..10]];
        for batch in [0, 4] {
            let options = SessionOptions {
                batch: (batch > 0).then_some(batch),
                ..Default::default()
            };
            let mut together = Sequences::new(&model, texts.len(), options).unwrap();
            together
                .feed(&[(1, &texts[1][..1]), (0, &texts[0][..20])])
                .unwrap();
            together
                .feed(&[(0, &texts[0][20..]), (2, texts[2]), (1, &texts[1][1..])])
                .unwrap();
            for (index, text) in texts.iter().enumerate() {
                let mut alone = session(&model, 0);
                alone.feed(text).unwrap();
                let what = format!("{name}, text {index}, batches of {batch}");
                let found = exact(&together.logits(index).unwrap());
                assert_close(&found, &logits(&alone), TO_EACH_OTHER, &what);
                assert_eq!(together.tokens(index), *text);
            }
        }
    }
}
