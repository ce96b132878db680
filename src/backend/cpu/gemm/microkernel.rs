//! The micro-kernel of products of many rows: sums of outer products, as many as fit the registers.
//!
//! One operand, the panel, is packed and read a vector at a time. The other one's rows are read in place, a value at a
//! time, each for all lanes of some vectors.

#![allow(
    clippy::needless_range_loop,
    reason = "closures of iterators need not be inlined, and then miss the instruction set"
)]

use std::ops::Range;

use crate::backend::cpu::quants::Readable;
use crate::backend::cpu::simd::{Body, CACHE_LINE, Simd, prefetch, prefetch_lines, unindexed};

/// Rows that are read a value at a time.
pub const ROWS: usize = 8;
/// The same where it is the most. 16 registers hold the sums of 6 rows and two vectors; with those of 4 rows each
/// addition would wait for the one before (docs/perf, Zen 3).
pub const MOST_ROWS: usize = 12;

/// Rows that are read a value at a time, with so many registers.
pub const fn rows(registers: usize) -> usize {
    if registers < 32 { MOST_ROWS } else { ROWS }
}

/// Steps that are summed in registers: a tile's rows stay in L1, and sums of sums are more exact than long ones.
pub const PIECE: usize = 256;
/// Values of f32 in a cache line.
const LINE: usize = CACHE_LINE / size_of::<f32>();
/// Steps of a vector each that are multiplied without a branch between them.
const UNROLLED: usize = 4;
/// Vectors of a strip, at most.
const VECTORS: usize = 3;

/// Vectors of a strip, at most, with so many registers. Of 16, three vectors, a value and the sums of four rows take
/// all, and the compiler may spill them.
pub const fn most_vectors(registers: usize) -> usize {
    if registers < 32 { 2 } else { VECTORS }
}

/// The strips of a panel of `vectors` vectors: a strip's vectors are neighbors, and then its steps are. They are about
/// equally wide.
#[inline(always)]
pub fn strips(registers: usize, vectors: usize) -> impl Iterator<Item = Range<usize>> {
    let strips = vectors.div_ceil(most_vectors(registers));
    (0..strips).map(move |strip| vectors * strip / strips..vectors * (strip + 1) / strips)
}

/// Adds to `sums`, of [row][vector][lane], the products of `rows` and a panel over some steps.
#[derive(Clone, Copy)]
pub struct Accumulate {
    /// Each from the first step on. One past an odd `count` stands for nothing and is readable all the same; the others
    /// are not used.
    pub rows: [*const f32; MOST_ROWS],
    pub count: usize,
    /// Of [strip][step][vector][lane].
    pub panel: *const f32,
    pub first_step: usize,
    /// In a step of all strips.
    pub vectors: usize,
    /// Steps from one strip to the next.
    pub panel_depth: usize,
    pub depth: usize,
    /// For `count` rows, and one more where that is odd.
    pub sums: *mut f32,
    /// Values of `sums` from one row to the next.
    pub width: usize,
    /// What to prefetch meanwhile, for each row, and how many bytes of it in a step. Need not be readable.
    pub ahead: [*const u8; ROWS],
    pub ahead_step: usize,
    /// Whether it is prefetched all along, or with the first strip: before the first of these rows is read again.
    pub ahead_all_along: bool,
}

impl Body for Accumulate {
    type Output = ();
    const READS_AHEAD: bool = true;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        for strip in strips(S::REGISTERS, self.vectors) {
            let start = strip.start * S::LANES;
            let step = self.first_step * strip.len() * S::LANES;
            let part = Strip {
                panel: self.panel.wrapping_add(start * self.panel_depth + step),
                sums: self.sums.wrapping_add(start),
                leads: match self.ahead_all_along {
                    true => strip.start * ROWS / self.vectors..strip.end * ROWS / self.vectors,
                    false if strip.start == 0 => 0..ROWS,
                    false => 0..0,
                },
            };
            // SAFETY: as the fields say.
            unsafe {
                match strip.len() {
                    1 => self.strip::<S, 1>(simd, &part),
                    2 => self.strip::<S, 2>(simd, &part),
                    _ => self.strip::<S, VECTORS>(simd, &part),
                }
            }
        }
    }
}

struct Strip {
    panel: *const f32,
    sums: *mut f32,
    /// For which of the rows memory is prefetched during it.
    leads: Range<usize>,
}

impl Accumulate {
    /// # Safety
    /// `strip` is of `V` vectors, and all is as the fields say.
    #[inline(always)]
    unsafe fn strip<S: Simd, const V: usize>(&self, simd: S, strip: &Strip) {
        // The sums, a step of the strip and a value fill the registers.
        let most = const { (S::REGISTERS - 1 - V) / V };
        // Tiles are about equally high: with but a few sums, each addition waits for the one before.
        let even = self.count.div_ceil(self.count.div_ceil(most).max(1));
        let mut row = 0;
        while row < self.count {
            // SAFETY: the caller's promise.
            row += unsafe {
                match (self.count - row).min(even) {
                    1 => self.tile::<S, V, 1>(simd, strip, row),
                    2 => self.tile::<S, V, 2>(simd, strip, row),
                    3..=4 => self.tile::<S, V, 4>(simd, strip, row),
                    5..=6 => self.tile::<S, V, 6>(simd, strip, row),
                    _ => self.tile::<S, V, 8>(simd, strip, row),
                }
            };
        }
    }

    /// The steps of `tile` that fill whole lines, and their number. With a single vector in a step, loads by value
    /// would be as many instructions as multiply-adds; here a line is loaded at once. At most one cache line is
    /// prefetched for each row in a line of steps.
    ///
    /// # Safety
    /// As for [`tile`](Self::tile).
    #[inline(always)]
    unsafe fn whole_lines<S: Simd, const V: usize, const N: usize>(
        &self,
        simd: S,
        strip: &Strip,
        row: usize,
        mut rows: [*const f32; N],
        mut tile: [[S::Vector; V]; N],
    ) -> ([[S::Vector; V]; N], usize) {
        let mut panel = strip.panel;
        let lines = self.depth / LINE;
        // With a longer prefetch distance the next piece comes by itself.
        let leads = S::AHEAD == 0
            && self.ahead_step > 0
            && strip.leads.start <= row
            && row + N <= strip.leads.end;
        for line in 0..lines {
            for part in 0..LINE / UNROLLED {
                if leads {
                    // Not for all rows at a time: the processor has few buffers for what is under way.
                    for j in (part..N).step_by(LINE / UNROLLED) {
                        let ahead = self.ahead[row + j];
                        prefetch(ahead.wrapping_add(line * LINE * self.ahead_step));
                    }
                }
                for j in 0..N {
                    rows[j] = unindexed(rows[j]);
                }
                panel = unindexed(panel);
                for step in 0..UNROLLED {
                    let mut vectors = [simd.splat(0.0); V];
                    // SAFETY: the caller's promise.
                    unsafe {
                        for v in 0..V {
                            vectors[v] = simd.load(panel.add((step * V + v) * S::LANES));
                        }
                        tile = add_step(simd, rows, step, vectors, tile);
                    }
                }
                for j in 0..N {
                    rows[j] = rows[j].wrapping_add(UNROLLED);
                }
                panel = panel.wrapping_add(UNROLLED * V * S::LANES);
            }
        }
        (tile, lines * LINE)
    }

    /// `N` rows, from `row` on. Returns `N`.
    ///
    /// # Safety
    /// As `strip`, and there are as many rows and sums.
    #[inline(always)]
    unsafe fn tile<S: Simd, const V: usize, const N: usize>(
        &self,
        simd: S,
        strip: &Strip,
        row: usize,
    ) -> usize {
        let mut rows = [self.rows[row]; N];
        rows.copy_from_slice(&self.rows[row..row + N]);
        // SAFETY: the caller's promise.
        unsafe {
            let mut tile = [[simd.splat(0.0); V]; N];
            let mut done = 0;
            if V == 1 && LINE * self.ahead_step <= CACHE_LINE {
                (tile, done) = self.whole_lines::<S, V, N>(simd, strip, row, rows, tile);
            }
            for line in (done..self.depth).step_by(LINE) {
                for lead in strip.leads.start.max(row)..strip.leads.end.min(row + N) {
                    let ahead = self.ahead[lead].wrapping_add(line * self.ahead_step);
                    prefetch_lines(ahead, LINE * self.ahead_step);
                }
                for step in line..self.depth.min(line + LINE) {
                    let mut vectors = [simd.splat(0.0); V];
                    for v in 0..V {
                        vectors[v] = simd.load(strip.panel.add((step * V + v) * S::LANES));
                    }
                    tile = add_step(simd, rows, step, vectors, tile);
                }
            }
            add_to_sums(simd, tile, strip.sums.add(row * self.width), self.width);
        }
        N
    }
}

/// Adds to `tile` the products of the rows' values of a step and its vectors.
///
/// # Safety
/// The rows are readable there.
#[inline(always)]
pub unsafe fn add_step<S: Simd, const V: usize, const N: usize>(
    simd: S,
    rows: [*const f32; N],
    step: usize,
    vectors: [S::Vector; V],
    mut tile: [[S::Vector; V]; N],
) -> [[S::Vector; V]; N] {
    for j in 0..N {
        // SAFETY: the caller's promise.
        let value = unsafe { simd.splat(rows[j].add(step).read()) };
        for v in 0..V {
            tile[j][v] = simd.mul_add(value, vectors[v], tile[j][v]);
        }
    }
    tile
}

/// Adds `tile` to sums whose rows are `width` values apart.
///
/// # Safety
/// There are so many.
#[inline(always)]
pub unsafe fn add_to_sums<S: Simd, const V: usize, const N: usize>(
    simd: S,
    tile: [[S::Vector; V]; N],
    sums: *mut f32,
    width: usize,
) {
    for j in 0..N {
        for v in 0..V {
            // SAFETY: the caller's promise.
            unsafe {
                let sums = sums.add(j * width + v * S::LANES);
                simd.store(simd.add(simd.load(sums), tile[j][v]), sums);
            }
        }
    }
}

/// Widens pieces of rows, or copies them: [row][PIECE].
pub struct Widen<B> {
    pub from: [*const B; MOST_ROWS],
    pub rows: usize,
    pub to: *mut f32,
    /// Of each row, at most [`PIECE`].
    pub count: usize,
}

impl<B: Readable> Body for Widen<B> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        for row in 0..self.rows {
            // SAFETY: as the fields say.
            unsafe { B::widen(simd, self.from[row], self.to.add(row * PIECE), self.count) };
        }
    }
}
