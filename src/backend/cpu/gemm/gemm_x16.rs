//! Float GEMM on the x16 layout with AVX-512, up to 16 rows of A, where a prefetch distance pays: panels are multiplied
//! in place, a tile of rows at a time. Widening them anew for each tile costs less than a packed copy.

use std::ops::Range;

use super::microkernel::{PIECE, ROWS, add_step, write_sums};
use super::problem::{Block, Gemm};
use crate::backend::cpu::machine::Machine;
use crate::backend::cpu::quants::{Interleaved, Readable, Writable, X16_ROWS};
use crate::backend::cpu::simd::{Body, PREFETCH_DISTANCE, Simd, prefetch_lines};

/// x16 panels that are multiplied at a time.
const PANELS: usize = 3;
/// Columns of a unit of work.
pub const COLUMNS: usize = PANELS * X16_ROWS;
/// The most rows of A.
const MAX_ROWS: usize = 2 * ROWS;
/// Rows of a tile for the last few.
const FEW: usize = ROWS / 2;

/// For processors with AVX-512, and up to 16 rows of A.
pub fn multiply<B: Readable + Interleaved, T: Writable>(
    machine: &Machine,
    gemm: &Gemm<B, T>,
    separable: bool,
) {
    let Some(simd) = machine.isa.avx512() else {
        unreachable!("the table has it for AVX-512");
    };
    gemm.for_blocks(machine, separable, COLUMNS, |block| {
        simd.run(GemmX16 { gemm, block });
    });
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
        // Tiles may have more rows than there are: then the last one is computed more than once.
        let a: [_; MAX_ROWS] = gemm.a.first(batch, rows.clone());
        let mut sums = [[[0f32; X16_ROWS]; V]; MAX_ROWS];
        for start in (0..k).step_by(PIECE) {
            let steps = start..k.min(start + PIECE);
            for first in (0..rows.len()).step_by(ROWS) {
                // SAFETY: `x16_panel` and `first` checked all steps, and sums are of whole tiles.
                unsafe {
                    let (a, sums) = (a.as_ptr().add(first), sums.as_mut_ptr().add(first));
                    let steps = steps.clone();
                    match (first, rows.len() - first) {
                        (0, _) => add::<S, B, V, ROWS, true>(simd, panels, steps, a, sums),
                        (_, ..=FEW) => add::<S, B, V, FEW, false>(simd, panels, steps, a, sums),
                        _ => add::<S, B, V, ROWS, false>(simd, panels, steps, a, sums),
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

/// Adds the products of some steps of x16 panels with `N` rows of A. The `FIRST` of them prefetch.
///
/// # Safety
/// The x16 panels have these steps, and so have `N` rows at `a`; there are `N` sums.
#[inline(always)]
unsafe fn add<
    S: Simd,
    B: Readable + Interleaved,
    const V: usize,
    const N: usize,
    const FIRST: bool,
>(
    simd: S,
    panels: [*const B; V],
    steps: Range<usize>,
    a: *const *const f32,
    sums: *mut [[f32; X16_ROWS]; V],
) {
    // SAFETY: the caller's promise.
    unsafe {
        let a = a.cast::<[*const f32; N]>().read();
        let mut tile = [[simd.splat(0.0); V]; N];
        for step in steps {
            let mut vectors = [simd.splat(0.0); V];
            for v in 0..V {
                let values = panels[v].add(step * X16_ROWS);
                if FIRST {
                    let later = values.wrapping_byte_add(PREFETCH_DISTANCE);
                    prefetch_lines(later, X16_ROWS * size_of::<B>());
                }
                vectors[v] = B::vector(simd, values, 0, 0);
            }
            tile = add_step(simd, a, step, vectors, tile);
        }
        write_sums(simd, tile, sums.cast(), V * X16_ROWS, false);
    }
}
