//! Metal's functions of floats within the units of the last place that its specification allows, on the device.

use ironbridge::kernel::{Argument, Dispatch, Grid, Library, MathMode, Options};

use crate::support::device;

/// A function of one number, the units that it may be off, and the same in double.
type One = (&'static str, f64, fn(f64) -> f64);
/// Of two.
type Two = (&'static str, f64, fn(f64, f64) -> f64);

/// Metal Shading Language specification 3.1, section 8.4.
const ONE: [One; 21] = [
    ("exp", 4.0, f64::exp),
    ("exp2", 4.0, f64::exp2),
    ("exp10", 4.0, |x| 10f64.powf(x)),
    ("log", 4.0, f64::ln),
    ("log2", 4.0, f64::log2),
    ("log10", 4.0, f64::log10),
    ("sin", 4.0, f64::sin),
    ("cos", 4.0, f64::cos),
    ("tan", 6.0, f64::tan),
    ("asin", 4.0, f64::asin),
    ("acos", 4.0, f64::acos),
    ("atan", 5.0, f64::atan),
    ("sinh", 4.0, f64::sinh),
    ("cosh", 4.0, f64::cosh),
    ("tanh", 5.0, f64::tanh),
    ("asinh", 4.0, f64::asinh),
    ("acosh", 4.0, f64::acosh),
    ("atanh", 5.0, f64::atanh),
    ("sqrt", 0.5, f64::sqrt),
    ("rsqrt", 2.0, |x| 1.0 / x.sqrt()),
    ("1.0f / ", 0.5, |x| 1.0 / x),
];
const TWO: [Two; 5] = [
    ("pow", 16.0, f64::powf),
    ("atan2", 6.0, f64::atan2),
    ("fmod", 0.0, |x, y| x % y),
    ("fdim", 0.5, |x, y| if x <= y { 0.0 } else { x - y }),
    ("divide", 0.5, |x, y| x / y),
];

/// From one float that is tried to the next, in bits.
const STEP: usize = 9973;

/// How far a result is from the true one, in units of the last place. The rounded one has no error.
fn error_of(got: f32, want: f64) -> f64 {
    let rounded = want as f32;
    if got == rounded || (got.is_nan() && rounded.is_nan()) {
        return 0.0;
    }
    // The specification lets a subnormal result become zero.
    if got == 0.0 && want.abs() < f64::from(f32::MIN_POSITIVE) {
        return 0.0;
    }
    if !got.is_finite() || !rounded.is_finite() {
        return f64::INFINITY;
    }
    let exponent = ((want.abs().to_bits() >> 52) as i32 - 1022).max(-125);
    (f64::from(got) - want).abs() / 2f64.powi(exponent - 24)
}

/// What `expression` of every x and y is.
fn computed(expression: &str, x: &[f32], y: &[f32]) -> Vec<f32> {
    let device = device();
    let source = format!(
        "#include <metal_stdlib>\nusing namespace metal;\n\
         kernel void f(device const float *x [[buffer(0)]], device const float *y [[buffer(1)]],\n\
                       device float *out [[buffer(2)]], uint i [[thread_position_in_grid]]) {{\n\
           out[i] = {expression}; }}"
    );
    let options = Options::default().math_mode(MathMode::Safe);
    let library = Library::with_options(&device, &source, &options).unwrap();
    let kernel = library.kernel("f").unwrap();
    let [x, y] = [x, y].map(|values| device.buffer_from(values).unwrap());
    let out = device.buffer::<f32>(x.len()).unwrap();
    let dispatch = Dispatch {
        arguments: &[
            Argument::read(0, &x),
            Argument::read(1, &y),
            Argument::write(2, &out),
        ],
        grid: Grid::Threads([x.len() as u32, 1, 1]),
        threadgroup: [256, 1, 1],
    };
    let mut commands = device.commands().unwrap();
    // SAFETY: thread i touches element i of three buffers that have one for each thread.
    unsafe { commands.dispatch(&kernel, &dispatch) }.unwrap();
    commands.run().unwrap();
    out.to_vec().unwrap()
}

/// The largest error, and where.
fn worst(got: &[f32], want: impl Fn(usize) -> f64) -> (f64, usize) {
    let errors = got.iter().enumerate();
    let errors = errors.map(|(index, got)| (error_of(*got, want(index)), index));
    errors.fold(
        (0.0, 0),
        |worst, error| {
            if error.0 > worst.0 { error } else { worst }
        },
    )
}

#[test]
fn functions_of_one_number_are_as_exact_as_metals() {
    let bits = (0..1_u64 << 32).step_by(STEP);
    let x: Vec<f32> = bits
        .map(|bits| f32::from_bits(bits as u32))
        .filter(|x| !x.is_subnormal())
        .collect();
    for (name, most, oracle) in ONE {
        let got = computed(&format!("{name}(x[i])"), &x, &x);
        let (error, at) = worst(&got, |index| oracle(x[index].into()));
        println!("{name} {error}");
        assert!(error <= most, "{name}({:e}) is {error} off", x[at]);
    }
}

#[test]
fn functions_of_two_numbers_are_as_exact_as_metals() {
    const PAIRS: usize = 300_000;
    let mut state = 1_u64;
    let pair = |index: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        match index % 2 {
            0 => [
                f32::from_bits((state >> 32) as u32),
                f32::from_bits((state >> 7) as u32),
            ],
            _ => [
                (state >> 35) as u32 as f32 * 1e-7,
                (state >> 9) as i32 as f32 * 1e-8,
            ],
        }
    };
    let (x, y): (Vec<f32>, Vec<f32>) = (0..PAIRS)
        .map(pair)
        .filter(|pair| pair.iter().all(|it| !it.is_subnormal()))
        .map(|[x, y]| (x, y))
        .unzip();
    for (name, most, oracle) in TWO {
        let got = computed(&format!("{name}(x[i], y[i])"), &x, &y);
        let (error, at) = worst(&got, |index| oracle(x[index].into(), y[index].into()));
        println!("{name} {error}");
        assert!(
            error <= most,
            "{name}({:e}, {:e}) is {error} off",
            x[at],
            y[at]
        );
    }
}
