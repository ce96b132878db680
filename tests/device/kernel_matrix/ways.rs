//! The ways in which an operation is run, and what is asked of its output in each.

use ironbridge::ops::Activation;
use ironbridge::{Commands, DType, Device, Result, Status, Tensor};
use serial_test::serial;

use crate::kernel_matrix::typed::{Typed, values};
use crate::support::run;

/// The largest relative error of rounding to F32.
pub const ROUNDING: f64 = 1.0 / (1u64 << 24) as f64;

/// What the environment says when the software device compiles and runs kernels: `IRONBRIDGE_SOFT_KERNELS`,
/// `…_LANE_ORDER` and `…_VALIDATE`.
const WAYS: [[&str; 3]; 4] = [
    ["native", "forward", "0"],
    ["msl", "forward", "0"],
    ["msl", "reverse", "1"],
    ["msl", "random:7", "0"],
];

/// Takes effect with the next kernel that is compiled or run.
fn choose([kernels, order, validate]: [&str; 3]) {
    // SAFETY: the tests of this process run one after another, and what they started is complete. The other threads,
    // the harness's and the devices', read the environment through std only, whose lock this takes.
    unsafe {
        std::env::set_var("IRONBRIDGE_SOFT_KERNELS", kernels);
        std::env::set_var("IRONBRIDGE_SOFT_LANE_ORDER", order);
        std::env::set_var("IRONBRIDGE_SOFT_VALIDATE", validate);
    }
}

/// A byte that no element is written as: of every float type four or two of them make a NaN.
const POISON: u8 = 0xff;

/// Rows of an output.
pub struct Output {
    pub dtype: DType,
    pub rows: usize,
    pub width: usize,
    /// From row to row.
    pub stride: usize,
    /// What the rows hold before; nothing: poison.
    pub before: Option<Vec<u8>>,
}

impl Output {
    pub fn strided(dtype: DType, rows: usize, width: usize, stride: usize) -> Output {
        Output {
            dtype,
            rows,
            width,
            stride,
            before: None,
        }
    }

    /// The operand itself.
    pub fn in_place(x: &Typed, rows: usize, width: usize) -> Output {
        Output {
            before: Some(x.bytes.clone()),
            ..Output::strided(x.dtype, rows, width, width)
        }
    }
}

/// A value, and how far off the native and the Metal kernel may be, and those for devices of many cores.
#[derive(Clone, Copy)]
pub struct Want {
    pub value: f64,
    pub native: f64,
    pub metal: f64,
    pub wide: f64,
}

/// Values of which both kernels may be off by `tolerance` of the value itself.
pub fn close(values: Vec<f64>, tolerance: f64) -> Vec<Want> {
    let close = |value: f64| within(value, tolerance * value.abs());
    values.into_iter().map(close).collect()
}

/// Values that both kernels must give.
pub fn exactly(values: Vec<f64>) -> Vec<Want> {
    close(values, 0.0)
}

pub fn within(value: f64, tolerance: f64) -> Want {
    Want {
        value,
        native: tolerance,
        metal: tolerance,
        wide: tolerance,
    }
}

/// A device for each way, so that none has the kernels of another, and the first NVIDIA GPU if there is one; and
/// whether the processors have the kernels of devices of many cores.
pub struct Ways(Vec<Device>, Option<Device>, bool);

/// How many of the ways there are. A machine whose GPU is to be tested may have nothing that compiles the Metal source
/// for its processor: `IRONBRIDGE_DEVICE` says so, and the native kernels and the GPU remain.
fn count() -> usize {
    match std::env::var("IRONBRIDGE_DEVICE") {
        Ok(device) if device.starts_with("nvidia") => 1,
        _ => WAYS.len(),
    }
}

impl Ways {
    pub fn open() -> Ways {
        Ways::of("cpu", false)
    }

    /// The same with a processor that is given the kernels of a device of many cores.
    pub fn of_many_cores() -> Ways {
        Ways::of("cpu:cores=132", true)
    }

    /// Those of a GPU of few cores.
    pub fn of_few_cores() -> Ways {
        Ways::of("cpu:cores=8", false)
    }

    pub fn has_gpu(&self) -> bool {
        self.1.is_some()
    }

    fn of(selector: &str, many_cores: bool) -> Ways {
        let open = |_| Device::open(selector).expect("the software device is everywhere");
        let gpu = match Device::open("nvidia") {
            Ok(gpu) => Some(gpu),
            Err(error) if error.status() == Some(Status::NoDevice) => None,
            Err(error) => panic!("nvidia: {error}"),
        };
        assert!(count() > 1 || gpu.is_some(), "there is no GPU to test");
        Ways(WAYS[..count()].iter().map(open).collect(), gpu, many_cores)
    }

    /// Runs what `record` records of the inputs and the output, in every way. Each element must be what is wanted,
    /// nothing outside of the rows may be touched, and the order of the lanes may not matter to a single bit.
    pub fn check(
        &self,
        what: &str,
        inputs: &[&Typed],
        output: &Output,
        want: &[Want],
        record: impl Fn(&mut Commands, &[Tensor<'_>], Tensor<'_>) -> Result<()>,
    ) {
        assert_eq!(want.len(), output.rows * output.width, "{what}");
        let bytes = |elements: usize| output.dtype.bytes(elements).expect("whole blocks");
        let (stride, width) = (bytes(output.stride), bytes(output.width));
        let size = output.dtype.block_bytes();
        // Longer than a row, and than what a SIMD-group writes at a time.
        let guard = (stride + 256).next_multiple_of(64);
        let length = guard + (output.rows - 1) * stride + width + guard;
        let rows =
            || (0..output.rows).map(|row| guard + row * stride..guard + row * stride + width);
        let mut before = vec![POISON; length.next_multiple_of(4)];
        if let Some(start) = &output.before {
            for (row, start) in rows().zip(start.chunks(width)) {
                before[row].copy_from_slice(start);
            }
        }

        let mut results: Vec<Vec<u8>> = Vec::new();
        let gpu = self.1.iter().map(|gpu| (["gpu", "", ""], gpu));
        for (way, device) in WAYS.into_iter().zip(&self.0).chain(gpu) {
            if way[0] != "gpu" {
                choose(way);
            }
            let what = format!("{what}: {way:?}");
            let buffers: Vec<_> = (inputs.iter())
                .map(|input| device.buffer_from(&input.bytes).expect("memory"))
                .collect();
            let tensors: Vec<Tensor> = (buffers.iter().zip(inputs))
                .map(|(buffer, input)| buffer.tensor_at(0, input.dtype))
                .collect();
            let out = device.buffer_from(&before).expect("memory");
            run(device, |commands| {
                let place = out.tensor_at(guard, output.dtype);
                record(commands, &tensors, place.row_stride(output.stride))
            })
            .unwrap_or_else(|error| panic!("{what}: {error}"));

            let mut after = out.to_vec().expect("it is complete");
            for (row, want) in rows().zip(want.chunks(output.width)) {
                let bytes = &after[row.clone()];
                let got = values(output.dtype, bytes);
                for (place, (got, want)) in got.into_iter().zip(want).enumerate() {
                    let tolerance = match way[0] {
                        "gpu" => want.wide,
                        _ if self.2 => want.wide,
                        "native" => want.native,
                        _ => want.metal,
                    };
                    let close = (got - want.value).abs() <= tolerance || got == want.value;
                    // A NaN that is wanted is one that was written.
                    let nan = want.value.is_nan()
                        && got.is_nan()
                        && bytes[place * size..][..size] != vec![POISON; size];
                    assert!(
                        close || nan,
                        "{what}: element {place} of the row at {row:?} is {got}, not {} ± {tolerance}",
                        want.value
                    );
                }
            }
            results.push(after.clone());
            rows().for_each(|row| after[row].fill(POISON));
            let touched = after.iter().position(|byte| *byte != POISON);
            assert_eq!(touched, None, "{what}: a byte outside was written");
        }
        // A GPU sums in an order of its own.
        for (result, way) in results[1..].iter().zip(&WAYS[1..count()]) {
            assert!(*result == results[1], "{what}: {way:?} gives other bits");
        }
    }
}

/// The environment is heard: a wrong wish for the lanes is an error where the kernels come from their Metal source.
#[test]
#[serial]
fn each_way_is_the_one_that_it_says() {
    for [kernels, ..] in WAYS {
        choose([kernels, "sideways", "0"]);
        let device = Device::open("cpu").expect("the software device is everywhere");
        let x = device.buffer_from(&[-1.0f32]).expect("memory");
        let relu = run(&device, |commands| {
            commands.relu(&Activation::new(x.tensor().vector(1), x.tensor().vector(1)))
        });
        choose(WAYS[0]); // for tests that choose none
        match kernels {
            // A strict device runs the Metal source, whatever is asked for.
            "native" if !is_strict() => relu.expect("has no lanes"),
            _ => {
                let error = relu.expect_err("there is no such order").to_string();
                assert!(error.contains("IRONBRIDGE_SOFT_LANE_ORDER"), "{error}");
            }
        }
    }
}

fn is_strict() -> bool {
    std::env::var_os("IRONBRIDGE_SOFT_STRICT").is_some_and(|rules| rules == "apple")
}
