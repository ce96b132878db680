//! `interleave_<B>`.

use super::bindings::{Dispatch, Extent, View};
use super::machine::{ALONE, Machine};
use super::quants::{Interleaved, X16_ROWS};
use crate::backend::fault::Fault;
use crate::backend::ffi::args::*;

pub fn interleave<B: Interleaved>(dispatch: &Dispatch, machine: &Machine) -> Result<(), Fault> {
    let args: interleave_args = dispatch.arguments(INTERLEAVE_ARGS)?;
    let (rows, width) = (args.rows, args.width);
    let blocks = width as usize / B::ELEMENTS;
    if !rows.is_multiple_of(X16_ROWS as u32) || !(width as usize).is_multiple_of(B::ELEMENTS) {
        return Err(dispatch.invalid(format!(
            "{rows} rows of {width} weights are not panels of {X16_ROWS} rows of blocks of {}",
            B::ELEMENTS
        )));
    }
    let x = Extent::rows(rows, args.x_row_stride, width);
    let x: View<B> = dispatch.view(INTERLEAVE_X, "x", x)?;
    let out = Extent::rows(rows, width.into(), width);
    let out: View<B> = dispatch.view(INTERLEAVE_OUT, "out", out)?;
    dispatch.expect_points([blocks as u64, rows.into(), 1])?;

    let panels = rows as usize / X16_ROWS;
    let width = width as usize;
    let grain = match out.is_apart_from(&x) {
        true => machine.grain(X16_ROWS * width),
        false => ALONE,
    };
    machine.for_ranges(panels, grain, |range| {
        for panel in range {
            let to = out.at(panel * X16_ROWS * width, X16_ROWS * width);
            let rows: [*const B; X16_ROWS] = std::array::from_fn(|row| {
                let start = (panel * X16_ROWS + row) * args.x_row_stride as usize;
                x.at(start, width).cast_const()
            });
            for block in 0..blocks {
                for (row, from) in rows.iter().enumerate() {
                    // SAFETY: `at` checked a row's blocks and an x16 panel's.
                    unsafe { put_block(from.add(block), to.add(block * X16_ROWS), row) };
                }
            }
        }
    });
    Ok(())
}

/// Puts a block into 16 interleaved ones.
///
/// # Safety
/// `from` is readable for a block and `to` writable for 16.
unsafe fn put_block<B: Interleaved>(from: *const B, to: *mut B, row: usize) {
    let (before, after) = B::HALVES;
    let (from, to): (*const [u8; 2], *mut [u8; 2]) = (from.cast(), to.cast());
    let words = from.wrapping_add(before);
    // SAFETY: the caller's promise; a word is two halves.
    unsafe {
        for word in 0..B::WORDS {
            let to = to.add(2 * (B::place(word) * X16_ROWS + row));
            to.write(words.add(2 * word).read());
            to.add(1).write(words.add(2 * word + 1).read());
        }
        let halves = to.add(2 * B::WORDS * X16_ROWS + row);
        for half in 0..before {
            halves.add(half * X16_ROWS).write(from.add(half).read());
        }
        for half in 0..after {
            let from = words.add(2 * B::WORDS + half);
            halves.add((before + half) * X16_ROWS).write(from.read());
        }
    }
}

#[cfg(test)]
pub mod tests {
    use half::{bf16, f16};

    use super::*;
    use crate::backend::cpu::quants::*;
    use crate::backend::cpu::testing::*;

    /// The words of a block in their order in memory.
    fn order(name: &str, words: usize) -> Vec<usize> {
        let eight = |first: usize| first..first + 8;
        match name {
            "interleave_q4_k" => (0..3)
                .flat_map(|s| eight(3 + 8 * s).chain([s]))
                .chain(eight(27))
                .collect(),
            "interleave_q5_k" => (0..8)
                .flat_map(|i| [3 + i, 11 + i])
                .chain([0])
                .chain(eight(19).chain([1]))
                .chain(eight(27).chain([2]))
                .chain(eight(35))
                .collect(),
            "interleave_q6_k" => [(0, 0), (4, 4), (8, 16), (12, 20)]
                .into_iter()
                .enumerate()
                .flat_map(|(s, (high, nibbles))| {
                    (0..4)
                        .flat_map(move |i| [32 + high + i, nibbles + i, nibbles + 8 + i])
                        .chain([48 + s])
                })
                .collect(),
            _ => (0..words).collect(),
        }
    }

    /// `halves`: the bytes of a block that are halves.
    fn check<B: Sample>(
        name: &'static str,
        panels: usize,
        blocks: usize,
        gap: usize,
        halves: std::ops::Range<usize>,
    ) {
        let (rows, stride) = (panels * X16_ROWS, blocks + gap);
        let x: Vec<B> = Numbers::new((rows * blocks) as u64).vec(rows * stride * B::ELEMENTS);
        let size = size_of::<B>();
        // SAFETY: blocks are plain bytes without padding.
        let from =
            unsafe { std::slice::from_raw_parts(x.as_ptr().cast::<u8>(), size_of_val(&x[..])) };
        let mut expected = Vec::new();
        for (panel, block) in (0..panels).flat_map(|s| (0..blocks).map(move |b| (s, b))) {
            let rows = || {
                (panel * X16_ROWS..(panel + 1) * X16_ROWS)
                    .map(|row| &from[(row * stride + block) * size..][..size])
            };
            let words = (0..size)
                .filter(|byte| !halves.contains(byte))
                .collect::<Vec<_>>();
            for word in order(name, words.len() / 4) {
                let word = &words[4 * word..][..4];
                rows().for_each(|row| expected.extend(word.iter().map(|byte| row[*byte])));
            }
            for half in halves.clone().step_by(2) {
                rows().for_each(|row| expected.extend(&row[half..half + 2]));
            }
        }
        let args = interleave_args {
            x_row_stride: (stride * B::ELEMENTS) as u64,
            rows: rows as u32,
            width: (blocks * B::ELEMENTS) as u32,
        };
        let run = |on: Executor| {
            let (mut x, mut out) = (x.clone(), vec![f16::POISON; expected.len() / 2]);
            Call::new(name)
                .covering([blocks, rows, 1])
                .bind(INTERLEAVE_X, &mut x)
                .bind(INTERLEAVE_OUT, &mut out)
                .arguments(INTERLEAVE_ARGS, &args)
                .run_on(on)
                .expect("good arguments");
            out
        };
        on_every_executor(run, |out| {
            let bytes = out.iter().flat_map(|half| half.to_le_bytes());
            assert!(
                bytes.eq(expected.iter().copied()),
                "{name} {panels} {blocks} {gap}"
            );
        });
    }

    pub fn at_edge(name: &'static str, edge: usize) {
        let panels = edge.div_ceil(X16_ROWS);
        for (panels, blocks, gap) in [(panels, 2, 0), (1, edge.min(9), 1)] {
            match name {
                "interleave_f16" => check::<f16>(name, panels, blocks, gap, 0..2),
                "interleave_bf16" => check::<bf16>(name, panels, blocks, gap, 0..2),
                "interleave_q8_0" => check::<BlockQ8_0>(name, panels, blocks, gap, 0..2),
                "interleave_q4_0" => check::<BlockQ4_0>(name, panels, blocks, gap, 0..2),
                "interleave_q4_k" => check::<BlockQ4K>(name, panels, blocks, gap, 0..4),
                "interleave_q5_k" => check::<BlockQ5K>(name, panels, blocks, gap, 0..4),
                "interleave_q6_k" => check::<BlockQ6K>(name, panels, blocks, gap, 208..210),
                _ => panic!("{name}: a type that no test knows"),
            }
        }
    }

    #[test]
    fn parts_of_strips_and_what_lies_outside_are_faults() {
        let run = |rows: u32, width: u32, x: usize, out: usize| {
            let args = interleave_args {
                x_row_stride: 64,
                rows,
                width,
            };
            let mut x: Vec<BlockQ4_0> = Numbers::new(1).vec(x * 32);
            let mut out: Vec<BlockQ4_0> = Numbers::new(2).vec(out * 32);
            let call = Call::new("interleave_q4_0");
            let call = call
                .bind(INTERLEAVE_X, &mut x)
                .bind(INTERLEAVE_OUT, &mut out);
            fault(call.arguments(INTERLEAVE_ARGS, &args).run(&machines()[0])).0
        };
        assert_eq!(run(16, 64, 32, 32), "ok");
        assert_eq!(run(16, 64, 31, 32), "out of bounds");
        assert_eq!(run(16, 64, 32, 31), "out of bounds");
        assert_eq!(run(17, 64, 40, 40), "invalid");
        assert_eq!(run(16, 48, 32, 32), "invalid");
    }
}
