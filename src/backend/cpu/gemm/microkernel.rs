//! The micro-kernel of products of many rows: sums of outer products, as many as fit the registers.
//!
//! One operand, the panel, is packed and read a vector at a time. The other one's rows are read in place, a value at a
//! time, each for all lanes of some vectors.

use std::ops::Range;

use crate::backend::cpu::quants::Readable;
use crate::backend::cpu::simd::{
    Body, CACHE_LINE, Isa, Simd, opaque_pointer, prefetch, prefetch_lines,
};

/// Rows that are read a value at a time.
pub const ROWS: usize = 8;
/// The same where it is the most. 16 registers hold the sums of 6 rows and two vectors; with those of 4 rows each
/// addition would wait for the one before (docs/perf, Zen 3).
pub const MAX_ROWS: usize = 12;

/// Rows that are read a value at a time, with this many registers.
pub const fn rows(registers: usize) -> usize {
    if registers < 32 { MAX_ROWS } else { ROWS }
}

/// Steps that are summed in registers: a tile's rows stay in L1, and sums of sums are more exact than long ones.
pub const PIECE: usize = 256;
/// Values of f32 in a cache line.
const LINE: usize = CACHE_LINE / size_of::<f32>();
/// Steps of a vector each that are multiplied without a branch between them.
const UNROLLED: usize = 4;
/// Vectors of a micro-panel, at most.
const VECTORS: usize = 3;

/// The most vectors of a micro-panel with this many registers. Three vectors, a value and the sums of four rows take
/// all of 16, and the compiler may spill them.
pub const fn max_vectors(registers: usize) -> usize {
    if registers < 32 { 2 } else { VECTORS }
}

/// The micro-panels of a panel of `vectors` vectors, about equally wide. A step's vectors are contiguous in a
/// micro-panel, and its steps follow one another.
#[inline(always)]
pub fn micro_panels(registers: usize, vectors: usize) -> impl Iterator<Item = Range<usize>> {
    let micro_panels = vectors.div_ceil(max_vectors(registers));
    (0..micro_panels).map(move |micro_panel| {
        vectors * micro_panel / micro_panels..vectors * (micro_panel + 1) / micro_panels
    })
}

/// Adds to `sums`, of [row][vector][lane], the products of `rows` and a panel over some steps.
#[derive(Clone, Copy)]
pub struct Accumulate {
    /// Each from the first step on. One past an odd `count` stands for nothing and is readable all the same; the others
    /// are not used.
    pub rows: [*const f32; MAX_ROWS],
    pub count: usize,
    /// Of [micro-panel][step][vector][lane].
    pub panel: *const f32,
    pub first_step: usize,
    /// In a step of all micro-panels.
    pub vectors: usize,
    /// Steps from one micro-panel to the next.
    pub panel_depth: usize,
    pub depth: usize,
    /// For `count` rows, and one more where that is odd.
    pub sums: *mut f32,
    /// Whether the sums begin here, whatever is in their memory.
    pub fresh: bool,
    /// Values of `sums` from one row to the next.
    pub width: usize,
    /// What to prefetch meanwhile, for each row, and how many bytes of it in a step. Need not be readable.
    pub prefetch: [*const u8; ROWS],
    pub prefetch_step: usize,
    /// Whether it is prefetched all along, or with the first micro-panel: before the first of these rows is read again.
    pub prefetch_throughout: bool,
    /// Whether it is prefetched also while a step is a single vector ([`Tuning::prefetch_pieces`]).
    ///
    /// [`Tuning::prefetch_pieces`]: crate::backend::cpu::simd::Tuning::prefetch_pieces
    pub prefetch_lines: bool,
}

impl Body for Accumulate {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        for micro_panel in micro_panels(S::REGISTERS, self.vectors) {
            let start = micro_panel.start * S::LANES;
            let step = self.first_step * micro_panel.len() * S::LANES;
            let part = MicroPanel {
                panel: self.panel.wrapping_add(start * self.panel_depth + step),
                sums: self.sums.wrapping_add(start),
                prefetched: match self.prefetch_throughout {
                    true => {
                        micro_panel.start * ROWS / self.vectors
                            ..micro_panel.end * ROWS / self.vectors
                    }
                    false if micro_panel.start == 0 => 0..ROWS,
                    false => 0..0,
                },
            };
            // SAFETY: as the fields say.
            unsafe {
                match micro_panel.len() {
                    1 => self.micro_panel::<S, 1>(simd, &part),
                    2 => self.micro_panel::<S, 2>(simd, &part),
                    _ => self.micro_panel::<S, VECTORS>(simd, &part),
                }
            }
        }
    }
}

struct MicroPanel {
    panel: *const f32,
    sums: *mut f32,
    /// For which of the rows memory is prefetched during it.
    prefetched: Range<usize>,
}

impl Accumulate {
    /// # Safety
    /// `micro-panel` is of `V` vectors, and all is as the fields say.
    #[inline(always)]
    unsafe fn micro_panel<S: Simd, const V: usize>(&self, simd: S, micro_panel: &MicroPanel) {
        // The sums, a step of the micro-panel and a value fill the registers.
        let most = const { (S::REGISTERS - 1 - V) / V };
        // Tiles are about equally high: with but a few sums, each addition waits for the one before.
        let even = self.count.div_ceil(self.count.div_ceil(most).max(1));
        let mut row = 0;
        while row < self.count {
            // SAFETY: the caller's promise.
            row += unsafe {
                match (self.count - row).min(even) {
                    1 => self.tile::<S, V, 1>(simd, micro_panel, row),
                    2 => self.tile::<S, V, 2>(simd, micro_panel, row),
                    3..=4 => self.tile::<S, V, 4>(simd, micro_panel, row),
                    5..=6 => self.tile::<S, V, 6>(simd, micro_panel, row),
                    _ => self.tile::<S, V, 8>(simd, micro_panel, row),
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
        micro_panel: &MicroPanel,
        row: usize,
        mut rows: [*const f32; N],
        mut tile: [[S::Vector; V]; N],
    ) -> ([[S::Vector; V]; N], usize) {
        let mut panel = micro_panel.panel;
        let lines = self.depth / LINE;
        let prefetched = self.prefetch_lines
            && self.prefetch_step > 0
            && micro_panel.prefetched.start <= row
            && row + N <= micro_panel.prefetched.end;
        for line in 0..lines {
            for part in 0..LINE / UNROLLED {
                if prefetched {
                    // Not for all rows at a time: the processor has few buffers for what is under way.
                    for j in (part..N).step_by(LINE / UNROLLED) {
                        let from = self.prefetch[row + j];
                        prefetch(from.wrapping_add(line * LINE * self.prefetch_step));
                    }
                }
                for j in 0..N {
                    rows[j] = opaque_pointer(rows[j]);
                }
                panel = opaque_pointer(panel);
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
    /// As for `micro_panel`, and there are `N` rows and their sums.
    #[inline(always)]
    unsafe fn tile<S: Simd, const V: usize, const N: usize>(
        &self,
        simd: S,
        micro_panel: &MicroPanel,
        row: usize,
    ) -> usize {
        let mut rows = [self.rows[row]; N];
        rows.copy_from_slice(&self.rows[row..row + N]);
        // SAFETY: the caller's promise.
        unsafe {
            let mut tile = [[simd.splat(0.0); V]; N];
            let mut done = 0;
            if V == 1 && LINE * self.prefetch_step <= CACHE_LINE {
                (tile, done) = self.whole_lines::<S, V, N>(simd, micro_panel, row, rows, tile);
            }
            for line in (done..self.depth).step_by(LINE) {
                for row_index in
                    micro_panel.prefetched.start.max(row)..micro_panel.prefetched.end.min(row + N)
                {
                    let from = self.prefetch[row_index].wrapping_add(line * self.prefetch_step);
                    prefetch_lines(from, LINE * self.prefetch_step);
                }
                for step in line..self.depth.min(line + LINE) {
                    let mut vectors = [simd.splat(0.0); V];
                    for v in 0..V {
                        vectors[v] = simd.load(micro_panel.panel.add((step * V + v) * S::LANES));
                    }
                    tile = add_step(simd, rows, step, vectors, tile);
                }
            }
            let sums = micro_panel.sums.add(row * self.width);
            match self.fresh {
                true => write_sums(simd, tile, sums, self.width, true),
                false => write_sums(simd, tile, sums, self.width, false),
            }
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

/// Adds `tile` to sums whose rows are `width` values apart; `fresh`: they begin with it.
///
/// # Safety
/// The sums are readable and writable.
#[inline(always)]
pub unsafe fn write_sums<S: Simd, const V: usize, const N: usize>(
    simd: S,
    mut tile: [[S::Vector; V]; N],
    sums: *mut f32,
    width: usize,
    fresh: bool,
) {
    for j in 0..N {
        for v in 0..V {
            // SAFETY: the caller's promise.
            unsafe {
                let sums = sums.add(j * width + v * S::LANES);
                if !fresh {
                    tile[j][v] = simd.add(simd.load(sums), tile[j][v]);
                }
                simd.store(tile[j][v], sums);
            }
        }
    }
}

/// `count` pieces of rows, of `depth` steps: in place, where they are f32, or widened or copied to [row][PIECE]. There
/// the last one stands in for the others.
pub fn pieces<B: Readable>(
    isa: Isa,
    from: [*const B; MAX_ROWS],
    in_place: bool,
    count: usize,
    to: *mut f32,
    depth: usize,
) -> [*const f32; MAX_ROWS] {
    // No closures, as of `map`: they would be calls here.
    let mut rows = [to.cast_const(); MAX_ROWS];
    if in_place {
        assert!(B::IS_F32);
        for i in 0..MAX_ROWS {
            rows[i] = from[i].cast();
        }
        return rows;
    }
    isa.run(Widen {
        from,
        count,
        to,
        depth,
    });
    for i in 1..MAX_ROWS {
        rows[i] = to.wrapping_add(i.min(count - 1) * PIECE).cast_const();
    }
    rows
}

struct Widen<B> {
    from: [*const B; MAX_ROWS],
    count: usize,
    to: *mut f32,
    depth: usize,
}

impl<B: Readable> Body for Widen<B> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        for row in 0..self.count {
            // SAFETY: the rows are readable for the steps, and there is room for as many pieces.
            unsafe { B::widen(simd, self.from[row], self.to.add(row * PIECE), self.depth) };
        }
    }
}
