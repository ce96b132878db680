//! Sessions: feeding, rewinding, copying, saving, and what a model makes of a text.

use std::ffi::{CString, c_void};
use std::ptr::{null, null_mut};

use ironbridge::Device;
use ironbridge::ffi::*;
use ironbridge::llama::{
    Model, PerplexityOptions, PerplexityWindows, Pooling, Sequences, SessionOptions,
};
use serial_test::serial;

use super::fixture::*;
use crate::abi::*;

/// The same in Rust.
fn sequences(count: usize) -> Sequences {
    let device = Device::open("cpu").expect("a device");
    let model = Model::open(&device, MODEL).expect("the demo model");
    let options = SessionOptions {
        context: Some(128),
        ..Default::default()
    };
    Sequences::new(&model, count, options).expect("sequences")
}

#[test]
#[serial]
fn logits_are_those_of_rust() {
    let llama = Llama::with(2);
    let mut rust = sequences(2);
    let (first, second) = (llama.prompt("Ownership is"), llama.prompt("Unsafe code"));
    let work = [(0, &first), (1, &second)].map(|(sequence, tokens)| iron_feed {
        tokens: tokens.as_ptr(),
        count: tokens.len(),
        sequence,
        ..Default::default()
    });
    ok(call!(iron_session_feed_batch(
        llama.session,
        work.as_ptr(),
        work.len()
    )));
    rust.feed(&[(0, &first), (1, &second)]).expect("fed");
    for sequence in 0..2 {
        let expected = rust.logits(sequence as usize).expect("logits").to_vec();
        assert_eq!(llama.logits(sequence), expected);
    }
    assert_eq!(llama.tokens(1), second);
    let mut info = iron_session_info {
        size: size_of::<iron_session_info>(),
        ..Default::default()
    };
    ok(call!(iron_session_describe(llama.session, &mut info)));
    assert_eq!((info.sequences, info.context), (2, 128));
    drop(rust);
    llama.finish();
}

#[test]
#[serial]
fn a_sequence_goes_back_and_forgets() {
    let llama = Llama::new();
    let prompt = llama.prompt("Ownership is a set of rules that govern");
    llama.feed(0, &prompt);
    let whole = llama.logits(0);
    ok(call!(iron_session_rewind(llama.session, 0, 3)));
    assert_eq!(llama.tokens(0), prompt[..3]);
    fails(
        call!(iron_session_logits(llama.session, 0, null_mut(), 0, &mut 0)),
        IRON_ERROR_STATE,
        "no token to start from",
    );
    let mut kept = 0;
    ok(call!(iron_session_keep_prefix(
        llama.session,
        0,
        prompt.as_ptr(),
        prompt.len(),
        &mut kept
    )));
    assert_eq!(kept, 3);
    llama.feed(0, &prompt[3..]);
    let again = llama.logits(0);
    let largest = |logits: &[f32]| {
        let order = (0..logits.len()).max_by(|a, b| logits[*a].total_cmp(&logits[*b]));
        order.expect("there are some")
    };
    assert_eq!(largest(&again), largest(&whole));

    ok(call!(iron_session_forget(llama.session, 0, 1, 3)));
    assert_eq!(llama.tokens(0), [&prompt[..1], &prompt[3..]].concat());
    fails(
        call!(iron_session_forget(llama.session, 0, 5, 99)),
        IRON_ERROR_OUT_OF_RANGE,
        "cannot be forgotten",
    );
    llama.finish();
}

/// The logits after `token` in a sequence.
fn after(llama: &Llama, sequence: u32, token: u32) -> Vec<f32> {
    llama.feed(sequence, &[token]);
    llama.logits(sequence)
}

#[test]
#[serial]
fn a_sequence_is_copied_saved_and_restored() {
    for cache in [IRON_CACHE_F32, IRON_CACHE_F16, IRON_CACHE_Q8_0] {
        let mut llama = Llama::new();
        ok(call!(iron_session_release(llama.session)));
        let options = iron_session_options {
            size: size_of::<iron_session_options>(),
            sequences: 3,
            cache,
            context: 31,
            ..Default::default()
        };
        ok(call!(iron_session_create(
            llama.model,
            &options,
            &mut llama.session
        )));
        let prompt = llama.prompt("Ownership is a set of");
        let (next, known) = prompt.split_last().expect("tokens");
        llama.feed(0, known);

        let mut length = 0;
        ok(call!(iron_session_save(
            llama.session,
            0,
            null_mut(),
            0,
            &mut length
        )));
        let mut bytes = vec![0u8; length];
        ok(call!(iron_session_save(
            llama.session,
            0,
            bytes.as_mut_ptr().cast(),
            bytes.len(),
            &mut length
        )));
        assert_eq!(length, bytes.len());
        ok(call!(iron_session_copy(llama.session, 0, 1)));
        ok(call!(iron_session_restore(
            llama.session,
            2,
            bytes.as_ptr().cast(),
            bytes.len()
        )));
        let expected = after(&llama, 0, *next);
        for sequence in [1, 2] {
            assert_eq!(llama.tokens(sequence), known);
            assert_eq!(after(&llama, sequence, *next), expected, "{sequence}");
        }

        // By a file.
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("saved");
        let path = CString::new(path.to_str().expect("UTF-8")).expect("no NUL");
        ok(call!(iron_session_rewind(
            llama.session,
            0,
            known.len() as u64
        )));
        ok(call!(iron_session_save_file(
            llama.session,
            0,
            path.as_ptr()
        )));
        assert_eq!(std::fs::read_dir(folder.path()).expect("read").count(), 1);
        ok(call!(iron_session_rewind(llama.session, 2, 0)));
        ok(call!(iron_session_restore_file(
            llama.session,
            2,
            path.as_ptr()
        )));
        assert_eq!(after(&llama, 2, *next), expected);
        fails(
            call!(iron_session_restore_file(
                llama.session,
                2,
                c"/no/such/file".as_ptr()
            )),
            IRON_ERROR_FILE,
            "/no/such/file",
        );

        // Bytes that are something else change nothing.
        let before = llama.tokens(2);
        let refused = |bytes: &[u8], status, subject: &str| {
            fails(
                call!(iron_session_restore(
                    llama.session,
                    2,
                    bytes.as_ptr().cast(),
                    bytes.len()
                )),
                status,
                subject,
            );
            assert_eq!(llama.tokens(2), before);
        };
        refused(&bytes[..40], IRON_ERROR_MODEL, "too short");
        refused(&bytes[..length - 1], IRON_ERROR_MODEL, "its length");
        let changed = |place: usize, value: u8| {
            let mut changed = bytes.clone();
            changed[place] = value;
            changed
        };
        refused(&changed(0, 0), IRON_ERROR_MODEL, "it is none");
        refused(&changed(8, 0xFF), IRON_ERROR_MODEL, "another model");
        refused(
            &changed(40, 0xEE),
            IRON_ERROR_MODEL,
            "another model or cache",
        );
        refused(&changed(48, 0xFF), IRON_ERROR_CONTEXT_FULL, "255 tokens");
        refused(&changed(59, 0x7F), IRON_ERROR_MODEL, "it has the token");
        llama.finish();
    }
}

unsafe extern "C" fn count_up(done: u64, total: u64, context: *mut c_void) -> u32 {
    assert!(done <= total);
    // SAFETY: the context is a counter of what is left until the end is asked for.
    let left = unsafe { &mut *context.cast::<u32>() };
    *left -= 1;
    u32::from(*left == 0)
}

#[test]
#[serial]
fn a_text_is_judged_as_in_rust() {
    let llama = Llama::new();
    let mut rust = sequences(1);
    let tokens =
        llama.prompt("Ownership is a set of rules that govern how a Rust program manages memory.");

    let expected = rust.log_probabilities(0, &tokens).expect("judged");
    let mut logarithms = vec![0f64; tokens.len()];
    let mut given = 0;
    ok(call!(iron_session_log_probabilities(
        llama.session,
        0,
        tokens.as_ptr(),
        tokens.len(),
        logarithms.as_mut_ptr(),
        logarithms.len(),
        &mut given
    )));
    assert_eq!(logarithms[..given], expected);

    for (number, pooling) in [
        (IRON_POOLING_MEAN, Pooling::Mean),
        (IRON_POOLING_LAST, Pooling::Last),
    ] {
        ok(call!(iron_session_rewind(llama.session, 0, 0)));
        rust.rewind(0, 0);
        let expected = rust.embed(0, &tokens, pooling).expect("a vector");
        let (mut vector, mut width) = (vec![0f32; expected.len()], 0);
        ok(call!(iron_session_embed(
            llama.session,
            0,
            tokens.as_ptr(),
            tokens.len(),
            number,
            vector.as_mut_ptr(),
            vector.len(),
            &mut width
        )));
        assert_eq!((vector, width), (expected.clone(), expected.len()));
    }
    let (mut short, mut width, seen) = ([0f32; 3], 0, llama.tokens(0));
    fails(
        call!(iron_session_embed(
            llama.session,
            0,
            tokens.as_ptr(),
            tokens.len(),
            IRON_POOLING_MEAN,
            short.as_mut_ptr(),
            short.len(),
            &mut width
        )),
        IRON_ERROR_OUT_OF_RANGE,
        "vector: there is room for 3",
    );
    assert_eq!(llama.tokens(0), seen, "nothing was computed");

    // Longer than the context, so that there are several windows.
    let long = tokens.repeat(10);
    let expected = rust.perplexity(0, &long, Default::default(), &mut |_| {
        std::ops::ControlFlow::Continue(())
    });
    let expected = expected.expect("measured");
    let mut found = iron_perplexity {
        size: size_of::<iron_perplexity>(),
        ..Default::default()
    };
    let measure = |options: *const iron_perplexity_options, found: &mut iron_perplexity| {
        call!(iron_session_perplexity(
            llama.session,
            0,
            long.as_ptr(),
            long.len(),
            options,
            found
        ))
    };
    ok(measure(null(), &mut found));
    assert_eq!(found.value, expected.value());
    assert_eq!(found.standard_error, expected.standard_error());
    assert_eq!(found.tokens as usize, long.len() - 1);
    let mut left = 2u32;
    let options = iron_perplexity_options {
        size: size_of::<iron_perplexity_options>(),
        stride: 0,
        progress: Some(count_up),
        progress_context: (&raw mut left).cast(),
        ..Default::default()
    };
    fails(
        measure(&options, &mut found),
        IRON_ERROR_CANCELED,
        "cancelled",
    );
    assert_eq!((left, found.value), (0, 0.0));

    let chunks = PerplexityOptions {
        windows: PerplexityWindows::Chunks,
        ..Default::default()
    };
    let expected = rust.perplexity(0, &long, chunks, &mut |_| {
        std::ops::ControlFlow::Continue(())
    });
    let expected = expected.expect("measured");
    let mut options = iron_perplexity_options {
        size: size_of::<iron_perplexity_options>(),
        windows: IRON_WINDOWS_CHUNKS,
        ..Default::default()
    };
    ok(measure(&options, &mut found));
    assert_eq!(
        (found.value, found.tokens as usize),
        (expected.value(), expected.tokens())
    );
    options.windows = 2;
    fails(
        measure(&options, &mut found),
        IRON_ERROR_INVALID_ARGUMENT,
        "options.windows: is 2",
    );
    drop(rust);
    llama.finish();
}

#[test]
#[serial]
fn what_does_not_fit_is_refused_before_it_is_computed() {
    let llama = Llama::new();
    let prompt = llama.prompt("Ownership");
    let feed = |sequence, tokens: &[u32]| {
        call!(iron_session_feed(
            llama.session,
            sequence,
            tokens.as_ptr(),
            tokens.len()
        ))
    };
    fails(feed(1, &prompt), IRON_ERROR_OUT_OF_RANGE, "sequence: 1");
    fails(
        feed(0, &[]),
        IRON_ERROR_INVALID_ARGUMENT,
        "tokens: there are none",
    );
    fails(
        feed(0, &[u32::MAX]),
        IRON_ERROR_OUT_OF_RANGE,
        "outside the vocabulary",
    );
    fails(feed(0, &[1; 129]), IRON_ERROR_CONTEXT_FULL, "129 tokens");
    assert!(llama.tokens(0).is_empty());

    let mut session = null_mut();
    for (options, status, subject) in [
        (
            iron_session_options {
                context: 1 << 40,
                ..Default::default()
            },
            IRON_ERROR_OUT_OF_RANGE,
            "context of 1099511627776",
        ),
        (
            iron_session_options {
                cache: 3,
                ..Default::default()
            },
            IRON_ERROR_INVALID_ARGUMENT,
            "options.cache",
        ),
        (
            iron_session_options {
                activations: 4,
                ..Default::default()
            },
            IRON_ERROR_INVALID_ARGUMENT,
            "options.activations",
        ),
    ] {
        let options = iron_session_options {
            size: size_of::<iron_session_options>(),
            ..options
        };
        fails(
            call!(iron_session_create(llama.model, &options, &mut session)),
            status,
            subject,
        );
        assert!(session.is_null());
    }
    // Memory is refused when the session is made.
    let mut limited = null_mut();
    let device = open("cpu");
    let path = CString::new(MODEL).expect("no NUL");
    let mut model = null_mut();
    ok(call!(iron_model_open(
        device,
        path.as_ptr(),
        null(),
        &mut model
    )));
    let before = memory(device).active_bytes;
    let limits = iron_memory_settings {
        size: size_of::<iron_memory_settings>(),
        memory_limit: before + (1 << 20),
        ..Default::default()
    };
    ok(call!(iron_memory_configure(device, &limits)));
    fails(
        call!(iron_session_create(model, null(), &mut limited)),
        IRON_ERROR_OUT_OF_MEMORY,
        "iron_session_create: ",
    );
    assert_eq!(memory(device).active_bytes, before);
    ok(call!(iron_model_release(model)));
    release_device(device);
    llama.finish();
}
