//! Float GEMM on the x16 layout with AVX-512, up to 16 rows of A, where a prefetch distance pays: panels are multiplied
//! in place, a tile of rows at a time. Widening them anew for each tile costs less than a packed copy.

#![allow(
    clippy::needless_range_loop,
    reason = "closures of iterators need not be inlined, and then miss the instruction set"
)]

use super::microkernel::{PIECE, ROWS, add_step, add_to_sums};
use super::problem::{Block, Gemm};
use crate::backend::cpu::quants::{Interleaved, Readable, Writable, X16_ROWS};
use crate::backend::cpu::simd::{Avx512, Body, PREFETCH_DISTANCE, Simd, prefetch_lines};

/// x16 panels that are multiplied at a time.
const PANELS: usize = 3;
/// Columns of a unit of work.
pub const COLUMNS: usize = PANELS * X16_ROWS;
/// The most rows of A.
const MAX_ROWS: usize = 2 * ROWS;
/// Rows of a tile for the last few.
const FEW: usize = ROWS / 2;

/// For up to 16 rows of A.
pub fn compute<B: Readable + Interleaved, T: Writable>(
    simd: Avx512<false>,
    gemm: &Gemm<B, T>,
    block: Block,
) {
    simd.run(GemmX16 { gemm, block });
}

struct GemmX16<'a, B, T> {
    gemm: &'a Gemm<'a, B, T>,
    /// Its columns are whole x16 panels.
    block: Block,
}

impl<B: Readable + Interleaved, T: Writable> Body for GemmX16<'_, B, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        const { assert!(S::LANES == X16_ROWS) }
        let columns = self.block.columns.clone();
        for column in columns.clone().step_by(COLUMNS) {
            match (columns.end - column) / X16_ROWS {
                1 => self.multiply::<S, 1>(simd, column),
                2 => self.multiply::<S, 2>(simd, column),
                _ => self.multiply::<S, PANELS>(simd, column),
            }
        }
    }
}

impl<B: Readable + Interleaved, T: Writable> GemmX16<'_, B, T> {
    /// The `V` x16 panels from `column` on, of a vector in each step.
    #[inline(always)]
    fn multiply<S: Simd, const V: usize>(&self, simd: S, column: usize) {
        let GemmX16 { gemm, block } = self;
        let (batch, k, rows) = (block.batch, gemm.k(), block.rows.clone());
        let mut panels = [std::ptr::null(); V];
        for v in 0..V {
            panels[v] = gemm.x16_panel(batch, column + v * X16_ROWS);
        }
        let mut a = [std::ptr::null(); MAX_ROWS];
        for i in 0..MAX_ROWS {
            // Tiles may have more rows than there are: then the last one is computed more than once.
            a[i] = gemm.a.row(batch, (rows.start + i).min(rows.end - 1), k);
        }
        let mut sums = [[[0f32; X16_ROWS]; V]; MAX_ROWS];
        for start in (0..k).step_by(PIECE) {
            let piece = Piece {
                panels,
                start,
                end: k.min(start + PIECE),
            };
            for first in (0..rows.len()).step_by(ROWS) {
                // SAFETY: `x16_panel` and `row` checked all steps, and sums are of whole tiles.
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
                gemm.store_x16(batch, row, column + v * X16_ROWS, sums[i][v]);
            }
        }
    }
}

/// Steps of some x16 panels.
struct Piece<B, const V: usize> {
    panels: [*const B; V],
    start: usize,
    end: usize,
}

impl<B: Readable + Interleaved, const V: usize> Piece<B, V> {
    /// Adds the products with `N` rows of A. The `FIRST` of them prefetch.
    ///
    /// # Safety
    /// The x16 panels have these steps, and so have `N` rows at `a`; there are `N` sums.
    #[inline(always)]
    unsafe fn add<S: Simd, const N: usize, const FIRST: bool>(
        &self,
        simd: S,
        a: *const *const f32,
        sums: *mut [[f32; X16_ROWS]; V],
    ) {
        // SAFETY: the caller's promise.
        unsafe {
            let a = a.cast::<[*const f32; N]>().read();
            let mut tile = [[simd.splat(0.0); V]; N];
            for step in self.start..self.end {
                let mut vectors = [simd.splat(0.0); V];
                for v in 0..V {
                    let values = self.panels[v].add(step * X16_ROWS);
                    if FIRST {
                        let later = values.wrapping_byte_add(PREFETCH_DISTANCE);
                        prefetch_lines(later, X16_ROWS * size_of::<B>());
                    }
                    vectors[v] = B::vector(simd, values, 0, 0);
                }
                tile = add_step(simd, a, step, vectors, tile);
            }
            add_to_sums(simd, tile, sums.cast(), V * X16_ROWS);
        }
    }
}
