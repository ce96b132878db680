//! `sum_rows`.

use crate::backend::cpu::bindings::{Dispatch, Extent, View};
use crate::backend::cpu::machine::{ALONE, Machine};
use crate::backend::cpu::simd::{Body, Simd};
use crate::backend::fault::Fault;
use crate::backend::ffi::args::*;

/// Columns that are summed at a time: their sums stay in registers.
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
    let write = |first: usize, sums: &[f64]| {
        let out = out.at(first, sums.len());
        for (j, sum) in sums.iter().enumerate() {
            // SAFETY: `at` checked as many elements.
            unsafe { out.add(j).write(*sum as f32) };
        }
    };
    let sum = |start, count, (rows, stride)| {
        machine.isa.run(Sum {
            x,
            start,
            count,
            rows,
            stride,
        })
    };
    if stride == width && width < COLUMNS && COLUMNS.is_multiple_of(width.max(1)) {
        // Narrow rows without gaps are wide ones, of which several columns are the same.
        let (whole, rest) = (rows * width / COLUMNS, rows * width % COLUMNS);
        let parts = [
            sum(0, COLUMNS, (whole, COLUMNS)),
            sum(whole * COLUMNS, rest, (1, 0)),
        ];
        let mut sums = [0f64; COLUMNS];
        for (j, sum) in parts.as_flattened().iter().enumerate() {
            sums[j % width.max(1)] += sum;
        }
        write(0, &sums[..width]);
        return Ok(());
    }
    let grain = match out.is_apart_from(&x) {
        true => machine.grain(rows * COLUMNS),
        false => ALONE,
    };
    machine.for_ranges(width.div_ceil(COLUMNS), grain, |blocks| {
        for block in blocks {
            let first = block * COLUMNS;
            let count = COLUMNS.min(width - first);
            write(first, &sum(first, count, (rows, stride))[..count]);
        }
    });
    Ok(())
}

/// Sums `count` columns, [`COLUMNS`] at most. Those of many rows stay exact to a rounding of the result in f64.
struct Sum<'a> {
    x: View<'a, f32>,
    start: usize,
    count: usize,
    rows: usize,
    stride: usize,
}

impl Sum<'_> {
    #[inline(always)]
    fn add(&self, sums: &mut [f64]) {
        for row in 0..self.rows {
            let x = self.x.at(self.start + row * self.stride, sums.len());
            for (j, sum) in sums.iter_mut().enumerate() {
                // SAFETY: `at` checked as many elements.
                *sum += f64::from(unsafe { x.add(j).read() });
            }
        }
    }
}

impl Body for Sum<'_> {
    type Output = [f64; COLUMNS];

    #[inline(always)]
    fn run<S: Simd>(self, _: S) -> [f64; COLUMNS] {
        let mut sums = [0f64; COLUMNS];
        match self.count {
            // Of a length that the compiler knows, all stay in registers.
            COLUMNS => self.add(&mut sums),
            count => self.add(&mut sums[..count]),
        }
        sums
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
                    format_args!("column {j}"),
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
