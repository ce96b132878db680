//! Float GEMM on the x16 layout, up to 16 rows of A, where a prefetch distance pays ([`Simd::AHEAD`]): panels are
//! multiplied as they lie, a tile of rows at a time. Widening them for each tile anew costs less than a packed copy.

#![allow(
    clippy::needless_range_loop,
    reason = "closures of iterators need not be inlined, and then miss the instruction set"
)]

use super::microkernel::{PIECE, ROWS, add_step, add_to_sums};
use super::problem::{Block, Product};
use crate::backend::cpu::quants::{Interleaved, Readable, STRIP, Writable};
use crate::backend::cpu::simd::{Body, Isa, Simd, prefetch_lines};

/// Strips that are multiplied at a time.
const TOGETHER: usize = 3;
/// Columns of a unit of work.
pub const COLUMNS: usize = TOGETHER * STRIP;
/// The most rows of A.
const MOST: usize = 2 * ROWS;
/// Rows of a tile for the last few.
const FEW: usize = ROWS / 2;

/// The most rows of A for which this loop is the fastest.
pub fn most(isa: Isa) -> usize {
    match isa.ahead() {
        0 => 0,
        _ => MOST,
    }
}

/// For up to [`most`] rows of A.
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
        // Not compiled for the others.
        if S::AHEAD == 0 || S::LANES != STRIP {
            unreachable!("`most` says for which instruction sets this is");
        }
        let columns = self.block.columns.clone();
        for column in columns.clone().step_by(COLUMNS) {
            match (columns.end - column) / STRIP {
                1 => self.multiply::<S, 1>(simd, column),
                2 => self.multiply::<S, 2>(simd, column),
                _ => self.multiply::<S, TOGETHER>(simd, column),
            }
        }
    }
}

impl<B: Readable + Interleaved, T: Writable> Compute<'_, B, T> {
    /// The `V` strips from `column` on, of a vector in each step.
    #[inline(always)]
    fn multiply<S: Simd, const V: usize>(&self, simd: S, column: usize) {
        let Compute { product, block } = self;
        let (batch, k, rows) = (block.batch, product.k(), block.rows.clone());
        let mut strips = [std::ptr::null(); V];
        for v in 0..V {
            strips[v] = product.strip(batch, column + v * STRIP);
        }
        let mut a = [std::ptr::null(); MOST];
        for i in 0..MOST {
            // Tiles may have more rows than there are: then the last one is computed more than once.
            a[i] = product.a.row(batch, (rows.start + i).min(rows.end - 1), k);
        }
        let mut sums = [[[0f32; STRIP]; V]; MOST];
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
                product.store_strip(batch, row, column + v * STRIP, sums[i][v]);
            }
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
    /// Adds the products with `N` rows of A. The `FIRST` of them prefetch.
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
                tile = add_step(simd, a, step, vectors, tile);
            }
            add_to_sums(simd, tile, sums.cast(), V * STRIP);
        }
    }
}
