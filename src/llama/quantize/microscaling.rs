//! Blocks of 32 numbers of 4 bits with a power of two as their scale: MXFP4, of the OCP Microscaling Formats
//! Specification 1.0 (E2M1 elements, E8M0 scales).

use super::blocks::{LENGTH, pack_nibbles};

/// What the levels stand for, twice: a sign, then 0, 0.5, 1, 1.5, 2, 3, 4 and 6.
const VALUES: [f32; 16] = [
    0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 0.0, -1.0, -2.0, -3.0, -4.0, -6.0, -8.0, -12.0,
];
/// The exponent of the largest element, 6, which becomes that of the number farthest from zero.
const LARGEST: f32 = 2.0;
const BIAS: f32 = 127.0;

pub(super) fn mxfp4(numbers: &[f32; LENGTH], block: &mut [u8; 17]) {
    let farthest = numbers
        .iter()
        .fold(0f32, |far, number| far.max(number.abs()));
    let exponent = match farthest > 0.0 {
        // Numbers too small for the format have the smallest scale.
        true => (farthest.log2().floor() - LARGEST + BIAS) as u8,
        false => 0,
    };
    // Half of 2^(exponent - 127), for values that are twice the elements. It is exact in f64, as the smallest are not
    // normal in f32.
    let scale = 2f64.powi(i32::from(exponent) - 128) as f32;
    block[0] = exponent;
    pack_nibbles(&mut block[1..], |index| {
        nearest_level(numbers[index], scale)
    });
}

/// Of two equally near levels the first.
fn nearest_level(number: f32, scale: f32) -> u8 {
    let distance = |value: f32| (value * scale - number).abs();
    let mut best = (0, distance(VALUES[0]));
    for (level, value) in (0..).zip(VALUES).skip(1) {
        if distance(value) < best.1 {
            best = (level, distance(value));
        }
    }
    best.0
}
