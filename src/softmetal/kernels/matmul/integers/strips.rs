//! A few rows of A with a B of strips: memory is read from one end to the other, and a lane of a vector is a column of C.
//!
//! The processor's own prefetching keeps up with that order of reading, and with few others that were tried: with prefetch instructions, with
//! the scales of a strip apart from its integers, with neighbouring strips in turns, or with words of a block out of their order, a core of
//! Zen 4 read half as much in a second. Two strips far from each other, a word of each in turns, are two such streams, of which more is on its
//! way together than of one: for a single row of A, with whose sums both fit the registers, a token of Q4_0 took 12 % less time, one of Q8_0
//! 3 % (one thread; nothing beyond the noise for Q4_K_M).
//!
//! Of half as wide vectors, one row's sums of two strips fit the registers as well where products are pairs ([`Simd::PAIRS`]), all vectors in
//! turns. On Zen 3 (one thread, in turns in one process) a token of Q4_K_M, Q4_0 and Q8_0 was computed 14, 24 and 23 % slower with one strip at a
//! time, the first two 22 and 27 % with two strips and one half after the other, and all 31 to 48 % with prefetch instructions.
//!
//! Intel's processors do better with prefetch instructions ([`Simd::AHEAD`]): then words may be out of their order, too.

use std::hint::black_box;
use std::mem::MaybeUninit;

use super::super::super::super::elements::{
    BlockRows, GROUP, InterleavedIntegers, STRIP, WORD, for_spans,
};
use super::super::super::super::simd::{Body, CACHE_LINE, Simd, in_order, kept_a_loop};
use super::super::{Block, Product};
use super::Products;
use super::activations::{Activations, Row};

/// The most rows of A.
pub const MOST: usize = 4;
/// The most vectors that the rows of a strip fill.
const VECTORS: usize = 4;

pub struct Compute<'a, B> {
    pub product: &'a Product<'a, B, f32>,
    pub a: &'a Activations,
    /// Its columns are whole strips.
    pub block: Block,
}

impl<B: InterleavedIntegers> Body for Compute<'_, B> {
    type Output = ();
    const MOVES_BITS: bool = true;
    const READS_AHEAD: bool = true;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        match self.block.rows.len() {
            1 if S::LANES == STRIP && (B::IN_ORDER || S::AHEAD > 0) => {
                self.multiply::<S, 1, 2, 2>(simd)
            }
            1 if S::PAIRS => self.multiply::<S, 1, 2, 4>(simd),
            1 => self.multiply::<S, 1, 1, 1>(simd),
            2 if S::PAIRS => self.multiply::<S, 2, 1, 2>(simd),
            2 => self.multiply::<S, 2, 1, 1>(simd),
            _ => self.multiply::<S, MOST, 1, 1>(simd),
        }
    }
}

impl<B: InterleavedIntegers> Compute<'_, B> {
    /// With `M` rows of A, and `N` strips in turns, `R` vectors of their rows at a time.
    #[inline(always)]
    fn multiply<S: Simd, const M: usize, const N: usize, const R: usize>(self, simd: S) {
        const { assert!(S::LANES * VECTORS >= STRIP) }
        let Compute { product, a, block } = self;
        let Block {
            batch,
            rows,
            columns,
        } = block;
        let each = R / N;
        // A third row comes with a fourth that is the same, so that there is a loop less to compile.
        let a: [Row; M] = std::array::from_fn(|i| a.row(batch, (rows.start + i).min(rows.end - 1)));
        let strips = columns.len() / STRIP;
        let turns = strips.div_ceil(N);
        for turn in 0..turns {
            // Where streams are not equally long, the last one ends with a strip that is done already.
            let column = |n: usize| columns.start + (n * turns + turn).min(strips - 1) * STRIP;
            let mut strips = [std::ptr::null(); N];
            for n in 0..N {
                strips[n] = product.strip(batch, column(n));
            }
            let mut sums = [[[simd.splat(0.0); M]; R]; VECTORS];
            let mut stages = [const { Stage::<B>::new() }; N];
            for block in 0..product.k() / B::ELEMENTS {
                let mut here = strips;
                for n in 0..N {
                    // SAFETY: `strip` checked all of its blocks.
                    here[n] = unsafe { stages[n].put(simd, strips[n].wrapping_add(block * STRIP)) };
                }
                for v in 0..STRIP / S::LANES / each {
                    let mut rows = [BlockRows::new(here[0], v * each * S::LANES); R];
                    for r in 1..R {
                        let first = (v * each + r % each) * S::LANES;
                        rows[r] = BlockRows::new(here[r / each], first);
                    }
                    // SAFETY: `strip` checked all of its blocks, and A's rows have as many.
                    sums[v] = unsafe { add_block::<S, B, M, R>(simd, a, rows, block, sums[v]) };
                }
            }
            for n in 0..N {
                for i in 0..M.min(rows.len()) {
                    let column = column(n);
                    let c = product.output.c_at(batch, rows.start + i, column, STRIP);
                    for v in 0..STRIP / S::LANES {
                        let sum = sums[v / each][n * each + v % each][i];
                        // SAFETY: `c_at` checked a strip's columns.
                        unsafe { simd.store(sum, c.add(v * S::LANES)) };
                    }
                    if product.output.bias.is_some() {
                        for j in 0..STRIP {
                            // SAFETY: as above.
                            unsafe { *c.add(j) += product.output.bias_at(column + j) };
                        }
                    }
                }
            }
        }
    }
}

/// Where long blocks are put before they are used: their words are not used in their order, and the processor prefetches for what is read in
/// order.
#[repr(align(64))]
struct Stage<B>([MaybeUninit<B>; STRIP]);

impl<B: InterleavedIntegers> Stage<B> {
    /// Blocks whose words are used in their order are read where they are, and those that are brought near in theirs.
    const fn is_used<S: Simd>() -> bool {
        !B::IN_ORDER && S::AHEAD == 0
    }

    const fn new() -> Stage<B> {
        Stage([const { MaybeUninit::uninit() }; STRIP])
    }

    /// The same 16 blocks, maybe at another place.
    ///
    /// # Safety
    /// They are readable.
    #[inline(always)]
    unsafe fn put<S: Simd>(&mut self, simd: S, blocks: *const B) -> *const B {
        if !Self::is_used::<S>() {
            return blocks;
        }
        let vector = size_of::<S::Bytes>();
        let bytes = size_of::<[B; STRIP]>();
        let (from, to): (*const i8, *mut i8) = (blocks.cast(), self.0.as_mut_ptr().cast());
        // SAFETY: the caller's promise; the last vector ends where the blocks do, and they are longer than one.
        unsafe {
            let put = |at: usize| simd.store_bytes(simd.load_bytes(from.add(at)), to.add(at));
            for at in 0..bytes / vector {
                put(at * vector);
            }
            if !bytes.is_multiple_of(vector) {
                put(bytes - vector);
            }
        }
        // The compiler would see through a short copy and read the words out of order again.
        black_box(self.0.as_ptr()).cast()
    }
}

/// Adds the products of block `block` of each strip to its `sums`.
///
/// # Safety
/// B's blocks are readable and A's rows have them.
#[inline(always)]
unsafe fn add_block<S: Simd, B: InterleavedIntegers, const M: usize, const N: usize>(
    simd: S,
    a: [Row; M],
    rows: [BlockRows<B>; N],
    block: usize,
    mut sums: [[S::Vector; M]; N],
) -> [[S::Vector; M]; N] {
    // SAFETY: the caller's promise.
    unsafe {
        let mut parts = [[Parts {
            products: simd.splat(0.0),
            minima: simd.splat(0.0),
        }; M]; N];
        if S::AHEAD > 0 {
            // The others with the words.
            let lines = size_of::<[B; STRIP]>().div_ceil(CACHE_LINE);
            for line in B::SPANS * B::STEPS..lines {
                for n in 0..N {
                    rows[n].bring_near(S::AHEAD + line * CACHE_LINE);
                }
            }
        }
        let mut factors = [B::factors(simd, rows[0]); N];
        for n in 1..N {
            factors[n] = B::factors(simd, rows[n]);
        }
        for_spans!(B, U, {
            parts = add_span::<S, B, M, N, U>(simd, a, rows, factors, block, parts);
        });
        for n in 0..N {
            let scale = rows[n].scale(simd);
            for i in 0..M {
                sums[n][i] = simd.mul_add(parts[n][i].products, scale, sums[n][i]);
            }
            if B::HAS_MINIMUM {
                let minimum = simd.mul(rows[n].minimum(simd), simd.splat(-1.0));
                for i in 0..M {
                    sums[n][i] = simd.mul_add(parts[n][i].minima, minimum, sums[n][i]);
                }
            }
        }
        sums
    }
}

/// What is summed up of a block, to be multiplied with its scale and its minimum.
#[derive(Clone, Copy)]
struct Parts<S: Simd> {
    products: S::Vector,
    minima: S::Vector,
}

/// Adds the products of span `U` of block `block`.
///
/// # Safety
/// As for [`add_block`].
#[inline(always)]
unsafe fn add_span<
    S: Simd,
    B: InterleavedIntegers,
    const M: usize,
    const N: usize,
    const U: usize,
>(
    simd: S,
    a: [Row; M],
    rows: [BlockRows<B>; N],
    factors: [B::Factors<S>; N],
    block: usize,
    mut parts: [[Parts<S>; M]; N],
) -> [[Parts<S>; M]; N] {
    // Pieces have shares of their own, each one or more; but those of Q4_0 are halves of one.
    let sums = const { B::ELEMENTS / B::SPANS / B::SHARE }.min(B::PIECES);
    let steps = B::STEPS.min(B::SHARE / WORD);
    for first in (0..B::STEPS).step_by(steps) {
        let mut products = [[[Products::new(simd, 0); M]; N]; 2];
        let at = |piece| block * B::ELEMENTS + B::start(U, piece) + first * WORD;
        // SAFETY: the caller's promise.
        unsafe {
            if !B::HAS_MINIMUM && B::zero::<S>() != 0 {
                for sum in 0..sums {
                    for i in 0..M {
                        let start = a[i].starts.add(at(sum) / B::SHARE).read();
                        for n in 0..N {
                            products[sum][n][i] = Products::new(simd, start);
                        }
                    }
                }
            }
            for step in 0..kept_a_loop(steps) {
                if S::AHEAD > 0 {
                    for n in 0..N {
                        rows[n].bring_near(S::AHEAD + (U * B::STEPS + first + step) * CACHE_LINE);
                    }
                }
                let mut words = [B::words(simd, rows[0], U, first + step); N];
                for n in 1..N {
                    words[n] = B::words(simd, rows[n], U, first + step);
                }
                if !Stage::<B>::is_used::<S>() {
                    in_order();
                }
                let with = at(0) + step * WORD;
                for n in 0..N {
                    let b = B::piece::<S, U, 0>(simd, words[n]);
                    products[0][n] = add_piece::<S, B, M>(simd, a, with, b, products[0][n]);
                }
                if B::PIECES > 1 {
                    let (with, sum) = (at(1) + step * WORD, sums - 1);
                    for n in 0..N {
                        let b = B::piece::<S, U, 1>(simd, words[n]);
                        products[sum][n] = add_piece::<S, B, M>(simd, a, with, b, products[sum][n]);
                    }
                }
            }
            for sum in 0..sums {
                let (share, group) = (at(sum) / B::SHARE, at(sum) / GROUP);
                let in_block = share - block * (B::ELEMENTS / B::SHARE);
                for n in 0..N {
                    for i in 0..M {
                        let scale = simd.splat(a[i].scales.add(group).read());
                        let factor = match B::ELEMENTS > B::SHARE {
                            true => simd.mul(B::scale(simd, factors[n], in_block), scale),
                            false => scale,
                        };
                        let total = products[sum][n][i].total(simd);
                        parts[n][i].products = simd.mul_add(total, factor, parts[n][i].products);
                        if B::HAS_MINIMUM {
                            let minimum = B::minimum(simd, factors[n], in_block);
                            let weight = simd.splat(a[i].weights.add(share).read());
                            parts[n][i].minima = simd.mul_add(minimum, weight, parts[n][i].minima);
                        }
                    }
                }
            }
        }
    }
    parts
}

/// Adds the products of a word of B's rows and integers `at ..` of A's.
///
/// # Safety
/// A's rows have the integers.
#[inline(always)]
unsafe fn add_piece<S: Simd, B: InterleavedIntegers, const M: usize>(
    simd: S,
    a: [Row; M],
    at: usize,
    b: S::Bytes,
    mut products: [Products<S>; M],
) -> [Products<S>; M] {
    for i in 0..M {
        let [first, second] = a[i].planes;
        // SAFETY: the caller's promise.
        let planes = unsafe {
            [
                simd.splat_bytes(first.add(at)),
                simd.splat_bytes(second.add(at)),
            ]
        };
        products[i] = products[i].add(simd, B::SIGNED, b, planes);
    }
    products
}
