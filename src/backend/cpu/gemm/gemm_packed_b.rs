//! GEMM with packed B, stored `[k][n]` or in the x16 layout: panels of it are copied as f32, so that each thread reads
//! consecutive memory. An element of C is a lane of a vector. Where C is f32 and whole vectors, it is summed in place.

use std::cell::Cell;

use super::microkernel::{self, Accumulate, PIECE, Widen};
use super::problem::{Block, Gemm, Narrow};
use super::rows::MatrixView;
use crate::backend::cpu::machine::Machine;
use crate::backend::cpu::quants::{GROUP, Readable, Writable, X16_ROWS};
use crate::backend::cpu::scratch::{AllocError, CacheLine, Scratch};
use crate::backend::cpu::simd::{Body, CACHE_LINE, Simd, prefetch};

/// Columns of a unit of work.
pub const COLUMNS: usize = 32;
/// Columns of a panel.
const WIDTH: usize = 128;
/// Rows of B that are prefetched while one is copied: the pieces are too short for the hardware prefetcher.
const PREFETCH_ROWS: usize = 8;

thread_local! {
    static ARENA: Cell<Vec<CacheLine>> = const { Cell::new(Vec::new()) };
}

/// The layout of B.
#[derive(Clone, Copy)]
pub enum Order {
    /// A row of B has a value of each column.
    Rows,
    /// Columns of C are rows of B, in x16 panels.
    X16,
}

pub fn compute<A: Readable, B: Readable, T: Writable>(
    machine: &Machine,
    gemm: &Gemm<B, T, MatrixView<A>>,
    order: Order,
    separable: bool,
    block: Block,
) -> Result<(), AllocError> {
    let Block {
        batch,
        rows,
        columns,
    } = block;
    let (isa, a, k) = (machine.isa, gemm.a, gemm.k());
    let (lanes, c_row_stride) = (isa.lanes(), gemm.output.args.c_row_stride as usize);
    let float = size_of::<f32>();
    let tile_rows = microkernel::rows(isa.registers());
    let wide_start = PIECE * WIDTH * float;
    let sums_start = wide_start + tile_rows * PIECE * float;
    let sums_count = rows.len().next_multiple_of(tile_rows) * WIDTH;
    let scratch = Scratch::take(&ARENA, sums_start + sums_count * float)?;
    let panel: *mut f32 = scratch.at(0, PIECE * WIDTH);
    let wide: *mut f32 = scratch.at(wide_start, tile_rows * PIECE);
    let sums: *mut f32 = scratch.at(sums_start, sums_count);
    for first in columns.clone().step_by(WIDTH) {
        let part = &Block {
            batch,
            rows: rows.clone(),
            columns: first..columns.end.min(first + WIDTH),
        };
        let vectors = part.columns.len().div_ceil(lanes);
        let width = vectors * lanes;
        // The micro-kernel writes whole vectors of an even number of rows.
        let is_whole = part.columns.len() == width && rows.len().is_multiple_of(2);
        let in_c = match separable && is_whole && k > 0 {
            true => gemm.output.c.as_f32(),
            false => None,
        };
        // Where the sums of `count` rows from `row` on are, and how far from row to row.
        let place = |row: usize, count: usize| match in_c {
            Some(_) => {
                gemm.output.c_at(batch, row + count - 1, first, width);
                (
                    gemm.output.c_at(batch, row, first, width).cast::<f32>(),
                    c_row_stride,
                )
            }
            None => (sums.wrapping_add((row - rows.start) * width), width),
        };
        let fresh = gemm.output.bias.is_none() && k > 0;
        if !fresh {
            let (sums, apart) = place(rows.start, rows.len());
            for column in 0..width {
                let bias = gemm
                    .output
                    .bias_at((first + column).min(part.columns.end - 1));
                // SAFETY: there is room for the sums of all rows.
                unsafe { sums.add(column).write(bias) };
            }
            for row in 1..rows.len() {
                // SAFETY: as above.
                unsafe { sums.add(row * apart).copy_from_nonoverlapping(sums, width) };
            }
        }
        for x in (0..k).step_by(PIECE) {
            let depth = PIECE.min(k - x);
            isa.run(Pack {
                gemm,
                order,
                part,
                x,
                depth,
                panel,
            });
            // Rows are widened, or copied to where they do not compete for the same places of a cache, unless they are
            // short or read but once.
            let is_short = depth * float <= CACHE_LINE;
            let in_place = match is_short || vectors <= microkernel::max_vectors(isa.registers()) {
                true => a.memory.as_f32(),
                false => None,
            };
            // Of x16 panels, the next piece is prefetched meanwhile.
            let (next_first, next_x) = match x + depth < k {
                true => (first, x + depth),
                false => (first + WIDTH, 0),
            };
            let next = gemm.prefetch_address(batch, next_first, next_x * X16_ROWS);
            let next_apart = X16_ROWS * k;
            for row in rows.clone().step_by(tile_rows) {
                let count = tile_rows.min(rows.end - row);
                let start = |i: usize| {
                    let row = row + i.min(count - 1);
                    batch * a.batch_stride + row * a.row_stride + x
                };
                let a_rows = match in_place {
                    Some(memory) => {
                        std::array::from_fn(|i| memory.at(start(i), depth).cast_const())
                    }
                    None => {
                        isa.run(Widen {
                            from: std::array::from_fn(|i| {
                                a.memory.at(start(i), depth).cast_const()
                            }),
                            rows: count,
                            to: wide,
                            count: depth,
                        });
                        std::array::from_fn(|i| wide.wrapping_add(i * PIECE).cast_const())
                    }
                };
                let (sums, apart) = place(row, count);
                isa.run(Accumulate {
                    rows: a_rows,
                    count,
                    panel,
                    first_step: 0,
                    vectors,
                    panel_depth: depth,
                    depth,
                    sums,
                    fresh: fresh && x == 0,
                    width: apart,
                    prefetch: std::array::from_fn(|i| next.wrapping_add(i * next_apart).cast()),
                    prefetch_step: match order {
                        Order::X16 if row == rows.start => X16_ROWS * size_of::<B>(),
                        _ => 0,
                    },
                    prefetch_throughout: true,
                    prefetch_lines: machine.tuning.prefetch_pieces,
                });
            }
        }
        if in_c.is_none() {
            isa.run(Store {
                gemm,
                part,
                sums,
                width,
            });
        }
    }
    Ok(())
}

/// Copies rows `x .. x + depth` of B's columns of `part` to `panel`, zeros past the last column.
struct Pack<'a, A, B, T> {
    gemm: &'a Gemm<'a, B, T, MatrixView<'a, A>>,
    order: Order,
    part: &'a Block,
    x: usize,
    depth: usize,
    /// Of [micro-panel][row][vector][lane].
    panel: *mut f32,
}

impl<A: Readable, B: Readable, T: Writable> Body for Pack<'_, A, B, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        // Where each vector's first step is, and how far it is to the next one.
        let mut places = [(0, 0); WIDTH];
        for micro_panel in
            microkernel::micro_panels(S::REGISTERS, self.part.columns.len().div_ceil(S::LANES))
        {
            for vector in micro_panel.clone() {
                let start = micro_panel.start * self.depth + vector - micro_panel.start;
                places[vector] = (start * S::LANES, micro_panel.len() * S::LANES);
            }
        }
        match self.order {
            Order::Rows => self.pack_rows(simd, &places),
            Order::X16 => self.pack_x16(simd, &places),
        }
    }
}

impl<A: Readable, B: Readable, T: Writable> Pack<'_, A, B, T> {
    #[inline(always)]
    fn pack_rows<S: Simd>(&self, simd: S, places: &[(usize, usize); WIDTH]) {
        let Pack {
            gemm,
            part,
            x,
            panel,
            ..
        } = *self;
        let columns = part.columns.len();
        let (whole, rest) = (columns / S::LANES, columns % S::LANES);
        for row in 0..self.depth {
            let start = gemm.b_row(part.batch, x + row) + part.columns.start;
            let from = gemm.b.at(start, columns).cast_const();
            let later =
                gemm.prefetch_address(part.batch, x + row + PREFETCH_ROWS, part.columns.start);
            for column in (0..columns).step_by(S::LANES) {
                prefetch(later.wrapping_add(column));
            }
            // SAFETY: `at` checked all columns of the row; the panel has room for the vectors that they are in.
            unsafe {
                for (vector, (start, apart)) in places.iter().enumerate().take(whole) {
                    let column = vector * S::LANES;
                    let values = B::vector(simd, from, column / GROUP, column % GROUP);
                    simd.store(values, panel.add(start + row * apart));
                }
                if rest > 0 {
                    let (start, apart) = places[whole];
                    let to = panel.add(start + row * apart);
                    for i in 0..rest {
                        to.add(i).write(B::element(from, whole * S::LANES + i));
                    }
                    to.add(rest).write_bytes(0, S::LANES - rest);
                }
            }
        }
    }

    /// One x16 panel after the other, each along its memory.
    #[inline(always)]
    fn pack_x16<S: Simd>(&self, simd: S, places: &[(usize, usize); WIDTH]) {
        let columns = self.part.columns.clone();
        for column in columns.clone().step_by(X16_ROWS) {
            let panel = self.gemm.x16_panel(self.part.batch, column);
            let first = (column - columns.start) / S::LANES;
            for step in 0..self.depth {
                for vector in 0..X16_ROWS / S::LANES {
                    let (start, apart) = places[first + vector];
                    // SAFETY: `x16_panel` checked all steps of its columns; the packed panel has room for their
                    // vectors.
                    unsafe {
                        let from = panel.add((self.x + step) * X16_ROWS);
                        let values = B::vector(simd, from, 0, vector * S::LANES);
                        simd.store(values, self.panel.add(start + step * apart));
                    }
                }
            }
        }
    }
}

/// Writes `part` of C from sums of [row][column].
struct Store<'a, A, B, T> {
    gemm: &'a Gemm<'a, B, T, MatrixView<'a, A>>,
    part: &'a Block,
    sums: *const f32,
    width: usize,
}

impl<A: Readable, B: Readable, T: Writable> Body for Store<'_, A, B, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Store {
            gemm,
            part,
            sums,
            width,
        } = self;
        let (first, columns) = (part.columns.start, part.columns.len());
        for (index, row) in part.rows.clone().enumerate() {
            let c = gemm.output.c_at(part.batch, row, first, columns);
            let narrow = Narrow {
                from: sums.wrapping_add(index * width),
                to: c,
                count: columns,
            };
            narrow.run(simd);
        }
    }
}
