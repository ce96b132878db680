//! `copy_<S>_<D>`.

use std::ops::Range;

use half::f16;

use crate::backend::cpu::bindings::{Dispatch, Extent, View};
use crate::backend::cpu::machine::{ALONE, Machine};
use crate::backend::cpu::quants::{BlockQ8_0, GROUP, Readable, Stored, Writable};
use crate::backend::cpu::simd::{Body, Simd};
use crate::backend::fault::Fault;
use crate::backend::ffi::args::*;

/// Rows are copied in pieces of this many elements, so that one long row is shared between threads too.
const PIECE: usize = 4096;

/// From one type to another.
pub fn copy<S: Readable, D: Writable>(dispatch: &Dispatch, machine: &Machine) -> Result<(), Fault> {
    dispatch.expect_points(points(dispatch)?)?;
    for_pieces::<S, D>(dispatch, machine, |src, dst, count| {
        machine.isa.run(Convert { src, dst, count });
    })
}

/// Within one type, bit by bit.
pub fn copy_same<T: Stored>(dispatch: &Dispatch, machine: &Machine) -> Result<(), Fault> {
    dispatch.expect_points(points(dispatch)?)?;
    for_pieces::<T, T>(dispatch, machine, |src, dst, count| {
        // SAFETY: `for_pieces` hands out checked ranges; `copy` allows for an overlap.
        unsafe { std::ptr::copy(src, dst, count) }
    })
}

/// To Q8_0, as args.h says it.
pub fn quantize<S: Readable>(dispatch: &Dispatch, machine: &Machine) -> Result<(), Fault> {
    dispatch.expect_points(points(dispatch)?)?;
    for_pieces::<S, BlockQ8_0>(dispatch, machine, |src, dst, count| {
        for block in 0..count / BlockQ8_0::ELEMENTS {
            // SAFETY: `for_pieces` hands out checked ranges, of whole blocks as every row of `dst` is.
            unsafe {
                let values =
                    std::array::from_fn(|i| S::element(src, block * BlockQ8_0::ELEMENTS + i));
                dst.add(block).write(quantized(values));
            }
        }
    })
}

/// `quantize_row_q8_0_ref` of llama.cpp's ggml-quants.c.
fn quantized(values: [f32; 32]) -> BlockQ8_0 {
    if values.iter().any(|value| !value.is_finite()) {
        return BlockQ8_0 {
            scale: f16::NAN,
            quants: [0; 32],
        };
    }
    let largest = values.iter().fold(0f32, |max, value| max.max(value.abs()));
    let scale = largest / 127.0;
    let inverse = if scale >= f32::MIN_POSITIVE {
        1.0 / scale
    } else {
        0.0
    };
    BlockQ8_0 {
        scale: f16::from_f32(scale),
        quants: values.map(|value| (value * inverse).round() as i8),
    }
}

/// What the grid has to cover.
fn points(dispatch: &Dispatch) -> Result<[u64; 3], Fault> {
    let args: copy_args = dispatch.arguments(COPY_ARGS)?;
    Ok([args.width.into(), args.rows.into(), 1])
}

/// Calls `piece` with (source, destination, count) for pieces that together are the whole operation.
fn for_pieces<S: Stored, D: Stored>(
    dispatch: &Dispatch,
    machine: &Machine,
    piece: impl Fn(*const S, *mut D, usize) + Sync,
) -> Result<(), Fault> {
    let args: copy_args = dispatch.arguments(COPY_ARGS)?;
    let (rows, width) = (args.rows, args.width);
    let src = Extent::rows(rows, args.src_row_stride, width);
    let src: View<S> = dispatch.view(COPY_SRC, "src", src)?;
    let dst = Extent::rows(rows, args.dst_row_stride, width);
    let dst: View<D> = dispatch.view(COPY_DST, "dst", dst)?;

    let width = width as usize;
    let pieces_per_row = width.div_ceil(PIECE);
    let separable = dst.writes_once() && (dst.aliases_rows_of(&src) || dst.is_apart_from(&src));
    let grain = if separable {
        machine.grain(4 * width.min(PIECE))
    } else {
        ALONE
    };
    machine.for_ranges(
        rows as usize * pieces_per_row,
        grain,
        |pieces: Range<usize>| {
            for index in pieces {
                let (row, first) = (index / pieces_per_row, index % pieces_per_row * PIECE);
                let count = PIECE.min(width - first);
                let src = src.at(row * args.src_row_stride as usize + first, count);
                let dst = dst.at(row * args.dst_row_stride as usize + first, count);
                piece(src, dst, count);
            }
        },
    );
    Ok(())
}

struct Convert<S, D> {
    src: *const S,
    dst: *mut D,
    count: usize,
}

impl<S: Readable, D: Writable> Body for Convert<S, D> {
    type Output = ();

    #[inline(always)]
    fn run<I: Simd>(self, simd: I) {
        let Convert { src, dst, count } = self;
        // SAFETY: `for_pieces` checked `count` elements of both.
        unsafe {
            for group in 0..count / GROUP {
                for offset in (0..GROUP).step_by(I::LANES) {
                    let vector = S::vector(simd, src, group, offset);
                    D::store(simd, vector, dst.add(group * GROUP + offset));
                }
            }
            for index in count - count % GROUP..count {
                dst.add(index).write(D::from_f32(S::element(src, index)));
            }
        }
    }
}

#[cfg(test)]
pub mod tests {
    use half::{bf16, f16};
    use proptest::prelude::*;

    use super::*;
    use crate::backend::cpu::testing::*;

    fn check<S: Sample, D: Output>(
        name: &'static str,
        src: &[S],
        [rows, width]: [usize; 2],
        gaps: [usize; 2],
        expected: impl Fn(S) -> D,
    ) {
        let strides = gaps.map(|gap| width + gap);
        let args = copy_args {
            src_row_stride: strides[0] as u64,
            dst_row_stride: strides[1] as u64,
            rows: rows as u32,
            width: width as u32,
        };
        let run = |on: Executor| {
            let (mut src, mut dst) = (src.to_vec(), vec![D::POISON; rows * strides[1]]);
            Call::new(name)
                .covering([width, rows, 1])
                .bind(COPY_SRC, &mut src)
                .bind(COPY_DST, &mut dst)
                .arguments(COPY_ARGS, &args)
                .run_on(on)
                .expect("good arguments");
            dst
        };
        on_every_executor(run, |dst| {
            for (row, j) in (0..rows).flat_map(|row| (0..width).map(move |j| (row, j))) {
                let (value, expected) = (
                    dst[row * strides[1] + j],
                    expected(src[row * strides[0] + j]),
                );
                let nan = D::value(&[value], 0).is_nan() && D::value(&[expected], 0).is_nan();
                assert!(
                    value.bits() == expected.bits() || nan,
                    "{name}: {value:?} is not {expected:?}"
                );
            }
            assert_untouched(dst, row_ranges(rows, strides[1], width));
        });
    }

    fn check_all_types(shape: [usize; 2], gaps: [usize; 2]) {
        for name in [
            "copy_f32_f32",
            "copy_f32_f16",
            "copy_f32_bf16",
            "copy_f16_f32",
            "copy_f16_f16",
            "copy_f16_bf16",
            "copy_bf16_f32",
            "copy_bf16_f16",
            "copy_bf16_bf16",
            "copy_u32_u32",
        ] {
            check_one(name, shape, gaps);
        }
    }

    /// Every kind of value of each type: random bits, so subnormals, infinities and NaN too.
    fn check_one(name: &'static str, shape: [usize; 2], gaps: [usize; 2]) {
        let count = shape[0] * (shape[1] + gaps[0]);
        let mut numbers = Numbers::new(count as u64);
        let mut bits = || numbers.next().to_bits().wrapping_mul(0x9e37_79b9);
        let wide: Vec<f32> = (0..count).map(|_| f32::from_bits(bits())).collect();
        let near: Vec<f32> = (0..count).map(|i| (i as f32 - 50.0) * 1.000_123).collect();
        let half: Vec<f16> = (0..count).map(|_| f16::from_bits(bits() as u16)).collect();
        let brain: Vec<bf16> = (0..count).map(|_| bf16::from_bits(bits() as u16)).collect();
        let words: Vec<u32> = (0..count).map(|_| bits()).collect();
        for floats in [&wide, &near] {
            match name {
                "copy_f32_f32" => check(name, floats, shape, gaps, |value: f32| value),
                "copy_f32_f16" => check(name, floats, shape, gaps, f16::from_f32),
                "copy_f32_bf16" => check(name, floats, shape, gaps, bf16::from_f32),
                _ => {}
            }
        }
        match name {
            "copy_f16_f32" => check(name, &half, shape, gaps, f16::to_f32),
            "copy_f16_f16" => check(name, &half, shape, gaps, |value: f16| value),
            "copy_f16_bf16" => check(name, &half, shape, gaps, |value| {
                bf16::from_f32(value.to_f32())
            }),
            "copy_bf16_f32" => check(name, &brain, shape, gaps, bf16::to_f32),
            "copy_bf16_f16" => check(name, &brain, shape, gaps, |value| {
                f16::from_f32(value.to_f32())
            }),
            "copy_bf16_bf16" => check(name, &brain, shape, gaps, |value: bf16| value),
            "copy_u32_u32" => check(name, &words, shape, gaps, |value: u32| value),
            _ => {}
        }
    }

    pub fn at_edge(name: &'static str, edge: usize) {
        match name {
            "copy_q8_0_f32" => check_blocks_to_floats(edge),
            "copy_f32_q8_0" => check_quantized(name, edge, |value| value),
            "copy_f16_q8_0" => check_quantized(name, edge, f16::from_f32),
            "copy_bf16_q8_0" => check_quantized(name, edge, bf16::from_f32),
            _ => {
                check_one(name, [3, edge], [0, 0]);
                check_one(name, [edge, 3], [5, 2]);
            }
        }
    }

    #[test]
    fn a_row_longer_than_a_piece() {
        check_all_types([2, 2 * PIECE + 33], [1, 0]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]
        #[test]
        fn any_shape(rows in 1usize..9, width in 1usize..200, gaps: [u8; 2]) {
            check_all_types([rows, width], gaps.map(|gap| usize::from(gap) % 16));
        }
    }

    /// The bytes of blocks, which is what llama.cpp would write, by every executor.
    fn blocks<S: Sample>(name: &'static str, src: &[S], rows: usize, gap: usize) -> Vec<BlockQ8_0> {
        let width = src.len() / rows;
        let args = copy_args {
            src_row_stride: width as u64,
            dst_row_stride: (width + 32 * gap) as u64,
            rows: rows as u32,
            width: width as u32,
        };
        let poison = BlockQ8_0 {
            scale: f16::POISON,
            quants: [0x5a; 32],
        };
        let run = |on: Executor| {
            let mut dst = vec![poison; rows * (width / 32 + gap)];
            let mut src = src.to_vec();
            let call = Call::new(name).covering([width, rows, 1]);
            let call = call.bind(COPY_SRC, &mut src).bind(COPY_DST, &mut dst);
            call.arguments(COPY_ARGS, &args)
                .run_on(on)
                .expect("good arguments");
            dst
        };
        let first = run(Executor::Native(&machines()[0]));
        let native = machines().iter().map(Executor::Native);
        let metal = METAL.map(|(order, validate)| Executor::Metal(order, validate));
        for on in native.chain(metal) {
            let same = run(on).iter().zip(&first).all(|(one, other)| {
                one.quants == other.quants && one.scale.to_bits() == other.scale.to_bits()
            });
            assert!(same, "{name}: {rows} rows of {width}");
        }
        let untouched = |block: &BlockQ8_0| block.scale.to_bits() == f16::POISON.to_bits();
        for row in first.chunks(width / 32 + gap) {
            assert!(!row[..width / 32].iter().any(untouched));
            assert!(row[width / 32..].iter().all(untouched));
        }
        first
    }

    /// `edge` rows of five blocks, and three rows of `edge` blocks.
    fn check_quantized<S: Sample>(name: &'static str, edge: usize, narrow: fn(f32) -> S) {
        for (rows, width) in [(edge, 160), (3, 32 * edge)] {
            let src: Vec<f32> = Numbers::new(5).vec(rows * width);
            let src: Vec<S> = src.into_iter().map(narrow).collect();
            let quantized = blocks(name, &src, rows, 2);
            for place in 0..src.len() {
                let value = S::value(&src, place);
                let block = (place / 32 * 32..).take(32);
                let largest = block.map(|i| S::value(&src, i).abs()).fold(0.0, f64::max);
                let row = &quantized[place / width * (width / 32 + 2)..];
                let got = BlockQ8_0::value(row, place % width);
                // Half a step, and the scale's rounding of up to 127 steps.
                let step = largest / 127.0;
                let tolerance = step * (0.501 + 127.0 * f16::ROUNDING);
                assert_close(got, value, tolerance, place);
            }
        }
    }

    /// `edge` rows of three blocks.
    fn check_blocks_to_floats(edge: usize) {
        let src: Vec<BlockQ8_0> = Numbers::new(9).vec(edge * 96);
        let expected: Vec<f64> = (0..edge * 96).map(|i| BlockQ8_0::value(&src, i)).collect();
        let args = copy_args {
            src_row_stride: 96,
            dst_row_stride: 99,
            rows: edge as u32,
            width: 96,
        };
        let run = |on: Executor| {
            let (mut src, mut dst) = (src.clone(), vec![f32::POISON; edge * 99]);
            let call = Call::new("copy_q8_0_f32").covering([96, edge, 1]);
            let call = call.bind(COPY_SRC, &mut src).bind(COPY_DST, &mut dst);
            call.arguments(COPY_ARGS, &args)
                .run_on(on)
                .expect("good arguments");
            dst
        };
        on_every_executor(run, |dst| {
            for (row, expected) in dst.chunks(99).zip(expected.chunks(96)) {
                let got = row[..96].iter().map(|value| f64::from(*value));
                assert!(got.eq(expected.iter().copied()));
            }
            assert_untouched(dst, row_ranges(edge, 99, 96));
        });
    }

    #[test]
    fn blocks_of_zeros_of_little_and_of_nothing_finite() {
        let mut src = vec![0f32; 5 * 32];
        src[32] = 1e-42;
        src[64..96].fill(-3.0);
        src[100] = f32::NAN;
        src[130] = f32::INFINITY;
        let of = |block: usize| blocks("copy_f32_q8_0", &src, 1, 0)[block];
        assert_eq!((of(0).scale, of(0).quants), (f16::ZERO, [0; 32]));
        assert_eq!((of(1).scale, of(1).quants), (f16::ZERO, [0; 32]));
        assert_eq!(
            (of(2).scale, of(2).quants),
            (f16::from_f32(3.0 / 127.0), [-127; 32])
        );
        for block in [3, 4] {
            assert!(of(block).scale.is_nan());
            assert_eq!(of(block).quants, [0; 32]);
        }
    }

    #[test]
    fn rows_may_move_within_their_buffer() {
        // Down by one row: `src` and `dst` overlap, so one thread does it, in the order of the rows.
        for machine in machines() {
            let mut memory: Vec<u32> = (0..12).collect();
            let args = copy_args {
                src_row_stride: 4,
                dst_row_stride: 4,
                rows: 2,
                width: 4,
            };
            let call = Call::new("copy_u32_u32").bind(COPY_DST, &mut memory);
            let call = call.bind_offset(COPY_SRC, COPY_DST, 16);
            call.arguments(COPY_ARGS, &args)
                .run(machine)
                .expect("good arguments");
            assert_eq!(memory, [4, 5, 6, 7, 8, 9, 10, 11, 8, 9, 10, 11]);
        }
    }

    #[test]
    fn rows_outside_the_buffer_are_faults() {
        let args = copy_args {
            src_row_stride: 4,
            dst_row_stride: 5,
            rows: 3,
            width: 4,
        };
        let run = |src: usize, dst: usize| {
            let (mut src, mut dst) = (vec![0f32; src], vec![f16::ZERO; dst]);
            let call = Call::new("copy_f32_f16");
            let call = call.bind(COPY_SRC, &mut src).bind(COPY_DST, &mut dst);
            fault(call.arguments(COPY_ARGS, &args).run(&machines()[0])).0
        };
        assert_eq!(run(12, 14), "ok");
        assert_eq!(run(11, 14), "out of bounds");
        assert_eq!(run(12, 13), "out of bounds");
    }
}
