//! A query and a block of keys.

#![allow(
    clippy::needless_range_loop,
    reason = "closures of iterators need not be inlined, and then miss the instruction set"
)]

use std::ops::Range;

use super::{BLOCK, Queries};
use crate::backend::cpu::kernels::dot::dots;
use crate::backend::cpu::kernels::exponential::exp;
use crate::backend::cpu::quants::{GROUP, Readable};
use crate::backend::cpu::simd::Simd;
use crate::backend::ffi::args::attention_args;

/// What a query has found so far, beside its values weighted by exp(score - largest): the sum of the weights, 0 when
/// there is none.
#[derive(Clone, Copy)]
pub struct RunningSoftmax {
    pub largest: f32,
    pub sum: f32,
}

impl RunningSoftmax {
    pub const EMPTY: RunningSoftmax = RunningSoftmax {
        largest: f32::NEG_INFINITY,
        sum: 0.0,
    };

    /// Makes weights of the scores of `count` keys, which are still to be multiplied with the scale of `args` and to be
    /// capped. Returns what the
    /// values so far are to be multiplied with, or `None` where none of these keys has a weight, whatever the others
    /// score.
    #[inline(always)]
    pub fn weigh<S: Simd>(
        &mut self,
        scores: &mut [f32; BLOCK],
        count: usize,
        args: &attention_args,
    ) -> Option<f32> {
        /// So many scores are computed at a time.
        const LANES: usize = 16;
        let (scores, _) = scores.as_chunks_mut::<LANES>();
        let scores = &mut scores[..count.div_ceil(LANES)];
        let mut scale = args.scale;
        if args.softcap > 0.0 {
            for score in scores.as_flattened_mut() {
                *score = args.softcap * tanh::<S>(*score * scale / args.softcap);
            }
            scale = 1.0;
        }
        let mut most = [f32::NEG_INFINITY; LANES];
        for (part, scores) in scores.iter_mut().enumerate() {
            for i in 0..LANES {
                let score = scores[i] * scale;
                let none = part * LANES + i >= count;
                scores[i] = if none { f32::NEG_INFINITY } else { score };
                most[i] = if scores[i] > most[i] {
                    scores[i]
                } else {
                    most[i]
                };
            }
        }
        let before = self.largest;
        for i in 0..LANES {
            self.largest = self.largest.max(most[i]);
        }
        if most == [f32::NEG_INFINITY; LANES]
            && scores
                .as_flattened()
                .iter()
                .all(|score| *score == f32::NEG_INFINITY)
        {
            return None;
        }
        let mut sums = [0.0; LANES];
        for scores in scores {
            for i in 0..LANES {
                scores[i] = exp::<S>(scores[i] - self.largest);
                sums[i] += scores[i];
            }
        }
        let rescale = match before == self.largest {
            true => 1.0,
            false => (before - self.largest).exp(),
        };
        self.sum = self.sum * rescale + sums.iter().sum::<f32>();
        Some(rescale)
    }

    /// Looks at `keys`, one block after the other.
    ///
    /// # Safety
    /// The query is readable for `head_dim` elements rounded up to `GROUP`, 0 past `head_dim`.
    #[inline(always)]
    pub unsafe fn visit_keys<S: Simd, C: Readable>(
        &mut self,
        simd: S,
        queries: &Queries<C>,
        kv_head: usize,
        query: *const f32,
        keys: Range<usize>,
        weighted: &mut [f32],
    ) {
        let head_dim = weighted.len();
        for start in keys.clone().step_by(BLOCK) {
            let count = BLOCK.min(keys.end - start);
            let mut scores = [0f32; BLOCK];
            for quad in (0..count).step_by(4) {
                // Past the end the last key stands in; its score is not used.
                let mut keys = [std::ptr::null(); 4];
                for i in 0..4 {
                    keys[i] = queries.key(start + (quad + i).min(count - 1), kv_head);
                }
                // SAFETY: `key` checked the keys; the rest is the caller's promise.
                let [products] = unsafe { dots::<S, C, 1, 4>(simd, [query], keys, head_dim) };
                scores[quad..quad + 4].copy_from_slice(&products);
            }
            let Some(rescale) = self.weigh::<S>(&mut scores, count, &queries.args) else {
                continue;
            };
            let mut values = [std::ptr::null(); BLOCK];
            for i in 0..count {
                values[i] = queries.value(start + i, kv_head);
            }
            // SAFETY: `value` checked `head_dim` elements of each.
            unsafe { accumulate(simd, weighted, rescale, &values[..count], &scores) };
        }
    }
}

/// Off by some 2^-23 of 1, in a form that a compiler makes vectors of.
#[inline(always)]
fn tanh<S: Simd>(x: f32) -> f32 {
    let small = exp::<S>(-2.0 * x.abs());
    ((1.0 - small) / (1.0 + small)).copysign(x)
}

/// sums = sums · rescale + sum over i of weights[i] · values[i].
///
/// # Safety
/// Each of `values` is readable for as many elements as `sums` has.
#[inline(always)]
unsafe fn accumulate<S: Simd, C: Readable>(
    simd: S,
    sums: &mut [f32],
    rescale: f32,
    values: &[*const C],
    weights: &[f32; BLOCK],
) {
    let groups = sums.len() / GROUP;
    let (whole, rest) = sums.split_at_mut(groups * GROUP);
    for (group, sums) in whole.chunks_exact_mut(GROUP).enumerate() {
        for offset in (0..GROUP).step_by(2 * S::LANES) {
            // SAFETY: groups are whole, and two vectors fit a group.
            unsafe {
                let at = sums.as_mut_ptr().add(offset);
                let next = at.add(S::LANES);
                let mut first = simd.mul(simd.load(at), simd.splat(rescale));
                let mut second = simd.mul(simd.load(next), simd.splat(rescale));
                for (value, weight) in values.iter().zip(weights) {
                    let weight = simd.splat(*weight);
                    let vector = C::vector(simd, *value, group, offset);
                    first = simd.mul_add(weight, vector, first);
                    let vector = C::vector(simd, *value, group, offset + S::LANES);
                    second = simd.mul_add(weight, vector, second);
                }
                simd.store(first, at);
                simd.store(second, next);
            }
        }
    }
    for (index, sum) in rest.iter_mut().enumerate() {
        *sum *= rescale;
        for (value, weight) in values.iter().zip(weights) {
            // SAFETY: the caller's promise.
            *sum += weight * unsafe { C::element(*value, groups * GROUP + index) };
        }
    }
}
