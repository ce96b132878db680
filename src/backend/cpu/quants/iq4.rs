//! The 4-bit types whose numbers choose among levels that are not evenly spaced.

use half::f16;

use super::blocks::{Block, blocks, nibble};
use super::dot::{Integers, SCALED_GROUPS, Scales, halves, one_group, scales_of_halves};
use super::storage::GROUP;
use super::x16::{BlockRows, Interleaved, InterleavedIntegers, nibbles_of_a_group, one_scale};
use crate::backend::cpu::simd::{Simd, widen_f16};

blocks! {
    /// `scale · level[q]`.
    BlockIq4Nl { scale: f16, quants: [u8; 16] }
    /// `scale · (s − 32) · level[q]`: s has 6 bits for 32 weights, the upper 2 of them apart.
    BlockIq4Xs { scale: f16, high: u16, low: [u8; 4], quants: [[u8; 16]; 8] }
}

/// The levels, in scales: closer together where weights are more frequent. (`kvalues_iq4nl`.)
const LEVELS: [i8; 16] = [
    -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113,
];

fn level(quant: u8) -> f32 {
    f32::from(LEVELS[usize::from(quant)])
}

impl Block for BlockIq4Nl {
    #[inline(always)]
    fn group(&self, _: usize) -> [f32; GROUP] {
        let scale = self.scale.to_f32();
        std::array::from_fn(|i| scale * level(nibble(&self.quants, i)))
    }
}

one_group!(BlockIq4Nl, { SIGNED: bool = true; }, scale, |simd, from| {
    let nibbles = simd.load_nibbles((&raw const (*from).quants).cast());
    simd.bias_group(simd.shuffle_lut(nibbles, &LEVELS))
});

/// The 6-bit scale of group `group` of 8.
#[inline(always)]
fn six_bits(high: u16, low: [u8; 4], group: usize) -> f32 {
    let low = low[group / 2] >> (group % 2 * 4) & 15;
    let high = (high >> (2 * group) & 3) as u8;
    f32::from(low | high << 4) - 32.0
}

impl Block for BlockIq4Xs {
    #[inline(always)]
    fn group(&self, group: usize) -> [f32; GROUP] {
        let scale = self.scale.to_f32() * six_bits(self.high, self.low, group);
        std::array::from_fn(|i| scale * level(nibble(&self.quants[group], i)))
    }
}

impl Integers for BlockIq4Xs {
    const SIGNED: bool = true;

    #[inline(always)]
    unsafe fn integers<S: Simd>(simd: S, row: *const BlockIq4Xs, group: usize) -> S::Group {
        // SAFETY: the caller's promise; no reference is made.
        unsafe {
            let quants: *const [u8; 16] = (&raw const (*row.add(group / 8)).quants).cast();
            let nibbles = simd.load_nibbles(quants.add(group % 8).cast());
            simd.bias_group(simd.shuffle_lut(nibbles, &LEVELS))
        }
    }

    #[inline(always)]
    unsafe fn scales<S: Simd>(_: S, row: *const BlockIq4Xs, first: usize, _: usize) -> Scales {
        // SAFETY: the caller's promise; no reference is made.
        let (scale, high, low) = unsafe {
            let block = row.add(first / 8);
            (
                (&raw const (*block).scale).read(),
                (&raw const (*block).high).read(),
                (&raw const (*block).low).read(),
            )
        };
        let scale = widen_f16(scale.to_bits());
        let mut scales = [0.0; 2 * SCALED_GROUPS];
        for (group, product) in scales.iter_mut().take(SCALED_GROUPS).enumerate() {
            *product = scale * six_bits(high, low, group);
        }
        Scales::new(scales)
    }
}

/// The levels that nibbles of words in the x16 layout stand for, with what `Simd::bias_bytes` adds.
#[inline(always)]
fn levels<S: Simd>(simd: S, words: S::Bytes, piece: usize) -> S::Bytes {
    let mut biased = LEVELS;
    for level in &mut biased {
        *level = (i32::from(*level) + S::SIGNED_BIAS) as i8;
    }
    let nibbles = simd.shift_mask(words, 4 * piece as i32, 15);
    simd.shuffle_bytes_lut(nibbles, &biased)
}

impl Interleaved for BlockIq4Nl {
    const SCALES: (usize, usize) = (1, 0);
}

impl InterleavedIntegers for BlockIq4Nl {
    nibbles_of_a_group!();
    one_scale!();

    #[inline(always)]
    fn integers_of<S: Simd>(simd: S, words: S::Bytes, _: usize, piece: usize) -> S::Bytes {
        levels(simd, words, piece)
    }
}

impl Interleaved for BlockIq4Xs {
    /// The scale, and the upper bits of the sub-blocks' scales.
    const SCALES: (usize, usize) = (2, 0);

    /// The word of lower bits of scales is the last one.
    #[inline(always)]
    fn place(word: usize) -> usize {
        match word {
            0 => 32,
            _ => word - 1,
        }
    }
}

impl InterleavedIntegers for BlockIq4Xs {
    const SPANS: usize = 8;
    const PIECES: usize = 2;
    type Words<S: Simd> = S::Bytes;
    /// The lower bits of scales, a nibble for each sub-block, and the upper ones, two bits for each.
    type Factors<S: Simd> = [S::Bytes; 2];

    #[inline(always)]
    fn start(span: usize, piece: usize) -> usize {
        GROUP * span + 16 * piece
    }

    #[inline(always)]
    unsafe fn words<S: Simd>(simd: S, rows: BlockRows<Self>, span: usize, step: usize) -> S::Bytes {
        // SAFETY: the caller's promise.
        unsafe { rows.word(simd, 4 * span + step) }
    }

    #[inline(always)]
    fn integers_of<S: Simd>(simd: S, words: S::Bytes, _: usize, piece: usize) -> S::Bytes {
        levels(simd, words, piece)
    }

    #[inline(always)]
    unsafe fn factors<S: Simd>(simd: S, rows: BlockRows<Self>) -> [S::Bytes; 2] {
        // SAFETY: the caller's promise.
        unsafe { [rows.word(simd, 32), rows.second_half(simd)] }
    }

    #[inline(always)]
    fn scale<S: Simd>(simd: S, [low, high]: &[S::Bytes; 2], sub_block: usize) -> S::Vector {
        let low = simd.shift_mask(*low, (sub_block % 2 * 4) as i32, 15);
        let high = simd.shift_mask(*high, (sub_block % 4 * 2) as i32 - 4, 0x30);
        let low = simd.unsigned_byte(low, sub_block / 2);
        let scale = simd.add(low, simd.unsigned_byte(high, sub_block / 4));
        simd.add(scale, simd.splat(-32.0))
    }
}
