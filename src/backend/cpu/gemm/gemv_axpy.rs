//! Axpy-form GEMV, B stored `[k][n]` and up to 6 rows of A: some rows of B at a time, each times a value of A, are
//! added to the rows of C. B is read once, along its rows.

#![allow(
    clippy::needless_range_loop,
    reason = "closures of iterators need not be inlined, and then miss the instruction set"
)]

use std::cell::Cell;

use super::problem::{Block, Gemm, Narrow};
use super::rows::MatrixView;
use crate::backend::cpu::quants::{GROUP, Readable, Writable};
use crate::backend::cpu::scratch::{AllocError, CacheLine, Scratch};
use crate::backend::cpu::simd::{Body, Isa, Simd, prefetch};

/// Columns of a unit of work.
pub const COLUMNS: usize = 64;
/// Columns of a pass: the rows of B at hand and the next ones share L1.
const PASS_COLUMNS: usize = 512;
/// Rows of B at a time.
const STEPS: usize = 8;

thread_local! {
    static ARENA: Cell<Vec<CacheLine>> = const { Cell::new(Vec::new()) };
}

pub fn compute<A: Readable, B: Readable, T: Writable>(
    isa: Isa,
    gemm: &Gemm<B, T, MatrixView<A>>,
    block: Block,
) -> Result<(), AllocError> {
    let count = block.rows.len() * PASS_COLUMNS;
    let scratch = Scratch::take(&ARENA, count * size_of::<f32>())?;
    for first in block.columns.clone().step_by(PASS_COLUMNS) {
        isa.run(Axpy {
            gemm,
            part: Block {
                batch: block.batch,
                rows: block.rows.clone(),
                columns: first..block.columns.end.min(first + PASS_COLUMNS),
            },
            sums: scratch.at(0, count),
        });
    }
    Ok(())
}

struct Axpy<'a, A, B, T> {
    gemm: &'a Gemm<'a, B, T, MatrixView<'a, A>>,
    /// At most [`PASS_COLUMNS`] columns.
    part: Block,
    /// Of [row][PASS_COLUMNS].
    sums: *mut f32,
}

impl<A: Readable, B: Readable, T: Writable> Body for Axpy<'_, A, B, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let (rows, columns) = (self.part.rows.clone(), self.part.columns.clone());
        for column in 0..columns.len() {
            let bias = self.gemm.output.bias_at(columns.start + column);
            for row in 0..rows.len() {
                // SAFETY: there are sums for every row and PASS_COLUMNS columns.
                unsafe { self.sums.add(row * PASS_COLUMNS + column).write(bias) };
            }
        }
        let k = self.gemm.k();
        let whole = k - k % STEPS;
        for step in (0..whole).step_by(STEPS) {
            self.add::<S, STEPS>(simd, step);
        }
        for step in whole..k {
            self.add::<S, 1>(simd, step);
        }
        for (index, row) in rows.enumerate() {
            let (batch, first) = (self.part.batch, columns.start);
            let c = self.gemm.output.c_at(batch, row, first, columns.len());
            let narrow = Narrow {
                from: self.sums.wrapping_add(index * PASS_COLUMNS).cast_const(),
                to: c,
                count: columns.len(),
            };
            narrow.run(simd);
        }
    }
}

/// Rows of B, from the first column on.
#[derive(Clone, Copy)]
struct RowGroup<B, const N: usize> {
    rows: [*const B; N],
    /// What to prefetch meanwhile, for each. Need not be readable.
    next: Option<[*const B; N]>,
}

impl<A: Readable, B: Readable, T: Writable> Axpy<'_, A, B, T> {
    /// Adds the products of `N` rows of B, from `step` on.
    #[inline(always)]
    fn add<S: Simd, const N: usize>(&self, simd: S, step: usize) {
        let Gemm { b, .. } = self.gemm;
        let columns = self.part.columns.clone();
        let (mut rows, mut next) = ([std::ptr::null(); N], [std::ptr::null(); N]);
        for j in 0..N {
            let start = self.gemm.b_row(self.part.batch, step + j) + columns.start;
            rows[j] = b.at(start, columns.len()).cast_const();
            let later = step + N + j;
            next[j] = (self.gemm).prefetch_address(self.part.batch, later, columns.start);
        }
        let (mut row, count) = (0, self.part.rows.len());
        while row < count {
            let group = RowGroup {
                rows,
                next: (row == 0).then_some(next),
            };
            // SAFETY: `at` checked the rows of B.
            row += unsafe {
                match count - row {
                    1 => self.add_to::<S, 1, N>(simd, row, step, group),
                    // Less than STEPS steps are not worth loops of their own.
                    _ if const { N == 1 } => self.add_to::<S, 1, N>(simd, row, step, group),
                    2..=3 => self.add_to::<S, 2, N>(simd, row, step, group),
                    _ => self.add_to::<S, 4, N>(simd, row, step, group),
                }
            };
        }
    }

    /// The same for `M` rows of C. Returns `M`.
    ///
    /// # Safety
    /// The rows of B are readable in all columns of the part, and there are `M` rows of sums.
    #[inline(always)]
    unsafe fn add_to<S: Simd, const M: usize, const N: usize>(
        &self,
        simd: S,
        row: usize,
        step: usize,
        b: RowGroup<B, N>,
    ) -> usize {
        let (a, columns) = (self.gemm.a, self.part.columns.len());
        let mut values = [[0f32; N]; M];
        for i in 0..M {
            let start =
                self.part.batch * a.batch_stride + (self.part.rows.start + row + i) * a.row_stride;
            let from = a.memory.at(start + step, N).cast_const();
            for j in 0..N {
                // SAFETY: `at` checked the place.
                values[i][j] = unsafe { A::element(from, j) };
            }
        }
        let whole = columns - columns % S::LANES;
        // SAFETY: the caller's promise.
        unsafe {
            let sums = self.sums.add(row * PASS_COLUMNS);
            for column in (0..whole).step_by(S::LANES) {
                if let Some(next) = b.next {
                    for j in 0..N {
                        prefetch(next[j].wrapping_add(column));
                    }
                }
                let mut vectors = [simd.splat(0.0); N];
                for j in 0..N {
                    vectors[j] = B::vector(simd, b.rows[j], column / GROUP, column % GROUP);
                }
                for i in 0..M {
                    let mut sum = simd.mul(simd.splat(values[i][0]), vectors[0]);
                    for j in 1..N {
                        sum = simd.mul_add(simd.splat(values[i][j]), vectors[j], sum);
                    }
                    let to = sums.add(i * PASS_COLUMNS + column);
                    simd.store(simd.add(simd.load(to), sum), to);
                }
            }
            for column in whole..columns {
                for i in 0..M {
                    let mut sum = 0.0;
                    for j in 0..N {
                        sum += values[i][j] * B::element(b.rows[j], column);
                    }
                    *sums.add(i * PASS_COLUMNS + column) += sum;
                }
            }
        }
        M
    }
}
