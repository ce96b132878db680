//! Block-quantised B: the integers that it is made of are multiplied as integers, with activations that are rounded to integers as well.
//!
//! These have 15 bits, in two bytes: twice the products of a single byte, and none of its error, which is a hundred times as large. A
//! few rows wait for memory anyway. Of many rows the second byte is left out where it matters least ([`Precision::Mixed`]).

#![allow(
    clippy::needless_range_loop,
    reason = "closures of iterators need not be inlined, and then miss the instruction set"
)]

mod activations;
#[cfg(target_arch = "x86_64")]
mod lines;
mod panels;
mod rows;
mod strips;

use super::super::super::dispatch::Fault;
use super::super::super::elements::{Integers, InterleavedIntegers, STRIP};
#[cfg(target_arch = "x86_64")]
use super::super::super::simd::Isa;
use super::super::super::simd::Simd;
use super::super::Machine;
use super::Product;
use activations::{Activations, Precision};

/// Up to this many rows of A are multiplied with B as it lies in memory, more with panels of it.
const FEW_ROWS: usize = rows::MOST;

pub fn multiply<B: Integers>(
    machine: &Machine,
    product: &Product<B, f32>,
    separable: bool,
) -> Result<(), Fault> {
    let m = product.output.args.m as usize;
    let a = &Activations::new::<B>(machine, product.a, product.k(), Precision::of(m))?;
    #[cfg(target_arch = "x86_64")]
    if let Isa::Avx512Vbmi(_) | Isa::Avx512VbmiAhead(_) = machine.isa
        && let Some(multiply) = lines::multiply::<B>(m)
    {
        return multiply(machine, product, a, separable);
    }
    if m <= FEW_ROWS {
        product.for_blocks(machine, separable, rows::COLUMNS, |block| {
            machine.isa.run(rows::Compute { product, a, block });
        });
        return Ok(());
    }
    product.try_for_blocks(machine, separable, panels::COLUMNS, |block| {
        panels::compute(machine.isa, product, a, block)
    })
}

/// The same for a B of strips.
pub fn multiply_interleaved<B: InterleavedIntegers>(
    machine: &Machine,
    product: &Product<B, f32>,
    separable: bool,
) -> Result<(), Fault> {
    let m = product.output.args.m as usize;
    let a = &Activations::new::<B>(machine, product.a, product.k(), Precision::of(m))?;
    if m <= strips::MOST {
        product.for_blocks(machine, separable, STRIP, |block| {
            machine.isa.run(strips::Compute { product, a, block });
        });
        return Ok(());
    }
    product.try_for_blocks(machine, separable, panels::COLUMNS, |block| {
        panels::compute_interleaved(machine.isa, product, a, block)
    })
}

/// Sums + the products of bytes of B, made with `Simd::signed` where its type is signed, and of A.
#[inline(always)]
fn dot<S: Simd>(simd: S, signed: bool, sums: S::Ints, b: S::Bytes, a: S::Bytes) -> S::Ints {
    match signed {
        true => simd.dot_signed(sums, b, a),
        false => simd.dot(sums, b, a),
    }
}
