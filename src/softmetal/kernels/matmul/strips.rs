//! Strips of numbers and a few rows of A: memory is read from one end to the other, and a lane of a vector is a column of C.
//!
//! Some more rows are still multiplied with strips as they lie where memory is brought near in time ([`Simd::AHEAD`]): their vectors are widened
//! for each tile of rows anew, which is less than to write them to a panel and to read that.

#![allow(
    clippy::needless_range_loop,
    reason = "closures of iterators need not be inlined, and then miss the instruction set"
)]

use super::super::super::elements::{Interleaved, Readable, STRIP, Writable};
use super::super::super::simd::{Body, Isa, Simd, in_order, prefetch_lines};
use super::tiles::{PIECE, ROWS};
use super::{Block, Product};

/// The most rows of A whose sums are kept from one end of a strip to the other.
pub const FEW: usize = 4;
/// The most rows of A.
const SOME: usize = 2 * ROWS;
/// Strips that some rows are multiplied with at a time, and columns of a unit of work.
const TOGETHER: usize = 3;
pub const COLUMNS: usize = TOGETHER * STRIP;

/// The most rows of A for which this is the way.
pub fn most(isa: Isa) -> usize {
    match isa.ahead() {
        0 => FEW,
        _ => SOME,
    }
}

pub struct Compute<'a, B, T> {
    pub product: &'a Product<'a, B, T>,
    /// Its columns are whole strips.
    pub block: Block,
}

impl<B: Readable + Interleaved, T: Writable> Body for Compute<'_, B, T> {
    type Output = ();
    const READS_AHEAD: bool = true;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        match STRIP / S::LANES {
            1 if S::AHEAD > 0 && self.block.rows.len() > FEW => self.multiply_some(simd),
            1 => self.multiply_rows::<S, 1>(simd),
            2 => self.multiply_rows::<S, 2>(simd),
            _ => self.multiply_rows::<S, 4>(simd),
        }
    }
}

impl<B: Readable + Interleaved, T: Writable> Compute<'_, B, T> {
    /// `V`: the vectors that a strip's rows fill.
    #[inline(always)]
    fn multiply_rows<S: Simd, const V: usize>(self, simd: S) {
        match self.block.rows.len() {
            1 => self.multiply::<S, V, 1, 4>(simd),
            2 => self.multiply::<S, V, 2, 2>(simd),
            3 => self.multiply::<S, V, 3, 1>(simd),
            _ => self.multiply::<S, V, FEW, 1>(simd),
        }
    }

    /// `STEPS` steps have sums of their own: one chain of additions takes longer than the memory.
    #[inline(always)]
    fn multiply<S: Simd, const V: usize, const M: usize, const STEPS: usize>(self, simd: S) {
        let Compute { product, block } = self;
        let (batch, k) = (block.batch, product.k());
        let a: [*const f32; M] =
            std::array::from_fn(|i| product.a.row(batch, block.rows.start + i, k));
        let whole = k - k % STEPS;
        for column in block.columns.step_by(STRIP) {
            let strip = product.strip(batch, column);
            let mut sums = [[[simd.splat(0.0); M]; V]; STEPS];
            // SAFETY: `strip` checked the strip, and A's rows have `k` values.
            unsafe {
                for step in (0..whole).step_by(STEPS) {
                    if S::AHEAD > 0 {
                        let near = strip.wrapping_add(step * STRIP).wrapping_byte_add(S::AHEAD);
                        prefetch_lines(near, STEPS * STRIP * size_of::<B>());
                    }
                    for chain in 0..STEPS {
                        for v in 0..V {
                            let values = strip.add((step + chain) * STRIP);
                            let values = B::vector(simd, values, 0, v * S::LANES);
                            sums[chain][v] = add(simd, a, step + chain, values, sums[chain][v]);
                        }
                    }
                }
                for step in whole..k {
                    for v in 0..V {
                        let values = B::vector(simd, strip.add(step * STRIP), 0, v * S::LANES);
                        sums[0][v] = add(simd, a, step, values, sums[0][v]);
                    }
                }
            }
            for i in 0..M {
                let mut values = [0f32; STRIP];
                for v in 0..V {
                    let mut sum = sums[0][v][i];
                    for chain in 1..STEPS {
                        sum = simd.add(sum, sums[chain][v][i]);
                    }
                    // SAFETY: the vectors are as long as the values.
                    unsafe { simd.store(sum, values.as_mut_ptr().add(v * S::LANES)) };
                }
                product.store(batch, block.rows.start + i, column, values);
            }
        }
    }

    #[inline(always)]
    fn multiply_some<S: Simd>(self, simd: S) {
        let columns = self.block.columns.clone();
        for column in columns.clone().step_by(COLUMNS) {
            match (columns.end - column) / STRIP {
                1 => self.multiply_together::<S, 1>(simd, column),
                2 => self.multiply_together::<S, 2>(simd, column),
                _ => self.multiply_together::<S, TOGETHER>(simd, column),
            }
        }
    }

    /// The `V` strips from `column` on, of a vector in each step.
    #[inline(always)]
    fn multiply_together<S: Simd, const V: usize>(&self, simd: S, column: usize) {
        let Compute { product, block } = self;
        let (batch, k, rows) = (block.batch, product.k(), block.rows.clone());
        let mut strips = [std::ptr::null(); V];
        for v in 0..V {
            strips[v] = product.strip(batch, column + v * STRIP);
        }
        let mut a = [std::ptr::null(); SOME];
        for i in 0..SOME {
            // Tiles may have more rows than there are: then the last one is computed more than once.
            a[i] = product.a.row(batch, (rows.start + i).min(rows.end - 1), k);
        }
        let mut sums = [[[0f32; STRIP]; V]; SOME];
        for start in (0..k).step_by(PIECE) {
            let piece = Piece {
                strips,
                start,
                end: k.min(start + PIECE),
            };
            for first in (0..rows.len()).step_by(ROWS) {
                // SAFETY: `strip` and `row` checked all steps, and sums are of whole tiles.
                unsafe {
                    let (a, sums) = (a.as_ptr().add(first), sums.as_mut_ptr().add(first));
                    match (first, rows.len() - first) {
                        (0, _) => piece.add::<S, ROWS, true>(simd, a, sums),
                        (_, ..=FEW) => piece.add::<S, FEW, false>(simd, a, sums),
                        _ => piece.add::<S, ROWS, false>(simd, a, sums),
                    }
                }
            }
        }
        for (i, row) in rows.enumerate() {
            for v in 0..V {
                product.store(batch, row, column + v * STRIP, sums[i][v]);
            }
        }
    }
}

impl<B: Readable + Interleaved, T: Writable> Product<'_, B, T> {
    /// Writes a strip's columns of a row of C.
    #[inline(always)]
    fn store(&self, batch: usize, row: usize, column: usize, values: [f32; STRIP]) {
        let c = self.output.c_at(batch, row, column, STRIP);
        for (j, value) in values.into_iter().enumerate() {
            let bias = self.output.bias_at(column + j);
            // SAFETY: `c_at` checked a strip's columns.
            unsafe { c.add(j).write(T::from_f32(value + bias)) };
        }
    }
}

/// Steps of some strips.
struct Piece<B, const V: usize> {
    strips: [*const B; V],
    start: usize,
    end: usize,
}

impl<B: Readable + Interleaved, const V: usize> Piece<B, V> {
    /// Adds the products with `N` rows of A. The first of them bring memory near.
    ///
    /// # Safety
    /// The strips have these steps, and so have `N` rows at `a`; there are `N` sums.
    #[inline(always)]
    unsafe fn add<S: Simd, const N: usize, const FIRST: bool>(
        &self,
        simd: S,
        a: *const *const f32,
        sums: *mut [[f32; STRIP]; V],
    ) {
        // SAFETY: the caller's promise.
        unsafe {
            let a = a.cast::<[*const f32; N]>().read();
            let mut tile = [[simd.splat(0.0); V]; N];
            for step in self.start..self.end {
                let mut vectors = [simd.splat(0.0); V];
                for v in 0..V {
                    let values = self.strips[v].add(step * STRIP);
                    if FIRST {
                        let near = values.wrapping_byte_add(S::AHEAD);
                        prefetch_lines(near, STRIP * size_of::<B>());
                    }
                    vectors[v] = B::vector(simd, values, 0, 0);
                }
                for j in 0..N {
                    let value = simd.splat(a[j].add(step).read());
                    for v in 0..V {
                        tile[j][v] = simd.mul_add(value, vectors[v], tile[j][v]);
                    }
                }
            }
            for j in 0..N {
                for v in 0..V {
                    let sum = (*sums.add(j))[v].as_mut_ptr();
                    simd.store(simd.add(simd.load(sum), tile[j][v]), sum);
                }
            }
        }
    }
}

/// Adds the products of a step's values of B with those of A.
///
/// # Safety
/// The rows of A are readable there.
#[inline(always)]
unsafe fn add<S: Simd, const M: usize>(
    simd: S,
    a: [*const f32; M],
    step: usize,
    b: S::Vector,
    mut sums: [S::Vector; M],
) -> [S::Vector; M] {
    in_order();
    for i in 0..M {
        // SAFETY: the caller's promise.
        let a = unsafe { simd.splat(a[i].add(step).read()) };
        sums[i] = simd.mul_add(a, b, sums[i]);
    }
    sums
}
