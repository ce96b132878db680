//! `matmul_<B>_<T>`.
//!
//! C is computed in blocks of up to [`ROWS`] rows and some columns, each by one thread. With B stored `[n][k]` and few
//! rows of A, an element of C is the dot product of two contiguous rows ([`rows`], [`dot_tiles`]). With B stored
//! `[k][n]`, rows of B are scaled and added up ([`sweeps`], the axpy form). Else one operand is packed, a panel at a
//! time, so that a vector is a part of a row ([`panels`]) or of a column ([`turned`]) of C. `docs/DESIGN.md` has the
//! selection as a table.

#[cfg(target_arch = "x86_64")]
mod amx;
mod dot_tiles;
mod integers;
mod panels;
mod rows;
mod strips;
mod sweeps;
mod tiled_strips;
pub mod tiles;
mod turned;

use std::ops::Range;

use super::super::bindings::args::*;
use super::super::dispatch::{Dispatch, Extent, Fault, View};
use super::super::elements::{
    GROUP, Integers, Interleaved, InterleavedIntegers, Readable, STRIP, Stored, Writable,
};
use super::super::simd::{Body, Simd};
use super::scratch::{Exhausted, Shortage};
use super::{ALONE, Machine};
#[cfg(target_arch = "x86_64")]
use amx::Weights;
use panels::{Lines, Order};

/// What processors with AMX can multiply in tiles: there are none of this kind.
#[cfg(not(target_arch = "x86_64"))]
pub trait Weights {}
#[cfg(not(target_arch = "x86_64"))]
impl<B> Weights for B {}

/// Rows of C that share one reading of B.
const ROWS: usize = 256;
/// From this many rows of A on, a product with a transposed B waits for the processor, not for memory.
const MANY_ROWS: u32 = 7;

pub fn matmul<B: Readable, T: Writable>(
    dispatch: &Dispatch,
    machine: &Machine,
) -> Result<(), Fault> {
    with_product::<B, T>(dispatch, |product, separable| {
        let args = &product.output.args;
        let mut packed = Vec::new();
        if args.transpose_b != 0 && args.m >= MANY_ROWS {
            if dot_tiles::suits(machine.isa, args)
                && let Some(b) = product.b.as_f32()
            {
                let a = &product.with_rows(dispatch, machine, &mut packed)?.a;
                let output = product.output;
                let product = &Product { a, b, output };
                return product.try_for_blocks(machine, separable, dot_tiles::COLUMNS, |block| {
                    dot_tiles::compute(machine.isa, product, block)
                });
            }
            let a = &turned::Turned::new(machine, product)?;
            return product.try_for_blocks(machine, separable, turned::COLUMNS, |block| {
                turned::compute(machine.isa, product, a, block)
            });
        }
        let (b, output) = (product.b, product.output);
        if args.transpose_b == 0 && args.transpose_a == 0 {
            let a = Lines::of(args, product.a);
            return multiply_as_is(machine, &Product { a, b, output }, separable);
        }
        let a = &product.with_rows(dispatch, machine, &mut packed)?.a;
        if args.transpose_b == 0 {
            let a = a.lines();
            return multiply_as_is(machine, &Product { a, b, output }, separable);
        }
        let product = &Product { a, b, output };
        product.for_blocks(machine, separable, rows::COLUMNS, |block| {
            machine.isa.run(rows::Compute { product, block });
        });
        Ok(())
    })
}

fn multiply_as_is<A: Readable, B: Readable, T: Writable>(
    machine: &Machine,
    product: &Product<B, T, Lines<A>>,
    separable: bool,
) -> Result<(), Fault> {
    if product.output.args.m as usize <= sweeps::MOST_ROWS {
        return product.try_for_blocks(machine, separable, sweeps::COLUMNS, |block| {
            sweeps::compute(machine.isa, product, block)
        });
    }
    product.try_for_blocks(machine, separable, panels::COLUMNS, |block| {
        panels::compute(machine.isa, product, Order::Rows, block)
    })
}

/// The same for a B whose rows lie in strips.
pub fn matmul_interleaved<B: Readable + Interleaved + Weights, T: Writable>(
    dispatch: &Dispatch,
    machine: &Machine,
) -> Result<(), Fault> {
    with_strips::<B, T>(dispatch, |product, separable| {
        let (args, b, output) = (&product.output.args, product.b, product.output);
        let mut packed = Vec::new();
        let m = args.m as usize;
        #[cfg(target_arch = "x86_64")]
        if let Some(amx) = machine.isa.amx()
            && m >= amx::LEAST_ROWS_OF_NUMBERS
        {
            let product = &product.with_rows(dispatch, machine, &mut packed)?;
            let (a, b, output) = (&product.a, product.b, product.output);
            return amx::multiply(amx, machine, &Product { a, b, output }, separable);
        }
        let isa = machine.isa.for_strips();
        let tiled = m <= tiled_strips::most(isa);
        if m <= strips::MOST || tiled {
            let a = &product.with_rows(dispatch, machine, &mut packed)?.a;
            let product = &Product { a, b, output };
            if m <= strips::MOST {
                product.for_blocks(machine, separable, STRIP, |block| {
                    isa.run(strips::Compute { product, block });
                });
            } else {
                product.for_blocks(machine, separable, tiled_strips::COLUMNS, |block| {
                    isa.run(tiled_strips::Compute { product, block });
                });
            }
            return Ok(());
        }
        if args.transpose_a == 0 {
            let a = Lines::of(args, product.a);
            return multiply_strips(machine, &Product { a, b, output }, separable);
        }
        let a = product.with_rows(dispatch, machine, &mut packed)?.a.lines();
        multiply_strips(machine, &Product { a, b, output }, separable)
    })
}

fn multiply_strips<A: Readable, B: Readable, T: Writable>(
    machine: &Machine,
    product: &Product<B, T, Lines<A>>,
    separable: bool,
) -> Result<(), Fault> {
    product.try_for_blocks(machine, separable, panels::COLUMNS, |block| {
        panels::compute(machine.isa, product, Order::Strips, block)
    })
}

/// The same for a B that is made of small integers. There is one loop for each of these types, so other outputs than
/// f32 take a detour.
pub fn matmul_integers<B: Integers, T: Writable>(
    dispatch: &Dispatch,
    machine: &Machine,
) -> Result<(), Fault> {
    with_product::<B, T>(dispatch, |product, separable| {
        multiply_as_integers(dispatch, machine, product, separable, integers::multiply)
    })
}

fn multiply_as_integers<B: Integers, T: Writable>(
    dispatch: &Dispatch,
    machine: &Machine,
    product: &Product<B, T, View<T>>,
    separable: bool,
    multiply: impl FnOnce(&Machine, &Product<B, f32>, bool) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let mut packed = Vec::new();
    let product = product.with_rows(dispatch, machine, &mut packed)?;
    let mut wide = WideOutput::default();
    let output = wide.of(dispatch, &product.output)?;
    let (a, b) = (product.a, product.b);
    let separable = separable || !T::IS_F32;
    multiply(machine, &Product { a: &a, b, output }, separable)?;
    if !T::IS_F32 {
        output.narrow_to(machine, &product.output);
    }
    Ok(())
}

/// The same for a B whose rows lie in strips.
pub fn matmul_interleaved_integers<B: InterleavedIntegers + Weights, T: Writable>(
    dispatch: &Dispatch,
    machine: &Machine,
) -> Result<(), Fault> {
    with_strips::<B, T>(dispatch, |product, separable| {
        multiply_as_integers(
            dispatch,
            machine,
            product,
            separable,
            integers::multiply_interleaved,
        )
    })
}

/// As [`with_product`], for a B that has to be whole strips.
fn with_strips<B: Interleaved, T: Writable>(
    dispatch: &Dispatch,
    multiply: impl FnOnce(&Product<B, T, View<T>>, bool) -> Result<(), Fault>,
) -> Result<(), Fault> {
    with_product::<B, T>(dispatch, |product, separable| {
        let args = &product.output.args;
        let strip = STRIP as u64 * u64::from(args.k);
        let packed = args.b_row_stride == u64::from(args.k)
            && args.b_batch_stride.is_multiple_of(strip.max(1));
        if args.transpose_b == 0 || !packed || !args.n.is_multiple_of(STRIP as u32) {
            return Err(dispatch.invalid(format!(
                "interleaved b must be whole strips of {STRIP} packed rows: transpose_b is {}, n {}, k {}, its row stride {} and its batch \
                 stride {}",
                args.transpose_b, args.n, args.k, args.b_row_stride, args.b_batch_stride
            )));
        }
        multiply(product, separable)
    })
}

/// Checks a dispatch and calls `multiply` with its operands and with whether threads may share the work.
fn with_product<B: Stored, T: Writable>(
    dispatch: &Dispatch,
    multiply: impl FnOnce(&Product<B, T, View<T>>, bool) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let args: matmul_args = dispatch.arguments(MATMUL_ARGS)?;
    let (m, n, k, batch) = (args.m, args.n, args.k, args.batch);
    let transposed = (args.transpose_a != 0, args.transpose_b != 0);
    if B::ELEMENTS > 1 && !(transposed.1 && (k as usize).is_multiple_of(B::ELEMENTS)) {
        return Err(dispatch.invalid(format!(
            "block-quantised b must be transposed and k a multiple of {}: transpose_b is {} and k {k}",
            B::ELEMENTS,
            args.transpose_b
        )));
    }
    let operand = |transposed, rows: u32, columns: u32, row_stride, batch_stride| {
        let (rows, width) = if transposed {
            (columns, rows)
        } else {
            (rows, columns)
        };
        Extent::nested((batch, batch_stride), (rows, row_stride), width)
    };
    let a = operand(transposed.0, m, k, args.a_row_stride, args.a_batch_stride);
    let a: View<T> = dispatch.view(MATMUL_A, "a", a)?;
    let b = operand(transposed.1, k, n, args.b_row_stride, args.b_batch_stride);
    let b: View<B> = dispatch.view(MATMUL_B, "b", b)?;
    let c = operand(false, m, n, args.c_row_stride, args.c_batch_stride);
    let c: View<T> = dispatch.view(MATMUL_C, "c", c)?;
    let bias: Option<View<T>> = match args.has_bias {
        0 => None,
        _ => Some(dispatch.view(MATMUL_BIAS, "bias", Extent::packed(n))?),
    };
    dispatch.expect_points([n.into(), m.into(), batch.into()])?;

    let separable = c.writes_once()
        && c.is_apart_from(&a)
        && c.is_apart_from(&b)
        && bias.is_none_or(|bias| c.is_apart_from(&bias));
    let output = Output { args, bias, c };
    multiply(&Product { a, b, output }, separable)
}

/// The operands of one dispatch.
struct Product<'a, B, T, A = &'a Rows<'a>> {
    a: A,
    b: View<'a, B>,
    output: Output<'a, T>,
}

/// C and what is added to it.
#[derive(Clone, Copy)]
struct Output<'a, T> {
    args: matmul_args,
    bias: Option<View<'a, T>>,
    c: View<'a, T>,
}

/// A part of C that one thread computes.
struct Block {
    batch: usize,
    rows: Range<usize>,
    columns: Range<usize>,
}

impl<T: Writable> Output<'_, T> {
    /// What is added to column `column`.
    #[inline]
    fn bias_at(&self, column: usize) -> f32 {
        // SAFETY: `at` checked the place.
        self.bias
            .map_or(0.0, |bias| unsafe { T::element(bias.at(column, 1), 0) })
    }

    /// The place of `count` elements of C.
    #[inline]
    fn c_at(&self, batch: usize, row: usize, column: usize, count: usize) -> *mut T {
        let start =
            batch * self.args.c_batch_stride as usize + row * self.args.c_row_stride as usize;
        self.c.at(start + column, count)
    }
}

impl Output<'_, f32> {
    /// Rounds every element of C into that of `to`.
    fn narrow_to<T: Writable>(&self, machine: &Machine, to: &Output<T>) {
        let (m, n) = (self.args.m as usize, self.args.n as usize);
        for (batch, row) in (0..self.args.batch as usize).flat_map(|z| (0..m).map(move |i| (z, i)))
        {
            let from = self.c_at(batch, row, 0, n).cast_const();
            let to = to.c_at(batch, row, 0, n);
            // SAFETY: `c_at` checked both rows.
            machine.isa.run(Narrow { from, to, count: n });
        }
    }
}

/// Memory for a C of f32 that is rounded to the bound one's type later, and for a bias of f32.
#[derive(Default)]
struct WideOutput {
    c: Vec<f32>,
    bias: Vec<f32>,
}

impl WideOutput {
    /// `output` itself where it is f32, else one of the same shape, packed.
    fn of<'a, T: Writable>(
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

impl<'a, B: Stored, T: Writable> Product<'a, B, T, View<'a, T>> {
    /// The same with A as rows of f32.
    fn with_rows<'b>(
        &self,
        dispatch: &Dispatch,
        machine: &Machine,
        packed: &'b mut Vec<f32>,
    ) -> Result<Product<'a, B, T, Rows<'b>>, Fault>
    where
        'a: 'b,
    {
        Ok(Product {
            a: Rows::new(dispatch, machine, &self.output.args, self.a, packed)?,
            b: self.b,
            output: self.output,
        })
    }
}

impl<B: Stored, T: Writable, A: Sync> Product<'_, B, T, A> {
    #[inline]
    fn k(&self) -> usize {
        self.output.args.k as usize
    }

    /// Where row `row` of the stored B starts in its view.
    #[inline]
    fn b_row(&self, batch: usize, row: usize) -> usize {
        let args = &self.output.args;
        batch * args.b_batch_stride as usize + row * args.b_row_stride as usize
    }

    /// The address of an element of a row of the stored B, of which neither need be there: for prefetching, not to be
    /// followed.
    fn near(&self, batch: usize, row: usize, element: usize) -> *const B {
        let args = &self.output.args;
        let batch = batch.wrapping_mul(args.b_batch_stride as usize);
        let row = row.wrapping_mul(args.b_row_stride as usize);
        self.b.near(batch.wrapping_add(row).wrapping_add(element))
    }

    /// The strip that has row `row` of an interleaved B: all of its blocks are inside the view.
    #[inline]
    fn strip(&self, batch: usize, row: usize) -> *const B {
        let start = self.b_row(batch, row - row % STRIP);
        self.b.at(start, STRIP * self.k()).cast_const()
    }

    /// Calls `compute` for blocks that together are C, each some multiple of `unit` columns wide.
    fn for_blocks(
        &self,
        machine: &Machine,
        separable: bool,
        unit: usize,
        compute: impl Fn(Block) + Sync,
    ) {
        let (m, n) = (self.output.args.m as usize, self.output.args.n as usize);
        let row_blocks = m.div_ceil(ROWS);
        let units = n.div_ceil(unit);
        let grain = match separable {
            true => machine.grain(m.min(ROWS) * unit * self.k()),
            false => ALONE,
        };
        let items = self.output.args.batch as usize * row_blocks * units;
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

    /// The same for a `compute` that needs memory of its own.
    fn try_for_blocks(
        &self,
        machine: &Machine,
        separable: bool,
        unit: usize,
        compute: impl Fn(Block) -> Result<(), Exhausted> + Sync,
    ) -> Result<(), Fault> {
        let shortage = Shortage::default();
        self.for_blocks(machine, separable, unit, |block| {
            shortage.note(compute(block));
        });
        shortage.into_result("a panel of a product")
    }
}

/// A as f32 rows. Where the bound memory is not that, it is a copy whose rows end with zeros up to a multiple of
/// `GROUP`.
struct Rows<'a> {
    memory: View<'a, f32>,
    row_stride: usize,
    batch_stride: usize,
    rows: usize,
    /// 1 when all batches share one matrix.
    batches: usize,
}

impl<'a> Rows<'a> {
    fn new<T: Readable>(
        dispatch: &Dispatch,
        machine: &Machine,
        args: &matmul_args,
        a: View<'a, T>,
        packed: &'a mut Vec<f32>,
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
        let width = k.next_multiple_of(GROUP);
        // At most 32 times the bound memory's elements, unless rows overlap: then the product may not fit.
        let count = batches
            .checked_mul(m)
            .and_then(|rows| rows.checked_mul(width));
        *packed = dispatch.scratch(count.unwrap_or(usize::MAX))?;
        let memory = View::of(packed);
        machine.for_ranges(batches * m, machine.grain(4 * width), |range| {
            for row in range {
                let (batch, i) = (row / m, row % m);
                let to = memory.at(row * width, k);
                let start = batch * batch_stride;
                if args.transpose_a == 0 {
                    let from = a.at(start + i * row_stride, k).cast_const();
                    machine.isa.run(Widen { from, to, count: k });
                } else {
                    for x in 0..k {
                        let from = a.at(start + x * row_stride + i, 1);
                        // SAFETY: `at` checked both places.
                        unsafe { to.add(x).write(T::element(from, 0)) };
                    }
                }
            }
        });
        Ok(Rows {
            memory,
            row_stride: width,
            batch_stride: if batch_stride == 0 { 0 } else { m * width },
            rows: m,
            batches,
        })
    }

    fn lines(&self) -> Lines<'a, f32> {
        Lines {
            memory: self.memory,
            row_stride: self.row_stride,
            batch_stride: self.batch_stride,
        }
    }

    /// Row `row`: `k` elements, and zeros after them up to a multiple of `GROUP`.
    fn row(&self, batch: usize, row: usize, k: usize) -> *const f32 {
        let start = batch * self.batch_stride + row * self.row_stride;
        self.memory.at(start, k.next_multiple_of(GROUP))
    }
}

struct Widen<T> {
    from: *const T,
    to: *mut f32,
    count: usize,
}

impl<T: Readable> Body for Widen<T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        // SAFETY: `Rows::new` checked both places.
        unsafe { T::widen(simd, self.from, self.to, self.count) }
    }
}

struct Narrow<T> {
    from: *const f32,
    to: *mut T,
    count: usize,
}

impl<T: Writable> Body for Narrow<T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let whole = self.count - self.count % S::LANES;
        // SAFETY: whoever makes one has checked both places.
        unsafe {
            for i in (0..whole).step_by(S::LANES) {
                T::store(simd, simd.load(self.from.add(i)), self.to.add(i));
            }
            for i in whole..self.count {
                self.to.add(i).write(T::from_f32(self.from.add(i).read()));
            }
        }
    }
}

#[cfg(test)]
pub mod tests;
