//! NULL pointers, sizes of structs, lengths, constants, selectors.

use std::ffi::c_void;
use std::ptr::{null, null_mut};

use ironbridge::ffi::*;
use serial_test::serial;

use crate::abi::*;
use crate::descriptions::*;
use crate::fixture::*;
use crate::weights::weights_buffer;

#[test]
#[serial]
fn pointers_that_are_null() {
    let fixture = Fixture::new();
    let Fixture {
        device,
        buffer,
        commands,
        library,
        kernel,
        ..
    } = fixture;
    let null_argument = |status, argument: &str| {
        fails(status, IRON_ERROR_INVALID_ARGUMENT, argument);
    };
    null_argument(call!(iron_device_count(null_mut())), "count");
    null_argument(call!(iron_device_describe_index(0, null_mut())), "info");
    null_argument(
        call!(iron_device_open(c"cpu".as_ptr(), null(), null_mut())),
        "device",
    );
    null_argument(call!(iron_device_describe(device, null_mut())), "info");
    null_argument(
        call!(iron_buffer_create(device, 16, null(), null_mut())),
        "buffer",
    );
    null_argument(
        call!(iron_buffer_create_with_bytes(
            device,
            page(),
            16,
            null(),
            null_mut()
        )),
        "buffer",
    );
    let mut made = buffer;
    null_argument(
        call!(iron_buffer_create_with_bytes(
            device,
            null(),
            16,
            null(),
            &mut made
        )),
        "bytes",
    );
    assert!(made.is_null(), "a failing call gives no handle");
    null_argument(
        call!(iron_buffer_wrap(
            device,
            null_mut(),
            page_size(),
            None,
            null_mut(),
            null(),
            &mut made
        )),
        "pointer",
    );
    null_argument(
        call!(iron_buffer_wrap(
            device,
            page(),
            page_size(),
            None,
            null_mut(),
            null(),
            null_mut()
        )),
        "buffer",
    );
    null_argument(call!(iron_buffer_length(buffer, null_mut())), "length");
    null_argument(call!(iron_buffer_label(buffer, null_mut(), 1)), "text");
    null_argument(call!(iron_buffer_read(buffer, 0, null_mut(), 4)), "bytes");
    null_argument(call!(iron_buffer_write(buffer, 0, null(), 4)), "bytes");
    null_argument(
        call!(iron_buffer_map(buffer, IRON_ACCESS_READ, null_mut())),
        "pointer",
    );
    null_argument(call!(iron_buffer_contents(buffer, null_mut())), "pointer");
    let of_weights = weights_buffer(device, 4096);
    null_argument(
        call!(iron_weights_write(of_weights, null(), 0, 32, page())),
        "matrix",
    );
    null_argument(
        call!(iron_weights_read(of_weights, null(), 0, 32, page())),
        "matrix",
    );
    release_buffer(of_weights);
    null_argument(
        call!(iron_commands_begin(device, null(), null_mut())),
        "commands",
    );
    null_argument(call!(iron_commands_describe(commands, null_mut())), "info");
    null_argument(call!(iron_encode_matmul(commands, null())), "matmul");
    null_argument(call!(iron_encode_embedding(commands, null())), "embedding");
    null_argument(call!(iron_encode_rope(commands, null())), "rope");
    null_argument(call!(iron_encode_attention(commands, null())), "attention");
    null_argument(
        call!(iron_encode_linear_backward(commands, null())),
        "linear",
    );
    null_argument(
        call!(iron_encode_attention_backward(commands, null())),
        "attention",
    );
    null_argument(call!(iron_encode_copy(commands, null())), "copy");
    null_argument(
        call!(iron_encode_kernel(commands, kernel, null())),
        "dispatch",
    );
    null_argument(
        call!(iron_library_create(device, null(), (&raw mut made).cast())),
        "source",
    );
    null_argument(
        call!(iron_library_create(device, c"kernel".as_ptr(), null_mut())),
        "library",
    );
    null_argument(
        call!(iron_kernel_create(
            library,
            null(),
            null(),
            0,
            (&raw mut made).cast()
        )),
        "name",
    );
    null_argument(
        call!(iron_kernel_create(
            library,
            KERNEL.as_ptr(),
            null(),
            1,
            (&raw mut made).cast()
        )),
        "constants",
    );
    null_argument(
        call!(iron_kernel_create(
            library,
            KERNEL.as_ptr(),
            null(),
            0,
            null_mut()
        )),
        "kernel",
    );
    null_argument(call!(iron_kernel_describe(kernel, null_mut())), "info");
    null_argument(call!(iron_kernel_argument(kernel, 0, null_mut())), "info");
    null_argument(
        call!(iron_library_kernel_count(library, null_mut())),
        "count",
    );
    null_argument(
        call!(iron_library_kernel_name(
            library,
            0,
            null_mut(),
            0,
            null_mut()
        )),
        "length",
    );
    null_argument(
        call!(iron_library_kernel_name(library, 0, null_mut(), 8, &mut 0)),
        "text",
    );
    null_argument(
        call!(iron_commands_submission(commands, 0, null_mut())),
        "submission",
    );
    let options = iron_library_options {
        macro_count: 1,
        ..library_options()
    };
    null_argument(
        call!(iron_library_create_with_options(
            device,
            matmul_source(),
            &options,
            (&raw mut made).cast()
        )),
        "options: macros",
    );
    null_argument(
        call!(iron_library_open(device, null(), (&raw mut made).cast())),
        "path",
    );
    null_argument(
        call!(iron_library_open(device, c"file".as_ptr(), null_mut())),
        "library",
    );
    null_argument(call!(iron_pipeline_cache_open(device, null())), "path");
    null_argument(call!(iron_capture_begin(device, null())), "path");
    null_argument(
        call!(iron_device_wrap_metal(
            null_mut(),
            null_mut(),
            null(),
            (&raw mut made).cast()
        )),
        "metal_device",
    );
    null_argument(
        call!(iron_buffer_wrap_metal(
            device,
            null_mut(),
            null(),
            &mut made
        )),
        "metal_buffer",
    );
    null_argument(call!(iron_buffer_metal(buffer, null_mut())), "metal_buffer");
    null_argument(call!(iron_memory_describe(device, null_mut())), "info");
    null_argument(call!(iron_diagnose(null_mut())), "diagnostics");
    null_argument(call!(iron_live_objects(None, null_mut())), "visit");
    null_argument(call!(iron_compute_threads(device, null_mut())), "threads");
    null_argument(call!(iron_compute_pin(device, null(), 1)), "processors");
    null_argument(call!(iron_memory_configure(device, null())), "settings");
    null_argument(
        call!(iron_memory_configuration(device, null_mut())),
        "settings",
    );
    null_argument(call!(iron_memory_list(device, None, null_mut())), "visit");
    ok(call!(iron_memory_reclaim(
        device,
        IRON_RECLAIM_PURGE,
        0,
        null_mut()
    )));
    ok(call!(iron_memory_reclaim(
        device,
        IRON_RECLAIM_PURGE,
        0,
        null_mut()
    )));
    ok(call!(iron_source(null(), 0, 0)));
    ok(call!(iron_leak_hook(None, null_mut())));
    ok(call!(iron_trace_hook(None, null_mut())));
    fixture.finish();
}

/// As if from a newer header.
#[repr(C)]
struct Longer<T> {
    known: T,
    more: [u64; 2],
}

/// The fields of a struct but for its size, with their offsets: as bindgen found them in the header.
fn fields(of: &str) -> Vec<(String, usize)> {
    let bindings = include_str!("../../src/ffi/ironbridge.rs");
    let (_, text) = bindings
        .split_once(&format!("pub struct {of} {{"))
        .expect("a struct of the header");
    let (_, text) = text.split_once("\n}").expect("an end");
    let fields: Vec<_> = text
        .split(&format!("offset_of!({of}, "))
        .skip(1)
        .map(|rest| {
            let (name, rest) = rest.split_once(") - ").expect("an offset");
            let (offset, _) = rest.split_once("usize").expect("an offset");
            (name.to_owned(), offset.parse().expect("a number"))
        })
        .filter(|(_, offset)| *offset > 0)
        .collect();
    assert!(!fields.is_empty(), "{of}");
    fields
}

#[test]
#[serial]
fn structs_say_their_size() {
    let fixture = Fixture::new();
    let Fixture {
        device, commands, ..
    } = fixture;
    macro_rules! sizes {
        ($type:ident, $argument:literal, |$value:ident| $call:expr) => {
            for (size, more) in [
                (0, 0),
                (size_of::<usize>() - 1, 0),
                (size_of::<$type>() + 1, 0x0101),
                (size_of::<$type>() + 16, 1 << 63),
                (4097, 0),
                (usize::MAX, 0),
            ] {
                let mut given = Longer {
                    known: $type {
                        size,
                        ..Default::default()
                    },
                    more: [0, more],
                };
                if size == size_of::<$type>() + 1 {
                    given.more[0] = more;
                }
                let $value = &raw mut given.known;
                fails(
                    $call,
                    IRON_ERROR_INVALID_ARGUMENT,
                    concat!($argument, ": its size is "),
                );
            }
            // A size that ends inside a field: what is there of a pointer is none.
            for (name, offset) in fields(stringify!($type)) {
                let mut given = $type {
                    size: offset + 1,
                    ..Default::default()
                };
                let $value = &raw mut given;
                fails(
                    $call,
                    IRON_ERROR_INVALID_ARGUMENT,
                    &format!(
                        "ends inside the field {name} of {}; the nearest sizes that do not are {offset} and",
                        stringify!($type)
                    ),
                );
            }
        };
    }
    let mut handle: *mut c_void = null_mut();
    let result = &raw mut handle;
    sizes!(iron_device_info, "info", |it| call!(
        iron_device_describe_index(0, it)
    ));
    sizes!(iron_device_info, "info", |it| call!(iron_device_describe(
        device, it
    )));
    sizes!(iron_device_options, "options", |it| call!(
        iron_device_open(null(), it, result.cast())
    ));
    sizes!(iron_buffer_options, "options", |it| call!(
        iron_buffer_create(device, 16, it, result.cast())
    ));
    sizes!(iron_buffer_options, "options", |it| call!(
        iron_buffer_create_with_bytes(device, page(), 16, it, result.cast())
    ));
    sizes!(iron_buffer_options, "options", |it| call!(
        iron_buffer_wrap(
            device,
            page(),
            page_size(),
            None,
            null_mut(),
            it,
            result.cast()
        )
    ));
    sizes!(iron_commands_options, "options", |it| call!(
        iron_commands_begin(device, it, result.cast())
    ));
    sizes!(iron_commands_info, "info", |it| call!(
        iron_commands_describe(commands, it)
    ));
    sizes!(iron_matmul, "matmul", |it| call!(iron_encode_matmul(
        commands, it
    )));
    sizes!(iron_embedding, "embedding", |it| call!(
        iron_encode_embedding(commands, it)
    ));
    sizes!(iron_rms_norm, "norm", |it| call!(iron_encode_rms_norm(
        commands, it
    )));
    sizes!(iron_rope, "rope", |it| call!(iron_encode_rope(
        commands, it
    )));
    sizes!(iron_attention, "attention", |it| call!(
        iron_encode_attention(commands, it)
    ));
    sizes!(iron_elementwise, "operands", |it| call!(iron_encode_add(
        commands, it
    )));
    sizes!(iron_activation, "operands", |it| call!(iron_encode_relu(
        commands, it
    )));
    sizes!(iron_add_bias, "add_bias", |it| call!(iron_encode_add_bias(
        commands, it
    )));
    sizes!(iron_transpose, "transpose", |it| call!(
        iron_encode_transpose(commands, it)
    ));
    let weights = weights_buffer(device, 4096);
    let mut rows = [0u8; 4096];
    sizes!(iron_weights, "matrix", |it| call!(iron_weights_write(
        weights,
        it,
        0,
        32,
        rows.as_ptr().cast()
    )));
    sizes!(iron_weights, "matrix", |it| call!(iron_weights_read(
        weights,
        it,
        0,
        32,
        rows.as_mut_ptr().cast()
    )));
    release_buffer(weights);
    sizes!(iron_softmax, "softmax", |it| call!(iron_encode_softmax(
        commands, it
    )));
    sizes!(iron_argmax, "argmax", |it| call!(iron_encode_argmax(
        commands, it
    )));
    sizes!(iron_linear_backward, "linear", |it| call!(
        iron_encode_linear_backward(commands, it)
    ));
    sizes!(iron_gated, "operands", |it| call!(
        iron_encode_silu_mul_backward(commands, it)
    ));
    sizes!(iron_rms_norm_backward, "norm", |it| call!(
        iron_encode_rms_norm_backward(commands, it)
    ));
    sizes!(iron_softmax_backward, "softmax", |it| call!(
        iron_encode_softmax_backward(commands, it)
    ));
    sizes!(iron_embedding_backward, "embedding", |it| call!(
        iron_encode_embedding_backward(commands, it)
    ));
    sizes!(iron_attention_backward, "attention", |it| call!(
        iron_encode_attention_backward(commands, it)
    ));
    sizes!(iron_sum_rows, "sum_rows", |it| call!(iron_encode_sum_rows(
        commands, it
    )));
    sizes!(iron_sum_squares, "sum_squares", |it| call!(
        iron_encode_sum_squares(commands, it)
    ));
    sizes!(iron_clip_norm, "clip_norm", |it| call!(
        iron_encode_clip_norm(commands, it)
    ));
    sizes!(iron_mse, "mse", |it| call!(iron_encode_mse(commands, it)));
    sizes!(iron_cross_entropy, "cross_entropy", |it| call!(
        iron_encode_cross_entropy(commands, it)
    ));
    sizes!(iron_sgd, "sgd", |it| call!(iron_encode_sgd_step(
        commands, it
    )));
    sizes!(iron_adam, "adam", |it| call!(iron_encode_adam_step(
        commands, it
    )));
    sizes!(iron_copy, "copy", |it| call!(iron_encode_copy(
        commands, it
    )));
    sizes!(iron_dispatch, "dispatch", |it| call!(iron_encode_kernel(
        commands,
        fixture.kernel,
        it
    )));
    sizes!(iron_library_options, "options", |it| call!(
        iron_library_create_with_options(device, matmul_source(), it, result.cast())
    ));
    sizes!(iron_submission, "submission", |it| call!(
        iron_commands_submission(commands, 0, it)
    ));
    sizes!(iron_kernel_info, "info", |it| call!(iron_kernel_describe(
        fixture.kernel,
        it
    )));
    sizes!(iron_kernel_argument_info, "info", |it| call!(
        iron_kernel_argument(fixture.kernel, 0, it)
    ));
    sizes!(iron_memory_info, "info", |it| call!(iron_memory_describe(
        device, it
    )));
    sizes!(iron_memory_settings, "settings", |it| call!(
        iron_memory_configure(device, it)
    ));
    sizes!(iron_memory_settings, "settings", |it| call!(
        iron_memory_configuration(device, it)
    ));
    sizes!(iron_reclaimed, "reclaimed", |it| call!(
        iron_memory_reclaim(device, IRON_RECLAIM_PURGE, 0, it)
    ));
    sizes!(iron_leaks, "leaks", |it| call!(iron_device_close(
        device, 0, it
    )));
    sizes!(iron_diagnostics, "diagnostics", |it| call!(iron_diagnose(
        it
    )));
    assert!(handle.is_null());
    fixture.finish();
}

/// A caller that was built against an older header: its structs end earlier, and nothing behind their end is touched.
#[test]
#[serial]
fn a_shorter_struct_takes_the_defaults() {
    let fixture = Fixture::new();
    let mut info = iron_memory_info {
        size: std::mem::offset_of!(iron_memory_info, peak_bytes),
        peak_bytes: 77,
        ..Default::default()
    };
    ok(call!(iron_memory_describe(fixture.device, &mut info)));
    assert_eq!(info.active_bytes, BUFFER_BYTES);
    assert_eq!(info.peak_bytes, 77);

    let options = iron_buffer_options {
        size: std::mem::offset_of!(iron_buffer_options, label),
        category: IRON_CATEGORY_WEIGHTS,
        label: std::ptr::dangling(), // not read: an older caller has no such field
        ..Default::default()
    };
    let weights = buffer_with(fixture.device, 64, &options);
    assert_eq!(
        memory(fixture.device).categories[IRON_CATEGORY_WEIGHTS as usize].bytes,
        64
    );
    release_buffer(weights);
    fixture.finish();
}

/// A caller that was built against a newer header, and uses nothing of it.
#[test]
#[serial]
fn a_longer_struct_is_taken_while_the_rest_is_zero() {
    let fixture = Fixture::new();
    let mut info = Longer {
        known: iron_memory_info {
            size: size_of::<Longer<iron_memory_info>>(),
            ..Default::default()
        },
        more: [0; 2],
    };
    ok(call!(iron_memory_describe(
        fixture.device,
        &raw mut info.known
    )));
    assert_eq!(info.known.active_bytes, BUFFER_BYTES);
    assert_eq!(info.more, [0; 2]);

    let options = Longer {
        known: iron_buffer_options {
            size: size_of::<Longer<iron_buffer_options>>(),
            category: IRON_CATEGORY_WEIGHTS,
            ..Default::default()
        },
        more: [0; 2],
    };
    let mut weights = null_mut();
    ok(call!(iron_buffer_create(
        fixture.device,
        64,
        &raw const options.known,
        &mut weights
    )));
    release_buffer(weights);
    fixture.finish();
}

#[test]
#[serial]
fn structs_without_a_size_have_reserved_fields_that_are_zero() {
    let fixture = Fixture::new();
    let Fixture {
        buffer,
        commands,
        library,
        kernel,
        ..
    } = fixture;
    for index in 0..7 {
        let mut norm = rms_norm(buffer, buffer, buffer);
        norm.weight.reserved[index] = 5;
        fails(
            call!(iron_encode_rms_norm(commands, &norm)),
            IRON_ERROR_INVALID_ARGUMENT,
            &format!("weight: reserved[{index}] is 5, this library (ABI {IRON_ABI_VERSION})"),
        );
    }
    for index in 0..5 {
        let mut arguments = [buffer_argument(0, buffer), buffer_argument(1, buffer)];
        arguments[1].reserved[index] = u32::MAX;
        fails(
            call!(iron_encode_kernel(commands, kernel, &dispatch(&arguments))),
            IRON_ERROR_INVALID_ARGUMENT,
            &format!("arguments[1]: reserved[{index}] is 4294967295"),
        );
        let mut constant = iron_constant {
            type_: IRON_CONSTANT_I32,
            ..Default::default()
        };
        constant.reserved[index] = 1;
        let mut made = null_mut();
        fails(
            call!(iron_kernel_create(
                library,
                KERNEL.as_ptr(),
                &constant,
                1,
                &mut made
            )),
            IRON_ERROR_INVALID_ARGUMENT,
            &format!("constants[0]: reserved[{index}] is 1"),
        );
    }
    for index in 0..4 {
        let mut named = iron_macro {
            name: c"NAME".as_ptr(),
            ..Default::default()
        };
        named.reserved[index] = 1;
        let options = iron_library_options {
            macros: &named,
            macro_count: 1,
            ..library_options()
        };
        let mut made = null_mut();
        fails(
            call!(iron_library_create_with_options(
                fixture.device,
                matmul_source(),
                &options,
                &mut made
            )),
            IRON_ERROR_INVALID_ARGUMENT,
            &format!("options.macros[0]: reserved[{index}] is 1"),
        );
    }
    fixture.finish();
}

#[test]
#[serial]
fn truth_values_are_0_or_1() {
    let fixture = Fixture::new();
    let Fixture {
        device,
        buffer,
        commands,
        library,
        kernel,
        ..
    } = fixture;
    macro_rules! refused {
        ($call:expr, $name:expr) => {
            fails(
                $call,
                IRON_ERROR_INVALID_ARGUMENT,
                &format!("{}: is 2, 0 and 1 are possible", $name),
            );
        };
    }
    macro_rules! product {
        ($($field:ident)*) => {$({
            let mut matmul = matmul_of((buffer, buffer, buffer), (4, 4, 4));
            matmul.$field = 2;
            refused!(call!(iron_encode_matmul(commands, &matmul)), stringify!($field));
        })*};
    }
    product!(transpose_a transpose_b);
    let mut made = null_mut();
    let mut options = buffer_options();
    options.pooled = 2;
    refused!(
        call!(iron_buffer_create(device, 64, &options, &mut made)),
        "options.pooled"
    );
    options = buffer_options();
    options.read_only = 2;
    refused!(
        call!(iron_buffer_create(device, 64, &options, &mut made)),
        "options.read_only"
    );
    let mut threads = dispatch(&[]);
    threads.threads = 2;
    refused!(
        call!(iron_encode_kernel(commands, kernel, &threads)),
        "threads"
    );
    let constant = iron_constant {
        type_: IRON_CONSTANT_BOOL,
        value: iron_constant__bindgen_ty_1 { boolean: 256 },
        ..Default::default()
    };
    let mut made = null_mut();
    fails(
        call!(iron_kernel_create(
            library,
            KERNEL.as_ptr(),
            &constant,
            1,
            &mut made
        )),
        IRON_ERROR_INVALID_ARGUMENT,
        "constants[0].value: 256 is no truth value",
    );
    fixture.finish();
}

#[test]
#[serial]
fn arrays_by_category_say_how_many_there_are() {
    let fixture = Fixture::new();
    let info = memory(fixture.device);
    assert_eq!(info.category_count, u64::from(IRON_CATEGORY_QUEUES) + 1);
    assert_eq!(info.categories.len(), IRON_CATEGORY_CAPACITY as usize);
    let rest = &info.categories[info.category_count as usize..];
    assert!(
        rest.iter()
            .all(|usage| (usage.bytes, usage.count) == (0, 0))
    );
    fixture.finish();
}

#[test]
#[serial]
fn sizes_that_are_none() {
    let fixture = Fixture::new();
    let Fixture {
        device,
        buffer,
        commands,
        ..
    } = fixture;
    let mut made = null_mut();
    for length in [0, u64::MAX, u64::MAX - 4095, 1 << 62] {
        fails(
            call!(iron_buffer_create(device, length, null(), &mut made)),
            IRON_ERROR_INVALID_ARGUMENT,
            "length",
        );
        fails(
            call!(iron_buffer_create_with_bytes(
                device,
                page(),
                length,
                null(),
                &mut made
            )),
            IRON_ERROR_INVALID_ARGUMENT,
            "length",
        );
        fails(
            call!(iron_buffer_wrap(
                device,
                page(),
                length,
                None,
                null_mut(),
                null(),
                &mut made
            )),
            IRON_ERROR_INVALID_ARGUMENT,
            "length",
        );
    }
    fails(
        call!(iron_buffer_wrap(
            device,
            page(),
            page_size() - 1,
            None,
            null_mut(),
            null(),
            &mut made
        )),
        IRON_ERROR_INVALID_ARGUMENT,
        "length",
    );
    // SAFETY: within the page.
    let inside = unsafe { page().byte_add(16) };
    fails(
        call!(iron_buffer_wrap(
            device,
            inside,
            page_size(),
            None,
            null_mut(),
            null(),
            &mut made
        )),
        IRON_ERROR_INVALID_ARGUMENT,
        "pointer",
    );
    assert!(made.is_null());

    let mut bytes = [0u8; 16];
    for (offset, length, status) in [
        (0, 0, IRON_ERROR_INVALID_ARGUMENT),
        (BUFFER_BYTES, 1, IRON_ERROR_OUT_OF_RANGE),
        (BUFFER_BYTES - 15, 16, IRON_ERROR_OUT_OF_RANGE),
        (u64::MAX, 1, IRON_ERROR_OUT_OF_RANGE),
        (1, u64::MAX, IRON_ERROR_OUT_OF_RANGE),
        (u64::MAX, u64::MAX, IRON_ERROR_OUT_OF_RANGE),
    ] {
        fails(
            call!(iron_buffer_read(
                buffer,
                offset,
                bytes.as_mut_ptr().cast(),
                length
            )),
            status,
            "buffer: ",
        );
        fails(
            call!(iron_buffer_write(
                buffer,
                offset,
                bytes.as_ptr().cast(),
                length
            )),
            status,
            "buffer: ",
        );
    }
    for (offset, length, status) in [
        (0, 0, IRON_ERROR_INVALID_ARGUMENT),
        (2, 4, IRON_ERROR_INVALID_ARGUMENT),
        (0, 6, IRON_ERROR_INVALID_ARGUMENT),
        (BUFFER_BYTES, 4, IRON_ERROR_OUT_OF_RANGE),
        (u64::MAX - 3, 4, IRON_ERROR_OUT_OF_RANGE),
        (4, u64::MAX - 3, IRON_ERROR_OUT_OF_RANGE),
    ] {
        fails(
            call!(iron_encode_fill(commands, buffer, offset, length, 0)),
            status,
            "buffer: ",
        );
        fails(
            call!(iron_encode_copy_bytes(
                commands, buffer, offset, buffer, 0, length
            )),
            status,
            "source: ",
        );
        if length > 0 && length % 4 == 0 && length < BUFFER_BYTES {
            fails(
                call!(iron_encode_copy_bytes(
                    commands, buffer, 0, buffer, offset, length
                )),
                status,
                "destination: ",
            );
        }
    }
    fails(
        call!(iron_encode_copy_bytes(commands, buffer, 0, buffer, 12, 16)),
        IRON_ERROR_INVALID_ARGUMENT,
        "destination: overlaps source",
    );
    fails(
        call!(iron_buffer_label(buffer, bytes.as_mut_ptr().cast(), 0)),
        IRON_ERROR_INVALID_ARGUMENT,
        "capacity",
    );
    fixture.finish();
}

#[test]
#[serial]
fn constants_that_are_unknown() {
    let fixture = Fixture::new();
    let Fixture { device, buffer, .. } = fixture;
    let mut made = null_mut();
    let mut pointer = null_mut();
    for what in [0, 8, u32::MAX] {
        let status = call!(iron_memory_reset(device, what));
        fails(status, IRON_ERROR_INVALID_ARGUMENT, "what");
    }
    for what in [0, 4, u32::MAX] {
        let status = call!(iron_memory_reclaim(device, what, 0, null_mut()));
        fails(status, IRON_ERROR_INVALID_ARGUMENT, "what");
    }
    let settings = iron_memory_settings {
        size: size_of::<iron_memory_settings>(),
        pool_policy: IRON_IDLE_RELEASE + 1,
        ..Default::default()
    };
    let status = call!(iron_memory_configure(device, &settings));
    fails(status, IRON_ERROR_INVALID_ARGUMENT, "policy");
    let wrong = [
        (
            iron_buffer_options {
                storage: 2,
                ..buffer_options()
            },
            "storage",
        ),
        (
            iron_buffer_options {
                category: IRON_CATEGORY_POOL,
                ..buffer_options()
            },
            "category",
        ),
        (
            iron_buffer_options {
                category: 99,
                ..buffer_options()
            },
            "category",
        ),
        (
            iron_buffer_options {
                label: c"\xFF".as_ptr(),
                ..buffer_options()
            },
            "label",
        ),
        (
            iron_buffer_options {
                read_only: 1,
                ..buffer_options()
            },
            "read_only",
        ),
    ];
    for (options, subject) in &wrong {
        fails(
            call!(iron_buffer_create(device, 16, options, &mut made)),
            IRON_ERROR_INVALID_ARGUMENT,
            subject,
        );
    }
    for (options, subject) in [
        (
            iron_buffer_options {
                storage: IRON_STORAGE_PRIVATE,
                ..buffer_options()
            },
            "private",
        ),
        (
            iron_buffer_options {
                pooled: 1,
                ..buffer_options()
            },
            "pooled",
        ),
        (
            iron_buffer_options {
                label: c"\xC3".as_ptr(),
                ..buffer_options()
            },
            "label",
        ),
    ] {
        fails(
            call!(iron_buffer_wrap(
                device,
                page(),
                page_size(),
                None,
                null_mut(),
                &options,
                &mut made
            )),
            IRON_ERROR_INVALID_ARGUMENT,
            subject,
        );
    }
    for access in [0, 4, u32::MAX] {
        fails(
            call!(iron_buffer_map(buffer, access, &mut pointer)),
            IRON_ERROR_INVALID_ARGUMENT,
            "access",
        );
        fails(
            call!(iron_buffer_unmap(buffer, access)),
            IRON_ERROR_INVALID_ARGUMENT,
            "access",
        );
    }
    fails(
        call!(iron_buffer_unmap(buffer, IRON_ACCESS_READ)),
        IRON_ERROR_STATE,
        "buffer",
    );
    let too_many = iron_device_options {
        size: size_of::<iron_device_options>(),
        max_in_flight: 65,
        ..Default::default()
    };
    fails(
        call!(iron_device_open(
            c"cpu".as_ptr(),
            &too_many,
            (&raw mut made).cast()
        )),
        IRON_ERROR_INVALID_ARGUMENT,
        "max_in_flight",
    );
    let unlimited = iron_device_options {
        max_operations: u32::MAX,
        max_in_flight: u32::MAX,
        max_flush_bytes: u64::MAX,
        ..Default::default()
    };
    release_device(open_with("cpu", &unlimited));
    fails(
        call!(iron_buffer_set_label(buffer, c"\x80".as_ptr())),
        IRON_ERROR_INVALID_ARGUMENT,
        "label",
    );
    fixture.finish();
}

#[test]
#[serial]
fn devices_that_are_none() {
    let baseline = Baseline::take();
    let mut device = null_mut();
    let mut count = 0;
    ok(call!(iron_device_count(&mut count)));
    assert!(count >= 1);
    for (selector, status) in [
        (c"gpu", IRON_ERROR_NO_DEVICE),
        (c"cpu ", IRON_ERROR_NO_DEVICE),
        (c"-1", IRON_ERROR_NO_DEVICE),
        (c"99999", IRON_ERROR_NO_DEVICE),
        (c"99999999999999999999", IRON_ERROR_NO_DEVICE),
        (c"cpu:speed=1", IRON_ERROR_INVALID_ARGUMENT),
        (c"cpu:memory_limit=much", IRON_ERROR_INVALID_ARGUMENT),
    ] {
        let opened = call!(iron_device_open(selector.as_ptr(), null(), &mut device));
        assert_eq!(name(opened), name(status), "{selector:?}: {}", last_error());
        assert!(device.is_null());
        let given = selector.to_str().expect("ASCII").trim_start_matches("cpu:");
        let named = given.split('=').next().unwrap_or_default();
        assert!(last_error().contains(named), "{named}: {}", last_error());
    }
    let mut info = iron_device_info {
        size: size_of::<iron_device_info>(),
        ..Default::default()
    };
    fails(
        call!(iron_device_describe_index(count, &mut info)),
        IRON_ERROR_OUT_OF_RANGE,
        "no device",
    );
    ok(call!(iron_device_describe_index(count - 1, &mut info)));
    assert_eq!((info.kind, info.index), (IRON_DEVICE_SOFTWARE, count - 1));
    assert!(info.max_buffer_length > 0 && info.max_threads_per_threadgroup > 0);
    baseline.holds();
}
