//! Handles that are none, and what a handle counts.

use std::collections::BTreeSet;
use std::ffi::c_void;
use std::ptr::{null, null_mut};

use ironbridge::ffi::*;
use serial_test::serial;

use crate::abi::*;
use crate::descriptions::*;
use crate::fixture::*;
use crate::rowwise::{Given, OPERATIONS};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Device,
    Buffer,
    Commands,
    Library,
    Kernel,
}

const KINDS: [Kind; 5] = [
    Kind::Device,
    Kind::Buffer,
    Kind::Commands,
    Kind::Library,
    Kind::Kernel,
];

type Handle = *mut c_void;

/// A function with all arguments right but one handle.
struct HandleCall<'a> {
    function: &'static str,
    argument: &'static str,
    kind: Kind,
    call: Box<dyn Fn(Handle) -> iron_status + 'a>,
}

/// `function, argument, kind: |handle| (arguments)`, where `handle` stands for the one that is wrong.
macro_rules! handle_calls {
    ($( $function:ident, $argument:literal, $kind:ident: |$handle:ident| ($($value:expr),* $(,)?); )*) => {
        vec![ $( HandleCall {
            function: stringify!($function),
            argument: $argument,
            kind: Kind::$kind,
            call: Box::new(move |$handle| call!($function($($value),*))),
        } ),* ]
    };
}

/// A struct of zeros that says its size.
macro_rules! zeroed {
    ($type:ident) => {
        &mut $type {
            size: size_of::<$type>(),
            ..Default::default()
        }
    };
}

/// A place for 8 bytes of results or data.
fn place() -> [u64; 1] {
    [0]
}

unsafe extern "C" fn visit_nothing(_: *const iron_allocation, _: *mut c_void) {}

/// Every handle of every function.
#[rustfmt::skip] // a table
fn handle_calls(fixture: &Fixture) -> Vec<HandleCall<'_>> {
    let (buffer, commands, kernel) = (fixture.buffer, fixture.commands, fixture.kernel);
    let b = buffer;
    let shape = (2, 2, 2);
    handle_calls! {
        iron_device_describe, "device", Device: |h| (h.cast(), zeroed!(iron_device_info));
        iron_device_sync, "device", Device: |h| (h.cast(), 0);
        iron_compute_threads, "device", Device: |h| (h.cast(), &mut 0);
        iron_compute_set_threads, "device", Device: |h| (h.cast(), 1);
        iron_compute_pin, "device", Device: |h| (h.cast(), null(), 0);
        iron_device_close, "device", Device: |h| (h.cast(), 0, null_mut());
        iron_device_retain, "device", Device: |h| (h.cast());
        iron_device_release, "device", Device: |h| (h.cast());

        iron_buffer_create, "device", Device: |h| (h.cast(), 8, null(), place().as_mut_ptr().cast());
        iron_buffer_create_with_bytes, "device", Device: |h|
            (h.cast(), place().as_ptr().cast(), 8, null(), place().as_mut_ptr().cast());
        iron_buffer_wrap, "device", Device: |h|
            (h.cast(), page(), page_size(), None, null_mut(), null(), place().as_mut_ptr().cast());
        iron_buffer_retain, "buffer", Buffer: |h| (h.cast());
        iron_buffer_release, "buffer", Buffer: |h| (h.cast());
        iron_buffer_length, "buffer", Buffer: |h| (h.cast(), place().as_mut_ptr());
        iron_buffer_label, "buffer", Buffer: |h| (h.cast(), place().as_mut_ptr().cast(), 8);
        iron_buffer_set_label, "buffer", Buffer: |h| (h.cast(), c"label".as_ptr());
        iron_buffer_read, "buffer", Buffer: |h| (h.cast(), 0, place().as_mut_ptr().cast(), 8);
        iron_buffer_write, "buffer", Buffer: |h| (h.cast(), 0, place().as_ptr().cast(), 8);
        iron_buffer_map, "buffer", Buffer: |h| (h.cast(), IRON_ACCESS_READ, place().as_mut_ptr().cast());
        iron_buffer_unmap, "buffer", Buffer: |h| (h.cast(), IRON_ACCESS_READ);
        iron_weights_write, "buffer", Buffer: |h| (h.cast(), &weights(), 0, 32, page());
        iron_weights_read, "buffer", Buffer: |h| (h.cast(), &weights(), 0, 32, page());
        iron_buffer_contents, "buffer", Buffer: |h| (h.cast(), place().as_mut_ptr().cast());
        iron_device_metal, "device", Device: |h| (h.cast(), null_mut(), null_mut());
        iron_buffer_wrap_metal, "device", Device: |h| (h.cast(), page(), null(), place().as_mut_ptr().cast());
        iron_buffer_metal, "buffer", Buffer: |h| (h.cast(), place().as_mut_ptr().cast());
        iron_pipeline_cache_open, "device", Device: |h| (h.cast(), c"file".as_ptr());
        iron_pipeline_cache_save, "device", Device: |h| (h.cast());
        iron_capture_begin, "device", Device: |h| (h.cast(), c"file".as_ptr());
        iron_capture_end, "device", Device: |h| (h.cast());

        iron_commands_begin, "device", Device: |h| (h.cast(), null(), place().as_mut_ptr().cast());
        iron_commands_flush, "commands", Commands: |h| (h.cast());
        iron_commands_commit, "commands", Commands: |h| (h.cast());
        iron_commands_wait, "commands", Commands: |h| (h.cast(), 0);
        iron_commands_run, "commands", Commands: |h| (h.cast());
        iron_commands_describe, "commands", Commands: |h| (h.cast(), zeroed!(iron_commands_info));
        iron_commands_submission, "commands", Commands: |h| (h.cast(), 0, zeroed!(iron_submission));
        iron_commands_retain, "commands", Commands: |h| (h.cast());
        iron_commands_release, "commands", Commands: |h| (h.cast());

        iron_encode_matmul, "commands", Commands: |h| (h.cast(), &matmul_of((b, b, b), shape));
        iron_encode_matmul, "a", Buffer: |h| (commands, &matmul_of((h.cast(), b, b), shape));
        iron_encode_matmul, "b", Buffer: |h| (commands, &matmul_of((b, h.cast(), b), shape));
        iron_encode_matmul, "c", Buffer: |h| (commands, &matmul_of((b, b, h.cast()), shape));
        iron_encode_embedding, "commands", Commands: |h| (h.cast(), &embedding(b, b, b));
        iron_encode_embedding, "table", Buffer: |h| (commands, &embedding(h.cast(), b, b));
        iron_encode_embedding, "ids", Buffer: |h| (commands, &embedding(b, h.cast(), b));
        iron_encode_embedding, "out", Buffer: |h| (commands, &embedding(b, b, h.cast()));
        iron_encode_rope, "commands", Commands: |h| (h.cast(), &rope(b, b));
        iron_encode_rope, "x", Buffer: |h| (commands, &rope(h.cast(), b));
        iron_encode_rope, "positions", Buffer: |h| (commands, &rope(b, h.cast()));
        iron_encode_attention, "commands", Commands: |h| (h.cast(), &attention(b, b, b, b));
        iron_encode_attention, "q", Buffer: |h| (commands, &attention(h.cast(), b, b, b));
        iron_encode_attention, "k", Buffer: |h| (commands, &attention(b, h.cast(), b, b));
        iron_encode_attention, "v", Buffer: |h| (commands, &attention(b, b, h.cast(), b));
        iron_encode_attention, "out", Buffer: |h| (commands, &attention(b, b, b, h.cast()));
        iron_encode_linear_backward, "commands", Commands: |h| (h.cast(), &linear_backward([b; 6]));
        iron_encode_linear_backward, "x", Buffer: |h| (commands, &linear_backward([h.cast(), b, b, b, b, b]));
        iron_encode_linear_backward, "weight", Buffer: |h| (commands, &linear_backward([b, h.cast(), b, b, b, b]));
        iron_encode_linear_backward, "gradient", Buffer: |h| (commands, &linear_backward([b, b, h.cast(), b, b, b]));
        iron_encode_attention_backward, "commands", Commands: |h| (h.cast(), &attention_backward([b; 8]));
        iron_encode_attention_backward, "q", Buffer: |h| (commands, &attention_of(b, 0, h.cast()));
        iron_encode_attention_backward, "k", Buffer: |h| (commands, &attention_of(b, 1, h.cast()));
        iron_encode_attention_backward, "v", Buffer: |h| (commands, &attention_of(b, 2, h.cast()));
        iron_encode_attention_backward, "out", Buffer: |h| (commands, &attention_of(b, 3, h.cast()));
        iron_encode_attention_backward, "gradient", Buffer: |h| (commands, &attention_of(b, 4, h.cast()));
        iron_encode_attention_backward, "q_gradient", Buffer: |h| (commands, &attention_of(b, 5, h.cast()));
        iron_encode_attention_backward, "k_gradient", Buffer: |h| (commands, &attention_of(b, 6, h.cast()));
        iron_encode_attention_backward, "v_gradient", Buffer: |h| (commands, &attention_of(b, 7, h.cast()));
        iron_encode_copy, "commands", Commands: |h| (h.cast(), &copy(b, b));
        iron_encode_copy, "src", Buffer: |h| (commands, &copy(h.cast(), b));
        iron_encode_copy, "dst", Buffer: |h| (commands, &copy(b, h.cast()));
        iron_encode_copy_bytes, "commands", Commands: |h| (h.cast(), b, 0, b, 64, 16);
        iron_encode_copy_bytes, "source", Buffer: |h| (commands, h.cast(), 0, b, 64, 16);
        iron_encode_copy_bytes, "destination", Buffer: |h| (commands, b, 0, h.cast(), 64, 16);
        iron_encode_fill, "commands", Commands: |h| (h.cast(), b, 0, 16, 0);
        iron_encode_fill, "buffer", Buffer: |h| (commands, h.cast(), 0, 16, 0);

        iron_library_create, "device", Device: |h| (h.cast(), c"kernel".as_ptr(), place().as_mut_ptr().cast());
        iron_library_create_with_options, "device", Device: |h|
            (h.cast(), c"kernel".as_ptr(), null(), place().as_mut_ptr().cast());
        iron_library_open, "device", Device: |h| (h.cast(), c"file".as_ptr(), place().as_mut_ptr().cast());
        iron_library_retain, "library", Library: |h| (h.cast());
        iron_library_release, "library", Library: |h| (h.cast());
        iron_kernel_create, "library", Library: |h|
            (h.cast(), KERNEL.as_ptr(), null(), 0, place().as_mut_ptr().cast());
        iron_kernel_describe, "kernel", Kernel: |h| (h.cast(), zeroed!(iron_kernel_info));
        iron_library_kernel_count, "library", Library: |h| (h.cast(), place().as_mut_ptr().cast());
        iron_library_kernel_name, "library", Library: |h|
            (h.cast(), 0, null_mut(), 0, place().as_mut_ptr().cast());
        iron_kernel_argument, "kernel", Kernel: |h| (h.cast(), 0, zeroed!(iron_kernel_argument_info));
        iron_kernel_retain, "kernel", Kernel: |h| (h.cast());
        iron_kernel_release, "kernel", Kernel: |h| (h.cast());
        iron_encode_kernel, "commands", Commands: |h| (h.cast(), kernel, &dispatch(&[]));
        iron_encode_kernel, "kernel", Kernel: |h| (commands, h.cast(), &dispatch(&[]));
        iron_encode_kernel, "arguments[0]", Buffer: |h|
            (commands, kernel, &dispatch(&[buffer_argument(0, h.cast())]));

        iron_memory_describe, "device", Device: |h| (h.cast(), zeroed!(iron_memory_info));
        iron_memory_reset, "device", Device: |h| (h.cast(), IRON_RESET_PEAK);
        iron_memory_configure, "device", Device: |h| (h.cast(), zeroed!(iron_memory_settings));
        iron_memory_configuration, "device", Device: |h| (h.cast(), zeroed!(iron_memory_settings));
        iron_memory_reclaim, "device", Device: |h| (h.cast(), IRON_RECLAIM_SYNC, 0, null_mut());
        iron_memory_list, "device", Device: |h| (h.cast(), Some(visit_nothing), null_mut());
    }
}

/// All operands are in one buffer, but that at `place`.
fn attention_of(
    buffer: *mut iron_buffer,
    place: usize,
    other: *mut iron_buffer,
) -> iron_attention_backward {
    let mut buffers = [buffer; 8];
    buffers[place] = other;
    attention_backward(buffers)
}

/// The same of the operations in ops.def.
fn operation_calls(fixture: &Fixture) -> Vec<HandleCall<'_>> {
    let mut calls = Vec::new();
    for operation in OPERATIONS {
        let mut right = Given::new(operation, &vec![fixture.buffer; operation.operands.len()]);
        for (place, operand) in operation.operands.iter().enumerate() {
            // Apart, so that none overlaps another.
            right.at::<iron_tensor>(operand.offset).offset = 256 * place as u64;
        }
        for operand in operation.operands {
            let given = right.clone();
            calls.push(HandleCall {
                function: operation.function,
                argument: operand.name,
                kind: Kind::Buffer,
                call: Box::new(move |handle| {
                    let mut given = given.clone();
                    given.at::<iron_tensor>(operand.offset).buffer = handle.cast();
                    given.call(fixture.commands)
                }),
            });
        }
        calls.push(HandleCall {
            function: operation.function,
            argument: "commands",
            kind: Kind::Commands,
            call: Box::new(move |handle| right.call(handle.cast())),
        });
    }
    calls
}

/// The functions of the header whose parameters include a handle.
fn functions_with_handles() -> BTreeSet<String> {
    concat!(
        include_str!("../../include/ironbridge.h"),
        include_str!("../../include/ironbridge_memory.h")
    )
    .split("IRON_API ")
    .skip(2) // before the first, and the macro's own definition
    .filter_map(|text| text.split_once(';'))
    .filter_map(|(declaration, _)| declaration.split_once('('))
    .filter(|(_, parameters)| {
        ["device", "buffer", "commands", "library", "kernel"]
            .iter()
            .any(|kind| {
                parameters.contains(&format!("iron_{kind} *")) && !only_result(parameters, kind)
            })
    })
    .filter_map(|(head, _)| head.rsplit([' ', '*']).next().map(String::from))
    .collect()
}

/// The parameter is the place for a new handle: `iron_device **device`.
fn only_result(parameters: &str, kind: &str) -> bool {
    parameters
        .match_indices(&format!("iron_{kind} *"))
        .all(|(at, text)| parameters[at + text.len()..].starts_with('*'))
}

#[test]
#[serial]
fn handles_that_are_none() {
    let fixture = Fixture::new();
    let mut calls = handle_calls(&fixture);
    calls.extend(operation_calls(&fixture));

    let tested: BTreeSet<String> = calls.iter().map(|call| call.function.into()).collect();
    assert_eq!(tested, functions_with_handles(), "functions of the header");

    // A released handle of each kind.
    let released_buffer = buffer(fixture.device, 16);
    release_buffer(released_buffer);
    let released_commands = begin(fixture.device);
    release_commands(released_commands);
    let released_device = open("cpu");
    release_device(released_device);
    let (mut released_library, mut released_kernel) = (null_mut(), null_mut());
    ok(call!(iron_library_create(
        fixture.device,
        matmul_source(),
        &mut released_library
    )));
    ok(call!(iron_kernel_create(
        released_library,
        KERNEL.as_ptr(),
        null(),
        0,
        &mut released_kernel
    )));
    ok(call!(iron_library_release(released_library)));
    ok(call!(iron_kernel_release(released_kernel)));

    let valid = |kind| -> Handle {
        match kind {
            Kind::Device => fixture.device.cast(),
            Kind::Buffer => fixture.buffer.cast(),
            Kind::Commands => fixture.commands.cast(),
            Kind::Library => fixture.library.cast(),
            Kind::Kernel => fixture.kernel.cast(),
        }
    };
    let released = |kind| -> Handle {
        match kind {
            Kind::Device => released_device.cast(),
            Kind::Buffer => released_buffer.cast(),
            Kind::Commands => released_commands.cast(),
            Kind::Library => released_library.cast(),
            Kind::Kernel => released_kernel.cast(),
        }
    };
    for HandleCall {
        function,
        argument,
        kind,
        call,
    } in &calls
    {
        let foreign = KINDS.iter().filter(|other| *other != kind).map(|other| {
            (
                valid(*other),
                format!("a handle of another kind, {other:?}"),
            )
        });
        let invented = [1usize, 0xF, 0x1234_5678_9ABC_DEF0, usize::MAX]
            .map(|value| (value as Handle, format!("{value:#x}")));
        let on_the_heap = Box::new(0u64);
        let wrong = [
            (null_mut(), String::from("NULL")),
            (released(*kind), String::from("a released handle")),
            (
                (&raw const *on_the_heap as Handle),
                String::from("an address"),
            ),
        ];
        for (handle, what) in wrong.into_iter().chain(foreign).chain(invented) {
            let status = call(handle);
            assert_eq!(
                name(status),
                "IRON_ERROR_INVALID_HANDLE",
                "{function} with {what} as {argument}"
            );
            let message = last_error();
            assert!(
                message.starts_with(&format!("{function}: {argument}: ")),
                "{function} with {what} as {argument} said {message:?}"
            );
        }
    }
    drop(calls);
    fixture.finish();
}

#[test]
#[serial]
fn a_handle_counts_its_references() {
    let fixture = Fixture::new();
    let extra = buffer(fixture.device, 64);
    let before = diagnose().live_handles;
    ok(call!(iron_buffer_retain(extra)));
    assert_eq!(diagnose().live_handles, before + 1);
    ok(call!(iron_buffer_release(extra)));
    let mut length = 0;
    ok(call!(iron_buffer_length(extra, &mut length)));
    assert_eq!(length, 64);
    ok(call!(iron_buffer_release(extra)));
    fails(
        call!(iron_buffer_release(extra)),
        IRON_ERROR_INVALID_HANDLE,
        "buffer: this iron_buffer was already released",
    );
    fixture.finish();
}

#[test]
#[serial]
fn a_slot_that_is_used_again_has_another_handle() {
    let fixture = Fixture::new();
    let mut seen = BTreeSet::new();
    for _ in 0..1000 {
        let buffer = buffer(fixture.device, 16);
        assert!(seen.insert(buffer as usize));
        release_buffer(buffer);
    }
    for old in seen {
        fails(
            call!(iron_buffer_release(old as *mut iron_buffer)),
            IRON_ERROR_INVALID_HANDLE,
            "released",
        );
    }
    fixture.finish();
}
