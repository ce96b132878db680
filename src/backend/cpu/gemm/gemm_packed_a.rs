//! GEMM with B stored `[n][k]` and many rows of A: A is packed and transposed once, so that a vector has a value of
//! each of some rows of A. The rows of B, which are most of the memory, are read in place.

use std::ops::Range;

use super::microkernel::{self, Accumulate, PIECE};
use super::problem::{Block, Gemm, Output, ROWS};
use super::square::{SQUARE, transpose, transpose_square};
use crate::backend::cpu::bindings::View;
use crate::backend::cpu::machine::Machine;
use crate::backend::cpu::quants::{Readable, Writable};
use crate::backend::cpu::scratch::{AllocError, Scratch, arena};
use crate::backend::cpu::simd::{Body, Isa, Simd};
use crate::backend::fault::Fault;

/// Columns of C that are computed by one tile after the other.
pub const COLUMNS: usize = microkernel::ROWS;
/// Columns whose sums are kept while all steps pass.
const GROUP: usize = 64;
/// Floats of A that stay in L2 while all rows of B pass.
const CACHED: usize = 1 << 16;

arena!(ARENA_A);
arena!(ARENA);

/// A, as panels of [`ROWS`] rows: [micro-panel][step][row].
pub struct PackedA {
    scratch: Scratch,
    isa: Isa,
    /// What the last rows of a panel are computed with that fill but half a vector.
    half: Option<Isa>,
    /// Rows of a matrix, the ones that only fill a vector up among them.
    rows: usize,
    /// Steps from one micro-panel to the next.
    depth: usize,
    /// Floats from one matrix to the next; 0 when all batches share one.
    batch_stride: usize,
}

impl PackedA {
    pub fn new<B: Readable, T: Writable>(
        machine: &Machine,
        gemm: &Gemm<B, T, View<T>>,
    ) -> Result<PackedA, Fault> {
        let args = &gemm.output.args;
        let half = machine.isa.half();
        let unit = half.unwrap_or(machine.isa).lanes();
        let rows = (args.m as usize).next_multiple_of(unit);
        let depth = gemm.k().next_multiple_of(SQUARE);
        let matrix = rows.saturating_mul(depth);
        let batches = match args.a_batch_stride {
            0 => args.batch.min(1),
            _ => args.batch,
        } as usize;
        let bytes = matrix
            .saturating_mul(batches)
            .saturating_mul(size_of::<f32>());
        let packed = PackedA {
            scratch: Scratch::take_for("packed A", &ARENA_A, bytes)?,
            isa: machine.isa,
            half,
            rows,
            depth,
            batch_stride: if batches > 1 { matrix } else { 0 },
        };
        let (squares, pieces) = (rows / SQUARE, gemm.k().div_ceil(PIECE));
        let grain = machine.grain(4 * SQUARE * PIECE);
        machine.for_ranges(batches * squares * pieces, grain, |range| {
            for item in range {
                let (square, piece) = (item / pieces, item % pieces * PIECE);
                machine.isa.run(Transpose {
                    gemm,
                    to: &packed,
                    batch: square / squares,
                    row: square % squares * SQUARE,
                    steps: piece..gemm.k().min(piece + PIECE),
                });
            }
        });
        Ok(packed)
    }

    /// Rows of the panel that begins with `row`.
    fn panel_rows(&self, row: usize) -> usize {
        (self.rows - row).min(ROWS)
    }

    /// The panel that begins with `row`.
    fn panel(&self, batch: usize, row: usize) -> *mut f32 {
        let start = batch * self.batch_stride + row * self.depth;
        let count = self.panel_rows(row) * self.depth;
        self.scratch.at(start * size_of::<f32>(), count)
    }

    /// The rows that are neighbors of row `row` in a panel of this many.
    fn micro_panel(&self, panel_rows: usize, row: usize) -> Range<usize> {
        let lanes = self.isa.lanes();
        let vectors = panel_rows / lanes;
        let mut micro_panels = microkernel::micro_panels(self.isa.registers(), vectors);
        match micro_panels.find(|micro_panel| micro_panel.contains(&(row / lanes))) {
            Some(micro_panel) => micro_panel.start * lanes..micro_panel.end * lanes,
            None => vectors * lanes..panel_rows,
        }
    }
}

/// Transposes [`SQUARE`] rows over some steps.
struct Transpose<'a, B, T> {
    gemm: &'a Gemm<'a, B, T, View<'a, T>>,
    to: &'a PackedA,
    batch: usize,
    row: usize,
    steps: Range<usize>,
}

impl<B: Readable, T: Writable> Body for Transpose<'_, B, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let (gemm, to, first_row, steps) = (self.gemm, self.to, self.row, self.steps);
        let args = &gemm.output.args;
        let row_stride = args.a_row_stride as usize;
        let start = self.batch * args.a_batch_stride as usize;
        let rows = SQUARE.min((args.m as usize).saturating_sub(first_row));

        let panel_row = first_row / ROWS * ROWS;
        let within = first_row - panel_row;
        let micro_panel = to.micro_panel(to.panel_rows(panel_row), within);
        let stride = micro_panel.len();
        let out = to.panel(self.batch, panel_row);
        let out = out.wrapping_add(micro_panel.start * to.depth + within - micro_panel.start);

        if args.transpose_a != 0 {
            for x in steps {
                // SAFETY: `at` checked the rows of A; a step of the panel has room for a square's rows.
                unsafe {
                    let out = out.add(x * stride);
                    if rows > 0 {
                        let from = gemm.a.at(start + x * row_stride + first_row, rows);
                        T::widen(simd, from, out, rows);
                    }
                    out.add(rows).write_bytes(0, SQUARE - rows);
                }
            }
            return;
        }
        let mut wide = [[0f32; PIECE]; SQUARE];
        for (i, wide) in wide.iter_mut().enumerate().take(rows) {
            let row = start + (first_row + i) * row_stride;
            let from = gemm.a.at(row + steps.start, steps.len());
            // SAFETY: `at` checked the row, and there are at most PIECE steps.
            unsafe { T::widen(simd, from, wide.as_mut_ptr(), steps.len()) };
        }
        for x in (0..steps.len()).step_by(SQUARE) {
            // SAFETY: PIECE is a multiple of SQUARE, as are the steps that a micro-panel has room for.
            unsafe {
                let from = wide.as_ptr().cast::<f32>().add(x);
                let out = out.add((steps.start + x) * stride);
                transpose_square(simd, (from, PIECE), (out, stride));
            }
        }
    }
}

pub fn compute<B: Readable, T: Writable>(
    machine: &Machine,
    gemm: &Gemm<B, T, View<T>>,
    a: &PackedA,
    block: Block,
) -> Result<(), AllocError> {
    let (isa, k, batch, first_row) = (machine.isa, gemm.k(), block.batch, block.rows.start);
    let width = a.panel_rows(first_row);
    let vectors = width / isa.lanes();
    let panel = a.panel(batch, first_row).cast_const();
    let counts = [GROUP * width, COLUMNS * PIECE, SQUARE * GROUP];
    let (_scratch, [sums, wide, staging]) = Scratch::floats(&ARENA, counts)?;

    // Rows are widened, or copied to where they do not compete for the same places of a cache, unless they are read but
    // once.
    let in_place = B::IS_F32 && vectors <= microkernel::max_vectors(isa.registers());
    // All steps of a tile, one after the other, or those of A that fit the cache, for all tiles.
    let depth = if width * k <= CACHED { k } else { PIECE };
    for part in block.parts(GROUP) {
        let group = part.columns.clone();
        let first = group.start;
        for column in 0..group.len().next_multiple_of(COLUMNS) {
            let bias = gemm.output.bias_at((first + column).min(group.end - 1));
            // SAFETY: there is room for `GROUP` columns of sums.
            unsafe { std::slice::from_raw_parts_mut(sums.add(column * width), width).fill(bias) };
        }
        let steps = (0..k).step_by(depth.max(1));
        let mut pieces = steps
            .flat_map(|start| {
                let pieces = move || (start..k.min(start + depth)).step_by(PIECE);
                let tiles = group.clone().step_by(COLUMNS);
                tiles.flat_map(move |tile| pieces().map(move |x| (tile, x)))
            })
            .peekable();
        while let Some((tile, x)) = pieces.next() {
            let (count, depth) = (COLUMNS.min(group.end - tile), PIECE.min(k - x));
            let b = |j: usize| gemm.b_row(batch, tile + j.min(count - 1)) + x;
            let mut rows = [std::ptr::null(); microkernel::MAX_ROWS];
            for j in 0..COLUMNS {
                rows[j] = gemm.b.at(b(j), depth).cast_const();
            }
            let rows = microkernel::pieces(isa, rows, in_place, count, wide, depth);
            let (next_tile, next_x) = pieces.peek().copied().unwrap_or((group.end, 0));
            let mut prefetch = [std::ptr::null(); COLUMNS];
            for j in 0..COLUMNS {
                let row = (next_tile + j).min(block.columns.end - 1);
                prefetch[j] = gemm.prefetch_address(batch, row, next_x).cast();
            }
            let whole = Accumulate {
                rows,
                count,
                panel,
                first_step: x,
                vectors,
                panel_depth: a.depth,
                depth,
                sums: sums.wrapping_add((tile - first) * width),
                fresh: false,
                width,
                prefetch,
                prefetch_step: size_of::<B>(),
                prefetch_throughout: false,
                prefetch_lines: machine.tuning.prefetch_pieces,
            };
            let done = vectors * isa.lanes();
            if let Some(half) = a.half
                && done < width
            {
                half.run(Accumulate {
                    panel: panel.wrapping_add(done * a.depth),
                    vectors: 1,
                    sums: whole.sums.wrapping_add(done),
                    prefetch_step: if vectors == 0 { whole.prefetch_step } else { 0 },
                    prefetch_lines: true,
                    ..whole
                });
            }
            isa.run(whole);
        }
        isa.run(Store {
            output: &gemm.output,
            part,
            sums,
            width,
            staging,
        });
    }
    Ok(())
}

/// Writes a block of C from sums of [column][row].
struct Store<'a, T> {
    output: &'a Output<'a, T>,
    part: Block,
    sums: *const f32,
    width: usize,
    /// [row][column]
    staging: *mut f32,
}

impl<T: Writable> Body for Store<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let (part, staging) = (&self.part, self.staging);
        let columns = part.columns.len().next_multiple_of(SQUARE);
        for row in part.rows.clone().step_by(SQUARE) {
            // SAFETY: sums have a multiple of 8 of columns, and of rows.
            unsafe {
                let from = self.sums.add(row - part.rows.start);
                transpose(simd, (from, self.width), (staging, GROUP), columns, SQUARE);
                for i in 0..SQUARE.min(part.rows.end - row) {
                    self.output
                        .narrow(simd, part, row + i, staging.add(i * GROUP));
                }
            }
        }
    }
}
