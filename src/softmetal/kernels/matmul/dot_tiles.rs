//! B of f32, transposed, and some rows of A: tiles of dot products, of operands that lie as they are read.
//!
//! With so few rows that they fill but one vector, an outer product ([`turned`](super::turned)) reads nine times for eight multiply-adds; here it
//! is nine for twenty, and A need not be turned.

#![allow(
    clippy::needless_range_loop,
    reason = "closures of iterators need not be inlined, and then miss the instruction set"
)]

use std::cell::Cell;
use std::ops::Range;

use super::super::super::bindings::args::matmul_args;
use super::super::super::elements::Writable;
use super::super::super::simd::{Body, Isa, Simd};
use super::super::scratch::{Exhausted, Line, Scratch};
use super::{Block, Product};

/// Columns of a tile, and of a unit of work.
pub const COLUMNS: usize = 4;
/// Rows of a tile: 20 sums, a step's vectors of all rows and of a column fill 26 of 32 registers.
const ROWS: usize = 5;
/// Columns whose sums are kept while all steps pass. Their part of B stays in the second-level cache for all rows.
const GROUP: usize = 64;
/// Steps for which a tile's rows stay in the first-level cache.
const PIECE: usize = 1024;
/// Bytes of B that caches hold.
const CACHED: usize = 4 << 20;
/// Rows of A that are few for an outer product.
const FEW: usize = 10;
/// The most lanes of a vector.
const LANES: usize = 16;

thread_local! {
    static KEPT: Cell<Vec<Line>> = const { Cell::new(Vec::new()) };
}

/// Whether this is the way. B is read once for each tile's rows, the first time from memory, which prefetch instructions made no faster. So of a
/// B that the caches do not hold only few rows are faster than with an outer product. On Zen 5, in turns in one process, 15 rows by 2,048 x 256
/// took 14 to 16 % less time on one thread and 9 to 32 % on two; by 2,048 x 2,048, 8 rows took 18 to 38 % less, 12 rows between a third more and a
/// fifth less, 15 rows 6 to 30 % more on one thread. On Intel's Cascade Lake a loop like this one was no faster.
pub fn suits(isa: Isa, args: &matmul_args) -> bool {
    let m = args.m as usize;
    let b = (args.n as usize).saturating_mul(args.k as usize * size_of::<f32>());
    let wide = isa.lanes() == LANES && isa.registers() == 32 && isa.ahead() == 0;
    wide && m <= LANES && (m <= FEW || b <= CACHED)
}

/// For products that this [`suits`].
pub fn compute<T: Writable>(
    isa: Isa,
    product: &Product<f32, T>,
    block: Block,
) -> Result<(), Exhausted> {
    let floats = block.rows.len() * GROUP * LANES;
    let scratch = Scratch::take(&KEPT, floats * size_of::<f32>())?;
    isa.run(Compute {
        product,
        block,
        sums: scratch.at(0, floats),
    });
    Ok(())
}

struct Compute<'a, T> {
    product: &'a Product<'a, f32, T>,
    block: Block,
    /// For all rows, GROUP vectors each.
    sums: *mut f32,
}

impl<T: Writable> Body for Compute<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        // Not compiled for the others.
        if S::LANES != LANES || S::REGISTERS < 32 {
            unreachable!("`suits` says for which instruction sets this is");
        }
        let (k, rows) = (self.product.k(), self.block.rows.len());
        // Tiles are about equally high.
        let height = rows.div_ceil(rows.div_ceil(ROWS).max(1));
        for first in self.block.columns.clone().step_by(GROUP) {
            let columns = first..self.block.columns.end.min(first + GROUP);
            for start in (0..k.max(1)).step_by(PIECE) {
                let steps = start..k.min(start + PIECE);
                let mut row = 0;
                while row < rows {
                    let count = height.min(rows - row);
                    // SAFETY: there are so many rows, and `compute` made room for their sums.
                    unsafe {
                        match count {
                            1 => self.add_rows::<S, 1>(simd, row, &columns, &steps),
                            2 => self.add_rows::<S, 2>(simd, row, &columns, &steps),
                            3 => self.add_rows::<S, 3>(simd, row, &columns, &steps),
                            4 => self.add_rows::<S, 4>(simd, row, &columns, &steps),
                            _ => self.add_rows::<S, ROWS>(simd, row, &columns, &steps),
                        }
                    }
                    row += count;
                }
            }
            self.store(simd, columns);
        }
    }
}

impl<T: Writable> Compute<'_, T> {
    /// The sums of a row of the block, from a column of the group on.
    #[inline(always)]
    fn sums(&self, row: usize, column: usize) -> *mut f32 {
        self.sums.wrapping_add((row * GROUP + column) * LANES)
    }

    /// Adds up products of `M` rows, from `row` of the block on, and some columns over some steps.
    ///
    /// # Safety
    /// There are so many rows, no more columns than a group has, and there is room for their sums.
    #[inline(always)]
    unsafe fn add_rows<S: Simd, const M: usize>(
        &self,
        simd: S,
        row: usize,
        columns: &Range<usize>,
        steps: &Range<usize>,
    ) {
        let Compute { product, block, .. } = self;
        let (k, batch) = (product.k(), block.batch);
        let mut a = [std::ptr::null(); M];
        for i in 0..M {
            a[i] = product.a.row(batch, block.rows.start + row + i, k);
        }
        for column in (0..columns.len()).step_by(COLUMNS) {
            let mut b = [std::ptr::null(); COLUMNS];
            for j in 0..COLUMNS {
                // Past the last column that one stands in; its sums are not used.
                let column = (columns.start + column + j).min(columns.end - 1);
                b[j] = product.b.at(product.b_row(batch, column), k).cast_const();
            }
            let mut sums = [[simd.splat(0.0); COLUMNS]; M];
            // SAFETY: `at` and `row` checked the rows, the caller's promise is for the sums. A's rows have zeros up to a whole last vector.
            unsafe {
                if steps.start > 0 {
                    for i in 0..M {
                        for j in 0..COLUMNS {
                            sums[i][j] = simd.load(self.sums(row + i, column + j));
                        }
                    }
                }
                let whole = steps.len() - steps.len() % LANES;
                for step in (steps.start..steps.start + whole).step_by(LANES) {
                    sums = add_step(simd, a, b, step, sums);
                }
                if whole < steps.len() {
                    let mut rest = [[0f32; LANES]; COLUMNS];
                    for j in 0..COLUMNS {
                        for step in whole..steps.len() {
                            rest[j][step - whole] = b[j].add(steps.start + step).read();
                        }
                        b[j] = rest[j].as_ptr();
                    }
                    let mut last = a;
                    for i in 0..M {
                        last[i] = a[i].add(steps.start + whole);
                    }
                    sums = add_step(simd, last, b, 0, sums);
                }
                for i in 0..M {
                    for j in 0..COLUMNS {
                        simd.store(sums[i][j], self.sums(row + i, column + j));
                    }
                }
            }
        }
    }

    #[inline(always)]
    fn store<S: Simd>(&self, simd: S, columns: Range<usize>) {
        let Compute { product, block, .. } = self;
        for row in 0..block.rows.len() {
            let at = block.rows.start + row;
            let c = product
                .output
                .c_at(block.batch, at, columns.start, columns.len());
            for column in 0..columns.len() {
                // SAFETY: all sums are written, and `c_at` checked the columns.
                unsafe {
                    let sum = simd.sum(simd.load(self.sums(row, column)));
                    let bias = product.output.bias_at(columns.start + column);
                    c.add(column).write(T::from_f32(sum + bias));
                }
            }
        }
    }
}

/// Adds the products of each row's vector and each column's.
///
/// # Safety
/// They are readable.
#[inline(always)]
unsafe fn add_step<S: Simd, const M: usize>(
    simd: S,
    a: [*const f32; M],
    b: [*const f32; COLUMNS],
    step: usize,
    mut sums: [[S::Vector; COLUMNS]; M],
) -> [[S::Vector; COLUMNS]; M] {
    // SAFETY: the caller's promise.
    unsafe {
        let mut rows = [simd.splat(0.0); M];
        for i in 0..M {
            rows[i] = simd.load(a[i].add(step));
        }
        for j in 0..COLUMNS {
            let column = simd.load(b[j].add(step));
            for i in 0..M {
                sums[i][j] = simd.mul_add(rows[i], column, sums[i][j]);
            }
        }
    }
    sums
}
