//! Wrong handles, places and structs, for every function of the header.

use std::collections::BTreeSet;
use std::ffi::c_void;
use std::ptr::{null, null_mut};
use std::sync::Mutex;

use ironbridge::ffi::*;
use serial_test::serial;

use super::fixture::*;
use crate::abi::*;

pub const HEADER: &str = include_str!("../../../include/ironbridge_llama.h");

/// A function's declaration: its name and its parameters.
pub fn declarations() -> Vec<(String, Vec<String>)> {
    let declarations = HEADER.split("\nIRON_API iron_status ").skip(1);
    declarations
        .map(|text| {
            let text = text.split(';').next().expect("a declaration ends");
            let (name, parameters) = text.split_once('(').expect("it has parameters");
            let parameters = parameters.trim_end_matches(')').split(',');
            let clean = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
            (name.to_owned(), parameters.map(clean).collect())
        })
        .collect()
}

type Handle = *mut c_void;

/// A function, the name of its handle, and a call of it where everything else is NULL and 0.
type HandleCall = (&'static str, &'static str, fn(Handle) -> iron_status);

macro_rules! handle_calls {
    ($($function:ident, $argument:literal, |$handle:ident| ($($value:expr),* $(,)?);)*) => {
        &[$((stringify!($function), $argument, |$handle| call!($function($($value),*)))),*]
    };
}

/// A place that is no result: the handle is looked at first or last.
fn place<T>() -> *mut T {
    // Larger than any result, and kept where a search for leaks finds it.
    static PLACES: Mutex<Vec<Vec<u64>>> = Mutex::new(Vec::new());
    let mut place = vec![0; 64];
    let start = place.as_mut_ptr();
    PLACES.lock().expect("no panic").push(place);
    start.cast()
}

/// A struct of zeros that says its size.
fn sized<T>() -> *mut T {
    let place: *mut usize = place();
    // SAFETY: it was made above, larger than any struct of the header.
    unsafe { place.write(size_of::<T>()) };
    place.cast()
}

unsafe extern "C" fn ignore_key(_: *const std::ffi::c_char, _: usize, _: *mut c_void) {}
unsafe extern "C" fn ignore_tensor(_: *const iron_model_tensor, _: *mut c_void) {}

const TOKEN: [u32; 1] = [1];

#[rustfmt::skip]
const CALLS: &[HandleCall] = handle_calls! {
    iron_cancel_set, "cancel", |it| (it.cast());
    iron_cancel_is_set, "cancel", |it| (it.cast(), place());
    iron_cancel_retain, "cancel", |it| (it.cast());
    iron_cancel_release, "cancel", |it| (it.cast());
    iron_model_file_describe, "file", |it| (it.cast(), sized());
    iron_model_file_metadata, "file", |it| (it.cast(), c"x".as_ptr(), null_mut(), 0, place());
    iron_model_file_keys, "file", |it| (it.cast(), Some(ignore_key), null_mut());
    iron_model_file_tensors, "file", |it| (it.cast(), Some(ignore_tensor), null_mut());
    iron_model_file_retain, "file", |it| (it.cast());
    iron_model_file_release, "file", |it| (it.cast());
    iron_model_open, "device", |it| (it.cast(), c"x".as_ptr(), null(), place());
    iron_model_load, "device", |it| (it.cast(), null_mut(), null(), place());
    iron_model_describe, "model", |it| (it.cast(), sized());
    iron_model_describe_layer, "model", |it| (it.cast(), 0, sized());
    iron_model_chat_template, "model", |it| (it.cast(), null_mut(), 0, place());
    iron_model_tokenizer, "model", |it| (it.cast(), place());
    iron_model_device, "model", |it| (it.cast(), place());
    iron_model_encode_prompt, "model", |it| (it.cast(), null(), 0, null_mut(), 0, place());
    iron_model_settle, "model", |it| (it.cast());
    iron_model_retain, "model", |it| (it.cast());
    iron_model_release, "model", |it| (it.cast());
    iron_tokenizer_create, "file", |it| (it.cast(), place());
    iron_tokenizer_describe, "tokenizer", |it| (it.cast(), sized());
    iron_tokenizer_encode, "tokenizer", |it| (it.cast(), null(), 0, 0, null_mut(), 0, place());
    iron_tokenizer_decode, "tokenizer", |it| (it.cast(), null(), 0, null_mut(), 0, place());
    iron_tokenizer_piece, "tokenizer", |it| (it.cast(), 0, null_mut(), 0, place(), null_mut());
    iron_tokenizer_find, "tokenizer", |it| (it.cast(), c"x".as_ptr(), place());
    iron_tokenizer_is_end, "tokenizer", |it| (it.cast(), 0, place());
    iron_tokenizer_retain, "tokenizer", |it| (it.cast());
    iron_tokenizer_release, "tokenizer", |it| (it.cast());
    iron_decoder_create, "tokenizer", |it| (it.cast(), 0, place());
    iron_decoder_push, "decoder", |it| (it.cast(), 0, place(), place());
    iron_decoder_finish, "decoder", |it| (it.cast(), place(), place());
    iron_decoder_retain, "decoder", |it| (it.cast());
    iron_decoder_release, "decoder", |it| (it.cast());
    iron_chat_create, "model", |it| (it.cast(), null(), place());
    iron_chat_encode, "chat", |it| (it.cast(), c"[]".as_ptr(), null_mut(), 0, place());
    iron_chat_render, "chat", |it| (it.cast(), c"[]".as_ptr(), 0, null_mut(), 0, place());
    iron_chat_retain, "chat", |it| (it.cast());
    iron_chat_release, "chat", |it| (it.cast());
    iron_session_create, "model", |it| (it.cast(), null(), place());
    iron_session_describe, "session", |it| (it.cast(), sized());
    iron_session_model, "session", |it| (it.cast(), place());
    iron_session_tokens, "session", |it| (it.cast(), 0, null_mut(), 0, place());
    iron_session_feed, "session", |it| (it.cast(), 0, TOKEN.as_ptr(), 1);
    iron_session_feed_batch, "session", |it| (it.cast(), null(), 0);
    iron_session_logits, "session", |it| (it.cast(), 0, null_mut(), 0, place());
    iron_session_rewind, "session", |it| (it.cast(), 0, 0);
    iron_session_keep_prefix, "session", |it| (it.cast(), 0, null(), 0, place());
    iron_session_forget, "session", |it| (it.cast(), 0, 0, 0);
    iron_session_copy, "session", |it| (it.cast(), 0, 0);
    iron_session_save, "session", |it| (it.cast(), 0, null_mut(), 0, place());
    iron_session_restore, "session", |it| (it.cast(), 0, null(), 0);
    iron_session_save_file, "session", |it| (it.cast(), 0, c"x".as_ptr());
    iron_session_restore_file, "session", |it| (it.cast(), 0, c"x".as_ptr());
    iron_session_retain, "session", |it| (it.cast());
    iron_session_release, "session", |it| (it.cast());
    iron_session_log_probabilities, "session", |it| (it.cast(), 0, TOKEN.as_ptr(), 1, null_mut(), 0, place());
    iron_session_embed, "session", |it| (it.cast(), 0, TOKEN.as_ptr(), 1, 0, null_mut(), 0, place());
    iron_session_perplexity, "session", |it| (it.cast(), 0, null(), 0, null(), sized());
    iron_sampler_sample, "sampler", |it| (it.cast(), null(), 0, null(), 0, None, null_mut(), place());
    iron_sampler_retain, "sampler", |it| (it.cast());
    iron_sampler_release, "sampler", |it| (it.cast());
    iron_generate, "session", |it| (it.cast(), 0, TOKEN.as_ptr(), 1, null(), None, null_mut(), null_mut());
    iron_generation_create, "session", |it| (it.cast(), 0, TOKEN.as_ptr(), 1, null(), place());
    iron_generation_next, "generation", |it| (it.cast(), sized());
    iron_generation_describe, "generation", |it| (it.cast(), sized());
    iron_generation_retain, "generation", |it| (it.cast());
    iron_generation_release, "generation", |it| (it.cast());
    iron_writer_create, "model", |it| (it.cast(), null(), 0, null(), place());
    iron_session_write, "session", |it| (it.cast(), 0, null_mut(), sized());
    iron_writer_write, "writer", |it| (it.cast(), null(), 0, sized());
    iron_writer_tokens, "writer", |it| (it.cast(), null_mut(), 0, place());
    iron_writer_describe, "writer", |it| (it.cast(), sized());
    iron_writer_retain, "writer", |it| (it.cast());
    iron_writer_release, "writer", |it| (it.cast());
    iron_quantize_file, "file", |it| (it.cast(), c"x".as_ptr(), null(), null_mut());
};

#[test]
#[serial]
fn handles_that_are_none() {
    // Those whose first parameter is a handle.
    let takes_handle = |parameters: &[String]| {
        let first = &parameters[0];
        first.contains(" *")
            && !first.contains("**")
            && !first.starts_with("const ")
            && first != "float *numbers"
    };
    let declared: BTreeSet<String> = declarations()
        .into_iter()
        .filter(|(_, parameters)| takes_handle(parameters))
        .map(|(name, _)| name)
        .collect();
    let tested: BTreeSet<String> = CALLS.iter().map(|call| call.0.to_owned()).collect();
    assert_eq!(tested, declared, "functions of the header");

    let llama = Llama::new();
    let mut released = null_mut();
    ok(call!(iron_cancel_create(&mut released)));
    ok(call!(iron_cancel_release(released)));
    let commands = begin(llama.device);
    let on_the_heap = Box::new(0u64);
    let heap: Handle = (&raw const *on_the_heap).cast_mut().cast();
    for (function, argument, call) in CALLS {
        // Commands are of no kind that these functions take.
        for (what, handle) in [
            ("NULL", null_mut()),
            ("a released handle", released.cast()),
            ("a handle of another kind", commands.cast()),
            ("an address", heap),
            ("a number", 0x1234_5678_9ABC_DEFF as Handle),
        ] {
            let status = call(handle);
            assert_eq!(
                name(status),
                "IRON_ERROR_INVALID_HANDLE",
                "{function} with {what}"
            );
            let message = last_error();
            // Devices are checked by a function of the other header.
            let expected = match *argument {
                "device" => format!("{function}: device: "),
                _ => format!("{function}: {argument}: "),
            };
            assert!(
                message.starts_with(&expected),
                "{function} with {what}: {message:?}"
            );
        }
    }
    // And the other way round.
    fails(
        call!(iron_commands_flush(llama.model.cast())),
        IRON_ERROR_INVALID_HANDLE,
        "commands: a handle of an iron_model, an iron_commands is needed",
    );
    release_commands(commands);
    llama.finish();
}

#[test]
#[serial]
fn places_for_results_that_are_none() {
    let llama = Llama::new();
    let tokenizer = llama.tokenizer();
    let null_place = [
        (call!(iron_cancel_create(null_mut())), "cancel"),
        (
            call!(iron_model_file_open(c"x".as_ptr(), null_mut())),
            "file",
        ),
        (
            call!(iron_model_open(
                llama.device,
                c"x".as_ptr(),
                null(),
                null_mut()
            )),
            "model",
        ),
        (call!(iron_model_describe(llama.model, null_mut())), "info"),
        (
            call!(iron_model_tokenizer(llama.model, null_mut())),
            "tokenizer",
        ),
        (call!(iron_model_device(llama.model, null_mut())), "device"),
        (
            call!(iron_tokenizer_decode(
                tokenizer,
                null(),
                0,
                null_mut(),
                0,
                null_mut()
            )),
            "length",
        ),
        (
            call!(iron_tokenizer_decode(
                tokenizer,
                null(),
                0,
                null_mut(),
                1,
                &mut 0
            )),
            "text",
        ),
        (
            call!(iron_tokenizer_decode(
                tokenizer,
                null(),
                1,
                null_mut(),
                0,
                &mut 0
            )),
            "tokens",
        ),
        (
            call!(iron_session_create(llama.model, null(), null_mut())),
            "session",
        ),
        (call!(iron_sampler_create(null(), null_mut())), "sampler"),
        (call!(iron_model_file_open(null(), place())), "path"),
    ];
    for (number, (status, argument)) in null_place.into_iter().enumerate() {
        assert_eq!(
            name(status),
            "IRON_ERROR_INVALID_ARGUMENT",
            "{number} {argument}"
        );
    }
    fails(
        call!(iron_cancel_create(null_mut())),
        IRON_ERROR_INVALID_ARGUMENT,
        "iron_cancel_create: cancel: is NULL",
    );
    let not_utf8 = b"a\xFFb";
    fails(
        call!(iron_tokenizer_encode(
            tokenizer,
            not_utf8.as_ptr().cast(),
            not_utf8.len(),
            0,
            null_mut(),
            0,
            &mut 0
        )),
        IRON_ERROR_INVALID_ARGUMENT,
        "text: is not UTF-8 from byte 1 on",
    );
    ok(call!(iron_tokenizer_release(tokenizer)));
    llama.finish();
}

/// A struct of another age: shorter, longer with zeros, longer with something in it, and one whose size ends inside a
/// field.
fn ages<T>(field: &str, inside: usize, call: impl Fn(*mut T) -> iron_status) {
    const BEYOND: usize = 32;
    let mut bytes = vec![0u64; (size_of::<T>() + BEYOND).div_ceil(8)];
    let mut with = |size: usize, tail: u64| {
        bytes.fill(0);
        bytes[0] = size as u64;
        *bytes.last_mut().expect("a tail") = tail;
        call(bytes.as_mut_ptr().cast())
    };
    let whole = size_of::<T>();
    let name = std::any::type_name::<T>()
        .rsplit("::")
        .next()
        .expect("a name");
    ok(with(whole, 0));
    ok(with(size_of::<usize>(), 0));
    ok(with(whole + BEYOND, 0));
    for (size, tail, subject) in [
        (0, 0, format!("set it to sizeof({name})")),
        (
            inside,
            0,
            format!("ends inside the field {field} of {name}"),
        ),
        (
            whole + BEYOND,
            7,
            String::from("what follows is not all zero"),
        ),
        (5000, 0, String::from("its size is 5000")),
    ] {
        fails(with(size, tail), IRON_ERROR_INVALID_ARGUMENT, &subject);
    }
}

#[test]
#[serial]
fn structs_of_another_age() {
    let llama = Llama::new();
    let tokenizer = llama.tokenizer();
    let mut file = null_mut();
    let path = std::ffi::CString::new(MODEL).expect("no NUL");
    ok(call!(iron_model_file_open(path.as_ptr(), &mut file)));
    ages::<iron_model_file_info>("format", 10, |info| {
        call!(iron_model_file_describe(file, info))
    });
    ages::<iron_load_options>("progress", 20, |options| {
        let mut model = null_mut();
        let status = call!(iron_model_load(llama.device, file, options, &mut model));
        if !model.is_null() {
            ok(call!(iron_model_release(model)));
        }
        status
    });
    ages::<iron_model_info>("architecture", 16, |info| {
        call!(iron_model_describe(llama.model, info))
    });
    ages::<iron_layer_info>("window", 12, |info| {
        call!(iron_model_describe_layer(llama.model, 0, info))
    });
    ages::<iron_tokenizer_info>("eos", 18, |info| {
        call!(iron_tokenizer_describe(tokenizer, info))
    });
    ages::<iron_session_options>("context", 20, |options| {
        let mut session = null_mut();
        let status = call!(iron_session_create(llama.model, options, &mut session));
        if !session.is_null() {
            ok(call!(iron_session_release(session)));
        }
        status
    });
    ages::<iron_session_info>("context", 20, |info| {
        call!(iron_session_describe(llama.session, info))
    });
    ages::<iron_sampler_options>("top_k", 14, |options| {
        let mut sampler = null_mut();
        let status = call!(iron_sampler_create(options, &mut sampler));
        if !sampler.is_null() {
            ok(call!(iron_sampler_release(sampler)));
        }
        status
    });
    let prompt = llama.prompt("Ownership is");
    ages::<iron_generation_options>("limit", 20, |options| {
        let mut writer = null_mut();
        let status = call!(iron_writer_create(
            llama.model,
            prompt.as_ptr(),
            prompt.len(),
            options,
            &mut writer
        ));
        if !writer.is_null() {
            ok(call!(iron_writer_release(writer)));
        }
        status
    });
    let options = generation_options(2);
    let mut generation = null_mut();
    ok(call!(iron_generation_create(
        llama.session,
        0,
        prompt.as_ptr(),
        prompt.len(),
        &options,
        &mut generation
    )));
    ages::<iron_generation_info>("prompt_tokens", 20, |info| {
        call!(iron_generation_describe(generation, info))
    });
    ages::<iron_piece>("text", 20, |piece| {
        call!(iron_generation_next(generation, piece))
    });
    ok(call!(iron_generation_release(generation)));
    ages::<iron_perplexity_options>("stride", 12, |options| {
        let mut perplexity = iron_perplexity {
            size: size_of::<iron_perplexity>(),
            ..Default::default()
        };
        call!(iron_session_perplexity(
            llama.session,
            0,
            prompt.as_ptr(),
            prompt.len(),
            options,
            &mut perplexity
        ))
    });
    ages::<iron_perplexity>("value", 28, |perplexity| {
        call!(iron_session_perplexity(
            llama.session,
            0,
            prompt.as_ptr(),
            prompt.len(),
            null(),
            perplexity
        ))
    });
    let chat = iron_chat_options {
        size: size_of::<iron_chat_options>(),
        source: c"x".as_ptr(),
        max_nesting: 5000,
        ..Default::default()
    };
    fails(
        call!(iron_chat_create(llama.model, &chat, &mut null_mut())),
        IRON_ERROR_OUT_OF_RANGE,
        "options.max_nesting",
    );
    ok(call!(iron_model_file_release(file)));
    ok(call!(iron_tokenizer_release(tokenizer)));
    llama.finish();
}

/// Every sized struct of the header is known field by field to the bridge, which the sizes above rely on.
#[test]
fn every_sized_struct_has_its_layout() {
    let layouts = include_str!("../../../native/bridge/base/layout.m");
    for body in HEADER.split("typedef struct iron_").skip(1) {
        let Some((name, rest)) = body.split_once(" {\n  size_t size;") else {
            continue;
        };
        if name.contains([' ', ';']) || name == "model_tensor" {
            continue; // a declaration alone, and one that only callbacks get
        }
        let fields = rest.split("\n}").next().expect("it ends");
        let line = layouts.split(&format!("LAYOUT(iron_{name},")).nth(1);
        let line = line.unwrap_or_else(|| panic!("iron_{name} has no layout"));
        let line = line.split("))").next().expect("it ends");
        for field in fields.lines() {
            let field = field.split("/*").next().unwrap_or_default().trim();
            for name in field.trim_end_matches(';').split([' ', ',', '*']) {
                let name = name.split('[').next().unwrap_or_default();
                let is_type = name.is_empty()
                    || name == "const"
                    || [
                        "uint32_t", "uint64_t", "size_t", "float", "double", "char", "void",
                    ]
                    .contains(&name)
                    || name.starts_with("iron_");
                assert!(
                    is_type || field.starts_with("/*") || line.contains(name),
                    "{name} in {line}"
                );
            }
        }
    }
}
