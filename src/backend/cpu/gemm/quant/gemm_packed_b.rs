//! Quantized GEMM with packed B: rows of B are packed so that four integers of each are neighbors. An element of C is
//! then a lane of a vector, and every load serves several rows of A.
//!
//! A panel is filled by a loop for each type of B, and multiplied by one for each [`kind`] of them.

use std::marker::PhantomData;

use super::block_dot::dot;
use super::quantize_a::{Activations, Row, TILE_ROWS};
use crate::backend::cpu::gemm::problem::{Block, Gemm, Output};
use crate::backend::cpu::quants::{
    BlockQ2K, BlockQ4_0, BlockQ4_1, BlockQ5_0, BlockQ5_1, BlockQ6K, BlockQ8_0, BlockRows, GROUP,
    Integers, InterleavedIntegers, SCALED_GROUPS, Scales, X16_ROWS,
};
use crate::backend::cpu::scratch::{AllocError, Scratch, arena};
use crate::backend::cpu::simd::{Body, CACHE_LINE, Isa, Simd, opaque_trip_count, prefetch_lines};

/// Columns of C that a panel of the widest instruction set makes.
pub const COLUMNS: usize = 32;
/// Vectors of columns in a tile.
const VECTORS: usize = 2;
/// Columns that are interleaved together.
const INTERLEAVED_COLUMNS: usize = 8;
/// Integers of a group that are neighbors.
const DEPTH: usize = 4;

arena!(ARENA);

/// A panel: for each group its integers, [step of DEPTH][column][DEPTH], and for each sub-block its scales and minima,
/// [column].
#[derive(Clone, Copy)]
pub struct Panel {
    integers: *mut i8,
    scales: *mut f32,
    minima: *mut f32,
}

/// `fill` fills a panel with the rows of B for the columns of a block: [`Fill`] or [`FillFromX16`].
pub fn compute<B: Integers>(
    isa: Isa,
    gemm: &Gemm<B, f32>,
    a: &Activations,
    block: Block,
    fill: impl Fn(&Block, Panel),
) -> Result<(), AllocError> {
    let width = VECTORS * isa.lanes();
    let sub_blocks = (gemm.k() / GROUP).next_multiple_of(SCALED_GROUPS) * (GROUP / B::SUB_BLOCK);
    let (integers, scales) = (gemm.k() * width, 4 * sub_blocks * width);
    let scratch = Scratch::take(&ARENA, integers + 2 * scales)?;
    let panel = Panel {
        integers: scratch.at(0, integers),
        scales: scratch.at(integers, sub_blocks * width),
        minima: scratch.at(integers + scales, sub_blocks * width),
    };
    for part in block.parts(width) {
        let part = &part;
        fill(part, panel);
        let multiply = Multiply {
            output: &gemm.output,
            a,
            part,
            panel,
            next: NextPanel::of(gemm, &block, part.columns.start + width, width),
        };
        match (B::SUB_BLOCK, B::HAS_MINIMUM, const { i16_steps::<B>() }) {
            (GROUP, false, 1) => multiply.run_as::<BlockQ8_0, B>(isa),
            (GROUP, false, 8) => multiply.run_as::<BlockQ4_0, B>(isa),
            (GROUP, false, _) => multiply.run_as::<BlockQ5_0, B>(isa),
            (GROUP, true, 8) => multiply.run_as::<BlockQ4_1, B>(isa),
            (GROUP, true, _) => multiply.run_as::<BlockQ5_1, B>(isa),
            (_, false, _) => multiply.run_as::<BlockQ6K, B>(isa),
            (_, true, _) => multiply.run_as::<BlockQ2K, B>(isa),
        }
    }
    Ok(())
}

/// Fills a panel with the rows of B for the columns of `part`. Past the last column it stands in for others.
pub struct Fill<'a, B> {
    pub gemm: &'a Gemm<'a, B, f32>,
    pub part: &'a Block,
    /// with room for that
    pub panel: Panel,
}

impl<B: Integers> Body for Fill<'_, B> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Fill { gemm, part, panel } = self;
        let width = VECTORS * S::LANES;
        let groups = gemm.k() / GROUP;
        let per_group = GROUP / B::SUB_BLOCK;
        for first in (0..part.columns.len()).step_by(INTERLEAVED_COLUMNS) {
            let rows: [*const B; INTERLEAVED_COLUMNS] = std::array::from_fn(|i| {
                let column = (part.columns.start + first + i).min(part.columns.end - 1);
                let start = gemm.b_row(part.batch, column);
                gemm.b.at(start, gemm.k()).cast_const()
            });
            for start in (0..groups).step_by(SCALED_GROUPS) {
                let count = SCALED_GROUPS.min(groups - start);
                // Of the next rows, maybe those of the next panel: they are too short for the
                // hardware prefetcher.
                for i in 0..INTERLEAVED_COLUMNS {
                    let row = part.columns.start + first + INTERLEAVED_COLUMNS + i;
                    let next = gemm.prefetch_address(part.batch, row, start * GROUP);
                    let bytes = SCALED_GROUPS * GROUP / B::ELEMENTS * size_of::<B>();
                    prefetch_lines(next, bytes);
                }
                for group in start..start + count {
                    // SAFETY: `at` checked the rows, and `compute` made room for the panel.
                    unsafe {
                        let mut integers = [B::integers(simd, rows[0], group); INTERLEAVED_COLUMNS];
                        for i in 1..INTERLEAVED_COLUMNS {
                            integers[i] = B::integers(simd, rows[i], group);
                        }
                        let to = panel.integers.add(group * GROUP * width + first * DEPTH);
                        simd.interleave(integers, to, width * DEPTH);
                    }
                }
                let mut scales = [Scales::new([0.0; 2 * SCALED_GROUPS]); INTERLEAVED_COLUMNS];
                for i in 0..INTERLEAVED_COLUMNS {
                    // SAFETY: as above.
                    scales[i] = unsafe { B::scales(simd, rows[i], start, count) };
                }
                let kinds = if B::HAS_MINIMUM { 2 } else { 1 };
                for part in 0..per_group {
                    let at = (start * per_group + part * SCALED_GROUPS) * width + first;
                    for kind in 0..kinds {
                        let from = |scales: &Scales| {
                            let all = [&scales.scales, &scales.minima][kind];
                            all[part * SCALED_GROUPS..].as_ptr().cast()
                        };
                        // SAFETY: eight floats, which are as many bytes as a group has, of two times eight. `compute`
                        // made room for a multiple of SCALED_GROUPS groups.
                        unsafe {
                            let mut rows = [simd.load_group(from(&scales[0])); INTERLEAVED_COLUMNS];
                            for i in 1..INTERLEAVED_COLUMNS {
                                rows[i] = simd.load_group(from(&scales[i]));
                            }
                            let to = [panel.scales, panel.minima][kind].add(at);
                            simd.interleave(rows, to.cast(), size_of::<f32>() * width);
                        }
                    }
                }
            }
        }
    }
}

/// The same with a B of x16 panels, whose integers are in a packed panel's order already.
pub struct FillFromX16<'a, B> {
    pub gemm: &'a Gemm<'a, B, f32>,
    pub part: &'a Block,
    /// with room for that
    pub panel: Panel,
}

impl<B: InterleavedIntegers> Body for FillFromX16<'_, B> {
    type Output = ();
    const NEEDS_BIT_PERMUTE: bool = true;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let FillFromX16 { gemm, part, panel } = self;
        let width = VECTORS * S::LANES;
        let sub_blocks = B::ELEMENTS / B::SUB_BLOCK;
        for first in (0..part.columns.len()).step_by(S::LANES) {
            let column = part.columns.start + first;
            let blocks = gemm.x16_panel(part.batch, column);
            let integers = panel.integers.wrapping_add(first * DEPTH);
            for block in 0..gemm.k() / B::ELEMENTS {
                let rows = BlockRows::new(blocks.wrapping_add(block * X16_ROWS), column % X16_ROWS);
                // SAFETY: `x16_panel` checked all of its blocks, and `compute` made room for the panel.
                unsafe {
                    for span in 0..B::SPANS {
                        for step in 0..opaque_trip_count(B::STEPS) {
                            let words = B::words(simd, rows, span, step);
                            for piece in 0..B::PIECES {
                                let at = block * B::ELEMENTS + B::start(span, piece) + step * DEPTH;
                                let bytes = B::integers_of(simd, words, span, piece);
                                simd.store_bytes(bytes, integers.add(at * width));
                            }
                        }
                    }
                    let factors = B::factors(simd, rows);
                    let scale = rows.scale(simd);
                    for sub_block in 0..sub_blocks {
                        let at = (block * sub_blocks + sub_block) * width + first;
                        let scale = simd.mul(scale, B::scale(simd, &factors, sub_block));
                        simd.store(scale, panel.scales.add(at));
                        if B::HAS_MINIMUM {
                            let minimum = B::minimum(simd, &factors, sub_block);
                            let minimum = simd.mul(rows.minimum(simd), minimum);
                            simd.store(minimum, panel.minima.add(at));
                        }
                    }
                }
            }
        }
    }
}

/// The rows of B of the next panel, which are prefetched while one is multiplied: to fill a panel takes less time than
/// to read them, and memory would have nothing to do in between.
#[derive(Clone, Copy)]
struct NextPanel {
    from: *const u8,
    bytes: usize,
    /// Bytes at a time.
    each: usize,
}

impl NextPanel {
    /// The rows from `column` on, those that there are in `block` of `count`.
    fn of<B: Integers>(
        gemm: &Gemm<B, f32>,
        block: &Block,
        column: usize,
        count: usize,
    ) -> NextPanel {
        let k = gemm.k();
        let rows = match gemm.output.args.b_row_stride == k as u64 {
            true => block.columns.end.saturating_sub(column).min(count),
            false => 0,
        };
        let bytes = rows * (k / B::ELEMENTS) * size_of::<B>();
        let calls = block.rows.len().div_ceil(TILE_ROWS) * (k / GROUP);
        NextPanel {
            from: gemm.prefetch_address(block.batch, column, 0).cast(),
            bytes,
            each: bytes.div_ceil(calls.max(1)).next_multiple_of(CACHE_LINE),
        }
    }

    /// Prefetches some of it and returns the rest.
    #[inline(always)]
    fn prefetch_some(mut self) -> NextPanel {
        let bytes = self.each.min(self.bytes);
        prefetch_lines(self.from, bytes);
        self.from = self.from.wrapping_add(bytes);
        self.bytes -= bytes;
        self
    }
}

/// How many steps' products of B's integers and bytes of A fit 16 bits, a power of two: 2 · 15 · 127 · 8 < 2^15.
const fn i16_steps<B: Integers>() -> usize {
    let steps = match B::LARGEST {
        ..=15 if B::SUB_BLOCK == GROUP => 8,
        ..=31 if B::SUB_BLOCK == GROUP => 4,
        ..=63 => 2,
        _ => 1,
    };
    assert!(2 * 127 * B::LARGEST * steps as i32 <= i16::MAX as i32);
    steps
}

/// What a panel's multiplication has to know of B's type.
const fn kind<B: Integers>() -> (usize, bool, bool, usize) {
    let steps = i16_steps::<B>();
    (B::SUB_BLOCK, B::HAS_MINIMUM, B::SIGNED, steps)
}

/// Steps of the loop in which no sum of 16 bits is widened: all of a sub-block where there are none.
const fn inner_steps<S: Simd, K: Integers>() -> usize {
    match (S::I16_MADD, i16_steps::<K>()) {
        (false, _) | (_, 1) => K::SUB_BLOCK / DEPTH,
        (true, i16_steps) => i16_steps,
    }
}

/// Computes `part` of C from a panel that is filled for it.
#[derive(Clone, Copy)]
struct Multiply<'a> {
    output: &'a Output<'a, f32>,
    a: &'a Activations,
    part: &'a Block,
    panel: Panel,
    next: NextPanel,
}

impl<'a> Multiply<'a> {
    /// By the loop for `K`, which all types of its kind have, `B` among them.
    fn run_as<K: Integers, B: Integers>(self, isa: Isa) {
        assert_eq!(kind::<K>(), kind::<B>());
        isa.run(MultiplyKind::<K>(self, PhantomData));
    }
}

struct MultiplyKind<'a, K>(Multiply<'a>, PhantomData<K>);

impl<K: Integers> Body for MultiplyKind<'_, K> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let rows = &self.0.part.rows;
        let mut next = self.0.next;
        for first in rows.clone().step_by(TILE_ROWS) {
            let order = self.0.a.order(self.0.part.batch, first);
            let end = rows.end.min(first + TILE_ROWS);
            // Three times as many sums as rows and vectors, and the operands: what 32 registers hold, or 16 when sums
            // of floats stay in memory. With sums of 16 bits a byte of A comes after the other one, and only
            // sums of less than a sub-block's products need as many of 32 bits beside them.
            let step = const {
                let one_sum = inner_steps::<S, K>() == K::SUB_BLOCK / DEPTH;
                match S::LANES == 16 || S::I16_MADD && one_sum {
                    true => TILE_ROWS,
                    false => 2,
                }
            };
            for row in (first..end).step_by(step) {
                // SAFETY: the panel is filled, and there are that many rows.
                next = unsafe {
                    match (end - row).min(step) {
                        1 => self.0.tile::<S, K, 1>(simd, row, order, next),
                        2 => self.0.tile::<S, K, 2>(simd, row, order, next),
                        3 => self.0.tile::<S, K, 3>(simd, row, order, next),
                        _ => self.0.tile::<S, K, TILE_ROWS>(simd, row, order, next),
                    }
                };
            }
        }
    }
}

/// The sums of a tile. They stay in registers where they are handed on and not changed in place.
type Sums<S, const M: usize> = [[<S as Simd>::Vector; VECTORS]; M];

/// Sums of the products of integers of a tile.
type Ints<S, const M: usize> = [[<S as Simd>::Ints; VECTORS]; M];

impl Multiply<'_> {
    /// Returns what is still to be prefetched.
    ///
    /// # Safety
    /// The panel is filled for `part`, which has `M` rows from `row` on, and the order is that of their tile.
    #[inline(always)]
    unsafe fn tile<S: Simd, K: Integers, const M: usize>(
        &self,
        simd: S,
        row: usize,
        (single, double): (&[u32], &[u32]),
        mut next: NextPanel,
    ) -> NextPanel {
        let a = self.a.rows(self.part.batch, row..row + M);
        let mut sums: Sums<S, M> = [[simd.splat(0.0); VECTORS]; M];
        // SAFETY: the caller's promise; the order is one of the groups of these rows.
        unsafe {
            for group in single {
                next = next.prefetch_some();
                sums = self.add_group::<S, K, M, false>(simd, &a, *group as usize, sums);
            }
            for group in double {
                next = next.prefetch_some();
                sums = self.add_group::<S, K, M, true>(simd, &a, *group as usize, sums);
            }
            for (i, sums) in sums.iter().enumerate() {
                self.store(simd, row + i, sums);
            }
        }
        next
    }

    /// Adds the products of a group, of whose activations both bytes count or only the upper one.
    ///
    /// # Safety
    /// As for [`Multiply::tile`]; `a` and the panel have the group.
    #[inline(always)]
    unsafe fn add_group<S: Simd, K: Integers, const M: usize, const DOUBLE: bool>(
        &self,
        simd: S,
        a: &[Row; M],
        group: usize,
        mut sums: Sums<S, M>,
    ) -> Sums<S, M> {
        let width = VECTORS * S::LANES;
        let per_group = GROUP / K::SUB_BLOCK;
        // SAFETY: the caller's promise.
        unsafe {
            for sub_block in group * per_group..(group + 1) * per_group {
                let products = self.products::<S, K, M, DOUBLE>(simd, a, sub_block);
                for v in 0..VECTORS {
                    let at = sub_block * width + v * S::LANES;
                    let scales = simd.load(self.panel.scales.add(at));
                    for i in 0..M {
                        let scale = simd.splat(a[i].scales.add(group).read());
                        let scale = simd.mul(scales, scale);
                        let products = simd.to_float(products[i][v]);
                        sums[i][v] = simd.mul_add(products, scale, sums[i][v]);
                    }
                    if K::HAS_MINIMUM {
                        let minima = simd.load(self.panel.minima.add(at));
                        for i in 0..M {
                            let weight = simd.splat(-a[i].weights.add(sub_block).read());
                            sums[i][v] = simd.mul_add(minima, weight, sums[i][v]);
                        }
                    }
                }
            }
        }
        sums
    }

    /// The sums that those of a sub-block's products begin with.
    ///
    /// # Safety
    /// `a` has the sub-block.
    #[inline(always)]
    unsafe fn starts<S: Simd, K: Integers, const M: usize>(
        simd: S,
        a: &[Row; M],
        sub_block: usize,
    ) -> Ints<S, M> {
        let mut starts = [[simd.splat_int(0); VECTORS]; M];
        if !K::HAS_MINIMUM {
            for i in 0..M {
                // SAFETY: the caller's promise.
                starts[i] = [simd.splat_int(unsafe { a[i].starts.add(sub_block).read() }); VECTORS];
            }
        }
        starts
    }

    /// The sums of a sub-block's products. Where they are formed in 16 bits, one byte of A comes after the other.
    ///
    /// # Safety
    /// As for [`Multiply::tile`]; `a` and the panel have the sub-block.
    #[inline(always)]
    unsafe fn products<S: Simd, K: Integers, const M: usize, const DOUBLE: bool>(
        &self,
        simd: S,
        a: &[Row; M],
        sub_block: usize,
    ) -> Ints<S, M> {
        let zeros = [[simd.splat_int(0); VECTORS]; M];
        // SAFETY: the caller's promise.
        unsafe {
            if !DOUBLE {
                let starts = [Self::starts::<S, K, M>(simd, a, sub_block)];
                let [products] = self.add_planes::<S, K, M, 1>(simd, a, 0, sub_block, starts);
                return products;
            }
            let [upper, mut products] = match S::I16_MADD {
                true => {
                    let [upper] = self.add_planes::<S, K, M, 1>(simd, a, 0, sub_block, [zeros]);
                    let lower = [Self::starts::<S, K, M>(simd, a, sub_block)];
                    let [lower] = self.add_planes::<S, K, M, 1>(simd, a, 1, sub_block, lower);
                    [upper, lower]
                }
                false => {
                    let both = [zeros, Self::starts::<S, K, M>(simd, a, sub_block)];
                    self.add_planes::<S, K, M, 2>(simd, a, 0, sub_block, both)
                }
            };
            for i in 0..M {
                for v in 0..VECTORS {
                    products[i][v] = simd.mul128_add(products[i][v], upper[i][v]);
                }
            }
            products
        }
    }

    /// Adds a sub-block's products with `P` planes of A's bytes, from `plane` on, each to its `sums`.
    ///
    /// # Safety
    /// As for [`Multiply::products`].
    #[inline(always)]
    unsafe fn add_planes<S: Simd, K: Integers, const M: usize, const P: usize>(
        &self,
        simd: S,
        a: &[Row; M],
        plane: usize,
        sub_block: usize,
        mut sums: [Ints<S, M>; P],
    ) -> [Ints<S, M>; P] {
        let in_i16 = const { S::I16_MADD && i16_steps::<K>() > 1 };
        // SAFETY: the caller's promise.
        unsafe {
            for first in (0..K::SUB_BLOCK / DEPTH).step_by(const { inner_steps::<S, K>() }) {
                let mut partial = [[[simd.splat_i16(0); VECTORS]; M]; P];
                for step in 0..opaque_trip_count(const { inner_steps::<S, K>() }) {
                    let at = sub_block * K::SUB_BLOCK + (first + step) * DEPTH;
                    let integers = self.panel.integers.add(at * VECTORS * S::LANES);
                    let mut b = [simd.load_bytes(integers); VECTORS];
                    for v in 1..VECTORS {
                        b[v] = simd.load_bytes(integers.add(v * S::LANES * DEPTH));
                    }
                    for i in 0..M {
                        for p in 0..P {
                            let a = simd.splat_bytes(a[i].planes[plane + p].add(at));
                            for v in 0..VECTORS {
                                let (sum, partial) = (&mut sums[p][i][v], &mut partial[p][i][v]);
                                match in_i16 {
                                    true => *partial = simd.maddubs_i16(*partial, b[v], a),
                                    false => *sum = dot(simd, K::SIGNED, *sum, b[v], a),
                                }
                            }
                        }
                    }
                }
                if in_i16 {
                    let ones = simd.splat_i16(1);
                    for p in 0..P {
                        for i in 0..M {
                            for v in 0..VECTORS {
                                sums[p][i][v] =
                                    simd.madd_i16(sums[p][i][v], partial[p][i][v], ones);
                            }
                        }
                    }
                }
            }
        }
        sums
    }

    /// Adds the bias and writes a row of a tile.
    ///
    /// # Safety
    /// `part` has the row.
    #[inline(always)]
    unsafe fn store<S: Simd>(&self, simd: S, row: usize, sums: &[S::Vector; VECTORS]) {
        let Block { batch, columns, .. } = self.part;
        let c = self.output.c_at(*batch, row, columns.start, columns.len());
        // SAFETY: `c_at` checked the columns; two vectors have at most COLUMNS lanes.
        unsafe {
            if columns.len() == VECTORS * S::LANES && self.output.bias.is_none() {
                for (v, sums) in sums.iter().enumerate() {
                    simd.store(*sums, c.add(v * S::LANES));
                }
                return;
            }
            let mut lanes = [0f32; COLUMNS];
            for (v, sums) in sums.iter().enumerate() {
                simd.store(*sums, lanes.as_mut_ptr().add(v * S::LANES));
            }
            for (column, sum) in columns.clone().zip(lanes) {
                self.output.write(*batch, row, column, sum);
            }
        }
    }
}
