//! Files, models, tokenizers, chat templates, quantization.

use std::ffi::{CStr, CString, c_char, c_void};
use std::ptr::{null, null_mut};

use ironbridge::Device;
use ironbridge::ffi::*;
use ironbridge::llama::{Model, ModelFile};
use serial_test::serial;

use super::fixture::*;
use crate::abi::*;

fn open_file(path: &str) -> *mut iron_model_file {
    let path = CString::new(path).expect("no NUL");
    let mut file = null_mut();
    ok(call!(iron_model_file_open(path.as_ptr(), &mut file)));
    file
}

unsafe extern "C" fn collect(key: *const c_char, length: usize, context: *mut c_void) {
    // SAFETY: the key ends with a NUL, and the context is a list.
    let (key, keys) = unsafe { (CStr::from_ptr(key), &mut *context.cast::<Vec<String>>()) };
    assert_eq!(key.count_bytes(), length);
    keys.push(key.to_string_lossy().into_owned());
}

unsafe extern "C" fn sum(tensor: *const iron_model_tensor, context: *mut c_void) {
    // SAFETY: the tensor and all that it leads to live through the call, and the context is a list.
    unsafe {
        let (tensor, list) = (
            &*tensor,
            &mut *context.cast::<Vec<(String, String, u64, u64)>>(),
        );
        let text = |text| CStr::from_ptr(text).to_string_lossy().into_owned();
        let bytes =
            std::slice::from_raw_parts(tensor.bytes.cast::<u8>(), tensor.byte_length as usize);
        let dimensions = std::slice::from_raw_parts(tensor.dimensions, tensor.dimension_count);
        assert_eq!(dimensions.iter().product::<u64>(), tensor.elements);
        let check = bytes.iter().map(|byte| u64::from(*byte)).sum();
        list.push((
            text(tensor.name),
            text(tensor.type_),
            tensor.byte_length,
            check,
        ));
    }
}

#[test]
#[serial]
fn a_file_tells_its_metadata_and_its_tensors() {
    let baseline = Baseline::take();
    let file = open_file(MODEL);
    let rust = ModelFile::open(MODEL).expect("the demo model");
    let mut info = iron_model_file_info {
        size: size_of::<iron_model_file_info>(),
        ..Default::default()
    };
    ok(call!(iron_model_file_describe(file, &mut info)));
    assert_eq!((info.format, info.version), (IRON_FORMAT_GGUF, 3));
    assert_eq!(info.tensors as usize, rust.tensors().len());

    let mut keys: Vec<String> = Vec::new();
    ok(call!(iron_model_file_keys(
        file,
        Some(collect),
        (&raw mut keys).cast()
    )));
    let expected: Vec<&str> = rust.metadata().iter().map(|(key, _)| key).collect();
    assert_eq!(keys, expected);
    assert_eq!(info.metadata as usize, keys.len());

    let value = |key: &CStr| {
        text(|json, capacity, length| {
            call!(iron_model_file_metadata(
                file,
                key.as_ptr(),
                json,
                capacity,
                length
            ))
        })
    };
    assert_eq!(value(c"general.architecture"), "\"llama\"");
    assert!(value(c"llama.block_count").parse::<u32>().is_ok());
    assert!(value(c"tokenizer.ggml.tokens").starts_with("[\""));
    fails(
        call!(iron_model_file_metadata(
            file,
            c"no.such.key".as_ptr(),
            null_mut(),
            0,
            &mut 0
        )),
        IRON_ERROR_NOT_FOUND,
        "no.such.key",
    );

    let mut tensors: Vec<(String, String, u64, u64)> = Vec::new();
    ok(call!(iron_model_file_tensors(
        file,
        Some(sum),
        (&raw mut tensors).cast()
    )));
    for (tensor, found) in rust.tensors().iter().zip(&tensors) {
        let check = rust.bytes(tensor).iter().map(|byte| u64::from(*byte)).sum();
        let expected = (
            tensor.name().to_owned(),
            tensor.tensor_type().name().to_owned(),
            tensor.byte_length(),
            check,
        );
        assert_eq!(*found, expected);
    }
    assert_eq!(tensors.len(), rust.tensors().len());
    assert_eq!(
        info.tensor_bytes,
        tensors.iter().map(|tensor| tensor.2).sum::<u64>()
    );
    ok(call!(iron_model_file_release(file)));
    baseline.holds();
}

#[test]
#[serial]
fn a_missing_or_a_damaged_file_is_a_typed_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut file: *mut iron_model_file = null_mut();
    let missing = CString::new(folder.path().join("none.gguf").to_str().expect("UTF-8"));
    let missing = missing.expect("no NUL");
    fails(
        call!(iron_model_file_open(missing.as_ptr(), &mut file)),
        IRON_ERROR_FILE,
        "none.gguf",
    );
    assert!(file.is_null());
    let damaged = folder.path().join("damaged.gguf");
    std::fs::write(&damaged, b"GGUF\x03\0\0\0and no more").expect("written");
    let damaged = CString::new(damaged.to_str().expect("UTF-8")).expect("no NUL");
    fails(
        call!(iron_model_file_open(damaged.as_ptr(), &mut file)),
        IRON_ERROR_MODEL,
        "damaged.gguf",
    );
    fails(
        call!(iron_model_file_open(c"".as_ptr(), &mut file)),
        IRON_ERROR_INVALID_ARGUMENT,
        "path: is empty",
    );
}

unsafe extern "C" fn give_up(done: u64, total: u64, context: *mut c_void) -> u32 {
    assert!(done <= total && total > 0);
    // SAFETY: the context is a counter.
    unsafe { *context.cast::<u32>() += 1 };
    1
}

#[test]
#[serial]
fn loading_can_be_canceled() {
    for weights in [IRON_WEIGHTS_MAPPED, IRON_WEIGHTS_COPIED] {
        let baseline = Baseline::take();
        let device = open("cpu");
        let file = open_file(MODEL);
        let mut reports = 0u32;
        let options = iron_load_options {
            size: size_of::<iron_load_options>(),
            weights,
            progress: Some(give_up),
            progress_context: (&raw mut reports).cast(),
        };
        let mut model = null_mut();
        fails(
            call!(iron_model_load(device, file, &options, &mut model)),
            IRON_ERROR_CANCELED,
            "loading the model was cancelled",
        );
        assert!(model.is_null());
        assert_eq!(reports, 1);
        let nothing = memory(device).active_bytes;
        assert_eq!(nothing, 0);
        ok(call!(iron_model_file_release(file)));
        release_device(device);
        baseline.holds();
    }
}

#[test]
#[serial]
fn a_model_describes_itself_and_its_parts() {
    let llama = Llama::new();
    let mut info = iron_model_info {
        size: size_of::<iron_model_info>(),
        ..Default::default()
    };
    ok(call!(iron_model_describe(llama.model, &mut info)));
    let device = Device::open("cpu").expect("a device");
    let rust = Model::open(&device, MODEL).expect("the demo model");
    let config = rust.config();
    // SAFETY: NUL-terminated.
    let architecture = unsafe { CStr::from_ptr(info.architecture.as_ptr()) };
    assert_eq!(architecture.to_str(), Ok(config.architecture.name()));
    assert_eq!(info.vocabulary as usize, config.vocabulary);
    assert_eq!(info.width as usize, config.width);
    assert_eq!(info.layers as usize, config.layers);
    assert_eq!(info.context as usize, config.context);
    assert_eq!(info.rms_epsilon, config.rms_epsilon);

    let mut layer = iron_layer_info {
        size: size_of::<iron_layer_info>(),
        ..Default::default()
    };
    ok(call!(iron_model_describe_layer(llama.model, 0, &mut layer)));
    assert_eq!(layer.rope_base, config.plans[0].rope_base);
    fails(
        call!(iron_model_describe_layer(
            llama.model,
            info.layers,
            &mut layer
        )),
        IRON_ERROR_OUT_OF_RANGE,
        "layer",
    );
    fails(
        call!(iron_model_chat_template(llama.model, null_mut(), 0, &mut 0)),
        IRON_ERROR_NOT_FOUND,
        "chat template",
    );
    ok(call!(iron_model_settle(llama.model)));

    // What is handed out keeps what it needs alive.
    let mut same = null_mut();
    ok(call!(iron_model_device(llama.model, &mut same)));
    assert_eq!(memory(same).active_bytes, memory(llama.device).active_bytes);
    release_device(same);
    let mut model = null_mut();
    ok(call!(iron_session_model(llama.session, &mut model)));
    ok(call!(iron_model_retain(model)));
    ok(call!(iron_model_release(model)));
    ok(call!(iron_model_release(model)));
    drop((rust, device));
    llama.finish();
}

#[test]
#[serial]
fn tokens_and_texts_are_those_of_rust() {
    let llama = Llama::new();
    let tokenizer = llama.tokenizer();
    let device = Device::open("cpu").expect("a device");
    let rust = Model::open(&device, MODEL).expect("the demo model");
    let sentence = "Ownership is Rust's most unique feature: naïve 猫.\0!";
    assert_eq!(llama.prompt(sentence), rust.encode_prompt(sentence));

    let mut info = iron_tokenizer_info {
        size: size_of::<iron_tokenizer_info>(),
        ..Default::default()
    };
    ok(call!(iron_tokenizer_describe(tokenizer, &mut info)));
    assert_eq!(info.vocabulary, rust.tokenizer().vocabulary_size());
    assert_eq!(Some(info.bos), rust.tokenizer().bos());

    let encode = |flags, tokens: &mut [u32], count: &mut usize| {
        call!(iron_tokenizer_encode(
            tokenizer,
            sentence.as_ptr().cast(),
            sentence.len(),
            flags,
            tokens.as_mut_ptr(),
            tokens.len(),
            count
        ))
    };
    let (mut tokens, mut count) = ([0; 200], 0);
    ok(encode(0, &mut tokens, &mut count));
    let plain = rust.tokenizer().encode(sentence);
    assert_eq!(tokens[..count], plain);
    fails(
        encode(0, &mut tokens[..3], &mut count),
        IRON_ERROR_OUT_OF_RANGE,
        &format!(
            "tokens: there is room for 3, and {} are needed",
            plain.len()
        ),
    );
    assert_eq!(count, 0);
    fails(
        encode(4, &mut tokens, &mut count),
        IRON_ERROR_INVALID_ARGUMENT,
        "flags",
    );
    let decoded = text(|text, capacity, length| {
        call!(iron_tokenizer_decode(
            tokenizer,
            plain.as_ptr(),
            plain.len(),
            text,
            capacity,
            length
        ))
    });
    assert_eq!(decoded, sentence);

    // As a stream.
    let mut decoder = null_mut();
    ok(call!(iron_decoder_create(tokenizer, 0, &mut decoder)));
    let mut streamed = String::new();
    let (mut lent, mut length) = (null(), 0);
    for token in &plain {
        ok(call!(iron_decoder_push(
            decoder,
            *token,
            &mut lent,
            &mut length
        )));
        // SAFETY: the text has the length that is stated.
        let bytes = unsafe { std::slice::from_raw_parts(lent.cast::<u8>(), length) };
        streamed.push_str(std::str::from_utf8(bytes).expect("whole characters"));
    }
    ok(call!(iron_decoder_finish(decoder, &mut lent, &mut length)));
    assert_eq!((streamed.as_str(), length), (sentence, 0));
    fails(
        call!(iron_decoder_push(
            decoder,
            info.vocabulary,
            &mut lent,
            &mut length
        )),
        IRON_ERROR_OUT_OF_RANGE,
        "outside the vocabulary",
    );
    assert!(lent.is_null());
    ok(call!(iron_decoder_release(decoder)));

    let piece = text(|bytes, capacity, length| {
        call!(iron_tokenizer_piece(
            tokenizer,
            info.bos,
            bytes,
            capacity,
            length,
            null_mut()
        ))
    });
    let mut kind = 0;
    ok(call!(iron_tokenizer_piece(
        tokenizer,
        info.bos,
        null_mut(),
        0,
        &mut 0,
        &mut kind
    )));
    assert_eq!((piece.as_str(), kind), ("<s>", IRON_TOKEN_CONTROL));
    let mut found = 0;
    ok(call!(iron_tokenizer_find(
        tokenizer,
        c"<s>".as_ptr(),
        &mut found
    )));
    assert_eq!(found, info.bos);
    fails(
        call!(iron_tokenizer_find(
            tokenizer,
            c"<none>".as_ptr(),
            &mut found
        )),
        IRON_ERROR_NOT_FOUND,
        "<none>",
    );
    let mut is_end = 7;
    ok(call!(iron_tokenizer_is_end(
        tokenizer,
        info.eos,
        &mut is_end
    )));
    assert_eq!(is_end, 1);

    // That of the file alone is the same.
    let file = open_file(MODEL);
    let mut alone = null_mut();
    ok(call!(iron_tokenizer_create(file, &mut alone)));
    ok(call!(iron_model_file_release(file)));
    ok(call!(iron_tokenizer_encode(
        alone,
        sentence.as_ptr().cast(),
        sentence.len(),
        0,
        tokens.as_mut_ptr(),
        tokens.len(),
        &mut count
    )));
    assert_eq!(tokens[..count], plain);
    ok(call!(iron_tokenizer_release(alone)));
    ok(call!(iron_tokenizer_release(tokenizer)));
    drop((rust, device));
    llama.finish();
}

/// What an assistant has called, and what came of it, with and without a content.
#[test]
#[serial]
fn messages_have_calls_of_tools() {
    let llama = Llama::new();
    let mut chat = null_mut();
    let options = iron_chat_options {
        size: size_of::<iron_chat_options>(),
        source: c"{% for message in messages %}{{ message.role }}:{% if message.content is undefined %}-{% endif %}\
            {{ message.content }}{% for call in message.tool_calls %}{{ call.function.name }}\
            {{ call.function.arguments | tojson }}{% endfor %}{{ message.tool_call_id }};{% endfor %}{{ tools | length }}"
            .as_ptr(),
        variables: c"{\"tools\": [{\"type\": \"function\"}]}".as_ptr(),
        ..Default::default()
    };
    ok(call!(iron_chat_create(llama.model, &options, &mut chat)));
    let messages = c"[{\"role\": \"assistant\", \"tool_calls\": [{\"function\": {\"name\": \"f\", \"arguments\": \
        {\"b\": 1, \"a\": \"\\u00e9\"}}}]}, {\"role\": \"assistant\", \"content\": null, \"tool_calls\": []}, \
        {\"role\": \"tool\", \"content\": \"21\", \"tool_call_id\": \"c1\"}, {\"role\": \"user\", \"content\": [1]}]";
    let rendered = text(|text, capacity, length| {
        call!(iron_chat_render(
            chat,
            messages.as_ptr(),
            0,
            text,
            capacity,
            length
        ))
    });
    assert_eq!(
        rendered,
        "assistant:-f{\"b\": 1, \"a\": \"é\"};assistant:-;tool:21c1;user:[1];1"
    );
    ok(call!(iron_chat_release(chat)));
    llama.finish();
}

const TEMPLATE: &CStr =
    c"{% for message in messages %}<{{ message.role }}>{{ message.content }}{{ mark }}\n\
    {% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}";

#[test]
#[serial]
fn conversations_are_written_by_a_template() {
    let llama = Llama::new();
    let mut chat = null_mut();
    fails(
        call!(iron_chat_create(llama.model, null(), &mut chat)),
        IRON_ERROR_NOT_FOUND,
        "no chat template",
    );
    let mut options = iron_chat_options {
        size: size_of::<iron_chat_options>(),
        source: TEMPLATE.as_ptr(),
        variables: c"{\"mark\": \"!\"}".as_ptr(),
        max_output: 100,
        ..Default::default()
    };
    ok(call!(iron_chat_create(llama.model, &options, &mut chat)));
    let messages = c"[{\"role\": \"user\", \"content\": \"H\\u00e4? </s>\"}]";
    let render = |prompts| {
        text(|text, capacity, length| {
            call!(iron_chat_render(
                chat,
                messages.as_ptr(),
                prompts,
                text,
                capacity,
                length
            ))
        })
    };
    assert_eq!(render(1), "<user>Hä? </s>!\n<assistant>");
    assert_eq!(render(0), "<user>Hä? </s>!\n");

    // The name of a control token in a message is text.
    let (mut tokens, mut count) = ([0; 64], 0);
    ok(call!(iron_chat_encode(
        chat,
        messages.as_ptr(),
        tokens.as_mut_ptr(),
        tokens.len(),
        &mut count
    )));
    let tokenizer = llama.tokenizer();
    for token in &tokens[1..count] {
        let mut is_end = 7;
        ok(call!(iron_tokenizer_is_end(tokenizer, *token, &mut is_end)));
        assert_eq!(is_end, 0);
    }
    ok(call!(iron_tokenizer_release(tokenizer)));

    let refused = |messages: &CStr, status, subject| {
        let mut count = 1;
        fails(
            call!(iron_chat_encode(
                chat,
                messages.as_ptr(),
                null_mut(),
                0,
                &mut count
            )),
            status,
            subject,
        );
        assert_eq!(count, 0);
    };
    refused(c"[", IRON_ERROR_INVALID_ARGUMENT, "messages: is no JSON");
    refused(
        c"{}",
        IRON_ERROR_INVALID_ARGUMENT,
        "messages: is no JSON array",
    );
    refused(
        c"[{\"role\": 1, \"content\": \"\"}]",
        IRON_ERROR_INVALID_ARGUMENT,
        "messages[0].role: is no text",
    );
    for (message, subject) in [
        (c"[{\"role\": \"user\"}]", "messages[0].content: is no text"),
        (c"[{\"content\": \"\"}]", "messages[0].role: is no text"),
        (
            c"[{\"role\": \"user\", \"content\": 1, \"name\": \"x\"}]",
            "messages[0].content: is no text or list",
        ),
        (c"[1]", "messages[0]: is no JSON object"),
    ] {
        refused(message, IRON_ERROR_INVALID_ARGUMENT, subject);
    }
    // JSON's own reader bounds how deep a text nests.
    let deep = format!(
        "[{{\"role\": \"user\", \"x\": {}1{}}}]",
        "[".repeat(9999),
        "]".repeat(9999)
    );
    refused(
        &CString::new(deep).expect("no NUL"),
        IRON_ERROR_INVALID_ARGUMENT,
        "messages: is no JSON: recursion limit",
    );
    let long = CString::new(format!(
        "[{{\"role\": \"user\", \"content\": {:?}}}]",
        "x".repeat(101)
    ));
    refused(
        &long.expect("no NUL"),
        IRON_ERROR_CHAT,
        "limit of output size",
    );
    ok(call!(iron_chat_release(chat)));

    options.source = c"{% if %}".as_ptr();
    fails(
        call!(iron_chat_create(llama.model, &options, &mut chat)),
        IRON_ERROR_CHAT,
        "line 1",
    );
    options.source = TEMPLATE.as_ptr();
    options.variables = c"[]".as_ptr();
    fails(
        call!(iron_chat_create(llama.model, &options, &mut chat)),
        IRON_ERROR_INVALID_ARGUMENT,
        "options.variables: is no JSON object",
    );
    llama.finish();
}

#[test]
#[serial]
fn blocks_are_quantized_as_in_rust() {
    let numbers = random(256, 3);
    let expected = ironbridge::llama::quantize(ironbridge::llama::gguf::TensorType::Q4_K, &numbers);
    let expected = expected.expect("a block");
    let mut bytes = [0u8; 144];
    let mut length = 0;
    ok(call!(iron_quantize(
        c"q4_k".as_ptr(),
        numbers.as_ptr(),
        numbers.len(),
        bytes.as_mut_ptr().cast(),
        bytes.len(),
        &mut length
    )));
    assert_eq!(bytes[..length], expected);
    for (kind, count, status) in [
        (c"Q4_K", 255, IRON_ERROR_SHAPE),
        (c"Q9_9", 256, IRON_ERROR_INVALID_ARGUMENT),
        (c"IQ3_S", 256, IRON_ERROR_UNSUPPORTED),
    ] {
        let found = call!(iron_quantize(
            kind.as_ptr(),
            numbers.as_ptr(),
            count,
            null_mut(),
            0,
            &mut length
        ));
        assert_eq!(name(found), name(status), "{kind:?}");
    }
    let mut count = 0;
    let mut kind = null();
    while call!(iron_quantize_type(count, &mut kind)) == IRON_OK {
        count += 1;
    }
    let mixes = ironbridge::llama::QuantizeMix::ALL.len();
    assert_eq!(
        count as usize,
        ironbridge::llama::Quantizer::TYPES.len() + mixes
    );
    ok(call!(iron_quantize_type(count - 1, &mut kind)));
    // SAFETY: a static text of the library's.
    assert_eq!(unsafe { std::ffi::CStr::from_ptr(kind) }, c"Q5_K_M");
}

#[test]
#[serial]
fn a_file_is_quantized_or_leaves_nothing() {
    let baseline = Baseline::take();
    // A file of floats: of the folder that the tests of models have.
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/models/qwen2");
    let file = open_file(source);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("new.gguf");
    let path = CString::new(path.to_str().expect("UTF-8")).expect("no NUL");
    let mut canceled = 0u32;
    let mut options = iron_quantize_options {
        size: size_of::<iron_quantize_options>(),
        type_: c"Q8_0".as_ptr(),
        progress: Some(give_up),
        progress_context: (&raw mut canceled).cast(),
        ..Default::default()
    };
    fails(
        call!(iron_quantize_file(
            file,
            path.as_ptr(),
            &options,
            null_mut()
        )),
        IRON_ERROR_CANCELED,
        "cancelled",
    );
    let left = std::fs::read_dir(folder.path()).expect("read").count();
    assert_eq!(left, 0);

    options.progress = None;
    let mut report = iron_quantize_report {
        size: size_of::<iron_quantize_report>(),
        ..Default::default()
    };
    ok(call!(iron_quantize_file(
        file,
        path.as_ptr(),
        &options,
        &mut report
    )));
    assert!(report.bytes_after < report.bytes_before && report.tensors > 0);
    // A file that is no importance matrix is named.
    options.importance = path.as_ptr();
    options.overwrite = 1;
    fails(
        call!(iron_quantize_file(
            file,
            path.as_ptr(),
            &options,
            null_mut()
        )),
        IRON_ERROR_MODEL,
        "not imatrix",
    );
    options.importance = null();
    options.type_ = c"Q4_K_M".as_ptr();
    options.overwrite = 1;
    ok(call!(iron_quantize_file(
        file,
        path.as_ptr(),
        &options,
        null_mut()
    )));
    options.overwrite = 0;
    fails(
        call!(iron_quantize_file(
            file,
            path.as_ptr(),
            &options,
            null_mut()
        )),
        IRON_ERROR_FILE,
        "exists already",
    );
    ok(call!(iron_model_file_release(file)));
    baseline.holds();
}
