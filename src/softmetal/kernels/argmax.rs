//! `argmax`.

use super::super::bindings::args::*;
use super::super::dispatch::{Dispatch, Extent, Fault, View};
use super::{ALONE, Machine, grain};

pub fn argmax(dispatch: &Dispatch, machine: &Machine) -> Result<(), Fault> {
    let args: argmax_args = dispatch.arguments(ARGMAX_ARGS)?;
    let x = Extent::rows(args.rows, args.x_row_stride, args.width);
    let x: View<f32> = dispatch.view(ARGMAX_X, "x", x)?;
    let out: View<u32> = dispatch.view(ARGMAX_OUT, "out", Extent::packed(args.rows))?;
    dispatch.expect_simdgroups([args.rows.into(), 1, 1])?;

    let (stride, width) = (args.x_row_stride as usize, args.width as usize);
    let grain = if out.is_apart_from(&x) {
        grain(width)
    } else {
        ALONE
    };
    machine.for_ranges(args.rows as usize, grain, |rows| {
        for row in rows {
            // SAFETY: `at` checked the row and the result's place.
            unsafe { *out.at(row, 1) = lowest_argmax(x.at(row * stride, width), width) };
        }
    });
    Ok(())
}

/// # Safety
/// `row` is readable for `width` values.
unsafe fn lowest_argmax(row: *const f32, width: usize) -> u32 {
    let (mut index, mut largest) = (0, f32::NAN);
    for j in 0..width {
        // SAFETY: the caller's promise.
        let value = unsafe { row.add(j).read() };
        // NaN is less than everything, so also less than minus infinity.
        if value > largest || (largest.is_nan() && !value.is_nan()) {
            (index, largest) = (j, value);
        }
    }
    index as u32
}
