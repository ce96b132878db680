//! `rms_norm`.

use crate::backend::cpu::bindings::{Dispatch, Extent, View};
use crate::backend::cpu::machine::{ALONE, Machine};
use crate::backend::cpu::simd::{Body, Simd};
use crate::backend::fault::Fault;
use crate::backend::ffi::args::*;

pub fn rms_norm(dispatch: &Dispatch, machine: &Machine) -> Result<(), Fault> {
    let args: rms_norm_args = dispatch.arguments(RMS_NORM_ARGS)?;
    let (rows, width) = (args.rows, args.width);
    let x = Extent::rows(rows, args.x_row_stride, width);
    let x: View<f32> = dispatch.view(RMS_NORM_X, "x", x)?;
    let weight: View<f32> = dispatch.view(RMS_NORM_WEIGHT, "weight", Extent::packed(width))?;
    let out = Extent::rows(rows, args.out_row_stride, width);
    let out: View<f32> = dispatch.view(RMS_NORM_OUT, "out", out)?;
    dispatch.expect_points([rows.into(), 1, 1])?;

    let width = width as usize;
    let separable = out.writes_once()
        && (out.aliases_rows_of(&x) || out.is_apart_from(&x))
        && out.is_apart_from(&weight);
    let grain = if separable {
        machine.grain(4 * width)
    } else {
        ALONE
    };
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

#[cfg(test)]
pub mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::backend::cpu::testing::*;

    fn check(rows: usize, width: usize, gaps: [usize; 2], eps: f32, in_place: bool) {
        let strides = [
            width + gaps[0],
            width + if in_place { gaps[0] } else { gaps[1] },
        ];
        let mut numbers = Numbers::new(width as u64);
        let x: Vec<f32> = numbers.vec(rows * strides[0]);
        let weight: Vec<f32> = numbers.vec(width);
        let args = rms_norm_args {
            x_row_stride: strides[0] as u64,
            out_row_stride: strides[1] as u64,
            rows: rows as u32,
            width: width as u32,
            eps,
            reserved: 0,
        };
        let run = |on: Executor| {
            let (mut x, mut weight) = (x.clone(), weight.clone());
            let mut out = vec![f32::POISON; rows * strides[1]];
            let call = Call::new("rms_norm").covering([rows, 1, 1]);
            let call = call
                .bind(RMS_NORM_X, &mut x)
                .bind(RMS_NORM_WEIGHT, &mut weight);
            let call = match in_place {
                true => call.bind_same(RMS_NORM_OUT, RMS_NORM_X),
                false => call.bind(RMS_NORM_OUT, &mut out),
            };
            call.arguments(RMS_NORM_ARGS, &args)
                .run_on(on)
                .expect("good arguments");
            if in_place { x } else { out }
        };
        on_every_executor(run, |out| {
            for row in 0..rows {
                let row_x = &x[row * strides[0]..][..width];
                let squares: f64 = row_x.iter().map(|x| f64::from(*x).powi(2)).sum();
                let factor = 1.0 / (squares / width as f64 + f64::from(eps)).sqrt();
                for j in 0..width {
                    let expected = f64::from(row_x[j]) * factor * f64::from(weight[j]);
                    // The sum of squares is off by up to `width` roundings, halved by the root; then a handful.
                    let tolerance = (width as f64 / 2.0 + 6.0) * f32::ROUNDING * expected.abs();
                    let value = out[row * strides[1] + j].into();
                    assert_close(value, expected, tolerance, format_args!("{row}, {j}"));
                }
            }
            if !in_place {
                assert_untouched(out, row_ranges(rows, strides[1], width));
            }
        });
    }

    pub fn at_edge(edge: usize) {
        check(4, edge, [0, 0], 1e-5, false);
        check(4, edge, [3, 3], 1e-6, true);
        check(edge, 5, [3, 6], 0.5, false);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn any_shape(
            rows in 1usize..20, width in 1usize..300, gaps: [u8; 2], eps in 1e-6f32..1.0, in_place: bool,
        ) {
            check(rows, width, gaps.map(|gap| usize::from(gap) % 16), eps, in_place);
        }
    }

    #[test]
    fn what_lies_outside_is_a_fault() {
        let args = rms_norm_args {
            x_row_stride: 4,
            out_row_stride: 5,
            rows: 3,
            width: 4,
            ..Default::default()
        };
        let run = |lengths: [usize; 3]| {
            let [mut x, mut weight, mut out] = lengths.map(|length| vec![0f32; length]);
            let call = Call::new("rms_norm").bind(RMS_NORM_X, &mut x);
            let call = call
                .bind(RMS_NORM_WEIGHT, &mut weight)
                .bind(RMS_NORM_OUT, &mut out);
            fault(call.arguments(RMS_NORM_ARGS, &args).run(&machines()[0])).0
        };
        assert_eq!(run([12, 4, 14]), "ok");
        for short in [[11, 4, 14], [12, 3, 14], [12, 4, 13]] {
            assert_eq!(run(short), "out of bounds");
        }
    }

    #[test]
    fn the_grid_must_be_one_simdgroup_for_each_row() {
        let args = rms_norm_args {
            rows: 3,
            width: 4,
            x_row_stride: 4,
            out_row_stride: 4,
            ..Default::default()
        };
        for (threadgroup, grid, expected) in [
            ([32, 1, 1], [3, 1, 1], "ok"),
            ([32, 1, 1], [2, 1, 1], "invalid"),
            ([64, 1, 1], [3, 1, 1], "invalid"),
        ] {
            let (mut x, mut weight) = ([0f32; 12], [0f32; 4]);
            let call = Call::new("rms_norm").grid(grid).threadgroup(threadgroup);
            let call = call
                .bind(RMS_NORM_X, &mut x)
                .bind(RMS_NORM_WEIGHT, &mut weight);
            let call = call
                .bind_same(RMS_NORM_OUT, RMS_NORM_X)
                .arguments(RMS_NORM_ARGS, &args);
            let outcome = fault(call.run(&machines()[0])).0;
            assert_eq!(outcome, expected, "{grid:?} of {threadgroup:?}");
        }
    }
}
