//! Libraries, kernels and dispatches of the caller's own.

use std::ffi::{CStr, CString, c_char};
use std::ptr::{null, null_mut};

use ironbridge::ffi::*;
use serial_test::serial;

use crate::abi::*;
use crate::fixture::*;

#[test]
#[serial]
fn dispatches_that_do_not_fit() {
    let fixture = Fixture::new();
    let other = open("cpu");
    let foreign = buffer(other, 64);
    let bytes = [0u8; 8];
    let buffer_argument = |index| iron_argument {
        kind: IRON_ARGUMENT_BUFFER,
        index,
        buffer: fixture.buffer,
        access: IRON_ACCESS_READ,
        ..Default::default()
    };
    let bytes_argument = |length| iron_argument {
        kind: IRON_ARGUMENT_BYTES,
        index: 3,
        bytes: bytes.as_ptr().cast(),
        length,
        ..Default::default()
    };
    let memory_argument = |length| iron_argument {
        kind: IRON_ARGUMENT_THREADGROUP,
        length,
        ..Default::default()
    };
    let wrong_arguments = [
        (
            iron_argument {
                kind: 0,
                ..Default::default()
            },
            IRON_ERROR_INVALID_ARGUMENT,
            "arguments[1]: kind 0",
        ),
        (
            buffer_argument(31),
            IRON_ERROR_OUT_OF_RANGE,
            "arguments[1]: index 31",
        ),
        (
            buffer_argument(0),
            IRON_ERROR_INVALID_ARGUMENT,
            "arguments[1]: index 0 is given twice",
        ),
        (
            iron_argument {
                offset: BUFFER_BYTES,
                ..buffer_argument(1)
            },
            IRON_ERROR_OUT_OF_RANGE,
            "arguments[1]: offset",
        ),
        (
            iron_argument {
                access: 0,
                ..buffer_argument(1)
            },
            IRON_ERROR_INVALID_ARGUMENT,
            "arguments[1]: access 0",
        ),
        (
            iron_argument {
                buffer: foreign,
                ..buffer_argument(1)
            },
            IRON_ERROR_WRONG_DEVICE,
            "arguments[1]: ",
        ),
        (
            bytes_argument(0),
            IRON_ERROR_INVALID_ARGUMENT,
            "arguments[1]: 0 bytes",
        ),
        (
            bytes_argument(4097),
            IRON_ERROR_INVALID_ARGUMENT,
            "arguments[1]: 4097 bytes",
        ),
        (
            iron_argument {
                bytes: null(),
                ..bytes_argument(8)
            },
            IRON_ERROR_INVALID_ARGUMENT,
            "arguments[1]: bytes is NULL",
        ),
        (
            memory_argument(0),
            IRON_ERROR_INVALID_ARGUMENT,
            "arguments[1]: 0 bytes",
        ),
        (
            memory_argument(8),
            IRON_ERROR_INVALID_ARGUMENT,
            "arguments[1]: 8 bytes",
        ),
        (
            memory_argument(1 << 30),
            IRON_ERROR_OUT_OF_RANGE,
            "threadgroup memory",
        ),
    ];
    let dispatch = |arguments: &[iron_argument]| iron_dispatch {
        size: size_of::<iron_dispatch>(),
        arguments: arguments.as_ptr(),
        argument_count: arguments.len(),
        grid: [8, 1, 1],
        threadgroup: [8, 1, 1],
        threads: 1,
    };
    let encode = |dispatch: &iron_dispatch| {
        call!(iron_encode_kernel(
            fixture.commands,
            fixture.kernel,
            dispatch
        ))
    };
    for (argument, status, subject) in wrong_arguments {
        fails(
            encode(&dispatch(&[buffer_argument(0), argument])),
            status,
            subject,
        );
    }
    let right = dispatch(&[]);
    for axis in 0..3 {
        let mut it = right;
        it.grid[axis] = 0;
        fails(
            encode(&it),
            IRON_ERROR_INVALID_ARGUMENT,
            &format!("grid[{axis}]: is 0"),
        );
        let mut it = right;
        it.threadgroup[axis] = 0;
        fails(
            encode(&it),
            IRON_ERROR_INVALID_ARGUMENT,
            &format!("threadgroup[{axis}]: is 0"),
        );
        let mut it = right;
        it.threadgroup[axis] = u32::MAX;
        fails(
            encode(&it),
            IRON_ERROR_OUT_OF_RANGE,
            &format!("threadgroup[{axis}]: "),
        );
    }
    let it = iron_dispatch {
        threadgroup: [1024, 1024, 1],
        ..right
    };
    fails(encode(&it), IRON_ERROR_OUT_OF_RANGE, "threadgroup: ");
    let it = iron_dispatch {
        grid: [u32::MAX, 1, 1],
        threads: 0,
        ..right
    };
    fails(encode(&it), IRON_ERROR_OUT_OF_RANGE, "grid[0]: ");
    let it = iron_dispatch {
        argument_count: 1,
        arguments: null(),
        ..right
    };
    fails(
        encode(&it),
        IRON_ERROR_INVALID_ARGUMENT,
        "arguments: is NULL",
    );
    let it = iron_dispatch {
        argument_count: usize::MAX,
        arguments: &buffer_argument(0),
        ..right
    };
    fails(encode(&it), IRON_ERROR_OUT_OF_RANGE, "argument_count");

    let commands = begin(other);
    fails(
        call!(iron_encode_kernel(commands, fixture.kernel, &right)),
        IRON_ERROR_WRONG_DEVICE,
        "kernel: ",
    );
    release_commands(commands);
    release_buffer(foreign);
    release_device(other);
    fixture.finish();
}

#[test]
#[serial]
fn libraries_and_kernels_that_are_none() {
    let fixture = Fixture::new();
    let (mut library, mut kernel) = (null_mut(), null_mut());
    fails(
        call!(iron_library_create(
            fixture.device,
            c"".as_ptr(),
            &mut library
        )),
        IRON_ERROR_INVALID_ARGUMENT,
        "source: is empty",
    );
    fails(
        call!(iron_library_create(
            fixture.device,
            c"\xFF".as_ptr(),
            &mut library
        )),
        IRON_ERROR_INVALID_ARGUMENT,
        "source: is not UTF-8",
    );
    let status = call!(iron_library_create(
        fixture.device,
        c"kernel void broken( {".as_ptr(),
        &mut library
    ));
    assert!(
        [IRON_ERROR_COMPILE, IRON_ERROR_UNSUPPORTED].contains(&status),
        "{}: {}",
        name(status),
        last_error()
    );
    assert!(last_error().len() > "iron_library_create: ".len());
    assert!(library.is_null());

    let missing = "x".repeat(3000);
    let missing_name = std::ffi::CString::new(missing.clone()).expect("no NUL");
    fails(
        call!(iron_kernel_create(
            fixture.library,
            missing_name.as_ptr(),
            null(),
            0,
            &mut kernel
        )),
        IRON_ERROR_NOT_FOUND,
        &missing, // a long message comes whole
    );
    fails(
        call!(iron_kernel_create(
            fixture.library,
            c"".as_ptr(),
            null(),
            0,
            &mut kernel
        )),
        IRON_ERROR_INVALID_ARGUMENT,
        "name: is empty",
    );
    let constant = iron_constant {
        type_: 99,
        ..Default::default()
    };
    fails(
        call!(iron_kernel_create(
            fixture.library,
            KERNEL.as_ptr(),
            &constant,
            1,
            &mut kernel
        )),
        IRON_ERROR_INVALID_ARGUMENT,
        "constants[0].type: 99",
    );
    let constant = iron_constant {
        type_: IRON_CONSTANT_U32,
        index: 1 << 16,
        ..Default::default()
    };
    fails(
        call!(iron_kernel_create(
            fixture.library,
            KERNEL.as_ptr(),
            &constant,
            1,
            &mut kernel
        )),
        IRON_ERROR_OUT_OF_RANGE,
        "constants[0].index: 65536",
    );
    for (constant, status, said) in [
        (
            iron_constant {
                type_: IRON_CONSTANT_F16,
                components: 5,
                ..Default::default()
            },
            IRON_ERROR_OUT_OF_RANGE,
            "constants[0].components: 5 is more than 4",
        ),
        (
            iron_constant {
                type_: IRON_CONSTANT_BOOL,
                components: 3,
                value: iron_constant__bindgen_ty_1 {
                    booleans: [1, 0, 2, 0],
                },
                ..Default::default()
            },
            IRON_ERROR_INVALID_ARGUMENT,
            "constants[0].value: 2 is no truth value",
        ),
        (
            iron_constant {
                type_: IRON_CONSTANT_I8,
                name: c"x".as_ptr(),
                index: 3,
                ..Default::default()
            },
            IRON_ERROR_INVALID_ARGUMENT,
            "constants[0]: has a name and an index, 3",
        ),
        (
            iron_constant {
                type_: IRON_CONSTANT_I8,
                name: c"".as_ptr(),
                ..Default::default()
            },
            IRON_ERROR_INVALID_ARGUMENT,
            "constants[0].name: is empty",
        ),
        (
            iron_constant {
                type_: IRON_CONSTANT_I8,
                name: c"\xff".as_ptr(),
                ..Default::default()
            },
            IRON_ERROR_INVALID_ARGUMENT,
            "constants[0].name: ",
        ),
    ] {
        let create = call!(iron_kernel_create(
            fixture.library,
            KERNEL.as_ptr(),
            &constant,
            1,
            &mut kernel
        ));
        fails(create, status, said);
    }
    assert!(kernel.is_null());
    fixture.finish();
}

#[test]
#[serial]
fn a_source_gets_the_files_that_it_includes() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("value.h"), "#define VALUE 7\n").expect("a file");
    std::fs::write(folder.path().join("loop.h"), "#include \"loop.h\"\n").expect("a file");
    let path = CString::new(folder.path().to_str().expect("UTF-8")).expect("no NUL");
    let folders = [c"/nowhere".as_ptr(), path.as_ptr()];
    let make = |source: &CStr, folders: &[*const c_char], text: &mut [u8], length: &mut usize| {
        call!(iron_source_with_includes(
            source.as_ptr(),
            folders.as_ptr(),
            folders.len(),
            match text.is_empty() {
                true => null_mut(),
                false => text.as_mut_ptr().cast(),
            },
            text.len(),
            length
        ))
    };
    let source =
        c"#include <value.h>\nkernel void f(device int *x [[buffer(0)]]) { x[0] = VALUE; }\n";
    let mut length = 0;
    ok(make(source, &folders, &mut [], &mut length));
    let mut text = vec![b'?'; length];
    fails(
        make(source, &folders, &mut text, &mut length),
        IRON_ERROR_OUT_OF_RANGE,
        "text: there is room for",
    );
    assert!(text.iter().all(|&byte| byte == b'?'));
    ok(make(source, &folders, &mut [], &mut length));
    text.push(b'?');
    ok(make(source, &folders, &mut text, &mut length));
    let made = CStr::from_bytes_with_nul(&text).expect("one NUL, at the end");
    assert_eq!(made.to_bytes().len(), length);
    assert!(made.to_str().expect("UTF-8").contains("#define VALUE 7"));
    let fixture = Fixture::new();
    let mut library = null_mut();
    ok(call!(iron_library_create(
        fixture.device,
        made.as_ptr(),
        &mut library
    )));
    ok(call!(iron_library_release(library)));
    fixture.finish();

    // What no folder has stays.
    ok(make(
        c"#include <metal_stdlib>",
        &[],
        &mut text,
        &mut length,
    ));
    assert_eq!(&text[..length], b"#include <metal_stdlib>\n");
    fails(
        make(c"\n#include <loop.h>", &folders, &mut text, &mut length),
        IRON_ERROR_COMPILE,
        "loop.h",
    );
    fails(
        make(c"x", &[null()], &mut text, &mut length),
        IRON_ERROR_INVALID_ARGUMENT,
        "folders[0]: is NULL",
    );
    let missing = call!(iron_source_with_includes(
        null(),
        null(),
        0,
        null_mut(),
        0,
        &mut length
    ));
    fails(missing, IRON_ERROR_INVALID_ARGUMENT, "source: is NULL");
}

#[test]
#[serial]
fn kernels_of_which_no_pipeline_can_be_made_say_why() {
    const SOURCE: &CStr = c"#include <metal_stdlib>
        constant uint length [[function_constant(3)]];
        constant bool chosen [[function_constant(4)]];
        kernel void needs(device uint *out [[buffer(0)]]) { out[0] = chosen ? length : 0; }
        kernel void hoards(device float *out [[buffer(0)]], uint i [[thread_index_in_threadgroup]]) {
          threadgroup float much[10000];
          much[i] = out[i];
          out[i] = much[i];
        }";
    let device = open("cpu:strict=apple"); // one that wants every constant set
    let mut library = null_mut();
    ok(call!(iron_library_create(
        device,
        SOURCE.as_ptr(),
        &mut library
    )));
    let create = |name: &CStr, constants: &[iron_constant]| {
        let mut kernel = null_mut();
        let status = call!(iron_kernel_create(
            library,
            name.as_ptr(),
            constants.as_ptr(),
            constants.len(),
            &mut kernel
        ));
        assert_eq!(kernel.is_null(), status != IRON_OK);
        (status, kernel)
    };
    let number = |index, u32| iron_constant {
        index,
        type_: IRON_CONSTANT_U32,
        value: iron_constant__bindgen_ty_1 { u32_: u32 },
        ..Default::default()
    };
    let boolean = |index| iron_constant {
        index,
        type_: IRON_CONSTANT_BOOL,
        value: iron_constant__bindgen_ty_1 { boolean: 1 },
        ..Default::default()
    };
    for (name, constants, reason) in [
        (
            c"hoards",
            &[][..],
            "hoards: its variables take 40000 bytes of threadgroup memory, the device has 32768",
        ),
        (
            c"needs",
            &[],
            "kernel needs: function constant `", // one of the two
        ),
        (
            c"needs",
            &[boolean(4)],
            "kernel needs: function constant `length` [[function_constant(3)]] has no value",
        ),
        (
            c"needs",
            &[boolean(4), boolean(3)],
            "kernel needs: function constant `length` [[function_constant(3)]] is a uint and was given bool",
        ),
    ] {
        fails(create(name, constants).0, IRON_ERROR_COMPILE, reason);
    }
    let (status, kernel) = create(c"needs", &[boolean(4), number(3, 5)]);
    ok(status);
    ok(call!(iron_kernel_release(kernel)));
    ok(call!(iron_library_release(library)));
    ok(call!(iron_device_close(device, u64::MAX, null_mut())));
}

#[test]
#[serial]
fn a_library_lists_its_kernels_and_a_kernel_its_arguments() {
    const SOURCE: &CStr = c"#include <metal_stdlib>
        struct Sizes { metal::uint3 size; metal::half4 scale; };
        kernel void first(device const float *in [[buffer(3)]], device metal::half4 *out [[buffer(1)]],
                          constant Sizes &sizes [[buffer(0)]], constant void *any [[buffer(9)]],
                          threadgroup float4 *shared [[threadgroup(2)]], uint i [[thread_position_in_grid]]) {}
        template <typename T> [[kernel]] void fill(device T *out, constant T &value) { *out = value; }
        template [[host_name(\"fill of shorts\")]] [[kernel]] decltype(fill<short>) fill<short>;";
    let fixture = Fixture::new();
    let mut library = null_mut();
    ok(call!(iron_library_create(
        fixture.device,
        SOURCE.as_ptr(),
        &mut library
    )));
    let (mut count, mut length) = (0, 0);
    ok(call!(iron_library_kernel_count(library, &mut count)));
    assert_eq!(count, 2);
    let mut text = [b'?'; 15];
    let place = text.as_mut_ptr().cast();
    let mut name = |index, place, capacity| {
        call!(iron_library_kernel_name(
            library,
            index,
            place,
            capacity,
            &mut length
        ))
    };
    fails(name(2, place, 15), IRON_ERROR_OUT_OF_RANGE, "index: 2");
    fails(name(1, place, 14), IRON_ERROR_OUT_OF_RANGE, "capacity: 14");
    ok(name(1, null_mut(), 0));
    ok(name(1, place, 15));
    assert_eq!((&text, length), (b"fill of shorts\0", 14));

    let arguments = |name: &CStr| {
        let mut kernel = null_mut();
        ok(call!(iron_kernel_create(
            library,
            name.as_ptr(),
            null(),
            0,
            &mut kernel
        )));
        let argument = |position| {
            let mut info = iron_kernel_argument_info {
                size: size_of::<iron_kernel_argument_info>(),
                ..Default::default()
            };
            let status = call!(iron_kernel_argument(kernel, position, &mut info));
            (status, info)
        };
        let arguments: Vec<_> = (0..)
            .map(argument)
            .take_while(|(status, _)| *status == IRON_OK)
            .map(|(_, it)| (it.kind, it.index, it.access, it.byte_size, it.alignment))
            .collect();
        fails(
            argument(arguments.len() as u32).0,
            IRON_ERROR_OUT_OF_RANGE,
            "position: ",
        );
        ok(call!(iron_kernel_release(kernel)));
        arguments
    };
    const READ: iron_access = IRON_ACCESS_READ;
    const BOTH: iron_access = IRON_ACCESS_READ_WRITE;
    assert_eq!(
        arguments(c"first"),
        [
            (IRON_ARGUMENT_BUFFER, 3, READ, 0, 4),
            (IRON_ARGUMENT_BUFFER, 1, BOTH, 0, 8),
            (IRON_ARGUMENT_BUFFER, 0, READ, 32, 16),
            (IRON_ARGUMENT_BUFFER, 9, READ, 0, 1),
            (IRON_ARGUMENT_THREADGROUP, 2, BOTH, 0, 16),
        ]
    );
    assert_eq!(
        arguments(c"fill of shorts"),
        [
            (IRON_ARGUMENT_BUFFER, 0, BOTH, 0, 2),
            (IRON_ARGUMENT_BUFFER, 1, READ, 2, 2),
        ]
    );
    ok(call!(iron_library_release(library)));
    fixture.finish();
}

#[test]
#[serial]
fn a_kernel_runs_over_buffers_and_bytes() {
    /// native/kernels/args.h
    #[repr(C)]
    #[derive(Default)]
    struct MatmulArgs {
        /// rows and batches of a, b and c
        strides: [u64; 6],
        /// m, n, k, batch, transpose_a, transpose_b, has_bias, reserved
        numbers: [u32; 8],
    }
    let fixture = Fixture::new();
    let (a, b, c) = (
        buffer_of(fixture.device, &[1.0, 2.0, 3.0, 4.0]),
        buffer_of(fixture.device, &[0.0, 1.0, 1.0, 0.0]),
        buffer(fixture.device, 16),
    );
    let numbers = MatmulArgs {
        strides: [2, 0, 2, 0, 2, 0],
        numbers: [2, 2, 2, 1, 0, 0, 0, 0],
    };
    let argument = |index, buffer, access| iron_argument {
        kind: IRON_ARGUMENT_BUFFER,
        index,
        buffer,
        access,
        ..Default::default()
    };
    let arguments = [
        iron_argument {
            kind: IRON_ARGUMENT_BYTES,
            index: 4,
            bytes: (&raw const numbers).cast(),
            length: size_of_val(&numbers) as u64,
            ..Default::default()
        },
        argument(3, c, IRON_ACCESS_WRITE),
        argument(0, a, IRON_ACCESS_READ),
        argument(1, b, IRON_ACCESS_READ),
        argument(2, c, IRON_ACCESS_WRITE), // in the bias's place
    ];
    let dispatch = iron_dispatch {
        size: size_of::<iron_dispatch>(),
        arguments: arguments.as_ptr(),
        argument_count: arguments.len(),
        grid: [2, 2, 1],
        threadgroup: [1, 1, 1],
        threads: 1,
    };
    let commands = begin(fixture.device);
    ok(call!(iron_encode_kernel(
        commands,
        fixture.kernel,
        &dispatch
    )));
    commit_and_wait(commands);
    assert_eq!(read(c, 4), [2.0, 1.0, 4.0, 3.0]);
    let mut info = iron_kernel_info {
        size: size_of::<iron_kernel_info>(),
        ..Default::default()
    };
    ok(call!(iron_kernel_describe(fixture.kernel, &mut info)));
    assert!(info.max_threads_per_threadgroup > 0 && info.simd_width > 0);
    // On the software device this one is native code, which states no arguments, unless all come from their source.
    let from_source =
        std::env::var("IRONBRIDGE_SOFT_KERNELS").is_ok_and(|kernels| kernels == "msl");
    assert_eq!(info.argument_count, if from_source { 5 } else { 0 });
    release_commands(commands);
    for buffer in [a, b, c] {
        release_buffer(buffer);
    }
    fixture.finish();
}

#[test]
#[serial]
fn a_kernel_gets_textures_of_its_shape() {
    const SOURCE: &CStr = c"#include <metal_stdlib>
using namespace metal;
kernel void sum(texture3d<float> t [[texture(0)]], device float *out [[buffer(0)]],
                uint i [[thread_position_in_grid]]) {
  out[i] = 0;
  for (uint y = 0; y < t.get_height(); y++)
    for (uint x = 0; x < t.get_width(); x++) out[i] += t.read(uint3(x, y, i)).x;
}
";
    let fixture = Fixture::new();
    let mut library = null_mut();
    ok(call!(iron_library_create(
        fixture.device,
        SOURCE.as_ptr(),
        &mut library
    )));
    let mut kernel = null_mut();
    ok(call!(iron_kernel_create(
        library,
        c"sum".as_ptr(),
        null(),
        0,
        &mut kernel
    )));
    let mut info = iron_kernel_argument_info {
        size: size_of::<iron_kernel_argument_info>(),
        ..Default::default()
    };
    ok(call!(iron_kernel_argument(kernel, 0, &mut info)));
    assert_eq!(
        (info.kind, info.texture_type),
        (IRON_ARGUMENT_TEXTURE, 7) // MTLTextureType3D
    );
    // Planes of two rows of three, of which the buffer has a row more.
    let texels: Vec<f32> = (0..14).map(|i| (i * i) as f32).collect();
    let (from, out) = (
        buffer_of(fixture.device, &texels),
        buffer(fixture.device, 8),
    );
    let encode = |commands, texture: &iron_texture| {
        let arguments = [
            iron_argument {
                kind: IRON_ARGUMENT_TEXTURE,
                buffer: from,
                offset: 4,
                bytes: std::ptr::from_ref(texture).cast(),
                access: IRON_ACCESS_READ,
                ..Default::default()
            },
            iron_argument {
                kind: IRON_ARGUMENT_BUFFER,
                buffer: out,
                access: IRON_ACCESS_WRITE,
                ..Default::default()
            },
        ];
        let dispatch = iron_dispatch {
            size: size_of::<iron_dispatch>(),
            arguments: arguments.as_ptr(),
            argument_count: arguments.len(),
            grid: [2, 1, 1],
            threadgroup: [2, 1, 1],
            threads: 1,
        };
        call!(iron_encode_kernel(commands, kernel, &dispatch))
    };
    let right = iron_texture {
        format: IRON_PIXEL_R32_FLOAT,
        width: 3,
        height: 2,
        shape: IRON_TEXTURE_SHAPE_3D,
        layers: 2,
        ..Default::default()
    };
    let commands = begin(fixture.device);
    ok(encode(commands, &right));
    commit_and_wait(commands);
    let sum = |range: std::ops::Range<usize>| texels[range].iter().sum::<f32>();
    assert_eq!(read(out, 2), [sum(1..7), sum(7..13)]);
    release_commands(commands);

    let commands = begin(fixture.device);
    // The struct of a caller that knows 2D textures alone.
    let older = iron_texture {
        format: IRON_PIXEL_R32_FLOAT,
        width: 3,
        height: 2,
        ..Default::default()
    };
    let (invalid, far) = (IRON_ERROR_INVALID_ARGUMENT, IRON_ERROR_OUT_OF_RANGE);
    let wrong = [
        (older, invalid, "its shape is 2D, and the kernel takes 3D"),
        (iron_texture { shape: 8, ..right }, invalid, "shape 8"),
        (
            iron_texture {
                reserved: [1],
                ..right
            },
            invalid,
            "reserved[0]",
        ),
        (iron_texture { layers: 0, ..right }, far, "layers 0"),
        (
            iron_texture { layers: 3, ..right },
            far,
            "a texture of 72 bytes",
        ),
        (
            iron_texture {
                slice_bytes: 20,
                ..right
            },
            far,
            "slice_bytes 20",
        ),
        (
            iron_texture {
                slice_bytes: 26,
                ..right
            },
            invalid,
            "offset 4, row_bytes 12 and slice_bytes 26 are to be multiples of 4",
        ),
        (iron_texture { height: 0, ..right }, far, "height 0"),
    ];
    for (texture, status, subject) in wrong {
        fails(
            encode(commands, &texture),
            status,
            &format!("arguments[0]: {subject}"),
        );
    }
    release_commands(commands);
    ok(call!(iron_kernel_release(kernel)));
    ok(call!(iron_library_release(library)));
    release_buffer(from);
    release_buffer(out);
    fixture.finish();
}
