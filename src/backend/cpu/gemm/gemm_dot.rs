//! f32 GEMM with AVX-512, B stored `[n][k]` and 3 to 16 rows of A: a 5 × 4 dot-product micro-kernel, 9 loads per 20
//! multiply-adds.
//!
//! With this few rows an outer product ([`gemm_packed_a`](super::gemm_packed_a)) takes 9 loads per 8 multiply-adds. All
//! rows are multiplied with a part of B that L1 holds together with their own part, while the next part of B is
//! prefetched. So B is read once, at an even rate.

use std::ops::Range;

use super::problem::{Block, Gemm};
use crate::backend::cpu::machine::Machine;
use crate::backend::cpu::quants::Writable;
use crate::backend::cpu::scratch::{Scratch, arena};
use crate::backend::cpu::simd::{Body, Simd, prefetch};
use crate::backend::fault::Fault;

/// Columns of a tile, and of a unit of work.
pub const COLUMNS: usize = 4;
/// Rows of a tile: 20 sums, a step's vectors of all rows and of a column fill 26 of 32 registers.
const ROWS: usize = 5;
/// The most rows of A. With fewer than three a tile would wait for its sums.
pub const MAX_ROWS: usize = LANES;
/// The most tiles that the rows make.
const TILES: usize = MAX_ROWS.div_ceil(ROWS);
/// Tiles of columns whose sums are kept in L2 while all steps pass. They share a piece of A.
const GROUP: usize = 64;
/// The most steps for which all rows of A, four columns of B and the next four stay in L1, also one of 32 KiB.
const PIECE: usize = 256;
/// Bytes of B that L3 holds. From there the prefetch of one tile's columns takes as long as one tile, from memory as
/// long as [`MAX_DISTANCE`] tiles.
const CACHED: usize = 8 << 20;
const MAX_DISTANCE: usize = 2;
/// The most lanes of a vector.
const LANES: usize = 16;

arena!(ARENA);

/// For processors with AVX-512, and 3 to 16 rows of A.
pub fn multiply<T: Writable>(
    machine: &Machine,
    gemm: &Gemm<f32, T>,
    separable: bool,
) -> Result<(), Fault> {
    let Some(simd) = machine.isa.avx512() else {
        unreachable!("the table has it for AVX-512");
    };
    let bytes = (gemm.output.args.n as usize).saturating_mul(gemm.k() * size_of::<f32>());
    gemm.try_for_blocks(machine, separable, COLUMNS, |block| {
        let rows = block.rows.len();
        let counts = [rows * PIECE, rows * GROUP * LANES];
        let (_scratch, [a, sums]) = Scratch::floats(&ARENA, counts)?;
        let prefetch = if bytes <= CACHED { 1 } else { MAX_DISTANCE };
        simd.run(GemmDot {
            gemm,
            tiles: Tile::all(rows),
            prefetch,
            block,
            a,
            sums,
        });
        Ok(())
    })
}

/// Rows of a block that are multiplied together.
struct Tile {
    first: usize,
    /// None are left of the last tiles.
    count: usize,
    /// Which of the next columns are prefetched meanwhile.
    prefetch: Range<usize>,
}

impl Tile {
    /// All about equally high: three and more rows make tiles of 3 to [`ROWS`].
    fn all(rows: usize) -> [Tile; TILES] {
        let tiles = rows.div_ceil(ROWS).max(1);
        let height = rows.div_ceil(tiles);
        std::array::from_fn(|tile| {
            let first = rows.min(tile * height);
            Tile {
                first,
                count: height.min(rows - first),
                prefetch: tile * COLUMNS / tiles..(tile + 1) * COLUMNS / tiles,
            }
        })
    }
}

struct GemmDot<'a, T> {
    gemm: &'a Gemm<'a, f32, T>,
    block: Block,
    tiles: [Tile; TILES],
    /// The prefetch distance, in tiles of columns.
    prefetch: usize,
    /// All rows' values of a piece's steps: [tile][vector of steps][row of the tile].
    a: *mut f32,
    /// [tile of columns][row], a vector each, folded: whole vectors of all columns would keep L2 busy.
    sums: *mut f32,
}

/// Columns whose sums are kept.
struct Group {
    columns: Range<usize>,
    /// Where B's rows start: for each tile, and for those after the last, which need not be there.
    tiles: [[*const f32; COLUMNS]; GROUP + MAX_DISTANCE],
    count: usize,
}

impl<T: Writable> Body for GemmDot<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        const { assert!(S::LANES == LANES && S::REGISTERS == 32) }
        let k = self.gemm.k();
        // Pieces are about equally long.
        let pieces = k.div_ceil(PIECE).max(1);
        let piece = k.div_ceil(pieces).next_multiple_of(LANES).max(LANES);
        for first in self.block.columns.clone().step_by(GROUP * COLUMNS) {
            let group = self.group(first);
            for start in (0..k.max(1)).step_by(piece) {
                let steps = start..k.min(start + piece);
                self.gather(simd, &steps);
                for tile in 0..group.count {
                    self.multiply(simd, &group, tile, &steps);
                }
            }
        }
    }
}

impl<T: Writable> GemmDot<'_, T> {
    fn group(&self, first: usize) -> Group {
        let GemmDot { gemm, block, .. } = self;
        let columns = first..block.columns.end.min(first + GROUP * COLUMNS);
        let count = columns.len().div_ceil(COLUMNS);
        let mut tiles = [[std::ptr::null(); COLUMNS]; GROUP + MAX_DISTANCE];
        for tile in 0..count + MAX_DISTANCE {
            for j in 0..COLUMNS {
                let column = first + tile * COLUMNS + j;
                // Past the last column that one stands in; its sums are not used.
                let row = gemm.b_row(block.batch, column.min(columns.end - 1));
                tiles[tile][j] = match tile < count {
                    true => gemm.b.at(row, gemm.k()).cast_const(),
                    false => gemm.prefetch_address(block.batch, column, 0),
                };
            }
        }
        Group {
            columns,
            tiles,
            count,
        }
    }

    /// Packs A's values of some steps. Rows whose distance is a power of two would compete for a few sets and banks of
    /// L1.
    #[inline(always)]
    fn gather<S: Simd>(&self, simd: S, steps: &Range<usize>) {
        let batch = self.block.batch;
        let width = steps.len().next_multiple_of(LANES);
        for tile in &self.tiles {
            let to = self.a.wrapping_add(tile.first * width);
            for i in 0..tile.count {
                let row = self.block.rows.start + tile.first + i;
                let from = self.gemm.a.row(batch, row);
                // SAFETY: `row` checked the row, which has zeros up to a whole last vector. `compute` made room for a
                // piece of each row.
                unsafe {
                    for (vector, step) in steps.clone().step_by(LANES).enumerate() {
                        let to = to.add((vector * tile.count + i) * LANES);
                        simd.store(simd.load(from.add(step)), to);
                    }
                }
            }
        }
    }

    /// Adds up products of all rows and a tile's columns over some steps. What comes after that part of B is
    /// prefetched. The last products make C.
    #[inline(always)]
    fn multiply<S: Simd>(&self, simd: S, group: &Group, index: usize, steps: &Range<usize>) {
        let next = index + self.prefetch;
        let (next, step) = if next < group.count {
            (next, steps.start)
        } else if steps.end < self.gemm.k() {
            ((next - group.count).min(group.count - 1), steps.end)
        } else {
            (next, 0)
        };
        let (mut b, mut prefetch) = (group.tiles[index], group.tiles[next]);
        for j in 0..COLUMNS {
            b[j] = b[j].wrapping_add(steps.start);
            prefetch[j] = prefetch[j].wrapping_add(step);
        }
        let (rows, width) = (self.block.rows.clone(), steps.len().next_multiple_of(LANES));
        let first = group.columns.start + index * COLUMNS;
        let columns = first..group.columns.end.min(first + COLUMNS);
        for tile in self.tiles.iter().take_while(|tile| tile.count > 0) {
            let a = self.a.wrapping_add(tile.first * width).cast_const();
            let sums = (index * rows.len() + tile.first) * LANES;
            let sums = self.sums.wrapping_add(sums);
            let prefetch = &prefetch[tile.prefetch.clone()];
            // SAFETY: `at` checked the columns, `gather` wrote the rows, and `multiply` made room for the sums.
            unsafe {
                match tile.count {
                    3 => multiply_rows::<S, 3>(simd, steps, a, b, sums, prefetch),
                    4 => multiply_rows::<S, 4>(simd, steps, a, b, sums, prefetch),
                    _ => multiply_rows::<S, ROWS>(simd, steps, a, b, sums, prefetch),
                }
                if steps.end < self.gemm.k() {
                    continue;
                }
                for i in 0..tile.count {
                    let sums = simd.sum_folded(simd.load(sums.add(i * LANES)));
                    let row = rows.start + tile.first + i;
                    for column in columns.clone() {
                        let sum = sums[column - first];
                        self.gemm.output.write(self.block.batch, row, column, sum);
                    }
                }
            }
        }
    }
}

/// # Safety
/// As for [`multiply_tile`].
#[inline(always)]
unsafe fn multiply_rows<S: Simd, const M: usize>(
    simd: S,
    steps: &Range<usize>,
    a: *const f32,
    b: [*const f32; COLUMNS],
    sums: *mut f32,
    prefetch: &[*const f32],
) {
    // SAFETY: the caller's promise.
    unsafe {
        match *prefetch {
            [first, second, ..] => {
                multiply_tile::<S, M, 2>(simd, steps, a, b, sums, [first, second])
            }
            _ => multiply_tile::<S, M, 1>(simd, steps, a, b, sums, [prefetch[0]]),
        }
    }
}

/// Adds up one tile's products over some steps. The first ones begin the sums: [row], a vector each.
///
/// # Safety
/// The values of `M` rows and of all columns are readable for the steps, those of the rows up to a whole last vector,
/// and the sums are readable and writable.
#[inline(always)]
unsafe fn multiply_tile<S: Simd, const M: usize, const PREFETCHED: usize>(
    simd: S,
    steps: &Range<usize>,
    mut a: *const f32,
    mut b: [*const f32; COLUMNS],
    to: *mut f32,
    next: [*const f32; PREFETCHED],
) {
    let mut sums = [[simd.splat(0.0); COLUMNS]; M];
    let whole = steps.len() - steps.len() % LANES;
    // SAFETY: the caller's promise.
    unsafe {
        for step in (0..whole).step_by(LANES) {
            add_step(simd, a, b, step, &mut sums);
            for j in 0..PREFETCHED {
                prefetch(next[j].wrapping_add(step));
            }
            a = a.add(M * LANES);
        }
        if whole < steps.len() {
            let mut rest = [[0f32; LANES]; COLUMNS];
            for j in 0..COLUMNS {
                for step in whole..steps.len() {
                    rest[j][step - whole] = b[j].add(step).read();
                }
                b[j] = rest[j].as_ptr();
            }
            add_step(simd, a, b, 0, &mut sums);
        }
        for i in 0..M {
            let to = to.add(i * LANES);
            let mut sum = simd.fold_each(sums[i]);
            if steps.start > 0 {
                sum = simd.add(sum, simd.load(to));
            }
            simd.store(sum, to);
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
    a: *const f32,
    b: [*const f32; COLUMNS],
    step: usize,
    sums: &mut [[S::Vector; COLUMNS]; M],
) {
    // SAFETY: the caller's promise.
    unsafe {
        let mut rows = [simd.splat(0.0); M];
        for i in 0..M {
            rows[i] = simd.load(a.add(i * LANES));
        }
        for j in 0..COLUMNS {
            let column = simd.load(b[j].add(step));
            for i in 0..M {
                sums[i][j] = simd.mul_add(rows[i], column, sums[i][j]);
            }
        }
    }
}
