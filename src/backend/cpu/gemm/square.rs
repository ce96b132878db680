//! Transposes of f32 in squares, each in registers.

use crate::backend::cpu::simd::Simd;

/// Rows and columns of what [`Simd::interleave`] transposes.
pub const SQUARE: usize = 8;

/// Values, and how many there are from one row to the next.
pub type Stepped<P> = (P, usize);

/// `to[column][row] = from[row][column]` for one square.
///
/// # Safety
/// `from` is readable and `to` writable for that many rows of values.
#[inline(always)]
pub unsafe fn transpose_square<S: Simd>(
    simd: S,
    (from, from_step): Stepped<*const f32>,
    (to, to_step): Stepped<*mut f32>,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let mut rows = [simd.load_group(from.cast()); SQUARE];
        for i in 1..SQUARE {
            rows[i] = simd.load_group(from.add(i * from_step).cast());
        }
        simd.interleave(rows, to.cast(), to_step * size_of::<f32>());
    }
}

/// The same for some rows and columns, multiples of [`SQUARE`].
///
/// # Safety
/// As for [`transpose_square`], for all of them.
#[inline(always)]
pub unsafe fn transpose<S: Simd>(
    simd: S,
    (from, from_step): Stepped<*const f32>,
    (to, to_step): Stepped<*mut f32>,
    rows: usize,
    columns: usize,
) {
    for row in (0..rows).step_by(SQUARE) {
        for column in (0..columns).step_by(SQUARE) {
            // SAFETY: the caller's promise.
            unsafe {
                let from = from.add(row * from_step + column);
                let to = to.add(column * to_step + row);
                transpose_square(simd, (from, from_step), (to, to_step));
            }
        }
    }
}
