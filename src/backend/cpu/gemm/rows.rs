//! A as rows of f32: where they lie, or a copy. A transposed A is copied in squares, so that each cache line of it is
//! read once.

use std::cell::Cell;

use super::square::{SQUARE, transpose_square};
use crate::backend::cpu::bindings::{Dispatch, View};
use crate::backend::cpu::machine::Machine;
use crate::backend::cpu::quants::{GROUP, Readable};
use crate::backend::cpu::simd::{Body, Simd};
use crate::backend::fault::Fault;
use crate::backend::ffi::args::*;

/// Rows that are copied together: as many as a cache line of a transposed A has.
const BAND: usize = 2 * SQUARE;

thread_local! {
    static MEMORY: Cell<Vec<f32>> = const { Cell::new(Vec::new()) };
}

/// Memory for a copy of A. It stays with its thread for the next product.
pub struct RowMemory(Vec<f32>);

impl RowMemory {
    /// None yet, or what the thread has.
    pub fn new() -> RowMemory {
        RowMemory(MEMORY.take())
    }

    /// At least `count` elements of any content.
    fn reserve(&mut self, dispatch: &Dispatch, count: usize) -> Result<(), Fault> {
        if self.0.len() < count {
            self.0 = Vec::new();
            self.0 = dispatch.scratch(count)?;
        }
        Ok(())
    }
}

impl Drop for RowMemory {
    fn drop(&mut self) {
        MEMORY.set(std::mem::take(&mut self.0));
    }
}

/// A as f32 rows. Where the bound memory is not that, it is a copy whose rows end with zeros up to a multiple of
/// `GROUP`.
pub struct Rows<'a> {
    memory: View<'a, f32>,
    row_stride: usize,
    batch_stride: usize,
    pub rows: usize,
    /// 1 when all batches share one matrix.
    pub batches: usize,
}

impl<'a> Rows<'a> {
    pub fn new<T: Readable>(
        dispatch: &Dispatch,
        machine: &Machine,
        args: &matmul_args,
        a: View<'a, T>,
        copy: &'a mut RowMemory,
    ) -> Result<Rows<'a>, Fault> {
        let (m, k) = (args.m as usize, args.k as usize);
        let (row_stride, batch_stride) = (args.a_row_stride as usize, args.a_batch_stride as usize);
        let batches = if batch_stride == 0 {
            args.batch.min(1)
        } else {
            args.batch
        } as usize;
        if args.transpose_a == 0
            && k.is_multiple_of(GROUP)
            && let Some(memory) = a.as_f32()
        {
            return Ok(Rows {
                memory,
                row_stride,
                batch_stride,
                rows: m,
                batches,
            });
        }
        let width = apart(k.next_multiple_of(GROUP));
        // At most 32 times the bound memory's elements, unless rows overlap: then the product may not fit.
        let count = batches
            .checked_mul(m)
            .and_then(|rows| rows.checked_mul(width));
        copy.reserve(dispatch, count.unwrap_or(usize::MAX))?;
        let to = View::of(&mut copy.0);
        let bands = m.div_ceil(BAND);
        machine.for_ranges(batches * bands, machine.grain(4 * BAND * width), |range| {
            for item in range {
                let (batch, row) = (item / bands, item % bands * BAND);
                machine.isa.run(CopyBand {
                    a,
                    transposed: args.transpose_a != 0,
                    start: batch * batch_stride,
                    row_stride,
                    row,
                    rows: BAND.min(m - row),
                    k,
                    to: to.at((batch * m + row) * width, BAND.min(m - row) * width),
                    width,
                });
            }
        });
        Ok(Rows {
            memory: to,
            row_stride: width,
            batch_stride: if batch_stride == 0 { 0 } else { m * width },
            rows: m,
            batches,
        })
    }

    pub fn view(&self) -> MatrixView<'a, f32> {
        MatrixView {
            memory: self.memory,
            row_stride: self.row_stride,
            batch_stride: self.batch_stride,
        }
    }

    /// Row `row`: `k` elements, and zeros after them up to a multiple of `GROUP`.
    pub fn row(&self, batch: usize, row: usize, k: usize) -> *const f32 {
        let start = batch * self.batch_stride + row * self.row_stride;
        self.memory.at(start, k.next_multiple_of(GROUP))
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
    a: View<'a, T>,
    transposed: bool,
    /// Of the matrix.
    start: usize,
    row_stride: usize,
    row: usize,
    rows: usize,
    k: usize,
    /// `rows` rows, `width` apart.
    to: *mut f32,
    width: usize,
}

impl<T: Readable> Body for CopyBand<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let filled = self.k.next_multiple_of(GROUP);
        for i in 0..self.rows {
            // SAFETY: `to` has `rows` rows of `width` elements, of which `filled` are no more.
            unsafe {
                let end = self.to.add(i * self.width + self.k);
                end.write_bytes(0, filled - self.k);
            }
        }
        if self.transposed {
            return self.transpose(simd);
        }
        for i in 0..self.rows {
            let start = self.start + (self.row + i) * self.row_stride;
            let from = self.a.at(start, self.k).cast_const();
            // SAFETY: `at` checked the row; `to` as above.
            unsafe { T::widen(simd, from, self.to.add(i * self.width), self.k) };
        }
    }
}

impl<T: Readable> CopyBand<'_, T> {
    #[inline(always)]
    fn transpose<S: Simd>(&self, simd: S) {
        let whole = match self.rows {
            BAND => self.k - self.k % SQUARE,
            _ => 0,
        };
        let from = |x: usize, count: usize| {
            let start = self.start + x * self.row_stride + self.row;
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
        for x in whole..self.k {
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

/// A as strided rows in memory.
#[derive(Clone, Copy)]
pub struct MatrixView<'a, A> {
    pub memory: View<'a, A>,
    pub row_stride: usize,
    pub batch_stride: usize,
}

impl<'a, A> MatrixView<'a, A> {
    /// An A that is not transposed.
    pub fn of(args: &matmul_args, memory: View<'a, A>) -> MatrixView<'a, A> {
        MatrixView {
            memory,
            row_stride: args.a_row_stride as usize,
            batch_stride: args.a_batch_stride as usize,
        }
    }
}
