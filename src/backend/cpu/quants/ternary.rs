//! The types of ternary weights: -1, 0 or 1 times the scale of a block.

use half::f16;

use super::blocks::{Block, blocks};
use super::dot::{Integers, SCALED_GROUPS, Scales};
use super::storage::GROUP;
use crate::backend::cpu::simd::{Simd, widen_f16};

blocks! {
    /// `scale · (q − 1)`: five digits to the base 3 in a byte, those of the last 16 weights apart, four in a byte.
    BlockTq1_0 { quants: [u8; 48], last: [u8; 4], scale: f16 }
    /// `scale · (q − 1)`: 2 bits a weight.
    BlockTq2_0 { quants: [u8; 64], scale: f16 }
}

/// The digits of 32 weights. A byte is a fraction of 256: times a power of 3 its upper digits leave the byte, and the
/// next one is what times 3 comes over 256.
#[inline(always)]
fn digits(quants: &[u8; 48], last: [u8; 4], group: usize) -> [u8; GROUP] {
    const POWERS: [u8; 5] = [1, 3, 9, 27, 81];
    let mut digits = [0; GROUP];
    for (i, digit) in digits.iter_mut().enumerate() {
        let (byte, place) = match group * GROUP + i {
            index @ 0..160 => (quants[index % 32], index / 32),
            index @ 160..240 => (quants[32 + index % 16], (index - 160) / 16),
            index => (last[index % 4], (index - 240) / 4),
        };
        let rest = byte.wrapping_mul(POWERS[place]);
        *digit = ((u16::from(rest) * 3) >> 8) as u8;
    }
    digits
}

impl Block for BlockTq1_0 {
    #[inline(always)]
    fn group(&self, group: usize) -> [f32; GROUP] {
        let scale = self.scale.to_f32();
        digits(&self.quants, self.last, group).map(|digit| scale * (f32::from(digit) - 1.0))
    }
}

impl Block for BlockTq2_0 {
    #[inline(always)]
    fn group(&self, group: usize) -> [f32; GROUP] {
        let scale = self.scale.to_f32();
        let quants = &self.quants[group / 4 * 32..][..32];
        std::array::from_fn(|i| scale * (f32::from(quants[i] >> (group % 4 * 2) & 3) - 1.0))
    }
}

/// One scale for all groups of a block.
#[inline(always)]
fn same_scale(scale: f16) -> Scales {
    let mut scales = [0.0; 2 * SCALED_GROUPS];
    scales[..SCALED_GROUPS].fill(widen_f16(scale.to_bits()));
    Scales::new(scales)
}

impl Integers for BlockTq1_0 {
    const ZERO: i32 = 1;
    const LARGEST: i32 = 2;

    #[inline(always)]
    unsafe fn integers<S: Simd>(simd: S, row: *const BlockTq1_0, group: usize) -> S::Group {
        // SAFETY: the caller's promise; no reference is made.
        unsafe {
            let block = row.add(group / 8).read();
            simd.load_group(digits(&block.quants, block.last, group % 8).as_ptr())
        }
    }

    #[inline(always)]
    unsafe fn scales<S: Simd>(_: S, row: *const BlockTq1_0, first: usize, _: usize) -> Scales {
        // SAFETY: the caller's promise; no reference is made.
        same_scale(unsafe { (&raw const (*row.add(first / 8)).scale).read() })
    }
}

impl Integers for BlockTq2_0 {
    const ZERO: i32 = 1;
    const LARGEST: i32 = 3;

    #[inline(always)]
    unsafe fn integers<S: Simd>(simd: S, row: *const BlockTq2_0, group: usize) -> S::Group {
        // SAFETY: the caller's promise; no reference is made.
        unsafe {
            let quants: *const u8 = (&raw const (*row.add(group / 8)).quants).cast();
            let quants = simd.load_group(quants.add(group % 8 / 4 * GROUP));
            simd.extract_bits(quants, (group % 4 * 2) as u32, 3)
        }
    }

    #[inline(always)]
    unsafe fn scales<S: Simd>(_: S, row: *const BlockTq2_0, first: usize, _: usize) -> Scales {
        // SAFETY: the caller's promise; no reference is made.
        same_scale(unsafe { (&raw const (*row.add(first / 8)).scale).read() })
    }
}
