//! Groups of 32 numbers with one scale and levels that are not evenly spaced: IQ4_NL and IQ4_XS.
//!
//! The format leaves open how the scale is found. This is llama.cpp's search (`ggml-quants.c`), in the same order of
//! operations.

use half::f16;

use super::blocks::{LENGTH, inverse, pack_nibbles};
use super::scale_search::{ALMOST_ZERO, farthest_from_zero, nearest};
use super::super_blocks;
use super::weights::{by_importance, mean_square};

/// What the levels stand for, in scales: closer together where weights are more frequent.
const VALUES: [f32; 16] = [
    -127.0, -104.0, -83.0, -65.0, -49.0, -35.0, -22.0, -10.0, 1.0, 13.0, 25.0, 38.0, 53.0, 69.0,
    89.0, 113.0,
];

/// By the squares of the numbers, or by how much each one matters, where an importance matrix says so.
pub(super) fn iq4_nl(
    numbers: &[f32; LENGTH],
    importance: Option<&[f32; LENGTH]>,
    block: &mut [u8; 18],
) {
    let importance = importance.map(|importance| (importance, 2.0 * mean_square(numbers)));
    let scale = scale(numbers, &weights(numbers, importance));
    let inverse = inverse(scale);
    let (head, levels) = block.split_at_mut(2);
    head.copy_from_slice(&f16::from_f32(scale).to_le_bytes());
    pack_nibbles(levels, |index| {
        nearest_level(numbers[index] * inverse) as u8
    });
}

/// Eight groups, of whose scales each is an integer from -32 to 31, stored as 0 to 63, times the block's.
pub(super) fn iq4_xs(
    numbers: &[f32; super_blocks::LENGTH],
    importance: Option<&[f32; super_blocks::LENGTH]>,
    block: &mut [u8; 136],
) {
    let importance = importance.map(|importance| importance.as_chunks::<LENGTH>().0);
    let mean = 2.0 * mean_square(numbers);
    let groups = numbers.as_chunks::<LENGTH>().0;
    let mut scales = [0f32; 8];
    for (group, (found, numbers)) in scales.iter_mut().zip(groups).enumerate() {
        let importance = importance.map(|importance| (&importance[group], mean));
        *found = scale(numbers, &weights(numbers, importance));
    }
    // The farthest scale becomes -32.
    let scale_of_scales = -farthest_from_zero(&scales) / 32.0;
    let one = inverse(scale_of_scales);
    let (head, packed) = block.split_at_mut(8);
    head[..2].copy_from_slice(&f16::from_f32(scale_of_scales).to_le_bytes());
    let (mut high, mut low) = (0u16, [0u8; 4]);
    let bytes = packed.chunks_exact_mut(LENGTH / 2);
    for (group, (bytes, numbers)) in bytes.zip(groups).enumerate() {
        let scale = nearest(one * scales[group]).clamp(-32, 31);
        let inverse = inverse(scale_of_scales * scale as f32);
        pack_nibbles(bytes, |index| nearest_level(inverse * numbers[index]) as u8);
        let stored = (scale + 32) as u8;
        low[group / 2] |= (stored & 15) << (4 * (group % 2));
        high |= u16::from(stored >> 4) << (2 * group);
    }
    head[2..4].copy_from_slice(&high.to_le_bytes());
    head[4..].copy_from_slice(&low);
}

/// The squares of the numbers, or by an importance and a mean square.
fn weights(numbers: &[f32; LENGTH], importance: Option<(&[f32; LENGTH], f32)>) -> [f32; LENGTH] {
    match importance {
        None => numbers.map(|number| number * number),
        Some((importance, mean)) => by_importance(numbers, importance, mean),
    }
}

/// The scale with the least squared error by these weights, among those near the one that takes the number farthest
/// from zero to the lowest level, or to its opposite.
fn scale(numbers: &[f32; LENGTH], weights: &[f32; LENGTH]) -> f32 {
    let farthest = farthest_from_zero(numbers);
    if farthest.abs() < ALMOST_ZERO {
        return 0.0;
    }
    let sums = |inverse: f32| {
        let (mut sum_xv, mut sum_v2) = (0f32, 0f32);
        for (number, weight) in numbers.iter().zip(weights) {
            let value = VALUES[nearest_level(inverse * number)];
            sum_xv += weight * value * number;
            sum_v2 += weight * value * value;
        }
        (sum_xv, sum_v2)
    };

    let (sum_xv, sum_v2) = sums(1.0 / (-farthest / VALUES[0]));
    let mut scale = match sum_v2 > 0.0 {
        true => sum_xv / sum_v2,
        false => 0.0,
    };
    let mut best = scale * sum_xv;
    for step in -7i8..=7 {
        let (sum_xv, sum_v2) = sums((f32::from(step) + VALUES[0]) / farthest);
        if sum_v2 > 0.0 && sum_xv * sum_xv > best * sum_v2 {
            scale = sum_xv / sum_v2;
            best = scale * sum_xv;
        }
    }
    scale
}

/// Of two equally near levels the upper one.
fn nearest_level(number: f32) -> usize {
    let above = VALUES
        .partition_point(|value| *value <= number)
        .clamp(1, 15);
    match number - VALUES[above - 1] < VALUES[above] - number {
        true => above - 1,
        false => above,
    }
}
