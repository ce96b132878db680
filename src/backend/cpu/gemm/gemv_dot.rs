//! Dot-form GEMV, B stored `[n][k]` and up to 6 rows of A: every element of C is the dot product of a row of A and a
//! row of B, which is read once, from memory.

use super::problem::{Block, Gemm};
use crate::backend::cpu::kernels::dot::dots;
use crate::backend::cpu::quants::{Readable, Writable};
use crate::backend::cpu::simd::{Body, Simd};

/// Rows of B, so columns of C, that are multiplied together.
pub const COLUMNS: usize = 4;
/// Rows of A that are multiplied together: 3 × 4 sums, 3 and 1 operands fill the 16 registers of AVX2.
const TILE_ROWS: usize = 3;

pub struct GemvDot<'a, B, T> {
    pub gemm: &'a Gemm<'a, B, T>,
    pub block: Block,
}

impl<B: Readable, T: Writable> Body for GemvDot<'_, B, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let (gemm, block) = (self.gemm, &self.block);
        let columns = block.columns.clone();
        // As many streams as a tile has columns, each from one end of its part to the other, so that the processor
        // prefetches the next row of each. Streams that leap over the rows of others have half the rate.
        let apart = columns.len().div_ceil(COLUMNS);
        for first in columns.start..columns.start + apart {
            let places: [usize; COLUMNS] = std::array::from_fn(|j| first + j * apart);
            // Past the end the last column stands in; its result is not used.
            let b = places.map(|column| {
                let row = gemm.b_row(block.batch, column.min(columns.end - 1));
                gemm.b.at(row, gemm.k()).cast_const()
            });
            let used = places.map(|column| (column < columns.end).then_some(column));
            for row in block.rows.clone().step_by(TILE_ROWS) {
                // SAFETY: `at` checked the rows of B.
                unsafe {
                    match block.rows.end - row {
                        1 => self.multiply::<S, 1>(simd, row, used, b),
                        2 => self.multiply::<S, 2>(simd, row, used, b),
                        _ => self.multiply::<S, TILE_ROWS>(simd, row, used, b),
                    }
                }
            }
        }
    }
}

impl<B: Readable, T: Writable> GemvDot<'_, B, T> {
    /// # Safety
    /// Each `b` is readable for `k` elements.
    #[inline(always)]
    unsafe fn multiply<S: Simd, const M: usize>(
        &self,
        simd: S,
        row: usize,
        columns: [Option<usize>; COLUMNS],
        b: [*const B; COLUMNS],
    ) {
        let (gemm, batch) = (self.gemm, self.block.batch);
        let a = gemm.a.first(batch, row..row + M);
        // SAFETY: the caller's promise; A's rows have room for a whole last group and zeros in it.
        let sums: [[f32; COLUMNS]; M] = unsafe { dots(simd, a, b, gemm.k()) };
        for i in 0..M {
            for j in 0..COLUMNS {
                if let Some(column) = columns[j] {
                    gemm.output.write(batch, row + i, column, sums[i][j]);
                }
            }
        }
    }
}
