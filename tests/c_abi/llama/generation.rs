//! Generation: callbacks, steps, cancellation, masks and samplers, writers.

use std::ffi::c_void;
use std::ptr::{null, null_mut};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use ironbridge::Device;
use ironbridge::ffi::*;
use ironbridge::llama::{Model, Sampler, SamplerOptions};
use serial_test::serial;

use super::fixture::*;
use crate::abi::*;

#[test]
#[serial]
fn a_text_is_that_of_rust() {
    let llama = Llama::new();
    let sampler = iron_sampler_options {
        size: size_of::<iron_sampler_options>(),
        temperature: 0.8,
        top_p: 0.9,
        top_k: 40,
        repetition_penalty: 1.1,
        seed: 7,
        ..Default::default()
    };
    let options = iron_generation_options {
        sampler: &sampler,
        ..generation_options(20)
    };
    let (text, info) = llama.generate("Ownership is", &options);
    assert_eq!((info.stop, info.generated_tokens), (IRON_STOP_LIMIT, 20));
    assert_eq!(
        info.prompt_tokens as usize,
        llama.prompt("Ownership is").len()
    );
    assert!(info.prompt_time > 0 && info.generation_time > 0);

    let device = Device::open("cpu").expect("a device");
    let model = Model::open(&device, MODEL).expect("the demo model");
    let mut session = model.session().expect("a session");
    let sampler = Sampler::new(SamplerOptions {
        temperature: 0.8,
        top_p: 0.9,
        top_k: Some(40),
        repetition_penalty: 1.1,
        seed: 7,
        ..Default::default()
    });
    let prompt = model.encode_prompt("Ownership is");
    let pieces = session.generate(&prompt, sampler.expect("a sampler"), 20);
    let expected: String = pieces.map(|piece| piece.expect("a piece").text).collect();
    assert_eq!(text, expected);
    drop((session, model, device));
    llama.finish();
}

#[test]
#[serial]
fn zeros_are_a_valid_start() {
    let llama = Llama::new();
    let prompt = llama.prompt("Ownership is");
    // Until the context is full: 128 positions, and the last token is not in it.
    ok(call!(iron_generate(
        llama.session,
        0,
        prompt.as_ptr(),
        prompt.len(),
        null(),
        None,
        null_mut(),
        null_mut()
    )));
    let seen = llama.tokens(0).len();
    assert!(seen <= 128, "{seen}");
    // No room is an error, and so it is without a limit.
    ok(call!(iron_session_rewind(llama.session, 0, 0)));
    llama.feed(0, &vec![prompt[1]; 128]);
    fails(
        call!(iron_generate(
            llama.session,
            0,
            prompt.as_ptr(),
            prompt.len(),
            null(),
            None,
            null_mut(),
            null_mut()
        )),
        IRON_ERROR_CONTEXT_FULL,
        "do not fit in the context of 128",
    );
    llama.finish();
}

#[test]
#[serial]
fn stop_strings_and_probabilities() {
    let llama = Llama::new();
    let strings = [c" that".as_ptr(), c"never".as_ptr()];
    let options = iron_generation_options {
        stop_strings: strings.as_ptr(),
        stop_string_count: strings.len(),
        ..generation_options(40)
    };
    let (text, info) = llama.generate("Ownership is", &options);
    assert_eq!(
        (text.as_str(), info.stop),
        (" a set of rules", IRON_STOP_STRING)
    );

    // Step by step, with the likeliest tokens.
    ok(call!(iron_session_rewind(llama.session, 0, 0)));
    let options = iron_generation_options {
        log_probabilities: 1,
        likeliest: 3,
        ..generation_options(5)
    };
    let prompt = llama.prompt("Ownership is");
    let mut generation = null_mut();
    ok(call!(iron_generation_create(
        llama.session,
        0,
        prompt.as_ptr(),
        prompt.len(),
        &options,
        &mut generation
    )));
    let mut piece = iron_piece {
        size: size_of::<iron_piece>(),
        ..Default::default()
    };
    let mut text = String::new();
    for step in 1.. {
        ok(call!(iron_generation_next(generation, &mut piece)));
        assert_eq!(piece.likeliest_count, 3);
        // SAFETY: there are that many until the next call.
        let likeliest = unsafe { std::slice::from_raw_parts(piece.likeliest, 3) };
        assert_eq!(likeliest[0].token, piece.token, "greedy");
        assert_eq!(likeliest[0].log_probability, piece.log_probability);
        assert!(likeliest[1].log_probability <= piece.log_probability);
        text.push_str(text_of(&piece));
        if piece.stop != IRON_STOP_NONE {
            assert_eq!(step, 5);
            break;
        }
    }
    assert_eq!(
        (text.as_str(), piece.stop),
        (" a set of rules that", IRON_STOP_LIMIT)
    );
    // After the end there is no token.
    for _ in 0..2 {
        ok(call!(iron_generation_next(generation, &mut piece)));
        assert_eq!((piece.token, piece.stop), (IRON_NO_TOKEN, IRON_STOP_LIMIT));
        assert_eq!(text_of(&piece), "");
    }
    let mut info = iron_generation_info {
        size: size_of::<iron_generation_info>(),
        ..Default::default()
    };
    ok(call!(iron_generation_describe(generation, &mut info)));
    assert_eq!((info.stop, info.generated_tokens), (IRON_STOP_LIMIT, 5));
    ok(call!(iron_generation_release(generation)));
    llama.finish();
}

/// Ends the text after this many pieces, and uses the session that is in use.
struct Ending {
    left: u32,
    session: *mut iron_session,
    pieces: u32,
}

unsafe extern "C" fn end(_: *const iron_piece, context: *mut c_void) -> u32 {
    // SAFETY: the context is an Ending.
    let ending = unsafe { &mut *context.cast::<Ending>() };
    fails(
        call!(iron_session_rewind(ending.session, 0, 0)),
        IRON_ERROR_BUSY,
        "session: another call uses it",
    );
    ending.pieces += 1;
    u32::from(ending.pieces == ending.left)
}

/// Tells of each piece.
unsafe extern "C" fn tell(_: *const iron_piece, context: *mut c_void) -> u32 {
    // SAFETY: the context is a sender, which lives through the call.
    let pieces = unsafe { &*context.cast::<mpsc::Sender<()>>() };
    // Who listens has heard enough after the first one.
    let _ = pieces.send(());
    0
}

#[test]
#[serial]
fn a_callback_or_another_thread_ends_a_text() {
    let llama = Llama::new();
    let prompt = llama.prompt("fn main() {");
    let mut ending = Ending {
        left: 3,
        session: llama.session,
        pieces: 0,
    };
    let mut info = iron_generation_info {
        size: size_of::<iron_generation_info>(),
        ..Default::default()
    };
    let endless = iron_generation_options {
        limit: u64::MAX,
        when_full: IRON_WHEN_FULL_FORGET,
        keep: 1,
        mask: Some(no_end),
        ..generation_options(0)
    };
    ok(call!(iron_generate(
        llama.session,
        0,
        prompt.as_ptr(),
        prompt.len(),
        &endless,
        Some(end),
        (&raw mut ending).cast(),
        &mut info
    )));
    assert_eq!((ending.pieces, info.stop), (3, IRON_STOP_CANCELED));

    // By another thread, of a text that would go on without an end.
    let mut cancel = null_mut();
    ok(call!(iron_cancel_create(&mut cancel)));
    let options = iron_generation_options { cancel, ..endless };
    let address = cancel as usize;
    let (pieces, heard) = mpsc::channel::<()>();
    let canceling = thread::spawn(move || {
        heard.recv().expect("a piece comes");
        let cancel = address as *mut iron_cancel;
        ok(call!(iron_cancel_set(cancel)));
        Instant::now()
    });
    ok(call!(iron_generate(
        llama.session,
        0,
        prompt.as_ptr(),
        prompt.len(),
        &options,
        Some(tell),
        (&raw const pieces).cast_mut().cast(),
        &mut info
    )));
    let canceled = canceling.join().expect("it cancels");
    assert!(canceled.elapsed() < Duration::from_secs(20));
    assert_eq!(info.stop, IRON_STOP_CANCELED);
    assert!(info.generated_tokens > 0);
    let mut set = 0;
    ok(call!(iron_cancel_is_set(cancel, &mut set)));
    assert_eq!(set, 1);
    // It stays set.
    let (text, info) = llama.generate("fn main() {", &options);
    assert_eq!((text.as_str(), info.stop), ("", IRON_STOP_CANCELED));
    ok(call!(iron_cancel_release(cancel)));
    llama.finish();
}

/// Bars the demo model's token that ends a text.
unsafe extern "C" fn no_end(
    _: *const u32,
    _: usize,
    logits: *mut f32,
    count: usize,
    _: *mut c_void,
) {
    // SAFETY: there are that many logits.
    let logits = unsafe { std::slice::from_raw_parts_mut(logits, count) };
    logits[2] = f32::NEG_INFINITY;
}

unsafe extern "C" fn bar_all(
    _: *const u32,
    _: usize,
    logits: *mut f32,
    count: usize,
    _: *mut c_void,
) {
    // SAFETY: there are that many logits.
    unsafe { std::slice::from_raw_parts_mut(logits, count) }.fill(f32::NEG_INFINITY);
}

/// Picks the tokens of a list, in order, and then what is none.
unsafe extern "C" fn pick(
    tokens: *const u32,
    token_count: usize,
    logits: *const f32,
    logit_count: usize,
    context: *mut c_void,
) -> u32 {
    // SAFETY: the arrays have these lengths, and the context is a list.
    let (tokens, logits, list) = unsafe {
        (
            std::slice::from_raw_parts(tokens, token_count),
            std::slice::from_raw_parts(logits, logit_count),
            &mut *context.cast::<Vec<u32>>(),
        )
    };
    assert!(!tokens.is_empty() && logits.iter().all(|logit| logit.is_finite()));
    match list.is_empty() {
        true => u32::MAX,
        false => list.remove(0),
    }
}

#[test]
#[serial]
fn masks_and_samplers_of_the_callers() {
    let llama = Llama::new();
    let prompt = llama.prompt("Ownership is");
    let mut list = llama.prompt("borrowing")[1..].to_vec();
    let options = iron_generation_options {
        sample: Some(pick),
        sample_context: (&raw mut list).cast(),
        ..generation_options(list.len() as u64)
    };
    assert_eq!(llama.generate("Ownership is", &options).0, " borrowing");

    let generate = |options: &iron_generation_options| {
        call!(iron_generate(
            llama.session,
            0,
            prompt.as_ptr(),
            prompt.len(),
            options,
            None,
            null_mut(),
            null_mut()
        ))
    };
    fails(
        generate(&iron_generation_options {
            limit: 9,
            ..options
        }),
        IRON_ERROR_OUT_OF_RANGE,
        "options.sample: it picked 4294967295",
    );
    let barred = iron_generation_options {
        mask: Some(bar_all),
        ..generation_options(3)
    };
    fails(generate(&barred), IRON_ERROR_MODEL, "bars every token");
    for (options, subject) in [
        (
            iron_generation_options {
                when_full: 2,
                ..generation_options(1)
            },
            "options.when_full: is 2",
        ),
        (
            iron_generation_options {
                log_probabilities: 2,
                ..generation_options(1)
            },
            "options.log_probabilities: is 2",
        ),
        (
            iron_generation_options {
                likeliest: 2,
                ..generation_options(1)
            },
            "options.likeliest",
        ),
        (
            iron_generation_options {
                stop_string_count: 2,
                ..generation_options(1)
            },
            "options.stop_strings: is NULL",
        ),
    ] {
        fails(generate(&options), IRON_ERROR_INVALID_ARGUMENT, subject);
    }

    // A sampler by itself.
    let mut sampler = null_mut();
    let wrong = iron_sampler_options {
        size: size_of::<iron_sampler_options>(),
        temperature: -1.0,
        ..Default::default()
    };
    fails(
        call!(iron_sampler_create(&wrong, &mut sampler)),
        IRON_ERROR_INVALID_ARGUMENT,
        "temperature is -1",
    );
    ok(call!(iron_sampler_create(null(), &mut sampler)));
    let logits = [0.5f32, 2.0, 9.0, -1.0];
    let sample = |mask, token: &mut u32, logits: &[f32]| {
        call!(iron_sampler_sample(
            sampler,
            null(),
            0,
            logits.as_ptr(),
            logits.len(),
            mask,
            null_mut(),
            token
        ))
    };
    let mut token = 0;
    ok(sample(None, &mut token, &logits));
    assert_eq!(token, 2);
    ok(sample(Some(no_end), &mut token, &logits));
    assert_eq!(token, 1);
    fails(
        sample(None, &mut token, &[f32::NAN]),
        IRON_ERROR_MODEL,
        "logit of token 0 is NaN",
    );
    fails(
        sample(None, &mut token, &[]),
        IRON_ERROR_INVALID_ARGUMENT,
        "no logits",
    );
    ok(call!(iron_sampler_release(sampler)));
    llama.finish();
}

#[test]
#[serial]
fn writers_write_what_a_generation_does() {
    let llama = Llama::with(2);
    let (expected, _) = llama.generate("Ownership is", &generation_options(6));
    ok(call!(iron_session_rewind(llama.session, 0, 0)));

    let prompt = llama.prompt("Ownership is");
    let mut writer = null_mut();
    let options = generation_options(6);
    ok(call!(iron_writer_create(
        llama.model,
        prompt.as_ptr(),
        prompt.len(),
        &options,
        &mut writer
    )));
    let mut piece = iron_piece {
        size: size_of::<iron_piece>(),
        ..Default::default()
    };
    fails(
        call!(iron_session_write(llama.session, 1, writer, &mut piece)),
        IRON_ERROR_STATE,
        "no token to start from",
    );
    llama.feed(1, &prompt);
    let mut text = String::new();
    let mut tokens = prompt.clone();
    loop {
        // By the session's logits and by a copy of them, alternately.
        if tokens.len().is_multiple_of(2) {
            ok(call!(iron_session_write(
                llama.session,
                1,
                writer,
                &mut piece
            )));
        } else {
            let logits = llama.logits(1);
            ok(call!(iron_writer_write(
                writer,
                logits.as_ptr(),
                logits.len(),
                &mut piece
            )));
        }
        text.push_str(text_of(&piece));
        tokens.push(piece.token);
        if piece.stop != IRON_STOP_NONE {
            break;
        }
        llama.feed(1, &[piece.token]);
    }
    assert_eq!((text, piece.stop), (expected, IRON_STOP_LIMIT));
    let (mut written, mut count) = ([0; 64], 0);
    ok(call!(iron_writer_tokens(
        writer,
        written.as_mut_ptr(),
        written.len(),
        &mut count
    )));
    assert_eq!(written[..count], tokens);
    let mut info = iron_generation_info {
        size: size_of::<iron_generation_info>(),
        ..Default::default()
    };
    ok(call!(iron_writer_describe(writer, &mut info)));
    assert_eq!((info.stop, info.generated_tokens), (IRON_STOP_LIMIT, 6));
    fails(
        call!(iron_writer_write(writer, null(), 0, &mut piece)),
        IRON_ERROR_STATE,
        "it has ended",
    );
    ok(call!(iron_writer_release(writer)));
    llama.finish();
}

/// Handles may go in any order, and on any thread.
#[test]
#[serial]
fn a_generation_keeps_what_it_needs() {
    let llama = Llama::new();
    let prompt = llama.prompt("Ownership is");
    let mut generation = null_mut();
    let options = generation_options(3);
    ok(call!(iron_generation_create(
        llama.session,
        0,
        prompt.as_ptr(),
        prompt.len(),
        &options,
        &mut generation
    )));
    ok(call!(iron_session_release(llama.session)));
    ok(call!(iron_model_release(llama.model)));
    release_device(llama.device);
    let address = generation as usize;
    let other = thread::spawn(move || {
        let generation = address as *mut iron_generation;
        let mut piece = iron_piece {
            size: size_of::<iron_piece>(),
            ..Default::default()
        };
        ok(call!(iron_generation_next(generation, &mut piece)));
        assert_eq!(text_of(&piece), " a");
        ok(call!(iron_generation_release(generation)));
    });
    other.join().expect("it goes on");
    llama.baseline.holds();
}
