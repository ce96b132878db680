//! B transposed: every element of C is the dot product of a row of A and a row of B.

use std::ops::Range;

use super::super::super::elements::{Readable, Writable};
use super::super::super::simd::{Body, Simd};
use super::super::dot::dots;
use super::{Block, Product, ThreadScratch};

/// Rows of B, so columns of C, that are multiplied together.
pub const COLUMNS: usize = 4;
/// Rows of A that are multiplied together: 3 × 4 sums, 3 and 1 operands fill the 16 registers of AVX2.
const TILE_ROWS: usize = 3;
/// From this many rows on, B is widened once for all of them.
const WIDEN_ROWS: usize = 2 * TILE_ROWS + 1;
/// Floats of one operand that stay in the second-level cache while the other one passes.
const CACHED: usize = 1 << 16;

pub struct Compute<'a, B, T> {
    pub product: &'a Product<'a, B, T>,
    pub block: Block,
}

impl<B: Readable, T: Writable> Body for Compute<'_, B, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Compute { product, block } = self;
        let Block {
            batch,
            rows,
            columns,
        } = block;
        let k = product.k();
        let b_row = |column| product.b.at(product.b_row(batch, column), k).cast_const();
        if rows.len() < WIDEN_ROWS && !B::IN_GROUPS {
            // Every row of B is read once, from memory: as many streams as a tile has columns, each from one end of its part to the other, so
            // that the processor prefetches the next row of each. Streams that leap over the rows of others have half the rate.
            let streams = Columns {
                apart: columns.len().div_ceil(COLUMNS),
                end: columns.end,
            };
            for first in columns.start..columns.start + streams.apart {
                // SAFETY: `at` checked the rows that `b_row` gives.
                unsafe {
                    multiply_columns(simd, product, batch, &rows, first, streams, b_row);
                }
            }
            return;
        }

        let step = cached_rows(k, COLUMNS);
        for first in columns.clone().step_by(step) {
            let part = Block {
                batch,
                rows: rows.clone(),
                columns: first..columns.end.min(first + step),
            };
            if B::IS_F32 {
                // SAFETY: `at` checked the rows that `b_row` gives.
                unsafe { multiply(simd, product, part, b_row) };
                continue;
            }
            let wide = ThreadScratch::take(step * k);
            let wide_row = |column: usize| wide.at((column - first) * k, k);
            for column in part.columns.clone() {
                // SAFETY: `at` checked both rows.
                unsafe { B::widen(simd, b_row(column), wide_row(column), k) };
            }
            // SAFETY: `at` checked the rows that `wide_row` gives.
            unsafe { multiply(simd, product, part, |column| wide_row(column).cast_const()) };
        }
    }
}

/// As many rows of `k` floats as stay in the cache: a multiple of `unit`, at most 64 or so.
fn cached_rows(k: usize, unit: usize) -> usize {
    (CACHED / k.max(1)).clamp(unit, 64) / unit * unit
}

/// Computes `part` of C from rows of B that `b_row` finds by the column of C they belong to.
///
/// # Safety
/// What `b_row` gives is readable for `k` elements.
#[inline(always)]
unsafe fn multiply<S: Simd, B: Readable, W: Readable, T: Writable>(
    simd: S,
    product: &Product<B, T>,
    part: Block,
    b_row: impl Fn(usize) -> *const W,
) {
    let Block {
        batch,
        rows,
        columns,
    } = part;
    let step = cached_rows(product.k(), TILE_ROWS);
    for first_row in rows.clone().step_by(step) {
        let end_row = rows.end.min(first_row + step);
        for first in columns.clone().step_by(COLUMNS) {
            let neighbours = Columns {
                apart: 1,
                end: columns.end,
            };
            // SAFETY: the caller's promise.
            unsafe {
                let rows = first_row..end_row;
                multiply_columns(simd, product, batch, &rows, first, neighbours, &b_row);
            }
        }
    }
}

/// The columns of a tile: [`COLUMNS`] of them, `apart` from one another, those before `end`.
#[derive(Clone, Copy)]
struct Columns {
    apart: usize,
    end: usize,
}

/// Computes `rows` of C in the columns of a tile, of which `first` is the first.
///
/// # Safety
/// What `b_row` gives is readable for `k` elements.
#[inline(always)]
unsafe fn multiply_columns<S: Simd, B: Readable, W: Readable, T: Writable>(
    simd: S,
    product: &Product<B, T>,
    batch: usize,
    rows: &Range<usize>,
    first: usize,
    columns: Columns,
    b_row: impl Fn(usize) -> *const W,
) {
    let places: [usize; COLUMNS] = std::array::from_fn(|j| first + j * columns.apart);
    // Past the end the last column stands in; its result is not used.
    let b = places.map(|column| b_row(column.min(columns.end - 1)));
    let used = places.map(|column| (column < columns.end).then_some(column));
    for row in rows.clone().step_by(TILE_ROWS) {
        // SAFETY: the caller's promise.
        unsafe {
            match rows.end - row {
                1 => multiply_tile::<S, B, W, T, 1>(simd, product, batch, row, used, b),
                2 => multiply_tile::<S, B, W, T, 2>(simd, product, batch, row, used, b),
                _ => multiply_tile::<S, B, W, T, TILE_ROWS>(simd, product, batch, row, used, b),
            }
        }
    }
}

/// # Safety
/// Each `b` is readable for `k` elements.
#[inline(always)]
unsafe fn multiply_tile<S: Simd, B: Readable, W: Readable, T: Writable, const M: usize>(
    simd: S,
    product: &Product<B, T>,
    batch: usize,
    row: usize,
    columns: [Option<usize>; COLUMNS],
    b: [*const W; COLUMNS],
) {
    let k = product.k();
    let a = std::array::from_fn(|i| product.a.row(batch, row + i, k));
    // SAFETY: the caller's promise; `Rows::row` gives rows with room for a whole last group and zeros in it.
    let sums: [[f32; COLUMNS]; M] = unsafe { dots(simd, a, b, k) };
    for (i, sums) in sums.iter().enumerate() {
        for (column, sum) in columns.into_iter().zip(sums) {
            let Some(column) = column else { continue };
            let c = product.output.c_at(batch, row + i, column, 1);
            let bias = product.output.bias_at(column);
            // SAFETY: `c_at` checked the place.
            unsafe { c.write(T::from_f32(sum + bias)) };
        }
    }
}
