//! The memory of 16 scales of a type, as vectors.

#![allow(
    clippy::needless_range_loop,
    reason = "closures of iterators need not be inlined, and then miss the instruction set"
)]

use std::arch::x86_64::*;

use super::blocks::{BlockQ4_0, BlockQ4K, BlockQ6K};
use super::dot::Integers;

/// Lanes of 32 bits of a vector, and scales of a unit.
pub const LANES: usize = 16;
/// The most vectors of integers in a unit.
pub const MAX_VECTORS: usize = 8;
/// The most steps.
const STEPS: usize = 4;

/// A few blocks with [`LANES`] scales together. Vectors of integers that have the same scales lane for lane are
/// neighbors, a step.
pub trait Unit {
    type Block: Integers;
    /// In memory.
    const BYTES: usize;
    const GROUPS: usize;
    /// Vectors of a step.
    const STEP_VECTORS: usize;
    /// For each step the scale of each lane.
    const SCALE_OF_LANE: [[u32; LANES]; STEPS];

    /// Which 16 of the unit's weights are the integers `16 * piece ..` of vector `vector`.
    fn piece(vector: usize, piece: usize) -> usize;

    /// # Safety
    /// The processor has the features, and `from` is readable for [`Unit::BYTES`].
    unsafe fn load(from: *const u8) -> Vectors;
}

pub struct Vectors {
    /// Without sign.
    pub integers: [__m512i; MAX_VECTORS],
    pub scales: __m512,
    /// What A's corrections are multiplied with: minima, or scales where a type has a zero.
    pub minima: __m512,
}

/// The lower four bits of each byte, and the upper four.
///
/// # Safety
/// The processor has AVX-512 with GFNI.
#[inline(always)]
unsafe fn nibbles(bytes: __m512i) -> [__m512i; 2] {
    /// A matrix of bits that moves the upper four down and drops the others.
    const UPPER: i64 = 0x1020_4080 << 32;
    // SAFETY: the caller's promise.
    unsafe {
        let lower = _mm512_and_si512(bytes, _mm512_set1_epi8(15));
        let upper = _mm512_gf2p8affine_epi64_epi8::<0>(bytes, _mm512_set1_epi64(UPPER));
        [lower, upper]
    }
}

/// 16 blocks: step s is blocks 4 s .. 4 s + 4, first the lower half of their weights, then the upper.
pub struct Q4_0;

/// Bytes of a block of Q4_0.
const Q4_0_BYTES: usize = 18;

impl Q4_0 {
    /// Of vectors s and s + 1 of the unit's memory, the bytes that hold the integers of step s.
    const QUANTS: [[u8; 64]; STEPS] = {
        let mut places = [[0; 64]; STEPS];
        let mut i = 0;
        while i < STEPS * 64 {
            let (step, byte) = (i / 64, i % 64);
            let in_unit = (4 * step + byte / 16) * Q4_0_BYTES + 2 + byte % 16;
            places[step][byte] = (in_unit - 64 * step) as u8;
            i += 1;
        }
        places
    };
    /// Of the unit's halves, those that are scales, as places in two vectors.
    const SCALES: [u16; 32] = {
        let mut places = [0; 32];
        let mut block = 0;
        while block < 16 {
            places[block] = (block * Q4_0_BYTES / 2 % 64) as u16;
            block += 1;
        }
        places
    };
}

impl Unit for Q4_0 {
    type Block = BlockQ4_0;
    const BYTES: usize = 16 * Q4_0_BYTES;
    const GROUPS: usize = 16;
    const STEP_VECTORS: usize = 2;
    const SCALE_OF_LANE: [[u32; LANES]; STEPS] = {
        let mut lanes = [[0; LANES]; STEPS];
        let mut i = 0;
        while i < STEPS * LANES {
            lanes[i / LANES][i % LANES] = (i / 4) as u32;
            i += 1;
        }
        lanes
    };

    fn piece(vector: usize, piece: usize) -> usize {
        let block = 4 * (vector / 2) + piece;
        2 * block + vector % 2
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Vectors {
        // SAFETY: the caller's promise: 288 bytes.
        unsafe {
            let mut memory = [_mm512_setzero_si512(); 5];
            for i in 0..4 {
                memory[i] = _mm512_loadu_si512(from.add(64 * i).cast());
            }
            memory[4] = _mm512_castsi256_si512(_mm256_loadu_si256(from.add(256).cast()));
            let mut integers = [_mm512_setzero_si512(); MAX_VECTORS];
            for step in 0..STEPS {
                let places = _mm512_loadu_si512(Self::QUANTS[step].as_ptr().cast());
                let quants = _mm512_permutex2var_epi8(memory[step], places, memory[step + 1]);
                [integers[2 * step], integers[2 * step + 1]] = nibbles(quants);
            }
            // Scales 0 to 7 are in the first two vectors, 8 to 14 in the next, and 15 in the last.
            let places = _mm512_loadu_si512(Self::SCALES.as_ptr().cast());
            let scales = _mm512_permutex2var_epi16(memory[0], places, memory[1]);
            let next = _mm512_permutex2var_epi16(memory[2], places, memory[3]);
            let scales = _mm512_mask_mov_epi16(scales, 0x7f00, next);
            let scales = _mm512_mask_permutexvar_epi16(scales, 0x8000, places, memory[4]);
            let scales = _mm512_cvtph_ps(_mm512_castsi512_si256(scales));
            Vectors {
                integers,
                scales,
                minima: scales,
            }
        }
    }
}

/// Two blocks: step 2 b + h is of block b the groups 0, 2, 4, 6 (h = 0, in lower nibbles) or 1, 3, 5, 7 (in upper
/// ones), first the lower half of their weights.
pub struct Q4K;

/// Bytes of a block of Q4_K, and those before its integers.
const Q4_K_BYTES: usize = 144;
const Q4_K_HEADER: usize = 16;

impl Q4K {
    /// Bytes of a block's header: what holds scales 0 to 3, the lower bits of scales 4 to 7, minima 0 to 3, those of
    /// minima 4 to 7.
    const SIX_BITS: [u8; 16] = [4, 5, 6, 7, 12, 13, 14, 15, 8, 9, 10, 11, 12, 13, 14, 15];
    /// Where among the 64 bits of scales, and among those of minima, each starts whose bits are in one place, and the
    /// lower four of others.
    const LOWER: [u8; 16] = [0, 8, 16, 24, 32, 40, 48, 56, 0, 8, 16, 24, 36, 44, 52, 60];
    const LOWER_BITS: [u8; 8] = [63, 63, 63, 63, 15, 15, 15, 15];
    /// The upper two bits of the others: bits 6 and 7 of bytes 0 to 3, moved to bits 4 and 5.
    const UPPER: [u8; 8] = [0, 0, 0, 0, 2, 10, 18, 26];
    const UPPER_BITS: [u8; 8] = [0, 0, 0, 0, 48, 48, 48, 48];
    /// Where in both headers each block's scale is for its scales, and its minimum for its minima.
    const HALVES: [[u16; LANES]; 2] = [
        [0, 0, 0, 0, 0, 0, 0, 0, 8, 8, 8, 8, 8, 8, 8, 8],
        [1, 1, 1, 1, 1, 1, 1, 1, 9, 9, 9, 9, 9, 9, 9, 9],
    ];
}

impl Unit for Q4K {
    type Block = BlockQ4K;
    const BYTES: usize = 2 * Q4_K_BYTES;
    const GROUPS: usize = 16;
    const STEP_VECTORS: usize = 2;
    const SCALE_OF_LANE: [[u32; LANES]; STEPS] = {
        let mut lanes = [[0; LANES]; STEPS];
        let mut i = 0;
        while i < STEPS * LANES {
            let (step, lane) = (i / LANES, i % LANES);
            lanes[step][lane] = (step / 2 * 8 + lane / 4 * 2 + step % 2) as u32;
            i += 1;
        }
        lanes
    };

    fn piece(vector: usize, piece: usize) -> usize {
        let group = Self::SCALE_OF_LANE[vector / 2][4 * piece] as usize;
        2 * group + vector % 2
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Vectors {
        // SAFETY: the caller's promise: 288 bytes.
        unsafe {
            let mut integers = [_mm512_setzero_si512(); MAX_VECTORS];
            for block in 0..2 {
                let quants = from.add(block * Q4_K_BYTES + Q4_K_HEADER);
                let first = _mm512_loadu_si512(quants.cast());
                let second = _mm512_loadu_si512(quants.add(64).cast());
                // Of each 32 bytes the first 16, and the others.
                let halves = [
                    _mm512_shuffle_i64x2::<0b10_00_10_00>(first, second),
                    _mm512_shuffle_i64x2::<0b11_01_11_01>(first, second),
                ];
                for half in 0..2 {
                    let nibbles = nibbles(halves[half]);
                    integers[4 * block + half] = nibbles[0];
                    integers[4 * block + 2 + half] = nibbles[1];
                }
            }

            let first = _mm_loadu_si128(from.cast());
            let second = _mm_loadu_si128(from.add(Q4_K_BYTES).cast());
            let headers = _mm256_set_m128i(second, first);
            let places =
                _mm256_broadcastsi128_si256(_mm_loadu_si128(Self::SIX_BITS.as_ptr().cast()));
            let packed = _mm256_shuffle_epi8(headers, places);
            let places = _mm256_broadcastsi128_si256(_mm_loadu_si128(Self::LOWER.as_ptr().cast()));
            let lower = _mm256_multishift_epi64_epi8(places, packed);
            let lower = _mm256_and_si256(lower, eights(Self::LOWER_BITS));
            let upper = _mm256_multishift_epi64_epi8(eights(Self::UPPER), packed);
            let six_bits =
                _mm256_ternarylogic_epi64::<AND_OR>(upper, eights(Self::UPPER_BITS), lower);
            // Scales of both blocks, then minima.
            let six_bits = _mm256_permute4x64_epi64::<0b11_01_10_00>(six_bits);
            let six_bits = [
                _mm256_castsi256_si128(six_bits),
                _mm256_extracti128_si256::<1>(six_bits),
            ];
            let mut products = [_mm512_setzero_ps(); 2];
            for i in 0..2 {
                let parts = _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(six_bits[i]));
                let places = _mm256_loadu_si256(Self::HALVES[i].as_ptr().cast());
                let halves = _mm512_cvtph_ps(_mm256_permutexvar_epi16(places, headers));
                products[i] = _mm512_mul_ps(parts, halves);
            }
            let [scales, minima] = products;
            Vectors {
                integers,
                scales,
                minima,
            }
        }
    }
}

/// A block: the weights in their order.
pub struct Q6K;

impl Q6K {
    /// Where the upper two bits of weights are: in `high` at byte 128, four weights' in a byte.
    const HIGH: usize = 128;
    const SCALES: usize = 192;
    const SCALE: usize = 208;
    /// For the first and the second 64 weights of a half block: where, in the 64 bits around its byte, a byte starts
    /// that has the two bits of a weight as its bits 4 and 5.
    const UPPER: [[u8; 64]; 2] = {
        let mut starts = [[0; 64]; 2];
        let mut i = 0;
        while i < 128 {
            let bit = i % 8 * 8 + i / 32 * 2;
            starts[i / 64][i % 64] = ((bit + 64 - 4) % 64) as u8;
            i += 1;
        }
        starts
    };
}

impl Unit for Q6K {
    type Block = BlockQ6K;
    const BYTES: usize = 210;
    const GROUPS: usize = 8;
    const STEP_VECTORS: usize = 1;
    const SCALE_OF_LANE: [[u32; LANES]; STEPS] = Q4_0::SCALE_OF_LANE;

    fn piece(vector: usize, piece: usize) -> usize {
        4 * vector + piece
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Vectors {
        // SAFETY: the caller's promise: 210 bytes.
        unsafe {
            let mut integers = [_mm512_setzero_si512(); MAX_VECTORS];
            for half in 0..2 {
                let nibbles = nibbles(_mm512_loadu_si512(from.add(64 * half).cast()));
                let high = _mm256_loadu_si256(from.add(Self::HIGH + 32 * half).cast());
                let high = _mm512_broadcast_i64x4(high);
                for i in 0..2 {
                    let starts = _mm512_loadu_si512(Self::UPPER[i].as_ptr().cast());
                    let upper = _mm512_multishift_epi64_epi8(starts, high);
                    let bits = _mm512_set1_epi8(48);
                    integers[2 * half + i] =
                        _mm512_ternarylogic_epi64::<AND_OR>(upper, bits, nibbles[i]);
                }
            }
            let scale = from.add(Self::SCALE).cast::<i16>().read_unaligned();
            let scale = _mm512_cvtph_ps(_mm256_set1_epi16(scale));
            let parts = _mm_loadu_si128(from.add(Self::SCALES).cast());
            let parts = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(parts));
            let scales = _mm512_mul_ps(parts, scale);
            Vectors {
                integers,
                scales,
                minima: scales,
            }
        }
    }
}

/// Of three operands of a ternary logic: a & b | c.
const AND_OR: i32 = 0b1110_1010;

/// The same eight bytes in each 64 bits.
///
/// # Safety
/// The processor has AVX2.
#[inline(always)]
unsafe fn eights(bytes: [u8; 8]) -> __m256i {
    // SAFETY: the caller's promise.
    unsafe { _mm256_set1_epi64x(i64::from_le_bytes(bytes)) }
}
