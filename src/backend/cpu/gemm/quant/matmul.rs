//! Block-quantized B: its integers are multiplied as integers, with activations rounded to integers as well.
//!
//! These have 15 bits, in two bytes: twice the products of a single byte, and a hundredth of its error. A few rows wait
//! for memory anyway. With many rows the second byte is left out where it matters least ([`Precision::Mixed`]).

use super::gemm_packed_b::{Fill, FillFromX16};
#[cfg(target_arch = "x86_64")]
use super::gemv_wide;
use super::quantize_a::{Activations, Precision};
use super::{gemm_packed_b, gemv_dot, gemv_x16};
#[cfg(target_arch = "x86_64")]
use crate::backend::cpu::gemm::amx;
pub use crate::backend::cpu::gemm::problem::{Gemm, Weights};
use crate::backend::cpu::gemm::select::{Class, Layout, Strategy, select};
use crate::backend::cpu::machine::Machine;
use crate::backend::cpu::quants::{Integers, InterleavedIntegers, X16_ROWS};
use crate::backend::fault::Fault;

pub fn multiply<B: Integers>(
    machine: &Machine,
    gemm: &Gemm<B, f32>,
    separable: bool,
) -> Result<(), Fault> {
    let m = gemm.output.args.m;
    let strategy = select(machine, Layout::Rows, class::<B>(), m);
    let is_gemv = strategy == Strategy::QuantGemvDot;
    let precision = Precision::of(machine.isa, m as usize, is_gemv);
    let a = &Activations::new::<B>(machine, &gemm.a, gemm.k(), precision)?;
    match strategy {
        #[cfg(target_arch = "x86_64")]
        Strategy::QuantGemvWide => match gemv_wide::of_type::<B>() {
            Some(multiply) => multiply(machine, gemm, a, separable),
            None => unreachable!("the class of the type says that there is one"),
        },
        Strategy::QuantGemvDot => {
            gemm.for_blocks(machine, separable, gemv_dot::COLUMNS, |block| {
                machine.isa.run(gemv_dot::QuantGemvDot { gemm, a, block });
            });
            Ok(())
        }
        Strategy::QuantGemmPackedB => {
            gemm.try_for_blocks(machine, separable, gemm_packed_b::COLUMNS, |block| {
                gemm_packed_b::compute(machine.isa, gemm, a, block, |part, panel| {
                    machine.isa.run(Fill { gemm, part, panel });
                })
            })
        }
        other => unreachable!("{other:?} is for no blocks in rows"),
    }
}

fn class<B: Integers>() -> Class {
    #[cfg(target_arch = "x86_64")]
    let wide = gemv_wide::of_type::<B>().is_some();
    #[cfg(not(target_arch = "x86_64"))]
    let wide = false;
    match wide {
        true => Class::WideBlock,
        false => Class::Block,
    }
}

/// The same for a B of x16 panels.
pub fn multiply_x16<B: InterleavedIntegers + Weights>(
    machine: &Machine,
    gemm: &Gemm<B, f32>,
    separable: bool,
) -> Result<(), Fault> {
    let m = gemm.output.args.m;
    let strategy = select(machine, Layout::X16, Class::Block, m);
    #[cfg(target_arch = "x86_64")]
    if let (Strategy::Amx, Some(amx)) = (strategy, machine.amx) {
        return amx::gemm::multiply(amx, machine, gemm, separable);
    }
    let is_gemv = strategy == Strategy::QuantGemvX16;
    let precision = Precision::of(machine.isa, m as usize, is_gemv);
    let a = &Activations::new::<B>(machine, &gemm.a, gemm.k(), precision)?;
    match strategy {
        Strategy::QuantGemvX16 => {
            let prefetch = match B::PIECES == 1 && m == 1 {
                true => machine.tuning.prefetch_x16_bytes,
                false => machine.tuning.prefetch_x16,
            };
            gemm.for_blocks(machine, separable, X16_ROWS, |block| {
                let gemv = gemv_x16::QuantGemvX16 { gemm, a, block };
                machine.isa.run_streaming(prefetch, gemv);
            });
            Ok(())
        }
        Strategy::QuantGemmPackedB => {
            gemm.try_for_blocks(machine, separable, gemm_packed_b::COLUMNS, |block| {
                gemm_packed_b::compute(machine.isa, gemm, a, block, |part, panel| {
                    machine.isa.run(FillFromX16 { gemm, part, panel });
                })
            })
        }
        other => unreachable!("{other:?} is for no blocks in x16 panels"),
    }
}
