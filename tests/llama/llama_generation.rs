//! What a program that writes text can ask for: several texts at once, stop strings, log-probabilities, masks,
//! cancellation, forgetting, and the same text whatever computes it.

use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use ironbridge::llama::{
    CancelToken, GenerationOptions, LlamaError, Model, PerplexityOptions, PerplexityWindows, Piece,
    Sampler, SamplerError, SamplerOptions, Sequences, Session, SessionOptions, Stop, WhenFull,
    Writer,
};
use ironbridge::{Device, Error};

use crate::exact::model;

const PATH: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/assets/tiny-rustbook-q8_0.gguf"
);

fn greedy() -> Sampler {
    Sampler::new(SamplerOptions::default()).unwrap()
}

/// Hot, for the model knows its book by heart.
fn hot(seed: u64) -> Sampler {
    let options = SamplerOptions {
        temperature: 3.0,
        seed,
        ..Default::default()
    };
    Sampler::new(options).unwrap()
}

fn limit(limit: usize) -> GenerationOptions {
    GenerationOptions {
        limit: Some(limit),
        ..Default::default()
    }
}

fn small(model: &Model, context: usize) -> Session {
    let options = SessionOptions {
        context: Some(context),
        ..Default::default()
    };
    Session::new(model, options).unwrap()
}

/// All pieces of a greedy text, and why it ended.
fn write(
    session: &mut Session,
    prompt: &str,
    options: GenerationOptions,
) -> (Vec<Piece>, Option<Stop>) {
    let prompt = session.model().encode_prompt(prompt);
    let mut generation = session.generate_with(&prompt, greedy(), options);
    let pieces = generation.by_ref().map(Result::unwrap).collect();
    (pieces, generation.stop())
}

fn text(pieces: &[Piece]) -> String {
    pieces.iter().map(|piece| piece.text.as_str()).collect()
}

fn tokens(pieces: &[Piece]) -> Vec<u32> {
    pieces.iter().map(|piece| piece.token).collect()
}

#[test]
fn texts_written_together_are_those_written_alone() {
    let model = model();
    let prompts = ["Ownership is", "Unsafe Rust", "fn main() {"];
    let limits = [12, 5, 20];
    let alone: Vec<String> = prompts
        .iter()
        .zip(limits)
        .zip(0..)
        .map(|((prompt, limit), seed)| {
            let prompt = model.encode_prompt(prompt);
            let mut session = model.session().unwrap();
            let pieces = session.generate(&prompt, hot(seed), limit);
            pieces.map(|piece| piece.unwrap().text).collect()
        })
        .collect();

    let mut sequences = Sequences::new(&model, 3, SessionOptions::default()).unwrap();
    let mut writers: Vec<Writer> = Vec::new();
    let mut unread: Vec<Vec<u32>> = Vec::new();
    for (index, prompt) in prompts.iter().enumerate() {
        let prompt = model.encode_prompt(prompt);
        writers.push(Writer::new(
            &model,
            &prompt,
            hot(index as u64),
            limit(limits[index]),
        ));
        unread.push(prompt);
    }
    let mut together = vec![String::new(); 3];
    while unread.iter().any(|tokens| !tokens.is_empty()) {
        let work = unread.iter().enumerate();
        let work = work.filter(|(_, tokens)| !tokens.is_empty());
        let work: Vec<(usize, &[u32])> = work.map(|(index, tokens)| (index, &tokens[..])).collect();
        sequences.feed(&work).unwrap();
        let busy: Vec<usize> = work.iter().map(|(index, _)| *index).collect();
        for index in busy {
            let piece = writers[index]
                .write(&sequences.logits(index).unwrap())
                .unwrap();
            together[index].push_str(&piece.text);
            unread[index] = match writers[index].stop() {
                None => vec![piece.token],
                Some(stop) => {
                    assert_eq!(stop, Stop::Limit);
                    Vec::new()
                }
            };
        }
    }
    assert_eq!(together, alone);
    assert_eq!(writers[2].written(), 20);
}

#[test]
fn what_several_sequences_cannot_do_is_an_error_and_changes_nothing() {
    let model = model();
    let options = SessionOptions {
        context: Some(8),
        ..Default::default()
    };
    assert!(matches!(
        Sequences::new(&model, 0, options).unwrap_err(),
        Error::Llama(LlamaError::NoSequences)
    ));
    let mut sequences = Sequences::new(&model, 2, options).unwrap();
    for work in [&[(2, &[5][..])][..], &[(0, &[5]), (0, &[6])]] {
        assert!(matches!(
            sequences.feed(work).unwrap_err(),
            Error::Llama(LlamaError::Sequence { count: 2, .. })
        ));
    }
    assert!(matches!(
        sequences.feed(&[(0, &[5]), (1, &[5; 9])]).unwrap_err(),
        Error::Llama(LlamaError::ContextFull {
            tokens: 9,
            context: 8
        })
    ));
    assert!(sequences.tokens(0).is_empty() && sequences.tokens(9).is_empty());
    sequences.feed(&[(1, &[5])]).unwrap();
    assert!(matches!(
        sequences.logits(0).unwrap_err(),
        Error::Llama(LlamaError::NoTokens)
    ));
    sequences.logits(1).unwrap();
}

#[test]
fn a_text_ends_before_its_stop_string() {
    let model = model();
    let whole = text(&write(&mut model.session().unwrap(), "Ownership is", limit(24)).0);
    // Within tokens, over several of them, the first that comes, and one that never comes but begins to.
    for stops in [
        &["gov"][..],
        &[" rules that govern"],
        &["program", "rules", "that"],
    ] {
        let options = GenerationOptions {
            stop_strings: stops.iter().map(|stop| (*stop).to_owned()).collect(),
            ..limit(24)
        };
        let (pieces, stop) = write(&mut model.session().unwrap(), "Ownership is", options);
        let place = stops
            .iter()
            .filter_map(|stop| whole.find(stop))
            .min()
            .unwrap();
        assert_eq!(stop, Some(Stop::StopString), "{stops:?}");
        assert_eq!(text(&pieces), whole[..place], "{stops:?}");
    }
    let options = GenerationOptions {
        stop_strings: vec!["rules that never".into(), String::new()],
        ..limit(24)
    };
    let (pieces, stop) = write(&mut model.session().unwrap(), "Ownership is", options);
    assert_eq!((text(&pieces), stop), (whole, Some(Stop::Limit)));
}

#[test]
fn log_probabilities_are_those_of_the_logits() {
    let model = model();
    let options = GenerationOptions {
        log_probabilities: Some(3),
        ..limit(6)
    };
    let (pieces, _) = write(&mut model.session().unwrap(), "Ownership is", options);
    let mut session = model.session().unwrap();
    session.feed(&model.encode_prompt("Ownership is")).unwrap();
    for piece in &pieces {
        let logits = session.logits().unwrap().to_vec();
        let total: f64 = logits.iter().map(|logit| f64::from(*logit).exp()).sum();
        let exact = |token: u32| f64::from(logits[token as usize]) - total.ln();
        let scores = piece.log_probabilities.as_ref().unwrap();
        assert!((f64::from(scores.picked) - exact(piece.token)).abs() < 1e-5);
        assert_eq!(scores.likeliest.len(), 3);
        assert_eq!(scores.likeliest[0], (piece.token, scores.picked), "greedy");
        assert!(scores.likeliest.is_sorted_by(|one, next| one.1 >= next.1));
        for (token, score) in &scores.likeliest {
            assert!((f64::from(*score) - exact(*token)).abs() < 1e-5);
        }
        session.feed(&[piece.token]).unwrap();
    }
    // And what `log_probabilities` says of the same text.
    let mut all = model.encode_prompt("Ownership is");
    let from = all.len() - 1;
    all.extend(tokens(&pieces));
    let found = model.session().unwrap().log_probabilities(&all).unwrap();
    for (found, piece) in found[from..].iter().zip(&pieces) {
        let picked = piece.log_probabilities.as_ref().unwrap().picked;
        assert!((found - f64::from(picked)).abs() < 1e-4);
    }
}

#[test]
fn a_mask_decides_what_may_come() {
    let model = model();
    // A grammar: digits and nothing else.
    let tokenizer = model.tokenizer().clone();
    let digits = (0..tokenizer.vocabulary_size()).filter(|token| {
        let (bytes, _) = tokenizer.piece(*token).unwrap();
        !bytes.is_empty() && bytes.iter().all(u8::is_ascii_digit)
    });
    let digits: Vec<u32> = digits.collect();
    let (lengths, seen) = mpsc::channel();
    let mask = move |text: &[u32], logits: &mut [f32]| {
        lengths.send(text.len()).unwrap();
        let barred = (0..logits.len()).filter(|token| !digits.contains(&(*token as u32)));
        barred
            .collect::<Vec<_>>()
            .into_iter()
            .for_each(|token| logits[token] = f32::NEG_INFINITY);
    };
    let options = GenerationOptions {
        mask: Some(Box::new(mask)),
        ..limit(5)
    };
    let mut session = model.session().unwrap();
    let (pieces, _) = write(&mut session, "There are", options);
    let written = text(&pieces);
    assert!(
        written.len() >= 5 && written.bytes().all(|byte| byte.is_ascii_digit()),
        "{written}"
    );
    let start = model.encode_prompt("There are").len();
    assert_eq!(
        seen.iter().collect::<Vec<_>>(),
        (start..start + 5).collect::<Vec<_>>()
    );

    let options = GenerationOptions {
        mask: Some(Box::new(|_: &[u32], logits: &mut [f32]| {
            logits.fill(f32::NEG_INFINITY)
        })),
        ..limit(5)
    };
    let mut generation = session.generate_with(&[5], greedy(), options);
    assert!(matches!(
        generation.next(),
        Some(Err(Error::Llama(LlamaError::Sampler(
            SamplerError::NothingAllowed
        ))))
    ));
    assert_eq!(generation.stop(), Some(Stop::Failed));
}

#[test]
fn another_thread_stops_a_text() {
    let model = model();
    let cancel = CancelToken::new();
    let options = GenerationOptions {
        cancel: cancel.clone(),
        when_full: WhenFull::Forget { keep: 1 },
        ..limit(usize::MAX)
    };
    let (begun, begins) = mpsc::channel();
    let stopper = thread::spawn(move || {
        begins.recv().unwrap();
        cancel.cancel();
        Instant::now()
    });
    let mut session = small(&model, 64);
    let prompt = model.encode_prompt("Ownership is");
    let mut generation = session.generate_with(&prompt, greedy(), options);
    for piece in generation.by_ref() {
        piece.unwrap();
        let _ = begun.send(());
    }
    assert_eq!(generation.stop(), Some(Stop::Cancelled));
    assert!(stopper.join().unwrap().elapsed() < Duration::from_secs(20));

    // One that was cancelled before computes nothing, and the session can be used again.
    let cancel = CancelToken::new();
    cancel.cancel();
    let options = GenerationOptions { cancel, ..limit(5) };
    let mut session = model.session().unwrap();
    let (pieces, stop) = write(&mut session, "Ownership is", options);
    assert_eq!(
        (pieces.len(), stop, session.position()),
        (0, Some(Stop::Cancelled), 0)
    );
    let (pieces, _) = write(&mut session, "Ownership is", limit(4));
    assert_eq!(text(&pieces), " a set of rules");
}

/// A prompt's passes are given up between each other, at a whole number of batches.
#[test]
fn a_long_prompt_is_given_up_between_two_passes() {
    let model = model();
    let options = SessionOptions {
        batch: Some(1),
        ..Default::default()
    };
    let mut session = Session::new(&model, options).unwrap();
    let cancel = CancelToken::new();
    let canceller = cancel.clone();
    let stopper = thread::spawn(move || {
        thread::sleep(Duration::from_millis(50));
        canceller.cancel();
    });
    let start = Instant::now();
    loop {
        session.rewind(0);
        let options = GenerationOptions {
            cancel: cancel.clone(),
            ..limit(1)
        };
        let mut generation = session.generate_with(&[5; 500], greedy(), options);
        let first = generation.next();
        if generation.stop() == Some(Stop::Cancelled) {
            assert!(first.is_none());
            break;
        }
        assert!(
            start.elapsed() < Duration::from_secs(60),
            "nobody cancelled it"
        );
    }
    stopper.join().unwrap();
    assert!(session.position() < 500);
    assert!(session.tokens().iter().all(|token| *token == 5));
}

#[test]
fn a_forgetful_text_goes_on_as_if_the_rest_had_never_been() {
    let model = model();
    let context = 32;
    let keep = 3;
    let options = GenerationOptions {
        when_full: WhenFull::Forget { keep },
        ..limit(100)
    };
    let mut session = small(&model, context);
    let prompt = model.encode_prompt("Ownership is");
    let (pieces, stop) = write(&mut session, "Ownership is", options);
    assert_eq!((pieces.len(), stop), (100, Some(Stop::Limit)));
    assert!(session.position() <= context);
    assert_eq!(session.tokens()[..keep], prompt[..keep]);
    // What is left is the text's end, and a fresh session goes on in the same way after it.
    let written = [prompt, tokens(&pieces)].concat();
    let left = session.tokens()[keep..].to_vec();
    assert!(written[..written.len() - 1].ends_with(&left));
    let seen = session.tokens().to_vec();
    let mut fresh = small(&model, context);
    fresh.feed(&seen).unwrap();
    let (fresh, old) = (
        fresh.logits().unwrap().to_vec(),
        session.logits().unwrap().to_vec(),
    );
    let largest = fresh
        .iter()
        .fold(0f32, |largest, logit| largest.max(logit.abs()));
    let error = fresh
        .iter()
        .zip(&old)
        .map(|(a, b)| (a - b).abs())
        .fold(0f32, f32::max);
    assert!(error <= 1e-5 * largest, "{error} of {largest}");

    // Without room for anything but what must be kept, it is an error.
    let options = GenerationOptions {
        when_full: WhenFull::Forget { keep: context },
        ..limit(100)
    };
    let mut session = small(&model, context);
    let prompt = model.encode_prompt("Ownership is");
    let last = session.generate_with(&prompt, greedy(), options).last();
    assert!(matches!(
        last,
        Some(Err(Error::Llama(LlamaError::ContextFull {
            context: 32,
            ..
        })))
    ));
}

#[test]
fn tokens_are_forgotten_anywhere() {
    let model = model();
    let all =
        model.encode_prompt("Ownership is a set of rules that govern how a program manages memory");
    let mut session = model.session().unwrap();
    session.feed(&all).unwrap();
    session.forget(2..6).unwrap();
    let left = [&all[..2], &all[6..]].concat();
    assert_eq!(session.tokens(), left);
    let mut fresh = model.session().unwrap();
    fresh.feed(&left).unwrap();
    let pairs = session.logits().unwrap().to_vec();
    let largest = pairs
        .iter()
        .fold(0f32, |largest, logit| largest.max(logit.abs()));
    for (found, expected) in pairs.iter().zip(fresh.logits().unwrap().iter()) {
        assert!((found - expected).abs() <= 1e-5 * largest);
    }
    let seen = left.len();
    for positions in [3..seen + 1, seen + 1..seen + 1] {
        assert!(matches!(
            session.forget(positions).unwrap_err(),
            Error::Llama(LlamaError::Forget { seen: found, .. }) if found == seen
        ));
    }
    session.forget(seen..seen).unwrap();
    assert_eq!(session.tokens(), left);
}

#[test]
fn what_two_calls_share_is_computed_once() {
    let model = model();
    let mut session = model.session().unwrap();
    let shared = "Ownership is a set of rules that govern";
    let mut counts = Vec::new();
    let mut texts = Vec::new();
    for end in ["", " how Rust", " memory", " memory"] {
        let prompt = model.encode_prompt(&format!("{shared}{end}"));
        let kept = session.keep_prefix(&prompt);
        counts.push((kept, prompt.len()));
        let mut generation = session.generate(&prompt[kept..], greedy(), 8);
        let pieces: Vec<Piece> = generation.by_ref().map(Result::unwrap).collect();
        assert_eq!(generation.stats().prompt_tokens, prompt.len() - kept);
        texts.push(text(&pieces));
        let (fresh, _) = write(
            &mut model.session().unwrap(),
            &format!("{shared}{end}"),
            limit(8),
        );
        assert_eq!(texts.last(), Some(&text(&fresh)));
    }
    let common = counts[0].1;
    assert_eq!(counts[0].0, 0);
    assert!(counts[1].0 >= common, "{counts:?}");
    assert!(counts[2].0 >= common, "{counts:?}");
    // The last token is always computed again: its scores are wanted.
    assert_eq!(counts[3].0, counts[3].1 - 1);
}

#[test]
fn the_perplexity_is_that_of_the_log_probabilities() {
    let model = model();
    let paragraph = "Ownership is a set of rules that govern how a Rust program manages memory. All programs have to \
        manage the way they use a computer's memory while running.";
    let text = model.encode_prompt(paragraph);
    let options = SessionOptions {
        outputs: Some(7),
        ..Default::default()
    };
    let mut session = Session::new(&model, options).unwrap();
    let mut reports = Vec::new();
    let whole = session
        .perplexity(&text, Default::default(), &mut |done| {
            reports.push(done.so_far.tokens())
        })
        .unwrap();
    assert_eq!(reports, [text.len() - 1]);
    assert_eq!(whole.tokens(), text.len() - 1);
    let exact = model.session().unwrap().log_probabilities(&text).unwrap();
    let mean = exact.iter().sum::<f64>() / exact.len() as f64;
    assert!(
        (whole.value() - (-mean).exp()).abs() < 1e-4,
        "{}",
        whole.value()
    );
    assert!(whole.standard_error() > 0.0 && whole.standard_error() < whole.value());

    // In windows: each token from the begin token and what stands before it in its window.
    let context = 16;
    for stride in [Some(1), Some(5), None, Some(15), Some(99)] {
        let options = PerplexityOptions {
            stride,
            ..Default::default()
        };
        let found = small(&model, context)
            .perplexity(&text, options, &mut |_| ())
            .unwrap();
        let step = match stride {
            None => context / 2,
            Some(asked) => asked.min(context - 1),
        };
        let mut total = 0.0;
        let mut predicted = 1;
        while predicted < text.len() {
            let end = if predicted == 1 {
                context
            } else {
                (predicted + step).min(text.len())
            };
            let start = end.saturating_sub(context - 1).max(1);
            let window = [&text[..1], &text[start..end]].concat();
            let all = model.session().unwrap().log_probabilities(&window).unwrap();
            total += all[all.len() - (end - predicted)..].iter().sum::<f64>();
            predicted = end;
        }
        let mean = total / (text.len() - 1) as f64;
        assert_eq!(found.tokens(), text.len() - 1, "stride {stride:?}");
        let error = (found.mean_log_probability() - mean).abs();
        assert!(error < 1e-4, "stride {stride:?}: {error}");
    }

    let none = PerplexityOptions {
        stride: Some(0),
        ..Default::default()
    };
    let error = small(&model, context).perplexity(&text, none, &mut |_| ());
    assert!(error.unwrap_err().to_string().contains("stride"));

    // In llama.cpp's chunks: each on its own, with the begin token in place of its first.
    let chunks = PerplexityOptions {
        windows: PerplexityWindows::Chunks,
        ..Default::default()
    };
    for context in [3, 8, 9, text.len()] {
        let found = small(&model, context)
            .perplexity(&text, chunks, &mut |_| ())
            .unwrap();
        let predicted = context - 1 - context / 2;
        let mut all = Vec::new();
        for chunk in text.chunks_exact(context) {
            let chunk = [&text[..1], &chunk[1..]].concat();
            let scores = model.session().unwrap().log_probabilities(&chunk).unwrap();
            all.extend_from_slice(&scores[scores.len() - predicted..]);
        }
        let mean = all.iter().sum::<f64>() / all.len() as f64;
        assert_eq!(found.tokens(), all.len(), "chunks of {context}");
        let error = (found.mean_log_probability() - mean).abs();
        assert!(error < 1e-4, "chunks of {context}: {error}");
    }
    for context in [2, text.len() + 1] {
        let found = small(&model, context).perplexity(&text, chunks, &mut |_| ());
        let expected = LlamaError::NoWholeChunk {
            tokens: text.len(),
            context,
        };
        assert_eq!(found.unwrap_err().to_string(), expected.to_string());
    }

    for short in [&[][..], &[1]] {
        assert!(matches!(
            session
                .perplexity(short, Default::default(), &mut |_| ())
                .unwrap_err(),
            Error::Llama(LlamaError::NothingToPredict(_))
        ));
    }
}

/// Prints what is written by chance, together and alone, for [`threads_change_nothing`].
#[test]
fn a_text_by_chance() {
    let model = Model::open(&Device::open("cpu").unwrap(), PATH).unwrap();
    let prompt = model.encode_prompt("The Drop trait");
    let mut session = model.session().unwrap();
    let pieces: Vec<Piece> = session
        .generate(&prompt, hot(7), 32)
        .map(Result::unwrap)
        .collect();
    session.rewind(0);
    session.feed(&prompt).unwrap();
    let bits = session.logits().unwrap().iter().fold(0u64, |hash, logit| {
        hash.rotate_left(5) ^ u64::from(logit.to_bits())
    });
    println!("TEXT {:?} {bits:x}", tokens(&pieces));
}

#[test]
fn threads_change_nothing() {
    let with_threads = |threads: &str| {
        let output = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "llama_generation::a_text_by_chance",
                "--nocapture",
            ])
            .env("IRONBRIDGE_THREADS", threads)
            .env("IRONBRIDGE_DEVICE", "cpu")
            .output()
            .unwrap();
        assert!(output.status.success());
        let printed = String::from_utf8(output.stdout).unwrap();
        let line = printed
            .lines()
            .find_map(|line| Some(line.split_once("TEXT ")?.1.to_owned()));
        line.unwrap_or_else(|| panic!("no text in {printed}"))
    };
    let one = with_threads("1");
    for threads in ["2", "3", "8"] {
        assert_eq!(with_threads(threads), one, "{threads} threads");
    }
}

#[test]
fn options_that_are_given_are_not_zero() {
    let model = model();
    let none = SessionOptions::default();
    for (options, name) in [
        (
            SessionOptions {
                context: Some(0),
                ..none
            },
            "context",
        ),
        (
            SessionOptions {
                batch: Some(0),
                ..none
            },
            "batch",
        ),
        (
            SessionOptions {
                outputs: Some(0),
                ..none
            },
            "outputs",
        ),
    ] {
        let error = Session::new(&model, options).unwrap_err();
        assert!(
            matches!(error, Error::Llama(LlamaError::ZeroOption(of)) if of == name),
            "{error}"
        );
    }
    let options = SamplerOptions {
        top_k: Some(0),
        ..Default::default()
    };
    assert!(matches!(Sampler::new(options), Err(SamplerError::TopK)));
}

/// The default has no limit: a text ends by itself, or with its context.
#[test]
fn the_default_generates() {
    let model = model();
    let mut session = small(&model, 12);
    let prompt = model.encode_prompt("Ownership is");
    let mut generation = session.generate_with(&prompt, greedy(), GenerationOptions::default());
    let pieces: Vec<_> = generation.by_ref().collect();
    let (last, others) = pieces.split_last().expect("it writes");
    assert!(
        others.len() > 5 && others.iter().all(Result::is_ok),
        "{}",
        others.len()
    );
    assert!(matches!(
        last,
        Err(Error::Llama(LlamaError::ContextFull { context: 12, .. }))
    ));
}
