//! A as rows of f32: where they lie, or a copy. A transposed A is copied in squares, so that each cache line of it is
//! read once.

use std::ops::Range;

use super::square::{SQUARE, transpose_square};
use crate::backend::cpu::bindings::View;
use crate::backend::cpu::machine::Machine;
use crate::backend::cpu::quants::{GROUP, Readable};
use crate::backend::cpu::scratch::{Scratch, arena};
use crate::backend::cpu::simd::{Body, Simd};
use crate::backend::fault::Fault;
use crate::backend::ffi::args::*;

/// Rows that are copied together: as many as a cache line of a transposed A has.
const BAND: usize = 2 * SQUARE;

arena!(ARENA);

/// A as f32 rows. Where the bound memory is not that, it is a copy.
pub struct Rows<'a> {
    pub memory: View<'a, f32>,
    pub row_stride: usize,
    pub batch_stride: usize,
    /// Elements of a row, with the zeros after them.
    width: usize,
    pub rows: usize,
    /// 1 when all batches share one matrix.
    pub batches: usize,
}

impl<'a> Rows<'a> {
    /// `padded`: with zeros after each row, up to a multiple of `GROUP` elements. `copy` keeps the copy, if there is
    /// one.
    pub fn new<T: Readable>(
        machine: &Machine,
        args: &matmul_args,
        a: View<'a, T>,
        padded: bool,
        copy: &'a mut Option<Scratch>,
    ) -> Result<Rows<'a>, Fault> {
        let (m, k) = (args.m as usize, args.k as usize);
        let (row_stride, batch_stride) = (args.a_row_stride as usize, args.a_batch_stride as usize);
        let batches = match batch_stride {
            0 => args.batch.min(1),
            _ => args.batch,
        } as usize;
        let in_place = args.transpose_a == 0 && (k.is_multiple_of(GROUP) || !padded);
        if let Some(memory) = a.as_f32().filter(|_| in_place) {
            return Ok(Rows {
                memory,
                row_stride,
                batch_stride,
                width: k,
                rows: m,
                batches,
            });
        }
        let filled = k.next_multiple_of(GROUP);
        let width = apart(filled);
        // At most 32 times the bound memory's elements, unless rows overlap: then the product may not fit.
        let count = batches.saturating_mul(m).saturating_mul(width);
        let bytes = count.saturating_mul(size_of::<f32>());
        let scratch = copy.insert(Scratch::take_for("a copy of an operand", &ARENA, bytes)?);
        // SAFETY: plain memory of this many floats, which nobody else has while `copy` is borrowed.
        let to = View::of(unsafe { std::slice::from_raw_parts_mut(scratch.at(0, count), count) });
        let bands = m.div_ceil(BAND);
        machine.for_ranges(batches * bands, machine.grain(4 * BAND * width), |range| {
            for item in range {
                let (batch, row) = (item / bands, item % bands * BAND);
                let rows = BAND.min(m - row);
                machine.isa.run(CopyBand {
                    args,
                    a,
                    start: batch * batch_stride,
                    row,
                    rows,
                    to: to.at((batch * m + row) * width, rows * width),
                    width,
                });
            }
        });
        Ok(Rows {
            memory: to,
            row_stride: width,
            batch_stride: if batch_stride == 0 { 0 } else { m * width },
            width: filled,
            rows: m,
            batches,
        })
    }

    pub fn row(&self, batch: usize, row: usize) -> *const f32 {
        let start = batch * self.batch_stride + row * self.row_stride;
        self.memory.at(start, self.width)
    }

    /// The first `M` of some rows. Past the end the last one stands in.
    #[inline(always)]
    pub fn first<const M: usize>(&self, batch: usize, rows: Range<usize>) -> [*const f32; M] {
        let mut all = [self.row(batch, rows.start); M];
        for i in 1..M {
            all[i] = self.row(batch, (rows.start + i).min(rows.end - 1));
        }
        all
    }
}

/// From row to row of a copy. Rows that are a power of two apart compete for the same places of a cache.
fn apart(width: usize) -> usize {
    match width % 256 {
        0 => width + BAND,
        _ => width,
    }
}

/// Copies some rows of A.
struct CopyBand<'a, T> {
    args: &'a matmul_args,
    a: View<'a, T>,
    /// Of the matrix.
    start: usize,
    row: usize,
    rows: usize,
    /// `rows` rows, `width` apart.
    to: *mut f32,
    width: usize,
}

impl<T: Readable> Body for CopyBand<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let (k, row_stride) = (self.args.k as usize, self.args.a_row_stride as usize);
        for i in 0..self.rows {
            // SAFETY: `to` has `rows` rows of `width` elements, of which these are no more.
            unsafe {
                let end = self.to.add(i * self.width + k);
                end.write_bytes(0, k.next_multiple_of(GROUP) - k);
            }
        }
        if self.args.transpose_a != 0 {
            return self.transpose(simd, k, row_stride);
        }
        for i in 0..self.rows {
            let start = self.start + (self.row + i) * row_stride;
            let from = self.a.at(start, k).cast_const();
            // SAFETY: `at` checked the row; `to` as above.
            unsafe { T::widen(simd, from, self.to.add(i * self.width), k) };
        }
    }
}

impl<T: Readable> CopyBand<'_, T> {
    #[inline(always)]
    fn transpose<S: Simd>(&self, simd: S, k: usize, row_stride: usize) {
        let whole = match self.rows {
            BAND => k - k % SQUARE,
            _ => 0,
        };
        let from = |x: usize, count: usize| {
            let start = self.start + x * row_stride + self.row;
            self.a.at(start, count).cast_const()
        };
        let mut wide = [0f32; SQUARE * BAND];
        for x in (0..whole).step_by(SQUARE) {
            // SAFETY: `at` checks each part of a row of A; `to` has the rows and columns of the squares.
            unsafe {
                for j in 0..SQUARE {
                    let to = wide.as_mut_ptr().add(j * BAND);
                    T::widen(simd, from(x + j, BAND), to, BAND);
                }
                for first in [0, SQUARE] {
                    let from = wide.as_ptr().add(first);
                    let to = self.to.add(first * self.width + x);
                    transpose_square(simd, (from, BAND), (to, self.width));
                }
            }
        }
        for x in whole..k {
            let from = from(x, self.rows);
            for i in 0..self.rows {
                // SAFETY: as above.
                unsafe {
                    let to = self.to.add(i * self.width + x);
                    to.write(T::element(from, i));
                }
            }
        }
    }
}
