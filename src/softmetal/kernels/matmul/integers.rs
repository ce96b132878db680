//! Block-quantized B: its integers are multiplied as integers, with activations rounded to integers as well.
//!
//! These have 15 bits, in two bytes: twice the products of a single byte, and a hundredth of its error. A few rows wait
//! for memory anyway. With many rows the second byte is left out where it matters least ([`Precision::Mixed`]).

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
#[cfg(target_arch = "x86_64")]
use super::amx;
use super::{Product, Weights};
use activations::{Activations, Precision};

/// Up to this many rows of A are multiplied with B in place, more with packed panels of it.
const FEW_ROWS: usize = rows::MOST;

pub fn multiply<B: Integers>(
    machine: &Machine,
    product: &Product<B, f32>,
    separable: bool,
) -> Result<(), Fault> {
    let m = product.output.args.m as usize;
    let precision = Precision::of(machine.isa, m, FEW_ROWS);
    let a = &Activations::new::<B>(machine, product.a, product.k(), precision)?;
    #[cfg(target_arch = "x86_64")]
    if let Isa::Avx512Vbmi(_)
    | Isa::Avx512VbmiAhead(_)
    | Isa::Avx512VbmiStripsAhead(_)
    | Isa::Avx512Amx(_) = machine.isa
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
pub fn multiply_interleaved<B: InterleavedIntegers + Weights>(
    machine: &Machine,
    product: &Product<B, f32>,
    separable: bool,
) -> Result<(), Fault> {
    let m = product.output.args.m as usize;
    #[cfg(target_arch = "x86_64")]
    if let Some(amx) = machine.isa.amx()
        && m >= amx::LEAST_ROWS
    {
        return amx::multiply(amx, machine, product, separable);
    }
    let precision = Precision::of(machine.isa, m, strips::MOST);
    let a = &Activations::new::<B>(machine, product.a, product.k(), precision)?;
    if m <= strips::MOST {
        // With one row of bytes there is so little to compute that Zen 5 keeps up without prefetch instructions.
        let isa = match B::PIECES == 1 && m == 1 {
            true => machine.isa,
            false => machine.isa.for_strips(),
        };
        product.for_blocks(machine, separable, STRIP, |block| {
            isa.run(strips::Compute { product, a, block });
        });
        return Ok(());
    }
    product.try_for_blocks(machine, separable, panels::COLUMNS, |block| {
        panels::compute_interleaved(machine.isa, product, a, block)
    })
}

/// Sums of products of B's integers with a few rows of A's of 15 bits.
#[derive(Clone, Copy)]
struct Products<S: Simd> {
    /// With A's second plane; with both where they are pairs ([`Simd::PAIRS`]).
    lower: S::Ints,
    /// With A's first plane.
    upper: S::Ints,
}

impl<S: Simd> Products<S> {
    #[inline(always)]
    fn new(simd: S, start: i32) -> Products<S> {
        Products {
            lower: simd.splat_int(start),
            upper: simd.splat_int(0),
        }
    }

    /// Adds the products of four integers of B in each lane with as many of A, of both planes. `signed` is as for
    /// [`dot`].
    #[inline(always)]
    fn add(self, simd: S, signed: bool, b: S::Bytes, a: [S::Bytes; 2]) -> Products<S> {
        if S::PAIRS {
            let b = simd.pairs(signed, b);
            let first = simd.dot_pairs(self.lower, b[0], a[0]);
            return Products {
                lower: simd.dot_pairs(first, b[1], a[1]),
                ..self
            };
        }
        Products {
            lower: dot(simd, signed, self.lower, b, a[1]),
            upper: dot(simd, signed, self.upper, b, a[0]),
        }
    }

    #[inline(always)]
    fn total(self, simd: S) -> S::Vector {
        simd.to_float(match S::PAIRS {
            true => self.lower,
            false => simd.plus_128(self.lower, self.upper),
        })
    }
}

/// Sums + the products of bytes of B, made with `Simd::signed` where its type is signed, and of A.
#[inline(always)]
fn dot<S: Simd>(simd: S, signed: bool, sums: S::Ints, b: S::Bytes, a: S::Bytes) -> S::Ints {
    match signed {
        true => simd.dot_signed(sums, b, a),
        false => simd.dot(sums, b, a),
    }
}
