//! Q2_K and Q3_K in the x16 layout: two bits of a weight in a byte with those of three others, 32 apart.
//!
//! A span is half of what a byte's four weights have for a scale, as in Q6_K.

use super::blocks::{BlockQ2K, BlockQ3K};
use super::x16::{BlockRows, Interleaved, InterleavedIntegers};
use crate::backend::cpu::simd::Simd;

/// Where in a block the integers of a piece begin.
#[inline(always)]
fn start_of(span: usize, piece: usize) -> usize {
    128 * (span / 2) + 16 * (span % 2) + 32 * piece
}

impl Interleaved for BlockQ2K {
    const SCALES: (usize, usize) = (0, 2);

    /// The words of scales are the last ones.
    #[inline(always)]
    fn place(word: usize) -> usize {
        match word {
            ..4 => 16 + word,
            _ => word - 4,
        }
    }
}

impl InterleavedIntegers for BlockQ2K {
    const SPANS: usize = 4;
    const PIECES: usize = 4;
    type Words<S: Simd> = S::Bytes;
    /// The 16 scales of each row, and the 16 minima.
    type Factors<S: Simd> = [[S::Bytes; 4]; 2];

    #[inline(always)]
    fn start(span: usize, piece: usize) -> usize {
        start_of(span, piece)
    }

    #[inline(always)]
    unsafe fn words<S: Simd>(simd: S, rows: BlockRows<Self>, span: usize, step: usize) -> S::Bytes {
        // SAFETY: the caller's promise.
        unsafe { rows.word(simd, 4 * span + step) }
    }

    #[inline(always)]
    fn integers_of<S: Simd>(simd: S, words: S::Bytes, _: usize, piece: usize) -> S::Bytes {
        simd.shift_mask(words, 2 * piece as i32, 3)
    }

    #[inline(always)]
    unsafe fn factors<S: Simd>(simd: S, rows: BlockRows<Self>) -> [[S::Bytes; 4]; 2] {
        // SAFETY: the caller's promise.
        let words = unsafe {
            [
                rows.word(simd, 16),
                rows.word(simd, 17),
                rows.word(simd, 18),
                rows.word(simd, 19),
            ]
        };
        let mut factors = [words; 2];
        for i in 0..4 {
            factors[0][i] = simd.shift_mask(words[i], 0, 15);
            factors[1][i] = simd.shift_mask(words[i], 4, 15);
        }
        factors
    }

    #[inline(always)]
    fn scale<S: Simd>(simd: S, factors: &[[S::Bytes; 4]; 2], sub_block: usize) -> S::Vector {
        simd.unsigned_byte(factors[0][sub_block / 4], sub_block % 4)
    }

    #[inline(always)]
    fn minimum<S: Simd>(simd: S, factors: &[[S::Bytes; 4]; 2], sub_block: usize) -> S::Vector {
        simd.unsigned_byte(factors[1][sub_block / 4], sub_block % 4)
    }
}

impl Interleaved for BlockQ3K {
    const SCALES: (usize, usize) = (0, 1);

    /// With each of the first eight words of two bits one of third bits, then the others, and those of scales.
    #[inline(always)]
    fn place(word: usize) -> usize {
        match word {
            ..8 => 2 * word,
            8..16 => 2 * (word - 8) + 1,
            _ => word,
        }
    }
}

impl InterleavedIntegers for BlockQ3K {
    const SPANS: usize = 4;
    const PIECES: usize = 4;
    /// Third bits, and the two others.
    type Words<S: Simd> = [S::Bytes; 2];
    /// The 16 scales of each row, 32 too large.
    type Factors<S: Simd> = [S::Bytes; 4];

    #[inline(always)]
    fn start(span: usize, piece: usize) -> usize {
        start_of(span, piece)
    }

    #[inline(always)]
    unsafe fn words<S: Simd>(
        simd: S,
        rows: BlockRows<Self>,
        span: usize,
        step: usize,
    ) -> [S::Bytes; 2] {
        let third = 4 * (span % 2) + step;
        let two = match span {
            ..2 => 2 * third + 1,
            _ => 8 + 4 * span + step,
        };
        // SAFETY: the caller's promise.
        unsafe { [rows.word(simd, 2 * third), rows.word(simd, two)] }
    }

    #[inline(always)]
    fn integers_of<S: Simd>(
        simd: S,
        [third, two]: [S::Bytes; 2],
        span: usize,
        piece: usize,
    ) -> S::Bytes {
        let bit = (span / 2 * 4 + piece) as i32;
        let two = simd.shift_mask(two, 2 * piece as i32, 3);
        simd.or(simd.shift_mask(third, bit - 2, 4), two)
    }

    #[inline(always)]
    unsafe fn factors<S: Simd>(simd: S, rows: BlockRows<Self>) -> [S::Bytes; 4] {
        // SAFETY: the caller's promise.
        let (lower, upper) = unsafe {
            let lower = [rows.word(simd, 24), rows.word(simd, 25)];
            (lower, rows.word(simd, 26))
        };
        let mut factors = [upper; 4];
        for i in 0..4 {
            let lower = simd.shift_mask(lower[i % 2], (i / 2 * 4) as i32, 15);
            factors[i] = simd.or(simd.shift_mask(upper, 2 * i as i32 - 4, 0x30), lower);
        }
        factors
    }

    #[inline(always)]
    fn scale<S: Simd>(simd: S, factors: &[S::Bytes; 4], sub_block: usize) -> S::Vector {
        let scale = simd.unsigned_byte(factors[sub_block / 4], sub_block % 4);
        simd.add(scale, simd.splat(-32.0))
    }
}
