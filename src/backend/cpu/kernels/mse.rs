//! `mse`.

use std::ops::Range;

use crate::backend::cpu::bindings::{Dispatch, Extent, View};
use crate::backend::cpu::machine::{ALONE, Machine};
use crate::backend::cpu::simd::{Body, Simd};
use crate::backend::fault::Fault;
use crate::backend::ffi::args::*;

pub fn mse(dispatch: &Dispatch, machine: &Machine) -> Result<(), Fault> {
    let args: mse_args = dispatch.arguments(MSE_ARGS)?;
    let rows = |stride| Extent::rows(args.rows, stride, args.width);
    let prediction: View<f32> = dispatch.view(
        MSE_PREDICTION,
        "prediction",
        rows(args.prediction_row_stride),
    )?;
    let target: View<f32> = dispatch.view(MSE_TARGET, "target", rows(args.target_row_stride))?;
    let gradient: View<f32> =
        dispatch.view(MSE_GRADIENT, "gradient", rows(args.gradient_row_stride))?;
    let loss: View<f32> = dispatch.view(MSE_LOSS, "loss", Extent::packed(args.rows))?;
    dispatch.expect_points([args.rows.into(), 1, 1])?;

    let width = args.width as usize;
    let inputs = [&prediction, &target];
    let separable = gradient.writes_once()
        && gradient.is_apart_from(&loss)
        && (inputs.into_iter()).all(|x| gradient.is_apart_from(x) && loss.is_apart_from(x));
    let grain = if separable {
        machine.grain(4 * width)
    } else {
        ALONE
    };
    machine.for_ranges(args.rows as usize, grain, |rows| {
        machine.isa.run(Rows {
            args,
            prediction,
            target,
            gradient,
            loss,
            rows,
        });
    });
    Ok(())
}

/// Writes the gradients of some rows and, for each, the sum of its squared differences, scaled.
struct Rows<'a> {
    args: mse_args,
    prediction: View<'a, f32>,
    target: View<'a, f32>,
    gradient: View<'a, f32>,
    loss: View<'a, f32>,
    rows: Range<usize>,
}

impl Body for Rows<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let (width, scale) = (self.args.width as usize, self.args.scale);
        for row in self.rows {
            let at = |view: &View<f32>, stride: u64| view.at(row * stride as usize, width);
            let prediction = at(&self.prediction, self.args.prediction_row_stride);
            let target = at(&self.target, self.args.target_row_stride);
            let gradient = at(&self.gradient, self.args.gradient_row_stride);
            let mut sum = 0f64;
            for j in 0..width {
                // SAFETY: `at` checked `width` elements of each.
                unsafe {
                    let difference = prediction.add(j).read() - target.add(j).read();
                    gradient.add(j).write(2.0 * scale * difference);
                    sum += f64::from(difference * difference);
                }
            }
            // SAFETY: `at` checked the place.
            unsafe { (self.loss.at(row, 1)).write((f64::from(scale) * sum) as f32) };
        }
    }
}

#[cfg(test)]
pub mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::backend::cpu::testing::*;

    fn check(rows: usize, width: usize, gaps: [usize; 3], scale: f32) {
        let [p, t, g] = gaps.map(|gap| width + gap);
        let mut numbers = Numbers::new((rows * width) as u64);
        let (prediction, target): (Vec<f32>, Vec<f32>) =
            (numbers.vec(rows * p), numbers.vec(rows * t));
        let args = mse_args {
            prediction_row_stride: p as u64,
            target_row_stride: t as u64,
            gradient_row_stride: g as u64,
            rows: rows as u32,
            width: width as u32,
            scale,
            reserved: 0,
        };
        // The gradient's rows and then the losses.
        let run = |on: Executor| {
            let [mut prediction, mut target] = [&prediction, &target].map(Clone::clone);
            let (mut gradient, mut loss) =
                (vec![f32::POISON; rows * g], vec![f32::POISON; rows + 1]);
            Call::new("mse")
                .covering([rows, 1, 1])
                .bind(MSE_PREDICTION, &mut prediction)
                .bind(MSE_TARGET, &mut target)
                .bind(MSE_GRADIENT, &mut gradient)
                .bind(MSE_LOSS, &mut loss)
                .arguments(MSE_ARGS, &args)
                .run_on(on)
                .expect("good arguments");
            gradient.extend(loss);
            gradient
        };
        on_every_executor(run, |out| {
            let scale = f64::from(scale);
            for row in 0..rows {
                let difference =
                    |j| f64::from(prediction[row * p + j]) - f64::from(target[row * t + j]);
                for j in 0..width {
                    let expected = 2.0 * scale * difference(j);
                    let tolerance = 3.0 * f32::ROUNDING * expected.abs();
                    let what = format!("gradient {row}, {j}");
                    assert_close(out[row * g + j].into(), expected, tolerance, what);
                }
                let expected = scale * (0..width).map(|j| difference(j).powi(2)).sum::<f64>();
                // A square has three roundings of its own, each addition one, and the product with the scale one.
                let tolerance = (width as f64 + 4.0) * f32::ROUNDING * expected.abs();
                let loss = out[rows * g + row].into();
                assert_close(loss, expected, tolerance, format_args!("loss {row}"));
            }
            let losses = rows * g..rows * g + rows;
            assert_untouched(out, row_ranges(rows, g, width).chain([losses]));
        });
    }

    pub fn at_edge(edge: usize) {
        check(5, edge, [0, 0, 0], 1.0);
        check(edge, 6, [7, 2, 3], 0.125);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn any_shape(rows in 1usize..20, width in 1usize..300, gaps: [u8; 3], scale in 0.01f32..2.0) {
            check(rows, width, gaps.map(|gap| usize::from(gap) % 8), scale);
        }
    }
}
