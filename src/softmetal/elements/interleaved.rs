//! Weights whose rows lie interleaved: `interleave_<B>` of `args.h` says how.
//!
//! A lane of a vector is a row, so that neither integers nor scales have to be sorted: a word of each row has four integers as the integer dot
//! products take them.

use half::{bf16, f16};

use super::super::bindings::args::INTERLEAVE_ROWS;
use super::super::simd::Simd;
use super::blocks::*;
use super::{BlockQ8_0, GROUP, Integers, Stored};

/// Rows of a strip.
pub const STRIP: usize = INTERLEAVE_ROWS as usize;

/// Bytes of a word, and the integers that it holds in part or as a whole.
pub const WORD: usize = 4;

/// Types that can be interleaved. A number is a block of its own.
pub trait Interleaved: Stored {
    /// Halves before the words of a block, and after them.
    const HALVES: (usize, usize);
    const WORDS: usize = (size_of::<Self>() - 2 * (Self::HALVES.0 + Self::HALVES.1)) / WORD;
}

impl Interleaved for f16 {
    const HALVES: (usize, usize) = (1, 0);
}

impl Interleaved for bf16 {
    const HALVES: (usize, usize) = (1, 0);
}

/// Those that are made of small integers. Groups and shares are counted within a block.
pub trait InterleavedIntegers: Integers + Interleaved {
    /// Groups of a block.
    const GROUPS: usize = Self::ELEMENTS / GROUP;

    /// What the factors of shares are computed from.
    type Factors<S: Simd>: Copy;

    /// Integers `4 * step ..` of a group.
    ///
    /// # Safety
    /// The block is readable.
    unsafe fn integers_of<S: Simd, const G: usize>(
        simd: S,
        rows: BlockRows<Self>,
        step: usize,
    ) -> S::Bytes;

    /// # Safety
    /// The block is readable.
    unsafe fn factors<S: Simd>(simd: S, rows: BlockRows<Self>) -> Self::Factors<S>;

    /// What a share's integers are multiplied with, apart from the block's scale.
    fn scale<S: Simd>(simd: S, factors: Self::Factors<S>, share: usize) -> S::Vector;

    /// What is taken off from a share's weights, apart from the block's minimum: nothing where a type has none.
    #[inline(always)]
    fn minimum<S: Simd>(simd: S, _: Self::Factors<S>, _: usize) -> S::Vector {
        simd.splat(0.0)
    }
}

/// `$body` for each group of a block, with the group's number as the constant `$group`: what is shifted and masked has to be known when it is
/// compiled.
macro_rules! for_groups {
    ($blocks:ty, $group:ident, $body:block) => {
        for_groups!(0 1 2 3 4 5 6 7; $blocks, $group, $body)
    };
    ($first:literal $($next:literal)*; $blocks:ty, $group:ident, $body:block) => {
        {
            const $group: usize = $first;
            if $group < <$blocks>::GROUPS $body
        }
        for_groups!($($next)*; $blocks, $group, $body)
    };
    (; $blocks:ty, $group:ident, $body:block) => {};
}
pub(in super::super) use for_groups;

/// As many rows of 16 interleaved blocks as a vector has lanes.
pub struct BlockRows<B> {
    words: *const i8,
    halves: *const f16,
    blocks: std::marker::PhantomData<*const B>,
}

impl<B> Clone for BlockRows<B> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<B> Copy for BlockRows<B> {}

impl<B: InterleavedIntegers> BlockRows<B> {
    /// The rows from `row` on of the 16 blocks at `blocks`.
    #[inline(always)]
    pub fn new(blocks: *const B, row: usize) -> BlockRows<B> {
        let words: *const i8 = blocks.cast();
        let halves = words.wrapping_add(B::WORDS * WORD * STRIP).cast::<f16>();
        BlockRows {
            words: words.wrapping_add(WORD * row),
            halves: halves.wrapping_add(row),
            blocks: std::marker::PhantomData,
        }
    }

    /// # Safety
    /// The block is readable, and has the word.
    #[inline(always)]
    unsafe fn word<S: Simd>(self, simd: S, word: usize) -> S::Bytes {
        // SAFETY: the caller's promise.
        unsafe { simd.load_bytes(self.words.add(word * WORD * STRIP)) }
    }

    /// The scale of each row's block.
    ///
    /// # Safety
    /// The block is readable.
    #[inline(always)]
    pub unsafe fn scale<S: Simd>(self, simd: S) -> S::Vector {
        // SAFETY: the caller's promise; every type has a scale.
        unsafe { simd.load_f16(self.halves) }
    }

    /// The minimum of each row's block.
    ///
    /// # Safety
    /// The block is readable, and has one.
    #[inline(always)]
    pub unsafe fn minimum<S: Simd>(self, simd: S) -> S::Vector {
        // SAFETY: the caller's promise.
        unsafe { simd.load_f16(self.halves.add(STRIP)) }
    }
}

/// The factors of types whose blocks have one scale.
macro_rules! one_scale {
    () => {
        type Factors<S: Simd> = ();

        #[inline(always)]
        unsafe fn factors<S: Simd>(_: S, _: BlockRows<Self>) {}

        #[inline(always)]
        fn scale<S: Simd>(simd: S, (): (), _: usize) -> S::Vector {
            simd.splat(1.0)
        }
    };
}

impl Interleaved for BlockQ8_0 {
    const HALVES: (usize, usize) = (1, 0);
}

impl InterleavedIntegers for BlockQ8_0 {
    one_scale!();

    #[inline(always)]
    unsafe fn integers_of<S: Simd, const G: usize>(
        simd: S,
        rows: BlockRows<Self>,
        step: usize,
    ) -> S::Bytes {
        // SAFETY: the caller's promise.
        simd.signed_bytes(unsafe { rows.word(simd, step) })
    }
}

impl Interleaved for BlockQ4_0 {
    const HALVES: (usize, usize) = (1, 0);
}

impl InterleavedIntegers for BlockQ4_0 {
    one_scale!();

    #[inline(always)]
    unsafe fn integers_of<S: Simd, const G: usize>(
        simd: S,
        rows: BlockRows<Self>,
        step: usize,
    ) -> S::Bytes {
        // SAFETY: the caller's promise.
        let nibbles = unsafe { rows.word(simd, step % 4) };
        simd.moved(nibbles, 4 * (step / 4) as i32, 15)
    }
}

/// The factors of Q4_K and Q5_K, of which the first three words have the 12 bytes of scales and minima.
macro_rules! six_bits {
    () => {
        /// A byte of a word is a share's: scales 0 to 3, scales 4 to 7, minima 0 to 3, minima 4 to 7. (`get_scale_min_k4`.)
        type Factors<S: Simd> = [S::Bytes; 4];

        #[inline(always)]
        unsafe fn factors<S: Simd>(simd: S, rows: BlockRows<Self>) -> [S::Bytes; 4] {
            let (scales, minima, lower);
            // SAFETY: the caller's promise.
            unsafe {
                scales = rows.word(simd, 0);
                minima = rows.word(simd, 1);
                lower = rows.word(simd, 2);
            }
            let upper_bits = |word| simd.moved(word, 2, 0x30);
            [
                simd.moved(scales, 0, 63),
                simd.either(upper_bits(scales), simd.moved(lower, 0, 15)),
                simd.moved(minima, 0, 63),
                simd.either(upper_bits(minima), simd.moved(lower, 4, 15)),
            ]
        }

        #[inline(always)]
        fn scale<S: Simd>(simd: S, factors: [S::Bytes; 4], share: usize) -> S::Vector {
            simd.unsigned_byte(factors[share / 4], share % 4)
        }

        #[inline(always)]
        fn minimum<S: Simd>(simd: S, factors: [S::Bytes; 4], share: usize) -> S::Vector {
            simd.unsigned_byte(factors[2 + share / 4], share % 4)
        }
    };
}

impl Interleaved for BlockQ4K {
    const HALVES: (usize, usize) = (2, 0);
}

impl InterleavedIntegers for BlockQ4K {
    six_bits!();

    #[inline(always)]
    unsafe fn integers_of<S: Simd, const G: usize>(
        simd: S,
        rows: BlockRows<Self>,
        step: usize,
    ) -> S::Bytes {
        // SAFETY: the caller's promise.
        let nibbles = unsafe { rows.word(simd, 3 + G / 2 * 8 + step) };
        simd.moved(nibbles, (G % 2 * 4) as i32, 15)
    }
}

impl Interleaved for BlockQ5K {
    const HALVES: (usize, usize) = (2, 0);
}

impl InterleavedIntegers for BlockQ5K {
    six_bits!();

    #[inline(always)]
    unsafe fn integers_of<S: Simd, const G: usize>(
        simd: S,
        rows: BlockRows<Self>,
        step: usize,
    ) -> S::Bytes {
        // SAFETY: the caller's promise.
        let (high, nibbles) = unsafe {
            (
                rows.word(simd, 3 + step),
                rows.word(simd, 11 + G / 2 * 8 + step),
            )
        };
        let nibbles = simd.moved(nibbles, (G % 2 * 4) as i32, 15);
        simd.either(simd.moved(high, G as i32 - 4, 16), nibbles)
    }
}

impl Interleaved for BlockQ6K {
    const HALVES: (usize, usize) = (0, 1);
}

impl InterleavedIntegers for BlockQ6K {
    /// The 16 scales of each row.
    type Factors<S: Simd> = [S::Bytes; 4];

    #[inline(always)]
    unsafe fn factors<S: Simd>(simd: S, rows: BlockRows<Self>) -> [S::Bytes; 4] {
        // SAFETY: the caller's promise.
        unsafe {
            [
                rows.word(simd, 48),
                rows.word(simd, 49),
                rows.word(simd, 50),
                rows.word(simd, 51),
            ]
        }
    }

    #[inline(always)]
    fn scale<S: Simd>(simd: S, factors: [S::Bytes; 4], share: usize) -> S::Vector {
        simd.signed_byte(factors[share / 4], share % 4)
    }

    #[inline(always)]
    unsafe fn integers_of<S: Simd, const G: usize>(
        simd: S,
        rows: BlockRows<Self>,
        step: usize,
    ) -> S::Bytes {
        let (half, quarter) = (G / 4, G % 4);
        // SAFETY: the caller's promise.
        let (high, nibbles) = unsafe {
            (
                rows.word(simd, 32 + half * 8 + step),
                rows.word(simd, half * 16 + quarter % 2 * 8 + step),
            )
        };
        let nibbles = simd.moved(nibbles, (quarter / 2 * 4) as i32, 15);
        simd.either(simd.moved(high, quarter as i32 * 2 - 4, 48), nibbles)
    }
}
