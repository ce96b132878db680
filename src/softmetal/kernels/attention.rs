//! `attention_<C>`.

use super::super::bindings::args::*;
use super::super::dispatch::{Dispatch, Extent, Fault, View};
use super::super::elements::{GROUP, Readable};
use super::super::simd::{Body, Simd};
use super::dot::dots;
use super::{ALONE, Machine, grain};

const MAX_HEAD_DIM: usize = 256;

/// Keys are looked at in blocks of this many; between blocks the sums so far are rescaled to the new largest score. (Milakov &
/// Gimelshein 2018, arXiv:1805.02867; Dao et al. 2022, arXiv:2205.14135.)
const BLOCK: usize = 64;

pub fn attention<C: Readable>(dispatch: &Dispatch, machine: &Machine) -> Result<(), Fault> {
    let args: attention_args = dispatch.arguments(ATTENTION_ARGS)?;
    let (tokens, heads, kv_heads, head_dim) =
        (args.tokens, args.heads, args.kv_heads, args.head_dim);
    if kv_heads == 0 || heads % kv_heads != 0 {
        return Err(dispatch.invalid(format!(
            "{heads} heads are not a multiple of {kv_heads} kv_heads"
        )));
    }
    if head_dim as usize > MAX_HEAD_DIM {
        return Err(dispatch.invalid(format!("head_dim is {head_dim} and may be {MAX_HEAD_DIM}")));
    }
    let positions = u64::from(args.first_position) + u64::from(tokens);
    let per_query = |token_stride, head_stride| {
        Extent::nested((tokens, token_stride), (heads, head_stride), head_dim)
    };
    let per_key = |token_stride, head_stride| {
        Extent::nested((positions, token_stride), (kv_heads, head_stride), head_dim)
    };
    let q = per_query(args.q_token_stride, args.q_head_stride);
    let q: View<f32> = dispatch.view(ATTENTION_Q, "q", q)?;
    let k = per_key(args.k_token_stride, args.k_head_stride);
    let k: View<C> = dispatch.view(ATTENTION_K, "k", k)?;
    let v = per_key(args.v_token_stride, args.v_head_stride);
    let v: View<C> = dispatch.view(ATTENTION_V, "v", v)?;
    let out = per_query(args.out_token_stride, args.out_head_stride);
    let out: View<f32> = dispatch.view(ATTENTION_OUT, "out", out)?;
    dispatch.expect_simdgroups([heads.into(), tokens.into(), 1])?;

    let separable = out.writes_once()
        && (out.shares_rows_with(&q) || out.is_apart_from(&q))
        && out.is_apart_from(&k)
        && out.is_apart_from(&v);
    let keys = match args.window {
        0 => positions,
        window => positions.min(window.into()),
    };
    let work = 2 * keys as usize * head_dim as usize;
    let grain = if separable { grain(work) } else { ALONE };
    let heads = heads as usize;
    machine.for_ranges(tokens as usize * heads, grain, |range| {
        for index in range {
            let query = Query {
                args,
                token: index / heads,
                head: index % heads,
                q,
                k,
                v,
                out,
            };
            machine.isa.run(query);
        }
    });
    Ok(())
}

/// One query head of one token.
struct Query<'a, C> {
    args: attention_args,
    token: usize,
    head: usize,
    q: View<'a, f32>,
    k: View<'a, C>,
    v: View<'a, C>,
    out: View<'a, f32>,
}

impl<C: Readable> Body for Query<'_, C> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Query {
            args,
            token,
            head,
            q,
            k,
            v,
            out,
        } = self;
        let head_dim = args.head_dim as usize;
        let kv_head = head / (args.heads / args.kv_heads) as usize;
        let row = |token_stride: u64, head_stride: u64| {
            token * token_stride as usize + head * head_stride as usize
        };
        let key = |position: usize, token_stride: u64, head_stride: u64| {
            position * token_stride as usize + kv_head * head_stride as usize
        };

        let mut query = [0f32; MAX_HEAD_DIM]; // zeros past head_dim, as `dots` wants
        let from = q.at(row(args.q_token_stride, args.q_head_stride), head_dim);
        // SAFETY: `at` checked `head_dim` elements, at most MAX_HEAD_DIM.
        unsafe { f32::widen(simd, from, query.as_mut_ptr(), head_dim) };

        let position = args.first_position as usize + token;
        let first = match args.window as usize {
            0 => 0,
            window => (position + 1).saturating_sub(window),
        };
        let mut largest = f32::NEG_INFINITY;
        let mut sum = 0f32;
        let mut weighted = [0f32; MAX_HEAD_DIM];
        for start in (first..position + 1).step_by(BLOCK) {
            let count = BLOCK.min(position + 1 - start);
            let mut scores = [0f32; BLOCK];
            for quad in (0..count).step_by(4) {
                // Past the end the last key stands in; its score is not used.
                let keys = std::array::from_fn(|i| {
                    let position = start + (quad + i).min(count - 1);
                    k.at(
                        key(position, args.k_token_stride, args.k_head_stride),
                        head_dim,
                    )
                    .cast_const()
                });
                // SAFETY: `at` checked the keys; the query is padded with zeros to a multiple of GROUP.
                let [products] =
                    unsafe { dots::<S, C, 1, 4>(simd, [query.as_ptr()], keys, head_dim) };
                scores[quad..quad + 4].copy_from_slice(&products.map(|dot| dot * args.scale));
            }

            if scores[..count]
                .iter()
                .all(|score| *score == f32::NEG_INFINITY)
            {
                continue; // these keys have no weight, whatever the others score
            }
            let before = largest;
            largest = scores[..count].iter().copied().fold(largest, f32::max);
            let rescale = if before == largest {
                1.0
            } else {
                (before - largest).exp()
            };
            sum *= rescale;
            for score in &mut scores[..count] {
                *score = (*score - largest).exp();
                sum += *score;
            }
            let values: [*const C; BLOCK] = std::array::from_fn(|i| {
                let position = start + i.min(count - 1);
                v.at(
                    key(position, args.v_token_stride, args.v_head_stride),
                    head_dim,
                )
                .cast_const()
            });
            // SAFETY: `at` checked `head_dim` elements of each value.
            unsafe {
                accumulate(
                    simd,
                    &mut weighted[..head_dim],
                    rescale,
                    &values[..count],
                    &scores,
                );
            }
        }

        let to = out.at(row(args.out_token_stride, args.out_head_stride), head_dim);
        for (d, weighted) in weighted[..head_dim].iter().enumerate() {
            // SAFETY: `at` checked `head_dim` elements.
            unsafe { to.add(d).write(weighted / sum) };
        }
    }
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
