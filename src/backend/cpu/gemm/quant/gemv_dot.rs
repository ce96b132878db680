//! Dot-form GEMV, quantized B stored `[n][k]` and up to 2 rows of A: each row of B is read once, in order, and each
//! element of C is one dot product.

use super::block_dot::DotSums;
use super::quantize_a::{Activations, Row};
use crate::backend::cpu::gemm::problem::{Block, Gemm};
use crate::backend::cpu::quants::{GROUP, Integers, SCALED_GROUPS};
use crate::backend::cpu::simd::{Body, Simd};

/// The most rows of A.
pub const MAX_ROWS: usize = 2;
/// Columns of C that are neighbors in a cache line: threads should not share one.
pub const COLUMNS: usize = 16;
/// Chains of sums, so that one addition need not wait for the one before.
const CHAINS: usize = 4;

pub struct QuantGemvDot<'a, B> {
    pub gemm: &'a Gemm<'a, B, f32>,
    pub a: &'a Activations,
    pub block: Block,
}

impl<B: Integers> Body for QuantGemvDot<'_, B> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        match self.block.rows.len() {
            1 => self.multiply::<S, 1>(simd),
            _ => self.multiply::<S, MAX_ROWS>(simd),
        }
    }
}

impl<B: Integers> QuantGemvDot<'_, B> {
    #[inline(always)]
    fn multiply<S: Simd, const M: usize>(self, simd: S) {
        let QuantGemvDot { gemm, a, block } = self;
        let (batch, rows, k) = (block.batch, block.rows, gemm.k());
        let rows_of_a = a.rows(batch, rows.clone());
        for column in block.columns {
            let b = gemm.b.at(gemm.b_row(batch, column), k);
            // SAFETY: `at` checked the row, and `Activations` made rows of k integers.
            let dots: [_; M] = unsafe { dots(simd, rows_of_a, b.cast_const(), k / GROUP) };
            for i in 0..M {
                gemm.output.write(batch, rows.start + i, column, dots[i]);
            }
        }
    }
}

/// The dot products of rows of A and a row of B.
///
/// # Safety
/// `b` is readable for `groups` groups, `a` is padded as [`Row`] says.
#[inline(always)]
unsafe fn dots<S: Simd, B: Integers, const M: usize>(
    simd: S,
    a: [Row; M],
    b: *const B,
    groups: usize,
) -> [f32; M] {
    let mut sums = [Sums {
        products: [simd.splat(0.0); CHAINS],
        corrections: [0.0; 2 * SCALED_GROUPS],
    }; M];
    let rest = groups % SCALED_GROUPS;
    // SAFETY: the caller's promise.
    unsafe {
        for first in (0..groups - rest).step_by(SCALED_GROUPS) {
            sums = add_groups(simd, a, b, first, SCALED_GROUPS, sums);
        }
        if rest > 0 {
            sums = add_groups(simd, a, b, groups - rest, rest, sums);
        }
    }
    let mut dots = [0.0; M];
    for i in 0..M {
        let [first, second, third, fourth] = sums[i].products;
        let products = simd.add(simd.add(first, second), simd.add(third, fourth));
        dots[i] = simd.sum(products) - sums[i].corrections.iter().sum::<f32>();
    }
    dots
}

/// What is summed up for one row of A. Values of it stay in registers where they are handed on and not changed in
/// place.
#[derive(Clone, Copy)]
struct Sums<S: Simd> {
    products: [S::Vector; CHAINS],
    corrections: [f32; 2 * SCALED_GROUPS],
}

/// Adds the products of `count` groups from `first` on to `sums`.
///
/// # Safety
/// As for [`dots`].
#[inline(always)]
unsafe fn add_groups<S: Simd, B: Integers, const M: usize>(
    simd: S,
    a: [Row; M],
    b: *const B,
    first: usize,
    count: usize,
    mut sums: [Sums<S>; M],
) -> [Sums<S>; M] {
    let (per_group, together) = (GROUP / B::SUB_BLOCK, S::LANES / 8);
    let corrected = B::HAS_MINIMUM || B::zero::<S>() != 0;
    // SAFETY: the caller's promise, here and below.
    let scales = unsafe { B::scales(simd, b, first, count) };
    let mut factors = [[0f32; 2 * SCALED_GROUPS]; M];
    for i in 0..M {
        for j in 0..SCALED_GROUPS * per_group {
            // SAFETY: scales and sums are padded to a multiple of SCALED_GROUPS groups.
            unsafe {
                let scale = a[i].scales.add(first + j / per_group).read();
                factors[i][j] = scales.scales[j] * scale;
                if corrected {
                    let sum = a[i].sums.add(first * per_group + j).read();
                    let sum = scale * sum as f32;
                    let zero = scales.scales[j] * B::zero::<S>() as f32;
                    sums[i].corrections[j] += (scales.minima[j] + zero) * sum;
                }
            }
        }
    }
    for step in 0..count.div_ceil(together) {
        let group = step * together;
        // SAFETY: the caller's promise. Where a second group would be past the end, the last one stands in: A's
        // integers and the factors are 0 there.
        unsafe {
            let integers = B::integers(simd, b, first + group);
            let next = (group + together - 1).min(count - 1);
            let integers = simd.concat(integers, B::integers(simd, b, first + next));
            for i in 0..M {
                let at = (first + group) * GROUP;
                let [first, second] = a[i].planes;
                let planes = [
                    simd.load_bytes(first.add(at)),
                    simd.load_bytes(second.add(at)),
                ];
                let products = DotSums::new(simd, 0).add(simd, B::SIGNED, integers, planes);
                let factors = factors[i].as_ptr().add(group * per_group);
                let factors = if B::SUB_BLOCK == 16 {
                    simd.broadcast_groups::<4>(factors)
                } else {
                    simd.broadcast_groups::<8>(factors)
                };
                let products = products.total(simd);
                // A known place, when the loop is unrolled; else the first.
                let chain = if count == SCALED_GROUPS {
                    step % CHAINS
                } else {
                    0
                };
                let sum = &mut sums[i].products[chain];
                *sum = simd.mul_add(products, factors, *sum);
            }
        }
    }
    sums
}
