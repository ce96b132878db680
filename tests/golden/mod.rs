//! Holds a model against `tests/data/golden.json`, which `scripts/golden_fixtures.py` made.

use std::path::{Path, PathBuf};

use ironbridge::Device;
use ironbridge::llama::{Model, Sampler, SamplerOptions, Stop};
use serde_json::Value;

/// llama.cpp's own median error on this model in Q8_0 is 2.3e-2, because it rounds activations; in F16 it is 7.2e-4.
/// The fixtures are rounded to 5e-7 of their norm.
const RELATIVE_ERROR: f64 = 1e-4;

pub fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The prompts' tokens, the logits after them and 24 greedy tokens must be those of the float64 forward pass.
pub fn check(file: &str, weights: &str) {
    let text = std::fs::read_to_string(repository("tests/data/golden.json")).unwrap();
    let golden: Value = serde_json::from_str(&text).unwrap();
    let golden = &golden[weights];
    let step = golden["step"].as_u64().unwrap() as usize;
    let cases = golden["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 6);

    let device = Device::open("cpu").unwrap();
    let model = Model::open(&device, repository(file)).unwrap();
    for case in cases {
        let prompt = case["prompt"].as_str().unwrap();
        let tokens = model.encode_prompt(prompt);
        assert_eq!(tokens, integers(&case["tokens"]), "{prompt}");

        let mut session = model.session().unwrap();
        session.feed(&tokens).unwrap();
        let logits: Vec<f64> = session
            .logits()
            .unwrap()
            .iter()
            .step_by(step)
            .map(|logit| f64::from(*logit))
            .collect();
        let exact: Vec<f64> = case["logits"]
            .as_array()
            .unwrap()
            .iter()
            .map(|logit| logit.as_f64().unwrap())
            .collect();
        assert_eq!(logits.len(), exact.len());
        let error = relative_error(&logits, &exact);
        println!("{weights} {prompt:?}: relative error {error:.1e}");
        assert!(error <= RELATIVE_ERROR, "{prompt}: {error:e}");

        session.rewind(0);
        let mut generation = session.generate(
            &tokens,
            Sampler::new(SamplerOptions::default()).unwrap(),
            24,
        );
        let pieces: Vec<_> = generation.by_ref().map(Result::unwrap).collect();
        assert_eq!(generation.stop(), Some(Stop::Limit));
        let greedy: Vec<u32> = pieces.iter().map(|piece| piece.token).collect();
        assert_eq!(greedy, integers(&case["greedy"]), "{prompt}");

        let streamed: String = pieces.iter().map(|piece| piece.text.as_str()).collect();
        let whole = model
            .tokenizer()
            .decode(&[tokens, greedy].concat())
            .unwrap();
        assert_eq!(format!("{prompt}{streamed}"), whole);
    }
}

fn integers(json: &Value) -> Vec<u32> {
    json.as_array()
        .unwrap()
        .iter()
        .map(|number| number.as_u64().unwrap() as u32)
        .collect()
}

/// ‖found − exact‖ / ‖exact‖.
fn relative_error(found: &[f64], exact: &[f64]) -> f64 {
    let difference: f64 = found
        .iter()
        .zip(exact)
        .map(|(found, exact)| (found - exact).powi(2))
        .sum();
    let norm: f64 = exact.iter().map(|exact| exact.powi(2)).sum();
    (difference / norm).sqrt()
}
