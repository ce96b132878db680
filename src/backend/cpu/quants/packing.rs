//! Rows of weights into x16 panels, and back. [`super::x16`] says what a panel is.

use super::x16::{Interleaved, WORD, X16_ROWS};

/// A part of a block.
#[derive(Clone, Copy)]
enum Part {
    Word(usize),
    /// Or what else has its size.
    Scale,
}

/// Calls `part` with each part of a block, its place there, and its place in an x16 panel's 16 blocks as row `row` of
/// them, both in bytes.
#[inline(always)]
fn for_parts<B: Interleaved>(row: usize, mut part: impl FnMut(Part, usize, usize)) {
    let (before, after) = B::SCALES;
    let words = B::SCALE_BYTES * before;
    for word in 0..B::WORDS {
        let place = (B::place(word) * X16_ROWS + row) * WORD;
        part(Part::Word(word), words + word * WORD, place);
    }
    let ends = words + B::WORDS * WORD;
    for scale in 0..before + after {
        let from = match scale < before {
            true => scale * B::SCALE_BYTES,
            false => ends + (scale - before) * B::SCALE_BYTES,
        };
        let place = B::WORDS * X16_ROWS * WORD + (scale * X16_ROWS + row) * B::SCALE_BYTES;
        part(Part::Scale, from, place);
    }
}

/// Puts 16 rows into an x16 panel.
///
/// # Safety
/// `rows` is readable for 16 rows of `blocks` blocks, one after another, and `panel` writable for as many bytes. They
/// do not overlap.
pub unsafe fn pack<B: Interleaved>(rows: *const u8, panel: *mut u8, blocks: usize) {
    for block in 0..blocks {
        let to = panel.wrapping_add(block * X16_ROWS * size_of::<B>());
        for row in 0..X16_ROWS {
            let from = rows.wrapping_add((row * blocks + block) * size_of::<B>());
            for_parts::<B>(row, |part, at, place| {
                // SAFETY: the caller's promise; a part lies in its block, and its place in the panel's 16 blocks.
                unsafe { copy::<B>(part, from.add(at), to.add(place), B::arrange) }
            });
        }
    }
}

/// Takes `count` blocks of row `row` out of an x16 panel, from block `first` on.
///
/// # Safety
/// `panel` is readable for 16 rows that have these blocks, and `blocks` writable for them. They do not overlap.
pub unsafe fn unpack<B: Interleaved>(
    panel: *const u8,
    row: usize,
    first: usize,
    count: usize,
    blocks: *mut u8,
) {
    for block in 0..count {
        let from = panel.wrapping_add((first + block) * X16_ROWS * size_of::<B>());
        let to = blocks.wrapping_add(block * size_of::<B>());
        for_parts::<B>(row, |part, at, place| {
            // SAFETY: as in `pack`.
            unsafe { copy::<B>(part, from.add(place), to.add(at), B::restore) }
        });
    }
}

/// Copies a part; a word is changed by `change`, which has its number.
///
/// # Safety
/// `from` is readable for the part's bytes, and `to` writable.
#[inline(always)]
unsafe fn copy<B: Interleaved>(
    part: Part,
    from: *const u8,
    to: *mut u8,
    change: impl Fn(usize, u32) -> u32,
) {
    // SAFETY: the caller's promise; neither needs to be aligned.
    unsafe {
        match part {
            Part::Word(word) => {
                let bits = from.cast::<u32>().read_unaligned();
                // The order of bits is that of a little-endian word.
                let bits = change(word, bits.to_le()).to_le();
                to.cast::<u32>().write_unaligned(bits);
            }
            Part::Scale => from.copy_to_nonoverlapping(to, B::SCALE_BYTES),
        }
    }
}

#[cfg(test)]
mod tests {
    use half::{bf16, f16};

    use super::*;
    use crate::backend::cpu::quants::*;
    use crate::backend::cpu::testing::*;

    /// The words of a block in their order in memory.
    fn order(name: &str, words: usize) -> Vec<usize> {
        let eight = |first: usize| first..first + 8;
        match name {
            "q2_k" => (4..words).chain(0..4).collect(),
            "q3_k" => (0..8).flat_map(|i| [i, 8 + i]).chain(16..words).collect(),
            "q4_k" => (0..3)
                .flat_map(|s| eight(3 + 8 * s).chain([s]))
                .chain(eight(27))
                .collect(),
            "q5_k" => (0..8)
                .flat_map(|i| [3 + i, 11 + i])
                .chain([0])
                .chain(eight(19).chain([1]))
                .chain(eight(27).chain([2]))
                .chain(eight(35))
                .collect(),
            "q6_k" => [(0, 0), (4, 4), (8, 16), (12, 20)]
                .into_iter()
                .enumerate()
                .flat_map(|(s, (high, nibbles))| {
                    (0..4)
                        .flat_map(move |i| [32 + high + i, nibbles + i, nibbles + 8 + i])
                        .chain([48 + s])
                })
                .collect(),
            "iq4_xs" => (1..words).chain([0]).collect(),
            _ => (0..words).collect(),
        }
    }

    /// The upper bits of 32 weights: a byte has those of each fourth weight.
    fn in_steps(bits: [u8; 4]) -> [u8; 4] {
        let bits = u32::from_le_bytes(bits);
        std::array::from_fn(|b| (0..8).map(|j| ((bits >> (4 * j + b) & 1) << j) as u8).sum())
    }

    /// `scales`: the bytes of a block that are no words.
    fn check<B: Sample + Interleaved>(name: &str, blocks: usize, scales: std::ops::Range<usize>) {
        let x: Vec<B> = Numbers::new(blocks as u64).vec(X16_ROWS * blocks * B::ELEMENTS);
        let size = size_of::<B>();
        // SAFETY: blocks are plain bytes without padding.
        let from =
            unsafe { std::slice::from_raw_parts(x.as_ptr().cast::<u8>(), size_of_val(&x[..])) };
        let mut expected = Vec::new();
        for block in 0..blocks {
            let rows = || (0..X16_ROWS).map(|row| &from[(row * blocks + block) * size..][..size]);
            let words = (0..size)
                .filter(|byte| !scales.contains(byte))
                .collect::<Vec<_>>();
            for word in order(name, words.len() / 4) {
                let bytes = &words[4 * word..][..4];
                rows().for_each(|row| {
                    let bytes = std::array::from_fn(|i| row[bytes[i]]);
                    let upper_bits = name.starts_with("q5_") && name != "q5_k" && word == 0;
                    expected.extend(if upper_bits { in_steps(bytes) } else { bytes });
                });
            }
            for scale in scales.clone().step_by(B::SCALE_BYTES) {
                rows().for_each(|row| expected.extend(&row[scale..scale + B::SCALE_BYTES]));
            }
        }
        let mut panel = vec![0u8; from.len()];
        // SAFETY: both have 16 rows of blocks.
        unsafe { pack::<B>(from.as_ptr(), panel.as_mut_ptr(), blocks) };
        assert_eq!(panel, expected, "{name} {blocks}");
        for row in 0..X16_ROWS {
            for first in 0..blocks {
                let mut back = vec![0u8; (blocks - first) * size];
                // SAFETY: as above; the rest of a row.
                unsafe {
                    let to = back.as_mut_ptr();
                    unpack::<B>(panel.as_ptr(), row, first, blocks - first, to);
                }
                assert_eq!(
                    back,
                    from[(row * blocks + first) * size..(row + 1) * blocks * size]
                );
            }
        }
    }

    #[test]
    fn panels_are_as_the_layout_says_and_rows_come_back() {
        for blocks in [1, 2, 9] {
            check::<f16>("f16", blocks, 0..2);
            check::<bf16>("bf16", blocks, 0..2);
            check::<BlockQ8_0>("q8_0", blocks, 0..2);
            check::<BlockQ4_0>("q4_0", blocks, 0..2);
            check::<BlockQ4_1>("q4_1", blocks, 0..4);
            check::<BlockQ5_0>("q5_0", blocks, 0..2);
            check::<BlockQ5_1>("q5_1", blocks, 0..4);
            check::<BlockQ2K>("q2_k", blocks, 80..84);
            check::<BlockQ3K>("q3_k", blocks, 108..110);
            check::<BlockQ4K>("q4_k", blocks, 0..4);
            check::<BlockQ5K>("q5_k", blocks, 0..4);
            check::<BlockQ6K>("q6_k", blocks, 208..210);
            check::<BlockIq4Nl>("iq4_nl", blocks, 0..2);
            check::<BlockIq4Xs>("iq4_xs", blocks, 0..4);
            check::<BlockMxfp4>("mxfp4", blocks, 0..1);
        }
    }
}
