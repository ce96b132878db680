//! Block-quantized weights as small integers with scales, for integer dot products.

#![allow(
    clippy::needless_range_loop,
    reason = "closures of iterators need not be inlined, and then miss the instruction set"
)]

use half::f16;

use super::blocks::*;
use super::storage::{BlockQ8_0, GROUP, Stored};
use crate::backend::cpu::simd::{Simd, widen_f16};

/// Groups whose scales are read together: those of the longest block.
pub const SCALED_GROUPS: usize = 8;

/// Weights that are, in groups of [`GROUP`], `scale · (integer − ZERO) − minimum`.
pub trait Integers: Stored {
    /// Weights that share a scale: 32 or 16.
    const SUB_BLOCK: usize = GROUP;
    /// Whether the integers are those of [`Simd::bias_group`]; else they are from 0 to 127.
    const SIGNED: bool = false;
    /// The integer that stands for no weight, apart from what `Simd::bias_group` adds.
    const ZERO: i32 = 0;
    const HAS_MINIMUM: bool = false;
    /// The largest magnitude of an integer.
    const LARGEST: i32 = 127;

    /// The integers of a group of `row`.
    ///
    /// # Safety
    /// `row` is readable for the group.
    unsafe fn integers<S: Simd>(simd: S, row: *const Self, group: usize) -> S::Group;

    /// The scales of `count` groups from `first` on, a multiple of [`SCALED_GROUPS`], at most as many.
    ///
    /// # Safety
    /// `row` is readable for these groups.
    unsafe fn scales<S: Simd>(simd: S, row: *const Self, first: usize, count: usize) -> Scales;

    /// [`Integers::ZERO`] and what `Simd::bias_group` adds.
    #[inline(always)]
    fn zero<S: Simd>() -> i32 {
        Self::ZERO + if Self::SIGNED { S::SIGNED_BIAS } else { 0 }
    }
}

/// The scales and minima of [`SCALED_GROUPS`] groups: one for each group, or one for each half. Zeros stand for groups
/// that are not there.
#[derive(Clone, Copy)]
pub struct Scales {
    pub scales: [f32; 2 * SCALED_GROUPS],
    pub minima: [f32; 2 * SCALED_GROUPS],
}

impl Scales {
    #[inline(always)]
    pub fn new(scales: [f32; 2 * SCALED_GROUPS]) -> Scales {
        Scales {
            scales,
            minima: [0.0; 2 * SCALED_GROUPS],
        }
    }

    /// The same with minima that are added to the weights.
    #[inline(always)]
    fn plus(mut self, minima: [f32; 2 * SCALED_GROUPS]) -> Scales {
        for i in 0..2 * SCALED_GROUPS {
            self.minima[i] = -minima[i];
        }
        self
    }
}

/// Reads `count` halves, a block of `B` apart, and widens them.
///
/// # Safety
/// They are readable.
#[inline(always)]
pub(super) unsafe fn halves<S: Simd, B>(
    simd: S,
    from: *const f16,
    count: usize,
) -> [f32; 2 * SCALED_GROUPS] {
    let mut wide = [0.0; 2 * SCALED_GROUPS];
    // SAFETY: the caller's promise.
    unsafe {
        if count == SCALED_GROUPS {
            let eight = simd.widen_eight(from, size_of::<B>());
            wide[..SCALED_GROUPS].copy_from_slice(&eight);
        } else {
            for i in 0..count {
                let half = from.byte_add(i * size_of::<B>()).read();
                wide[i] = widen_f16(half.to_bits());
            }
        }
    }
    wide
}

/// The scales (and minima) of types whose blocks are a group, with one half for each.
macro_rules! scales_of_halves {
    ($row:ident, $first:ident, $count:ident, $simd:ident, $block:ty, scale) => {{
        // SAFETY: the caller's promise; no reference is made.
        let scales = unsafe {
            let scale = &raw const (*$row.add($first)).scale;
            halves::<S, $block>($simd, scale, $count)
        };
        Scales::new(scales)
    }};
    ($row:ident, $first:ident, $count:ident, $simd:ident, $block:ty, scale and minimum) => {{
        // SAFETY: the caller's promise; no reference is made.
        let minima = unsafe {
            let minimum = &raw const (*$row.add($first)).minimum;
            halves::<S, $block>($simd, minimum, $count)
        };
        let scales = scales_of_halves!($row, $first, $count, $simd, $block, scale);
        scales.plus(minima)
    }};
}

/// [`Integers`] of a type whose blocks are a group.
macro_rules! one_group {
    ($block:ty, { $($constant:ident: $type:ty = $value:expr;)* }, $halves:tt $(and $minimum:tt)?,
        |$simd:ident, $from:ident| $integers:expr) => {
        impl Integers for $block {
            $(const $constant: $type = $value;)*

            #[inline(always)]
            unsafe fn integers<S: Simd>($simd: S, row: *const $block, group: usize) -> S::Group {
                // SAFETY: the caller's promise; no reference is made.
                unsafe {
                    let $from = row.add(group);
                    $integers
                }
            }

            #[inline(always)]
            unsafe fn scales<S: Simd>(simd: S, row: *const $block, first: usize, count: usize) -> Scales {
                scales_of_halves!(row, first, count, simd, $block, $halves $(and $minimum)?)
            }
        }
    };
}

pub(super) use {one_group, scales_of_halves};

one_group!(BlockQ8_0, { SIGNED: bool = true; }, scale, |simd, from| {
    simd.bias_group(simd.load_group((&raw const (*from).quants).cast()))
});
one_group!(BlockQ4_0, { ZERO: i32 = 8; LARGEST: i32 = 15; }, scale, |simd, from| {
    simd.load_nibbles((&raw const (*from).quants).cast())
});
one_group!(BlockQ4_1, { HAS_MINIMUM: bool = true; LARGEST: i32 = 15; }, scale and minimum, |simd, from| {
    simd.load_nibbles((&raw const (*from).quants).cast())
});
one_group!(BlockQ5_0, { ZERO: i32 = 16; LARGEST: i32 = 31; }, scale, |simd, from| {
    let high = fifth_bits((&raw const (*from).high).read());
    let high = simd.load_group(high.as_ptr());
    simd.insert_bits(high, 4, simd.load_nibbles((&raw const (*from).quants).cast()))
});
one_group!(BlockQ5_1, { HAS_MINIMUM: bool = true; LARGEST: i32 = 31; }, scale and minimum, |simd, from| {
    let high = fifth_bits((&raw const (*from).high).read());
    let high = simd.load_group(high.as_ptr());
    simd.insert_bits(high, 4, simd.load_nibbles((&raw const (*from).quants).cast()))
});
/// A byte of 0 or 1 for each bit.
#[inline(always)]
fn fifth_bits(bits: [u8; 4]) -> [u8; GROUP] {
    let mut bytes = [0; GROUP];
    for i in 0..4 {
        // A copy of the bits for each of 8 bytes, one bit of each kept, and what is not 0 carried into the byte's top
        // bit.
        let copies = (u64::from(bits[i]) * 0x0101_0101_0101_0101) & 0x8040_2010_0804_0201;
        let low = copies & 0x7f7f_7f7f_7f7f_7f7f;
        let top = (((low + 0x7f7f_7f7f_7f7f_7f7f) | copies) >> 7) & 0x0101_0101_0101_0101;
        bytes[8 * i..][..8].copy_from_slice(&top.to_le_bytes());
    }
    bytes
}

/// The 6-bit scales and minima of a block of Q4_K and Q5_K, as bytes. (`get_scale_min_k4`, all eight at once.)
#[inline(always)]
fn six_bits(packed: [u8; 12]) -> ([u8; 8], [u8; 8]) {
    const SIX: u32 = 0x3f3f_3f3f;
    const FOUR: u32 = 0x0f0f_0f0f;
    const TWO: u32 = 0x0303_0303;
    let mut words = [0; 3];
    for i in 0..3 {
        let [a, b, c, d] = [
            packed[4 * i],
            packed[4 * i + 1],
            packed[4 * i + 2],
            packed[4 * i + 3],
        ];
        words[i] = u32::from_le_bytes([a, b, c, d]);
    }
    let scales =
        u64::from(words[0] & SIX) | u64::from(words[2] & FOUR | (words[0] >> 6 & TWO) << 4) << 32;
    let minima = u64::from(words[1] & SIX)
        | u64::from(words[2] >> 4 & FOUR | (words[1] >> 6 & TWO) << 4) << 32;
    (scales.to_le_bytes(), minima.to_le_bytes())
}

/// The scales and minima of a block of Q4_K and Q5_K.
#[inline(always)]
fn scales_of_six_bits(scale: f16, minimum: f16, packed: [u8; 12]) -> Scales {
    let (scale, minimum) = (widen_f16(scale.to_bits()), widen_f16(minimum.to_bits()));
    let (scales, minima) = six_bits(packed);
    let mut result = Scales::new([0.0; 2 * SCALED_GROUPS]);
    for i in 0..SCALED_GROUPS {
        result.scales[i] = scale * f32::from(scales[i]);
        result.minima[i] = minimum * f32::from(minima[i]);
    }
    result
}

impl Integers for BlockQ4K {
    const HAS_MINIMUM: bool = true;
    const LARGEST: i32 = 15;

    #[inline(always)]
    unsafe fn integers<S: Simd>(simd: S, row: *const BlockQ4K, group: usize) -> S::Group {
        // SAFETY: the caller's promise; no reference is made.
        unsafe {
            let quants: *const u8 = (&raw const (*row.add(group / 8)).quants).cast();
            let nibbles = simd.load_group(quants.add(group % 8 / 2 * GROUP));
            simd.extract_bits(nibbles, (group % 2 * 4) as u32, 15)
        }
    }

    #[inline(always)]
    unsafe fn scales<S: Simd>(_: S, row: *const BlockQ4K, first: usize, _: usize) -> Scales {
        // SAFETY: the caller's promise; no reference is made.
        unsafe {
            let block = row.add(first / 8);
            scales_of_six_bits(
                (&raw const (*block).scale).read(),
                (&raw const (*block).minimum).read(),
                (&raw const (*block).scales).read(),
            )
        }
    }
}

impl Integers for BlockQ5K {
    const HAS_MINIMUM: bool = true;
    const LARGEST: i32 = 31;

    #[inline(always)]
    unsafe fn integers<S: Simd>(simd: S, row: *const BlockQ5K, group: usize) -> S::Group {
        // SAFETY: the caller's promise; no reference is made.
        unsafe {
            let block = row.add(group / 8);
            let quants: *const u8 = (&raw const (*block).quants).cast();
            let nibbles = simd.load_group(quants.add(group % 8 / 2 * GROUP));
            let nibbles = simd.extract_bits(nibbles, (group % 2 * 4) as u32, 15);
            let high = simd.load_group((&raw const (*block).high).cast());
            simd.insert_bits(simd.extract_bits(high, (group % 8) as u32, 1), 4, nibbles)
        }
    }

    #[inline(always)]
    unsafe fn scales<S: Simd>(_: S, row: *const BlockQ5K, first: usize, _: usize) -> Scales {
        // SAFETY: the caller's promise; no reference is made.
        unsafe {
            let block = row.add(first / 8);
            scales_of_six_bits(
                (&raw const (*block).scale).read(),
                (&raw const (*block).minimum).read(),
                (&raw const (*block).scales).read(),
            )
        }
    }
}

impl Integers for BlockQ6K {
    const SUB_BLOCK: usize = 16;
    const ZERO: i32 = 32;
    const LARGEST: i32 = 63;

    #[inline(always)]
    unsafe fn integers<S: Simd>(simd: S, row: *const BlockQ6K, group: usize) -> S::Group {
        // SAFETY: the caller's promise; no reference is made.
        unsafe {
            let block = row.add(group / 8);
            let (half, quarter) = (group % 8 / 4, group % 4);
            let quants: *const u8 = (&raw const (*block).quants).cast();
            let nibbles = simd.load_group(quants.add(half * 64 + quarter % 2 * GROUP));
            let nibbles = simd.extract_bits(nibbles, (quarter / 2 * 4) as u32, 15);
            let high: *const u8 = (&raw const (*block).high).cast();
            let high = simd.load_group(high.add(half * GROUP));
            simd.insert_bits(simd.extract_bits(high, (quarter * 2) as u32, 3), 4, nibbles)
        }
    }

    #[inline(always)]
    unsafe fn scales<S: Simd>(_: S, row: *const BlockQ6K, first: usize, _: usize) -> Scales {
        // SAFETY: the caller's promise; no reference is made.
        let (scale, parts) = unsafe {
            let block = row.add(first / 8);
            let parts = (&raw const (*block).scales).read();
            ((&raw const (*block).scale).read(), parts)
        };
        let scale = widen_f16(scale.to_bits());
        let mut scales = [0.0; 2 * SCALED_GROUPS];
        for i in 0..2 * SCALED_GROUPS {
            scales[i] = scale * f32::from(parts[i]);
        }
        Scales::new(scales)
    }
}

impl Integers for BlockQ3K {
    const SUB_BLOCK: usize = 16;
    const ZERO: i32 = 4;
    const LARGEST: i32 = 7;

    #[inline(always)]
    unsafe fn integers<S: Simd>(simd: S, row: *const BlockQ3K, group: usize) -> S::Group {
        // SAFETY: the caller's promise; no reference is made.
        unsafe {
            let block = row.add(group / 8);
            let quants: *const u8 = (&raw const (*block).quants).cast();
            let quants = simd.load_group(quants.add(group % 8 / 4 * GROUP));
            let quants = simd.extract_bits(quants, (group % 4 * 2) as u32, 3);
            let high = simd.load_group((&raw const (*block).high).cast());
            simd.insert_bits(simd.extract_bits(high, (group % 8) as u32, 1), 2, quants)
        }
    }

    #[inline(always)]
    unsafe fn scales<S: Simd>(_: S, row: *const BlockQ3K, first: usize, _: usize) -> Scales {
        // SAFETY: the caller's promise; no reference is made.
        let (scale, parts) = unsafe {
            let block = row.add(first / 8);
            let parts = (&raw const (*block).scales).read();
            ((&raw const (*block).scale).read(), parts)
        };
        let scale = widen_f16(scale.to_bits());
        let mut scales = [0.0; 2 * SCALED_GROUPS];
        for i in 0..2 * SCALED_GROUPS {
            let low = parts[i % 8] >> (i / 8 * 4) & 15;
            let high = parts[8 + i % 4] >> (i / 4 * 2) & 3;
            scales[i] = scale * (f32::from(low | high << 4) - 32.0);
        }
        Scales::new(scales)
    }
}

impl Integers for BlockQ2K {
    const SUB_BLOCK: usize = 16;
    const HAS_MINIMUM: bool = true;
    const LARGEST: i32 = 3;

    #[inline(always)]
    unsafe fn integers<S: Simd>(simd: S, row: *const BlockQ2K, group: usize) -> S::Group {
        // SAFETY: the caller's promise; no reference is made.
        unsafe {
            let quants: *const u8 = (&raw const (*row.add(group / 8)).quants).cast();
            let quants = simd.load_group(quants.add(group % 8 / 4 * GROUP));
            simd.extract_bits(quants, (group % 4 * 2) as u32, 3)
        }
    }

    #[inline(always)]
    unsafe fn scales<S: Simd>(_: S, row: *const BlockQ2K, first: usize, _: usize) -> Scales {
        // SAFETY: the caller's promise; no reference is made.
        let (scale, minimum, parts) = unsafe {
            let block = row.add(first / 8);
            (
                (&raw const (*block).scale).read(),
                (&raw const (*block).minimum).read(),
                (&raw const (*block).scales).read(),
            )
        };
        let (scale, minimum) = (widen_f16(scale.to_bits()), widen_f16(minimum.to_bits()));
        let mut result = Scales::new([0.0; 2 * SCALED_GROUPS]);
        for i in 0..2 * SCALED_GROUPS {
            result.scales[i] = scale * f32::from(parts[i] & 15);
            result.minima[i] = minimum * f32::from(parts[i] >> 4);
        }
        result
    }
}
