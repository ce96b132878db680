//! The queries of some tokens by the heads that share keys: a block of keys and its values are read once for all of
//! them, and scores and sums of values are products of matrices.
//!
//! Keys that only some of the queries see, at both ends, are computed per query ([`RunningSoftmax::visit_keys`]), so
//! their contents do not reach the other queries.

#![allow(
    clippy::needless_range_loop,
    reason = "closures of iterators need not be inlined, and then miss the instruction set"
)]

use std::marker::PhantomData;
use std::ops::Range;

use super::online_softmax::RunningSoftmax;
use super::{BLOCK, Pieces, Queries, row_of};
use crate::backend::cpu::attention::tile_gemm::{TILE_ROWS, TileGemm};
use crate::backend::cpu::gemm::square::{SQUARE, transpose};
use crate::backend::cpu::quants::{GROUP, Readable};
use crate::backend::cpu::scratch::Scratch;
use crate::backend::cpu::simd::{Body, Simd};

/// The most queries of a tile.
pub const ROWS: usize = 64;
/// The most tokens: of the keys that only some of them see there are fewer.
pub const TOKENS: usize = 16;
/// Fewer queries do not pay for packing keys.
const MIN_ROWS: usize = 4;
/// The same for fewer keys.
const MIN_KEYS: usize = 16;

pub struct Tile<'q, 'a, C> {
    pub queries: &'q Queries<'a, C>,
    pub tokens: Range<usize>,
    /// They share `kv_head`.
    pub heads: Range<usize>,
    pub kv_head: usize,
    pub pieces: Pieces,
    pub piece: usize,
}

impl<C: Readable> Tile<'_, '_, C> {
    pub fn rows(&self) -> usize {
        self.tokens.len() * self.heads.len()
    }

    /// Those that the query of a token sees.
    fn keys(&self, token: usize) -> Range<usize> {
        self.queries.keys_in(token, self.piece, self.pieces)
    }

    /// Those of a row.
    #[inline(always)]
    pub fn token_and_head(&self, row: usize) -> (usize, usize) {
        let heads = self.heads.len();
        (
            self.tokens.start + row / heads,
            self.heads.start + row % heads,
        )
    }
}

/// What a tile is computed in.
pub struct Memory<'s> {
    /// Of [row][`width`].
    query: *mut f32,
    /// Of [row][`width`].
    weighted: *mut f32,
    /// Of [row][`BLOCK`].
    scores: *mut f32,
    /// Of [element][`BLOCK`].
    keys: *mut f32,
    /// Of [key][`width`].
    values: *mut f32,
    /// Of [`SQUARE`][`width`].
    wide: *mut f32,
    /// Of each row.
    running: *mut RunningSoftmax,
    /// Elements of a head, rounded up to `GROUP`.
    width: usize,
    scratch: PhantomData<&'s Scratch>,
}

impl<'s> Memory<'s> {
    /// Values of `query`, `scores`, `keys`, and `wide`.
    fn sizes(rows: usize, head_dim: usize) -> [usize; 4] {
        let (rows, width) = (
            rows.next_multiple_of(TILE_ROWS),
            head_dim.next_multiple_of(GROUP),
        );
        [rows * width, rows * BLOCK, BLOCK * width, SQUARE * width]
    }

    pub fn bytes(rows: usize, head_dim: usize) -> usize {
        let [query, scores, keys, wide] = Self::sizes(rows, head_dim);
        (2 * query + scores + 2 * keys + wide) * size_of::<f32>()
            + rows * size_of::<RunningSoftmax>()
    }

    pub fn new(scratch: &'s Scratch, rows: usize, head_dim: usize) -> Memory<'s> {
        let [query, scores, keys, wide] = Self::sizes(rows, head_dim);
        let mut start = 0;
        let mut next = |count: usize| {
            let at = scratch.at(start, count);
            start += count * size_of::<f32>();
            at
        };
        Memory {
            query: next(query),
            weighted: next(query),
            scores: next(scores),
            keys: next(keys),
            values: next(keys),
            wide: next(wide),
            running: scratch.at(start, rows),
            width: head_dim.next_multiple_of(GROUP),
            scratch: PhantomData,
        }
    }

    /// What the query of a row has found, and its values.
    pub fn results(&self, row: usize, head_dim: usize) -> (RunningSoftmax, &[f32]) {
        // SAFETY: it is for no more rows than there is memory for, and they have been computed.
        unsafe {
            let weighted = self.weighted.add(row * self.width);
            (
                self.running.add(row).read(),
                std::slice::from_raw_parts(weighted, head_dim),
            )
        }
    }
}

pub struct ComputeTile<'t, 'q, 'a, 's, C> {
    pub tile: &'t Tile<'q, 'a, C>,
    /// For all its rows.
    pub memory: &'t Memory<'s>,
}

impl<C: Readable> Body for ComputeTile<'_, '_, '_, '_, C> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let tile = self.tile;
        let (first, last) = (tile.keys(tile.tokens.start), tile.keys(tile.tokens.end - 1));
        // Neither end moves back from one token to the next.
        let mut shared = last.start..first.end;
        if shared.len() < MIN_KEYS || tile.rows() < MIN_ROWS {
            shared = first.start..first.start;
        }
        // SAFETY: there is memory for all rows.
        unsafe {
            self.load_queries(simd);
            for row in 0..tile.rows() {
                let keys = tile.keys(tile.token_and_head(row).0);
                self.visit_for_row(simd, row, keys.start..keys.end.min(shared.start));
            }
            for start in shared.clone().step_by(BLOCK) {
                self.visit_for_all(simd, start, BLOCK.min(shared.end - start));
            }
            for row in 0..tile.rows() {
                let keys = tile.keys(tile.token_and_head(row).0);
                self.visit_for_row(simd, row, keys.start.max(shared.end)..keys.end);
            }
        }
    }
}

impl<C: Readable> ComputeTile<'_, '_, '_, '_, C> {
    /// # Safety
    /// There is memory for all rows.
    #[inline(always)]
    unsafe fn load_queries<S: Simd>(&self, simd: S) {
        let ComputeTile { tile, memory } = self;
        let Queries { args, q, .. } = tile.queries;
        let head_dim = args.head_dim as usize;
        let rows = tile.rows().next_multiple_of(TILE_ROWS);
        // SAFETY: the caller's promise, and `at` checked `head_dim` elements.
        unsafe {
            memory.query.write_bytes(0, rows * memory.width);
            memory.weighted.write_bytes(0, rows * memory.width);
            for row in 0..tile.rows() {
                let (token, head) = tile.token_and_head(row);
                let start = row_of(token, args.q_token_stride, head, args.q_head_stride);
                let from = q.at(start, head_dim).cast_const();
                f32::widen(simd, from, memory.query.add(row * memory.width), head_dim);
                memory.running.add(row).write(RunningSoftmax::EMPTY);
            }
        }
    }

    /// The query of one row and some keys.
    ///
    /// # Safety
    /// There is memory for all rows.
    #[inline(always)]
    unsafe fn visit_for_row<S: Simd>(&self, simd: S, row: usize, keys: Range<usize>) {
        let ComputeTile { tile, memory } = self;
        let (queries, start) = (tile.queries, row * memory.width);
        // SAFETY: the caller's promise; queries have been padded.
        unsafe {
            let to = memory.weighted.add(start);
            let weighted = std::slice::from_raw_parts_mut(to, queries.args.head_dim as usize);
            let query = memory.query.add(start);
            let running = &mut *memory.running.add(row);
            running.visit_keys(simd, queries, tile.kv_head, query, keys, weighted);
        }
    }

    /// All queries and a block of `count` keys.
    ///
    /// # Safety
    /// There is memory for all rows.
    #[inline(always)]
    unsafe fn visit_for_all<S: Simd>(&self, simd: S, start: usize, count: usize) {
        let ComputeTile { tile, memory } = self;
        let (args, width) = (&tile.queries.args, memory.width);
        let head_dim = args.head_dim as usize;
        let rows = tile.rows().next_multiple_of(TILE_ROWS);
        // SAFETY: the caller's promise.
        unsafe {
            self.pack_keys(simd, start, count);
            memory.scores.write_bytes(0, rows * BLOCK);
            let product = TileGemm {
                rows: memory.query,
                width,
                count: rows,
                panel: memory.keys,
                panel_width: BLOCK,
                depth: head_dim,
                sums: memory.scores,
                sums_width: BLOCK,
            };
            product.add(simd, count.div_ceil(S::LANES));
            for row in 0..tile.rows() {
                let scores = &mut *memory.scores.add(row * BLOCK).cast::<[f32; BLOCK]>();
                let rescale = match (*memory.running.add(row)).weigh::<S>(scores, count, args) {
                    Some(rescale) => rescale,
                    None => {
                        *scores = [0.0; BLOCK];
                        1.0
                    }
                };
                if rescale != 1.0 {
                    let weighted = memory.weighted.add(row * width);
                    for d in (0..width).step_by(S::LANES) {
                        let before = simd.load(weighted.add(d));
                        simd.store(simd.mul(before, simd.splat(rescale)), weighted.add(d));
                    }
                }
            }
            for i in 0..count {
                let value = tile.queries.value(start + i, tile.kv_head);
                C::widen(simd, value, memory.values.add(i * width), head_dim);
            }
            let product = TileGemm {
                rows: memory.scores,
                width: BLOCK,
                count: rows,
                panel: memory.values,
                panel_width: width,
                depth: count,
                sums: memory.weighted,
                sums_width: width,
            };
            product.add(simd, head_dim.div_ceil(S::LANES));
        }
    }

    /// Puts keys in columns.
    ///
    /// # Safety
    /// There is memory for all rows.
    #[inline(always)]
    unsafe fn pack_keys<S: Simd>(&self, simd: S, start: usize, count: usize) {
        let ComputeTile { tile, memory } = self;
        let head_dim = tile.queries.args.head_dim as usize;
        for first in (0..count).step_by(SQUARE) {
            for key in 0..SQUARE {
                // Past the end the last key stands in; its scores are not used.
                let position = start + (first + key).min(count - 1);
                let from = tile.queries.key(position, tile.kv_head);
                // SAFETY: the caller's promise; `key` checked `head_dim` elements.
                unsafe { C::widen(simd, from, memory.wide.add(key * memory.width), head_dim) };
            }
            // SAFETY: rows of both are a multiple of GROUP long.
            unsafe {
                let (from, to) = (memory.wide.cast_const(), memory.keys.add(first));
                let elements = head_dim.next_multiple_of(SQUARE);
                transpose(simd, (from, memory.width), (to, BLOCK), SQUARE, elements);
            }
        }
    }
}
