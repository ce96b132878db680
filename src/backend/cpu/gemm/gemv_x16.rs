//! Float GEMV on the x16 layout, up to 4 rows of A: memory is read in address order, and a lane of a vector is a column
//! of C.

#![allow(
    clippy::needless_range_loop,
    reason = "closures of iterators need not be inlined, and then miss the instruction set"
)]

use std::ops::Range;

use super::problem::{Block, Product};
use crate::backend::cpu::quants::{Interleaved, Readable, STRIP, Stored, Writable};
use crate::backend::cpu::simd::{Body, Simd, in_order, prefetch_lines};

/// The most rows of A.
pub const MOST: usize = 4;

pub struct Compute<'a, B, T> {
    pub product: &'a Product<'a, B, T>,
    /// Its columns are whole strips.
    pub block: Block,
}

impl<B: Readable + Interleaved, T: Writable> Body for Compute<'_, B, T> {
    type Output = ();
    const READS_AHEAD: bool = true;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        match STRIP / S::LANES {
            1 => self.multiply_rows::<S, 1>(simd),
            2 => self.multiply_rows::<S, 2>(simd),
            _ => self.multiply_rows::<S, 4>(simd),
        }
    }
}

impl<B: Readable + Interleaved, T: Writable> Compute<'_, B, T> {
    /// `V`: the vectors that a strip's rows fill.
    #[inline(always)]
    fn multiply_rows<S: Simd, const V: usize>(self, simd: S) {
        match self.block.rows.len() {
            1 if S::REGISTERS < 32 => self.multiply::<S, V, 1, 2, 2>(simd),
            1 if S::AHEAD > 0 => self.multiply::<S, V, 1, 4, 2>(simd),
            1 => self.multiply::<S, V, 1, 4, 1>(simd),
            2 => self.multiply::<S, V, 2, 2, 1>(simd),
            3 => self.multiply::<S, V, 3, 1, 1>(simd),
            _ => self.multiply::<S, V, MOST, 1, 1>(simd),
        }
    }

    /// `STEPS` steps have sums of their own, because one chain of additions takes longer than the memory. `N` panels
    /// far from each other are read alternately: two streams keep more reads in flight than one (docs/perf, Zen 3 and
    /// Xeon with AMX).
    #[inline(always)]
    fn multiply<S: Simd, const V: usize, const M: usize, const STEPS: usize, const N: usize>(
        self,
        simd: S,
    ) {
        let Compute { product, block } = self;
        let (batch, k) = (block.batch, product.k());
        let a: [*const f32; M] =
            std::array::from_fn(|i| product.a.row(batch, block.rows.start + i, k));
        let whole = k - k % STEPS;
        let turns = Turns::<N>::new(block.columns);
        for turn in 0..turns.count {
            let columns = turns.columns(turn);
            let mut strips = [std::ptr::null(); N];
            for n in 0..N {
                strips[n] = product.strip(batch, columns[n]);
            }
            let mut sums = [[[[simd.splat(0.0); M]; V]; STEPS]; N];
            // SAFETY: `strip` checked the strips, and A's rows have `k` values.
            unsafe {
                for step in (0..whole).step_by(STEPS) {
                    for n in 0..N {
                        if S::AHEAD > 0 {
                            let near = strips[n].wrapping_add(step * STRIP);
                            let near = near.wrapping_byte_add(S::AHEAD);
                            prefetch_lines(near, STEPS * STRIP * size_of::<B>());
                        }
                        for chain in 0..STEPS {
                            let sums = &mut sums[n][chain];
                            *sums = add(simd, a, strips[n], step + chain, *sums);
                        }
                    }
                }
                for step in whole..k {
                    for n in 0..N {
                        sums[n][0] = add(simd, a, strips[n], step, sums[n][0]);
                    }
                }
            }
            for n in 0..N {
                for i in 0..M {
                    let mut values = [0f32; STRIP];
                    for v in 0..V {
                        let mut sum = sums[n][0][v][i];
                        for chain in 1..STEPS {
                            sum = simd.add(sum, sums[n][chain][v][i]);
                        }
                        // SAFETY: the vectors are as long as the values.
                        unsafe { simd.store(sum, values.as_mut_ptr().add(v * S::LANES)) };
                    }
                    product.store_strip(batch, block.rows.start + i, columns[n], values);
                }
            }
        }
    }
}

impl<B: Stored, T: Writable> Product<'_, B, T> {
    /// Writes a strip's columns of a row of C.
    #[inline(always)]
    pub(super) fn store_strip(
        &self,
        batch: usize,
        row: usize,
        column: usize,
        mut values: [f32; STRIP],
    ) {
        if self.output.bias.is_some() {
            for j in 0..STRIP {
                values[j] += self.output.bias_at(column + j);
            }
        }
        let c = self.output.c_at(batch, row, column, STRIP);
        for j in 0..STRIP {
            // SAFETY: `c_at` checked a strip's columns.
            unsafe { c.add(j).write(T::from_f32(values[j])) };
        }
    }
}

/// `N` strips at a time, each of them the next one of a stream of neighbours.
pub struct Turns<const N: usize> {
    first: usize,
    strips: usize,
    pub count: usize,
}

impl<const N: usize> Turns<N> {
    /// `columns` are whole strips.
    #[inline(always)]
    pub fn new(columns: Range<usize>) -> Turns<N> {
        let strips = columns.len() / STRIP;
        Turns {
            first: columns.start,
            strips,
            count: strips.div_ceil(N),
        }
    }

    /// Where the strips of a turn begin. When streams are not equally long, the last one ends with a strip that is done
    /// already.
    #[inline(always)]
    pub fn columns(&self, turn: usize) -> [usize; N] {
        let mut columns = [0; N];
        for n in 0..N {
            columns[n] = self.first + (n * self.count + turn).min(self.strips - 1) * STRIP;
        }
        columns
    }
}

/// Adds the products of a step's values of a strip with those of A.
///
/// # Safety
/// The strip and the rows of A are readable there.
#[inline(always)]
unsafe fn add<S: Simd, B: Readable + Interleaved, const V: usize, const M: usize>(
    simd: S,
    a: [*const f32; M],
    strip: *const B,
    step: usize,
    mut sums: [[S::Vector; M]; V],
) -> [[S::Vector; M]; V] {
    for v in 0..V {
        // SAFETY: the caller's promise.
        let values = unsafe { B::vector(simd, strip.add(step * STRIP), 0, v * S::LANES) };
        in_order();
        for i in 0..M {
            // SAFETY: the caller's promise.
            let a = unsafe { simd.splat(a[i].add(step).read()) };
            sums[v][i] = simd.mul_add(a, values, sums[v][i]);
        }
    }
    sums
}
