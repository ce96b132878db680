//! Sessions and generations of the model that comes with the crate.

use std::path::Path;

use ironbridge::llama::{
    CacheType, LlamaError, LoadOptions, LoadProgress, Model, ModelFile, Sampler, SamplerOptions,
    Session, SessionOptions, Stop,
};
use ironbridge::memory::Category;
use ironbridge::{ActivationPrecision, Device, Error};
use proptest::prelude::*;

use crate::exact;

fn path() -> &'static Path {
    Path::new(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/assets/tiny-rustbook-q8_0.gguf"
    ))
}

fn model() -> Model {
    Model::open(&Device::open("default").unwrap(), path()).unwrap()
}

fn greedy() -> Sampler {
    Sampler::new(SamplerOptions::default()).unwrap()
}

fn logits(session: &Session) -> Vec<f32> {
    session.logits().unwrap().to_vec()
}

/// The largest difference, as a part of the largest number.
fn difference(a: &[f32], b: &[f32]) -> f32 {
    let differences = a.iter().zip(b).map(|(a, b)| (a - b).abs());
    differences.fold(0.0, f32::max) / b.iter().fold(0.0, |largest, b| b.abs().max(largest))
}

/// A paragraph of 60 tokens or so.
const PARAGRAPH: &str = "Ownership is a set of rules that govern how a Rust program manages memory. All programs \
    have to manage the way they use a computer's memory while running.";

/// On a device that multiplies matrices of bytes, on one that could but gains nothing by it, and on a GPU of few cores
/// and the processor, which have no such kernels.
#[test]
fn activations_are_rounded_as_the_session_asks() {
    use ActivationPrecision::{Bytes, Float};
    for (selector, automatic, rounds) in [
        ("cpu:cores=132,threadgroup_memory=227", Bytes, true),
        ("cpu:cores=132", Float, true),
        ("cpu:cores=8", Float, false),
        ("cpu", Float, false),
    ] {
        let model = Model::open(&Device::open(selector).unwrap(), path()).unwrap();
        let tokens = model.encode_prompt("Ownership is");
        let run = |activations| {
            let options = SessionOptions {
                context: Some(16),
                activations,
                ..Default::default()
            };
            let mut session = Session::new(&model, options).unwrap();
            for token in &tokens[..2] {
                session.feed(&[*token]).unwrap();
            }
            logits(&session)
        };
        let (float, bytes) = (run(Float), run(Bytes));
        let of_automatic = match automatic {
            Bytes => &bytes,
            _ => &float,
        };
        assert_eq!(
            &run(ActivationPrecision::default()),
            of_automatic,
            "{selector}"
        );
        let off = difference(&bytes, &float);
        assert_eq!(off > 0.0, rounds, "{selector}: {off}");
        assert!(off < 3e-2, "{selector}: {off}");
    }
}

#[test]
fn a_prompt_in_one_batch_is_the_prompt_step_by_step() {
    let model = exact::model();
    let tokens = model.encode_prompt(PARAGRAPH);
    assert!(tokens.len() > 30);
    let mut whole = model.session().unwrap();
    whole.feed(&tokens).unwrap();
    let whole = logits(&whole);
    for batch in [1, 5, 16] {
        let options = SessionOptions {
            batch: Some(batch),
            ..Default::default()
        };
        let mut session = Session::new(&model, options).unwrap();
        session.feed(&tokens).unwrap();
        let found = difference(&logits(&session), &whole);
        assert!(found <= 1e-5, "batches of {batch}: {found}");
    }
    let mut steps = model.session().unwrap();
    for token in &tokens {
        steps.feed(&[*token]).unwrap();
    }
    assert!(difference(&logits(&steps), &whole) <= 1e-5);
    assert_eq!(steps.position(), tokens.len());
}

/// Parts of the largest logit. Measured are 3.5e-4 for F16 and 1.1e-2 for Q8_0.
#[test]
fn smaller_caches_write_the_same_text() {
    let model = exact::model();
    let prompt = model.encode_prompt(PARAGRAPH);
    let run = |cache| {
        let options = SessionOptions {
            cache,
            ..Default::default()
        };
        let mut session = Session::new(&model, options).unwrap();
        session.feed(&prompt).unwrap();
        let found = logits(&session);
        session.rewind(0);
        let written: Vec<u32> = session
            .generate(&prompt, greedy(), 24)
            .map(|piece| piece.unwrap().token)
            .collect();
        (found, written)
    };
    let (exact, text) = run(CacheType::F32);
    for (cache, tolerance) in [(CacheType::F16, 1e-3), (CacheType::Q8_0, 2e-2)] {
        let (found, written) = run(cache);
        let error = difference(&found, &exact);
        assert!(error > 0.0 && error <= tolerance, "{cache:?}: {error}");
        assert_eq!(written, text, "{cache:?}");
    }
}

#[test]
fn a_session_goes_back_and_starts_again() {
    let model = exact::model();
    let tokens = model.encode_prompt("References and borrowing");
    let mut session = model.session().unwrap();
    session.feed(&tokens).unwrap();
    let first = logits(&session);
    session.feed(&[100, 200, 300]).unwrap();
    session.rewind(tokens.len() - 1);
    assert!(matches!(
        session.logits().unwrap_err(),
        Error::Llama(LlamaError::NoTokens)
    ));
    session.feed(&tokens[tokens.len() - 1..]).unwrap();
    assert!(difference(&logits(&session), &first) <= 1e-5);
    session.rewind(0);
    session.feed(&tokens).unwrap();
    assert_eq!(logits(&session), first);
    session.rewind(1000); // there is nothing
    assert_eq!(session.position(), tokens.len());
    assert_eq!(logits(&session), first);
}

#[test]
fn sessions_of_one_model_do_not_meet() {
    let model = model();
    let texts: Vec<String> = std::thread::scope(|scope| {
        let write = |prompt: &'static str| {
            let model = &model;
            scope.spawn(move || {
                let mut session = model.session().unwrap();
                let pieces = session.generate(&model.encode_prompt(prompt), greedy(), 12);
                pieces.map(|piece| piece.unwrap().text).collect()
            })
        };
        let threads = ["Ownership is", "Unsafe Rust", "Ownership is"].map(write);
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    assert_eq!(texts[0], texts[2]);
    assert_ne!(texts[0], texts[1]);
    assert!(texts[0].starts_with(" a set of rules"), "{texts:?}");
}

#[test]
fn a_full_context_is_an_error_and_ends_the_generation() {
    let model = model();
    let options = SessionOptions {
        context: Some(16),
        ..Default::default()
    };
    let mut session = Session::new(&model, options).unwrap();
    let prompt = model.encode_prompt("Ownership is");
    let mut generation = session.generate(&prompt, greedy(), 100);
    let pieces: Vec<_> = generation.by_ref().collect();
    assert_eq!(generation.stop(), Some(Stop::Failed));
    // The last token needs no room: it is written and not read.
    assert_eq!(pieces.len(), 16 - prompt.len() + 2);
    let (error, written) = pieces.split_last().unwrap();
    assert!(written.iter().all(Result::is_ok));
    let full = LlamaError::ContextFull {
        tokens: 17,
        context: 16,
    };
    assert_eq!(error.as_ref().unwrap_err().to_string(), full.to_string());

    session.rewind(0);
    let long = vec![5; 17];
    assert!(matches!(
        session.feed(&long).unwrap_err(),
        Error::Llama(LlamaError::ContextFull {
            tokens: 17,
            context: 16
        })
    ));
    assert_eq!(session.position(), 0);
    session.feed(&long[..16]).unwrap();
    assert!(matches!(
        session.feed(&[5]).unwrap_err(),
        Error::Llama(LlamaError::ContextFull { .. })
    ));
}

#[test]
fn what_cannot_be_fed_is_an_error_and_changes_nothing() {
    let model = model();
    let mut session = model.session().unwrap();
    assert!(matches!(
        session.logits().unwrap_err(),
        Error::Llama(LlamaError::NoTokens)
    ));
    assert!(matches!(
        session.feed(&[]).unwrap_err(),
        Error::Llama(LlamaError::NoTokens)
    ));
    for id in [2048, u32::MAX] {
        let error = session.feed(&[1, id]).unwrap_err();
        assert!(
            matches!(
                error,
                Error::Llama(LlamaError::TokenOutOfRange {
                    vocabulary: 2048,
                    ..
                })
            ),
            "{error}"
        );
    }
    assert_eq!(session.position(), 0);
    let mut empty = session.generate(&[], greedy(), 3);
    assert!(matches!(
        empty.next(),
        Some(Err(Error::Llama(LlamaError::NoTokens)))
    ));
    assert!(empty.next().is_none());
    let options = SessionOptions {
        context: Some(513),
        ..Default::default()
    };
    let error = Session::new(&model, options).unwrap_err();
    assert!(matches!(
        error,
        Error::Llama(LlamaError::ContextTooLong {
            asked: 513,
            trained: 512
        })
    ));
}

#[test]
fn the_same_seed_writes_the_same_text() {
    let model = model();
    let write = |seed| -> String {
        let options = SamplerOptions {
            temperature: 3.0, // the model knows its book by heart
            top_k: Some(40),
            top_p: 1.0,
            seed,
            ..Default::default()
        };
        let mut session = model.session().unwrap();
        let sampler = Sampler::new(options).unwrap();
        let pieces = session.generate(&model.encode_prompt("The Drop trait"), sampler, 24);
        pieces.map(|piece| piece.unwrap().text).collect()
    };
    assert_eq!(write(1), write(1));
    assert_ne!(write(1), write(2));
}

#[test]
fn statistics_count_what_was_done() {
    let model = model();
    let mut session = model.session().unwrap();
    let prompt = model.encode_prompt("fn main() {");
    let mut generation = session.generate(&prompt, greedy(), 5);
    assert_eq!(generation.stop(), None);
    assert_eq!(generation.by_ref().count(), 5);
    let stats = generation.stats();
    assert_eq!(
        (stats.prompt_tokens, stats.generated_tokens),
        (prompt.len(), 5)
    );
    assert!(stats.prompt_rate() > 0.0 && stats.generation_rate() > 0.0);
    assert_eq!(session.generate(&prompt, greedy(), 0).count(), 0);
}

#[test]
fn a_generation_goes_on_where_the_last_one_ended() {
    let model = model();
    let prompt = model.encode_prompt("Ownership is");
    let tokens = |session: &mut Session, prompt: &[u32], limit| -> Vec<u32> {
        session
            .generate(prompt, greedy(), limit)
            .map(|piece| piece.unwrap().token)
            .collect()
    };
    let whole = tokens(&mut model.session().unwrap(), &prompt, 10);
    let mut session = model.session().unwrap();
    let first = tokens(&mut session, &prompt, 4);
    let second = tokens(&mut session, &first[3..], 6);
    assert_eq!([first, second].concat(), whole);
}

#[test]
fn loading_reports_every_byte() {
    let file = ModelFile::open(path()).unwrap();
    let tensors = file.tensors();
    let bytes: u64 = tensors.iter().map(|tensor| tensor.byte_length()).sum();
    let mut reports: Vec<LoadProgress> = Vec::new();
    let device = Device::open("default").unwrap();
    Model::load(&device, &file, LoadOptions::default(), &mut |progress| {
        reports.push(progress)
    })
    .unwrap();
    assert!(reports.windows(2).all(|pair| pair[0].done < pair[1].done));
    let all = LoadProgress {
        done: bytes,
        total: bytes,
    };
    assert_eq!(reports.last(), Some(&all));
}

#[test]
fn memory_is_counted_and_comes_back() {
    let device = Device::open("default").unwrap();
    let bytes = |category| device.memory().unwrap().category(category).bytes;
    let before = device.memory().unwrap().active_bytes;
    let model = Model::open(&device, path()).unwrap();
    assert!(
        bytes(Category::Weights) > 6_000_000,
        "{}",
        bytes(Category::Weights)
    );
    let mut session = model.session().unwrap();
    // Keys and values of 512 positions in 6 layers, 4 heads of 32 floats each.
    assert_eq!(bytes(Category::KvCache), 2 * 6 * 512 * 4 * 32 * 4);
    let activations = bytes(Category::Activations);
    assert!(activations > 0);
    let active = device.memory().unwrap().active_bytes;
    let prompt = model.encode_prompt("Ownership is");
    assert_eq!(
        session
            .generate(&prompt, greedy(), 30)
            .filter(Result::is_ok)
            .count(),
        30
    );
    assert_eq!(
        device.memory().unwrap().active_bytes,
        active,
        "no memory is made for a token"
    );
    drop(session);
    assert_eq!(
        (bytes(Category::KvCache), bytes(Category::Activations)),
        (0, 0)
    );
    drop(model);
    assert_eq!(bytes(Category::Weights), 0);
    assert_eq!(device.memory().unwrap().active_bytes, before);
}

#[test]
fn a_session_that_does_not_fit_is_an_error_and_leaves_nothing() {
    // The weights take 6 MiB, the cache of a session 3, and what computes 512 tokens together 9.
    let limit = 8 << 20;
    let device = Device::open(&format!("cpu:memory_limit={limit}")).unwrap();
    let model = Model::open(&device, path()).unwrap();
    let before = device.memory().unwrap().active_bytes;
    assert!(matches!(model.session(), Err(Error::OutOfMemory(_))));
    assert_eq!(device.memory().unwrap().active_bytes, before);
    let small = SessionOptions {
        context: Some(64),
        batch: Some(16),
        ..Default::default()
    };
    let mut session = Session::new(&model, small).unwrap();
    session.feed(&[1, 2, 3]).unwrap();
}

#[test]
fn a_failing_device_is_an_error_and_not_a_text() {
    let device = Device::open("cpu:fail_command_buffer=12:out_of_memory").unwrap();
    let model = Model::open(&device, path()).unwrap();
    let mut session = model.session().unwrap();
    let mut generation = session.generate(&model.encode_prompt("Ownership is"), greedy(), 100);
    let pieces: Vec<_> = generation.by_ref().collect();
    assert_eq!(generation.stop(), Some(Stop::Failed));
    assert!(pieces.len() < 12);
    assert!(
        matches!(pieces.last().unwrap(), Err(Error::OutOfMemory(_))),
        "{:?}",
        pieces.last()
    );

    // Another session of the same model is not touched by it.
    let mut session = model.session().unwrap();
    let pieces = session.generate(&model.encode_prompt("Ownership is"), greedy(), 4);
    let text: String = pieces.map(|piece| piece.unwrap().text).collect();
    assert_eq!(text, " a set of rules");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, failure_persistence: None, ..Default::default() })]

    /// However a text is cut into feeds, what comes next is the same.
    #[test]
    fn any_way_to_feed_a_text_gives_the_same(
        tokens in proptest::collection::vec(0u32..2048, 1..24),
        cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..4),
    ) {
        let model = exact::model();
        let mut whole = model.session().unwrap();
        whole.feed(&tokens).unwrap();
        let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(tokens.len())).collect();
        places.extend([0, tokens.len()]);
        places.sort();
        places.dedup();
        let mut parts = model.session().unwrap();
        for pair in places.windows(2) {
            parts.feed(&tokens[pair[0]..pair[1]]).unwrap();
        }
        prop_assert!(difference(&logits(&whole), &logits(&parts)) <= 1e-5);
    }
}
