//! Float GEMV on the x16 layout, up to 4 rows of A: memory is read in address order, and a lane of a vector is a column
//! of C.

use std::ops::Range;

use super::problem::{Block, Gemm};
use crate::backend::cpu::quants::{Interleaved, Readable, Stored, Writable, X16_ROWS};
use crate::backend::cpu::simd::{Simd, Streaming, prefetch_lines, read_order_fence};

/// The most rows of A.
pub const MAX_ROWS: usize = 4;

pub struct GemvX16<'a, B, T> {
    pub gemm: &'a Gemm<'a, B, T>,
    /// Its columns are whole x16 panels.
    pub block: Block,
}

impl<B: Readable + Interleaved, T: Writable> Streaming for GemvX16<'_, B, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd, const DISTANCE: usize>(self, simd: S) {
        match const { X16_ROWS / S::LANES } {
            1 => self.multiply_rows::<S, DISTANCE, 1>(simd),
            2 => self.multiply_rows::<S, DISTANCE, 2>(simd),
            _ => self.multiply_rows::<S, DISTANCE, 4>(simd),
        }
    }
}

impl<B: Readable + Interleaved, T: Writable> GemvX16<'_, B, T> {
    /// `V`: the vectors that an x16 panel's rows fill.
    #[inline(always)]
    fn multiply_rows<S: Simd, const DISTANCE: usize, const V: usize>(self, simd: S) {
        match self.block.rows.len() {
            1 if const { S::REGISTERS < 32 } => self.multiply::<S, DISTANCE, V, 1, 2, 2>(simd),
            1 if const { DISTANCE > 0 } => self.multiply::<S, DISTANCE, V, 1, 4, 2>(simd),
            1 => self.multiply::<S, DISTANCE, V, 1, 4, 1>(simd),
            2 => self.multiply::<S, DISTANCE, V, 2, 2, 1>(simd),
            3 => self.multiply::<S, DISTANCE, V, 3, 1, 1>(simd),
            _ => self.multiply::<S, DISTANCE, V, MAX_ROWS, 1, 1>(simd),
        }
    }

    /// `STEPS` steps have sums of their own, because one chain of additions takes longer than the memory. `N` panels
    /// far from each other are read alternately: two streams keep more reads in flight than one (docs/perf, Zen 3 and
    /// Xeon with AMX).
    #[inline(always)]
    fn multiply<
        S: Simd,
        const DISTANCE: usize,
        const V: usize,
        const M: usize,
        const STEPS: usize,
        const N: usize,
    >(
        self,
        simd: S,
    ) {
        let GemvX16 { gemm, block } = self;
        let (batch, k) = (block.batch, gemm.k());
        let a: [_; M] = gemm.a.first(batch, block.rows.clone());
        let whole = k - k % STEPS;
        let streams = PanelStreams::<N>::new(block.columns);
        for round in 0..streams.count {
            let columns = streams.columns(round);
            let mut panels = [std::ptr::null(); N];
            for n in 0..N {
                panels[n] = gemm.x16_panel(batch, columns[n]);
            }
            let mut sums = [[[[simd.splat(0.0); M]; V]; STEPS]; N];
            // SAFETY: `x16_panel` checked the x16 panels, and A's rows have `k` values.
            unsafe {
                for step in (0..whole).step_by(STEPS) {
                    for n in 0..N {
                        if DISTANCE > 0 {
                            let later = panels[n].wrapping_add(step * X16_ROWS);
                            let later = later.wrapping_byte_add(DISTANCE);
                            prefetch_lines(later, STEPS * X16_ROWS * size_of::<B>());
                        }
                        for chain in 0..STEPS {
                            let sums = &mut sums[n][chain];
                            *sums = add(simd, a, panels[n], step + chain, *sums);
                        }
                    }
                }
                for step in whole..k {
                    for n in 0..N {
                        sums[n][0] = add(simd, a, panels[n], step, sums[n][0]);
                    }
                }
            }
            for n in 0..N {
                for i in 0..M {
                    let mut values = [0f32; X16_ROWS];
                    for v in 0..V {
                        let mut sum = sums[n][0][v][i];
                        for chain in 1..STEPS {
                            sum = simd.add(sum, sums[n][chain][v][i]);
                        }
                        // SAFETY: the vectors are as long as the values.
                        unsafe { simd.store(sum, values.as_mut_ptr().add(v * S::LANES)) };
                    }
                    gemm.store_x16(batch, block.rows.start + i, columns[n], values);
                }
            }
        }
    }
}

impl<B: Stored, T: Writable> Gemm<'_, B, T> {
    /// Writes an x16 panel's columns of a row of C.
    #[inline(always)]
    pub(super) fn store_x16(
        &self,
        batch: usize,
        row: usize,
        column: usize,
        mut values: [f32; X16_ROWS],
    ) {
        if self.output.bias.is_some() {
            for j in 0..X16_ROWS {
                values[j] += self.output.bias_at(column + j);
            }
        }
        let c = self.output.c_at(batch, row, column, X16_ROWS);
        for j in 0..X16_ROWS {
            // SAFETY: `c_at` checked an x16 panel's columns.
            unsafe { c.add(j).write(T::from_f32(values[j])) };
        }
    }
}

/// `N` x16 panels at a time, each the next one of a stream of neighboring panels.
pub struct PanelStreams<const N: usize> {
    first: usize,
    panels: usize,
    pub count: usize,
}

impl<const N: usize> PanelStreams<N> {
    /// `columns` are whole x16 panels.
    #[inline(always)]
    pub fn new(columns: Range<usize>) -> PanelStreams<N> {
        let panels = columns.len() / X16_ROWS;
        PanelStreams {
            first: columns.start,
            panels,
            count: panels.div_ceil(N),
        }
    }

    /// Where the x16 panels of a round begin. When streams are not equally long, the last one ends with a panel that is
    /// computed twice.
    #[inline(always)]
    pub fn columns(&self, round: usize) -> [usize; N] {
        let mut columns = [0; N];
        for n in 0..N {
            columns[n] = self.first + (n * self.count + round).min(self.panels - 1) * X16_ROWS;
        }
        columns
    }
}

/// Adds the products of a step's values of an x16 panel with those of A.
///
/// # Safety
/// The x16 panel and the rows of A are readable there.
#[inline(always)]
unsafe fn add<S: Simd, B: Readable + Interleaved, const V: usize, const M: usize>(
    simd: S,
    a: [*const f32; M],
    panel: *const B,
    step: usize,
    mut sums: [[S::Vector; M]; V],
) -> [[S::Vector; M]; V] {
    for v in 0..V {
        // SAFETY: the caller's promise.
        let values = unsafe { B::vector(simd, panel.add(step * X16_ROWS), 0, v * S::LANES) };
        read_order_fence();
        for i in 0..M {
            // SAFETY: the caller's promise.
            let a = unsafe { simd.splat(a[i].add(step).read()) };
            sums[v][i] = simd.mul_add(a, values, sums[v][i]);
        }
    }
    sums
}
