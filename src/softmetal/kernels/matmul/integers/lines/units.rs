//! What lies in memory for 16 scales of a type, as vectors.

use std::arch::x86_64::*;

use super::LANES;

/// The most vectors of integers in a unit.
pub const MOST: usize = 8;
/// The most steps.
const STEPS: usize = 4;

/// A few blocks with [`LANES`] scales together. Vectors of integers that have the same scales lane for lane are neighbours, a step.
pub trait Unit {
    /// In memory.
    const BYTES: usize;
    const GROUPS: usize;
    /// Vectors of a step.
    const TOGETHER: usize;
    /// For each step the scale of each lane.
    const SHARES: [[u32; LANES]; STEPS];

    /// Which 16 of the unit's weights are the integers `16 * piece ..` of vector `vector`.
    fn piece(vector: usize, piece: usize) -> usize;

    /// # Safety
    /// The processor has the features, and `from` is readable for [`Unit::BYTES`].
    unsafe fn load(from: *const u8) -> Vectors;
}

pub struct Vectors {
    /// From 0 to 127.
    pub integers: [__m512i; MOST],
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
    const BYTES: usize = 16 * Q4_0_BYTES;
    const GROUPS: usize = 16;
    const TOGETHER: usize = 2;
    const SHARES: [[u32; LANES]; STEPS] = {
        let mut shares = [[0; LANES]; STEPS];
        let mut i = 0;
        while i < STEPS * LANES {
            shares[i / LANES][i % LANES] = (i / 4) as u32;
            i += 1;
        }
        shares
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
            let mut integers = [_mm512_setzero_si512(); MOST];
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
