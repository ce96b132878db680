//! `softmax`.

use super::super::bindings::args::*;
use super::super::dispatch::{Dispatch, Extent, Fault, View};
use super::{ALONE, Machine, grain};

pub fn softmax(dispatch: &Dispatch, machine: &Machine) -> Result<(), Fault> {
    let args: softmax_args = dispatch.arguments(SOFTMAX_ARGS)?;
    let (rows, width) = (args.rows, args.width);
    let x = Extent::rows(rows, args.x_row_stride, width);
    let x: View<f32> = dispatch.view(SOFTMAX_X, "x", x)?;
    let out = Extent::rows(rows, args.out_row_stride, width);
    let out: View<f32> = dispatch.view(SOFTMAX_OUT, "out", out)?;
    dispatch.expect_simdgroups([rows.into(), 1, 1])?;

    let (x_stride, out_stride) = (args.x_row_stride as usize, args.out_row_stride as usize);
    let width = width as usize;
    let separable = out.writes_once() && (out.shares_rows_with(&x) || out.is_apart_from(&x));
    let grain = if separable { grain(16 * width) } else { ALONE };
    machine.for_ranges(rows as usize, grain, |rows| {
        for row in rows {
            let x = x.at(row * x_stride, width);
            let out = out.at(row * out_stride, width);
            // SAFETY: `at` checked both rows.
            unsafe { softmax_row(x, out, width, args.scale) };
        }
    });
    Ok(())
}

/// # Safety
/// `x` is readable and `out` writable for `width` values.
unsafe fn softmax_row(x: *const f32, out: *mut f32, width: usize, scale: f32) {
    // SAFETY: the caller's promise. Each x is read for the last time before the out of its index is written: they may be the same.
    unsafe {
        let mut largest = f32::NEG_INFINITY;
        for j in 0..width {
            largest = largest.max(scale * x.add(j).read());
        }
        let mut sum = 0f64;
        for j in 0..width {
            let exponential = (scale * x.add(j).read() - largest).exp();
            out.add(j).write(exponential);
            sum += f64::from(exponential);
        }
        let sum = sum as f32;
        for j in 0..width {
            out.add(j).write(out.add(j).read() / sum);
        }
    }
}
