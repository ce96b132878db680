//! `sum_squares`.

use crate::backend::cpu::bindings::{Dispatch, Extent, View};
use crate::backend::cpu::machine::{ALONE, Machine};
use crate::backend::cpu::simd::{Body, Simd};
use crate::backend::fault::Fault;
use crate::backend::ffi::args::*;

pub fn sum_squares(dispatch: &Dispatch, machine: &Machine) -> Result<(), Fault> {
    let args: sum_squares_args = dispatch.arguments(SUM_SQUARES_ARGS)?;
    let x = Extent::rows(args.rows, args.x_row_stride, args.width);
    let x: View<f32> = dispatch.view(SUM_SQUARES_X, "x", x)?;
    let out: View<f32> = dispatch.view(SUM_SQUARES_OUT, "out", Extent::packed(args.rows))?;
    dispatch.expect_points([args.rows.into(), 1, 1])?;

    let width = args.width as usize;
    let grain = match out.is_apart_from(&x) {
        true => machine.grain(width),
        false => ALONE,
    };
    machine.for_ranges(args.rows as usize, grain, |rows| {
        for row in rows {
            let x = x.at(row * args.x_row_stride as usize, width);
            let squares = machine.isa.run(Row { x, width });
            // SAFETY: `at` checked the place.
            unsafe { out.at(row, 1).write(squares) };
        }
    });
    Ok(())
}

struct Row {
    x: *const f32,
    width: usize,
}

impl Body for Row {
    type Output = f32;

    #[inline(always)]
    fn run<S: Simd>(self, _: S) -> f32 {
        /// Sums that a compiler makes vectors of.
        const SUMS: usize = 16;
        let mut sums = [0f64; SUMS];
        let whole = self.width - self.width % SUMS;
        // SAFETY: `sum_squares` checked `width` elements.
        let square = |j: usize| f64::from(unsafe { self.x.add(j).read() }).powi(2);
        for first in (0..whole).step_by(SUMS) {
            for (place, sum) in sums.iter_mut().enumerate() {
                *sum += square(first + place);
            }
        }
        let rest: f64 = (whole..self.width).map(square).sum();
        (sums.iter().sum::<f64>() + rest) as f32
    }
}

#[cfg(test)]
pub mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::backend::cpu::testing::*;

    fn check(rows: usize, width: usize, gap: usize) {
        let stride = width + gap;
        let x: Vec<f32> = Numbers::new((rows * width) as u64).vec(rows * stride);
        let args = sum_squares_args {
            x_row_stride: stride as u64,
            rows: rows as u32,
            width: width as u32,
        };
        let run = |on: Executor| {
            let (mut x, mut out) = (x.clone(), vec![f32::POISON; rows + 1]);
            Call::new("sum_squares")
                .covering([rows, 1, 1])
                .bind(SUM_SQUARES_X, &mut x)
                .bind(SUM_SQUARES_OUT, &mut out)
                .arguments(SUM_SQUARES_ARGS, &args)
                .run_on(on)
                .expect("good arguments");
            out
        };
        on_every_executor(run, |out| {
            for row in 0..rows {
                let squares = x[row * stride..][..width]
                    .iter()
                    .map(|x| f64::from(*x).powi(2));
                let expected: f64 = squares.sum();
                // Each square and each addition of positive numbers rounds.
                let tolerance = (width as f64 + 1.0) * f32::ROUNDING * expected;
                let value = out[row].into();
                assert_close(value, expected, tolerance, format_args!("row {row}"));
            }
            assert_untouched(out, std::iter::once(0..rows));
        });
    }

    pub fn at_edge(edge: usize) {
        check(5, edge, 0);
        check(edge, 6, 3);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn any_shape(rows in 1usize..40, width in 1usize..300, gap in 0usize..9) {
            check(rows, width, gap);
        }
    }
}
