//! GEMM with packed B, stored `[k][n]` or in the x16 layout: panels of it are copied as f32, so that each thread reads
//! consecutive memory. An element of C is a lane of a vector. Where C is f32 and whole vectors, it is summed in place.

use super::microkernel::{self, Accumulate, PIECE};
use super::problem::{Block, Gemm, Store};
use crate::backend::cpu::machine::Machine;
use crate::backend::cpu::quants::{GROUP, Readable, Writable, X16_ROWS};
use crate::backend::cpu::scratch::{AllocError, Scratch, arena};
use crate::backend::cpu::simd::{Body, CACHE_LINE, Simd, prefetch};

/// Columns of a unit of work.
pub const COLUMNS: usize = 32;
/// Columns of a panel.
const WIDTH: usize = 128;
/// Rows of B that are prefetched while one is copied: the pieces are too short for the hardware prefetcher.
const PREFETCH_ROWS: usize = 8;

arena!(ARENA);

/// The layout of B.
#[derive(Clone, Copy)]
pub enum Order {
    /// A row of B has a value of each column.
    Rows,
    /// Columns of C are rows of B, in x16 panels.
    X16,
}

pub fn compute<B: Readable, T: Writable>(
    machine: &Machine,
    gemm: &Gemm<B, T>,
    order: Order,
    separable: bool,
    block: Block,
) -> Result<(), AllocError> {
    let (isa, a, k, output) = (machine.isa, &gemm.a, gemm.k(), &gemm.output);
    let (batch, rows, lanes) = (block.batch, block.rows.clone(), isa.lanes());
    let tile_rows = microkernel::rows(isa.registers());
    let sums_count = rows.len().next_multiple_of(tile_rows) * WIDTH;
    let counts = [PIECE * WIDTH, tile_rows * PIECE, sums_count];
    let (_scratch, [panel, wide, sums]) = Scratch::floats(&ARENA, counts)?;
    for part in block.parts(WIDTH) {
        let first = part.columns.start;
        let vectors = part.columns.len().div_ceil(lanes);
        let width = vectors * lanes;
        // The micro-kernel writes whole vectors of an even number of rows.
        let is_whole = part.columns.len() == width && rows.len().is_multiple_of(2);
        let in_c = match separable && is_whole && k > 0 {
            true => output.c.as_f32(),
            false => None,
        };
        // Where the sums of `count` rows from `row` on are, and how far from row to row.
        let place = |row: usize, count: usize| match in_c {
            Some(_) => {
                output.c_at(batch, row + count - 1, first, width);
                let c = output.c_at(batch, row, first, width);
                (c.cast::<f32>(), output.args.c_row_stride as usize)
            }
            None => (sums.wrapping_add((row - rows.start) * width), width),
        };
        let fresh = output.bias.is_none() && k > 0;
        if !fresh {
            let (sums, apart) = place(rows.start, rows.len());
            for column in 0..width {
                let bias = output.bias_at((first + column).min(part.columns.end - 1));
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
                part: &part,
                x,
                depth,
                panel,
            });
            // Rows are copied to where they do not compete for the same places of a cache, unless they are short or
            // read but once.
            let is_short = depth * size_of::<f32>() <= CACHE_LINE;
            let in_place = is_short || vectors <= microkernel::max_vectors(isa.registers());
            // Of x16 panels, the next piece is prefetched meanwhile.
            let (next_first, next_x) = match x + depth < k {
                true => (first, x + depth),
                false => (first + WIDTH, 0),
            };
            let next = gemm.prefetch_address(batch, next_first, next_x * X16_ROWS);
            let next_apart = X16_ROWS * k;
            for row in rows.clone().step_by(tile_rows) {
                let count = tile_rows.min(rows.end - row);
                let mut a_rows = [std::ptr::null(); microkernel::MAX_ROWS];
                for i in 0..tile_rows {
                    a_rows[i] = a.row(batch, row + i.min(count - 1)).wrapping_add(x);
                }
                let a_rows = microkernel::pieces(isa, a_rows, in_place, count, wide, depth);
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
                output,
                block: &part,
                sums,
                width,
            });
        }
    }
    Ok(())
}

/// Copies rows `x .. x + depth` of B's columns of `part` to `panel`, zeros past the last column.
struct Pack<'a, B, T> {
    gemm: &'a Gemm<'a, B, T>,
    order: Order,
    part: &'a Block,
    x: usize,
    depth: usize,
    /// Of [micro-panel][row][vector][lane].
    panel: *mut f32,
}

impl<B: Readable, T: Writable> Body for Pack<'_, B, T> {
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

impl<B: Readable, T: Writable> Pack<'_, B, T> {
    #[inline(always)]
    fn pack_rows<S: Simd>(&self, simd: S, places: &[(usize, usize); WIDTH]) {
        let (gemm, part, panel) = (self.gemm, self.part, self.panel);
        let columns = part.columns.len();
        let (whole, rest) = (columns / S::LANES, columns % S::LANES);
        for row in 0..self.depth {
            let (step, first) = (self.x + row, part.columns.start);
            let start = gemm.b_row(part.batch, step) + first;
            let from = gemm.b.at(start, columns).cast_const();
            let later = gemm.prefetch_address(part.batch, step + PREFETCH_ROWS, first);
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
