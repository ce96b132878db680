//! The search for the scales of a group, which the formats leave open.
//!
//! It is llama.cpp's (`ggml-quants.c`), in the same order of operations and without fused multiply-adds, so that the
//! blocks are the same bytes.

/// Groups whose largest number is below this are all zeros.
pub(super) const ALMOST_ZERO: f32 = 1e-15;

/// To the nearest integer, of two to the even one.
pub(super) fn nearest(number: f32) -> i32 {
    number.round_ties_even() as i32
}

/// The number farthest from zero, of several the first; 0 if there is none.
pub(super) fn farthest_from_zero(numbers: &[f32]) -> f32 {
    let farther = |farthest: f32, number: &f32| match number.abs() > farthest.abs() {
        true => *number,
        false => farthest,
    };
    numbers.iter().fold(0.0, farther)
}

/// The search for a scale and a minimum: number ≈ scale · level - minimum.
pub(super) struct AffineSearch {
    /// The largest level.
    pub levels: i32,
    /// The first scale that is tried takes the range of a group to `levels + first` steps, each further one to `more`
    /// more.
    pub first: f32,
    pub more: f32,
    pub steps: i32,
    /// What a difference costs.
    pub penalty: fn(f32) -> f32,
}

impl AffineSearch {
    /// For weights that an importance matrix has part in: finer steps, and squared errors.
    pub fn weighted(levels: i32) -> AffineSearch {
        AffineSearch {
            levels,
            first: -0.9,
            more: 0.05,
            steps: 36,
            penalty: |difference| difference * difference,
        }
    }

    /// The scale and the minimum with the least weighted cost: for each of several scales the numbers are rounded,
    /// and the best line through the levels is what they are compared by.
    pub fn group<const N: usize>(
        &self,
        numbers: &[f32; N],
        weights: &[f32; N],
        levels: &mut [u8; N],
    ) -> (f32, f32) {
        let (mut smallest, mut largest) = (numbers[0], numbers[0]);
        let (mut sum_w, mut sum_x) = (weights[0], weights[0] * numbers[0]);
        for (number, weight) in numbers.iter().zip(weights).skip(1) {
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
        let error = |levels: &[u8; N], scale: f32, minimum: f32| {
            let mut error = 0f32;
            for ((level, number), weight) in levels.iter().zip(numbers).zip(weights) {
                let difference = scale * f32::from(*level) + minimum - number;
                error += weight * (self.penalty)(difference);
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
                (self.first + self.more * step as f32 + self.levels as f32) / (largest - minimum);
            let tried = round(inverse, minimum);
            let (mut sum_l, mut sum_l2, mut sum_xl) = (0f32, 0f32, 0f32);
            for ((level, number), weight) in tried.iter().zip(numbers).zip(weights) {
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

/// The scale of a group, number ≈ scale · (level - `below`), with the least squared error by these weights; 0 when the
/// numbers are all zeros. Levels are 0 to 2 · `below` - 1. (`make_qx_quants`)
pub(super) fn symmetric_scale<const N: usize>(
    numbers: &[f32; N],
    weights: &[f32; N],
    below: i32,
    levels: &mut [u8; N],
) -> f32 {
    let farthest = farthest_from_zero(numbers);
    if farthest.abs() < ALMOST_ZERO {
        levels.fill(0);
        return 0.0;
    }
    let round =
        |inverse: f32| numbers.map(|number| nearest(inverse * number).clamp(-below, below - 1));
    let store = |levels: &mut [u8; N], rounded: [i32; N]| {
        *levels = rounded.map(|level| (level + below) as u8);
    };
    let sums = |rounded: &[i32; N]| {
        let (mut sum_xl, mut sum_l2) = (0f32, 0f32);
        for ((level, number), weight) in rounded.iter().zip(numbers).zip(weights) {
            let level = *level as f32;
            sum_xl += weight * number * level;
            sum_l2 += weight * level * level;
        }
        (sum_xl, sum_l2)
    };

    let count = below as f32;
    let rounded = round(-count / farthest);
    store(levels, rounded);
    let (sum_xl, sum_l2) = sums(&rounded);
    let mut scale = match sum_l2 != 0.0 {
        true => sum_xl / sum_l2,
        false => 0.0,
    };
    let mut best = scale * sum_xl;
    for step in (-9..=9).filter(|step| *step != 0) {
        let rounded = round(-(count + 0.1 * step as f32) / farthest);
        let (sum_xl, sum_l2) = sums(&rounded);
        if sum_l2 > 0.0 && sum_xl * sum_xl > best * sum_l2 {
            store(levels, rounded);
            scale = sum_xl / sum_l2;
            best = scale * sum_xl;
        }
    }
    scale
}

/// The scale of numbers from 0 up, number ≈ scale · level, with the least squared error by these weights, whose levels
/// are then changed one by one as long as it becomes less; 0 when there is none above 0. (`make_qp_quants`)
pub(super) fn positive_scale<const N: usize>(
    numbers: &[f32; N],
    weights: &[f32; N],
    most: u8,
    levels: &mut [u8; N],
) -> f32 {
    let largest = numbers.iter().copied().fold(0f32, f32::max);
    if largest <= 0.0 {
        levels.fill(0);
        return 0.0;
    }
    let count = f32::from(most);
    let round = |inverse: f32| {
        numbers.map(|number| nearest(inverse * number).clamp(0, i32::from(most)) as f32)
    };
    let error = |inverse: f32| {
        let (scale, mut error) = (1.0 / inverse, 0f32);
        for ((level, number), weight) in round(inverse).iter().zip(numbers).zip(weights) {
            let difference = number - scale * level;
            error += weight * difference * difference;
        }
        error
    };
    let mut inverse = count / largest;
    let mut least = error(inverse);
    for step in (-4..=4).filter(|step| *step != 0) {
        let tried = (0.1 * step as f32 + count) / largest;
        let tried_error = error(tried);
        if tried_error < least {
            (least, inverse) = (tried_error, tried);
        }
    }

    let mut rounded = round(inverse);
    let (mut sum_xl, mut sum_l2) = (0f32, 0f32);
    for ((level, number), weight) in rounded.iter().zip(numbers).zip(weights) {
        sum_xl += weight * number * level;
        sum_l2 += weight * level * level;
    }
    for _ in 0..5 {
        let mut changed = false;
        for ((level, number), weight) in rounded.iter_mut().zip(numbers).zip(weights) {
            let mut tried_xl = sum_xl - weight * number * *level;
            let mut tried_l2 = sum_l2 - weight * *level * *level;
            if tried_xl <= 0.0 || tried_l2 <= 0.0 {
                continue;
            }
            let tried = nearest(number * tried_l2 / tried_xl).clamp(0, i32::from(most)) as f32;
            if tried == *level {
                continue;
            }
            tried_xl += weight * number * tried;
            tried_l2 += weight * tried * tried;
            if tried_xl * tried_xl * sum_l2 > sum_xl * sum_xl * tried_l2 {
                (*level, sum_xl, sum_l2, changed) = (tried, tried_xl, tried_l2, true);
            }
        }
        if !changed {
            break;
        }
    }
    *levels = rounded.map(|level| level as u8);
    match sum_l2 > 0.0 {
        true => sum_xl / sum_l2,
        // No weight at all: as good as any other.
        false => 1.0 / inverse,
    }
}

/// The scale of 16 numbers, number ≈ scale · (level - 4), whose levels are changed one by one as long as the squared
/// error, weighted by the squares of the numbers, becomes less; 0 when they are all zeros.
pub(super) fn improved_scale(numbers: &[f32; 16], levels: &mut [u8; 16]) -> f32 {
    let farthest = farthest_from_zero(numbers);
    if farthest.abs() < ALMOST_ZERO {
        levels.fill(0);
        return 0.0;
    }
    let inverse = -4.0 / farthest;
    let mut rounded = numbers.map(|number| nearest(inverse * number).clamp(-4, 3) as f32);
    let (mut sum_xl, mut sum_l2) = (0f32, 0f32);
    for (level, number) in rounded.iter().zip(numbers) {
        let weight = number * number;
        sum_xl += weight * number * level;
        sum_l2 += weight * level * level;
    }
    for _ in 0..5 {
        let mut changed = false;
        for (level, number) in rounded.iter_mut().zip(numbers) {
            let weight = number * number;
            let (others_xl, others_l2) = (
                sum_xl - weight * number * *level,
                sum_l2 - weight * *level * *level,
            );
            if others_xl <= 0.0 {
                continue;
            }
            let tried = nearest(number * others_l2 / others_xl).clamp(-4, 3) as f32;
            if tried == *level {
                continue;
            }
            let tried_xl = others_xl + weight * number * tried;
            let tried_l2 = others_l2 + weight * tried * tried;
            if tried_l2 > 0.0 && tried_xl * tried_xl * sum_l2 > sum_xl * sum_xl * tried_l2 {
                (*level, sum_xl, sum_l2, changed) = (tried, tried_xl, tried_l2, true);
            }
        }
        if !changed {
            break;
        }
    }
    *levels = rounded.map(|level| (level + 4.0) as u8);
    match sum_l2 > 0.0 {
        true => sum_xl / sum_l2,
        false => 0.0,
    }
}
