//! Blocks of 32 numbers with one scale: Q4_0, Q4_1, Q5_0, Q5_1 and Q8_0.
//!
//! The rounding is that of llama.cpp's `gguf` package (`quants.py`), to the last bit: the order of operations is part
//! of the definition. With an importance matrix it is that of llama.cpp's quantizer, which searches for scales then.

use half::f16;

use super::scale_search::{AffineSearch, symmetric_scale};
use super::weights::by_importance;

/// Numbers in a block.
pub(super) const LENGTH: usize = 32;

/// How much each number of a block matters, and the mean square of its row: what an importance matrix adds.
pub(super) struct Weighted<'a> {
    pub importance: &'a [f32; LENGTH],
    pub mean_square: f32,
}

impl Weighted<'_> {
    fn weights(&self, numbers: &[f32; LENGTH]) -> [f32; LENGTH] {
        by_importance(numbers, self.importance, self.mean_square)
    }
}

/// [`q4_0`] by weights.
pub(super) fn q4_0_weighted(numbers: &[f32; LENGTH], weighted: &Weighted, block: &mut [u8; 18]) {
    let mut found = [0; LENGTH];
    let scale = symmetric_scale(numbers, &weighted.weights(numbers), 8, &mut found);
    let (head, levels) = block.split_at_mut(2);
    head.copy_from_slice(&f16::from_f32(scale).to_le_bytes());
    pack_nibbles(levels, |index| found[index]);
}

/// [`q4_1`] by weights.
pub(super) fn q4_1_weighted(numbers: &[f32; LENGTH], weighted: &Weighted, block: &mut [u8; 20]) {
    let (head, levels) = block.split_at_mut(4);
    let found = affine(numbers, weighted, 15, head);
    pack_nibbles(levels, |index| found[index]);
}

/// [`q5_0`] by weights.
pub(super) fn q5_0_weighted(numbers: &[f32; LENGTH], weighted: &Weighted, block: &mut [u8; 22]) {
    let mut found = [0; LENGTH];
    let scale = symmetric_scale(numbers, &weighted.weights(numbers), 16, &mut found);
    let (head, rest) = block.split_at_mut(2);
    head.copy_from_slice(&f16::from_f32(scale).to_le_bytes());
    pack_five_bits(rest, |index| found[index]);
}

/// [`q5_1`] by weights.
pub(super) fn q5_1_weighted(numbers: &[f32; LENGTH], weighted: &Weighted, block: &mut [u8; 24]) {
    let (head, rest) = block.split_at_mut(4);
    let found = affine(numbers, weighted, 31, head);
    pack_five_bits(rest, |index| found[index]);
}

/// Writes the scale and the smallest number to `head`, and returns the levels.
fn affine(
    numbers: &[f32; LENGTH],
    weighted: &Weighted,
    most: i32,
    head: &mut [u8],
) -> [u8; LENGTH] {
    let mut levels = [0; LENGTH];
    let search = AffineSearch::weighted(most);
    let (scale, below) = search.group(numbers, &weighted.weights(numbers), &mut levels);
    head[..2].copy_from_slice(&f16::from_f32(scale).to_le_bytes());
    head[2..].copy_from_slice(&f16::from_f32(-below).to_le_bytes());
    levels
}

/// Levels 0 to 15 stand for -8 to 7 scales. The number farthest from zero becomes -8 exactly.
pub(super) fn q4_0(numbers: &[f32; LENGTH], block: &mut [u8; 18]) {
    let scale = farthest_from_zero(numbers) / -8.0;
    let inverse = inverse(scale);
    let (head, levels) = block.split_at_mut(2);
    head.copy_from_slice(&f16::from_f32(scale).to_le_bytes());
    pack_nibbles(levels, |index| level(numbers[index] * inverse + 8.5, 15));
}

/// Levels 0 to 15 stand for the smallest number and that many scales.
pub(super) fn q4_1(numbers: &[f32; LENGTH], block: &mut [u8; 20]) {
    let (smallest, scale) = range(numbers, 15.0);
    let inverse = inverse(scale);
    let (head, levels) = block.split_at_mut(4);
    head[..2].copy_from_slice(&f16::from_f32(scale).to_le_bytes());
    head[2..].copy_from_slice(&f16::from_f32(smallest).to_le_bytes());
    pack_nibbles(levels, |index| {
        level((numbers[index] - smallest) * inverse + 0.5, 15)
    });
}

/// Levels 0 to 31 stand for -16 to 15 scales; their fifth bits lie together.
pub(super) fn q5_0(numbers: &[f32; LENGTH], block: &mut [u8; 22]) {
    let scale = farthest_from_zero(numbers) / -16.0;
    let inverse = inverse(scale);
    let of = |index: usize| level(numbers[index] * inverse + 16.5, 31);
    let (head, rest) = block.split_at_mut(2);
    head.copy_from_slice(&f16::from_f32(scale).to_le_bytes());
    pack_five_bits(rest, of);
}

/// Levels 0 to 31 stand for the smallest number and that many scales; their fifth bits lie together.
pub(super) fn q5_1(numbers: &[f32; LENGTH], block: &mut [u8; 24]) {
    let (smallest, scale) = range(numbers, 31.0);
    let inverse = inverse(scale);
    let of = |index: usize| level((numbers[index] - smallest) * inverse + 0.5, 31);
    let (head, rest) = block.split_at_mut(4);
    head[..2].copy_from_slice(&f16::from_f32(scale).to_le_bytes());
    head[2..].copy_from_slice(&f16::from_f32(smallest).to_le_bytes());
    pack_five_bits(rest, of);
}

/// Signed bytes, of which the number farthest from zero becomes 127 or -127.
pub(super) fn q8_0(numbers: &[f32; LENGTH], block: &mut [u8; 34]) {
    let scale = farthest_from_zero(numbers).abs() / 127.0;
    let inverse = inverse(scale);
    let (head, levels) = block.split_at_mut(2);
    head.copy_from_slice(&f16::from_f32(scale).to_le_bytes());
    for (level, number) in levels.iter_mut().zip(numbers) {
        *level = (number * inverse).round() as i8 as u8;
    }
}

/// Of several the first.
fn farthest_from_zero(numbers: &[f32; LENGTH]) -> f32 {
    let farther = |farthest: f32, number: &f32| match number.abs() > farthest.abs() {
        true => *number,
        false => farthest,
    };
    numbers.iter().fold(numbers[0], farther)
}

/// The smallest number, and the scale that takes `levels` steps from it to the largest one.
fn range(numbers: &[f32; LENGTH], levels: f32) -> (f32, f32) {
    let smallest = numbers.iter().copied().fold(numbers[0], f32::min);
    let largest = numbers.iter().copied().fold(numbers[0], f32::max);
    (smallest, (largest - smallest) / levels)
}

pub(super) fn inverse(scale: f32) -> f32 {
    match scale == 0.0 {
        true => 0.0,
        false => 1.0 / scale,
    }
}

/// Rounds towards zero.
fn level(number: f32, limit: u8) -> u8 {
    (number as u8).min(limit)
}

/// 16 bytes: the first half of the block in the low nibbles, the second in the high ones.
pub(super) fn pack_nibbles(bytes: &mut [u8], level: impl Fn(usize) -> u8) {
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = level(index) & 15 | level(index + LENGTH / 2) << 4;
    }
}

/// 4 bytes of fifth bits, lowest index first, then the nibbles.
fn pack_five_bits(bytes: &mut [u8], level: impl Fn(usize) -> u8) {
    let (fifth, nibbles) = bytes.split_at_mut(4);
    let bits = (0..LENGTH).fold(0, |bits, index| {
        bits | u32::from(level(index) >> 4) << index
    });
    fifth.copy_from_slice(&bits.to_le_bytes());
    pack_nibbles(nibbles, level);
}
