//! Handles that are none, and what a handle counts.

use std::collections::BTreeSet;
use std::ffi::c_void;
use std::ptr::{null, null_mut};

use ironbridge::ffi::*;
use serial_test::serial;

use crate::abi::*;
use crate::fixture::*;

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

/// Every handle of every function. `$handle` stands for the one that is wrong.
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

fn sized<T: Default>(set_size: impl FnOnce(&mut T, usize)) -> Box<T> {
    let mut value = Box::<T>::default();
    set_size(&mut value, size_of::<T>());
    value
}

/// A pointer to a struct of zeros that says its size and is never freed: the tests' arguments.
macro_rules! zeroed {
    ($type:ident) => {
        Box::leak(sized::<$type>(|value, size| value.size = size)) as *mut $type
    };
}

fn handle_calls(fixture: &Fixture) -> Vec<HandleCall<'_>> {
    let (device, buffer, commands) = (fixture.device, fixture.buffer, fixture.commands);
    let out: Handle = Box::leak(Box::new([0u64; 64])).as_mut_ptr().cast();
    let f32s = tensor(buffer, IRON_F32);
    let u32s = tensor(buffer, IRON_U32);
    let with = |handle: Handle, dtype| tensor(handle.cast(), dtype);
    let matmul = move |a, b, bias, c| {
        Box::leak(Box::new(iron_matmul {
            a,
            b,
            bias,
            c,
            ..matmul_of((null_mut(), null_mut(), null_mut()), (1, 1, 1))
        })) as *const iron_matmul
    };
    let none = iron_tensor::default();
    macro_rules! operation {
        ($type:ident { $($field:ident: $value:expr),* $(,)? }) => {
            Box::leak(Box::new($type { size: size_of::<$type>(), $($field: $value,)* ..Default::default() })) as *const $type
        };
    }
    let dispatch = move |handle: Handle| {
        let argument = Box::leak(Box::new(iron_argument {
            kind: IRON_ARGUMENT_BUFFER,
            buffer: handle.cast(),
            access: IRON_ACCESS_READ,
            ..Default::default()
        }));
        operation!(iron_dispatch {
            arguments: argument,
            argument_count: 1,
            grid: [1; 3],
            threadgroup: [1; 3],
            threads: true
        })
    };
    handle_calls! {
        iron_device_describe, "device", Device: |h| (h.cast(), zeroed!(iron_device_info));
        iron_device_sync, "device", Device: |h| (h.cast(), 0);
        iron_device_retain, "device", Device: |h| (h.cast());
        iron_device_release, "device", Device: |h| (h.cast());
        iron_buffer_create, "device", Device: |h| (h.cast(), 16, null(), out.cast());
        iron_buffer_create_with_bytes, "device", Device: |h| (h.cast(), out, 16, null(), out.cast());
        iron_buffer_wrap, "device", Device: |h| (h.cast(), page(), page_size(), None, null_mut(), null(), out.cast());
        iron_buffer_retain, "buffer", Buffer: |h| (h.cast());
        iron_buffer_release, "buffer", Buffer: |h| (h.cast());
        iron_buffer_length, "buffer", Buffer: |h| (h.cast(), out.cast());
        iron_buffer_label, "buffer", Buffer: |h| (h.cast(), out.cast(), 16);
        iron_buffer_set_label, "buffer", Buffer: |h| (h.cast(), c"label".as_ptr());
        iron_buffer_read, "buffer", Buffer: |h| (h.cast(), 0, out, 16);
        iron_buffer_write, "buffer", Buffer: |h| (h.cast(), 0, out, 16);
        iron_buffer_map, "buffer", Buffer: |h| (h.cast(), IRON_ACCESS_READ, out.cast());
        iron_buffer_unmap, "buffer", Buffer: |h| (h.cast(), IRON_ACCESS_READ);
        iron_buffer_contents, "buffer", Buffer: |h| (h.cast(), out.cast());
        iron_commands_begin, "device", Device: |h| (h.cast(), null(), out.cast());
        iron_commands_flush, "commands", Commands: |h| (h.cast());
        iron_commands_commit, "commands", Commands: |h| (h.cast());
        iron_commands_wait, "commands", Commands: |h| (h.cast(), 0);
        iron_commands_describe, "commands", Commands: |h| (h.cast(), zeroed!(iron_commands_info));
        iron_commands_retain, "commands", Commands: |h| (h.cast());
        iron_commands_release, "commands", Commands: |h| (h.cast());
        iron_encode_matmul, "commands", Commands: |h| (h.cast(), matmul(f32s, f32s, none, f32s));
        iron_encode_matmul, "a", Buffer: |h| (commands, matmul(with(h, IRON_F32), f32s, none, f32s));
        iron_encode_matmul, "b", Buffer: |h| (commands, matmul(f32s, with(h, IRON_F32), none, f32s));
        iron_encode_matmul, "c", Buffer: |h| (commands, matmul(f32s, f32s, none, with(h, IRON_F32)));
        iron_encode_embedding, "commands", Commands: |h| (h.cast(), operation!(iron_embedding {}));
        iron_encode_embedding, "table", Buffer: |h|
            (commands, operation!(iron_embedding { rows: 1, width: 1, vocab: 1, table: with(h, IRON_F32), ids: u32s, out: f32s }));
        iron_encode_embedding, "ids", Buffer: |h|
            (commands, operation!(iron_embedding { rows: 1, width: 1, vocab: 1, table: f32s, ids: with(h, IRON_U32), out: f32s }));
        iron_encode_embedding, "out", Buffer: |h|
            (commands, operation!(iron_embedding { rows: 1, width: 1, vocab: 1, table: f32s, ids: u32s, out: with(h, IRON_F32) }));
        iron_encode_rms_norm, "commands", Commands: |h| (h.cast(), operation!(iron_rms_norm {}));
        iron_encode_rms_norm, "x", Buffer: |h|
            (commands, operation!(iron_rms_norm { rows: 1, width: 1, x: with(h, IRON_F32), weight: f32s, out: f32s }));
        iron_encode_rms_norm, "weight", Buffer: |h|
            (commands, operation!(iron_rms_norm { rows: 1, width: 1, x: f32s, weight: with(h, IRON_F32), out: f32s }));
        iron_encode_rms_norm, "out", Buffer: |h|
            (commands, operation!(iron_rms_norm { rows: 1, width: 1, x: f32s, weight: f32s, out: with(h, IRON_F32) }));
        iron_encode_rope, "commands", Commands: |h| (h.cast(), operation!(iron_rope {}));
        iron_encode_rope, "x", Buffer: |h|
            (commands, operation!(iron_rope { tokens: 1, heads: 1, head_dim: 2, x: with(h, IRON_F32), positions: u32s, frequency_base: 1e4 }));
        iron_encode_rope, "positions", Buffer: |h|
            (commands, operation!(iron_rope { tokens: 1, heads: 1, head_dim: 2, x: f32s, positions: with(h, IRON_U32), frequency_base: 1e4 }));
        iron_encode_attention, "commands", Commands: |h| (h.cast(), operation!(iron_attention {}));
        iron_encode_attention, "q", Buffer: |h|
            (commands, operation!(iron_attention { tokens: 1, heads: 1, kv_heads: 1, head_dim: 1, q: with(h, IRON_F32), k: f32s, v: f32s, out: f32s }));
        iron_encode_attention, "k", Buffer: |h|
            (commands, operation!(iron_attention { tokens: 1, heads: 1, kv_heads: 1, head_dim: 1, q: f32s, k: with(h, IRON_F32), v: f32s, out: f32s }));
        iron_encode_attention, "v", Buffer: |h|
            (commands, operation!(iron_attention { tokens: 1, heads: 1, kv_heads: 1, head_dim: 1, q: f32s, k: f32s, v: with(h, IRON_F32), out: f32s }));
        iron_encode_attention, "out", Buffer: |h|
            (commands, operation!(iron_attention { tokens: 1, heads: 1, kv_heads: 1, head_dim: 1, q: f32s, k: f32s, v: f32s, out: with(h, IRON_F32) }));
        iron_encode_add, "commands", Commands: |h| (h.cast(), operation!(iron_elementwise {}));
        iron_encode_add, "a", Buffer: |h| (commands, operation!(iron_elementwise { count: 1, a: with(h, IRON_F32), b: f32s, out: f32s }));
        iron_encode_add, "b", Buffer: |h| (commands, operation!(iron_elementwise { count: 1, a: f32s, b: with(h, IRON_F32), out: f32s }));
        iron_encode_add, "out", Buffer: |h| (commands, operation!(iron_elementwise { count: 1, a: f32s, b: f32s, out: with(h, IRON_F32) }));
        iron_encode_silu_mul, "commands", Commands: |h| (h.cast(), operation!(iron_elementwise {}));
        iron_encode_silu_mul, "a", Buffer: |h| (commands, operation!(iron_elementwise { count: 1, a: with(h, IRON_F32), b: f32s, out: f32s }));
        iron_encode_softmax, "commands", Commands: |h| (h.cast(), operation!(iron_softmax {}));
        iron_encode_softmax, "x", Buffer: |h| (commands, operation!(iron_softmax { rows: 1, width: 1, x: with(h, IRON_F32), out: f32s }));
        iron_encode_softmax, "out", Buffer: |h| (commands, operation!(iron_softmax { rows: 1, width: 1, x: f32s, out: with(h, IRON_F32) }));
        iron_encode_argmax, "commands", Commands: |h| (h.cast(), operation!(iron_argmax {}));
        iron_encode_argmax, "x", Buffer: |h| (commands, operation!(iron_argmax { rows: 1, width: 1, x: with(h, IRON_F32), out: u32s }));
        iron_encode_argmax, "out", Buffer: |h| (commands, operation!(iron_argmax { rows: 1, width: 1, x: f32s, out: with(h, IRON_U32) }));
        iron_encode_copy, "commands", Commands: |h| (h.cast(), operation!(iron_copy {}));
        iron_encode_copy, "src", Buffer: |h| (commands, operation!(iron_copy { rows: 1, width: 1, src: with(h, IRON_F32), dst: f32s }));
        iron_encode_copy, "dst", Buffer: |h| (commands, operation!(iron_copy { rows: 1, width: 1, src: f32s, dst: with(h, IRON_F32) }));
        iron_encode_copy_bytes, "commands", Commands: |h| (h.cast(), buffer, 0, buffer, 64, 16);
        iron_encode_copy_bytes, "source", Buffer: |h| (commands, h.cast(), 0, buffer, 64, 16);
        iron_encode_copy_bytes, "destination", Buffer: |h| (commands, buffer, 0, h.cast(), 64, 16);
        iron_encode_fill, "commands", Commands: |h| (h.cast(), buffer, 0, 16, 0);
        iron_encode_fill, "buffer", Buffer: |h| (commands, h.cast(), 0, 16, 0);
        iron_library_create, "device", Device: |h| (h.cast(), c"kernel".as_ptr(), out.cast());
        iron_library_retain, "library", Library: |h| (h.cast());
        iron_library_release, "library", Library: |h| (h.cast());
        iron_kernel_create, "library", Library: |h| (h.cast(), KERNEL.as_ptr(), null(), 0, out.cast());
        iron_kernel_describe, "kernel", Kernel: |h| (h.cast(), zeroed!(iron_kernel_info));
        iron_kernel_retain, "kernel", Kernel: |h| (h.cast());
        iron_kernel_release, "kernel", Kernel: |h| (h.cast());
        iron_encode_kernel, "commands", Commands: |h| (h.cast(), fixture.kernel, dispatch(buffer.cast()));
        iron_encode_kernel, "kernel", Kernel: |h| (commands, h.cast(), dispatch(buffer.cast()));
        iron_encode_kernel, "arguments[0]", Buffer: |h| (commands, fixture.kernel, dispatch(h));
        iron_memory_describe, "device", Device: |h| (h.cast(), zeroed!(iron_memory_info));
        iron_memory_purge, "device", Device: |h| (h.cast(), null_mut());
    }
    .into_iter()
    .inspect(|_| {
        let _ = device;
    })
    .collect()
}

/// The functions of the header whose parameters include a handle.
fn functions_with_handles() -> BTreeSet<String> {
    include_str!("../../include/ironbridge.h")
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
    let calls = handle_calls(&fixture);

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
