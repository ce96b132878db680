//! MXFP4: floats of 4 bits with a power of two for 32 of them. OCP Microscaling Formats (MX) 1.0.

use super::blocks::{Block, blocks, nibble};
use super::dot::{Integers, SCALED_GROUPS, Scales};
use super::storage::GROUP;
use crate::backend::cpu::simd::Simd;

blocks! {
    /// `half of 2^(scale − 127) · level[q]`.
    BlockMxfp4 { scale: u8, quants: [u8; 16] }
}

/// The floats (E2M1), doubled, so that they are integers.
const LEVELS: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

/// Half of 2^(exponent − 127). The two least ones are subnormal. (`ggml_e8m0_to_fp32_half`.)
#[inline(always)]
fn half_of_power(exponent: u8) -> f32 {
    f32::from_bits(match exponent {
        0..2 => 0x0020_0000 << exponent,
        _ => u32::from(exponent - 1) << 23,
    })
}

impl Block for BlockMxfp4 {
    #[inline(always)]
    fn group(&self, _: usize) -> [f32; GROUP] {
        let scale = half_of_power(self.scale);
        std::array::from_fn(|i| scale * f32::from(LEVELS[usize::from(nibble(&self.quants, i))]))
    }
}

impl Integers for BlockMxfp4 {
    const SIGNED: bool = true;

    #[inline(always)]
    unsafe fn integers<S: Simd>(simd: S, row: *const BlockMxfp4, group: usize) -> S::Group {
        // SAFETY: the caller's promise; no reference is made.
        unsafe {
            let nibbles = simd.load_nibbles((&raw const (*row.add(group)).quants).cast());
            simd.bias_group(simd.shuffle_lut(nibbles, &LEVELS))
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
