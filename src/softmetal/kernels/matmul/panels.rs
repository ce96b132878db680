//! B as it is: panels of it are copied, as f32, so that each thread reads consecutive memory; an element of C is a lane of a vector.

use super::super::super::elements::{GROUP, Readable, Writable};
use super::super::super::simd::{Body, Simd};
use super::{Block, Product, ThreadScratch};

/// Columns of a panel.
pub const COLUMNS: usize = GROUP;
/// Rows of a panel.
const DEPTH: usize = 256;
/// Panels that are copied together: their rows are neighbours in B.
const PANELS: usize = 4;
/// Columns of these.
const WIDTH: usize = PANELS * COLUMNS;

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
        let scratch = ThreadScratch::take((DEPTH + rows.len()) * WIDTH);
        let panels = scratch.at(0, DEPTH * WIDTH);
        // Row-major, WIDTH wide.
        let sums = scratch.at(DEPTH * WIDTH, rows.len() * WIDTH);
        for first in columns.clone().step_by(WIDTH) {
            let part = Block {
                batch,
                rows: rows.clone(),
                columns: first..columns.end.min(first + WIDTH),
            };
            // SAFETY: the scratch has room for `PANELS` panels and for `rows.len()` rows of sums.
            unsafe {
                sums.write_bytes(0, rows.len() * WIDTH);
                for x in (0..product.k()).step_by(DEPTH) {
                    let depth = DEPTH.min(product.k() - x);
                    copy_panels(simd, product, &part, x, depth, panels);
                    accumulate(simd, product, &part, x, depth, panels, sums);
                }
                store(simd, product, &part, sums);
            }
        }
    }
}

/// Copies rows `x .. x + depth` of B's columns of `part` to `panels`: [panel][row][column], zeros past the last column.
///
/// # Safety
/// `panels` is writable for `PANELS * DEPTH * COLUMNS` values.
#[inline(always)]
unsafe fn copy_panels<S: Simd, B: Readable, T: Writable>(
    simd: S,
    product: &Product<B, T>,
    part: &Block,
    x: usize,
    depth: usize,
    panels: *mut f32,
) {
    let width = part.columns.len();
    for row in 0..depth {
        let start = product.b_row(part.batch, x + row) + part.columns.start;
        let from = product.b.at(start, width).cast_const();
        // SAFETY: `at` checked `width` elements of the row; the panels have room for `PANELS` of `DEPTH` rows.
        unsafe {
            for panel in 0..width.div_ceil(COLUMNS) {
                let to = panels.add((panel * DEPTH + row) * COLUMNS);
                let count = width - panel * COLUMNS;
                if count >= COLUMNS {
                    for offset in (0..COLUMNS).step_by(S::LANES) {
                        simd.store(B::vector(simd, from, panel, offset), to.add(offset));
                    }
                } else {
                    for column in 0..count {
                        let value = B::element(from, panel * COLUMNS + column);
                        to.add(column).write(value);
                    }
                    to.add(count).write_bytes(0, COLUMNS - count);
                }
            }
        }
    }
}

/// Adds the products of A's columns `x .. x + depth` and the panels to `sums`.
///
/// # Safety
/// `panels` is filled for `part`, `sums` is writable for a row of `WIDTH` for each of its rows.
#[inline(always)]
unsafe fn accumulate<S: Simd, B: Readable, T: Writable>(
    simd: S,
    product: &Product<B, T>,
    part: &Block,
    x: usize,
    depth: usize,
    panels: *const f32,
    sums: *mut f32,
) {
    let rows = part.rows.len();
    for panel in 0..part.columns.len().div_ceil(COLUMNS) {
        for offset in (0..COLUMNS).step_by(2 * S::LANES) {
            let mut row = 0;
            while row < rows {
                // SAFETY: the caller's promise; two vectors fit what is left of a panel's row.
                unsafe {
                    let b = panels.add(panel * DEPTH * COLUMNS + offset);
                    let sums = sums.add(row * WIDTH + panel * COLUMNS + offset);
                    // 6 × 2 sums, 2 and 1 operands fill the 16 registers of AVX2.
                    row += match rows - row {
                        1..=2 => accumulate_tile::<S, B, T, 1>(
                            simd, product, part, row, x, depth, b, sums,
                        ),
                        3..=5 => accumulate_tile::<S, B, T, 3>(
                            simd, product, part, row, x, depth, b, sums,
                        ),
                        _ => accumulate_tile::<S, B, T, 6>(
                            simd, product, part, row, x, depth, b, sums,
                        ),
                    };
                }
            }
        }
    }
}

/// `M` rows and two vectors of `sums`. Returns `M`.
///
/// # Safety
/// `b` has two vectors in each of `depth` rows `COLUMNS` apart, `sums` in each of `M` rows `WIDTH` apart.
#[inline(always)]
#[expect(
    clippy::too_many_arguments,
    reason = "a loop's body: all of it is what the loop is at"
)]
unsafe fn accumulate_tile<S: Simd, B: Readable, T: Writable, const M: usize>(
    simd: S,
    product: &Product<B, T>,
    part: &Block,
    row: usize,
    x: usize,
    depth: usize,
    b: *const f32,
    sums: *mut f32,
) -> usize {
    let a: [*const f32; M] = std::array::from_fn(|i| {
        let row = product
            .a
            .row(part.batch, part.rows.start + row + i, product.k());
        row.wrapping_add(x)
    });
    // SAFETY: the caller's promise, and `x + depth` is at most `k`.
    unsafe {
        let mut tile = [[simd.splat(0.0); 2]; M];
        for (i, row) in tile.iter_mut().enumerate() {
            row[0] = simd.load(sums.add(i * WIDTH));
            row[1] = simd.load(sums.add(i * WIDTH + S::LANES));
        }
        for step in 0..depth {
            let first = simd.load(b.add(step * COLUMNS));
            let second = simd.load(b.add(step * COLUMNS + S::LANES));
            for i in 0..M {
                let factor = simd.splat(a[i].add(step).read());
                tile[i][0] = simd.mul_add(factor, first, tile[i][0]);
                tile[i][1] = simd.mul_add(factor, second, tile[i][1]);
            }
        }
        for (i, row) in tile.iter().enumerate() {
            simd.store(row[0], sums.add(i * WIDTH));
            simd.store(row[1], sums.add(i * WIDTH + S::LANES));
        }
    }
    M
}

/// Adds the bias and writes `part` of C.
///
/// # Safety
/// `sums` is readable for a row of `WIDTH` for each row of `part`.
#[inline(always)]
unsafe fn store<S: Simd, B: Readable, T: Writable>(
    simd: S,
    product: &Product<B, T>,
    part: &Block,
    sums: *const f32,
) {
    let (first, width) = (part.columns.start, part.columns.len());
    let whole = width - width % S::LANES;
    for (index, row) in part.rows.clone().enumerate() {
        let c = product.output.c_at(part.batch, row, first, width);
        // SAFETY: the caller's promise, and `c_at` checked `width` elements.
        unsafe {
            let sums = sums.add(index * WIDTH);
            if product.output.bias.is_some() {
                for column in 0..width {
                    let sum = sums.add(column).read() + product.output.bias_at(first + column);
                    c.add(column).write(T::from_f32(sum));
                }
                continue;
            }
            for column in (0..whole).step_by(S::LANES) {
                T::store(simd, simd.load(sums.add(column)), c.add(column));
            }
            for column in whole..width {
                c.add(column).write(T::from_f32(sums.add(column).read()));
            }
        }
    }
}
