//! `rms_norm`.

use super::super::bindings::args::*;
use super::super::dispatch::{Dispatch, Extent, Fault, View};
use super::super::simd::{Body, Simd};
use super::{ALONE, Machine, grain};

pub fn rms_norm(dispatch: &Dispatch, machine: &Machine) -> Result<(), Fault> {
    let args: rms_norm_args = dispatch.arguments(RMS_NORM_ARGS)?;
    let (rows, width) = (args.rows, args.width);
    let x = Extent::rows(rows, args.x_row_stride, width);
    let x: View<f32> = dispatch.view(RMS_NORM_X, "x", x)?;
    let weight: View<f32> = dispatch.view(RMS_NORM_WEIGHT, "weight", Extent::packed(width))?;
    let out = Extent::rows(rows, args.out_row_stride, width);
    let out: View<f32> = dispatch.view(RMS_NORM_OUT, "out", out)?;
    dispatch.expect_simdgroups([rows.into(), 1, 1])?;

    let width = width as usize;
    let separable = out.writes_once()
        && (out.shares_rows_with(&x) || out.is_apart_from(&x))
        && out.is_apart_from(&weight);
    let grain = if separable { grain(4 * width) } else { ALONE };
    machine.for_ranges(rows as usize, grain, |rows| {
        for row in rows {
            machine.isa.run(Row {
                x: x.at(row * args.x_row_stride as usize, width),
                weight: weight.at(0, width),
                out: out.at(row * args.out_row_stride as usize, width),
                width,
                eps: args.eps,
            });
        }
    });
    Ok(())
}

struct Row {
    x: *const f32,
    weight: *const f32,
    out: *mut f32,
    width: usize,
    eps: f32,
}

impl Body for Row {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Row {
            x,
            weight,
            out,
            width,
            eps,
        } = self;
        let whole = width - width % S::LANES;
        // SAFETY: `rms_norm` checked `width` elements of each.
        unsafe {
            let mut squares = simd.splat(0.0);
            for j in (0..whole).step_by(S::LANES) {
                let x = simd.load(x.add(j));
                squares = simd.mul_add(x, x, squares);
            }
            let mut sum = simd.sum(squares);
            for j in whole..width {
                sum += x.add(j).read() * x.add(j).read();
            }
            let factor = 1.0 / (sum / width as f32 + eps).sqrt();

            for j in (0..whole).step_by(S::LANES) {
                let scaled = simd.mul(simd.load(x.add(j)), simd.splat(factor));
                simd.store(simd.mul(scaled, simd.load(weight.add(j))), out.add(j));
            }
            for j in whole..width {
                out.add(j)
                    .write(x.add(j).read() * factor * weight.add(j).read());
            }
        }
    }
}
