//! Axpy-form GEMV, B stored `[k][n]` and up to 6 rows of A: some rows of B at a time, each times a value of A, are
//! added to the rows of C. B is read once, along its rows.

use super::problem::{Block, Gemm, Store};
use crate::backend::cpu::quants::{GROUP, Readable, Writable};
use crate::backend::cpu::scratch::{AllocError, Scratch, arena};
use crate::backend::cpu::simd::{Body, Isa, Simd, prefetch};

/// Columns of a unit of work.
pub const COLUMNS: usize = 64;
/// Columns of a pass: the rows of B at hand and the next ones share L1.
const PASS_COLUMNS: usize = 512;
/// Rows of B at a time.
const STEPS: usize = 8;

arena!(ARENA);

pub fn compute<B: Readable, T: Writable>(
    isa: Isa,
    gemm: &Gemm<B, T>,
    block: Block,
) -> Result<(), AllocError> {
    let (_scratch, [sums]) = Scratch::floats(&ARENA, [block.rows.len() * PASS_COLUMNS])?;
    for part in block.parts(PASS_COLUMNS) {
        isa.run(Axpy { gemm, part, sums });
    }
    Ok(())
}

struct Axpy<'a, B, T> {
    gemm: &'a Gemm<'a, B, T>,
    /// At most [`PASS_COLUMNS`] columns.
    part: Block,
    /// Of [row][PASS_COLUMNS].
    sums: *mut f32,
}

impl<B: Readable, T: Writable> Body for Axpy<'_, B, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let (output, part) = (&self.gemm.output, &self.part);
        for (index, column) in part.columns.clone().enumerate() {
            let bias = output.bias_at(column);
            for row in 0..part.rows.len() {
                // SAFETY: there are sums for every row and PASS_COLUMNS columns.
                unsafe { self.sums.add(row * PASS_COLUMNS + index).write(bias) };
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
        let store = Store {
            output,
            block: part,
            sums: self.sums,
            width: PASS_COLUMNS,
        };
        store.run(simd);
    }
}

impl<B: Readable, T: Writable> Axpy<'_, B, T> {
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
            let next = (row == 0).then_some(next);
            // SAFETY: `at` checked the rows of B.
            row += unsafe {
                match count - row {
                    1 => self.add_to::<S, 1, N>(simd, row, step, rows, next),
                    // Less than STEPS steps are not worth loops of their own.
                    _ if const { N == 1 } => self.add_to::<S, 1, N>(simd, row, step, rows, next),
                    2..=3 => self.add_to::<S, 2, N>(simd, row, step, rows, next),
                    _ => self.add_to::<S, 4, N>(simd, row, step, rows, next),
                }
            };
        }
    }

    /// The same for `M` rows of C. `next` is prefetched meanwhile, and need not be readable. Returns `M`.
    ///
    /// # Safety
    /// The rows of B are readable in all columns of the part, and there are `M` rows of sums.
    #[inline(always)]
    unsafe fn add_to<S: Simd, const M: usize, const N: usize>(
        &self,
        simd: S,
        row: usize,
        step: usize,
        rows: [*const B; N],
        next: Option<[*const B; N]>,
    ) -> usize {
        let columns = self.part.columns.len();
        let mut values = [[0f32; N]; M];
        for i in 0..M {
            let from = (self.gemm.a).row(self.part.batch, self.part.rows.start + row + i);
            // SAFETY: `row` checked the row, which has the steps.
            values[i] = unsafe { from.add(step).cast::<[f32; N]>().read() };
        }
        let whole = columns - columns % S::LANES;
        // SAFETY: the caller's promise.
        unsafe {
            let sums = self.sums.add(row * PASS_COLUMNS);
            for column in (0..whole).step_by(S::LANES) {
                if let Some(next) = next {
                    for j in 0..N {
                        prefetch(next[j].wrapping_add(column));
                    }
                }
                let mut vectors = [simd.splat(0.0); N];
                for j in 0..N {
                    vectors[j] = B::vector(simd, rows[j], column / GROUP, column % GROUP);
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
                        sum += values[i][j] * B::element(rows[j], column);
                    }
                    *sums.add(i * PASS_COLUMNS + column) += sum;
                }
            }
        }
        M
    }
}
