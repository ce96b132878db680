//! Blocks of 256 numbers whose groups have scales of their own, quantised once more: Q4_K, Q5_K and Q6_K.
//!
//! The formats leave open how scales are found. This is llama.cpp's search (`ggml-quants.c`, without an importance
//! matrix), in the same order of operations and without fused multiply-adds, so that the blocks are the same bytes.

use half::f16;

/// Numbers in a block.
pub(super) const LENGTH: usize = 256;

/// Groups whose largest number is below this are all zeros.
const ALMOST_ZERO: f32 = 1e-15;

/// Levels 0 to 15 in eight groups of 32, each with a scale and a minimum of 6 bits.
pub(super) fn q4_k(numbers: &[f32; LENGTH], block: &mut [u8; 144]) {
    let search = AffineSearch {
        levels: 15,
        first: -1.0,
        steps: 20,
    };
    let (head, packed) = block.split_at_mut(16);
    let levels = affine_groups(&search, numbers, head);
    for (bytes, levels) in packed.chunks_exact_mut(32).zip(levels.as_chunks::<64>().0) {
        for (index, byte) in bytes.iter_mut().enumerate() {
            *byte = levels[index] | levels[index + 32] << 4;
        }
    }
}

/// Levels 0 to 31 in eight groups of 32, each with a scale and a minimum of 6 bits; their fifth bits lie together.
pub(super) fn q5_k(numbers: &[f32; LENGTH], block: &mut [u8; 176]) {
    let search = AffineSearch {
        levels: 31,
        first: -0.5,
        steps: 15,
    };
    let (head, rest) = block.split_at_mut(16);
    let (fifth, packed) = rest.split_at_mut(32);
    let levels = affine_groups(&search, numbers, head);
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
pub(super) fn q6_k(numbers: &[f32; LENGTH], block: &mut [u8; 210]) {
    let mut levels = [0u8; LENGTH];
    let mut scales = [0f32; 16];
    let groups = numbers.as_chunks::<16>().0;
    for ((scale, numbers), levels) in scales
        .iter_mut()
        .zip(groups)
        .zip(levels.as_chunks_mut::<16>().0)
    {
        *scale = symmetric_scale(numbers, levels);
    }
    let farther = |farthest: f32, scale: &f32| match scale.abs() > farthest.abs() {
        true => *scale,
        false => farthest,
    };
    let farthest = scales.iter().fold(0.0, farther);
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

/// To the nearest integer, of two to the even one.
fn nearest(number: f32) -> i32 {
    number.round_ties_even() as i32
}

/// The search for a scale and a minimum: number ≈ scale · level - minimum.
struct AffineSearch {
    /// The largest level.
    levels: i32,
    /// The first scale that is tried takes the range of a group to `levels + first` steps, each further one to 0.1 more.
    first: f32,
    steps: i32,
}

/// Writes scales and minima to `head`, the block's first 16 bytes, and returns the levels.
fn affine_groups(search: &AffineSearch, numbers: &[f32; LENGTH], head: &mut [u8]) -> [u8; LENGTH] {
    let mut levels = [0u8; LENGTH];
    let (mut scales, mut minima) = ([0f32; 8], [0f32; 8]);
    let groups = numbers.as_chunks::<32>().0;
    for (group, (numbers, levels)) in groups
        .iter()
        .zip(levels.as_chunks_mut::<32>().0)
        .enumerate()
    {
        (scales[group], minima[group]) = search.group(numbers, levels);
    }
    let largest = |of: &[f32; 8]| of.iter().copied().fold(0f32, f32::max);
    let (largest_scale, largest_minimum) = (largest(&scales), largest(&minima));
    let six_bits = |value: f32, largest: f32| {
        let inverse = match largest > 0.0 {
            true => 63.0 / largest,
            false => 0.0,
        };
        nearest(inverse * value).clamp(0, 63) as u8
    };
    let scale_bits = scales.map(|scale| six_bits(scale, largest_scale));
    let minimum_bits = minima.map(|minimum| six_bits(minimum, largest_minimum));
    let (scale, minimum) = (
        f16::from_f32(largest_scale / 63.0),
        f16::from_f32(largest_minimum / 63.0),
    );
    head[..2].copy_from_slice(&scale.to_le_bytes());
    head[2..4].copy_from_slice(&minimum.to_le_bytes());
    head[4..].copy_from_slice(&pack_six_bits(&scale_bits, &minimum_bits));

    // The levels once more, for the rounded scales.
    for (group, (numbers, levels)) in groups
        .iter()
        .zip(levels.as_chunks_mut::<32>().0)
        .enumerate()
    {
        let step = scale.to_f32() * f32::from(scale_bits[group]);
        if step == 0.0 {
            continue;
        }
        let below = minimum.to_f32() * f32::from(minimum_bits[group]);
        for (level, number) in levels.iter_mut().zip(numbers) {
            *level = nearest((number + below) / step).clamp(0, search.levels) as u8;
        }
    }
    levels
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

impl AffineSearch {
    /// The scale and the minimum with the least weighted squared error: for each of several scales the numbers are
    /// rounded, and the best line through the levels is what they are compared by.
    fn group(&self, numbers: &[f32; 32], levels: &mut [u8; 32]) -> (f32, f32) {
        let squares = numbers
            .iter()
            .fold(0f32, |sum, number| sum + number * number);
        let typical = (squares / 32.0).sqrt();
        let weights = numbers.map(|number| typical + number.abs());

        let (mut smallest, mut largest) = (numbers[0], numbers[0]);
        let (mut sum_w, mut sum_x) = (weights[0], weights[0] * numbers[0]);
        for (number, weight) in numbers.iter().zip(&weights).skip(1) {
            smallest = smallest.min(*number);
            largest = largest.max(*number);
            sum_w += weight;
            sum_x += weight * number;
        }
        let smallest = smallest.min(0.0);
        if largest == smallest {
            levels.fill(0);
            return (0.0, -smallest);
        }
        let round = |inverse: f32, minimum: f32| {
            numbers.map(|number| nearest(inverse * (number - minimum)).clamp(0, self.levels) as u8)
        };
        let error = |levels: &[u8; 32], scale: f32, minimum: f32| {
            let mut error = 0f32;
            for ((level, number), weight) in levels.iter().zip(numbers).zip(&weights) {
                let difference = scale * f32::from(*level) + minimum - number;
                error += weight * (difference * difference);
            }
            error
        };

        let inverse = self.levels as f32 / (largest - smallest);
        let (mut scale, mut minimum) = (1.0 / inverse, smallest);
        *levels = round(inverse, minimum);
        let mut best = error(levels, scale, minimum);
        for step in 0..=self.steps {
            // From the best minimum so far, as llama.cpp has it.
            let inverse =
                (self.first + 0.1 * step as f32 + self.levels as f32) / (largest - minimum);
            let tried = round(inverse, minimum);
            let (mut sum_l, mut sum_l2, mut sum_xl) = (0f32, 0f32, 0f32);
            for ((level, number), weight) in tried.iter().zip(numbers).zip(&weights) {
                let level = f32::from(*level);
                sum_l += weight * level;
                sum_l2 += weight * level * level;
                sum_xl += weight * level * number;
            }
            let determinant = sum_w * sum_l2 - sum_l * sum_l;
            if determinant <= 0.0 {
                continue;
            }
            let mut line = (sum_w * sum_xl - sum_x * sum_l) / determinant;
            let mut start = (sum_l2 * sum_x - sum_l * sum_xl) / determinant;
            if start > 0.0 {
                // Minima are stored as what is taken away.
                (line, start) = (sum_xl / sum_l2, 0.0);
            }
            let tried_error = error(&tried, line, start);
            if tried_error < best {
                (best, scale, minimum, *levels) = (tried_error, line, start, tried);
            }
        }
        (scale, -minimum)
    }
}

/// The scale of 16 numbers, number ≈ scale · (level - 32), with the least squared error weighted by the squares of the
/// numbers; 0 when they are all zeros.
fn symmetric_scale(numbers: &[f32; 16], levels: &mut [u8; 16]) -> f32 {
    let farther = |farthest: f32, number: &f32| match number.abs() > farthest.abs() {
        true => *number,
        false => farthest,
    };
    let farthest = numbers.iter().fold(0.0, farther);
    if farthest.abs() < ALMOST_ZERO {
        levels.fill(0);
        return 0.0;
    }
    let round = |inverse: f32| numbers.map(|number| nearest(inverse * number).clamp(-32, 31));
    let store = |levels: &mut [u8; 16], rounded: [i32; 16]| {
        *levels = rounded.map(|level| (level + 32) as u8);
    };
    let sums = |rounded: &[i32; 16]| {
        let (mut sum_xl, mut sum_l2) = (0f32, 0f32);
        for (level, number) in rounded.iter().zip(numbers) {
            let (weight, level) = (number * number, *level as f32);
            sum_xl += weight * number * level;
            sum_l2 += weight * level * level;
        }
        (sum_xl, sum_l2)
    };

    let rounded = round(-32.0 / farthest);
    store(levels, rounded);
    let (sum_xl, sum_l2) = sums(&rounded);
    let mut scale = match sum_l2 != 0.0 {
        true => sum_xl / sum_l2,
        false => 0.0,
    };
    let mut best = scale * sum_xl;
    for step in (-9..=9).filter(|step| *step != 0) {
        let rounded = round(-(32.0 + 0.1 * step as f32) / farthest);
        let (sum_xl, sum_l2) = sums(&rounded);
        if sum_l2 > 0.0 && sum_xl * sum_xl > best * sum_l2 {
            store(levels, rounded);
            scale = sum_xl / sum_l2;
            best = scale * sum_xl;
        }
    }
    scale
}
