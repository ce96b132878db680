//! `softmax`.

use crate::backend::cpu::bindings::{Dispatch, Extent, View};
use crate::backend::cpu::machine::{ALONE, Machine};
use crate::backend::fault::Fault;
use crate::backend::ffi::args::*;

pub fn softmax(dispatch: &Dispatch, machine: &Machine) -> Result<(), Fault> {
    let args: softmax_args = dispatch.arguments(SOFTMAX_ARGS)?;
    let (rows, width) = (args.rows, args.width);
    let x = Extent::rows(rows, args.x_row_stride, width);
    let x: View<f32> = dispatch.view(SOFTMAX_X, "x", x)?;
    let out = Extent::rows(rows, args.out_row_stride, width);
    let out: View<f32> = dispatch.view(SOFTMAX_OUT, "out", out)?;
    dispatch.expect_points([rows.into(), 1, 1])?;

    let (x_stride, out_stride) = (args.x_row_stride as usize, args.out_row_stride as usize);
    let width = width as usize;
    let separable = out.writes_once() && (out.aliases_rows_of(&x) || out.is_apart_from(&x));
    let grain = if separable {
        machine.grain(16 * width)
    } else {
        ALONE
    };
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
    // SAFETY: the caller's promise. Each x is read for the last time before the out of its index is written: they may
    // be the same.
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

#[cfg(test)]
pub mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::backend::cpu::testing::*;

    fn check(rows: usize, width: usize, gaps: [usize; 2], scale: f32, in_place: bool) {
        let strides = [
            width + gaps[0],
            width + if in_place { gaps[0] } else { gaps[1] },
        ];
        let spread = |value: f32| value * 20.0;
        let x: Vec<f32> = Numbers::new(width as u64).vec::<f32>(rows * strides[0]);
        let x: Vec<f32> = x.into_iter().map(spread).collect();
        let args = softmax_args {
            x_row_stride: strides[0] as u64,
            out_row_stride: strides[1] as u64,
            rows: rows as u32,
            width: width as u32,
            scale,
            reserved: 0,
        };
        let run = |on: Executor| {
            let (mut x, mut out) = (x.clone(), vec![f32::POISON; rows * strides[1]]);
            let call = Call::new("softmax")
                .covering([rows, 1, 1])
                .bind(SOFTMAX_X, &mut x);
            let call = match in_place {
                true => call.bind_same(SOFTMAX_OUT, SOFTMAX_X),
                false => call.bind(SOFTMAX_OUT, &mut out),
            };
            call.arguments(SOFTMAX_ARGS, &args)
                .run_on(on)
                .expect("good arguments");
            if in_place { x } else { out }
        };
        on_every_executor(run, |out| {
            for row in 0..rows {
                let scores: Vec<f64> = x[row * strides[0]..][..width]
                    .iter()
                    .map(|x| f64::from(scale) * f64::from(*x))
                    .collect();
                let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let sum: f64 = scores.iter().map(|score| (score - largest).exp()).sum();
                for (j, score) in scores.iter().enumerate() {
                    let expected = (score - largest).exp() / sum;
                    // Roundings of the score, of the largest and of their difference shift the exponent.
                    let shift = 2.0 * (score.abs() + largest.abs()) + 8.0;
                    let tolerance = expected * shift * f32::ROUNDING;
                    let value = out[row * strides[1] + j].into();
                    assert_close(
                        value,
                        expected,
                        tolerance + 1e-40,
                        format_args!("{row}, {j}"),
                    );
                }
            }
            if !in_place {
                assert_untouched(out, row_ranges(rows, strides[1], width));
            }
        });
    }

    pub fn at_edge(edge: usize) {
        check(5, edge, [0, 0], 1.0, false);
        check(5, edge, [3, 3], -1.0, true);
        check(edge, 6, [7, 2], 0.125, false);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn any_shape(
            rows in 1usize..20, width in 1usize..300, gaps: [u8; 2], scale in -2f32..2.0, in_place: bool,
        ) {
            check(rows, width, gaps.map(|gap| usize::from(gap) % 16), scale, in_place);
        }
    }

    #[test]
    fn infinities_do_as_the_formula_says() {
        const MIN: f32 = f32::NEG_INFINITY;
        let run = |row: [f32; 3]| {
            let (mut x, mut out) = (row, [f32::POISON; 3]);
            let args = softmax_args {
                rows: 1,
                width: 3,
                scale: 1.0,
                ..Default::default()
            };
            Call::new("softmax")
                .bind(SOFTMAX_X, &mut x)
                .bind(SOFTMAX_OUT, &mut out)
                .arguments(SOFTMAX_ARGS, &args)
                .run(&machines()[0])
                .expect("good arguments");
            out
        };
        assert_eq!(run([MIN, 1.0, MIN]), [0.0, 1.0, 0.0]);
        assert_eq!(run([88.0, 88.0, MIN]), [0.5, 0.5, 0.0]);
        assert!(
            run([MIN; 3])
                .iter()
                .all(|value| value.is_nan() && value.bits() != f32::POISON.bits())
        );
    }

    #[test]
    fn a_row_outside_the_buffer_is_a_fault() {
        let args = softmax_args {
            x_row_stride: 4,
            out_row_stride: 5,
            rows: 3,
            width: 4,
            ..Default::default()
        };
        let run = |x: usize, out: usize| {
            let (mut x, mut out) = (vec![0f32; x], vec![0f32; out]);
            let call = Call::new("softmax");
            let call = call.bind(SOFTMAX_X, &mut x).bind(SOFTMAX_OUT, &mut out);
            fault(call.arguments(SOFTMAX_ARGS, &args).run(&machines()[0])).0
        };
        assert_eq!(run(12, 14), "ok");
        assert_eq!(run(11, 14), "out of bounds");
        assert_eq!(run(12, 13), "out of bounds");
    }
}
