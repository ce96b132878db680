//! `attention_<C>`.

use super::super::bindings::args::*;
use super::super::dispatch::{Dispatch, Extent, Fault, View};
use super::super::elements::{GROUP, Readable};
use super::super::simd::{Body, Simd};
use super::dot::dots;
use super::{ALONE, Machine};

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
    dispatch.expect_points([heads.into(), tokens.into(), 1])?;

    let separable = out.writes_once()
        && (out.shares_rows_with(&q) || out.is_apart_from(&q))
        && out.is_apart_from(&k)
        && out.is_apart_from(&v);
    let keys = match args.window {
        0 => positions,
        window => positions.min(window.into()),
    };
    let work = 2 * keys as usize * head_dim as usize;
    let grain = if separable {
        machine.grain(work)
    } else {
        ALONE
    };
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

#[cfg(test)]
mod tests {
    use half::f16;
    use proptest::prelude::*;

    use super::super::super::elements::BlockQ8_0;
    use super::super::testing::*;
    use super::*;

    #[derive(Clone, Copy, Debug)]
    struct Case {
        tokens: usize,
        kv_heads: usize,
        group: usize,
        head_dim: usize,
        first_position: usize,
        window: usize,
        gap: usize,
        /// The cache has one head after the other, not one position after the other.
        head_major: bool,
    }

    const PLAIN: Case = Case {
        tokens: 3,
        kv_heads: 2,
        group: 2,
        head_dim: 64,
        first_position: 0,
        window: 0,
        gap: 0,
        head_major: false,
    };

    fn check<C: Sample>(name: &'static str, case: Case) {
        let Case {
            tokens,
            kv_heads,
            head_dim,
            first_position,
            ..
        } = case;
        let heads = kv_heads * case.group;
        let positions = first_position + tokens;
        let q_head = head_dim + case.gap;
        let q_token = heads * q_head + case.gap;
        let (kv_token, kv_head) = match case.head_major {
            true => (head_dim + case.gap, (positions + 2) * (head_dim + case.gap)),
            false => (kv_heads * (head_dim + case.gap), head_dim + case.gap),
        };
        let cache = positions.max(kv_heads) * kv_token.max(kv_head) + kv_token;
        let mut numbers = Numbers::new((positions * 1000 + head_dim) as u64);
        let q: Vec<f32> = numbers
            .vec::<f32>(tokens * q_token)
            .iter()
            .map(|q| q * 4.0)
            .collect();
        let (k, v): (Vec<C>, Vec<C>) = (numbers.vec(cache), numbers.vec(cache));
        let scale = 1.0 / (head_dim as f32).sqrt();
        let args = attention_args {
            q_token_stride: q_token as u64,
            q_head_stride: q_head as u64,
            k_token_stride: kv_token as u64,
            k_head_stride: kv_head as u64,
            v_token_stride: kv_token as u64,
            v_head_stride: kv_head as u64,
            out_token_stride: q_token as u64,
            out_head_stride: q_head as u64,
            tokens: tokens as u32,
            heads: heads as u32,
            kv_heads: kv_heads as u32,
            head_dim: head_dim as u32,
            first_position: first_position as u32,
            window: case.window as u32,
            scale,
            reserved: 0,
        };
        let run = |machine: &Machine| {
            let (mut q, mut k, mut v) = (q.clone(), k.clone(), v.clone());
            let mut out = vec![f32::POISON; tokens * q_token];
            let call = Call::new(name).bind(ATTENTION_Q, &mut q);
            let call = call.bind(ATTENTION_K, &mut k).bind(ATTENTION_V, &mut v);
            let call = call
                .bind(ATTENTION_OUT, &mut out)
                .arguments(ATTENTION_ARGS, &args);
            call.run(machine).expect("good arguments");
            out
        };

        let mut expected = Vec::new(); // (index in out, value)
        for (token, head) in (0..tokens).flat_map(|token| (0..heads).map(move |head| (token, head)))
        {
            let position = first_position + token;
            let first = match case.window {
                0 => 0,
                window => (position + 1).saturating_sub(window),
            };
            let row = token * q_token + head * q_head;
            let key = |j: usize| j * kv_token + head / case.group * kv_head;
            let scores: Vec<f64> = (first..=position)
                .map(|j| {
                    let products =
                        (0..head_dim).map(|d| f64::from(q[row + d]) * C::value(&k, key(j) + d));
                    products.sum::<f64>() * f64::from(scale)
                })
                .collect();
            let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let weights: Vec<f64> = scores.iter().map(|score| (score - largest).exp()).collect();
            let sum: f64 = weights.iter().sum();
            for d in 0..head_dim {
                let weighted = weights
                    .iter()
                    .zip(first..)
                    .map(|(weight, j)| weight * C::value(&v, key(j) + d));
                expected.push((row + d, weighted.sum::<f64>() / sum));
            }
        }
        on_every_machine(run, |out| {
            for (index, expected) in &expected {
                // Scores below 4 · head_dim · scale lose some 1e-5, values are below 1.
                assert_close(
                    out[*index].into(),
                    *expected,
                    2e-5,
                    format!("{name} {case:?} {index}"),
                );
            }
            let rows = (0..tokens).flat_map(|token| {
                row_ranges(heads, q_head, head_dim)
                    .map(move |row| row.start + token * q_token..row.end + token * q_token)
            });
            assert_untouched(out, rows);
        });
    }

    fn check_both(case: Case) {
        check::<f32>("attention_f32", case);
        check::<f16>("attention_f16", case);
    }

    #[test]
    fn every_head_dim() {
        for head_dim in [1, 3, 31, 32, 33, 64, 80, 100, 128, 255, 256] {
            check_both(Case { head_dim, ..PLAIN });
            check_both(Case {
                head_dim,
                gap: 3,
                head_major: true,
                ..PLAIN
            });
        }
    }

    #[test]
    fn caches_of_blocks() {
        for head_dim in [32, 64, 96, 128, 256] {
            for (gap, head_major) in [(0, false), (32, true)] {
                check::<BlockQ8_0>(
                    "attention_q8_0",
                    Case {
                        head_dim,
                        gap,
                        head_major,
                        first_position: 70,
                        ..PLAIN
                    },
                );
            }
        }
    }

    #[test]
    fn every_length_and_window() {
        for first_position in [0, 1, 60, 63, 64, 65, 200] {
            for window in [0, 1, 2, 64, 100, 1000] {
                check_both(Case {
                    first_position,
                    window,
                    ..PLAIN
                });
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn any_shape(
            tokens in 1usize..8, kv_heads in 1usize..4, group in 1usize..5, head_dim in 1usize..140,
            first_position in 0usize..150, window in 0usize..80, gap in 0usize..5, head_major: bool,
        ) {
            check_both(Case {
                tokens, kv_heads, group, head_dim, first_position, window, gap, head_major,
            });
        }
    }

    /// One query, one head of one dimension, so a score is what k says.
    fn attend(k: &[f32], v: &[f32]) -> f32 {
        let (mut q, mut k, mut v, mut out) = ([1f32], k.to_vec(), v.to_vec(), [f32::POISON]);
        let args = attention_args {
            q_token_stride: 1,
            k_token_stride: 1,
            v_token_stride: 1,
            tokens: 1,
            heads: 1,
            kv_heads: 1,
            head_dim: 1,
            first_position: k.len() as u32 - 1,
            scale: 1.0,
            ..Default::default()
        };
        let call = Call::new("attention_f32").bind(ATTENTION_Q, &mut q);
        let call = call.bind(ATTENTION_K, &mut k).bind(ATTENTION_V, &mut v);
        let call = call
            .bind(ATTENTION_OUT, &mut out)
            .arguments(ATTENTION_ARGS, &args);
        call.run(&machines()[0]).expect("good arguments");
        out[0]
    }

    #[test]
    fn infinities_do_as_the_formula_says() {
        const MIN: f32 = f32::NEG_INFINITY;
        // A whole block of keys without weight, before or after one that has it.
        let mut k = vec![MIN; 2 * BLOCK];
        let v: Vec<f32> = (0..2 * BLOCK).map(|j| j as f32).collect();
        for only in [0, BLOCK - 1, BLOCK, 2 * BLOCK - 1] {
            k[only] = 3.0;
            assert_eq!(attend(&k, &v), only as f32);
            k[only] = MIN;
        }
        assert!(attend(&k, &v).is_nan());
        k[1] = f32::NAN;
        k[BLOCK] = 1.0;
        assert!(attend(&k, &v).is_nan());
    }

    #[test]
    fn wrong_arguments_are_faults() {
        let good = attention_args {
            q_token_stride: 8,
            q_head_stride: 4,
            k_token_stride: 4,
            k_head_stride: 4,
            v_token_stride: 4,
            v_head_stride: 4,
            out_token_stride: 8,
            out_head_stride: 4,
            tokens: 2,
            heads: 2,
            kv_heads: 1,
            head_dim: 4,
            first_position: 3,
            scale: 1.0,
            ..Default::default()
        };
        let run = |args: attention_args, lengths: [usize; 4]| {
            let [mut q, mut k, mut v, mut out] = lengths.map(|length| vec![0f32; length]);
            let call = Call::new("attention_f32").bind(ATTENTION_Q, &mut q);
            let call = call.bind(ATTENTION_K, &mut k).bind(ATTENTION_V, &mut v);
            let call = call
                .bind(ATTENTION_OUT, &mut out)
                .arguments(ATTENTION_ARGS, &args);
            fault(call.run(&machines()[0])).0
        };
        let enough = [16, 20, 20, 16];
        assert_eq!(run(good, enough), "ok");
        for operand in 0..4 {
            let mut short = enough;
            short[operand] -= 1;
            assert_eq!(run(good, short), "out of bounds");
        }
        assert_eq!(
            run(
                attention_args {
                    first_position: u32::MAX,
                    ..good
                },
                enough
            ),
            "out of bounds"
        );
        assert_eq!(
            run(
                attention_args {
                    head_dim: 257,
                    ..good
                },
                enough
            ),
            "invalid"
        );
        assert_eq!(
            run(
                attention_args {
                    kv_heads: 0,
                    ..good
                },
                enough
            ),
            "invalid"
        );
        assert_eq!(
            run(
                attention_args {
                    heads: 3,
                    kv_heads: 2,
                    ..good
                },
                [99; 4]
            ),
            "invalid"
        );
    }
}
