//! Quantized GEMM with packed B: rows of B are packed so that four integers of each are neighbors. An element of C is
//! then a lane of a vector, and every load serves several rows of A.
//!
//! A panel is filled by a loop for each type of B, and multiplied by one for each [`QuantKind`] of them.

use std::cell::Cell;

use super::block_dot::dot;
use super::quantize_a::{Activations, Row, TILE_ROWS};
use crate::backend::cpu::gemm::problem::{Block, Gemm, Output};
use crate::backend::cpu::quants::{
    BlockRows, GROUP, Integers, InterleavedIntegers, SCALED_GROUPS, Scales, X16_ROWS,
};
use crate::backend::cpu::scratch::{AllocError, CacheLine, Scratch};
use crate::backend::cpu::simd::{Body, CACHE_LINE, Isa, Simd, opaque_trip_count, prefetch_lines};

/// Columns of C that a panel of the widest instruction set makes.
pub const COLUMNS: usize = 32;
/// Vectors of columns in a tile.
const VECTORS: usize = 2;
/// Columns that are interleaved together.
const INTERLEAVED_COLUMNS: usize = 8;
/// Integers of a group that are neighbors.
const DEPTH: usize = 4;

thread_local! {
    static ARENA: Cell<Vec<CacheLine>> = const { Cell::new(Vec::new()) };
}

/// A panel: for each group its integers, [step of DEPTH][column][DEPTH], and for each sub-block its scales and minima,
/// [column].
#[derive(Clone, Copy)]
struct Panel {
    integers: *mut i8,
    scales: *mut f32,
    minima: *mut f32,
}

impl Panel {
    /// The vectors of integers `integer .. integer + DEPTH` of each column.
    ///
    /// # Safety
    /// The panel is filled, and has them.
    #[inline(always)]
    unsafe fn step<S: Simd>(self, simd: S, integer: usize) -> [S::Bytes; VECTORS] {
        // SAFETY: the caller's promise.
        unsafe {
            let from = self.integers.add(integer * VECTORS * S::LANES).cast_const();
            [
                simd.load_bytes(from),
                simd.load_bytes(from.add(S::LANES * DEPTH)),
            ]
        }
    }
}

/// For a B of plain rows.
pub fn compute<B: Integers>(
    isa: Isa,
    gemm: &Gemm<B, f32>,
    a: &Activations,
    block: Block,
) -> Result<(), AllocError> {
    compute_filled(isa, gemm, a, block, |part, panel| {
        isa.run(Fill { gemm, part, panel });
    })
}

/// For a B of x16 panels.
pub fn compute_x16<B: InterleavedIntegers>(
    isa: Isa,
    gemm: &Gemm<B, f32>,
    a: &Activations,
    block: Block,
) -> Result<(), AllocError> {
    compute_filled(isa, gemm, a, block, |part, panel| {
        isa.run(FillFromX16 { gemm, part, panel });
    })
}

fn compute_filled<B: Integers>(
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
    for first in block.columns.clone().step_by(width) {
        let part = &Block {
            batch: block.batch,
            rows: block.rows.clone(),
            columns: first..block.columns.end.min(first + width),
        };
        fill(part, panel);
        let multiply = Multiply {
            output: &gemm.output,
            a,
            part,
            panel,
            next: NextPanel::of(gemm, &block, first + width, width),
        };
        let i16_steps = match isa.i16_madd() {
            true => const { i16_steps::<B>() },
            false => 1,
        };
        match (B::SUB_BLOCK, B::HAS_MINIMUM, i16_steps) {
            (32, false, 8) => isa.run(multiply.of::<QuantKind<32, false, false, 8>>()),
            (32, false, 4) => isa.run(multiply.of::<QuantKind<32, false, false, 4>>()),
            (32, false, _) if B::SIGNED => isa.run(multiply.of::<QuantKind<32, false, true, 1>>()),
            (32, false, _) => isa.run(multiply.of::<QuantKind<32, false, false, 1>>()),
            (32, true, 8) => isa.run(multiply.of::<QuantKind<32, true, false, 8>>()),
            (32, true, 4) => isa.run(multiply.of::<QuantKind<32, true, false, 4>>()),
            (32, true, _) => isa.run(multiply.of::<QuantKind<32, true, false, 1>>()),
            (_, false, 2) => isa.run(multiply.of::<QuantKind<16, false, false, 2>>()),
            (_, false, _) => isa.run(multiply.of::<QuantKind<16, false, false, 1>>()),
            (_, true, 2) => isa.run(multiply.of::<QuantKind<16, true, false, 2>>()),
            (_, true, _) => isa.run(multiply.of::<QuantKind<16, true, false, 1>>()),
        }
    }
    Ok(())
}

/// Fills a panel with the rows of B for the columns of `part`. Past the last column it stands in for others.
struct Fill<'a, B> {
    gemm: &'a Gemm<'a, B, f32>,
    part: &'a Block,
    /// with room for that
    panel: Panel,
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
                let to = start * per_group * width + first;
                for part in 0..per_group {
                    // Eight floats are as many bytes as a group has.
                    let of = |scales: &[f32; 2 * SCALED_GROUPS]| {
                        let from = scales[part * SCALED_GROUPS..].as_ptr().cast();
                        // SAFETY: an array has two times eight.
                        unsafe { simd.load_group(from) }
                    };
                    let mut transposed = [of(&scales[0].scales); INTERLEAVED_COLUMNS];
                    let mut minima = [of(&scales[0].minima); INTERLEAVED_COLUMNS];
                    for i in 1..INTERLEAVED_COLUMNS {
                        transposed[i] = of(&scales[i].scales);
                        minima[i] = of(&scales[i].minima);
                    }
                    let to = to + part * SCALED_GROUPS * width;
                    let stride = size_of::<f32>() * width;
                    // SAFETY: `compute` made room for a multiple of SCALED_GROUPS groups.
                    unsafe {
                        simd.interleave(transposed, panel.scales.add(to).cast(), stride);
                        if B::HAS_MINIMUM {
                            simd.interleave(minima, panel.minima.add(to).cast(), stride);
                        }
                    }
                }
            }
        }
    }
}

/// The same with a B of x16 panels, whose integers are in a packed panel's order already.
struct FillFromX16<'a, B> {
    gemm: &'a Gemm<'a, B, f32>,
    part: &'a Block,
    /// with room for that
    panel: Panel,
}

impl<B: InterleavedIntegers> Body for FillFromX16<'_, B> {
    type Output = ();
    const NEEDS_BIT_PERMUTE: bool = true;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let k = self.gemm.k();
        let Block { batch, columns, .. } = self.part;
        for first in (0..columns.len()).step_by(S::LANES) {
            let column = columns.start + first;
            let panel = self.gemm.x16_panel(*batch, column);
            for block in 0..k / B::ELEMENTS {
                let rows = BlockRows::new(panel.wrapping_add(block * X16_ROWS), column % X16_ROWS);
                // SAFETY: `x16_panel` checked all of its blocks, and `compute` made room for the panel.
                unsafe {
                    for span in 0..B::SPANS {
                        self.span(simd, rows, block, span, first);
                    }
                    self.sub_block_factors(simd, rows, block, first);
                }
            }
        }
    }
}

impl<B: InterleavedIntegers> FillFromX16<'_, B> {
    /// Writes the integers of a span of one vector's rows, at column `first` of the panel.
    ///
    /// # Safety
    /// The block is readable, and the panel has room.
    #[inline(always)]
    unsafe fn span<S: Simd>(
        &self,
        simd: S,
        rows: BlockRows<B>,
        block: usize,
        span: usize,
        first: usize,
    ) {
        let width = VECTORS * S::LANES;
        let panel = self.panel.integers.wrapping_add(first * DEPTH);
        let to = |piece| panel.wrapping_add((block * B::ELEMENTS + B::start(span, piece)) * width);
        for step in 0..opaque_trip_count(B::STEPS) {
            // SAFETY: the caller's promise.
            unsafe {
                let words = B::words(simd, rows, span, step);
                let at = step * width * DEPTH;
                for piece in 0..B::PIECES {
                    let integers = B::integers_of(simd, words, span, piece);
                    simd.store_bytes(integers, to(piece).add(at));
                }
            }
        }
    }

    /// Writes the scales and minima of a block of one vector's rows, at column `first` of the panel.
    ///
    /// # Safety
    /// The block is readable, and the panel has room.
    #[inline(always)]
    unsafe fn sub_block_factors<S: Simd>(
        &self,
        simd: S,
        rows: BlockRows<B>,
        block: usize,
        first: usize,
    ) {
        let width = VECTORS * S::LANES;
        let sub_blocks = B::ELEMENTS / B::SUB_BLOCK;
        // SAFETY: the caller's promise.
        unsafe {
            let factors = B::factors(simd, rows);
            let scale = rows.scale(simd);
            for sub_block in 0..sub_blocks {
                let at = (block * sub_blocks + sub_block) * width + first;
                let scale = simd.mul(scale, B::scale(simd, &factors, sub_block));
                simd.store(scale, self.panel.scales.add(at));
                if B::HAS_MINIMUM {
                    let minimum =
                        simd.mul(rows.minimum(simd), B::minimum(simd, &factors, sub_block));
                    simd.store(minimum, self.panel.minima.add(at));
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
    fn prefetch_some(self) -> NextPanel {
        let bytes = self.each.min(self.bytes);
        prefetch_lines(self.from, bytes);
        NextPanel {
            from: self.from.wrapping_add(bytes),
            bytes: self.bytes - bytes,
            ..self
        }
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
struct QuantKind<
    const SUB_BLOCK: usize,
    const HAS_MINIMUM: bool,
    const SIGNED: bool,
    const I16_STEPS: usize,
>;

trait QuantTraits {
    const SUB_BLOCK: usize;
    const HAS_MINIMUM: bool;
    const SIGNED: bool;
    /// Steps that are added up in 16 bits.
    const I16_STEPS: usize;
}

impl<const SUB_BLOCK: usize, const HAS_MINIMUM: bool, const SIGNED: bool, const I16_STEPS: usize>
    QuantTraits for QuantKind<SUB_BLOCK, HAS_MINIMUM, SIGNED, I16_STEPS>
{
    const SUB_BLOCK: usize = SUB_BLOCK;
    const HAS_MINIMUM: bool = HAS_MINIMUM;
    const SIGNED: bool = SIGNED;
    const I16_STEPS: usize = I16_STEPS;
}

/// Steps of the loop in which no sum of 16 bits is widened: all of a sub-block where there are none.
const fn inner_steps<K: QuantTraits>() -> usize {
    match K::I16_STEPS {
        1 => K::SUB_BLOCK / DEPTH,
        i16_steps => i16_steps,
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
    fn of<K: QuantTraits>(self) -> MultiplyKind<'a, K> {
        MultiplyKind(self, std::marker::PhantomData)
    }
}

struct MultiplyKind<'a, K>(Multiply<'a>, std::marker::PhantomData<K>);

impl<K: QuantTraits> Body for MultiplyKind<'_, K> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        // Not compiled for the others.
        let is_used = const {
            match S::I16_MADD {
                true => K::I16_STEPS > 1 || K::SIGNED,
                false => K::I16_STEPS == 1,
            }
        };
        if !is_used {
            unreachable!("`compute_filled` says for which instruction sets this is");
        }
        let rows = &self.0.part.rows;
        let mut next = self.0.next;
        for first in rows.clone().step_by(TILE_ROWS) {
            let order = self.0.a.order(self.0.part.batch, first);
            let end = rows.end.min(first + TILE_ROWS);
            // Three times as many sums as rows and vectors, and the operands: what 32 registers hold, or 16 when sums
            // of floats stay in memory. With sums of 16 bits a byte of A comes after the other one, and only
            // sums of less than a sub-block's products need as many of 32 bits beside them.
            let step = const {
                let one_sum =
                    S::I16_MADD && (K::I16_STEPS == 1 || K::I16_STEPS == K::SUB_BLOCK / DEPTH);
                match S::LANES == 16 || one_sum {
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
    unsafe fn tile<S: Simd, K: QuantTraits, const M: usize>(
        &self,
        simd: S,
        row: usize,
        (single, double): (&[u32], &[u32]),
        mut next: NextPanel,
    ) -> NextPanel {
        let mut a = [self.a.row(self.part.batch, row); M];
        for i in 1..M {
            a[i] = self.a.row(self.part.batch, row + i);
        }
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
    unsafe fn add_group<S: Simd, K: QuantTraits, const M: usize, const DOUBLE: bool>(
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
                let products = match S::I16_MADD {
                    true => self.sums_in_i16::<S, K, M, DOUBLE>(simd, a, sub_block),
                    false => self.sums_in_i32::<S, K, M, DOUBLE>(simd, a, sub_block),
                };
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
    unsafe fn starts<S: Simd, K: QuantTraits, const M: usize>(
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

    /// The sums of a sub-block's products, each in 32 bits, with both bytes of A at a time.
    ///
    /// # Safety
    /// As for [`Multiply::tile`]; `a` and the panel have the sub-block.
    #[inline(always)]
    unsafe fn sums_in_i32<S: Simd, K: QuantTraits, const M: usize, const DOUBLE: bool>(
        &self,
        simd: S,
        a: &[Row; M],
        sub_block: usize,
    ) -> Ints<S, M> {
        // SAFETY: the caller's promise.
        unsafe {
            let mut products = Self::starts::<S, K, M>(simd, a, sub_block);
            let mut upper = [[simd.splat_int(0); VECTORS]; M];
            for step in 0..opaque_trip_count(K::SUB_BLOCK / DEPTH) {
                let at = sub_block * K::SUB_BLOCK + step * DEPTH;
                let b = self.panel.step(simd, at);
                for i in 0..M {
                    let [high, low] = a[i].planes;
                    let high = simd.splat_bytes(high.add(at));
                    if DOUBLE {
                        let low = simd.splat_bytes(low.add(at));
                        for v in 0..VECTORS {
                            upper[i][v] = dot(simd, K::SIGNED, upper[i][v], b[v], high);
                            products[i][v] = dot(simd, K::SIGNED, products[i][v], b[v], low);
                        }
                    } else {
                        for v in 0..VECTORS {
                            products[i][v] = dot(simd, K::SIGNED, products[i][v], b[v], high);
                        }
                    }
                }
            }
            if DOUBLE {
                for i in 0..M {
                    for v in 0..VECTORS {
                        products[i][v] = simd.mul128_add(products[i][v], upper[i][v]);
                    }
                }
            }
            products
        }
    }

    /// The same, in 16 bits as far as that goes, with one byte of A after the other.
    ///
    /// # Safety
    /// As for [`Multiply::sums_in_i32`].
    #[inline(always)]
    unsafe fn sums_in_i16<S: Simd, K: QuantTraits, const M: usize, const DOUBLE: bool>(
        &self,
        simd: S,
        a: &[Row; M],
        sub_block: usize,
    ) -> Ints<S, M> {
        // SAFETY: the caller's promise.
        unsafe {
            if !DOUBLE {
                let starts = Self::starts::<S, K, M>(simd, a, sub_block);
                return self.add_plane::<S, K, M>(simd, a, 0, sub_block, starts);
            }
            let zeros = [[simd.splat_int(0); VECTORS]; M];
            let upper = self.add_plane::<S, K, M>(simd, a, 0, sub_block, zeros);
            let starts = Self::starts::<S, K, M>(simd, a, sub_block);
            let mut products = self.add_plane::<S, K, M>(simd, a, 1, sub_block, starts);
            for i in 0..M {
                for v in 0..VECTORS {
                    products[i][v] = simd.mul128_add(products[i][v], upper[i][v]);
                }
            }
            products
        }
    }

    /// Adds a sub-block's products with a plane of A's bytes.
    ///
    /// # Safety
    /// As for [`Multiply::sums_in_i32`].
    #[inline(always)]
    unsafe fn add_plane<S: Simd, K: QuantTraits, const M: usize>(
        &self,
        simd: S,
        a: &[Row; M],
        plane: usize,
        sub_block: usize,
        mut sums: Ints<S, M>,
    ) -> Ints<S, M> {
        // SAFETY: the caller's promise.
        unsafe {
            for first in (0..K::SUB_BLOCK / DEPTH).step_by(const { inner_steps::<K>() }) {
                let mut partial = [[simd.splat_i16(0); VECTORS]; M];
                for step in 0..opaque_trip_count(const { inner_steps::<K>() }) {
                    let at = sub_block * K::SUB_BLOCK + (first + step) * DEPTH;
                    let b = self.panel.step(simd, at);
                    for i in 0..M {
                        let a = simd.splat_bytes(a[i].planes[plane].add(at));
                        for v in 0..VECTORS {
                            match K::I16_STEPS {
                                1 => sums[i][v] = dot(simd, K::SIGNED, sums[i][v], b[v], a),
                                _ => partial[i][v] = simd.maddubs_i16(partial[i][v], b[v], a),
                            }
                        }
                    }
                }
                if K::I16_STEPS > 1 {
                    let ones = simd.splat_i16(1);
                    for i in 0..M {
                        for v in 0..VECTORS {
                            sums[i][v] = simd.madd_i16(sums[i][v], partial[i][v], ones);
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
            for (j, sum) in lanes.iter().enumerate().take(columns.len()) {
                c.add(j).write(sum + self.output.bias_at(columns.start + j));
            }
        }
    }
}
