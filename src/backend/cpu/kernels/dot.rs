//! Dot products of several rows with several others, sharing what is loaded.

use crate::backend::cpu::quants::{GROUP, Readable};
use crate::backend::cpu::simd::Simd;

/// `[i][j]` is the dot product of the first `count` elements of `a[i]` and `b[j]`. Each sum is formed in an order of
/// its own that depends on `count` alone.
///
/// # Safety
/// Each `b` is readable for `count` elements, each `a` for `count` rounded up to `GROUP`, and what `a` has there past
/// `count` is 0.
#[inline(always)]
pub unsafe fn dots<S: Simd, B: Readable, const M: usize, const N: usize>(
    simd: S,
    a: [*const f32; M],
    b: [*const B; N],
    count: usize,
) -> [[f32; N]; M] {
    let mut sums = [[simd.splat(0.0); N]; M];
    // SAFETY: groups below `count / GROUP` are whole, and the caller made room in `a` for one more.
    unsafe {
        for group in 0..count / GROUP {
            for offset in (0..GROUP).step_by(S::LANES) {
                let mut vectors = [simd.splat(0.0); M];
                for i in 0..M {
                    vectors[i] = simd.load(a[i].add(group * GROUP + offset));
                }
                for j in 0..N {
                    let b = B::vector(simd, b[j], group, offset);
                    for i in 0..M {
                        sums[i][j] = simd.mul_add(vectors[i], b, sums[i][j]);
                    }
                }
            }
        }
        let whole = count - count % GROUP;
        if whole < count {
            for j in 0..N {
                let mut rest = [0f32; GROUP];
                for index in whole..count {
                    rest[index - whole] = B::element(b[j], index);
                }
                for offset in (0..GROUP).step_by(S::LANES) {
                    let b = simd.load(rest.as_ptr().add(offset));
                    for i in 0..M {
                        let a = simd.load(a[i].add(whole + offset));
                        sums[i][j] = simd.mul_add(a, b, sums[i][j]);
                    }
                }
            }
        }
    }
    let mut dots = [[0.0; N]; M];
    for i in 0..M {
        for j in 0..N {
            dots[i][j] = simd.sum(sums[i][j]);
        }
    }
    dots
}
