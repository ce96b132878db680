//! GEMM on the x16 layout with AMX: products of tiles of bf16, 16 times the multiply-adds per cycle of f32 vectors and
//! four times those of byte vectors.
//!
//! An operand is a sum of as many bf16 as its type's precision takes ([`Weights`]). Block-quantized weights and their
//! activations are one each: rounded to 8 bits of mantissa they are closer to the original than 8-bit integers. Tiles
//! of integers are not used, because their sums would have to be scaled every 32 steps.
//!
//! A piece of two panels is unpacked into L1 and multiplied with all rows. The tiles of C stay in L2.

use super::pack_a::Activations;
use super::unpack_b::{Panel, Prefetch, WIDTH, Weights};
use crate::backend::cpu::gemm::problem::{Block, Gemm};
use crate::backend::cpu::machine::Machine;
use crate::backend::cpu::quants::{Writable, X16_ROWS};
use crate::backend::cpu::scratch::{AllocError, Scratch, arena};
use crate::backend::cpu::simd::{Amx, Configured, DEPTH, PREFETCH_BYTES, TILE, Tile};
use crate::backend::fault::Fault;

/// Columns of a unit of work.
pub const COLUMNS: usize = WIDTH * X16_ROWS;
/// Steps for which both x16 panels stay in L1.
const PIECE: usize = 256;
/// Columns whose pieces come one after the other: for that long a piece of A stays in L2, or of few rows in L1.
const GROUP: usize = 256;

arena!(ARENA);

pub fn multiply<B: Weights, T: Writable>(
    amx: Amx,
    machine: &Machine,
    gemm: &Gemm<B, T>,
    separable: bool,
) -> Result<(), Fault> {
    let a = &Activations::new(machine, &gemm.a, gemm.k(), B::A_PARTS)?;
    gemm.try_for_blocks(machine, separable, COLUMNS, |block| {
        compute(amx, gemm, a, block)
    })
}

fn compute<B: Weights, T: Writable>(
    amx: Amx,
    gemm: &Gemm<B, T>,
    a: &Activations,
    block: Block,
) -> Result<(), AllocError> {
    let (k, rows) = (gemm.k(), block.rows.len());
    let row_tiles = rows.div_ceil(TILE);
    let panel_tiles = B::PARTS * WIDTH * (PIECE / DEPTH);
    let sums_tiles = row_tiles * (GROUP / X16_ROWS);
    let tile = size_of::<Tile>();
    let scratch = Scratch::take(&ARENA, (panel_tiles + sums_tiles) * tile)?;
    let work = Work {
        gemm,
        a,
        block: &block,
        row_tiles,
        tiles: amx.configured(),
        panel: Panel::new(scratch.at(0, panel_tiles), PIECE / DEPTH),
        sums: scratch.at(panel_tiles * tile, sums_tiles),
    };
    let simd = amx.vectors();
    // Of the piece that is unpacked next of an x16 panel, a part is prefetched while tiles are multiplied.
    let chunk = PIECE / B::ELEMENTS * X16_ROWS * size_of::<B>();
    let calls = row_tiles.div_ceil(2) * B::PRODUCTS.len();
    let meanwhile = chunk.min(calls * (PIECE / DEPTH) * PREFETCH_BYTES);
    for first in block.columns.clone().step_by(GROUP) {
        let end = block.columns.end.min(first + GROUP);
        let used = row_tiles * (end - first).div_ceil(COLUMNS) * WIDTH;
        // SAFETY: there is room for a group.
        unsafe { work.sums.write_bytes(0, used) };
        for start in (0..k).step_by(PIECE) {
            let steps = start..k.min(start + PIECE);
            for (pair, column) in (first..end).step_by(COLUMNS).enumerate() {
                // What is unpacked next.
                let (next, step) = match column + COLUMNS < end {
                    true => (column + COLUMNS, start),
                    false if steps.end < k => (first, steps.end),
                    false => (end, 0),
                };
                let prefetch = [0, X16_ROWS].map(|panel| {
                    let prefetch =
                        gemm.prefetch_address(block.batch, next + panel, step * X16_ROWS);
                    prefetch.cast::<u8>()
                });
                for panel in 0..(end - column).min(COLUMNS) / X16_ROWS {
                    let from = gemm.x16_panel(block.batch, column + panel * X16_ROWS);
                    let prefetch = Prefetch {
                        from: prefetch[panel].wrapping_add(meanwhile),
                        bytes: chunk - meanwhile,
                    };
                    // SAFETY: `x16_panel` checked all steps of the x16 panel; the panel has room for a piece.
                    unsafe { B::fill(simd, from, steps.clone(), panel, work.panel, prefetch) };
                }
                // SAFETY: the panel is filled.
                unsafe { work.add(start, pair, prefetch) };
            }
        }
        for (pair, column) in (first..end).step_by(COLUMNS).enumerate() {
            work.store(pair, column, end);
        }
    }
    Ok(())
}

struct Work<'a, B, T> {
    gemm: &'a Gemm<'a, B, T>,
    a: &'a Activations,
    block: &'a Block,
    row_tiles: usize,
    tiles: Configured,
    panel: Panel,
    /// Of [pair of x16 panels][row][x16 panel].
    sums: *mut Tile,
}

impl<B: Weights, T: Writable> Work<'_, B, T> {
    fn sums(&self, pair: usize, row_tile: usize) -> *mut Tile {
        self.sums
            .wrapping_add((pair * self.row_tiles + row_tile) * WIDTH)
    }

    /// Adds the products of the panel, whose first step is `start`, to the sums of a pair of x16 panels, and prefetches
    /// memory meanwhile.
    ///
    /// # Safety
    /// The panel is filled.
    unsafe fn add(&self, start: usize, pair: usize, mut prefetch: [*const u8; 2]) {
        let (batch, rows) = (self.block.batch, self.block.rows.start);
        let steps = (self.gemm.k() - start).min(PIECE).div_ceil(DEPTH);
        for tile in (0..self.row_tiles).step_by(2) {
            let c = self.sums(pair, tile);
            for &(a_part, b_part) in B::PRODUCTS {
                let a = |tile| {
                    let row = rows + tile * TILE;
                    self.a.tiles(a_part, batch, row, start, steps)
                };
                let b = self.panel.part(b_part);
                // SAFETY: `tiles` checked A's; the panel has as many; there are sums for all rows.
                unsafe {
                    match tile + 1 < self.row_tiles {
                        true => {
                            let a = [a(tile), a(tile + 1)];
                            self.tiles.add_rows(a, b, steps, c, prefetch);
                        }
                        false => self.tiles.add_row(a(tile), b, steps, c, prefetch),
                    }
                }
                prefetch = prefetch.map(|prefetch| prefetch.wrapping_add(steps * PREFETCH_BYTES));
            }
        }
    }

    /// Writes the columns of a pair of x16 panels, of which the second may be past `end`.
    fn store(&self, pair: usize, column: usize, end: usize) {
        let Work { gemm, block, .. } = self;
        for (panel, column) in (column..end.min(column + COLUMNS))
            .step_by(X16_ROWS)
            .enumerate()
        {
            for (i, row) in block.rows.clone().enumerate() {
                let sums = self.sums(pair, i / TILE).wrapping_add(panel);
                // SAFETY: there are sums for all rows, as many in a tile's row as columns in an x16 panel.
                let values = unsafe { sums.cast::<[f32; X16_ROWS]>().add(i % TILE).read() };
                gemm.store_x16(block.batch, row, column, values);
            }
        }
    }
}
