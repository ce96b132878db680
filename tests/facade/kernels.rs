//! Kernels from source.

use ironbridge::kernel::{Argument, Constant, Dispatch, Grid, Kernel, Library};
use ironbridge::{Device, Error, Status, f16};

use crate::support::{assert_close, assert_status, device, numbers};

const SOURCE: &str = r#"
#include <metal_stdlib>
using namespace metal;

kernel void add(device const float *a [[buffer(0)]],
                device const float *b [[buffer(1)]],
                device float *out [[buffer(2)]],
                constant uint &count [[buffer(3)]],
                uint i [[thread_position_in_grid]]) {
  if (i < count) out[i] = a[i] + b[i];
}

constant bool mean [[function_constant(0)]];
constant uint stride [[function_constant(1)]];
constant float scale [[function_constant(2)]];
constant int shift [[function_constant(3)]];

/* Each threadgroup's sum (or mean) of every stride-th element, scaled and shifted. */
kernel void reduce(device const float *x [[buffer(0)]],
                   device float *out [[buffer(1)]],
                   threadgroup float *partial [[threadgroup(0)]],
                   uint group [[threadgroup_position_in_grid]],
                   uint lane [[thread_position_in_threadgroup]],
                   uint lanes [[threads_per_threadgroup]]) {
  partial[lane] = x[(group * lanes + lane) * stride];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  for (uint half_of = lanes / 2; half_of > 0; half_of /= 2) {
    if (lane < half_of) partial[lane] += partial[lane + half_of];
    threadgroup_barrier(mem_flags::mem_threadgroup);
  }
  if (lane == 0) out[group] = partial[0] * scale / (mean ? float(lanes) : 1.0f) + float(shift);
}
"#;

fn add_kernel(device: &Device) -> Kernel {
    let library = Library::from_source(device, SOURCE).unwrap();
    library.kernel("add").unwrap() // which outlives its library
}

#[test]
fn a_kernel_runs_over_buffers_and_bytes() {
    let device = device();
    let add = add_kernel(&device);
    let info = add.info().unwrap();
    assert!(info.max_threads_per_threadgroup > 0 && info.simd_width > 0);

    let (x, y) = (numbers(1000, 1), numbers(1000, 2));
    let a = device.buffer_from(&x).unwrap();
    let b = device.buffer_from(&y).unwrap();
    let out = device.buffer::<f32>(1100).unwrap();
    let mut commands = device.commands().unwrap();
    let dispatch = Dispatch {
        arguments: &[
            Argument::read(0, &a),
            Argument::read(1, &b),
            Argument::write(2, &out).offset(400),
            Argument::values(3, &[1000u32]),
        ],
        grid: Grid::Threads([1000, 1, 1]),
        threadgroup: [32, 1, 1],
    };
    // SAFETY: thread i reads a[i] and b[i] and writes element i from the offset on, all of 1000 elements inside their
    // buffers.
    unsafe { commands.dispatch(&add, &dispatch) }.unwrap();
    drop(add);
    // The access that was declared counts.
    assert_status(out.to_vec(), Status::NotCommitted);
    assert_eq!(a.to_vec().unwrap(), x);
    commands.commit().unwrap().wait().unwrap();

    let got = out.to_vec().unwrap();
    assert_eq!(got[..100], [0.0; 100]);
    let want: Vec<f32> = x.iter().zip(&y).map(|(x, y)| x + y).collect();
    assert_eq!(got[100..], want);
}

#[test]
fn a_kernel_takes_constants_and_threadgroup_memory() {
    const GROUPS: usize = 5;
    const LANES: usize = 64;
    const STRIDE: usize = 3;
    let device = device();
    let library = Library::from_source(&device, SOURCE).unwrap();
    let x = numbers(GROUPS * LANES * STRIDE, 1);
    let input = device.buffer_from(&x).unwrap();
    for (mean, scale, shift) in [(false, 1.0f32, 0), (true, -2.5, -3)] {
        let constants = [
            Constant::at(0, mean),
            Constant::named("stride", STRIDE as u32),
            Constant::at(2, scale),
            Constant::named("shift", shift),
        ];
        let reduce = library.kernel_with("reduce", &constants).unwrap();
        let out = device.buffer::<f32>(GROUPS).unwrap();
        let mut commands = device.commands().unwrap();
        let dispatch = Dispatch {
            arguments: &[
                Argument::read(0, &input),
                Argument::write(1, &out),
                Argument::threadgroup(0, LANES * 4),
            ],
            grid: Grid::Threadgroups([GROUPS as u32, 1, 1]),
            threadgroup: [LANES as u32, 1, 1],
        };
        // SAFETY: reads every STRIDE-th of GROUPS · LANES · STRIDE elements, writes one element for each group, and has
        // one float of threadgroup memory for each lane.
        unsafe { commands.dispatch(&reduce, &dispatch) }.unwrap();
        commands.commit().unwrap().wait().unwrap();

        let want: Vec<f64> = x
            .chunks(LANES * STRIDE)
            .map(|group| {
                let sum: f64 = group.iter().step_by(STRIDE).map(|&v| f64::from(v)).sum();
                let sum = if mean { sum / LANES as f64 } else { sum };
                sum * f64::from(scale) + f64::from(shift)
            })
            .collect();
        assert_close(&out.to_vec().unwrap(), &want, 1e-5);
    }
}

#[test]
fn dispatches_that_cannot_be_are_refused() {
    let (device, other) = (device(), device());
    let add = add_kernel(&device);
    let buffer = device.buffer::<f32>(8).unwrap();
    let foreign = other.buffer::<f32>(8).unwrap();
    let arguments = [Argument::read_write(0, &buffer)];
    let fits = Dispatch {
        arguments: &arguments,
        grid: Grid::Threadgroups([1, 1, 1]),
        threadgroup: [8, 1, 1],
    };
    let too_long = [0u8; 4097];
    let cases = [
        (
            "no threads",
            Dispatch {
                grid: Grid::Threads([0, 1, 1]),
                ..fits
            },
        ),
        (
            "empty threadgroups",
            Dispatch {
                threadgroup: [8, 0, 1],
                ..fits
            },
        ),
        (
            "giant threadgroups",
            Dispatch {
                threadgroup: [1 << 20, 1, 1],
                ..fits
            },
        ),
        (
            "index 31",
            Dispatch {
                arguments: &[Argument::read(31, &buffer)],
                ..fits
            },
        ),
        (
            "4097 bytes",
            Dispatch {
                arguments: &[Argument::values(0, &too_long)],
                ..fits
            },
        ),
        (
            "no bytes",
            Dispatch {
                arguments: &[Argument::values::<u8>(0, &[])],
                ..fits
            },
        ),
        (
            "an offset past the end",
            Dispatch {
                arguments: &[Argument::read(0, &buffer).offset(33)],
                ..fits
            },
        ),
        (
            "odd threadgroup memory",
            Dispatch {
                arguments: &[Argument::threadgroup(0, 20)],
                ..fits
            },
        ),
        (
            "another device's buffer",
            Dispatch {
                arguments: &[Argument::read(0, &foreign)],
                ..fits
            },
        ),
    ];
    let mut commands = device.commands().unwrap();
    for (case, dispatch) in cases {
        // SAFETY: refused, so that nothing runs.
        let result = unsafe { commands.dispatch(&add, &dispatch) };
        assert!(
            matches!(
                result,
                Err(Error::InvalidArgument(_) | Error::WrongDevice(_))
            ),
            "{case}: {result:?}"
        );
    }
    let mut commands = other.commands().unwrap();
    // SAFETY: refused, so that nothing runs.
    let result = unsafe { commands.dispatch(&add, &fits) };
    assert!(matches!(result, Err(Error::WrongDevice(_))), "{result:?}");
}

/// What a GPU lets pass, and computes nonsense with, is an error before anything is recorded.
#[test]
fn b4_arguments_that_do_not_fit_the_kernel_are_refused() {
    let device = device();
    let add = add_kernel(&device);
    let reduce = Library::from_source(&device, SOURCE).unwrap();
    let constants = [
        Constant::at(0, true),
        Constant::at(1, 1u32),
        Constant::at(2, 1.0f32),
        Constant::at(3, 0i32),
    ];
    let reduce = reduce.kernel_with("reduce", &constants).unwrap();
    let buffer = device.buffer::<f32>(8).unwrap();
    let read = |index| Argument::read(index, &buffer);
    let count = Argument::values(3, &[8u32]);
    let mut commands = device.commands().unwrap();
    let mut refused = |kernel: &Kernel, arguments: &[Argument], status, said: &str| {
        let dispatch = Dispatch {
            arguments,
            grid: Grid::Threadgroups([1, 1, 1]),
            threadgroup: [8, 1, 1],
        };
        // SAFETY: refused, so that nothing runs.
        let error = assert_status(unsafe { commands.dispatch(kernel, &dispatch) }, status);
        assert!(error.to_string().contains(said), "{error}");
    };
    let out = Argument::write(2, &buffer);
    refused(
        &add,
        &[read(0), read(1), out],
        Status::InvalidArgument,
        "buffer index 3",
    );
    refused(
        &add,
        &[read(0), out, count],
        Status::InvalidArgument,
        "buffer index 1",
    );
    let short = Argument::values(3, &[8u8, 0]);
    refused(
        &add,
        &[read(0), read(1), out, short],
        Status::OutOfRange,
        "2 bytes for the kernel's buffer index 3",
    );
    let end = read(3).offset(30);
    refused(
        &add,
        &[read(0), read(1), out, end],
        Status::OutOfRange,
        "2 bytes for the kernel's buffer index 3",
    );
    let odd = read(1).offset(6);
    refused(
        &add,
        &[read(0), odd, out, count],
        Status::InvalidArgument,
        "no multiple of 4",
    );
    let memory = Argument::threadgroup(0, 32);
    refused(
        &add,
        &[read(0), read(1), out, count, memory],
        Status::InvalidArgument,
        "no threadgroup memory index 0",
    );
    let out = Argument::write(1, &buffer);
    refused(
        &reduce,
        &[read(0), out],
        Status::InvalidArgument,
        "threadgroup memory index 0",
    );
    commands.run().unwrap();
    assert_eq!(buffer.to_vec().unwrap(), [0.0; 8]);
}

/// Each scalar type, and vectors of each length, by index and by name.
#[test]
fn constants_have_every_type() {
    let device = device();
    let source = "#include <metal_stdlib>
        using namespace metal;
        constant bool a [[function_constant(0)]];
        constant char b [[function_constant(1)]];
        constant uchar c [[function_constant(2)]];
        constant short d [[function_constant(3)]];
        constant ushort e [[function_constant(4)]];
        constant int f [[function_constant(5)]];
        constant uint g [[function_constant(6)]];
        constant long h [[function_constant(7)]];
        constant ulong i [[function_constant(8)]];
        constant half j [[function_constant(9)]];
        constant float k [[function_constant(10)]];
        constant bool3 l [[function_constant(11)]];
        constant short3 m [[function_constant(12)]];
        constant half2 n [[function_constant(13)]];
        constant long4 o [[function_constant(14)]];
        constant uchar4 p [[function_constant(15)]];
        constant float2 q [[function_constant(16)]];
        kernel void show(device float *out [[buffer(0)]]) {
          const float all[] = {float(a), float(b), float(c), float(d), float(e), float(f), float(g),
                               float(h / 1000000000), float(i / 1000000000), float(j), k,
                               float(l.x), float(l.y), float(l.z), float(m.x),
                               float(m.y), float(m.z), float(n.x), float(n.y), float(o.x), float(o.w), float(p.x),
                               float(p.w), q.x, q.y};
          for (uint at = 0; at < 25; at++) out[at] = all[at];
        }";
    let library = Library::from_source(&device, source).unwrap();
    let half = f16::from_f32;
    let constants = [
        Constant::at(0, true),
        Constant::at(1, -100i8),
        Constant::at(2, 200u8),
        Constant::at(3, -30_000i16),
        Constant::at(4, 60_000u16),
        Constant::at(5, -70_000i32),
        Constant::at(6, 70_000u32),
        Constant::named("h", -5_000_000_000i64),
        Constant::named("i", u64::MAX),
        Constant::named("j", half(1.5)),
        Constant::named("k", -2.25f32),
        Constant::at(11, [true, false, true]),
        Constant::named("m", [-1i16, 2, -3]),
        Constant::at(13, [half(0.5), half(-4.0)]),
        Constant::at(14, [-7i64, 0, 0, 9]),
        Constant::named("p", [1u8, 2, 3, 255]),
        Constant::at(16, [8.5f32, -9.5]),
    ];
    let show = library.kernel_with("show", &constants).unwrap();
    let out = device.buffer::<f32>(25).unwrap();
    let mut commands = device.commands().unwrap();
    let dispatch = Dispatch {
        arguments: &[Argument::write(0, &out)],
        grid: Grid::Threads([1, 1, 1]),
        threadgroup: [1, 1, 1],
    };
    // SAFETY: one thread writes the 25 elements.
    unsafe { commands.dispatch(&show, &dispatch) }.unwrap();
    commands.run().unwrap();
    let largest = (u64::MAX / 1_000_000_000) as f32;
    assert_eq!(
        out.to_vec().unwrap(),
        [
            1.0, -100.0, 200.0, -30_000.0, 60_000.0, -70_000.0, 70_000.0, -5.0, largest, 1.5,
            -2.25, 1.0, 0.0, 1.0, -1.0, 2.0, -3.0, 0.5, -4.0, -7.0, 9.0, 1.0, 255.0, 8.5, -9.5
        ]
    );
    for (wrong, said) in [
        (Constant::at(3, 1u16), "is a short and was given ushort"),
        (
            Constant::named("m", [1i16, 2]),
            "is a short3 and was given short2",
        ),
        (
            Constant::at(13, [1.0f32, 2.0]),
            "is a half2 and was given float2",
        ),
    ] {
        let error = library.kernel_with("show", &[wrong]).unwrap_err();
        assert!(matches!(error, Error::Compile(_)), "{error:?}");
        assert!(error.to_string().contains(said), "{error}");
    }
    let error = library.kernel_with("show", &[Constant::named("a\0b", true)]);
    assert!(matches!(error, Err(Error::Text { .. })));
}

#[test]
fn a_kernel_that_is_not_there_is_not_found() {
    let device = device();
    let library = Library::from_source(&device, SOURCE).unwrap();
    let error = library.kernel("subtract").unwrap_err();
    assert!(matches!(error, Error::NotFound(_)), "{error:?}");
    assert!(error.to_string().contains("subtract"), "{error}");
    assert!(matches!(library.kernel("a\0b"), Err(Error::Text { .. })));
    // A constant that no kernel declares changes nothing.
    library
        .kernel_with(
            "add",
            &[Constant::at(7, true), Constant::named("none", 1.0f32)],
        )
        .unwrap();
}

#[test]
fn source_with_errors_is_refused_with_the_compilers_message() {
    let device = device();
    let error = Library::from_source(&device, "kernel void broken( {").unwrap_err();
    assert!(matches!(error, Error::Compile(_)), "{error:?}");

    let unknown = SOURCE.replace("a[i] + b[i]", "a[i] + nowhere[i]");
    let error = Library::from_source(&device, &unknown).unwrap_err();
    assert!(matches!(error, Error::Compile(_)), "{error:?}");
    assert!(error.to_string().contains("nowhere"), "{error}");
    // The device goes on.
    add_kernel(&device);
}
