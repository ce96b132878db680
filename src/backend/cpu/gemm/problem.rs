//! One matrix product as its loops see it: the operands, where a block of C goes, and the types in between.

use std::ops::Range;

use crate::backend::cpu::bindings::{Dispatch, View};
#[cfg(target_arch = "x86_64")]
pub use crate::backend::cpu::gemm::amx::unpack_b::Weights;
use crate::backend::cpu::gemm::rows::Rows;
use crate::backend::cpu::machine::{ALONE, Machine};
use crate::backend::cpu::quants::{Stored, Writable, X16_ROWS};
use crate::backend::cpu::scratch::{AllocError, AllocStatus, Scratch};
use crate::backend::cpu::simd::{Body, Simd};
use crate::backend::fault::Fault;
use crate::backend::ffi::args::*;

/// What processors with AMX can multiply in tiles: there are none of this kind.
#[cfg(not(target_arch = "x86_64"))]
pub trait Weights {}

#[cfg(not(target_arch = "x86_64"))]
impl<B> Weights for B {}

/// Rows of C that share one reading of B.
pub const ROWS: usize = 256;

/// The operands of one dispatch.
pub struct Gemm<'a, B, T, A = Rows<'a>> {
    pub a: A,
    pub b: View<'a, B>,
    pub output: Output<'a, T>,
}

/// C and what is added to it.
#[derive(Clone, Copy)]
pub struct Output<'a, T> {
    pub args: matmul_args,
    pub bias: Option<View<'a, T>>,
    pub c: View<'a, T>,
}

/// A part of C that one thread computes.
pub struct Block {
    pub batch: usize,
    pub rows: Range<usize>,
    pub columns: Range<usize>,
}

impl Block {
    /// Blocks of up to `width` columns that together are this one.
    pub fn parts(&self, width: usize) -> impl Iterator<Item = Block> {
        let first = self.columns.clone().step_by(width);
        first.map(move |first| Block {
            batch: self.batch,
            rows: self.rows.clone(),
            columns: first..self.columns.end.min(first + width),
        })
    }
}

impl<T: Writable> Output<'_, T> {
    /// What is added to column `column`.
    #[inline]
    pub fn bias_at(&self, column: usize) -> f32 {
        // SAFETY: `at` checked the place.
        self.bias
            .map_or(0.0, |bias| unsafe { T::element(bias.at(column, 1), 0) })
    }

    /// The place of `count` elements of C.
    #[inline]
    pub fn c_at(&self, batch: usize, row: usize, column: usize, count: usize) -> *mut T {
        let start =
            batch * self.args.c_batch_stride as usize + row * self.args.c_row_stride as usize;
        self.c.at(start + column, count)
    }

    /// Writes an element of C: a sum, to which the bias is added.
    #[inline(always)]
    pub fn write(&self, batch: usize, row: usize, column: usize, sum: f32) {
        let c = self.c_at(batch, row, column, 1);
        // SAFETY: `c_at` checked the place.
        unsafe { c.write(T::from_f32(sum + self.bias_at(column))) };
    }

    /// Writes the columns of a block in row `row` of C, rounded.
    ///
    /// # Safety
    /// `from` is readable for them.
    #[inline(always)]
    pub unsafe fn narrow<S: Simd>(&self, simd: S, block: &Block, row: usize, from: *const f32) {
        let (first, count) = (block.columns.start, block.columns.len());
        let (to, whole) = (
            self.c_at(block.batch, row, first, count),
            count - count % S::LANES,
        );
        // SAFETY: the caller's promise; `c_at` checked the columns.
        unsafe {
            for i in (0..whole).step_by(S::LANES) {
                T::store(simd, simd.load(from.add(i)), to.add(i));
            }
            for i in whole..count {
                to.add(i).write(T::from_f32(from.add(i).read()));
            }
        }
    }
}

impl Output<'_, f32> {
    /// Rounds every element of C into that of `to`.
    pub fn narrow_to<T: Writable>(&self, machine: &Machine, to: &Output<T>) {
        let (m, n) = (self.args.m as usize, self.args.n as usize);
        for batch in 0..self.args.batch as usize {
            for row in 0..m {
                let sums = self.c_at(batch, row, 0, n).cast_const();
                let (rows, columns) = (row..row + 1, 0..n);
                let block = &Block {
                    batch,
                    rows,
                    columns,
                };
                machine.isa.run(Store {
                    output: to,
                    block,
                    sums,
                    width: n,
                });
            }
        }
    }
}

/// Memory for a C of f32 that is rounded to the bound one's type later, and for a bias of f32.
#[derive(Default)]
pub struct WideOutput {
    c: Vec<f32>,
    bias: Vec<f32>,
}

impl WideOutput {
    /// `output` itself where it is f32, else one of the same shape, packed.
    pub fn of<'a, T: Writable>(
        &'a mut self,
        dispatch: &Dispatch,
        output: &Output<'a, T>,
    ) -> Result<Output<'a, f32>, Fault> {
        let args = output.args;
        if let Some(c) = output.c.as_f32() {
            let bias = output.bias.and_then(View::as_f32);
            return Ok(Output { args, bias, c });
        }
        let (m, n, batch) = (args.m as usize, args.n as usize, args.batch as usize);
        let count = m.checked_mul(n).and_then(|count| count.checked_mul(batch));
        self.c = dispatch.scratch(count.unwrap_or(usize::MAX))?;
        self.bias = dispatch.scratch(if output.bias.is_some() { n } else { 0 })?;
        for (column, bias) in self.bias.iter_mut().enumerate() {
            *bias = output.bias_at(column);
        }
        Ok(Output {
            args: matmul_args {
                c_row_stride: args.n.into(),
                c_batch_stride: (m * n) as u64,
                ..args
            },
            bias: output.bias.map(|_| View::of(&mut self.bias)),
            c: View::of(&mut self.c),
        })
    }
}

impl<'a, B: Stored, T: Writable> Gemm<'a, B, T, View<'a, T>> {
    /// The same with A as rows of f32.
    pub fn with_rows(
        &self,
        machine: &Machine,
        padded: bool,
        copy: &'a mut Option<Scratch>,
    ) -> Result<Gemm<'a, B, T>, Fault> {
        Ok(Gemm {
            a: Rows::new(machine, &self.output.args, self.a, padded, copy)?,
            b: self.b,
            output: self.output,
        })
    }
}

impl<B: Stored, T: Writable, A: Sync> Gemm<'_, B, T, A> {
    #[inline]
    pub fn k(&self) -> usize {
        self.output.args.k as usize
    }

    /// Where row `row` of the stored B starts in its view.
    #[inline]
    pub fn b_row(&self, batch: usize, row: usize) -> usize {
        let args = &self.output.args;
        batch * args.b_batch_stride as usize + row * args.b_row_stride as usize
    }

    /// The address of an element of a row of the stored B, of which neither need be there: for prefetching, not to be
    /// followed.
    pub fn prefetch_address(&self, batch: usize, row: usize, element: usize) -> *const B {
        let args = &self.output.args;
        let batch = batch.wrapping_mul(args.b_batch_stride as usize);
        let row = row.wrapping_mul(args.b_row_stride as usize);
        self.b
            .prefetch_address(batch.wrapping_add(row).wrapping_add(element))
    }

    /// The x16 panel that has row `row` of an interleaved B: all of its blocks are inside the view.
    #[inline]
    pub fn x16_panel(&self, batch: usize, row: usize) -> *const B {
        let start = self.b_row(batch, row - row % X16_ROWS);
        self.b.at(start, X16_ROWS * self.k()).cast_const()
    }

    /// Calls `compute` for blocks that together are C, each some multiple of `unit` columns wide.
    pub fn for_blocks(
        &self,
        machine: &Machine,
        separable: bool,
        unit: usize,
        compute: impl Fn(Block) + Sync,
    ) {
        for_blocks(&self.output.args, machine, separable, unit, &compute);
    }

    /// The same for a `compute` that needs memory of its own.
    pub fn try_for_blocks(
        &self,
        machine: &Machine,
        separable: bool,
        unit: usize,
        compute: impl Fn(Block) -> Result<(), AllocError> + Sync,
    ) -> Result<(), Fault> {
        let status = AllocStatus::default();
        self.for_blocks(machine, separable, unit, |block| {
            status.note(compute(block));
        });
        status.into_result("a panel of a gemm")
    }
}

/// [`Gemm::for_blocks`], compiled once: there are hundreds of types of `compute`.
fn for_blocks(
    args: &matmul_args,
    machine: &Machine,
    separable: bool,
    unit: usize,
    compute: &(dyn Fn(Block) + Sync),
) {
    let (m, n, k) = (args.m as usize, args.n as usize, args.k as usize);
    let row_blocks = m.div_ceil(ROWS);
    let units = n.div_ceil(unit);
    let grain = match separable {
        true => machine.grain(m.min(ROWS) * unit * k),
        false => ALONE,
    };
    let items = args.batch as usize * row_blocks * units;
    machine.for_ranges(items, grain, |mut range| {
        while !range.is_empty() {
            let (block, first) = (range.start / units, range.start % units);
            let count = range.len().min(units - first);
            let (batch, row) = (block / row_blocks, block % row_blocks * ROWS);
            compute(Block {
                batch,
                rows: row..m.min(row + ROWS),
                columns: first * unit..n.min((first + count) * unit),
            });
            range.start += count;
        }
    });
}

/// Writes a block of C from sums of [row][column], `width` from row to row.
pub struct Store<'a, T> {
    pub output: &'a Output<'a, T>,
    pub block: &'a Block,
    pub sums: *const f32,
    pub width: usize,
}

impl<T: Writable> Body for Store<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        for (index, row) in self.block.rows.clone().enumerate() {
            let from = self.sums.wrapping_add(index * self.width);
            // SAFETY: there are sums for all rows and columns.
            unsafe { self.output.narrow(simd, self.block, row, from) };
        }
    }
}
