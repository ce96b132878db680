//! `transpose_<N>`.

use crate::backend::cpu::bindings::{Dispatch, Extent, View};
use crate::backend::cpu::machine::{ALONE, Machine};
use crate::backend::cpu::quants::Stored;
use crate::backend::fault::Fault;
use crate::backend::ffi::args::*;

/// Elements of a column that are read together, so that their cache lines are used up before they are gone.
const TILE: usize = 32;

pub fn transpose<T: Stored>(dispatch: &Dispatch, machine: &Machine) -> Result<(), Fault> {
    let args: transpose_args = dispatch.arguments(TRANSPOSE_ARGS)?;
    let (rows, width) = (args.rows, args.width);
    let x = Extent::rows(rows, args.x_row_stride, width);
    let x: View<T> = dispatch.view(TRANSPOSE_X, "x", x)?;
    let out = Extent::rows(width, args.out_row_stride, rows);
    let out: View<T> = dispatch.view(TRANSPOSE_OUT, "out", out)?;
    dispatch.expect_points([width.into(), rows.into(), 1])?;

    let (rows, width) = (rows as usize, width as usize);
    let separable = out.writes_once() && out.is_apart_from(&x);
    let grain = if separable {
        machine.grain(4 * TILE * rows)
    } else {
        ALONE
    };
    // A range of tiles of columns of x, which are rows of out.
    machine.for_ranges(width.div_ceil(TILE), grain, |tiles| {
        for left in tiles.map(|tile| tile * TILE) {
            let columns = TILE.min(width - left);
            for top in (0..rows).step_by(TILE) {
                let count = TILE.min(rows - top);
                for column in left..left + columns {
                    let to = out.at(column * args.out_row_stride as usize + top, count);
                    for i in 0..count {
                        let from = x.at((top + i) * args.x_row_stride as usize + column, 1);
                        // SAFETY: `at` checked one element of x and `count` of out.
                        unsafe { to.add(i).write(from.read()) };
                    }
                }
            }
        }
    });
    Ok(())
}

#[cfg(test)]
pub mod tests {
    use half::f16;
    use proptest::prelude::*;

    use super::*;
    use crate::backend::cpu::testing::*;

    fn check<T: Output>(name: &'static str, rows: usize, width: usize, gaps: [usize; 2]) {
        let strides = [width + gaps[0], rows + gaps[1]];
        let x: Vec<T> = Numbers::new((rows * width) as u64).vec(rows * strides[0]);
        let args = transpose_args {
            x_row_stride: strides[0] as u64,
            out_row_stride: strides[1] as u64,
            rows: rows as u32,
            width: width as u32,
        };
        let run = |on: Executor| {
            let (mut x, mut out) = (x.clone(), vec![T::POISON; width * strides[1]]);
            Call::new(name)
                .covering([width, rows, 1])
                .bind(TRANSPOSE_X, &mut x)
                .bind(TRANSPOSE_OUT, &mut out)
                .arguments(TRANSPOSE_ARGS, &args)
                .run_on(on)
                .expect("good arguments");
            out
        };
        on_every_executor(run, |out| {
            for (row, j) in (0..rows).flat_map(|row| (0..width).map(move |j| (row, j))) {
                let expected = x[row * strides[0] + j].bits();
                assert_eq!(out[j * strides[1] + row].bits(), expected, "{row}, {j}");
            }
            assert_untouched(out, row_ranges(width, strides[1], rows));
        });
    }

    pub fn at_edge(name: &'static str, edge: usize) {
        for (rows, width, gaps) in [(edge, 33, [0, 0]), (31, edge, [3, 1])] {
            match name {
                "transpose_32" => check::<u32>(name, rows, width, gaps),
                _ => check::<f16>(name, rows, width, gaps),
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn any_shape(rows in 1usize..100, width in 1usize..100, gaps: [u8; 2]) {
            check::<u32>("transpose_32", rows, width, gaps.map(|gap| usize::from(gap) % 16));
        }
    }

    #[test]
    fn what_lies_outside_is_a_fault() {
        let args = transpose_args {
            x_row_stride: 4,
            out_row_stride: 5,
            rows: 3,
            width: 4,
        };
        let run = |x: usize, out: usize| {
            let (mut x, mut out) = (vec![0u32; x], vec![0u32; out]);
            let call = Call::new("transpose_32");
            let call = call.bind(TRANSPOSE_X, &mut x).bind(TRANSPOSE_OUT, &mut out);
            fault(call.arguments(TRANSPOSE_ARGS, &args).run(&machines()[0])).0
        };
        assert_eq!(run(12, 18), "ok");
        assert_eq!(run(11, 18), "out of bounds");
        assert_eq!(run(12, 17), "out of bounds");
    }
}
