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
pub use crate::backend::cpu::gemm::problem::{Gemm, Weights};
use crate::backend::cpu::machine::Machine;
use crate::backend::cpu::quants::{Integers, InterleavedIntegers, X16_ROWS};
#[cfg(target_arch = "x86_64")]
use crate::backend::cpu::simd::Isa;
use crate::backend::fault::Fault;

/// Up to this many rows of A are multiplied with B in place, more with packed panels of it.
const FEW_ROWS: usize = gemv_dot::MAX_ROWS;

pub fn multiply<B: Integers>(
    machine: &Machine,
    gemm: &Gemm<B, f32>,
    separable: bool,
) -> Result<(), Fault> {
    let m = gemm.output.args.m as usize;
    let precision = Precision::of(machine.isa, m, FEW_ROWS);
    let a = &Activations::new::<B>(machine, gemm.a, gemm.k(), precision)?;
    #[cfg(target_arch = "x86_64")]
    if let Isa::Avx512Vbmi(_)
    | Isa::Avx512VbmiAhead(_)
    | Isa::Avx512VbmiX16Ahead(_)
    | Isa::Avx512Amx(_) = machine.isa
        && let Some(multiply) = gemv_wide::multiply::<B>(m)
    {
        return multiply(machine, gemm, a, separable);
    }
    if m <= FEW_ROWS {
        gemm.for_blocks(machine, separable, gemv_dot::COLUMNS, |block| {
            machine.isa.run(gemv_dot::QuantGemvDot { gemm, a, block });
        });
        return Ok(());
    }
    gemm.try_for_blocks(machine, separable, gemm_packed_b::COLUMNS, |block| {
        gemm_packed_b::compute(machine.isa, gemm, a, block)
    })
}

/// The same for a B of x16 panels.
pub fn multiply_interleaved<B: InterleavedIntegers + Weights>(
    machine: &Machine,
    gemm: &Gemm<B, f32>,
    separable: bool,
) -> Result<(), Fault> {
    let m = gemm.output.args.m as usize;
    #[cfg(target_arch = "x86_64")]
    if let Some(amx) = machine.isa.amx()
        && m >= amx::gemm::MIN_ROWS_QUANT
    {
        return amx::gemm::multiply(amx, machine, gemm, separable);
    }
    let precision = Precision::of(machine.isa, m, gemv_x16::MAX_ROWS);
    let a = &Activations::new::<B>(machine, gemm.a, gemm.k(), precision)?;
    if m <= gemv_x16::MAX_ROWS {
        // With one row of bytes there is so little to compute that Zen 5 keeps up without prefetch instructions.
        let isa = match B::PIECES == 1 && m == 1 {
            true => machine.isa,
            false => machine.isa.for_x16(),
        };
        gemm.for_blocks(machine, separable, X16_ROWS, |block| {
            isa.run(gemv_x16::QuantGemvX16 { gemm, a, block });
        });
        return Ok(());
    }
    gemm.try_for_blocks(machine, separable, gemm_packed_b::COLUMNS, |block| {
        gemm_packed_b::compute_interleaved(machine.isa, gemm, a, block)
    })
}
