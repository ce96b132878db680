//! The mathematics, integer and geometric functions, against Rust's in float64.

use half::f16;

use super::program::Program;

/// `function` of every x, as MSL and as Rust have it, within `ulps` of float.
fn unary(function: &str, x: &[f32], oracle: impl Fn(f64) -> f64, ulps: f64) {
    let body = format!(
        "kernel void f(device float *out [[buffer(0)]], device const float *x [[buffer(1)]], uint i [[thread_position_in_grid]]) {{\n\
           uint n = {}; if (i >= n) return;\n\
           out[i] = {function}(x[i]); out[n + i] = metal::precise::{function}(float4(0.25, x[i], 0.25, 0.25)).y; }}",
        x.len()
    );
    let out = Program::new("f", &body)
        .input(1, x)
        .groups([1, 1, 1], [64, 1, 1])
        .run::<f32>(2 * x.len());
    for (index, value) in out.iter().enumerate() {
        let expected = oracle(f64::from(x[index % x.len()]));
        let unit =
            f64::from((expected as f32).abs().max(f32::MIN_POSITIVE)) * f64::from(f32::EPSILON);
        let close =
            (f64::from(*value) - expected).abs() <= ulps * unit || f64::from(*value) == expected;
        assert!(
            close || (value.is_nan() && expected.is_nan()),
            "{function}({}) = {value}, not {expected}",
            x[index % x.len()]
        );
    }
}

#[test]
fn functions_of_one_argument() {
    let real = [
        -3.7f32, -1.0, -0.5, -0.0, 0.0, 0.3, 0.5, 1.0, 1.5, 2.5, 20.25,
    ];
    let positive = [1e-6f32, 0.1, 0.5, 1.0, 3.0, 1e6];
    let unit = [-1.0f32, -0.3, 0.0, 0.7, 1.0];
    unary("exp", &real, f64::exp, 2.0);
    unary("exp2", &real, f64::exp2, 2.0);
    unary("exp10", &real, |x| 10f64.powf(x), 4.0);
    unary("log", &positive, f64::ln, 2.0);
    unary("log2", &positive, f64::log2, 2.0);
    unary("log10", &positive, f64::log10, 2.0);
    unary("sqrt", &positive, f64::sqrt, 0.5);
    unary("rsqrt", &positive, |x| 1.0 / x.sqrt(), 2.0);
    unary("sin", &real, f64::sin, 2.0);
    unary("cos", &real, f64::cos, 2.0);
    unary("tan", &real, f64::tan, 4.0);
    unary("asin", &unit, f64::asin, 2.0);
    unary("acos", &unit, f64::acos, 2.0);
    unary("atan", &real, f64::atan, 2.0);
    unary("sinh", &real, f64::sinh, 3.0);
    unary("cosh", &real, f64::cosh, 3.0);
    unary("tanh", &real, f64::tanh, 2.0);
    unary("asinh", &real, f64::asinh, 4.0);
    unary("acosh", &[1.0, 1.5, 20.0], f64::acosh, 4.0);
    unary("atanh", &[-0.9, 0.0, 0.5], f64::atanh, 4.0);
    unary("floor", &real, f64::floor, 0.0);
    unary("ceil", &real, f64::ceil, 0.0);
    unary("round", &real, f64::round, 0.0);
    unary("rint", &real, f64::round_ties_even, 0.0);
    unary("trunc", &real, f64::trunc, 0.0);
    unary("fract", &real, |x| x - x.floor(), 1.0);
    unary(
        "sign",
        &real,
        |x| if x == 0.0 { 0.0 } else { x.signum() },
        0.0,
    );
    unary("saturate", &real, |x| x.clamp(0.0, 1.0), 0.0);
    unary("fabs", &real, f64::abs, 0.0);
    unary(
        "sinpi",
        &[0.5, 0.25, 100.5, -0.75],
        |x| (x * std::f64::consts::PI).sin(),
        4.0,
    );
    unary(
        "cospi",
        &[0.125, 1.0, 100.0, -0.25],
        |x| (x * std::f64::consts::PI).cos(),
        4.0,
    );
}

/// Scalar expressions with their values.
fn expressions(list: &[(&str, f32)]) {
    let lines: String = list
        .iter()
        .enumerate()
        .map(|(index, (expression, _))| format!("out[{index}] = float({expression});\n"))
        .collect();
    let body = format!(
        "kernel void f(device float *out [[buffer(0)]], device const float *x [[buffer(1)]]) {{\n{lines}}}"
    );
    let out = Program::new("f", &body)
        .input(1, &[2.0f32, 3.0, f32::NAN])
        .groups([1, 1, 1], [1, 1, 1])
        .run::<f32>(list.len());
    for ((expression, expected), found) in list.iter().zip(&out) {
        assert!(
            found == expected || (found.is_nan() && expected.is_nan()),
            "{expression} = {found}, not {expected}"
        );
    }
}

#[test]
fn functions_of_several_arguments() {
    expressions(&[
        ("max(x[0], x[1])", 3.0),
        ("min(2, 3u)", 2.0),
        ("max(x[2], 1.0f)", 1.0),
        ("fmin(1.0f, x[2])", 1.0),
        ("clamp(5.0f, 0.0f, x[0])", 2.0),
        ("clamp(int3(-5, 1, 9), 0, 3).z", 3.0),
        ("pow(x[0], 10.0f)", 1024.0),
        ("powr(x[0], 0.5f) * powr(x[0], 0.5f) > 1.9999f", 1.0),
        ("fmod(7.5f, x[0])", 1.5),
        ("atan2(1.0f, 1.0f) == M_PI_4_F", 1.0),
        ("copysign(x[0], -0.0f)", -2.0),
        ("fma(x[0], x[1], 1.0f)", 7.0),
        ("mad(x[0], x[1], 1.0f)", 7.0),
        ("mix(1.0f, 3.0f, 0.25f)", 1.5),
        ("mix(float2(1), float2(3), 0.5f).y", 2.0),
        ("step(1.0f, x[0])", 1.0),
        ("smoothstep(0.0f, 4.0f, x[0])", 0.5),
        ("fdim(x[1], x[0])", 1.0),
        ("max3(1, 5, 3)", 5.0),
        ("min3(2.0f, 1.0f, 3.0f)", 1.0),
        ("median3(9.0f, 1.0f, x[1])", 3.0),
        ("ldexp(x[0], 3)", 16.0),
        ("abs(-3)", 3.0),
        ("abs(-2.5h)", 2.5),
        (
            "isnan(x[2]) * 4 + isinf(INFINITY) * 2 + isfinite(x[0])",
            7.0,
        ),
        ("signbit(-0.0f)", 1.0),
        ("select(int2(1, 2), int2(3, 4), bool2(false, true)).y", 4.0),
        ("exp(half(1)) > 2.71h", 1.0),
        ("fast::exp(0.0f) + precise::sin(0.0f)", 1.0),
        ("numeric_limits<half>::max() == HALF_MAX", 1.0),
        ("INT_MAX", 2147483648.0),
        ("isnan(nextafter(x[2], 1.0f))", 1.0),
    ]);
}

#[test]
fn results_through_references() {
    let body = "kernel void f(device float *out [[buffer(0)]]) {\n\
                  int e; float m = frexp(12.0f, e); float whole; float part = modf(-2.75f, whole); float c; float s = sincos(0.0f, c);\n\
                  out[0] = m; out[1] = e; out[2] = whole; out[3] = part; out[4] = s; out[5] = c; out[6] = ilogb(10.0f); }";
    let out = Program::new("f", body)
        .groups([1, 1, 1], [1, 1, 1])
        .run::<f32>(7);
    assert_eq!(out, [0.75, 4.0, -2.0, -0.75, 0.0, 1.0, 3.0]);
}

#[test]
fn integers() {
    expressions(&[
        ("popcount(0xffu)", 8.0),
        ("popcount(short(-1))", 16.0),
        ("clz(1u) + clz(uchar(1)) * 100", 731.0),
        ("ctz(8u)", 3.0),
        ("ctz(0)", 32.0),
        ("reverse_bits(uchar(1))", 128.0),
        ("rotate(0x80000001u, 1u)", 3.0),
        ("extract_bits(0xabcdu, 4, 8)", 188.0),
        ("extract_bits(-1, 3, 5)", -1.0),
        ("insert_bits(0u, 5u, 4, 3)", 80.0),
        ("mulhi(0x80000000u, 6u)", 3.0),
        ("mulhi(-5, 3)", -1.0),
        ("mul24(300, 5)", 1500.0),
        ("mad24(3, 4, 5)", 17.0),
        ("absdiff(3u, 5u)", 2.0),
        ("hadd(3u, 6u)", 4.0),
        ("rhadd(3u, 6u)", 5.0),
        ("addsat(uchar(250), uchar(10))", 255.0),
        ("subsat(uchar(5), uchar(10))", 0.0),
        ("addsat(char(100), char(100))", 127.0),
        ("popcount(uint2(3, 7)).y", 3.0),
        ("sizeof(long) + sizeof(size_t)", 16.0),
        ("char(-1) < 0", 1.0),
    ]);
}

#[test]
fn geometry_and_packing() {
    expressions(&[
        ("dot(float3(1, 2, 3), float3(4, 5, 6))", 32.0),
        ("length(float2(3, 4))", 5.0),
        ("length_squared(float2(3, 4))", 25.0),
        ("distance(float2(1, 1), float2(4, 5))", 5.0),
        ("cross(float3(1, 0, 0), float3(0, 1, 0)).z", 1.0),
        ("normalize(float2(0, 9)).y", 1.0),
        ("reflect(float2(1, -1), float2(0, 1)).y", 1.0),
        (
            "faceforward(float2(0, 1), float2(0, 1), float2(0, 1)).y",
            -1.0,
        ),
        ("unpack_unorm4x8_to_float(0xff00ff00u).y", 1.0),
        ("unpack_snorm4x8_to_float(0x81u).x", -1.0),
        ("pack_float_to_unorm4x8(float4(0, 1, 0, 0))", 65280.0),
    ]);
}

#[test]
fn half_functions_give_halfs() {
    let body = "kernel void f(device half *out [[buffer(0)]]) { static_assert(is_same_v<decltype(exp(1.0h)), half>, \"\");\n\
                  out[0] = exp(1.0h); out[1] = max(half2(1, 2), 1.5h).x; out[2] = fma(2.0h, 3.0h, 0.5h); out[3] = dot(half4(1), half4(2)); }";
    let out = Program::new("f", body)
        .groups([1, 1, 1], [1, 1, 1])
        .run::<f16>(4);
    assert_eq!(out, [std::f32::consts::E, 1.5, 6.5, 8.0].map(f16::from_f32));
}
