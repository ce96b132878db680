//! `matmul_<B>_<T>`.
//!
//! C is computed in blocks of up to [`ROWS`] rows and some columns, each by one thread. With B stored `[n][k]` and few
//! rows of A, an element of C is the dot product of two contiguous rows ([`gemv_dot`], [`gemm_dot`]). With B stored
//! `[k][n]`, rows of B are scaled and added up ([`gemv_axpy`], the axpy form). Else one operand is packed, a panel at a
//! time, so that a vector is a part of a row ([`gemm_packed_b`]) or of a column ([`gemm_packed_a`]) of C.
//! [`select`] has the table that chooses.

#[cfg(target_arch = "x86_64")]
use super::amx;
use super::gemm_packed_b::Order;
pub use super::problem::{Gemm, Output, Weights, WideOutput};
pub use super::rows::Rows;
use super::select::{Class, Layout, Strategy, select};
#[cfg(target_arch = "x86_64")]
use super::{gemm_dot, gemm_x16};
use super::{gemm_packed_a, gemm_packed_b, gemv_axpy, gemv_dot, gemv_x16, quant};
use crate::backend::cpu::bindings::{Dispatch, Extent, View};
use crate::backend::cpu::machine::Machine;
use crate::backend::cpu::quants::{
    Integers, Interleaved, InterleavedIntegers, Readable, Stored, Writable, X16_ROWS,
};
use crate::backend::cpu::scratch::Scratch;
use crate::backend::fault::Fault;
use crate::backend::ffi::args::*;

pub fn matmul<B: Readable, T: Writable>(
    dispatch: &Dispatch,
    machine: &Machine,
) -> Result<(), Fault> {
    with_gemm::<B, T>(dispatch, |gemm, separable| {
        let args = &gemm.output.args;
        if let Some(gemm) = &as_row(gemm) {
            return multiply_rows(machine, gemm, separable, Strategy::GemvAxpy);
        }
        if args.transpose_a == 0 && args.transpose_b != 0 && b_is_small(args) {
            let mut copy = None;
            let gemm = &with_columns(machine, gemm, &mut copy)?;
            return multiply_rows(machine, gemm, separable, Strategy::GemmPackedB);
        }
        let layout = match args.transpose_b {
            0 => Layout::Columns,
            _ => Layout::Rows,
        };
        match select(machine, layout, Class::of_float::<B>(), args.m) {
            Strategy::GemmPackedA => {
                let a = &gemm_packed_a::PackedA::new(machine, gemm)?;
                gemm.try_for_blocks(machine, separable, gemm_packed_a::COLUMNS, |block| {
                    gemm_packed_a::compute(machine, gemm, a, block)
                })
            }
            strategy => multiply_rows(machine, gemm, separable, strategy),
        }
    })
}

/// A product of a transposed A with one column, as that of a row with what is stored: A is read in place.
fn as_row<'a, B: Readable, T: Writable>(
    gemm: &Gemm<'a, B, T, View<'a, T>>,
) -> Option<Gemm<'a, f32, f32, View<'a, f32>>> {
    let args = gemm.output.args;
    let is_packed = (args.transpose_b != 0 || args.b_row_stride == 1) && args.c_row_stride == 1;
    if args.transpose_a == 0 || args.n != 1 || !is_packed || gemm.output.bias.is_some() {
        return None;
    }
    let output = Output {
        args: matmul_args {
            m: 1,
            n: args.m,
            a_row_stride: args.k.into(),
            a_batch_stride: args.b_batch_stride,
            b_row_stride: args.a_row_stride,
            b_batch_stride: args.a_batch_stride,
            c_row_stride: args.m.into(),
            transpose_a: 0,
            transpose_b: 0,
            ..args
        },
        bias: None,
        c: gemm.output.c.as_f32()?,
    };
    Some(Gemm {
        a: gemm.b.as_f32()?,
        b: gemm.a.as_f32()?,
        output,
    })
}

/// Whether it is less work to transpose B than A. Fewer rows of A are not packed.
fn b_is_small(args: &matmul_args) -> bool {
    args.m > 16 && args.n <= args.m / 4
}

/// The same product with a copy of B that is stored `[k][n]`.
fn with_columns<'a, B: Readable, T: Writable>(
    machine: &Machine,
    gemm: &Gemm<'a, B, T, View<'a, T>>,
    copy: &'a mut Option<Scratch>,
) -> Result<Gemm<'a, f32, T, View<'a, T>>, Fault> {
    let args = gemm.output.args;
    let stored = matmul_args {
        m: args.k,
        k: args.n,
        a_row_stride: args.b_row_stride,
        a_batch_stride: args.b_batch_stride,
        transpose_a: 1,
        ..args
    };
    let rows = Rows::new(machine, &stored, gemm.b, false, copy)?;
    Ok(Gemm {
        a: gemm.a,
        b: rows.memory,
        output: Output {
            args: matmul_args {
                b_row_stride: rows.row_stride as u64,
                b_batch_stride: rows.batch_stride as u64,
                transpose_b: 0,
                ..args
            },
            ..gemm.output
        },
    })
}

/// The strategies that read A as rows of f32. Dot products need zeros after them.
fn multiply_rows<B: Readable, T: Writable>(
    machine: &Machine,
    gemm: &Gemm<B, T, View<T>>,
    separable: bool,
    strategy: Strategy,
) -> Result<(), Fault> {
    let (mut copy, isa) = (None, machine.isa);
    let padded = matches!(strategy, Strategy::GemvDot | Strategy::GemmDot);
    let gemm = gemm.with_rows(machine, padded, &mut copy)?;
    match strategy {
        Strategy::GemvAxpy => {
            gemm.try_for_blocks(machine, separable, gemv_axpy::COLUMNS, |block| {
                gemv_axpy::compute(isa, &gemm, block)
            })
        }
        Strategy::GemmPackedB => multiply_packed(machine, &gemm, Order::Rows, separable),
        Strategy::GemvDot => {
            let gemm = &gemm;
            gemm.for_blocks(machine, separable, gemv_dot::COLUMNS, |block| {
                isa.run(gemv_dot::GemvDot { gemm, block });
            });
            Ok(())
        }
        #[cfg(target_arch = "x86_64")]
        Strategy::GemmDot => {
            let Gemm { a, b, output } = gemm;
            let Some(b) = b.as_f32() else {
                unreachable!("the table has it for a B of f32");
            };
            gemm_dot::multiply(machine, &Gemm { a, b, output }, separable)
        }
        other => unreachable!("{other:?} is for no floats in rows"),
    }
}

fn multiply_packed<B: Readable, T: Writable>(
    machine: &Machine,
    gemm: &Gemm<B, T>,
    order: Order,
    separable: bool,
) -> Result<(), Fault> {
    gemm.try_for_blocks(machine, separable, gemm_packed_b::COLUMNS, |block| {
        gemm_packed_b::compute(machine, gemm, order, separable, block)
    })
}

/// The same for a B whose rows lie in x16 panels.
pub fn matmul_x16<B: Readable + Interleaved + Weights, T: Writable>(
    dispatch: &Dispatch,
    machine: &Machine,
) -> Result<(), Fault> {
    let packed = |dispatch: &Dispatch| {
        with_panels::<B, T>(dispatch, |gemm, separable| {
            multiply_panels(machine, gemm, separable)
        })
    };
    let plain = |dispatch: &Dispatch| matmul::<B, T>(dispatch, machine);
    by_layout::<B, T>(dispatch, packed, plain)
}

fn multiply_panels<B: Readable + Interleaved + Weights, T: Writable>(
    machine: &Machine,
    gemm: &Gemm<B, T, View<T>>,
    separable: bool,
) -> Result<(), Fault> {
    let m = gemm.output.args.m;
    let strategy = select(machine, Layout::X16, Class::of_float::<B>(), m);
    let mut copy = None;
    let gemm = &gemm.with_rows(machine, strategy == Strategy::Amx, &mut copy)?;
    match (strategy, machine.amx) {
        (Strategy::GemmPackedB, _) => multiply_packed(machine, gemm, Order::X16, separable),
        (Strategy::GemvX16, _) => {
            gemm.for_blocks(machine, separable, X16_ROWS, |block| {
                let gemv = gemv_x16::GemvX16 { gemm, block };
                machine.isa.run_streaming(machine.tuning.prefetch_x16, gemv);
            });
            Ok(())
        }
        #[cfg(target_arch = "x86_64")]
        (Strategy::Amx, Some(amx)) => amx::gemm::multiply(amx, machine, gemm, separable),
        #[cfg(target_arch = "x86_64")]
        (Strategy::GemmX16, _) => {
            gemm_x16::multiply(machine, gemm, separable);
            Ok(())
        }
        _ => unreachable!("{strategy:?} is for no floats in x16 panels"),
    }
}

/// The same for a B that is made of small integers. There is one loop for each of these types, so other outputs than
/// f32 take a detour.
pub fn matmul_integers<B: Integers, T: Writable>(
    dispatch: &Dispatch,
    machine: &Machine,
) -> Result<(), Fault> {
    with_gemm::<B, T>(dispatch, |gemm, separable| {
        multiply_as_integers(dispatch, machine, gemm, separable, quant::matmul::multiply)
    })
}

fn multiply_as_integers<B: Integers, T: Writable>(
    dispatch: &Dispatch,
    machine: &Machine,
    gemm: &Gemm<B, T, View<T>>,
    separable: bool,
    multiply: impl FnOnce(&Machine, &Gemm<B, f32>, bool) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let (mut copy, mut wide) = (None, WideOutput::default());
    let Gemm { a, b, output } = gemm.with_rows(machine, true, &mut copy)?;
    let output = wide.of(dispatch, &output)?;
    let separable = separable || !T::IS_F32;
    multiply(machine, &Gemm { a, b, output }, separable)?;
    if !T::IS_F32 {
        output.narrow_to(machine, &gemm.output);
    }
    Ok(())
}

/// The same for a B whose rows lie in x16 panels.
pub fn matmul_integers_x16<B: InterleavedIntegers + Weights, T: Writable>(
    dispatch: &Dispatch,
    machine: &Machine,
) -> Result<(), Fault> {
    let packed = |dispatch: &Dispatch| {
        with_panels::<B, T>(dispatch, |gemm, separable| {
            let multiply = quant::matmul::multiply_x16;
            multiply_as_integers(dispatch, machine, gemm, separable, multiply)
        })
    };
    let plain = |dispatch: &Dispatch| matmul_integers::<B, T>(dispatch, machine);
    by_layout::<B, T>(dispatch, packed, plain)
}

/// Calls `packed` for the columns of C whose weights lie in x16 panels, and `plain` for the others: the last rows of a
/// matrix may fill no panel.
fn by_layout<B: Stored, T: Stored>(
    dispatch: &Dispatch,
    packed: impl FnOnce(&Dispatch) -> Result<(), Fault>,
    plain: impl FnOnce(&Dispatch) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let args: matmul_args = dispatch.arguments(MATMUL_ARGS)?;
    let panels = dispatch.x16_rows();
    let (n, batch, k) = (u64::from(args.n), u64::from(args.batch), u64::from(args.k));
    // Those of all matrices, which follow one another or are one.
    let rows = batch.saturating_sub(1).saturating_mul(args.b_batch_stride) / k.max(1) + n;
    if panels >= rows {
        return packed(dispatch);
    }
    if rows != n {
        return Err(dispatch.invalid(format!("of {rows} rows of b {panels} lie in panels")));
    }
    let (left, right) = (panels as u32, (n - panels) as u32);
    let first = matmul_args { n: left, ..args };
    let launch = dispatch.part(MATMUL_ARGS, &first, &[])?;
    // SAFETY: the launch is of this dispatch, and its arguments live to the end of this function.
    packed(&unsafe { dispatch.over(&launch) })?;
    let last = matmul_args { n: right, ..args };
    let columns = panels * size_of::<T>() as u64;
    let weights = panels * k / B::ELEMENTS as u64 * size_of::<B>() as u64;
    let bias = if args.has_bias == 0 { 0 } else { columns };
    let skips = [
        (MATMUL_B, weights),
        (MATMUL_C, columns),
        (MATMUL_BIAS, bias),
    ];
    let launch = dispatch.part(MATMUL_ARGS, &last, &skips)?;
    // SAFETY: as above.
    plain(&unsafe { dispatch.over(&launch) })
}

/// As [`with_gemm`], for a B that has to be whole x16 panels.
fn with_panels<B: Interleaved, T: Writable>(
    dispatch: &Dispatch,
    multiply: impl FnOnce(&Gemm<B, T, View<T>>, bool) -> Result<(), Fault>,
) -> Result<(), Fault> {
    with_gemm::<B, T>(dispatch, |gemm, separable| {
        let args = &gemm.output.args;
        let panel = X16_ROWS as u64 * u64::from(args.k);
        let packed = args.b_row_stride == u64::from(args.k)
            && args.b_batch_stride.is_multiple_of(panel.max(1));
        if args.transpose_b == 0 || !packed || !args.n.is_multiple_of(X16_ROWS as u32) {
            return Err(dispatch.invalid(format!(
                "packed b must be whole panels of {X16_ROWS} rows without gaps: transpose_b is {}, n {}, k {}, its \
                 row stride {} and its batch stride {}",
                args.transpose_b, args.n, args.k, args.b_row_stride, args.b_batch_stride
            )));
        }
        multiply(gemm, separable)
    })
}

/// Checks a dispatch and calls `multiply` with its operands and with whether several threads may compute them.
fn with_gemm<B: Stored, T: Writable>(
    dispatch: &Dispatch,
    multiply: impl FnOnce(&Gemm<B, T, View<T>>, bool) -> Result<(), Fault>,
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
    multiply(&Gemm { a, b, output }, separable)
}

#[cfg(test)]
pub mod tests;
