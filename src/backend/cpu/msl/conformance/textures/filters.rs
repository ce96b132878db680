//! Filters and address modes, against the same in float64.

use super::{D1, D2, D2_ARRAY, D3, R32_FLOAT, RGBA32_FLOAT, packed, sampler};
use crate::backend::cpu::msl::abi::{Component, Sampler};
use crate::backend::cpu::msl::conformance::program::Program;

/// MTLSamplerAddressMode, as MSL calls them.
const MODES: [(&str, u8); 5] = [
    ("clamp_to_edge", 0),
    ("repeat", 2),
    ("mirrored_repeat", 3),
    ("clamp_to_zero", 4),
    ("clamp_to_border", 5),
];

/// What is outside.
enum Outside {
    Zero,
    Border,
}

fn addressed(i: i64, extent: i64, mode: u8) -> Result<usize, Outside> {
    let inside = (0..extent).contains(&i);
    let place = match mode {
        0 => i.clamp(0, extent - 1),
        2 => i.rem_euclid(extent),
        3 => {
            let place = i.rem_euclid(2 * extent);
            place.min(2 * extent - 1 - place)
        }
        4 if !inside => return Err(Outside::Zero),
        5 if !inside => return Err(Outside::Border),
        _ => i,
    };
    Ok(place as usize)
}

/// A texture's shape, and one component of its texels.
struct Image<'a> {
    shape: [u32; 3],
    texels: &'a [f32],
}

impl Image<'_> {
    /// Of the texture's first component or, with what is outside given, of its alpha.
    fn sample(
        &self,
        at: [f64; 3],
        mode: u8,
        linear: bool,
        pixels: bool,
        [zero, border]: [f64; 2],
    ) -> f64 {
        let place: [(i64, f64); 3] = std::array::from_fn(|axis| {
            let extent = f64::from(self.shape[axis]);
            let scaled = if pixels { at[axis] } else { at[axis] * extent };
            let scaled = scaled - if linear { 0.5 } else { 0.0 };
            let first = scaled.floor();
            (first as i64, if linear { scaled - first } else { 0.0 })
        });
        let mut sum = 0.0;
        for corner in 0..8 {
            let mut weight = 1.0;
            let mut index = Ok(0);
            let mut stride = 1;
            for (axis, (first, second)) in place.iter().enumerate() {
                let upper = corner >> axis & 1;
                weight *= if upper == 1 { *second } else { 1.0 - second };
                let extent = i64::from(self.shape[axis]);
                // An axis that the texture does not have is no place to be outside of.
                let mode = if self.shape[axis] == 1 && at[axis] == 0.5 {
                    0
                } else {
                    mode
                };
                let place = addressed(first + upper, extent, mode);
                index = index.and_then(|index: usize| place.map(|place| index + place * stride));
                stride *= extent as usize;
            }
            if weight > 0.0 {
                sum += weight
                    * match index {
                        Ok(index) => f64::from(self.texels[index]),
                        Err(Outside::Zero) => zero,
                        Err(Outside::Border) => border,
                    };
            }
        }
        sum
    }
}

/// Coordinates that are no edge of a texel: there, rounding decides which one it is.
fn coordinates(extent: u32) -> Vec<f32> {
    let extent = extent as f32;
    let mut all: Vec<f32> = (-8..24).map(|i| (i as f32 * 0.37 + 0.113) / 3.0).collect();
    all.extend([
        0.5 / extent,
        1.5 / extent,
        (extent - 0.25) / extent,
        -1.26,
        5.76,
    ]);
    all
}

#[test]
fn every_filter_and_address_mode_as_in_float64() {
    let body = "kernel void f(device float *out [[buffer(0)]], texture2d<float> t [[texture(0)]], \
                sampler s [[sampler(0)]],\n\
                device const float2 *at [[buffer(1)]], constant uint &n [[buffer(2)]], \
                uint i [[thread_position_in_grid]]) {\n\
                if (i < n) out[i] = t.sample(s, at[i]).x; }";
    for shape in [[1, 1, 1], [2, 3, 1], [7, 5, 1]] {
        let count = shape.iter().product::<u32>();
        let texels: Vec<f32> = (0..count)
            .map(|i| ((i * 37 + 11) % 101) as f32 - 50.0)
            .collect();
        let at: Vec<f32> = coordinates(shape[0])
            .iter()
            .zip(coordinates(shape[1]).iter().rev())
            .flat_map(|(x, y)| [*x, *y])
            .collect();
        let image = Image {
            shape,
            texels: &texels,
        };
        for (name, mode) in MODES {
            for linear in [false, true] {
                let wanted = Sampler {
                    address: [mode; 3],
                    magnify: linear.into(),
                    border: 2,
                    ..sampler()
                };
                let out = Program::new("f", body)
                    .texture(0, packed(D2, shape, R32_FLOAT), &texels)
                    .sampler(0, wanted)
                    .input(1, &at)
                    .input(2, &[at.len() as u32 / 2])
                    .groups([2, 1, 1], [32, 1, 1])
                    .run::<f32>(at.len() / 2);
                for (found, at) in out.iter().zip(at.chunks(2)) {
                    let place = [f64::from(at[0]), f64::from(at[1]), 0.5];
                    let expected = image.sample(place, mode, linear, false, [0.0, 1.0]);
                    assert!(
                        (f64::from(*found) - expected).abs() < 1e-3,
                        "{name}, linear {linear}, {shape:?} at {at:?}: {found}, not {expected}"
                    );
                }
            }
        }
    }
}

#[test]
fn planes_are_filtered_and_elements_are_not() {
    let body = "kernel void f(device float *out [[buffer(0)]], texture3d<float> t [[texture(0)]],\n\
                texture2d_array<float> a [[texture(1)]], texture1d<float> l [[texture(2)]],\n\
                device const float *at [[buffer(1)]], uint i [[thread_position_in_grid]]) {\n\
                constexpr sampler s(filter::linear, address::repeat);\n\
                out[i] = t.sample(s, float3(at[i], at[i] * 0.7, at[i] * 1.3)).x;\n\
                out[32 + i] = a.sample(s, float2(at[i], 0.5), 1).x; \
                out[64 + i] = a.sample(s, float2(at[i], 0.5), 9).x;\n\
                out[96 + i] = l.sample(s, at[i]).x; }";
    let shape = [3, 4, 5];
    let texels: Vec<f32> = (0..60).map(|i| ((i * 29 + 5) % 61) as f32).collect();
    let at: Vec<f32> = coordinates(9)[..32].to_vec();
    let out = Program::new("f", body)
        .texture(0, packed(D3, shape, R32_FLOAT), &texels)
        .texture(1, packed(D2_ARRAY, shape, R32_FLOAT), &texels)
        .texture(2, packed(D1, [60, 1, 1], R32_FLOAT), &texels)
        .input(1, &at)
        .run::<f32>(128);
    let image = |shape, texels| Image { shape, texels };
    for (i, &at) in at.iter().enumerate() {
        let place = |scales: [f32; 3]| scales.map(|scale| f64::from(at * scale));
        let flat = [f64::from(at), 0.5, 0.5];
        let cases = [
            (image(shape, &texels[..]), place([1.0, 0.7, 1.3])),
            (image([3, 4, 1], &texels[12..24]), flat),
            (image([3, 4, 1], &texels[48..]), flat),
            (image([60, 1, 1], &texels[..]), flat),
        ];
        for (case, (image, place)) in cases.iter().enumerate() {
            let expected = image.sample(*place, 2, true, false, [0.0, 0.0]);
            let found = f64::from(out[32 * case + i]);
            assert!(
                (found - expected).abs() < 1e-2,
                "{case} at {at}: {found}, not {expected}"
            );
        }
    }
}

#[test]
fn coordinates_of_pixels_and_borders_of_each_kind() {
    let body = "kernel void f(device float *out [[buffer(0)]], texture2d<float> t [[texture(0)]], \
                texture2d<float> r [[texture(1)]]) {\n\
                constexpr sampler near(coord::pixel), zero(coord::pixel, address::clamp_to_zero, filter::linear);\n\
                constexpr sampler clear(address::clamp_to_border), \
                black(address::clamp_to_border, border_color::opaque_black),\n\
                  white(s_address::clamp_to_border, border_color::opaque_white);\n\
                out[0] = t.sample(near, float2(1.9, 0.1)).x; out[1] = t.sample(near, float2(-7, 40)).x;\n\
                out[2] = t.sample(zero, float2(2, 1)).x; out[3] = t.sample(zero, float2(0, 0.5)).x;\n\
                out[4] = r.sample(zero, float2(-3)).a; out[5] = t.sample(zero, float2(-3)).a;\n\
                out[6] = t.sample(clear, float2(2)).a; out[7] = t.sample(black, float2(2)).a;\n\
                out[8] = t.sample(white, float2(2, 0)).y; out[9] = t.sample(white, float2(0.1, 9)).x;\n\
                out[10] = t.sample(near, float2(0.5), int2(1, 1)).x; out[11] = t.sample(zero, float2(NAN)).x;\n\
                out[12] = t.sample(zero, float2(INFINITY)).x; out[13] = t.sample(near, float2(-INFINITY)).x; }";
    // 4 x 2, in its red component 0 to 7.
    let texels: Vec<f32> = (0..8).flat_map(|i| [i as f32, 0.5, 0.5, 0.25]).collect();
    let out = Program::new("f", body)
        .texture(0, packed(D2, [4, 2, 1], RGBA32_FLOAT), &texels)
        .texture(1, packed(D2, [2, 2, 1], R32_FLOAT), &[3f32; 4])
        .groups([1; 3], [1; 3])
        .run::<f32>(14);
    // A texel's middle is at a half: (2, 1) is between 1, 2, 5 and 6, and (0, 0.5) half outside.
    assert_eq!(
        out,
        [
            1.0, 4.0, 3.5, 0.0, 1.0, 0.0, 0.0, 1.0, 1.0, 4.0, 5.0, 0.0, 0.0, 0.0
        ]
    );
}

#[test]
fn gather_goes_against_the_clock() {
    let body = "kernel void f(device float4 *out [[buffer(0)]], texture2d<float> t [[texture(0)]], \
                depth2d<float> d [[texture(1)]],\n\
                texture2d_array<uint> u [[texture(2)]]) {\n\
                constexpr sampler s, compares(compare_func::greater), \
                smooth(filter::linear, compare_func::less_equal);\n\
                out[0] = t.gather(s, float2(0.5)); out[1] = t.gather(s, float2(0.5), int2(1, 0), component::y);\n\
                out[2] = float4(d.sample(s, float2(0.9)), d.sample_compare(compares, float2(0.9), 3.5),\n\
                  d.sample_compare(smooth, float2(0.5), 1.5), d.read(uint2(1, 0)));\n\
                out[3] = d.gather_compare(compares, float2(0.5), 1.5); out[4] = float4(u.gather(s, float2(0.5), 0)); }";
    let texels: Vec<f32> = (0..4)
        .flat_map(|i| [i as f32, 10.0 * i as f32, 0.0, 0.0])
        .collect();
    let out = Program::new("f", body)
        .texture(0, packed(D2, [2, 2, 1], RGBA32_FLOAT), &texels)
        .texture(1, packed(D2, [2, 2, 1], R32_FLOAT), &[0f32, 1.0, 2.0, 3.0])
        .texture(
            2,
            packed(D2_ARRAY, [2, 2, 1], (Component::Uint, 1, 1)),
            &[9u8, 8, 7, 6],
        )
        .groups([1; 3], [1; 3])
        .run::<f32>(20);
    assert_eq!(out[..4], [2.0, 3.0, 1.0, 0.0]);
    assert_eq!(out[4..8], [30.0, 30.0, 10.0, 10.0]);
    assert_eq!(out[8..12], [3.0, 1.0, 0.5, 1.0]);
    assert_eq!(out[12..16], [0.0, 0.0, 1.0, 1.0]);
    assert_eq!(out[16..], [7.0, 6.0, 8.0, 9.0]);
}

#[test]
fn integers_are_taken_of_the_nearest_texel() {
    let body = "kernel void f(device int *out [[buffer(0)]], texture2d<int> t [[texture(0)]]) {\n\
                constexpr sampler s(filter::linear, address::clamp_to_zero);\n\
                out[0] = t.sample(s, float2(0.6, 0.5)).x; out[1] = t.sample(s, float2(0.4, 0.5)).x;\n\
                out[2] = t.sample(s, float2(1.1, 0.5)).x; out[3] = t.sample(s, float2(1.1, 0.5)).a; }";
    let out = Program::new("f", body)
        .texture(0, packed(D2, [2, 1, 1], super::R16_SINT), &[-3i16, 5])
        .groups([1; 3], [1; 3])
        .run::<i32>(4);
    assert_eq!(out, [5, -3, 0, 1]);
}
