//! `sum_rows`.

use crate::backend::cpu::bindings::{Dispatch, Extent, View};
use crate::backend::cpu::machine::{ALONE, Machine};
use crate::backend::cpu::simd::{Body, Simd};
use crate::backend::fault::Fault;
use crate::backend::ffi::args::*;

/// Columns that are summed at a time: their sums stay in L1.
const COLUMNS: usize = 64;

pub fn sum_rows(dispatch: &Dispatch, machine: &Machine) -> Result<(), Fault> {
    let args: sum_rows_args = dispatch.arguments(SUM_ROWS_ARGS)?;
    let x = Extent::rows(args.rows, args.x_row_stride, args.width);
    let x: View<f32> = dispatch.view(SUM_ROWS_X, "x", x)?;
    let out: View<f32> = dispatch.view(SUM_ROWS_OUT, "out", Extent::packed(args.width))?;
    dispatch.expect_points([args.width.into(), 1, 1])?;

    let (rows, width, stride) = (
        args.rows as usize,
        args.width as usize,
        args.x_row_stride as usize,
    );
    let grain = match out.is_apart_from(&x) {
        true => machine.grain(rows * COLUMNS),
        false => ALONE,
    };
    machine.for_ranges(width.div_ceil(COLUMNS), grain, |blocks| {
        for block in blocks {
            let first = block * COLUMNS;
            let count = COLUMNS.min(width - first);
            let mut sums = [0f64; COLUMNS];
            for row in 0..rows {
                machine.isa.run(AddRow {
                    x: x.at(row * stride + first, count),
                    sums: &mut sums[..count],
                });
            }
            let out = out.at(first, count);
            for (j, sum) in sums[..count].iter().enumerate() {
                // SAFETY: `at` checked `count` elements.
                unsafe { out.add(j).write(*sum as f32) };
            }
        }
    });
    Ok(())
}

/// Sums of many rows stay exact to a rounding of the result in f64.
struct AddRow<'a> {
    x: *const f32,
    sums: &'a mut [f64],
}

impl Body for AddRow<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        for (j, sum) in self.sums.iter_mut().enumerate() {
            // SAFETY: the caller checked as many elements as there are sums.
            *sum += f64::from(unsafe { self.x.add(j).read() });
        }
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
        let args = sum_rows_args {
            x_row_stride: stride as u64,
            rows: rows as u32,
            width: width as u32,
        };
        let run = |on: Executor| {
            let (mut x, mut out) = (x.clone(), vec![f32::POISON; width + 1]);
            Call::new("sum_rows")
                .covering([width, 1, 1])
                .bind(SUM_ROWS_X, &mut x)
                .bind(SUM_ROWS_OUT, &mut out)
                .arguments(SUM_ROWS_ARGS, &args)
                .run_on(on)
                .expect("good arguments");
            out
        };
        on_every_executor(run, |out| {
            for j in 0..width {
                let column = || (0..rows).map(|row| f64::from(x[row * stride + j]));
                let largest: f64 = column().map(f64::abs).sum();
                // Each addition rounds a partial sum, none of which is larger than the sum of the magnitudes.
                let tolerance = rows as f64 * f32::ROUNDING * largest;
                assert_close(
                    out[j].into(),
                    column().sum(),
                    tolerance,
                    format!("column {j}"),
                );
            }
            assert_untouched(out, std::iter::once(0..width));
        });
    }

    pub fn at_edge(edge: usize) {
        check(5, edge, 0);
        check(edge, 6, 3);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn any_shape(rows in 1usize..200, width in 1usize..200, gap in 0usize..9) {
            check(rows, width, gap);
        }
    }

    #[test]
    fn a_row_outside_the_buffer_is_a_fault() {
        let args = sum_rows_args {
            x_row_stride: 4,
            rows: 3,
            width: 4,
        };
        let run = |x: usize, out: usize| {
            let (mut x, mut out) = (vec![0f32; x], vec![0f32; out]);
            let call = Call::new("sum_rows");
            let call = call.bind(SUM_ROWS_X, &mut x).bind(SUM_ROWS_OUT, &mut out);
            fault(call.arguments(SUM_ROWS_ARGS, &args).run(&machines()[0])).0
        };
        assert_eq!(run(12, 4), "ok");
        assert_eq!(run(11, 4), "out of bounds");
        assert_eq!(run(12, 3), "out of bounds");
    }
}
