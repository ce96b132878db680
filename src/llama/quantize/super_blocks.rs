//! Blocks of 256 numbers whose groups have scales of their own, quantised once more: Q2_K to Q6_K.

use half::f16;

use super::scale_search::{
    ALMOST_ZERO, AffineSearch, farthest_from_zero, improved_scale, nearest, positive_scale,
    symmetric_scale,
};
use super::weights::{by_importance, mean_square};

/// Numbers in a block.
pub(super) const LENGTH: usize = 256;

/// How much each number of a block matters, where an importance matrix says so.
type Importance<'a> = Option<&'a [f32; LENGTH]>;

/// Levels 0 to 3 in sixteen groups of 16, each with a scale and a minimum of 4 bits.
pub(super) fn q2_k(numbers: &[f32; LENGTH], importance: Importance, block: &mut [u8; 84]) {
    let groups = match importance {
        None => {
            let search = AffineSearch {
                levels: 3,
                first: -0.5,
                more: 0.1,
                steps: 15,
                penalty: f32::abs,
            };
            let weights = |_: usize, numbers: &[f32; 16]| numbers.map(f32::abs);
            AffineGroups::<16>::new(&search, numbers, weights, 15, largest_becomes)
        }
        Some(importance) => {
            let search = AffineSearch::weighted(3);
            let (importance, mean) = (importance.as_chunks::<16>().0, mean_square(numbers));
            let weights = |group: usize, numbers: &[f32; 16]| {
                by_importance(numbers, &importance[group], mean)
            };
            AffineGroups::<16>::new(&search, numbers, weights, 15, least_error)
        }
    };
    let (nibbles, rest) = block.split_at_mut(16);
    let (packed, scales) = rest.split_at_mut(64);
    for (byte, (scale, minimum)) in nibbles
        .iter_mut()
        .zip(groups.scales.iter().zip(&groups.minima))
    {
        *byte = scale | minimum << 4;
    }
    pack_two_bits(&groups.levels, packed);
    scales[..2].copy_from_slice(&groups.scale_of_scales.to_le_bytes());
    scales[2..].copy_from_slice(&groups.scale_of_minima.to_le_bytes());
}

/// The scale that `search` finds for each group of 16, and the levels that it leaves there.
fn scales_of_groups(
    numbers: &[f32; LENGTH],
    levels: &mut [u8; LENGTH],
    search: impl Fn(usize, &[f32; 16], &mut [u8; 16]) -> f32,
) -> [f32; 16] {
    let groups = numbers.as_chunks::<16>().0.iter();
    let groups = groups.zip(levels.as_chunks_mut::<16>().0).enumerate();
    let mut scales = [0.0; 16];
    for (scale, (group, (numbers, levels))) in scales.iter_mut().zip(groups) {
        *scale = search(group, numbers, levels);
    }
    scales
}

/// Levels -4 to 3, stored as 0 to 7, in sixteen groups of 16, each with a scale of 6 bits; their third bits lie
/// together.
pub(super) fn q3_k(numbers: &[f32; LENGTH], importance: Importance, block: &mut [u8; 110]) {
    let mut levels = [0u8; LENGTH];
    let groups = numbers.as_chunks::<16>().0;
    let (scale_of_scales, stored) = match importance {
        None => {
            let scales = scales_of_groups(numbers, &mut levels, |_, numbers, levels| {
                improved_scale(numbers, levels)
            });
            // The farthest scale becomes -32. Scales are stored as 0 to 63, and as 0 where all are zeros.
            let farthest = farthest_from_zero(&scales);
            let inverse = -32.0 / farthest;
            match farthest == 0.0 {
                true => (f16::ZERO, [0; 16]),
                false => (
                    f16::from_f32(1.0 / inverse),
                    scales.map(|scale| (nearest(inverse * scale).clamp(-32, 31) + 32) as u8),
                ),
            }
        }
        Some(importance) => {
            let (importance, mean) = (importance.as_chunks::<16>().0, 2.0 * mean_square(numbers));
            let weights = |group: usize| by_importance(&groups[group], &importance[group], mean);
            let scales = scales_of_groups(numbers, &mut levels, |group, numbers, levels| {
                symmetric_scale(numbers, &weights(group), 4, levels)
            });
            let sums = std::array::from_fn(|group| sum(&weights(group)));
            let mut stored = [0; 16];
            let scale = symmetric_scale(&scales, &sums, 32, &mut stored);
            (f16::from_f32(scale), stored)
        }
    };
    for (group, (numbers, levels)) in groups
        .iter()
        .zip(levels.as_chunks_mut::<16>().0)
        .enumerate()
    {
        let step = scale_of_scales.to_f32() * (f32::from(stored[group]) - 32.0);
        if step == 0.0 {
            continue; // whatever the levels are
        }
        *levels = numbers.map(|number| (nearest(number / step).clamp(-4, 3) + 4) as u8);
    }

    let (third, rest) = block.split_at_mut(32);
    let (packed, rest) = rest.split_at_mut(64);
    let (scale_bytes, scale) = rest.split_at_mut(12);
    for (index, byte) in third.iter_mut().enumerate() {
        *byte = (0..8).fold(0, |byte, run| byte | levels[run * 32 + index] >> 2 << run);
    }
    pack_two_bits(&levels.map(|level| level & 3), packed);
    // Nibbles two by two, then the upper bits of four in a byte.
    for index in 0..8 {
        scale_bytes[index] = stored[index] & 15 | stored[index + 8] << 4;
    }
    for index in 0..4 {
        scale_bytes[index + 8] = (0..4).fold(0, |byte, run| {
            byte | stored[run * 4 + index] >> 4 << (2 * run)
        });
    }
    scale.copy_from_slice(&scale_of_scales.to_le_bytes());
}

/// Levels 0 to 15 in eight groups of 32, each with a scale and a minimum of 6 bits.
pub(super) fn q4_k(numbers: &[f32; LENGTH], importance: Importance, block: &mut [u8; 144]) {
    let search = match importance {
        None => AffineSearch {
            levels: 15,
            first: -1.0,
            more: 0.1,
            steps: 20,
            penalty: |difference| difference * difference,
        },
        Some(_) => AffineSearch::weighted(15),
    };
    let (head, packed) = block.split_at_mut(16);
    let levels = six_bit_groups(&search, numbers, importance, head);
    for (bytes, levels) in packed.chunks_exact_mut(32).zip(levels.as_chunks::<64>().0) {
        for (index, byte) in bytes.iter_mut().enumerate() {
            *byte = levels[index] | levels[index + 32] << 4;
        }
    }
}

/// Levels 0 to 31 in eight groups of 32, each with a scale and a minimum of 6 bits; their fifth bits lie together.
pub(super) fn q5_k(numbers: &[f32; LENGTH], importance: Importance, block: &mut [u8; 176]) {
    let search = match importance {
        None => AffineSearch {
            levels: 31,
            first: -0.5,
            more: 0.1,
            steps: 15,
            penalty: |difference| difference * difference,
        },
        Some(_) => AffineSearch::weighted(31),
    };
    let (head, rest) = block.split_at_mut(16);
    let (fifth, packed) = rest.split_at_mut(32);
    let levels = six_bit_groups(&search, numbers, importance, head);
    fifth.fill(0);
    for (pair, (bytes, levels)) in packed
        .chunks_exact_mut(32)
        .zip(levels.as_chunks::<64>().0)
        .enumerate()
    {
        for (index, byte) in bytes.iter_mut().enumerate() {
            let (low, high) = (levels[index], levels[index + 32]);
            *byte = low & 15 | high << 4;
            fifth[index] |= (low >> 4 | high >> 4 << 1) << (2 * pair);
        }
    }
}

/// Levels -32 to 31, stored as 0 to 63, in sixteen groups of 16, each with a signed byte as its scale.
pub(super) fn q6_k(numbers: &[f32; LENGTH], importance: Importance, block: &mut [u8; 210]) {
    let mut levels = [0u8; LENGTH];
    let importance = importance.map(|importance| importance.as_chunks::<16>().0);
    let scales = scales_of_groups(numbers, &mut levels, |group, numbers, levels| {
        // Without a matrix by their squares, with one by what it says alone, as in llama.cpp.
        let weights = match importance {
            None => numbers.map(|number| number * number),
            Some(importance) => importance[group],
        };
        symmetric_scale(numbers, &weights, 32, levels)
    });
    let farthest = farthest_from_zero(&scales);
    if farthest.abs() < ALMOST_ZERO {
        block.fill(0);
        return;
    }

    // The farthest scale becomes -128.
    let inverse = -128.0 / farthest;
    let scale_of_scales = f16::from_f32(1.0 / inverse);
    let (low, rest) = block.split_at_mut(128);
    let (high, rest) = rest.split_at_mut(64);
    let (bytes, scale_bytes) = rest.split_at_mut(16);
    scale_bytes.copy_from_slice(&scale_of_scales.to_le_bytes());
    for (group, byte) in bytes.iter_mut().enumerate() {
        let scale = nearest(inverse * scales[group]).min(127) as i8;
        *byte = scale as u8;
        let step = scale_of_scales.to_f32() * f32::from(scale);
        if step == 0.0 {
            continue; // whatever the levels are
        }
        for index in group * 16..group * 16 + 16 {
            levels[index] = (nearest(numbers[index] / step).clamp(-32, 31) + 32) as u8;
        }
    }
    // Four runs of 32 share their bytes: nibbles in two runs of bytes, upper bits in one.
    for (half, levels) in levels.as_chunks::<128>().0.iter().enumerate() {
        for index in 0..32 {
            let of = |run: usize| levels[run * 32 + index];
            low[half * 64 + index] = of(0) & 15 | of(2) << 4;
            low[half * 64 + 32 + index] = of(1) & 15 | of(3) << 4;
            high[half * 32 + index] =
                of(0) >> 4 | of(1) >> 4 << 2 | of(2) >> 4 << 4 | of(3) >> 4 << 6;
        }
    }
}

/// 64 bytes: of each half of the levels, four runs of 32 share theirs.
fn pack_two_bits(levels: &[u8; LENGTH], bytes: &mut [u8]) {
    for (bytes, levels) in bytes.chunks_exact_mut(32).zip(levels.as_chunks::<128>().0) {
        for (index, byte) in bytes.iter_mut().enumerate() {
            *byte = (0..4).fold(0, |byte, run| byte | levels[run * 32 + index] << (2 * run));
        }
    }
}

/// Groups with number ≈ scale · level - minimum, of which scales and minima are quantised once more.
struct AffineGroups<const COUNT: usize> {
    levels: [u8; LENGTH],
    scales: [u8; COUNT],
    minima: [u8; COUNT],
    scale_of_scales: f16,
    scale_of_minima: f16,
}

/// Rounds scales or minima, of which none is below 0, given the sums of their groups' weights: the integers, and what
/// one of them stands for.
type Rounding<const COUNT: usize> = fn(&[f32; COUNT], &[f32; COUNT], u8) -> ([u8; COUNT], f16);

/// The largest one becomes the largest integer.
fn largest_becomes<const COUNT: usize>(
    values: &[f32; COUNT],
    _: &[f32; COUNT],
    most: u8,
) -> ([u8; COUNT], f16) {
    let limit = f32::from(most);
    let largest = values.iter().copied().fold(0f32, f32::max);
    let inverse = match largest > 0.0 {
        true => limit / largest,
        false => 0.0,
    };
    let bits = values.map(|value| nearest(inverse * value).clamp(0, i32::from(most)) as u8);
    (bits, f16::from_f32(largest / limit))
}

/// The error is the least by the weights.
fn least_error<const COUNT: usize>(
    values: &[f32; COUNT],
    weights: &[f32; COUNT],
    most: u8,
) -> ([u8; COUNT], f16) {
    let mut bits = [0; COUNT];
    let scale = positive_scale(values, weights, most, &mut bits);
    (bits, f16::from_f32(scale))
}

fn sum(weights: &[f32]) -> f32 {
    weights.iter().fold(0f32, |sum, weight| sum + weight)
}

impl<const COUNT: usize> AffineGroups<COUNT> {
    /// `SIZE` numbers in a group; scales and minima become integers up to `most`.
    fn new<const SIZE: usize>(
        search: &AffineSearch,
        numbers: &[f32; LENGTH],
        weights: impl Fn(usize, &[f32; SIZE]) -> [f32; SIZE],
        most: u8,
        rounding: Rounding<COUNT>,
    ) -> AffineGroups<COUNT> {
        let mut levels = [0u8; LENGTH];
        let (mut scales, mut minima) = ([0f32; COUNT], [0f32; COUNT]);
        let mut sums = [0f32; COUNT];
        let groups = numbers.as_chunks::<SIZE>().0;
        for (group, (numbers, levels)) in groups
            .iter()
            .zip(levels.as_chunks_mut::<SIZE>().0)
            .enumerate()
        {
            let weights = weights(group, numbers);
            sums[group] = sum(&weights);
            (scales[group], minima[group]) = search.group(numbers, &weights, levels);
        }
        let (scales, scale_of_scales) = rounding(&scales, &sums, most);
        let (minima, scale_of_minima) = rounding(&minima, &sums, most);

        // The levels once more, for the rounded scales.
        for (group, (numbers, levels)) in groups
            .iter()
            .zip(levels.as_chunks_mut::<SIZE>().0)
            .enumerate()
        {
            let step = scale_of_scales.to_f32() * f32::from(scales[group]);
            if step == 0.0 {
                continue;
            }
            let below = scale_of_minima.to_f32() * f32::from(minima[group]);
            for (level, number) in levels.iter_mut().zip(numbers) {
                *level = nearest((number + below) / step).clamp(0, search.levels) as u8;
            }
        }
        AffineGroups {
            levels,
            scales,
            minima,
            scale_of_scales,
            scale_of_minima,
        }
    }
}

/// Writes scales and minima of eight groups to `head`, the block's first 16 bytes, and returns the levels.
fn six_bit_groups(
    search: &AffineSearch,
    numbers: &[f32; LENGTH],
    importance: Importance,
    head: &mut [u8],
) -> [u8; LENGTH] {
    let groups = match importance {
        None => {
            let weights = |_: usize, numbers: &[f32; 32]| {
                let squares = numbers
                    .iter()
                    .fold(0f32, |sum, number| sum + number * number);
                let typical = (squares / 32.0).sqrt();
                numbers.map(|number| typical + number.abs())
            };
            AffineGroups::<8>::new(search, numbers, weights, 63, largest_becomes)
        }
        Some(importance) => {
            let (importance, mean) = (importance.as_chunks::<32>().0, 2.0 * mean_square(numbers));
            let weights = |group: usize, numbers: &[f32; 32]| {
                by_importance(numbers, &importance[group], mean)
            };
            AffineGroups::<8>::new(search, numbers, weights, 63, least_error)
        }
    };
    head[..2].copy_from_slice(&groups.scale_of_scales.to_le_bytes());
    head[2..4].copy_from_slice(&groups.scale_of_minima.to_le_bytes());
    head[4..].copy_from_slice(&pack_six_bits(&groups.scales, &groups.minima));
    groups.levels
}

/// Eight scales and eight minima in 12 bytes: the first four of each with 6 bits in bytes 0 to 7, whose upper bits hold
/// those of the others, and the low nibbles of the others in bytes 8 to 11.
fn pack_six_bits(scales: &[u8; 8], minima: &[u8; 8]) -> [u8; 12] {
    let mut bytes = [0; 12];
    for group in 0..4 {
        bytes[group] = scales[group] | scales[group + 4] >> 4 << 6;
        bytes[group + 4] = minima[group] | minima[group + 4] >> 4 << 6;
        bytes[group + 8] = scales[group + 4] & 15 | minima[group + 4] << 4;
    }
    bytes
}
