//! Block-quantized B: its integers are multiplied as integers, with activations rounded to integers as well.
//!
//! These have 15 bits, in two bytes: twice the products of a single byte, and a hundredth of its error. A few rows wait
//! for memory anyway. With many rows the second byte is left out where it matters least ([`Precision::Mixed`]).

#[cfg(target_arch = "x86_64")]
use super::gemv_wide;
use super::quantize_a::{Activations, Precision};
use super::{gemm_packed_b, gemv_dot, gemv_x16};
#[cfg(target_arch = "x86_64")]
use crate::backend::cpu::gemm::amx;
pub use crate::backend::cpu::gemm::problem::{Product, Weights};
use crate::backend::cpu::machine::Machine;
use crate::backend::cpu::quants::{Integers, InterleavedIntegers, STRIP};
#[cfg(target_arch = "x86_64")]
use crate::backend::cpu::simd::Isa;
use crate::backend::fault::Fault;

/// Up to this many rows of A are multiplied with B in place, more with packed panels of it.
const FEW_ROWS: usize = gemv_dot::MOST;

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
        && let Some(multiply) = gemv_wide::multiply::<B>(m)
    {
        return multiply(machine, product, a, separable);
    }
    if m <= FEW_ROWS {
        product.for_blocks(machine, separable, gemv_dot::COLUMNS, |block| {
            machine.isa.run(gemv_dot::Compute { product, a, block });
        });
        return Ok(());
    }
    product.try_for_blocks(machine, separable, gemm_packed_b::COLUMNS, |block| {
        gemm_packed_b::compute(machine.isa, product, a, block)
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
        && m >= amx::gemm::LEAST_ROWS
    {
        return amx::gemm::multiply(amx, machine, product, separable);
    }
    let precision = Precision::of(machine.isa, m, gemv_x16::MOST);
    let a = &Activations::new::<B>(machine, product.a, product.k(), precision)?;
    if m <= gemv_x16::MOST {
        // With one row of bytes there is so little to compute that Zen 5 keeps up without prefetch instructions.
        let isa = match B::PIECES == 1 && m == 1 {
            true => machine.isa,
            false => machine.isa.for_strips(),
        };
        product.for_blocks(machine, separable, STRIP, |block| {
            isa.run(gemv_x16::Compute { product, a, block });
        });
        return Ok(());
    }
    product.try_for_blocks(machine, separable, gemm_packed_b::COLUMNS, |block| {
        gemm_packed_b::compute_interleaved(machine.isa, product, a, block)
    })
}
