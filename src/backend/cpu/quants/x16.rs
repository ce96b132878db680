//! The x16 row-interleaved layout: panels of 16 rows, in as many bytes as the rows have. This backend keeps weights in
//! it.
//!
//! A panel has the first blocks of its 16 rows, then the second ones, and so on. Of 16 blocks come first their words of
//! 4 bytes, the first of each row, the second of each row, and so on; then their scales likewise: the f16 scale (and,
//! after it, the minimum) of a block, or of MXFP4 the byte. The words are what remains of a block without its scales,
//! in its order, or in one in which they are read steadily ([`Interleaved::place`]). S being its words of scales, H
//! those of high bits and N those of nibbles:
//!
//! - Q2_K: the words of two bits, then S0 .. S3;
//! - Q3_K, T being its words of two bits: H0 T0 H1 T1 .. H7 T7, T8 .. T15, S0 S1 S2;
//! - Q4_K: N0 .. N7 S0, N8 .. N15 S1, N16 .. N23 S2, N24 .. N31;
//! - Q5_K: H0 N0 H1 N1 .. H7 N7 S0, N8 .. N15 S1, N16 .. N23 S2, N24 .. N31;
//! - IQ4_XS: N0 .. N31 S0;
//! - Q6_K: H0 N0 N8, H1 N1 N9, H2 N2 N10, H3 N3 N11, S0; then from H4 N4 N12 on with S1, from H8 N16 N24 on with S2,
//!   and from H12 N20 N28 on with S3.
//!
//! The upper bits of Q5_0 and Q5_1 are in another order within their word, too ([`Interleaved::arrange`]): bit
//! `8b + 4p + s` is that of weight `16p + 4s + b`, so that step s finds those of its bytes b by one shift.
//!
//! A float is a block that has nothing but a scale.
//!
//! A lane of a vector is a row, so that neither integers nor scales have to be sorted: a word of each row has four
//! integers as the integer dot products take them. And memory is read from one end to the other.

use half::{bf16, f16};

use super::blocks::*;
use super::dot::Integers;
use super::storage::{BlockQ8_0, Stored};
use crate::backend::cpu::simd::{Simd, prefetch};

/// Rows of an x16 panel.
pub const X16_ROWS: usize = 16;

/// Calls a macro with the types that have this layout: the class, the type, the name in kernels, the C constant.
macro_rules! x16_types {
    ($macro:ident) => {
        $macro! {
            float f16 "f16" IRON_F16,
            float bf16 "bf16" IRON_BF16,
            block BlockQ8_0 "q8_0" IRON_Q8_0,
            block BlockQ4_0 "q4_0" IRON_Q4_0,
            block BlockQ4_1 "q4_1" IRON_Q4_1,
            block BlockQ5_0 "q5_0" IRON_Q5_0,
            block BlockQ5_1 "q5_1" IRON_Q5_1,
            block BlockQ2K "q2_k" IRON_Q2_K,
            block BlockQ3K "q3_k" IRON_Q3_K,
            block BlockQ4K "q4_k" IRON_Q4_K,
            block BlockQ5K "q5_k" IRON_Q5_K,
            block BlockQ6K "q6_k" IRON_Q6_K,
            block BlockIq4Nl "iq4_nl" IRON_IQ4_NL,
            block BlockIq4Xs "iq4_xs" IRON_IQ4_XS,
            block BlockMxfp4 "mxfp4" IRON_MXFP4,
        }
    };
}
pub(in crate::backend::cpu) use x16_types;

/// Bytes of a word, and the integers that it holds in part or as a whole.
pub const WORD: usize = 4;

/// The most sub-blocks of a block.
pub const SUB_BLOCKS: usize = 16;

/// Types that have this layout; [`x16_types`] lists them. A float is a block of its own.
pub trait Interleaved: Stored {
    /// Scales, and what else has their size, before the words of a block, and after them.
    const SCALES: (usize, usize);
    /// Bytes of one.
    const SCALE_BYTES: usize = 2;
    const WORDS: usize =
        (size_of::<Self>() - Self::SCALE_BYTES * (Self::SCALES.0 + Self::SCALES.1)) / WORD;

    /// The place of a word of a block, in the order in which words are read.
    #[inline(always)]
    fn place(word: usize) -> usize {
        word
    }

    /// Word `word` of a block, with its bits in the layout's order.
    #[inline(always)]
    fn arrange(_word: usize, bits: u32) -> u32 {
        bits
    }

    /// The inverse of [`Interleaved::arrange`].
    #[inline(always)]
    fn restore(_word: usize, bits: u32) -> u32 {
        bits
    }
}

impl Interleaved for f16 {
    const SCALES: (usize, usize) = (1, 0);
}

impl Interleaved for bf16 {
    const SCALES: (usize, usize) = (1, 0);
}

/// Those that are made of small integers. Groups and sub-blocks are counted within a block.
///
/// One loop computes a block's spans, and each of its instructions reads in address order: processors prefetch a stream
/// only when one load instruction follows it. A loop for each span breaks the stream.
///
/// A step of a span has four integers of each of the span's pieces. A piece has a sub-block of its own, but the pieces
/// of Q4_0 are halves of one.
pub trait InterleavedIntegers: Integers + Interleaved {
    /// Spans of a block.
    const SPANS: usize;
    /// Pieces of a span: one, two or four.
    const PIECES: usize;
    /// Steps of a span.
    const STEPS: usize = Self::ELEMENTS / Self::SPANS / Self::PIECES / WORD;

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

    /// The integers of a piece that a step's words have.
    fn integers_of<S: Simd>(simd: S, words: Self::Words<S>, span: usize, piece: usize) -> S::Bytes;

    /// What the factors of sub-blocks are computed from.
    type Factors<S: Simd>: Copy;

    /// # Safety
    /// The block is readable.
    unsafe fn factors<S: Simd>(simd: S, rows: BlockRows<Self>) -> Self::Factors<S>;

    /// Scales of blocks as they are stored, one after another.
    ///
    /// # Safety
    /// `from` is readable for as many as a vector has lanes.
    #[inline(always)]
    unsafe fn widen_scales<S: Simd>(simd: S, from: *const u8) -> S::Vector {
        const { assert!(Self::SCALE_BYTES == size_of::<f16>()) }
        // SAFETY: the caller's promise.
        unsafe { simd.load_f16(from.cast()) }
    }

    /// What a sub-block's integers are multiplied with, apart from the block's scale.
    fn scale<S: Simd>(simd: S, factors: &Self::Factors<S>, sub_block: usize) -> S::Vector;

    /// What is taken off from a sub-block's weights, apart from the block's minimum: nothing where a type has none.
    #[inline(always)]
    fn minimum<S: Simd>(simd: S, _: &Self::Factors<S>, _: usize) -> S::Vector {
        simd.splat(0.0)
    }
}

/// As many rows of 16 interleaved blocks as a vector has lanes.
pub struct BlockRows<B> {
    words: *const i8,
    scales: *const u8,
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
        let scales = words.wrapping_add(B::WORDS * WORD * X16_ROWS).cast::<u8>();
        BlockRows {
            words: words.wrapping_add(WORD * row),
            scales: scales.wrapping_add(B::SCALE_BYTES * row),
            blocks: std::marker::PhantomData,
        }
    }

    /// Prefetches the cache line that begins `bytes` after the first word, whether it is readable or not.
    #[inline(always)]
    pub fn prefetch(self, bytes: usize) {
        prefetch(self.words.wrapping_add(bytes));
    }

    /// # Safety
    /// The block is readable, and has the word.
    #[inline(always)]
    pub unsafe fn word<S: Simd>(self, simd: S, word: usize) -> S::Bytes {
        // SAFETY: the caller's promise.
        unsafe { simd.load_bytes(self.words.add(word * WORD * X16_ROWS)) }
    }

    /// The scale of each row's block.
    ///
    /// # Safety
    /// The block is readable.
    #[inline(always)]
    pub unsafe fn scale<S: Simd>(self, simd: S) -> S::Vector {
        // SAFETY: the caller's promise; every type has a scale.
        unsafe { B::widen_scales(simd, self.scales) }
    }

    /// The minimum of each row's block.
    ///
    /// # Safety
    /// The block is readable, and has one.
    #[inline(always)]
    pub unsafe fn minimum<S: Simd>(self, simd: S) -> S::Vector {
        // SAFETY: the caller's promise.
        unsafe { B::widen_scales(simd, self.scales.add(B::SCALE_BYTES * X16_ROWS)) }
    }

    /// The bits of what follows the scale of each row's block.
    ///
    /// # Safety
    /// The block is readable, and has one.
    #[inline(always)]
    pub unsafe fn second_half<S: Simd>(self, simd: S) -> S::Bytes {
        // SAFETY: the caller's promise.
        unsafe { simd.load_u16(self.scales.add(B::SCALE_BYTES * X16_ROWS).cast()) }
    }
}

/// The factors of types whose blocks have one scale.
macro_rules! one_scale {
    () => {
        type Factors<S: Simd> = ();

        #[inline(always)]
        unsafe fn factors<S: Simd>(_: S, _: BlockRows<Self>) {}

        #[inline(always)]
        fn scale<S: Simd>(simd: S, (): &(), _: usize) -> S::Vector {
            simd.splat(1.0)
        }
    };
}
pub(in crate::backend::cpu::quants) use one_scale;

/// The words of types whose blocks are 32 nibbles: each has four of the first half, and four of the second.
macro_rules! nibbles_of_a_group {
    () => {
        const SPANS: usize = 1;
        const PIECES: usize = 2;
        type Words<S: Simd> = S::Bytes;

        #[inline(always)]
        fn start(_: usize, piece: usize) -> usize {
            16 * piece
        }

        #[inline(always)]
        unsafe fn words<S: Simd>(
            simd: S,
            rows: BlockRows<Self>,
            _: usize,
            step: usize,
        ) -> S::Bytes {
            // SAFETY: the caller's promise.
            unsafe { rows.word(simd, step) }
        }
    };
}
pub(in crate::backend::cpu::quants) use nibbles_of_a_group;

impl Interleaved for BlockQ8_0 {
    const SCALES: (usize, usize) = (1, 0);
}

impl InterleavedIntegers for BlockQ8_0 {
    const SPANS: usize = 1;
    const PIECES: usize = 1;
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
    fn integers_of<S: Simd>(simd: S, words: S::Bytes, _: usize, _: usize) -> S::Bytes {
        simd.bias_bytes(words)
    }
}

impl Interleaved for BlockQ4_0 {
    const SCALES: (usize, usize) = (1, 0);
}

impl InterleavedIntegers for BlockQ4_0 {
    nibbles_of_a_group!();
    one_scale!();

    #[inline(always)]
    fn integers_of<S: Simd>(simd: S, words: S::Bytes, _: usize, piece: usize) -> S::Bytes {
        simd.shift_mask(words, 4 * piece as i32, 15)
    }
}

/// The minimum of types whose blocks have one, which is added to the weights.
macro_rules! one_minimum {
    () => {
        #[inline(always)]
        fn minimum<S: Simd>(simd: S, (): &(), _: usize) -> S::Vector {
            simd.splat(-1.0)
        }
    };
}

impl Interleaved for BlockQ4_1 {
    const SCALES: (usize, usize) = (2, 0);
}

impl InterleavedIntegers for BlockQ4_1 {
    nibbles_of_a_group!();
    one_scale!();
    one_minimum!();

    #[inline(always)]
    fn integers_of<S: Simd>(simd: S, words: S::Bytes, _: usize, piece: usize) -> S::Bytes {
        simd.shift_mask(words, 4 * piece as i32, 15)
    }
}

/// Bit `8b + j` is bit `4j + b`.
const fn bytes_of_nibbles(bits: u32) -> u32 {
    let (mut result, mut b) = (0, 0);
    while b < 4 {
        let mut byte = bits >> b & 0x1111_1111;
        byte = (byte | byte >> 3) & 0x0303_0303;
        byte = (byte | byte >> 6) & 0x000f_000f;
        byte = (byte | byte >> 12) & 0xff;
        result |= byte << (8 * b);
        b += 1;
    }
    result
}

/// The inverse of [`bytes_of_nibbles`].
const fn nibbles_of_bytes(bits: u32) -> u32 {
    let (mut result, mut b) = (0, 0);
    while b < 4 {
        let mut nibbles = bits >> (8 * b) & 0xff;
        nibbles = (nibbles | nibbles << 12) & 0x000f_000f;
        nibbles = (nibbles | nibbles << 6) & 0x0303_0303;
        nibbles = (nibbles | nibbles << 3) & 0x1111_1111;
        result |= nibbles << b;
        b += 1;
    }
    result
}

/// Q5_0 and Q5_1: a word of upper bits, then those of nibbles.
macro_rules! five_bits {
    ($block:ty, $halves:literal) => {
        impl Interleaved for $block {
            const SCALES: (usize, usize) = ($halves, 0);

            #[inline(always)]
            fn arrange(word: usize, bits: u32) -> u32 {
                match word {
                    0 => bytes_of_nibbles(bits),
                    _ => bits,
                }
            }

            #[inline(always)]
            fn restore(word: usize, bits: u32) -> u32 {
                match word {
                    0 => nibbles_of_bytes(bits),
                    _ => bits,
                }
            }
        }
    };
}

five_bits!(BlockQ5_0, 1);
five_bits!(BlockQ5_1, 2);

/// How integers of Q5_0 and Q5_1 are read.
macro_rules! five_bit_integers {
    () => {
        const SPANS: usize = 1;
        const PIECES: usize = 2;
        /// The first piece's upper bits in the lowest bits of bytes and the second's 4 bits above, and nibbles.
        type Words<S: Simd> = [S::Bytes; 2];
        one_scale!();

        #[inline(always)]
        fn start(_: usize, piece: usize) -> usize {
            16 * piece
        }

        #[inline(always)]
        unsafe fn words<S: Simd>(
            simd: S,
            rows: BlockRows<Self>,
            _: usize,
            step: usize,
        ) -> [S::Bytes; 2] {
            // SAFETY: the caller's promise.
            let [high, nibbles] = unsafe { [rows.word(simd, 0), rows.word(simd, 1 + step)] };
            [simd.shift_mask(high, step as i32, 0x11), nibbles]
        }

        #[inline(always)]
        fn integers_of<S: Simd>(
            simd: S,
            [high, nibbles]: [S::Bytes; 2],
            _: usize,
            piece: usize,
        ) -> S::Bytes {
            let shift = 4 * piece as i32;
            simd.or(
                simd.shift_mask(high, shift - 4, 16),
                simd.shift_mask(nibbles, shift, 15),
            )
        }
    };
}

impl InterleavedIntegers for BlockQ5_0 {
    five_bit_integers!();
}

impl InterleavedIntegers for BlockQ5_1 {
    five_bit_integers!();
    one_minimum!();
}

/// The factors of Q4_K and Q5_K: where the three words lie that have the 12 bytes of scales and minima.
macro_rules! six_bits {
    ($scales:literal, $minima:literal, $lower:literal) => {
        /// A byte of a word is a sub-block's: scales 0 to 3, scales 4 to 7, minima 0 to 3, minima 4 to 7.
        /// (`get_scale_min_k4`.)
        type Factors<S: Simd> = [S::Bytes; 4];

        #[inline(always)]
        unsafe fn factors<S: Simd>(simd: S, rows: BlockRows<Self>) -> [S::Bytes; 4] {
            let (scales, minima, lower);
            // SAFETY: the caller's promise.
            unsafe {
                scales = rows.word(simd, $scales);
                minima = rows.word(simd, $minima);
                lower = rows.word(simd, $lower);
            }
            let upper_bits = |word| simd.shift_mask(word, 2, 0x30);
            [
                simd.shift_mask(scales, 0, 63),
                simd.or(upper_bits(scales), simd.shift_mask(lower, 0, 15)),
                simd.shift_mask(minima, 0, 63),
                simd.or(upper_bits(minima), simd.shift_mask(lower, 4, 15)),
            ]
        }

        #[inline(always)]
        fn scale<S: Simd>(simd: S, factors: &[S::Bytes; 4], sub_block: usize) -> S::Vector {
            simd.unsigned_byte(factors[sub_block / 4], sub_block % 4)
        }

        #[inline(always)]
        fn minimum<S: Simd>(simd: S, factors: &[S::Bytes; 4], sub_block: usize) -> S::Vector {
            simd.unsigned_byte(factors[2 + sub_block / 4], sub_block % 4)
        }
    };
}

impl Interleaved for BlockQ4K {
    const SCALES: (usize, usize) = (2, 0);

    /// A word of scales after each of three spans.
    #[inline(always)]
    fn place(word: usize) -> usize {
        match word {
            ..3 => 9 * word + 8,
            _ => word - 3 + (word - 3) / 8,
        }
    }
}

impl InterleavedIntegers for BlockQ4K {
    const SPANS: usize = 4;
    const PIECES: usize = 2;
    type Words<S: Simd> = S::Bytes;
    six_bits!(8, 17, 26);

    #[inline(always)]
    fn start(span: usize, piece: usize) -> usize {
        64 * span + 32 * piece
    }

    #[inline(always)]
    unsafe fn words<S: Simd>(simd: S, rows: BlockRows<Self>, span: usize, step: usize) -> S::Bytes {
        // SAFETY: the caller's promise.
        unsafe { rows.word(simd, 9 * span + step) }
    }

    #[inline(always)]
    fn integers_of<S: Simd>(simd: S, words: S::Bytes, _: usize, piece: usize) -> S::Bytes {
        simd.shift_mask(words, 4 * piece as i32, 15)
    }
}

impl Interleaved for BlockQ5K {
    const SCALES: (usize, usize) = (2, 0);

    /// With each of the first eight words of nibbles one of upper bits, and a word of scales after each of three spans.
    #[inline(always)]
    fn place(word: usize) -> usize {
        match word {
            ..3 => 9 * word + 16,
            3..11 => 2 * (word - 3),
            11..19 => 2 * (word - 11) + 1,
            _ => word - 3 + (word - 11) / 8,
        }
    }
}

impl InterleavedIntegers for BlockQ5K {
    const SPANS: usize = 4;
    const PIECES: usize = 2;
    /// High bits, and nibbles.
    type Words<S: Simd> = [S::Bytes; 2];
    six_bits!(16, 25, 34);

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
        let nibbles = match span {
            0 => 2 * step + 1,
            _ => 8 + 9 * span + step,
        };
        // SAFETY: the caller's promise.
        unsafe { [rows.word(simd, 2 * step), rows.word(simd, nibbles)] }
    }

    #[inline(always)]
    fn integers_of<S: Simd>(
        simd: S,
        [high, nibbles]: [S::Bytes; 2],
        span: usize,
        piece: usize,
    ) -> S::Bytes {
        let nibbles = simd.shift_mask(nibbles, 4 * piece as i32, 15);
        simd.or(
            simd.shift_mask(high, (2 * span + piece) as i32 - 4, 16),
            nibbles,
        )
    }
}

impl Interleaved for BlockQ6K {
    const SCALES: (usize, usize) = (0, 1);

    /// A word of upper bits, the two of nibbles that belong to it, and so on; after four times that a word of scales.
    #[inline(always)]
    fn place(word: usize) -> usize {
        match word {
            ..32 => word / 16 * 26 + word % 8 / 4 * 13 + word % 4 * 3 + 1 + word % 16 / 8,
            32..48 => (word - 32) / 4 * 13 + word % 4 * 3,
            _ => (word - 48) * 13 + 12,
        }
    }
}

impl InterleavedIntegers for BlockQ6K {
    /// The first halves, and then the second ones, of what the four quarters of each half of the block have for a
    /// scale.
    const SPANS: usize = 4;
    const PIECES: usize = 4;
    /// High bits, and twice nibbles.
    type Words<S: Simd> = [S::Bytes; 3];
    /// The 16 scales of each row.
    type Factors<S: Simd> = [S::Bytes; 4];

    #[inline(always)]
    fn start(span: usize, piece: usize) -> usize {
        128 * (span / 2) + 16 * (span % 2) + 32 * piece
    }

    #[inline(always)]
    unsafe fn words<S: Simd>(
        simd: S,
        rows: BlockRows<Self>,
        span: usize,
        step: usize,
    ) -> [S::Bytes; 3] {
        let first = 13 * span + 3 * step;
        // SAFETY: the caller's promise.
        unsafe {
            [
                rows.word(simd, first),
                rows.word(simd, first + 1),
                rows.word(simd, first + 2),
            ]
        }
    }

    #[inline(always)]
    fn integers_of<S: Simd>(simd: S, words: [S::Bytes; 3], _: usize, piece: usize) -> S::Bytes {
        let nibbles = simd.shift_mask(words[1 + piece % 2], 4 * (piece / 2) as i32, 15);
        simd.or(simd.shift_mask(words[0], 2 * piece as i32 - 4, 48), nibbles)
    }

    #[inline(always)]
    unsafe fn factors<S: Simd>(simd: S, rows: BlockRows<Self>) -> [S::Bytes; 4] {
        // SAFETY: the caller's promise.
        unsafe {
            [
                rows.word(simd, 12),
                rows.word(simd, 25),
                rows.word(simd, 38),
                rows.word(simd, 51),
            ]
        }
    }

    #[inline(always)]
    fn scale<S: Simd>(simd: S, factors: &[S::Bytes; 4], sub_block: usize) -> S::Vector {
        simd.signed_byte(factors[sub_block / 4], sub_block % 4)
    }
}
