//! GGML's block-quantized types as they are stored, and the weights they stand for.
//!
//! Layouts and formulas: `ggml-common.h` and `dequantize_row_*` of `ggml-quants.c` in llama.cpp. In each formula every
//! product is exact in f32 but Q6_K's, and there is at most one sum, so that all orders of evaluation give the same
//! f32.

use half::f16;

use super::storage::{GROUP, Readable, Stored};
use crate::backend::cpu::simd::Simd;

/// A type whose weights are computed [`GROUP`] at a time.
pub trait Block: Stored {
    /// The weights `GROUP * group ..` of the block; `group` is below `ELEMENTS / GROUP`.
    fn group(&self, group: usize) -> [f32; GROUP];
}

impl<B: Block> Readable for B {
    #[inline(always)]
    unsafe fn vector<S: Simd>(simd: S, row: *const B, group: usize, offset: usize) -> S::Vector {
        let groups = B::ELEMENTS / GROUP;
        // SAFETY: the caller's promise for the block; the load stays within the group.
        unsafe {
            let weights = (*row.add(group / groups)).group(group % groups);
            simd.load(weights.as_ptr().add(offset))
        }
    }

    #[inline(always)]
    unsafe fn element(row: *const B, index: usize) -> f32 {
        let within = index % B::ELEMENTS;
        // SAFETY: the caller's promise.
        let block = unsafe { &*row.add(index / B::ELEMENTS) };
        block.group(within / GROUP)[within % GROUP]
    }

    #[inline(always)]
    unsafe fn widen<S: Simd>(_: S, row: *const B, to: *mut f32, count: usize) {
        let groups = B::ELEMENTS / GROUP;
        for group in 0..count.div_ceil(GROUP) {
            // SAFETY: the caller's promise: the group's block is readable and `count` values are writable.
            unsafe {
                let weights = (*row.add(group / groups)).group(group % groups);
                let rest = GROUP.min(count - group * GROUP);
                std::ptr::copy_nonoverlapping(weights.as_ptr(), to.add(group * GROUP), rest);
            }
        }
    }
}

/// The blocks: their fields in memory order. `dtypes.def` has their sizes.
macro_rules! blocks {
    ($($(#[$doc:meta])* $name:ident { $($field:ident: $kind:ty),* })*) => {$(
        $(#[$doc])*
        #[repr(C)]
        #[derive(Clone, Copy, Debug)]
        pub struct $name {
            $(pub $field: $kind,)*
        }
    )*};
}
pub(super) use blocks;

blocks! {
    /// `scale · (q − 8)`: 4 bits a weight, the first half in the low nibbles.
    BlockQ4_0 { scale: f16, quants: [u8; 16] }
    /// `scale · q + minimum`.
    BlockQ4_1 { scale: f16, minimum: f16, quants: [u8; 16] }
    /// `scale · (q − 16)`: the fifth bits are apart.
    BlockQ5_0 { scale: f16, high: [u8; 4], quants: [u8; 16] }
    /// `scale · q + minimum`.
    BlockQ5_1 { scale: f16, minimum: f16, high: [u8; 4], quants: [u8; 16] }
    /// `scale · s · q − minimum · m`: 2 bits a weight; s and m are the nibbles of a byte for 16 weights.
    BlockQ2K { scales: [u8; 16], quants: [u8; 64], scale: f16, minimum: f16 }
    /// `scale · (s − 32) · (q − 4)`: 2 bits a weight and a third apart; s has 6 bits for 16 weights.
    BlockQ3K { high: [u8; 32], quants: [u8; 64], scales: [u8; 12], scale: f16 }
    /// `scale · s · q − minimum · m`: 4 bits a weight; s and m have 6 bits for 32 weights.
    BlockQ4K { scale: f16, minimum: f16, scales: [u8; 12], quants: [u8; 128] }
    /// The same with a fifth bit.
    BlockQ5K { scale: f16, minimum: f16, scales: [u8; 12], high: [u8; 32], quants: [u8; 128] }
    /// `scale · s · (q − 32)`: 4 bits a weight and two apart; s is a signed byte for 16 weights.
    BlockQ6K { quants: [u8; 128], high: [u8; 64], scales: [i8; 16], scale: f16 }
}

/// The 4-bit number of weight `index` of 32: low nibbles first, then the high ones.
#[inline(always)]
pub(super) fn nibble(quants: &[u8; 16], index: usize) -> u8 {
    quants[index % 16] >> (index / 16 * 4) & 15
}

/// The same with the fifth bit.
#[inline(always)]
fn five_bits(quants: &[u8; 16], high: [u8; 4], index: usize) -> u8 {
    nibble(quants, index) | ((u32::from_le_bytes(high) >> index & 1) << 4) as u8
}

/// The 6-bit scale and minimum of group `group` of 8 of Q4_K and Q5_K. (`get_scale_min_k4`.)
#[inline(always)]
fn six_bits(scales: &[u8; 12], group: usize) -> (u8, u8) {
    match group {
        0..4 => (scales[group] & 63, scales[group + 4] & 63),
        _ => (
            scales[group + 4] & 15 | scales[group - 4] >> 6 << 4,
            scales[group + 4] >> 4 | scales[group] >> 6 << 4,
        ),
    }
}

impl Block for BlockQ4_0 {
    #[inline(always)]
    fn group(&self, _: usize) -> [f32; GROUP] {
        let scale = self.scale.to_f32();
        std::array::from_fn(|i| scale * (f32::from(nibble(&self.quants, i)) - 8.0))
    }
}

impl Block for BlockQ4_1 {
    #[inline(always)]
    fn group(&self, _: usize) -> [f32; GROUP] {
        let (scale, minimum) = (self.scale.to_f32(), self.minimum.to_f32());
        std::array::from_fn(|i| scale * f32::from(nibble(&self.quants, i)) + minimum)
    }
}

impl Block for BlockQ5_0 {
    #[inline(always)]
    fn group(&self, _: usize) -> [f32; GROUP] {
        let scale = self.scale.to_f32();
        std::array::from_fn(|i| scale * (f32::from(five_bits(&self.quants, self.high, i)) - 16.0))
    }
}

impl Block for BlockQ5_1 {
    #[inline(always)]
    fn group(&self, _: usize) -> [f32; GROUP] {
        let (scale, minimum) = (self.scale.to_f32(), self.minimum.to_f32());
        std::array::from_fn(|i| scale * f32::from(five_bits(&self.quants, self.high, i)) + minimum)
    }
}

impl Block for BlockQ2K {
    #[inline(always)]
    fn group(&self, group: usize) -> [f32; GROUP] {
        let (scale, minimum) = (self.scale.to_f32(), self.minimum.to_f32());
        let quants = &self.quants[group / 4 * 32..][..32];
        std::array::from_fn(|i| {
            let pair = self.scales[group * 2 + i / 16];
            let quant = quants[i] >> (group % 4 * 2) & 3;
            scale * f32::from(pair & 15) * f32::from(quant) - minimum * f32::from(pair >> 4)
        })
    }
}

impl Block for BlockQ3K {
    #[inline(always)]
    fn group(&self, group: usize) -> [f32; GROUP] {
        let scale = self.scale.to_f32();
        let scales = [0, 1].map(|half| {
            let index = group * 2 + half;
            let low = self.scales[index % 8] >> (index / 8 * 4) & 15;
            let high = self.scales[8 + index % 4] >> (index / 4 * 2) & 3;
            scale * (f32::from(low | high << 4) - 32.0)
        });
        let quants = &self.quants[group / 4 * 32..][..32];
        std::array::from_fn(|i| {
            let quant = quants[i] >> (group % 4 * 2) & 3 | (self.high[i] >> group & 1) << 2;
            scales[i / 16] * (f32::from(quant) - 4.0)
        })
    }
}

impl Block for BlockQ4K {
    #[inline(always)]
    fn group(&self, group: usize) -> [f32; GROUP] {
        let (scale, minimum) = six_bits(&self.scales, group);
        let scale = self.scale.to_f32() * f32::from(scale);
        let minimum = self.minimum.to_f32() * f32::from(minimum);
        let quants = &self.quants[group / 2 * 32..][..32];
        std::array::from_fn(|i| scale * f32::from(quants[i] >> (group % 2 * 4) & 15) - minimum)
    }
}

impl Block for BlockQ5K {
    #[inline(always)]
    fn group(&self, group: usize) -> [f32; GROUP] {
        let (scale, minimum) = six_bits(&self.scales, group);
        let scale = self.scale.to_f32() * f32::from(scale);
        let minimum = self.minimum.to_f32() * f32::from(minimum);
        let quants = &self.quants[group / 2 * 32..][..32];
        std::array::from_fn(|i| {
            let quant = quants[i] >> (group % 2 * 4) & 15 | (self.high[i] >> group & 1) << 4;
            scale * f32::from(quant) - minimum
        })
    }
}

impl Block for BlockQ6K {
    #[inline(always)]
    fn group(&self, group: usize) -> [f32; GROUP] {
        let scale = self.scale.to_f32();
        let quants = &self.quants[group / 4 * 64 + group % 2 * 32..][..32];
        let high = &self.high[group / 4 * 32..][..32];
        std::array::from_fn(|i| {
            let low = quants[i] >> (group % 4 / 2 * 4) & 15;
            let quant = low | (high[i] >> (group % 4 * 2) & 3) << 4;
            scale * f32::from(self.scales[group * 2 + i / 16]) * (f32::from(quant) - 32.0)
        })
    }
}
