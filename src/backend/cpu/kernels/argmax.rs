//! `argmax`.

use crate::backend::cpu::bindings::{Dispatch, Extent, View};
use crate::backend::cpu::machine::{ALONE, Machine};
use crate::backend::fault::Fault;
use crate::backend::ffi::args::*;

pub fn argmax(dispatch: &Dispatch, machine: &Machine) -> Result<(), Fault> {
    let args: argmax_args = dispatch.arguments(ARGMAX_ARGS)?;
    let x = Extent::rows(args.rows, args.x_row_stride, args.width);
    let x: View<f32> = dispatch.view(ARGMAX_X, "x", x)?;
    let out: View<u32> = dispatch.view(ARGMAX_OUT, "out", Extent::packed(args.rows))?;
    dispatch.expect_points([args.rows.into(), 1, 1])?;

    let (stride, width) = (args.x_row_stride as usize, args.width as usize);
    let grain = if out.is_apart_from(&x) {
        machine.grain(width)
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

#[cfg(test)]
pub mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::backend::cpu::testing::*;

    fn argmax_of(rows: &[&[f32]]) -> Vec<u32> {
        argmax_with_gap(rows, 3)
    }

    fn argmax_with_gap(rows: &[&[f32]], gap: usize) -> Vec<u32> {
        let width = rows[0].len();
        let stride = width + gap;
        // What lies between the rows is larger than anything in them.
        let mut x = vec![f32::INFINITY; rows.len() * stride];
        for (row, place) in rows.iter().zip(x.chunks_mut(stride)) {
            place[..width].copy_from_slice(row);
        }
        let args = argmax_args {
            x_row_stride: stride as u64,
            rows: rows.len() as u32,
            width: width as u32,
        };
        let run = |on: Executor| {
            let (mut x, mut out) = (x.clone(), vec![u32::POISON; rows.len() + 2]);
            Call::new("argmax")
                .covering([rows.len(), 1, 1])
                .bind(ARGMAX_X, &mut x)
                .bind(ARGMAX_OUT, &mut out)
                .arguments(ARGMAX_ARGS, &args)
                .run_on(on)
                .expect("good arguments");
            out
        };
        let mut result = Vec::new();
        on_every_executor(run, |out| {
            assert_untouched(out, row_ranges(1, 0, rows.len()));
            result = out[..rows.len()].to_vec();
        });
        result
    }

    #[test]
    fn the_largest_wins_and_the_first_of_equals() {
        const NAN: f32 = f32::NAN;
        const MIN: f32 = f32::NEG_INFINITY;
        let cases: [(&[f32], u32); 9] = [
            (&[1.0, 3.0, 2.0], 1),
            (&[3.0, 3.0, 3.0], 0),
            (&[NAN, -5.0, -6.0], 1),
            (&[NAN, MIN, NAN], 1),
            (&[MIN, NAN, MIN], 0),
            (&[NAN, NAN, NAN], 0),
            (&[-0.0, 0.0, -0.0], 0),
            (&[2.0, NAN, f32::INFINITY], 2),
            (&[f32::MIN_POSITIVE, 0.0, 1e-40], 0),
        ];
        let rows = cases.map(|(row, _)| row);
        assert_eq!(argmax_of(&rows), cases.map(|(_, expected)| expected));
    }

    pub fn at_edge(edge: usize) {
        for place in [0, edge / 2, edge - 1] {
            let mut row: Vec<f32> = Numbers::new(edge as u64).vec(edge);
            row[place] = 2.0;
            assert_eq!(argmax_of(&[&row, &row]), [place as u32; 2]);
        }
        let rows: Vec<[f32; 2]> = (0..edge).map(|row| [0.0, row as f32 - 3.0]).collect();
        let rows: Vec<&[f32]> = rows.iter().map(|row| &row[..]).collect();
        let expected: Vec<u32> = (0..edge).map(|row| u32::from(row > 3)).collect();
        assert_eq!(argmax_of(&rows), expected);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]
        #[test]
        fn any_row(row in prop::collection::vec(any::<f32>(), 1..300)) {
            let largest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let place = row.iter().position(|x| *x == largest).unwrap_or(0);
            assert_eq!(argmax_of(&[&row]), [place as u32]);
        }

        #[test]
        fn any_shape_and_stride(
            rows in 1usize..40, width in 1usize..300, gap in 0usize..16, seed: u64,
        ) {
            let values: Vec<f32> = Numbers::new(seed).vec(rows * width);
            let rows: Vec<&[f32]> = values.chunks(width).collect();
            let expected = rows.iter().map(|row| {
                let largest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                row.iter().position(|x| *x == largest).unwrap_or(0) as u32
            });
            assert_eq!(argmax_with_gap(&rows, gap), expected.collect::<Vec<u32>>());
        }
    }

    #[test]
    fn a_row_outside_the_buffer_is_a_fault() {
        let args = argmax_args {
            x_row_stride: 4,
            rows: 3,
            width: 4,
        };
        let run = |x: usize, out: usize| {
            let (mut x, mut out) = (vec![0f32; x], vec![0u32; out]);
            let call = Call::new("argmax");
            let call = call.bind(ARGMAX_X, &mut x).bind(ARGMAX_OUT, &mut out);
            fault(call.arguments(ARGMAX_ARGS, &args).run(&machines()[0])).0
        };
        assert_eq!(run(12, 3), "ok");
        assert_eq!(run(11, 3), "out of bounds");
        assert_eq!(run(12, 2), "out of bounds");
    }
}
