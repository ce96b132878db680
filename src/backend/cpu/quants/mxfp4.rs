//! MXFP4: floats of 4 bits with a power of two for 32 of them. OCP Microscaling Formats (MX) 1.0.

use super::blocks::{Block, blocks, nibble};
use super::dot::{Integers, SCALED_GROUPS, Scales};
use super::storage::GROUP;
use super::x16::{
    BlockRows, Interleaved, InterleavedIntegers, X16_ROWS, nibbles_of_a_group, one_scale,
};
use crate::backend::cpu::simd::Simd;

blocks! {
    /// `half of 2^(scale − 127) · level[q]`.
    BlockMxfp4 { scale: u8, quants: [u8; 16] }
}

/// The floats (E2M1), doubled, so that they are integers.
const LEVELS: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

/// What is added to them, so that they need no sign.
const ZERO: i8 = 12;

/// With [`ZERO`].
const UNSIGNED_LEVELS: [i8; 16] = {
    let (mut levels, mut i) = (LEVELS, 0);
    while i < 16 {
        levels[i] += ZERO;
        i += 1;
    }
    levels
};

/// Half of 2^(exponent − 127). The two least ones are subnormal. (`ggml_e8m0_to_fp32_half`.)
///
/// Written so that a loop becomes vector instructions: where the exponent is below 2, the other bits are the larger.
#[inline(always)]
fn half_of_power(exponent: u8) -> f32 {
    let exponent = i32::from(exponent);
    let subnormal = (1 + exponent.min(1)) << 21;
    f32::from_bits(subnormal.max((exponent - 1) << 23) as u32)
}

impl Block for BlockMxfp4 {
    #[inline(always)]
    fn group(&self, _: usize) -> [f32; GROUP] {
        let scale = half_of_power(self.scale);
        std::array::from_fn(|i| scale * f32::from(LEVELS[usize::from(nibble(&self.quants, i))]))
    }
}

impl Integers for BlockMxfp4 {
    const ZERO: i32 = ZERO as i32;
    const LARGEST: i32 = 2 * Self::ZERO;

    #[inline(always)]
    unsafe fn integers<S: Simd>(simd: S, row: *const BlockMxfp4, group: usize) -> S::Group {
        // SAFETY: the caller's promise; no reference is made.
        unsafe {
            let nibbles = simd.load_nibbles((&raw const (*row.add(group)).quants).cast());
            simd.shuffle_lut(nibbles, &UNSIGNED_LEVELS)
        }
    }

    #[inline(always)]
    unsafe fn scales<S: Simd>(_: S, row: *const BlockMxfp4, first: usize, count: usize) -> Scales {
        let mut scales = [0.0; 2 * SCALED_GROUPS];
        for (group, scale) in scales.iter_mut().take(count).enumerate() {
            // SAFETY: the caller's promise; no reference is made.
            *scale = half_of_power(unsafe { (&raw const (*row.add(first + group)).scale).read() });
        }
        Scales::new(scales)
    }
}

impl Interleaved for BlockMxfp4 {
    const SCALES: (usize, usize) = (1, 0);
    const SCALE_BYTES: usize = 1;
}

impl InterleavedIntegers for BlockMxfp4 {
    nibbles_of_a_group!();
    one_scale!();

    #[inline(always)]
    fn integers_of<S: Simd>(simd: S, words: S::Bytes, _: usize, piece: usize) -> S::Bytes {
        let nibbles = simd.shift_mask(words, 4 * piece as i32, 15);
        simd.shuffle_bytes_lut(nibbles, &UNSIGNED_LEVELS)
    }

    #[inline(always)]
    unsafe fn widen_scales<S: Simd>(simd: S, from: *const u8) -> S::Vector {
        let mut scales = [0.0; X16_ROWS];
        for (lane, scale) in scales.iter_mut().enumerate().take(S::LANES) {
            // SAFETY: the caller's promise.
            *scale = half_of_power(unsafe { from.add(lane).read() });
        }
        // SAFETY: no vector has more lanes.
        unsafe { simd.load(scales.as_ptr()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_are_powers_of_two() {
        for exponent in 0..=u8::MAX {
            let expected = 2f64.powi(i32::from(exponent) - 128);
            assert_eq!(f64::from(half_of_power(exponent)), expected);
        }
    }
}
