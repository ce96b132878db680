//! `add_bias`.

use crate::backend::cpu::bindings::{Dispatch, Extent, View};
use crate::backend::cpu::machine::{ALONE, Machine};
use crate::backend::fault::Fault;
use crate::backend::ffi::args::*;

pub fn add_bias(dispatch: &Dispatch, machine: &Machine) -> Result<(), Fault> {
    let args: add_bias_args = dispatch.arguments(ADD_BIAS_ARGS)?;
    let (rows, width) = (args.rows, args.width);
    let x = Extent::rows(rows, args.x_row_stride, width);
    let x: View<f32> = dispatch.view(ADD_BIAS_X, "x", x)?;
    let bias: View<f32> = dispatch.view(ADD_BIAS_BIAS, "bias", Extent::packed(width))?;
    let out = Extent::rows(rows, args.out_row_stride, width);
    let out: View<f32> = dispatch.view(ADD_BIAS_OUT, "out", out)?;
    dispatch.expect_points([width.into(), rows.into(), 1])?;

    let width = width as usize;
    let separable = out.writes_once()
        && (out.aliases_rows_of(&x) || out.is_apart_from(&x))
        && out.is_apart_from(&bias);
    let grain = if separable {
        machine.grain(2 * width)
    } else {
        ALONE
    };
    machine.for_ranges(rows as usize, grain, |rows| {
        for row in rows {
            let x = x.at(row * args.x_row_stride as usize, width);
            let bias = bias.at(0, width);
            let out = out.at(row * args.out_row_stride as usize, width);
            for j in 0..width {
                // SAFETY: `at` checked `width` elements of each.
                unsafe { out.add(j).write(x.add(j).read() + bias.add(j).read()) };
            }
        }
    });
    Ok(())
}

#[cfg(test)]
pub mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::backend::cpu::testing::*;

    fn check(rows: usize, width: usize, gaps: [usize; 2], in_place: bool) {
        let strides = [
            width + gaps[0],
            width + if in_place { gaps[0] } else { gaps[1] },
        ];
        let mut numbers = Numbers::new((rows * width) as u64);
        let x: Vec<f32> = numbers.vec(rows * strides[0]);
        let bias: Vec<f32> = numbers.vec(width);
        let args = add_bias_args {
            x_row_stride: strides[0] as u64,
            out_row_stride: strides[1] as u64,
            rows: rows as u32,
            width: width as u32,
        };
        let run = |on: Executor| {
            let (mut x, mut bias) = (x.clone(), bias.clone());
            let mut out = vec![f32::POISON; rows * strides[1]];
            let call = Call::new("add_bias")
                .covering([width, rows, 1])
                .bind(ADD_BIAS_X, &mut x);
            let call = call.bind(ADD_BIAS_BIAS, &mut bias);
            let call = match in_place {
                true => call.bind_same(ADD_BIAS_OUT, ADD_BIAS_X),
                false => call.bind(ADD_BIAS_OUT, &mut out),
            };
            call.arguments(ADD_BIAS_ARGS, &args)
                .run_on(on)
                .expect("good arguments");
            if in_place { x } else { out }
        };
        on_every_executor(run, |out| {
            for (row, j) in (0..rows).flat_map(|row| (0..width).map(move |j| (row, j))) {
                assert_eq!(out[row * strides[1] + j], x[row * strides[0] + j] + bias[j]);
            }
            if !in_place {
                assert_untouched(out, row_ranges(rows, strides[1], width));
            }
        });
    }

    pub fn at_edge(edge: usize) {
        check(4, edge, [0, 0], false);
        check(4, edge, [3, 3], true);
        check(edge, 5, [3, 6], false);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn any_shape(rows in 1usize..20, width in 1usize..300, gaps: [u8; 2], in_place: bool) {
            check(rows, width, gaps.map(|gap| usize::from(gap) % 16), in_place);
        }
    }

    #[test]
    fn what_lies_outside_is_a_fault() {
        let args = add_bias_args {
            x_row_stride: 4,
            out_row_stride: 5,
            rows: 3,
            width: 4,
        };
        let run = |lengths: [usize; 3]| {
            let [mut x, mut bias, mut out] = lengths.map(|length| vec![0f32; length]);
            let call = Call::new("add_bias").bind(ADD_BIAS_X, &mut x);
            let call = call
                .bind(ADD_BIAS_BIAS, &mut bias)
                .bind(ADD_BIAS_OUT, &mut out);
            fault(call.arguments(ADD_BIAS_ARGS, &args).run(&machines()[0])).0
        };
        assert_eq!(run([12, 4, 14]), "ok");
        for short in [[11, 4, 14], [12, 3, 14], [12, 4, 13]] {
            assert_eq!(run(short), "out of bounds");
        }
    }
}
