//! x16 panels unpacked to tiles of bf16.

use std::arch::x86_64::*;
use std::mem::MaybeUninit;
use std::ops::Range;

use half::{bf16, f16};

use crate::backend::cpu::quants::{
    BlockIq4Nl, BlockIq4Xs, BlockMxfp4, BlockQ2K, BlockQ3K, BlockQ4_0, BlockQ4_1, BlockQ4K,
    BlockQ5_0, BlockQ5_1, BlockQ5K, BlockQ6K, BlockQ8_0, BlockRows, Interleaved,
    InterleavedIntegers, Readable, SUB_BLOCKS, WORD, X16_ROWS,
};
use crate::backend::cpu::simd::{Avx512, CACHE_LINE, DEPTH, Tile, opaque_trip_count, prefetch_l2};

/// x16 panels that are multiplied together.
pub const WIDTH: usize = 2;

/// Weights as sums of bf16.
pub trait Weights: Interleaved {
    /// As many as a weight is the sum of.
    const PARTS: usize;
    /// As many as a value of A is the sum of.
    const A_PARTS: usize;
    /// Which parts of A are multiplied with which of the weights: those whose products are not below the last bits of
    /// others.
    const PRODUCTS: &'static [(usize, usize)];

    /// Unpacks some steps of `source`, an x16 panel, to `panel`, as its column of tiles number `column`.
    ///
    /// # Safety
    /// `source` is readable there, and the panel has room. The first step is that of a block.
    unsafe fn fill(
        simd: Avx512<true>,
        source: *const Self,
        steps: Range<usize>,
        column: usize,
        panel: Panel,
        prefetch: Prefetch,
    );
}

/// Memory that is prefetched while an x16 panel is unpacked. It need not be readable.
#[derive(Clone, Copy)]
pub struct Prefetch {
    pub from: *const u8,
    pub bytes: usize,
}

impl Prefetch {
    /// Prefetches part `part_index` of `parts`.
    #[inline(always)]
    fn issue(self, part_index: usize, parts: usize) {
        let each = self.bytes / parts;
        let from = self.from.wrapping_add(part_index * each);
        for line in (0..each).step_by(CACHE_LINE) {
            prefetch_l2(from.wrapping_add(line));
        }
    }
}

/// Room for tiles of [part][step][column].
#[derive(Clone, Copy)]
pub struct Panel {
    tiles: *mut Tile,
    steps: usize,
}

impl Panel {
    /// With `steps` steps of tiles in a part.
    pub fn new(tiles: *mut Tile, steps: usize) -> Panel {
        Panel { tiles, steps }
    }

    #[inline(always)]
    pub fn part(self, part: usize) -> *mut Tile {
        self.tiles.wrapping_add(part * self.steps * WIDTH)
    }

    /// The place of a part of the weights of steps `step` and `step + 1`, an even number. Those of the same tile's next
    /// steps follow it.
    #[inline(always)]
    fn row(self, part: usize, step: usize, column: usize) -> *mut __m512i {
        let tile = self.part(part).wrapping_add(step / DEPTH * WIDTH + column);
        tile.cast::<__m512i>().wrapping_add(step % DEPTH / 2)
    }
}

/// Two vectors rounded to bf16, lane by lane neighbors.
///
/// Halves are rounded away from zero. (`vcvtne2ps2bf16` and a permutation of its halves take longer.)
///
/// # Safety
/// The processor has AVX-512, and no lane is a NaN other than the default one.
#[inline(always)]
unsafe fn bf16_pairs(first: __m512, second: __m512) -> __m512i {
    // SAFETY: the caller's promise.
    unsafe {
        let half = _mm512_set1_epi32(0x8000);
        let first = _mm512_add_epi32(_mm512_castps_si512(first), half);
        let second = _mm512_add_epi32(_mm512_castps_si512(second), half);
        upper_halves(first, second)
    }
}

/// The upper halves of both, lane by lane neighbors.
///
/// # Safety
/// The processor has AVX-512.
#[inline(always)]
unsafe fn upper_halves(first: __m512i, second: __m512i) -> __m512i {
    /// For each bit: of the second where the third is set, else of the first.
    const CHOICE: i32 = 0xd8;
    // SAFETY: the caller's promise.
    unsafe {
        let first = _mm512_srli_epi32::<16>(first);
        let upper = _mm512_set1_epi32(0xffff_0000_u32 as i32);
        _mm512_ternarylogic_epi32::<CHOICE>(first, second, upper)
    }
}

/// 1 + byte / 256, of byte `byte` of each lane's four: so its bits need but be put where a mantissa has them.
///
/// # Safety
/// The processor has AVX-512.
#[inline(always)]
unsafe fn fractions(bytes: __m512i, byte: usize) -> __m512 {
    /// For each bit: the first and the second, or the third.
    const AND_OR: i32 = 0xea;
    // SAFETY: the caller's promise.
    unsafe {
        let shifted = match byte {
            0 => _mm512_slli_epi32::<15>(bytes),
            1 => _mm512_slli_epi32::<7>(bytes),
            2 => _mm512_srli_epi32::<1>(bytes),
            _ => _mm512_srli_epi32::<9>(bytes),
        };
        let mantissa = _mm512_set1_epi32(0x007f_8000);
        let one = _mm512_set1_epi32(1f32.to_bits() as i32);
        _mm512_castsi512_ps(_mm512_ternarylogic_epi32::<AND_OR>(shifted, mantissa, one))
    }
}

/// Of `vfpclassps`: both kinds of NaN, both infinities.
const NOT_FINITE: i32 = 0x99;

/// Lanes that are not finite are the default NaN.
///
/// # Safety
/// The processor has AVX-512.
#[inline(always)]
unsafe fn finite_or_nan(a: __m512) -> __m512 {
    // SAFETY: the caller's promise.
    unsafe {
        let others = _mm512_fpclass_ps_mask::<NOT_FINITE>(a);
        _mm512_mask_blend_ps(others, a, _mm512_set1_ps(f32::NAN))
    }
}

/// What a fraction of [`fractions`] is multiplied with to be a weight, and what is added.
#[derive(Clone, Copy)]
struct Factors {
    scale: __m512,
    offset: __m512,
}

/// Scales of a byte are powers of two, and 256 times the largest is no number. Such a scale multiplies the integer, and
/// the offset is what makes an integer of 256 times the fraction.
const fn has_large_scales<B: Interleaved>() -> bool {
    B::SCALE_BYTES == 1
}

impl Factors {
    /// The weights of these fractions.
    ///
    /// # Safety
    /// The processor has AVX-512.
    #[inline(always)]
    unsafe fn weights<B: Interleaved>(self, fractions: __m512) -> __m512 {
        // SAFETY: the caller's promise.
        unsafe {
            if has_large_scales::<B>() {
                let integers = _mm512_fmadd_ps(fractions, _mm512_set1_ps(256.0), self.offset);
                return _mm512_mul_ps(integers, self.scale);
            }
            _mm512_fmadd_ps(fractions, self.scale, self.offset)
        }
    }
}

/// Of a block's sub-blocks.
///
/// # Safety
/// The block is readable and the processor has AVX-512.
#[inline(always)]
unsafe fn factors<B: InterleavedIntegers>(
    simd: Avx512<true>,
    rows: BlockRows<B>,
) -> [MaybeUninit<Factors>; SUB_BLOCKS] {
    // SAFETY: the caller's promise.
    unsafe {
        let mut of_sub_blocks = [MaybeUninit::uninit(); SUB_BLOCKS];
        let factors = B::factors(simd, rows);
        let scale = finite_or_nan(rows.scale(simd));
        let minimum = match B::HAS_MINIMUM {
            true => finite_or_nan(rows.minimum(simd)),
            false => _mm512_setzero_ps(),
        };
        // A fraction is 1 too large, and its integer the one that stands for 0: exact, they have few bits.
        let zero = _mm512_set1_ps(-(256 + B::zero::<Avx512<true>>()) as f32);
        for sub_block in 0..B::ELEMENTS / B::SUB_BLOCK {
            let scale = _mm512_mul_ps(scale, B::scale(simd, &factors, sub_block));
            if has_large_scales::<B>() {
                of_sub_blocks[sub_block].write(Factors {
                    scale,
                    offset: zero,
                });
                continue;
            }
            let mut offset = _mm512_mul_ps(scale, zero);
            if B::HAS_MINIMUM {
                let of_sub_block = B::minimum(simd, &factors, sub_block);
                offset = _mm512_fnmadd_ps(minimum, of_sub_block, offset);
            }
            let scale = _mm512_mul_ps(scale, _mm512_set1_ps(256.0));
            of_sub_blocks[sub_block].write(Factors { scale, offset });
        }
        of_sub_blocks
    }
}

/// [`Weights::fill`] for blocks of integers.
///
/// # Safety
/// As there.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,gfni")]
unsafe fn fill_blocks<B: InterleavedIntegers>(
    simd: Avx512<true>,
    source: *const B,
    steps: Range<usize>,
    column: usize,
    panel: Panel,
    prefetch: Prefetch,
) {
    let (parts, blocks) = (B::SPANS * B::STEPS, steps.len() / B::ELEMENTS);
    for first in steps.clone().step_by(B::ELEMENTS) {
        let rows = BlockRows::new(source.wrapping_add(first / B::ELEMENTS * X16_ROWS), 0);
        // SAFETY: the caller's promise; all sub-blocks have factors.
        unsafe {
            let factors = factors(simd, rows);
            for span in 0..B::SPANS {
                for step in 0..opaque_trip_count(B::STEPS) {
                    let part_index = (first - steps.start) / B::ELEMENTS * parts;
                    prefetch.issue(part_index + span * B::STEPS + step, parts * blocks);
                    let words = B::words(simd, rows, span, step);
                    for piece in 0..B::PIECES {
                        let start = B::start(span, piece);
                        let integers = B::integers_of(simd, words, span, piece);
                        let factors = factors[start / B::SUB_BLOCK].assume_init();
                        let mut weights = [_mm512_setzero_ps(); WORD];
                        for byte in 0..WORD {
                            weights[byte] = factors.weights::<B>(fractions(integers, byte));
                        }
                        let to = panel.row(0, first - steps.start + start, column);
                        let to = to.wrapping_add(step * WORD / 2);
                        _mm512_store_si512(to, bf16_pairs(weights[0], weights[1]));
                        _mm512_store_si512(to.add(1), bf16_pairs(weights[2], weights[3]));
                    }
                }
            }
        }
    }
}

/// [`Weights::fill`] for floats. The last part has the remainder.
///
/// # Safety
/// As there.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,gfni")]
unsafe fn fill_floats<B: Readable + Weights>(
    simd: Avx512<true>,
    source: *const B,
    steps: Range<usize>,
    column: usize,
    panel: Panel,
    prefetch: Prefetch,
) {
    let padded = steps.len().next_multiple_of(DEPTH);
    for at in (0..padded).step_by(2) {
        // SAFETY: the caller's promise.
        unsafe {
            let mut rest = [_mm512_setzero_ps(); 2];
            for i in 0..2 {
                let step = steps.start + at + i;
                if step < steps.end {
                    rest[i] = B::vector(simd, source.add(step * X16_ROWS), 0, 0);
                }
            }
            prefetch.issue(at / 2, padded / 2);
            for part in 0..B::PARTS {
                let mut first = rest;
                if part + 1 < B::PARTS {
                    for i in 0..2 {
                        (first[i], rest[i]) = split(rest[i]);
                    }
                }
                let [first, second] = first.map(|a| _mm512_castps_si512(a));
                _mm512_store_si512(panel.row(part, at, column), upper_halves(first, second));
            }
        }
    }
}

/// Each lane rounded to bf16, halves away from zero, with any lower bits; and what is left, which is nothing where it
/// is not finite.
///
/// # Safety
/// The processor has AVX-512.
#[inline(always)]
unsafe fn split(a: __m512) -> (__m512, __m512) {
    // SAFETY: the caller's promise.
    unsafe {
        let finite = !_mm512_fpclass_ps_mask::<NOT_FINITE>(a);
        let bits = _mm512_castps_si512(a);
        let up = _mm512_mask_add_epi32(bits, finite, bits, _mm512_set1_epi32(0x8000));
        let upper = _mm512_and_si512(up, _mm512_set1_epi32(0xffff_0000_u32 as i32));
        let rest = _mm512_maskz_sub_ps(finite, a, _mm512_castsi512_ps(upper));
        (_mm512_castsi512_ps(up), rest)
    }
}

macro_rules! weights {
    ($($fill:ident($parts:literal parts, $a_parts:literal a_parts, $products:expr): $($block:ty)*;)*) => {
        $($(impl Weights for $block {
            const PARTS: usize = $parts;
            const A_PARTS: usize = $a_parts;
            const PRODUCTS: &'static [(usize, usize)] = &$products;

            unsafe fn fill(
                simd: Avx512<true>,
                source: *const Self,
                steps: Range<usize>,
                column: usize,
                panel: Panel,
                prefetch: Prefetch,
            ) {
                // SAFETY: the caller's promise; `simd` is the proof for the instructions.
                unsafe { $fill(simd, source, steps, column, panel, prefetch) };
            }
        })*)*
    };
}

weights! {
    fill_blocks(1 parts, 1 a_parts, [(0, 0)]): BlockQ8_0 BlockQ4_0 BlockQ4_1 BlockQ5_0 BlockQ5_1 BlockQ2K
        BlockQ3K BlockQ4K BlockQ5K BlockQ6K BlockIq4Nl BlockIq4Xs BlockMxfp4;
    fill_floats(2 parts, 3 a_parts, [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0)]): f16;
    fill_floats(1 parts, 3 a_parts, [(0, 0), (1, 0), (2, 0)]): bf16;
}
