//! `attention_backward_q` and `attention_backward_kv`: tiles of tokens of a head are multiplied with blocks of the
//! others, as products of matrices (Dao 2023, arXiv:2307.08691, algorithm 2).

use std::ops::Range;

use crate::backend::cpu::attention::tile_gemm::{TILE_ROWS, TileGemm};
use crate::backend::cpu::bindings::{Dispatch, Extent, View};
use crate::backend::cpu::gemm::square::transpose;
use crate::backend::cpu::kernels::dot::dots;
use crate::backend::cpu::kernels::exponential::exp;
use crate::backend::cpu::machine::{ALONE, Machine};
use crate::backend::cpu::quants::GROUP;
use crate::backend::cpu::scratch::{AllocStatus, Scratch, arena};
use crate::backend::cpu::simd::{Body, Simd};
use crate::backend::fault::Fault;
use crate::backend::ffi::args::*;

/// Tokens of heads, `stride` from token to token.
#[derive(Clone, Copy)]
struct Heads<'a> {
    view: View<'a, f32>,
    stride: usize,
    head_dim: usize,
}

impl Heads<'_> {
    fn at(&self, token: usize, head: usize) -> *mut f32 {
        let start = token * self.stride + head * self.head_dim;
        self.view.at(start, self.head_dim)
    }
}

/// What both kernels read.
struct Inputs<'a> {
    args: attention_backward_args,
    q: Heads<'a>,
    k: Heads<'a>,
    v: Heads<'a>,
    gradient: Heads<'a>,
    /// Of each token and head, the logarithm of the sum of exponentials, and gradient · out.
    sums: View<'a, f32>,
}

impl<'a> Inputs<'a> {
    fn of(dispatch: &Dispatch<'a>) -> Result<Inputs<'a>, Fault> {
        let args: attention_backward_args = dispatch.arguments(ATTENTION_BACKWARD_ARGS)?;
        if args.kv_heads == 0 || !args.heads.is_multiple_of(args.kv_heads) {
            return Err(dispatch.invalid(format!(
                "{} heads are not a multiple of {} kv_heads",
                args.heads, args.kv_heads
            )));
        }
        let heads = |index, name, heads, stride| {
            Inputs::heads(dispatch, &args, (index, name), heads, stride)
        };
        let sums = Extent::packed(2 * u64::from(args.tokens) * u64::from(args.heads));
        Ok(Inputs {
            q: heads(ATTENTION_BACKWARD_Q, "q", args.heads, args.q_stride)?,
            k: heads(ATTENTION_BACKWARD_K, "k", args.kv_heads, args.k_stride)?,
            v: heads(ATTENTION_BACKWARD_V, "v", args.kv_heads, args.v_stride)?,
            gradient: heads(
                ATTENTION_BACKWARD_GRADIENT,
                "gradient",
                args.heads,
                args.gradient_stride,
            )?,
            sums: dispatch.view(ATTENTION_BACKWARD_SUMS, "sums", sums)?,
            args,
        })
    }

    fn heads(
        dispatch: &Dispatch<'a>,
        args: &attention_backward_args,
        (index, name): (u32, &str),
        heads: u32,
        stride: u64,
    ) -> Result<Heads<'a>, Fault> {
        let width = u64::from(heads) * u64::from(args.head_dim);
        let extent = Extent::rows(args.tokens, stride, width);
        Ok(Heads {
            view: dispatch.view(index, name, extent)?,
            stride: stride as usize,
            head_dim: args.head_dim as usize,
        })
    }

    fn are_apart_from(&self, out: &View<f32>) -> bool {
        let all = [&self.q, &self.k, &self.v, &self.gradient];
        all.iter().all(|input| out.is_apart_from(&input.view))
    }

    /// The place of a token's and head's sums.
    fn sums(&self, token: usize, head: usize) -> *mut f32 {
        self.sums
            .at(2 * (token * self.args.heads as usize + head), 2)
    }
}

pub fn attention_backward_q(dispatch: &Dispatch, machine: &Machine) -> Result<(), Fault> {
    let inputs = Inputs::of(dispatch)?;
    let args = inputs.args;
    let heads =
        |index, name, stride| Inputs::heads(dispatch, &args, (index, name), args.heads, stride);
    let out = heads(ATTENTION_BACKWARD_OUT, "out", args.out_stride)?;
    let stride = args.q_gradient_stride;
    let q_gradient = heads(ATTENTION_BACKWARD_Q_GRADIENT, "q_gradient", stride)?;
    dispatch.expect_points([args.heads.into(), args.tokens.into(), 1])?;

    let separable = [&q_gradient.view, &inputs.sums]
        .into_iter()
        .all(|it| it.writes_once() && inputs.are_apart_from(it) && it.is_apart_from(&out.view))
        && q_gradient.view.is_apart_from(&inputs.sums);
    let tiles = Tiles::of(args.tokens as usize, args.heads as usize, separable);
    tiles.for_each(machine, &inputs, |tokens, head, scratch| {
        let memory = Memory::new(scratch, &inputs, tokens.len());
        machine.isa.run(OfQueries {
            inputs: &inputs,
            tokens,
            head,
            memory: &memory,
            out,
            to: q_gradient,
        });
    })
}

pub fn attention_backward_kv(dispatch: &Dispatch, machine: &Machine) -> Result<(), Fault> {
    let inputs = Inputs::of(dispatch)?;
    let args = inputs.args;
    let heads =
        |index, name, stride| Inputs::heads(dispatch, &args, (index, name), args.kv_heads, stride);
    let stride = args.k_gradient_stride;
    let k_gradient = heads(ATTENTION_BACKWARD_K_GRADIENT, "k_gradient", stride)?;
    let stride = args.v_gradient_stride;
    let v_gradient = heads(ATTENTION_BACKWARD_V_GRADIENT, "v_gradient", stride)?;
    dispatch.expect_points([args.kv_heads.into(), args.tokens.into(), 1])?;

    let separable = [&k_gradient.view, &v_gradient.view]
        .into_iter()
        .all(|it| it.writes_once() && inputs.are_apart_from(it) && it.is_apart_from(&inputs.sums))
        && k_gradient.view.is_apart_from(&v_gradient.view);
    let tiles = Tiles::of(args.tokens as usize, args.kv_heads as usize, separable);
    tiles.for_each(machine, &inputs, |tokens, head, scratch| {
        let memory = Memory::new(scratch, &inputs, tokens.len());
        machine.isa.run(OfKeys {
            inputs: &inputs,
            tokens,
            head,
            memory: &memory,
            of_key: k_gradient,
            of_value: v_gradient,
        });
    })
}

/// The most tokens of a tile.
const TILE: usize = 64;
/// Tokens that a tile is multiplied with at a time.
const BLOCK: usize = 64;

arena!(ARENA);

/// Some tokens by a head each, which a thread computes.
struct Tiles {
    tokens: usize,
    heads: usize,
    separable: bool,
}

impl Tiles {
    fn of(tokens: usize, heads: usize, separable: bool) -> Tiles {
        Tiles {
            tokens,
            heads,
            separable,
        }
    }

    fn for_each(
        &self,
        machine: &Machine,
        inputs: &Inputs,
        compute: impl Fn(Range<usize>, usize, &Scratch) + Sync,
    ) -> Result<(), Fault> {
        let (tokens, count) = (self.tokens, self.tokens.div_ceil(TILE));
        let grain = match self.separable {
            true => machine.grain(2 * tokens * TILE * inputs.q.head_dim),
            false => ALONE,
        };
        let status = AllocStatus::default();
        machine.for_ranges(count * self.heads, grain, |items| {
            let bytes = Memory::bytes(inputs);
            let scratch = Scratch::take(&ARENA, bytes);
            if let Ok(scratch) = &scratch {
                for item in items {
                    let first = item / self.heads * TILE;
                    let range = first..tokens.min(first + TILE);
                    compute(range, item % self.heads, scratch);
                }
            }
            status.note(scratch.map(drop));
        });
        status.into_result("a tile of attention")
    }
}

/// What a tile is computed in. Rows of heads are `width` apart, with zeros behind their elements.
struct Memory {
    /// Of [row of the tile][`width`]: two inputs of the tile, and two results.
    rows: [*mut f32; 2],
    sums: [*mut f32; 2],
    /// Of [token of the block][`width`]: two inputs of a block.
    block: [*mut f32; 2],
    /// Of [element][`BLOCK`]: the same, transposed.
    panels: [*mut f32; 2],
    /// Of [row of the tile][`BLOCK`].
    products: [*mut f32; 2],
    /// Of [row of the tile][`all`].
    scores: *mut f32,
    /// All tokens, rounded up to whole blocks.
    all: usize,
    width: usize,
    /// Rows of the tile, rounded up to what is multiplied at a time.
    count: usize,
}

impl Memory {
    fn width(inputs: &Inputs) -> usize {
        inputs.q.head_dim.next_multiple_of(GROUP)
    }

    fn all(inputs: &Inputs) -> usize {
        (inputs.args.tokens as usize).next_multiple_of(BLOCK)
    }

    fn bytes(inputs: &Inputs) -> usize {
        let width = Memory::width(inputs);
        let floats = 4 * TILE * width + 4 * BLOCK * width + 2 * TILE * BLOCK;
        (floats + TILE * Memory::all(inputs)) * size_of::<f32>()
    }

    fn new(scratch: &Scratch, inputs: &Inputs, rows: usize) -> Memory {
        let (width, all) = (Memory::width(inputs), Memory::all(inputs));
        let mut start = 0;
        let mut next = |count: usize| {
            let at = scratch.at(start, count);
            start += count * size_of::<f32>();
            at
        };
        Memory {
            rows: [next(TILE * width), next(TILE * width)],
            sums: [next(TILE * width), next(TILE * width)],
            block: [next(BLOCK * width), next(BLOCK * width)],
            panels: [next(BLOCK * width), next(BLOCK * width)],
            products: [next(TILE * BLOCK), next(TILE * BLOCK)],
            scores: next(TILE * all),
            all,
            width,
            count: rows.next_multiple_of(TILE_ROWS),
        }
    }

    /// Copies rows of a head, and zeros in the place of others up to `count`.
    ///
    /// # Safety
    /// `to` has room for `count` rows.
    #[inline(always)]
    unsafe fn load(
        &self,
        heads: &Heads,
        tokens: Range<usize>,
        head: usize,
        to: *mut f32,
        count: usize,
    ) {
        // SAFETY: the caller's promise; `at` checked `head_dim` elements.
        unsafe {
            to.write_bytes(0, count * self.width);
            for (row, token) in tokens.enumerate() {
                let to = to.add(row * self.width);
                to.copy_from_nonoverlapping(heads.at(token, head), heads.head_dim);
            }
        }
    }

    /// `to = rows · panelᵀ` for the elements of heads, into columns of `to_width`.
    ///
    /// # Safety
    /// There is room for as many rows and a block of columns in `to`.
    #[inline(always)]
    unsafe fn multiply<S: Simd>(
        &self,
        simd: S,
        rows: *const f32,
        panel: *const f32,
        (to, to_width): (*mut f32, usize),
    ) {
        // SAFETY: the caller's promise; rows and panel are this memory's.
        unsafe {
            for row in 0..self.count {
                to.add(row * to_width).write_bytes(0, BLOCK);
            }
            let product = TileGemm {
                rows,
                width: self.width,
                count: self.count,
                panel,
                panel_width: BLOCK,
                depth: self.width,
                sums: to,
                sums_width: to_width,
            };
            product.add(simd, BLOCK / S::LANES);
        }
    }

    /// `sums += factors · block`, for `depth` tokens of the block.
    ///
    /// # Safety
    /// All are this memory's.
    #[inline(always)]
    unsafe fn accumulate<S: Simd>(
        &self,
        simd: S,
        factors: *const f32,
        block: *const f32,
        sums: *mut f32,
        depth: usize,
    ) {
        let product = TileGemm {
            rows: factors,
            width: BLOCK,
            count: self.count,
            panel: block,
            panel_width: self.width,
            depth,
            sums,
            sums_width: self.width,
        };
        // SAFETY: the caller's promise.
        unsafe { product.add(simd, self.width / S::LANES) };
    }
}

/// The tokens of `all`, a block at a time.
fn blocks(all: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let end = all.end;
    all.step_by(BLOCK)
        .map(move |start| start..end.min(start + BLOCK))
}

/// The sums and the gradients of some queries of a head.
struct OfQueries<'a> {
    inputs: &'a Inputs<'a>,
    tokens: Range<usize>,
    head: usize,
    memory: &'a Memory,
    out: Heads<'a>,
    to: Heads<'a>,
}

impl OfQueries<'_> {
    /// Makes shares of a row's scores of `count` keys, the row's part in the softmax, and writes its sums.
    ///
    /// # Safety
    /// The row's scores are there, and its sums are nobody else's.
    #[inline(always)]
    unsafe fn weigh<S: Simd>(&self, simd: S, row: usize, count: usize) {
        let (inputs, token) = (self.inputs, self.tokens.start + row);
        let scale = inputs.args.scale;
        // SAFETY: the caller's promise; `at` checked the heads and the sums, and rows of the memory end with zeros.
        unsafe {
            let start = self.memory.scores.add(row * self.memory.all);
            let scores = std::slice::from_raw_parts_mut(start, count);
            let mut largest = f32::NEG_INFINITY;
            for score in scores.iter_mut() {
                *score *= scale;
                largest = largest.max(*score);
            }
            for score in scores.iter_mut() {
                *score = exp::<S>(*score - largest);
            }
            let sum: f64 = scores.iter().map(|share| f64::from(*share)).sum();
            for score in scores.iter_mut() {
                *score = (f64::from(*score) / sum) as f32;
            }
            let sums = inputs.sums(token, self.head);
            sums.write((f64::from(largest) + sum.ln()) as f32);
            let gradient = self.memory.rows[1]
                .add(row * self.memory.width)
                .cast_const();
            let out = self.out.at(token, self.head).cast_const();
            let [[mean]] = dots(simd, [gradient], [out], inputs.q.head_dim);
            sums.add(1).write(mean);
        }
    }
}

impl Body for OfQueries<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let OfQueries {
            inputs,
            memory,
            head,
            ..
        } = self;
        let (tokens, scale) = (self.tokens.clone(), inputs.args.scale);
        let group = (inputs.args.heads / inputs.args.kv_heads) as usize;
        let (count, width) = (memory.count, memory.width);
        let ([queries, gradients], [sums, _]) = (memory.rows, memory.sums);
        let ([block, _], [panel, _], [changes, _]) = (memory.block, memory.panels, memory.products);
        // SAFETY: the memory is for as many tokens; `at` checked the heads and the sums, which nobody else writes.
        unsafe {
            memory.load(&inputs.q, tokens.clone(), head, queries, count);
            memory.load(&inputs.gradient, tokens.clone(), head, gradients, count);
            sums.write_bytes(0, count * width);
            for keys in blocks(0..tokens.end) {
                memory.load(&inputs.k, keys.clone(), head / group, block, BLOCK);
                transpose(simd, (block, width), (panel, BLOCK), BLOCK, width);
                let to = (memory.scores.add(keys.start), memory.all);
                memory.multiply(simd, queries, panel, to);
            }
            for row in 0..tokens.len() {
                self.weigh(simd, row, tokens.start + row + 1);
            }
            for keys in blocks(0..tokens.end) {
                memory.load(&inputs.v, keys.clone(), head / group, block, BLOCK);
                transpose(simd, (block, width), (panel, BLOCK), BLOCK, width);
                memory.multiply(simd, gradients, panel, (changes, BLOCK));
                for (row, token) in tokens.clone().enumerate() {
                    let mean = inputs.sums(token, head).add(1).read();
                    let changes = &mut *changes.add(row * BLOCK).cast::<[f32; BLOCK]>();
                    let shares = memory.scores.add(row * memory.all + keys.start);
                    let shares = &*shares.cast::<[f32; BLOCK]>();
                    let seen = (token + 1).saturating_sub(keys.start).min(BLOCK);
                    for (change, share) in changes.iter_mut().zip(shares) {
                        *change = scale * (share * (*change - mean));
                    }
                    changes[seen..].fill(0.0);
                }
                memory.load(&inputs.k, keys.clone(), head / group, block, BLOCK);
                memory.accumulate(simd, changes, block, sums, keys.len());
            }
            for (row, token) in tokens.enumerate() {
                let to = self.to.at(token, head);
                to.copy_from_nonoverlapping(sums.add(row * width), inputs.q.head_dim);
            }
        }
    }
}

/// The gradients of some keys of a head and of their values.
struct OfKeys<'a> {
    inputs: &'a Inputs<'a>,
    tokens: Range<usize>,
    head: usize,
    memory: &'a Memory,
    of_key: Heads<'a>,
    of_value: Heads<'a>,
}

impl OfKeys<'_> {
    /// Makes shares and their changes of the products of a key with a block of queries of a head.
    ///
    /// # Safety
    /// The products of the row are there.
    #[inline(always)]
    unsafe fn weigh<S: Simd>(&self, row: usize, queries: Range<usize>, head: usize) {
        let (inputs, token) = (self.inputs, self.tokens.start + row);
        let (mut logarithms, mut means) = ([0.0; BLOCK], [0.0; BLOCK]);
        let scale = inputs.args.scale;
        // SAFETY: the caller's promise; `at` checked the sums.
        unsafe {
            for (place, query) in queries.clone().enumerate() {
                let sums = inputs.sums(query, head);
                (logarithms[place], means[place]) = (sums.read(), sums.add(1).read());
            }
            let [shares, changes] = self.memory.products;
            let shares = &mut *shares.add(row * BLOCK).cast::<[f32; BLOCK]>();
            let changes = &mut *changes.add(row * BLOCK).cast::<[f32; BLOCK]>();
            for place in 0..BLOCK {
                let share = exp::<S>(scale * shares[place] - logarithms[place]);
                changes[place] = scale * (share * (changes[place] - means[place]));
                shares[place] = share;
            }
            // Queries before the key do not see it.
            let unseen = token.saturating_sub(queries.start).min(BLOCK);
            shares[..unseen].fill(0.0);
            changes[..unseen].fill(0.0);
        }
    }
}

impl Body for OfKeys<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let OfKeys {
            inputs,
            memory,
            head,
            ..
        } = self;
        let tokens = self.tokens.clone();
        let group = (inputs.args.heads / inputs.args.kv_heads) as usize;
        let (count, width) = (memory.count, memory.width);
        let ([keys, values], [of_key, of_value]) = (memory.rows, memory.sums);
        let ([queries, gradients], [shares, changes]) = (memory.block, memory.products);
        // SAFETY: the memory is for as many tokens; `at` checked the heads and the sums.
        unsafe {
            memory.load(&inputs.k, tokens.clone(), head, keys, count);
            memory.load(&inputs.v, tokens.clone(), head, values, count);
            of_key.write_bytes(0, count * width);
            of_value.write_bytes(0, count * width);
            for query_head in head * group..(head + 1) * group {
                for block in blocks(tokens.start..inputs.args.tokens as usize) {
                    let both = [(&inputs.q, queries), (&inputs.gradient, gradients)];
                    for ((heads, to), panel) in both.into_iter().zip(memory.panels) {
                        memory.load(heads, block.clone(), query_head, to, BLOCK);
                        transpose(simd, (to, width), (panel, BLOCK), BLOCK, width);
                    }
                    memory.multiply(simd, keys, memory.panels[0], (shares, BLOCK));
                    memory.multiply(simd, values, memory.panels[1], (changes, BLOCK));
                    for row in 0..tokens.len() {
                        self.weigh::<S>(row, block.clone(), query_head);
                    }
                    memory.accumulate(simd, shares, gradients, of_value, block.len());
                    memory.accumulate(simd, changes, queries, of_key, block.len());
                }
            }
            for (row, token) in tokens.enumerate() {
                for (heads, sums) in [(&self.of_key, of_key), (&self.of_value, of_value)] {
                    let to = heads.at(token, head);
                    to.copy_from_nonoverlapping(sums.add(row * width), inputs.q.head_dim);
                }
            }
        }
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::backend::cpu::testing::*;

    struct Case {
        tokens: usize,
        heads: usize,
        kv_heads: usize,
        head_dim: usize,
        gap: usize,
    }

    /// The gradients of q, k and v in float64.
    fn formula(case: &Case, scale: f64, [q, k, v, gradient]: [&[f64]; 4]) -> [Vec<f64>; 3] {
        let &Case {
            tokens,
            heads,
            kv_heads,
            head_dim: n,
            ..
        } = case;
        let (wide, narrow) = (heads * n, kv_heads * n);
        let mut of_q = vec![0.0; tokens * wide];
        let [mut of_k, mut of_v] = [(); 2].map(|()| vec![0.0; tokens * narrow]);
        let dot = |a: &[f64], b: &[f64]| -> f64 { a.iter().zip(b).map(|(a, b)| a * b).sum() };
        for t in 0..tokens {
            for h in 0..heads {
                let at = t * wide + h * n..t * wide + h * n + n;
                let kv = |j: usize| {
                    let start = j * narrow + h / (heads / kv_heads) * n;
                    start..start + n
                };
                let scores: Vec<f64> = (0..=t)
                    .map(|j| (scale * dot(&q[at.clone()], &k[kv(j)])).exp())
                    .collect();
                let sum: f64 = scores.iter().sum();
                let shares: Vec<f64> = scores.iter().map(|score| score / sum).collect();
                let changes: Vec<f64> = (0..=t)
                    .map(|j| dot(&gradient[at.clone()], &v[kv(j)]))
                    .collect();
                let mean = dot(&shares, &changes);
                for j in 0..=t {
                    let change = scale * shares[j] * (changes[j] - mean);
                    for d in 0..n {
                        of_q[at.start + d] += change * k[kv(j).start + d];
                        of_k[kv(j).start + d] += change * q[at.start + d];
                        of_v[kv(j).start + d] += shares[j] * gradient[at.start + d];
                    }
                }
            }
        }
        [of_q, of_k, of_v]
    }

    fn check(case: &Case) {
        let &Case {
            tokens,
            heads,
            kv_heads,
            head_dim,
            gap,
        } = case;
        let (wide, narrow) = (heads * head_dim, kv_heads * head_dim);
        let (wider, narrower) = (wide + gap, narrow + gap);
        let mut numbers = Numbers::new((tokens * wide) as u64);
        let [q, gradient]: [Vec<f32>; 2] = std::array::from_fn(|_| numbers.vec(tokens * wider));
        let [k, v]: [Vec<f32>; 2] = std::array::from_fn(|_| numbers.vec(tokens * narrower));
        let scale = 1.0 / (head_dim as f32).sqrt();
        let exact = |x: &[f32], stride: usize, width: usize| -> Vec<f64> {
            let rows = x.chunks(stride).flat_map(|row| &row[..width]);
            rows.map(|x| f64::from(*x)).collect()
        };
        let [q64, g64] = [&q, &gradient].map(|x| exact(x, wider, wide));
        let [k64, v64] = [&k, &v].map(|x| exact(x, narrower, narrow));
        let want = formula(case, scale.into(), [&q64, &k64, &v64, &g64]);
        // out is what the values, weighted, are.
        let mut out = vec![0f32; tokens * wider];
        for t in 0..tokens {
            for h in 0..heads {
                let start = h / (heads / kv_heads) * head_dim;
                let score = |j: usize| -> f64 {
                    let pairs = (0..head_dim)
                        .map(|d| q64[t * wide + h * head_dim + d] * k64[j * narrow + start + d]);
                    (f64::from(scale) * pairs.sum::<f64>()).exp()
                };
                let sum: f64 = (0..=t).map(score).sum();
                for d in 0..head_dim {
                    let value: f64 = (0..=t)
                        .map(|j| score(j) / sum * v64[j * narrow + start + d])
                        .sum();
                    out[t * wider + h * head_dim + d] = value as f32;
                }
            }
        }
        let args = attention_backward_args {
            q_stride: wider as u64,
            k_stride: narrower as u64,
            v_stride: narrower as u64,
            gradient_stride: wider as u64,
            out_stride: wider as u64,
            q_gradient_stride: wider as u64,
            k_gradient_stride: narrower as u64,
            v_gradient_stride: narrower as u64,
            tokens: tokens as u32,
            heads: heads as u32,
            kv_heads: kv_heads as u32,
            head_dim: head_dim as u32,
            scale,
            reserved: 0,
        };
        let run = |on: Executor| {
            let [mut q, mut k, mut v, mut gradient, mut out] =
                [&q, &k, &v, &gradient, &out].map(|x| x.clone());
            let mut sums = vec![f32::POISON; 2 * tokens * heads];
            let mut of_q = vec![f32::POISON; tokens * wider];
            let [mut of_k, mut of_v] = [(); 2].map(|()| vec![f32::POISON; tokens * narrower]);
            Call::new("attention_backward_q")
                .covering([heads, tokens, 1])
                .bind(ATTENTION_BACKWARD_Q, &mut q)
                .bind(ATTENTION_BACKWARD_K, &mut k)
                .bind(ATTENTION_BACKWARD_V, &mut v)
                .bind(ATTENTION_BACKWARD_GRADIENT, &mut gradient)
                .bind(ATTENTION_BACKWARD_SUMS, &mut sums)
                .bind(ATTENTION_BACKWARD_OUT, &mut out)
                .bind(ATTENTION_BACKWARD_Q_GRADIENT, &mut of_q)
                .arguments(ATTENTION_BACKWARD_ARGS, &args)
                .run_on(on)
                .expect("good arguments");
            Call::new("attention_backward_kv")
                .covering([kv_heads, tokens, 1])
                .bind(ATTENTION_BACKWARD_Q, &mut q)
                .bind(ATTENTION_BACKWARD_K, &mut k)
                .bind(ATTENTION_BACKWARD_V, &mut v)
                .bind(ATTENTION_BACKWARD_GRADIENT, &mut gradient)
                .bind(ATTENTION_BACKWARD_SUMS, &mut sums)
                .bind(ATTENTION_BACKWARD_K_GRADIENT, &mut of_k)
                .bind(ATTENTION_BACKWARD_V_GRADIENT, &mut of_v)
                .arguments(ATTENTION_BACKWARD_ARGS, &args)
                .run_on(on)
                .expect("good arguments");
            [of_q, of_k, of_v].concat()
        };
        on_every_executor(run, |out| {
            let (of_q, rest) = out.split_at(tokens * wider);
            let (of_k, of_v) = rest.split_at(tokens * narrower);
            // Numbers are below 1, so a score and its logarithm are below 20 and a change below twice a head; a sum of
            // up to all tokens and heads follows.
            let group = heads / kv_heads;
            let one = (40.0 + 4.0 * head_dim as f64) * f32::ROUNDING;
            let tolerance = one * (2 * head_dim * tokens * group) as f64 / (head_dim as f64).sqrt();
            let parts = [
                (of_q, wider, wide),
                (of_k, narrower, narrow),
                (of_v, narrower, narrow),
            ];
            for (part, ((got, stride, width), want)) in parts.into_iter().zip(&want).enumerate() {
                for t in 0..tokens {
                    for d in 0..width {
                        let what = format!("{part}: {t}, {d}");
                        let value = got[t * stride + d].into();
                        assert_close(value, want[t * width + d], tolerance.min(2e-4), what);
                    }
                }
                assert_untouched(got, row_ranges(tokens, stride, width));
            }
        });
    }

    pub fn at_edge(edge: usize) {
        let case = |tokens, heads, kv_heads, head_dim, gap| Case {
            tokens,
            heads,
            kv_heads,
            head_dim,
            gap,
        };
        check(&case(7, 4, 2, edge.min(256), 0));
        check(&case(edge.min(65), 2, 1, 5, 3));
    }
}
