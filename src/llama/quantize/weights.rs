//! Weights of an error, by an importance matrix.

/// How much each number's error matters: its column's importance, more where the number is large beside `mean`, a mean
/// square. It is llama.cpp's formula (`ggml-quants.c`).
pub(super) fn by_importance<const N: usize>(
    numbers: &[f32; N],
    importance: &[f32; N],
    mean: f32,
) -> [f32; N] {
    std::array::from_fn(|index| importance[index] * (mean + numbers[index] * numbers[index]).sqrt())
}
