//! Texels of each format, to what a kernel has and back.

use half::f16;

use super::{D2, R16_SINT, packed};
use crate::backend::cpu::msl::abi::{Component, Texture};
use crate::backend::cpu::msl::conformance::program::{Element, Program};

const COPY: &str = "kernel void f(texture2d<float, access::read> from [[texture(0)]],\n\
                    texture2d<float, access::write> to [[texture(1)]], uint2 i [[thread_position_in_grid]]) {\n\
                    to.write(from.read(i), i); }";

/// Texels of a format, each row of four as `texture2d<float>` has them.
fn read<T: Element>(format: (Component, u8, u8), is_bgra: bool, texels: &[T]) -> Vec<f32> {
    let count = texels.len() / usize::from(format.2);
    let shape = [count as u32, 1, 1];
    let from = Texture {
        is_bgra,
        ..packed(D2, shape, format)
    };
    Program::new("f", COPY)
        .texture(0, from, texels)
        .texture(
            1,
            packed(D2, shape, (Component::Float, 4, 4)),
            &vec![9f32; 4 * count],
        )
        .output(1)
        .threads(shape, [32, 1, 1])
        .run::<f32>(4 * count)
}

/// What a format keeps of rows of four floats.
fn write<T: Element + Default>(
    format: (Component, u8, u8),
    is_bgra: bool,
    values: &[f32],
) -> Vec<T> {
    let count = values.len() / 4;
    let (shape, length) = ([count as u32, 1, 1], count * usize::from(format.2));
    let to = Texture {
        is_bgra,
        ..packed(D2, shape, format)
    };
    Program::new("f", COPY)
        .texture(0, packed(D2, shape, (Component::Float, 4, 4)), values)
        .texture(1, to, &vec![T::default(); length])
        .output(1)
        .threads(shape, [32, 1, 1])
        .run::<T>(length)
}

/// The first components of rows of four.
fn first(rows: &[f32]) -> Vec<f32> {
    rows.chunks(4).map(|row| row[0]).collect()
}

/// Rows of four whose first components these are.
fn rows(values: &[f32]) -> Vec<f32> {
    values
        .iter()
        .flat_map(|&value| [value, 0.0, 0.0, 0.0])
        .collect()
}

#[test]
fn every_byte_is_a_fraction() {
    let bytes: Vec<u8> = (0..=255).collect();
    let unsigned: Vec<f32> = bytes.iter().map(|&byte| f32::from(byte) / 255.0).collect();
    let signed: Vec<f32> = bytes
        .iter()
        .map(|&byte| (f32::from(byte as i8) / 127.0).max(-1.0))
        .collect();
    assert_eq!(
        first(&read((Component::Unorm, 1, 1), false, &bytes)),
        unsigned
    );
    assert_eq!(
        first(&read((Component::Snorm, 1, 1), false, &bytes)),
        signed
    );
    // Each is written as what it was read from.
    assert_eq!(
        write::<u8>((Component::Unorm, 1, 1), false, &rows(&unsigned)),
        bytes
    );
    let back = write::<u8>((Component::Snorm, 1, 1), false, &rows(&signed));
    for (byte, back) in bytes.iter().zip(back) {
        assert_eq!(back as i8, (*byte as i8).max(-127));
    }
    let words = [0u16, 1, 2, 32767, 32768, 65534, 65535];
    let read16 = read((Component::Unorm, 2, 1), false, &words);
    assert_eq!(
        first(&read16),
        words.map(|word| (f64::from(word) / 65535.0) as f32)
    );
    assert_eq!(
        write::<u16>((Component::Unorm, 2, 1), false, &read16),
        words
    );
    let shorts = [0i16, 1, -1, 32767, -32767];
    let read16 = read((Component::Snorm, 2, 1), false, &shorts);
    assert_eq!(
        first(&read16),
        shorts.map(|word| (f64::from(word) / 32767.0) as f32)
    );
    assert_eq!(
        write::<i16>((Component::Snorm, 2, 1), false, &read16),
        shorts
    );
}

#[test]
fn what_is_written_is_rounded_to_the_nearest_and_kept_in_range() {
    let values = [
        0.0,
        -0.1,
        1.0,
        1.1,
        f32::NAN,
        f32::INFINITY,
        f32::NEG_INFINITY,
        0.4999,
        0.5,
        0.501,
        1.49 / 255.0,
        1.51 / 255.0,
        254.49 / 255.0,
        254.51 / 255.0,
    ];
    assert_eq!(
        write::<u8>((Component::Unorm, 1, 1), false, &rows(&values)),
        [0, 0, 255, 255, 0, 255, 0, 127, 128, 128, 1, 2, 254, 255]
    );
    let values = [
        -0.1,
        -1.0,
        -1.1,
        f32::NAN,
        f32::NEG_INFINITY,
        -1.49 / 127.0,
        -1.51 / 127.0,
        0.5,
    ];
    let bytes = write::<u8>((Component::Snorm, 1, 1), false, &rows(&values));
    let signed: Vec<i8> = bytes.iter().map(|&byte| byte as i8).collect();
    assert_eq!(signed, [-13, -127, -127, 0, -127, -1, -2, 64]);
}

#[test]
fn srgb_is_encoded_and_alpha_is_not() {
    let format = (Component::Srgb, 1, 4);
    let texels: Vec<u8> = (0..=255)
        .flat_map(|byte| [byte, 255 - byte, 7, byte])
        .collect();
    let found = read(format, false, &texels);
    for (texel, found) in texels.chunks(4).zip(found.chunks(4)) {
        for (i, (byte, value)) in texel.iter().zip(found).enumerate() {
            let c = f64::from(*byte) / 255.0;
            let expected = match (i, c <= 0.04045) {
                (3, _) => c,
                (_, true) => c / 12.92,
                _ => ((c + 0.055) / 1.055).powf(2.4),
            };
            assert!((f64::from(*value) - expected).abs() < 1e-6, "{byte} {i}");
        }
    }
    assert_eq!(write::<u8>(format, false, &found), texels);
    assert_eq!(
        write::<u8>(format, false, &[f32::NAN, 2.0, -1.0, f32::NAN]),
        [0, 255, 0, 0]
    );
}

#[test]
fn components_that_are_missing_are_zero_and_alpha_one() {
    let half = |values: &[f32]| -> Vec<f16> { values.iter().map(|&x| f16::from_f32(x)).collect() };
    assert_eq!(
        read(
            (Component::Float, 2, 2),
            false,
            &half(&[1.5, -2.0, 65504.0, 6e-8])
        ),
        [
            1.5,
            -2.0,
            0.0,
            1.0,
            65504.0,
            f16::from_f32(6e-8).to_f32(),
            0.0,
            1.0
        ]
    );
    assert_eq!(
        read((Component::Float, 4, 1), false, &[3.25f32]),
        [3.25, 0.0, 0.0, 1.0]
    );
    assert_eq!(
        read((Component::Unorm, 1, 4), true, &[51u8, 0, 255, 102]),
        [1.0, 0.0, 0.2, 0.4]
    );
    assert_eq!(
        write::<u8>((Component::Unorm, 1, 4), true, &[1.0, 0.0, 0.2, 0.4]),
        [51, 0, 255, 102]
    );
    assert_eq!(
        write::<f16>(
            (Component::Float, 2, 4),
            false,
            &[1.0, 1.00049, 70000.0, f32::NAN]
        )[..3],
        half(&[1.0, 1.00049, f32::INFINITY])
    );
}

#[test]
fn integers_keep_their_signs_and_stop_at_their_ends() {
    let body = "kernel void f(device int *out [[buffer(0)]], texture2d<int, access::read_write> a [[texture(0)]],\n\
                texture2d<short, access::read_write> b [[texture(1)]], \
                texture2d<uint, access::read_write> c [[texture(2)]],\n\
                texture2d<ushort, access::read_write> d [[texture(3)]]) {\n\
                for (uint i = 0; i < 3; i++) { out[i] = a.read(uint2(i, 0)).x; out[3 + i] = b.read(uint2(i, 0)).x;\n\
                  out[6 + i] = int(c.read(uint2(i, 0)).x); out[9 + i] = d.read(uint2(i, 0)).x; }\n\
                a.write(int4(-40000), uint2(0)); a.write(int4(40000), uint2(1, 0)); b.write(short4(-5), uint2(0));\n\
                c.write(uint4(256), uint2(0)); c.write(uint4(4294967295u), uint2(1, 0)); \
                d.write(ushort4(9), uint2(1, 0));\n\
                out[12] = a.read(uint2(0)).x; out[13] = a.read(uint2(1, 0)).x; out[14] = b.read(uint2(0)).x;\n\
                out[15] = int(c.read(uint2(0)).x); out[16] = int(c.read(uint2(1, 0)).x); \
                out[17] = d.read(uint2(1, 0)).x;\n\
                out[18] = a.read(uint2(0)).a; out[19] = a.read(uint2(9, 0)).a; }";
    let shape = [3, 1, 1];
    let out = Program::new("f", body)
        .texture(0, packed(D2, shape, R16_SINT), &[-1i16, i16::MIN, 7])
        .texture(
            1,
            packed(D2, shape, (Component::Sint, 4, 1)),
            &[-70000i32, 70000, -3],
        )
        .texture(
            2,
            packed(D2, shape, (Component::Uint, 1, 1)),
            &[255u8, 0, 128],
        )
        .texture(
            3,
            packed(D2, shape, (Component::Uint, 4, 1)),
            &[70000u32, 1, 65535],
        )
        .groups([1; 3], [1; 3])
        .run::<i32>(20);
    assert_eq!(
        out,
        [
            -1, -32768, 7, -32768, 32767, -3, 255, 0, 128, 65535, 1, 65535, // read
            -32768, 32767, -5, 255, 255, 9, 1, 0
        ]
    );
}

#[test]
fn halves_are_taken_of_any_floats() {
    let body = "kernel void f(device float *out [[buffer(0)]], \
                texture2d<half, access::read_write> t [[texture(0)]]) {\n\
                half4 texel = t.read(uint2(0)); out[0] = texel.x; t.write(half4(0.1h, 0, 0, 0), uint2(0)); }";
    let texture = packed(D2, [1, 1, 1], (Component::Float, 4, 1));
    let program = Program::new("f", body).groups([1; 3], [1; 3]);
    let out = program.texture(0, texture, &[1.0001f32]).run::<f32>(1);
    assert_eq!(out, [f16::from_f32(1.0001).to_f32()]);
    let program = Program::new("f", body)
        .groups([1; 3], [1; 3])
        .input(0, &[0f32]);
    let written = program
        .texture(0, texture, &[1.0001f32])
        .output(0)
        .run::<f32>(1);
    assert_eq!(written, [f16::from_f32(0.1).to_f32()]);
}
