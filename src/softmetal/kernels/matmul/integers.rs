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

use std::sync::atomic::{AtomicBool, Ordering};

use super::super::super::dispatch::Fault;
use super::super::super::elements::Integers;
#[cfg(target_arch = "x86_64")]
use super::super::super::simd::Isa;
use super::super::Machine;
use super::Product;
use activations::{Activations, Precision};

/// Up to this many rows of A are multiplied with B as it lies in memory, more with panels of it.
const FEW_ROWS: usize = rows::MOST;
/// Up to this many rows have all of their 15 bits.
const EXACT_ROWS: usize = 8;

pub fn multiply<B: Integers>(
    machine: &Machine,
    product: &Product<B, f32>,
    separable: bool,
) -> Result<(), Fault> {
    let m = product.output.args.m as usize;
    let precision = match m <= EXACT_ROWS {
        true => Precision::Exact,
        false => Precision::Mixed,
    };
    let a = &Activations::new::<B>(machine, product.a, product.k(), precision)?;
    #[cfg(target_arch = "x86_64")]
    if let Isa::Avx512(_) = machine.isa
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
    let exhausted = AtomicBool::new(false);
    product.for_blocks(machine, separable, panels::COLUMNS, |block| {
        if panels::compute(machine.isa, product, a, block).is_err() {
            exhausted.store(true, Ordering::Relaxed);
        }
    });
    match exhausted.into_inner() {
        true => Err(Fault::OutOfMemory(format!(
            "no memory for a panel of {} rows of weights",
            panels::COLUMNS
        ))),
        false => Ok(()),
    }
}
