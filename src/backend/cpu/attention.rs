//! Attention: `attention_<C>`, `attention_tiled_<D>_<C>`, `attention_split_<C>` and `attention_merge`.

pub mod backward;
mod online_softmax;
mod tile_gemm;
mod tiled;

use std::ops::Range;

use super::bindings::{Dispatch, Extent, View};
use super::machine::{ALONE, Machine};
use super::quants::Readable;
use super::scratch::{AllocStatus, Scratch, arena};
use crate::backend::fault::Fault;
use crate::backend::ffi::args::*;
use tiled::{Memory, Tile};

const MAX_HEAD_DIM: usize = 256;

/// Keys are looked at in blocks of this many; between blocks the sums so far are rescaled to the new largest score.
/// (Milakov & Gimelshein 2018, arXiv:1805.02867; Dao et al. 2022, arXiv:2205.14135.)
const BLOCK: usize = 64;

arena!(ARENA);

/// `attention_<C>`, and `attention_tiled_256_<C>`.
pub fn attention<C: Readable>(dispatch: &Dispatch, machine: &Machine) -> Result<(), Fault> {
    attention_up_to::<C, MAX_HEAD_DIM>(dispatch, machine)
}

/// `attention_tiled_<D>_<C>`.
pub fn attention_up_to<C: Readable, const D: usize>(
    dispatch: &Dispatch,
    machine: &Machine,
) -> Result<(), Fault> {
    let args: attention_args = dispatch.arguments(ATTENTION_ARGS)?;
    let queries: Queries<C> = Queries::new(dispatch, args, D)?;
    let out = view_of_out(dispatch, ATTENTION_OUT, &args)?;
    dispatch.expect_points([args.heads.into(), args.tokens.into(), 1])?;

    let separable = out.writes_once()
        && (out.aliases_rows_of(&queries.q) || out.is_apart_from(&queries.q))
        && out.is_apart_from(&queries.k)
        && out.is_apart_from(&queries.v);
    let head_dim = args.head_dim as usize;
    let pieces = Pieces {
        count: 1,
        length: queries.most_keys() as usize,
    };
    queries.for_tiles(machine, separable, pieces, |tile, memory| {
        for row in 0..tile.rows() {
            let (token, head) = tile.token_and_head(row);
            let to = out.at(
                row_of(token, args.out_token_stride, head, args.out_head_stride),
                head_dim,
            );
            let (running, weighted) = memory.results(row, head_dim);
            for (d, weighted) in weighted.iter().enumerate() {
                // SAFETY: `at` checked `head_dim` elements.
                unsafe { to.add(d).write(weighted / running.sum) };
            }
        }
    })
}

/// `attention_split_<C>`.
pub fn attention_split<C: Readable>(dispatch: &Dispatch, machine: &Machine) -> Result<(), Fault> {
    let args: attention_args = dispatch.arguments(ATTENTION_ARGS)?;
    let queries: Queries<C> = Queries::new(dispatch, args, MAX_HEAD_DIM)?;
    let (splits, length) = (u64::from(args.splits), u64::from(args.split_length));
    if splits * length < queries.most_keys() {
        return Err(dispatch.invalid(format!(
            "{splits} pieces of {length} keys do not cover the {} that a query sees",
            queries.most_keys()
        )));
    }
    let parts = view_of_parts(dispatch, ATTENTION_OUT, &args)?;
    dispatch.expect_points([splits, args.heads.into(), args.tokens.into()])?;

    let separable = parts.is_apart_from(&queries.q)
        && parts.is_apart_from(&queries.k)
        && parts.is_apart_from(&queries.v);
    let (heads, head_dim) = (args.heads as usize, args.head_dim as usize);
    let pieces = Pieces {
        count: splits as usize,
        length: length as usize,
    };
    queries.for_tiles(machine, separable, pieces, |tile, memory| {
        for row in 0..tile.rows() {
            let (token, head) = tile.token_and_head(row);
            let part = (token * heads + head) * pieces.count + tile.piece;
            let to = parts.at(part * (head_dim + 2), head_dim + 2);
            let (running, weighted) = memory.results(row, head_dim);
            let largest = if running.sum == 0.0 {
                0.0
            } else {
                running.largest
            };
            let values = weighted.iter().chain([&largest, &running.sum]);
            for (index, value) in values.enumerate() {
                // SAFETY: `at` checked `head_dim + 2` elements.
                unsafe { to.add(index).write(*value) };
            }
        }
    })
}

/// `attention_merge`.
pub fn attention_merge(dispatch: &Dispatch, machine: &Machine) -> Result<(), Fault> {
    let args: attention_args = dispatch.arguments(ATTENTION_MERGE_ARGS)?;
    if args.head_dim as usize > MAX_HEAD_DIM {
        return Err(dispatch.invalid(format!(
            "head_dim is {} and may be {MAX_HEAD_DIM}",
            args.head_dim
        )));
    }
    let parts = view_of_parts(dispatch, ATTENTION_MERGE_PARTS, &args)?;
    let out = view_of_out(dispatch, ATTENTION_MERGE_OUT, &args)?;
    dispatch.expect_points([args.heads.into(), args.tokens.into(), 1])?;

    let (heads, splits, head_dim) = (
        args.heads as usize,
        args.splits as usize,
        args.head_dim as usize,
    );
    let grain = if out.writes_once() && out.is_apart_from(&parts) {
        machine.grain(splits * head_dim)
    } else {
        ALONE
    };
    machine.for_ranges(args.tokens as usize * heads, grain, |range| {
        for index in range {
            // SAFETY: `at` checks each element.
            let part = |split: usize, element: usize| unsafe {
                let row = index * splits + split;
                parts.at(row * (head_dim + 2) + element, 1).read()
            };
            let weighs = |split: &usize| part(*split, head_dim + 1) != 0.0;
            let largest = (0..splits)
                .filter(weighs)
                .map(|split| part(split, head_dim))
                .fold(f32::NEG_INFINITY, f32::max);
            let mut sum = 0f32;
            let mut totals = [0f32; MAX_HEAD_DIM];
            for split in (0..splits).filter(weighs) {
                let share = (part(split, head_dim) - largest).exp();
                sum += part(split, head_dim + 1) * share;
                for (d, total) in totals[..head_dim].iter_mut().enumerate() {
                    *total += part(split, d) * share;
                }
            }
            let (token, head) = (index / heads, index % heads);
            let row = row_of(token, args.out_token_stride, head, args.out_head_stride);
            let to = out.at(row, head_dim);
            for (d, total) in totals[..head_dim].iter().enumerate() {
                // SAFETY: `at` checked `head_dim` elements.
                unsafe { to.add(d).write(total / sum) };
            }
        }
    });
    Ok(())
}

fn row_of(token: usize, token_stride: u64, head: usize, head_stride: u64) -> usize {
    token * token_stride as usize + head * head_stride as usize
}

fn view_of_out<'a>(
    dispatch: &Dispatch<'a>,
    index: u32,
    args: &attention_args,
) -> Result<View<'a, f32>, Fault> {
    let heads = (args.heads, args.out_head_stride);
    let extent = Extent::nested((args.tokens, args.out_token_stride), heads, args.head_dim);
    dispatch.view(index, "out", extent)
}

/// The rows that `attention_split` writes and `attention_merge` reads.
fn view_of_parts<'a>(
    dispatch: &Dispatch<'a>,
    index: u32,
    args: &attention_args,
) -> Result<View<'a, f32>, Fault> {
    let width = u64::from(args.head_dim) + 2;
    let per_token = u64::from(args.heads) * u64::from(args.splits);
    let stride = per_token.saturating_mul(width);
    let extent = Extent::nested((args.tokens, stride), (per_token, width), width);
    dispatch.view(index, "the pieces", extent)
}

/// The pieces that the keys of each query are looked at in.
#[derive(Clone, Copy)]
struct Pieces {
    count: usize,
    length: usize,
}

/// The operands of an attention, checked.
struct Queries<'a, C> {
    args: attention_args,
    q: View<'a, f32>,
    k: View<'a, C>,
    v: View<'a, C>,
}

impl<'a, C: Readable> Queries<'a, C> {
    fn new(
        dispatch: &Dispatch<'a>,
        args: attention_args,
        most_head_dim: usize,
    ) -> Result<Self, Fault> {
        let (tokens, heads, kv_heads, head_dim) =
            (args.tokens, args.heads, args.kv_heads, args.head_dim);
        if kv_heads == 0 || heads % kv_heads != 0 {
            return Err(dispatch.invalid(format!(
                "{heads} heads are not a multiple of {kv_heads} kv_heads"
            )));
        }
        if head_dim as usize > most_head_dim {
            return Err(
                dispatch.invalid(format!("head_dim is {head_dim} and may be {most_head_dim}"))
            );
        }
        let positions = u64::from(args.first_position) + u64::from(tokens);
        let per_query = |token_stride, head_stride| {
            Extent::nested((tokens, token_stride), (heads, head_stride), head_dim)
        };
        let per_key = |token_stride, head_stride| {
            Extent::nested((positions, token_stride), (kv_heads, head_stride), head_dim)
        };
        let q = per_query(args.q_token_stride, args.q_head_stride);
        let k = per_key(args.k_token_stride, args.k_head_stride);
        let v = per_key(args.v_token_stride, args.v_head_stride);
        Ok(Queries {
            args,
            q: dispatch.view(ATTENTION_Q, "q", q)?,
            k: dispatch.view(ATTENTION_K, "k", k)?,
            v: dispatch.view(ATTENTION_V, "v", v)?,
        })
    }

    /// What a query of this many keys costs, in multiply-adds of a product: those of short vectors take longer, and
    /// there are exponentials.
    fn work(&self, keys: usize) -> usize {
        8 * keys * self.args.head_dim as usize
    }

    /// How many keys any one query sees at most.
    fn most_keys(&self) -> u64 {
        let positions = u64::from(self.args.first_position) + u64::from(self.args.tokens);
        match self.args.window {
            0 => positions,
            window => positions.min(window.into()),
        }
    }

    /// The keys that the query of a token sees.
    fn keys_of(&self, token: usize) -> Range<usize> {
        let end = self.args.first_position as usize + token + 1;
        match self.args.window as usize {
            0 => 0..end,
            window => end.saturating_sub(window)..end,
        }
    }

    /// A key of `head_dim` elements.
    #[inline(always)]
    fn key(&self, position: usize, kv_head: usize) -> *const C {
        let args = &self.args;
        let row = row_of(position, args.k_token_stride, kv_head, args.k_head_stride);
        self.k.at(row, args.head_dim as usize).cast_const()
    }

    /// A value of `head_dim` elements.
    #[inline(always)]
    fn value(&self, position: usize, kv_head: usize) -> *const C {
        let args = &self.args;
        let row = row_of(position, args.v_token_stride, kv_head, args.v_head_stride);
        self.v.at(row, args.head_dim as usize).cast_const()
    }

    /// The keys of a piece that the query of a token sees.
    fn keys_in(&self, token: usize, piece: usize, pieces: Pieces) -> Range<usize> {
        let all = self.keys_of(token);
        let start = all.end.min(all.start + piece * pieces.length);
        start..all.end.min(start + pieces.length)
    }

    /// Calls `store` with what each tile has found, on several threads.
    fn for_tiles(
        &self,
        machine: &Machine,
        separable: bool,
        pieces: Pieces,
        store: impl Fn(&Tile<C>, &Memory) + Sync,
    ) -> Result<(), Fault> {
        let args = &self.args;
        let (tokens, head_dim) = (args.tokens as usize, args.head_dim as usize);
        let group = (args.heads / args.kv_heads) as usize;
        let heads_of_tile = group.min(tiled::ROWS);
        let tokens_of_tile = (tiled::ROWS / heads_of_tile).min(tiled::TOKENS);
        let parts_of_group = group.div_ceil(heads_of_tile);
        let parts = args.kv_heads as usize * parts_of_group;

        let rows = heads_of_tile * tokens_of_tile.min(tokens);
        let keys = pieces.length.min(self.most_keys() as usize);
        let grain = match separable {
            true => machine.grain(rows * self.work(keys)),
            false => ALONE,
        };
        let status = AllocStatus::default();
        let items = tokens.div_ceil(tokens_of_tile) * parts * pieces.count;
        machine.for_ranges(items, grain, |range| {
            let scratch = match Scratch::take(&ARENA, Memory::bytes(rows, head_dim)) {
                Ok(scratch) => scratch,
                Err(error) => return status.note(Err(error)),
            };
            let memory = Memory::new(&scratch, rows, head_dim);
            for index in range {
                let (block, part) = (index / pieces.count / parts, index / pieces.count % parts);
                let (kv_head, part) = (part / parts_of_group, part % parts_of_group);
                let token = block * tokens_of_tile;
                let head = kv_head * group + part * heads_of_tile;
                let tile = Tile {
                    queries: self,
                    tokens: token..tokens.min(token + tokens_of_tile),
                    heads: head..((kv_head + 1) * group).min(head + heads_of_tile),
                    kv_head,
                    pieces,
                    piece: index % pieces.count,
                };
                machine.isa.run(tiled::ComputeTile {
                    tile: &tile,
                    memory: &memory,
                });
                store(&tile, &memory);
            }
        });
        status.into_result("a tile of an attention")
    }
}

#[cfg(test)]
pub mod tests {
    use half::{bf16, f16};
    use proptest::prelude::*;

    use super::*;
    use crate::backend::cpu::msl::lane_order::LaneOrder;
    use crate::backend::cpu::quants::BlockQ8_0;
    use crate::backend::cpu::registry::{Kernel, kernels};
    use crate::backend::cpu::testing::*;

    #[derive(Clone, Copy, Debug)]
    struct Case {
        tokens: usize,
        kv_heads: usize,
        group: usize,
        head_dim: usize,
        first_position: usize,
        window: usize,
        gap: usize,
        /// 0: none.
        softcap: f32,
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
        softcap: 0.0,
        head_major: false,
    };

    /// Which kernels do it.
    #[derive(Clone, Copy, Debug)]
    enum Kernels {
        Plain,
        /// For heads of at most that many elements.
        Tiled(usize),
        /// In pieces of that many keys.
        Pieces(usize),
    }

    /// The type of a cache, as kernels' names have it.
    trait Cache: Sample {
        const NAME: &'static str;
    }
    impl Cache for f32 {
        const NAME: &'static str = "f32";
    }
    impl Cache for f16 {
        const NAME: &'static str = "f16";
    }
    impl Cache for bf16 {
        const NAME: &'static str = "bf16";
    }
    impl Cache for BlockQ8_0 {
        const NAME: &'static str = "q8_0";
    }

    fn named(name: String) -> &'static str {
        kernels()
            .map(Kernel::display_name)
            .find(|known| *known == name)
            .unwrap_or_else(|| panic!("no kernel {name}"))
    }

    fn check<C: Cache>(chosen: Kernels, case: Case, on: On) {
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
            softcap: case.softcap,
            ..Default::default()
        };
        let run = |executor: Executor| {
            let (mut q, mut k, mut v) = (q.clone(), k.clone(), v.clone());
            let mut out = vec![f32::POISON; tokens * q_token];
            let mut pass = |name, args, out: &mut [f32], points| {
                let call = Call::new(named(name)).bind(ATTENTION_Q, &mut q);
                let call = call.bind(ATTENTION_K, &mut k).bind(ATTENTION_V, &mut v);
                let call = call.bind(ATTENTION_OUT, out).covering(points);
                call.arguments(ATTENTION_ARGS, args)
                    .run_on(executor)
                    .unwrap_or_else(|fault| panic!("{chosen:?} {case:?}: {fault:?}"));
            };
            let (points, ty) = ([heads, tokens, 1], C::NAME);
            match chosen {
                Kernels::Plain => pass(format!("attention_{ty}"), &args, &mut out, points),
                Kernels::Tiled(most) => {
                    let name = format!("attention_tiled_{most}_{ty}");
                    pass(name, &args, &mut out, points);
                }
                Kernels::Pieces(length) => {
                    let seen = [case.window, positions]
                        .into_iter()
                        .filter(|keys| *keys > 0);
                    let splits = seen.min().unwrap_or(0).div_ceil(length);
                    let args = attention_args {
                        splits: splits as u32,
                        split_length: length as u32,
                        ..args
                    };
                    let mut parts = vec![f32::POISON; tokens * heads * splits * (head_dim + 2)];
                    let name = format!("attention_split_{ty}");
                    pass(name, &args, &mut parts, [splits, heads, tokens]);
                    let unwritten = |part: &f32| part.to_bits() == f32::POISON.to_bits();
                    assert!(!parts.iter().any(unwritten), "{case:?}");
                    let call = Call::new("attention_merge")
                        .bind(ATTENTION_MERGE_PARTS, &mut parts)
                        .bind(ATTENTION_MERGE_OUT, &mut out)
                        .covering(points);
                    call.arguments(ATTENTION_MERGE_ARGS, &args)
                        .run_on(executor)
                        .unwrap_or_else(|fault| panic!("{case:?}: {fault:?}"));
                }
            }
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
                    let score = products.sum::<f64>() * f64::from(scale);
                    match f64::from(case.softcap) {
                        0.0 => score,
                        cap => cap * (score / cap).tanh(),
                    }
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
        let verify = |out: &[f32]| {
            for (index, expected) in &expected {
                // Scores below 4 · head_dim · scale lose some 1e-5, values are below 1.
                assert_close(
                    out[*index].into(),
                    *expected,
                    2e-5,
                    format_args!("{chosen:?} of {} {case:?} {index}", C::NAME),
                );
            }
            let rows = (0..tokens).flat_map(|token| {
                row_ranges(heads, q_head, head_dim)
                    .map(move |row| row.start + token * q_token..row.end + token * q_token)
            });
            assert_untouched(out, rows);
        };
        on.each(run, verify);
    }

    fn check_all_types(chosen: Kernels, case: Case, on: On) {
        check::<f32>(chosen, case, on);
        check::<f16>(chosen, case, on);
        check::<bf16>(chosen, case, on);
        let head_dim = case.head_dim.next_multiple_of(32);
        let fits = !matches!(chosen, Kernels::Tiled(most) if most < head_dim);
        let gap = case.gap.next_multiple_of(32);
        if fits {
            let case = Case {
                head_dim,
                gap,
                ..case
            };
            check::<BlockQ8_0>(chosen, case, on);
        }
    }

    fn check_native(case: Case) {
        check_all_types(Kernels::Plain, case, On::Native);
        check::<f32>(Kernels::Pieces(16), case, On::Native);
    }

    #[test]
    fn every_head_dim() {
        for head_dim in [1, 3, 31, 32, 33, 64, 80, 100, 128, 255, 256] {
            check_native(Case { head_dim, ..PLAIN });
            check_native(Case {
                head_dim,
                gap: 3,
                head_major: true,
                first_position: 70,
                ..PLAIN
            });
        }
    }

    #[test]
    fn every_length_and_window() {
        for first_position in [0, 1, 60, 63, 64, 65, 200] {
            for window in [0, 1, 2, 64, 100, 1000] {
                check_native(Case {
                    first_position,
                    window,
                    ..PLAIN
                });
            }
        }
    }

    #[test]
    fn tiles_of_tokens_and_heads() {
        for (tokens, group) in [(70, 1), (17, 2), (25, 3), (35, 8), (3, 65)] {
            for (first_position, window) in [(0, 0), (100, 0), (3, 30), (100, 70), (100, 17)] {
                let case = Case {
                    tokens,
                    group,
                    first_position,
                    window,
                    head_dim: 36,
                    ..PLAIN
                };
                check_all_types(Kernels::Plain, case, On::Native);
                check::<f16>(Kernels::Pieces(48), case, On::Native);
            }
        }
    }

    #[test]
    fn scores_are_softly_capped() {
        for (tokens, first_position) in [(1, 600), (3, 0), (40, 30)] {
            for softcap in [0.5, 4.0, 50.0] {
                let case = Case {
                    tokens,
                    first_position,
                    softcap,
                    ..PLAIN
                };
                check_all_types(Kernels::Plain, case, On::Everything);
                check_all_types(Kernels::Tiled(64), case, On::Everything);
                check::<f32>(Kernels::Pieces(256), case, On::Everything);
            }
        }
    }

    #[test]
    fn keys_that_a_query_does_not_see_do_not_matter() {
        const TOKENS: usize = 40;
        const HEADS: usize = 4;
        let args = attention_args {
            q_token_stride: HEADS as u64,
            q_head_stride: 1,
            k_token_stride: 1,
            v_token_stride: 1,
            out_token_stride: HEADS as u64,
            out_head_stride: 1,
            tokens: TOKENS as u32,
            heads: HEADS as u32,
            kv_heads: 1,
            head_dim: 1,
            scale: 1.0,
            ..Default::default()
        };
        // In the middle of a tile, and at its last token.
        for special in [17, 31, TOKENS - 1] {
            for machine in machines() {
                let (mut q, mut k) = ([1.0; TOKENS * HEADS], [1.0; TOKENS]);
                let (mut v, mut out) = ([2.0; TOKENS], [f32::POISON; TOKENS * HEADS]);
                k[special] = f32::NAN;
                v[special] = f32::INFINITY;
                let call = Call::new("attention_f32").bind(ATTENTION_Q, &mut q);
                let call = call.bind(ATTENTION_K, &mut k).bind(ATTENTION_V, &mut v);
                let call = call.bind(ATTENTION_OUT, &mut out);
                let call = call.covering([HEADS, TOKENS, 1]);
                call.arguments(ATTENTION_ARGS, &args)
                    .run(machine)
                    .expect("good arguments");
                for (index, out) in out.iter().enumerate() {
                    match index / HEADS < special {
                        true => assert_eq!(*out, 2.0, "{index}"),
                        false => assert!(out.is_nan(), "{index}"),
                    }
                }
            }
        }
    }

    /// The smallest tiles that heads fit.
    fn tiled(head_dim: usize) -> Kernels {
        Kernels::Tiled(head_dim.next_power_of_two().max(64))
    }

    /// Another lane order for each of a row of cases.
    fn order(index: usize) -> LaneOrder {
        let random = LaneOrder::Random(index as u64 + 1);
        [LaneOrder::Forward, LaneOrder::Reverse, random][index % 3]
    }

    /// One kernel with edges among queries, keys and elements of a head. attention_merge comes after
    /// attention_split_f32.
    pub fn at_edge(name: &'static str, edge: usize) {
        let name = match name {
            "attention_merge" => "attention_split_f32",
            name => name,
        };
        let (kernels, ty) = name
            .rsplit_once("_")
            .map_or((name, ""), |parts| match parts {
                (rest, "0") => (rest.trim_end_matches("_q8"), "q8_0"),
                parts => parts,
            });
        let chosen = match kernels {
            "attention" => Kernels::Plain,
            "attention_split" => Kernels::Pieces(32),
            "attention_tiled_64" => Kernels::Tiled(64),
            "attention_tiled_128" => Kernels::Tiled(128),
            "attention_tiled_256" => Kernels::Tiled(256),
            _ => panic!("{name} is of another family"),
        };
        let (check, unit): (fn(Kernels, Case, On), usize) = match ty {
            "f32" => (check::<f32>, 1),
            "f16" => (check::<f16>, 1),
            "bf16" => (check::<bf16>, 1),
            "q8_0" => (check::<BlockQ8_0>, 32),
            _ => panic!("{name}: a type that no test knows"),
        };
        let most = match chosen {
            Kernels::Tiled(most) => most,
            _ => MAX_HEAD_DIM,
        };
        let narrow = Case {
            kv_heads: 1,
            head_dim: 40usize.next_multiple_of(unit),
            ..PLAIN
        };
        let queries = Case {
            tokens: edge,
            ..narrow
        };
        let keys = Case {
            tokens: 2,
            first_position: edge,
            ..narrow
        };
        let elements = Case {
            first_position: 20,
            head_dim: edge.next_multiple_of(unit).min(most),
            ..narrow
        };
        for case in [queries, keys, elements] {
            check(chosen, case, On::Everything);
        }
    }

    #[test]
    fn metal_layouts_and_windows_in_every_lane_order_and_within_bounds() {
        let ways = [
            (LaneOrder::Forward, true),
            (LaneOrder::Reverse, false),
            (LaneOrder::Random(1), false),
            (LaneOrder::Random(2), false),
        ];
        let on = On::Metal(&ways);
        for (window, head_major) in [(0, true), (1, false), (17, true), (64, false)] {
            let case = Case {
                tokens: 35,
                group: 3,
                head_dim: 36,
                first_position: 50,
                window,
                gap: 4,
                head_major,
                ..PLAIN
            };
            for most in [64, 128, 256] {
                check_all_types(Kernels::Tiled(most), case, on);
            }
            let case = Case { tokens: 3, ..case };
            check_all_types(Kernels::Plain, case, on);
            check_all_types(Kernels::Pieces(16), case, on);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn any_shape(
            tokens in 1usize..8, kv_heads in 1usize..4, group in 1usize..5, head_dim in 1usize..140,
            first_position in 0usize..150, window in 0usize..80, gap in 0usize..5, head_major: bool,
            softcap in prop_oneof![Just(0.0f32), 0.2f32..60.0], length in 1usize..70,
        ) {
            let case = Case {
                tokens, kv_heads, group, head_dim, first_position, window, gap, softcap, head_major,
            };
            check_native(case);
            let ways = [(order(length), false)];
            check::<f16>(tiled(head_dim), case, On::Metal(&ways));
            check::<bf16>(Kernels::Pieces(length), case, On::Metal(&ways));
        }
    }

    /// One query, one head of one dimension, so a score is what k says. By every kernel, whose results must be alike.
    fn attend(k: &[f32], v: &[f32]) -> f32 {
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
            splits: 4,
            split_length: k.len().div_ceil(4) as u32,
            ..Default::default()
        };
        let pass = |name, out: &mut [f32], execute: &dyn Fn(&Call) -> Result<(), Fault>| {
            let (mut q, mut k, mut v) = ([1f32], k.to_vec(), v.to_vec());
            let call = Call::new(name).bind(ATTENTION_Q, &mut q);
            let call = call.bind(ATTENTION_K, &mut k).bind(ATTENTION_V, &mut v);
            let call = call.bind(ATTENTION_OUT, out).covering([4, 1, 1]);
            execute(&call.arguments(ATTENTION_ARGS, &args)).expect("good arguments");
        };
        let native = |call: &Call| call.run(&machines()[0]);
        let metal = |call: &Call| call.run_metal(LaneOrder::Forward, false);
        let mut results = Vec::new();
        for execute in [&native as &dyn Fn(&Call) -> Result<(), Fault>, &metal] {
            let mut out = [f32::POISON; 4];
            pass("attention_f32", &mut out, execute);
            results.push(out[0]);
            pass("attention_tiled_64_f32", &mut out, execute);
            results.push(out[0]);
            let mut parts = [f32::POISON; 4 * 3];
            pass("attention_split_f32", &mut parts, execute);
            let merge = Call::new("attention_merge").covering([1; 3]);
            let merge = merge.bind(ATTENTION_MERGE_PARTS, &mut parts);
            let merge = merge.bind(ATTENTION_MERGE_OUT, &mut out);
            execute(&merge.arguments(ATTENTION_MERGE_ARGS, &args)).expect("good arguments");
            results.push(out[0]);
        }
        let alike = |other: &f32| other == &results[0] || (other.is_nan() && results[0].is_nan());
        assert!(results.iter().all(alike), "{results:?}");
        results[0]
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
