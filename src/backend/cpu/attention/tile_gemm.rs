//! Products of small matrices in scratch memory, for the tiles of attention.

#![allow(
    clippy::needless_range_loop,
    reason = "closures of iterators need not be inlined, and then miss the instruction set"
)]

use crate::backend::cpu::gemm::microkernel::{add_step, write_sums};
use crate::backend::cpu::simd::Simd;

/// Rows that are multiplied at a time.
pub const TILE_ROWS: usize = 4;

/// Rows that are multiplied with a panel.
#[derive(Clone, Copy)]
pub struct TileGemm {
    pub rows: *const f32,
    /// Values from one of `rows` to the next.
    pub width: usize,
    /// Of `rows`: a multiple of [`TILE_ROWS`].
    pub count: usize,
    /// Of [step][column].
    pub panel: *const f32,
    pub panel_width: usize,
    pub depth: usize,
    pub sums: *mut f32,
    pub sums_width: usize,
}

impl TileGemm {
    /// sums = sums + rows · panel for some vectors of columns.
    ///
    /// # Safety
    /// All is as the fields say, and there are `vectors` vectors.
    #[inline(always)]
    pub unsafe fn add<S: Simd>(self, simd: S, vectors: usize) {
        let mut vector = 0;
        while vector < vectors {
            // SAFETY: the caller's promise. The sums, a step and a value fit the registers.
            vector += unsafe {
                match vectors - vector {
                    4.. if S::REGISTERS >= 32 => self.add_columns::<S, 4>(simd, vector),
                    2.. => self.add_columns::<S, 2>(simd, vector),
                    _ => self.add_columns::<S, 1>(simd, vector),
                }
            };
        }
    }

    /// `V` vectors, from `vector` on. Returns `V`.
    ///
    /// # Safety
    /// As for [`add`](Self::add).
    #[inline(always)]
    unsafe fn add_columns<S: Simd, const V: usize>(self, simd: S, vector: usize) -> usize {
        let column = vector * S::LANES;
        for first in (0..self.count).step_by(TILE_ROWS) {
            let mut rows = [self.rows; TILE_ROWS];
            // SAFETY: the caller's promise.
            unsafe {
                for i in 0..TILE_ROWS {
                    rows[i] = self.rows.add((first + i) * self.width);
                }
                let mut tile = [[simd.splat(0.0); V]; TILE_ROWS];
                for step in 0..self.depth {
                    let from = self.panel.add(step * self.panel_width + column);
                    let mut vectors = [simd.splat(0.0); V];
                    for v in 0..V {
                        vectors[v] = simd.load(from.add(v * S::LANES));
                    }
                    tile = add_step(simd, rows, step, vectors, tile);
                }
                let sums = self.sums.add(first * self.sums_width + column);
                write_sums(simd, tile, sums, self.sums_width, false);
            }
        }
        V
    }
}
