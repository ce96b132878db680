//! Kernels from source. A software device that cannot compile source yet recognises ironbridge's own, so these tests use those as
//! any user could.

use ironbridge::kernel::{Argument, Constant, Dispatch, Grid, Kernel, Library};
use ironbridge::{Device, Error, Status};

use crate::support::{assert_status, device, numbers};

/// `native/kernels/elementwise.metal` with `args.h` in place of its include, as the build embeds it.
fn elementwise() -> String {
    include_str!("../../native/kernels/elementwise.metal")
        .lines()
        .enumerate()
        .map(|(index, line)| match line.trim() {
            "#include \"args.h\"" => format!(
                "{}\n#line {} \"elementwise.metal\"\n",
                include_str!("../../native/kernels/args.h"),
                index + 2
            ),
            _ => format!("{line}\n"),
        })
        .collect()
}

fn add_kernel(device: &Device) -> Kernel {
    let library = Library::from_source(device, &elementwise()).unwrap();
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
            Argument::values(3, &[1000u32, 0]), // a 64-bit count
        ],
        grid: Grid::Threads([1000, 1, 1]),
        threadgroup: [32, 1, 1],
    };
    // SAFETY: thread i reads a[i] and b[i] and writes element i from the offset on, all of 1000 elements inside their buffers.
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

#[test]
fn a_kernel_that_is_not_there_is_not_found() {
    let device = device();
    let library = Library::from_source(&device, &elementwise()).unwrap();
    let error = library.kernel("subtract").unwrap_err();
    assert!(matches!(error, Error::NotFound(_)), "{error:?}");
    assert!(error.to_string().contains("subtract"), "{error}");
    assert!(matches!(library.kernel("a\0b"), Err(Error::Text { .. })));
    // A constant that no kernel declares changes nothing.
    library
        .kernel_with("add", &[(7, Constant::Bool(true)), (8, Constant::F32(1.0))])
        .unwrap();
}

#[test]
fn source_with_errors_is_refused_with_a_message() {
    let error = Library::from_source(&device(), "kernel void broken( {").unwrap_err();
    assert!(
        matches!(error, Error::Compile(_) | Error::Unsupported(_)),
        "{error:?}"
    );
    assert!(!error.to_string().is_empty());
    assert!(Library::from_source(&device(), "").is_err());
}
