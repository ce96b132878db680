//! Weights whose rows lie interleaved: `interleave_<B>` of `args.h` says how.
//!
//! A lane of a vector is a row, so that neither integers nor scales have to be sorted: a word of each row has four integers as the integer dot
//! products take them.

use half::{bf16, f16};

use super::super::bindings::args::INTERLEAVE_ROWS;
use super::super::simd::{Simd, prefetch};
use super::blocks::*;
use super::{BlockQ8_0, Integers, Stored};

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
///
/// A span is what a row of words holds: a word has four integers of each of the span's pieces, in other bits.
pub trait InterleavedIntegers: Integers + Interleaved {
    /// Spans of a block, at most four.
    const SPANS: usize;
    /// Pieces of a span: one or two.
    const PIECES: usize;
    /// Words of a span.
    const STEPS: usize = Self::ELEMENTS / Self::SPANS / Self::PIECES / WORD;

    /// Whether words and factors are used in the order in which they lie, spans one after another.
    const IN_ORDER: bool;

    /// Where in a block the integers of a piece begin.
    fn start(span: usize, piece: usize) -> usize;

    /// What is read for a step.
    type Words<S: Simd>: Copy;

    /// # Safety
    /// The block is readable.
    unsafe fn words<S: Simd>(
        simd: S,
        rows: BlockRows<Self>,
        span: usize,
        step: usize,
    ) -> Self::Words<S>;

    /// Integers `4 * step ..` of piece `P` of span `U`.
    fn piece<S: Simd, const U: usize, const P: usize>(simd: S, words: Self::Words<S>) -> S::Bytes;

    /// What the factors of shares are computed from.
    type Factors<S: Simd>: Copy;

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

/// `$body` for each span of a block, with the span's number as the constant `$span`: what is shifted and masked has to be known when it is
/// compiled.
macro_rules! for_spans {
    ($blocks:ty, $span:ident, $body:block) => {
        for_spans!(0 1 2 3; $blocks, $span, $body)
    };
    ($first:literal $($next:literal)*; $blocks:ty, $span:ident, $body:block) => {
        {
            const $span: usize = $first;
            if $span < <$blocks>::SPANS $body
        }
        for_spans!($($next)*; $blocks, $span, $body)
    };
    (; $blocks:ty, $span:ident, $body:block) => {};
}
pub(in super::super) use for_spans;

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

    /// Starts to bring the cache line near that begins `bytes` after the first word, whether it is readable or not.
    #[inline(always)]
    pub fn bring_near(self, bytes: usize) {
        prefetch(self.words.wrapping_add(bytes));
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
    const SPANS: usize = 1;
    const PIECES: usize = 1;
    const IN_ORDER: bool = true;
    type Words<S: Simd> = S::Bytes;
    one_scale!();

    #[inline(always)]
    fn start(_: usize, _: usize) -> usize {
        0
    }

    #[inline(always)]
    unsafe fn words<S: Simd>(simd: S, rows: BlockRows<Self>, _: usize, step: usize) -> S::Bytes {
        // SAFETY: the caller's promise.
        unsafe { rows.word(simd, step) }
    }

    #[inline(always)]
    fn piece<S: Simd, const U: usize, const P: usize>(simd: S, words: S::Bytes) -> S::Bytes {
        simd.signed_bytes(words)
    }
}

impl Interleaved for BlockQ4_0 {
    const HALVES: (usize, usize) = (1, 0);
}

impl InterleavedIntegers for BlockQ4_0 {
    const SPANS: usize = 1;
    const PIECES: usize = 2;
    const IN_ORDER: bool = true;
    type Words<S: Simd> = S::Bytes;
    one_scale!();

    #[inline(always)]
    fn start(_: usize, piece: usize) -> usize {
        16 * piece
    }

    #[inline(always)]
    unsafe fn words<S: Simd>(simd: S, rows: BlockRows<Self>, _: usize, step: usize) -> S::Bytes {
        // SAFETY: the caller's promise.
        unsafe { rows.word(simd, step) }
    }

    #[inline(always)]
    fn piece<S: Simd, const U: usize, const P: usize>(simd: S, words: S::Bytes) -> S::Bytes {
        simd.moved(words, 4 * P as i32, 15)
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
    const SPANS: usize = 4;
    const PIECES: usize = 2;
    const IN_ORDER: bool = true;
    type Words<S: Simd> = S::Bytes;
    six_bits!();

    #[inline(always)]
    fn start(span: usize, piece: usize) -> usize {
        64 * span + 32 * piece
    }

    #[inline(always)]
    unsafe fn words<S: Simd>(simd: S, rows: BlockRows<Self>, span: usize, step: usize) -> S::Bytes {
        // SAFETY: the caller's promise.
        unsafe { rows.word(simd, 3 + 8 * span + step) }
    }

    #[inline(always)]
    fn piece<S: Simd, const U: usize, const P: usize>(simd: S, words: S::Bytes) -> S::Bytes {
        simd.moved(words, 4 * P as i32, 15)
    }
}

impl Interleaved for BlockQ5K {
    const HALVES: (usize, usize) = (2, 0);
}

impl InterleavedIntegers for BlockQ5K {
    const SPANS: usize = 4;
    const PIECES: usize = 2;
    const IN_ORDER: bool = false;
    /// High bits, and nibbles.
    type Words<S: Simd> = [S::Bytes; 2];
    six_bits!();

    #[inline(always)]
    fn start(span: usize, piece: usize) -> usize {
        64 * span + 32 * piece
    }

    #[inline(always)]
    unsafe fn words<S: Simd>(
        simd: S,
        rows: BlockRows<Self>,
        span: usize,
        step: usize,
    ) -> [S::Bytes; 2] {
        // SAFETY: the caller's promise.
        unsafe {
            [
                rows.word(simd, 3 + step),
                rows.word(simd, 11 + 8 * span + step),
            ]
        }
    }

    #[inline(always)]
    fn piece<S: Simd, const U: usize, const P: usize>(
        simd: S,
        [high, nibbles]: [S::Bytes; 2],
    ) -> S::Bytes {
        let nibbles = simd.moved(nibbles, 4 * P as i32, 15);
        simd.either(simd.moved(high, (2 * U + P) as i32 - 4, 16), nibbles)
    }
}

impl Interleaved for BlockQ6K {
    const HALVES: (usize, usize) = (0, 1);
}

impl InterleavedIntegers for BlockQ6K {
    /// Two for each half of the block: their pieces are its quarters 0 and 2, and 1 and 3.
    const SPANS: usize = 4;
    const PIECES: usize = 2;
    const IN_ORDER: bool = false;
    /// High bits, and nibbles.
    type Words<S: Simd> = [S::Bytes; 2];
    /// The 16 scales of each row.
    type Factors<S: Simd> = [S::Bytes; 4];

    #[inline(always)]
    fn start(span: usize, piece: usize) -> usize {
        128 * (span / 2) + 32 * (span % 2) + 64 * piece
    }

    #[inline(always)]
    unsafe fn words<S: Simd>(
        simd: S,
        rows: BlockRows<Self>,
        span: usize,
        step: usize,
    ) -> [S::Bytes; 2] {
        // SAFETY: the caller's promise.
        unsafe {
            [
                rows.word(simd, 32 + 8 * (span / 2) + step),
                rows.word(simd, 8 * span + step),
            ]
        }
    }

    #[inline(always)]
    fn piece<S: Simd, const U: usize, const P: usize>(
        simd: S,
        [high, nibbles]: [S::Bytes; 2],
    ) -> S::Bytes {
        let quarter = U % 2 + 2 * P;
        let nibbles = simd.moved(nibbles, 4 * P as i32, 15);
        simd.either(simd.moved(high, 2 * quarter as i32 - 4, 48), nibbles)
    }

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
}
