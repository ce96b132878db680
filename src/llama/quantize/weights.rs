//! Weights of an error, by an importance matrix.

/// The mean of the squares.
pub(super) fn mean_square(numbers: &[f32]) -> f32 {
    let squares = numbers
        .iter()
        .fold(0f32, |sum, number| sum + number * number);
    squares / numbers.len() as f32
}

/// How much each number's error matters: its column's importance, more where the number is large beside `mean`, a mean
/// square. It is llama.cpp's formula (`ggml-quants.c`).
pub(super) fn by_importance<const N: usize>(
    numbers: &[f32; N],
    importance: &[f32; N],
    mean: f32,
) -> [f32; N] {
    std::array::from_fn(|index| importance[index] * (mean + numbers[index] * numbers[index]).sqrt())
}
