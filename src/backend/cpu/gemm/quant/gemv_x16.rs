//! Quantized GEMV on the x16 layout, up to 4 rows of A: memory is read in address order, and a lane of a vector is a
//! column of C.
//!
//! Words, scales and panels keep that order, because the processor's own prefetching follows few others. Two panels far
//! from each other, a word of each alternately, are two such streams, which keep more reads in flight than one. Sums of
//! both fit the registers for a single row of A. With half as wide vectors they fit where products are pairs
//! ([`Simd::I16_MADD`]) and a span has at most two pieces; Q6_K has four, so one half follows the other.
//!
//! Prefetch instructions help Intel's processors, and AMD's from Zen 5 on ([`Tuning`]). `docs/perf/` has what each
//! choice gained.
//!
//! [`Tuning`]: crate::backend::cpu::simd::Tuning

use std::mem::MaybeUninit;

use super::block_dot::DotSums;
use super::quantize_a::{Activations, Row};
use crate::backend::cpu::gemm::gemv_x16::PanelStreams;
use crate::backend::cpu::gemm::problem::{Block, Gemm};
use crate::backend::cpu::quants::{
    BlockRows, GROUP, InterleavedIntegers, SUB_BLOCKS, WORD, X16_ROWS,
};
use crate::backend::cpu::simd::{CACHE_LINE, Simd, Streaming, opaque_trip_count, read_order_fence};

/// The most rows of A.
pub const MAX_ROWS: usize = 4;
/// The most vectors that the rows of an x16 panel fill.
const VECTORS: usize = 4;

pub struct QuantGemvX16<'a, B> {
    pub gemm: &'a Gemm<'a, B, f32>,
    pub a: &'a Activations,
    /// Its columns are whole x16 panels.
    pub block: Block,
}

impl<B: InterleavedIntegers> Streaming for QuantGemvX16<'_, B> {
    type Output = ();
    const NEEDS_BIT_PERMUTE: bool = true;

    #[inline(always)]
    fn run<S: Simd, const DISTANCE: usize>(self, simd: S) {
        // What is no `const` expression, the compiler makes code for before it finds that none of it is used.
        match self.block.rows.len() {
            1 if const { S::LANES == X16_ROWS || S::I16_MADD && B::PIECES == 4 } => {
                self.multiply::<S, DISTANCE, 1, 2, 2>(simd)
            }
            1 if S::I16_MADD => self.multiply::<S, DISTANCE, 1, 2, 4>(simd),
            1 => self.multiply::<S, DISTANCE, 1, 1, 1>(simd),
            2 if const { S::I16_MADD && B::PIECES < 4 } => {
                self.multiply::<S, DISTANCE, 2, 1, 2>(simd)
            }
            2 => self.multiply::<S, DISTANCE, 2, 1, 1>(simd),
            _ if const { B::PIECES == 4 } => self.multiply::<S, DISTANCE, 2, 1, 1>(simd),
            _ => self.multiply::<S, DISTANCE, MAX_ROWS, 1, 1>(simd),
        }
    }
}

impl<B: InterleavedIntegers> QuantGemvX16<'_, B> {
    /// With `M` rows of A, and `N` x16 panels alternately, `R` vectors of their rows at a time.
    #[inline(always)]
    fn multiply<S: Simd, const DISTANCE: usize, const M: usize, const N: usize, const R: usize>(
        self,
        simd: S,
    ) {
        const { assert!(S::LANES * VECTORS >= X16_ROWS) }
        let QuantGemvX16 { gemm, a, block } = self;
        let Block {
            batch,
            rows,
            columns,
        } = block;
        let each = R / N;
        let streams = PanelStreams::<N>::new(columns);
        for round in 0..streams.count {
            let columns = streams.columns(round);
            let mut panels = [std::ptr::null(); N];
            for n in 0..N {
                panels[n] = gemm.x16_panel(batch, columns[n]);
            }
            for row in rows.clone().step_by(M) {
                // A third row comes with a fourth that is the same, so that there is a loop less to compile.
                let rows_of_a = a.rows(batch, row..rows.end);
                let mut sums = [[[simd.splat(0.0); M]; R]; VECTORS];
                for block in 0..gemm.k() / B::ELEMENTS {
                    let here = |n: usize| panels[n].wrapping_add(block * X16_ROWS);
                    for v in 0..X16_ROWS / S::LANES / each {
                        let mut rows = [BlockRows::new(here(0), v * each * S::LANES); R];
                        for r in 1..R {
                            let first = (v * each + r % each) * S::LANES;
                            rows[r] = BlockRows::new(here(r / each), first);
                        }
                        // SAFETY: `x16_panel` checked all of its blocks, and A's rows have as many.
                        sums[v] = unsafe {
                            add_block::<S, B, DISTANCE, M, R>(simd, rows_of_a, rows, block, sums[v])
                        };
                    }
                }
                for n in 0..N {
                    for i in 0..M.min(rows.end - row) {
                        let mut values = [0f32; X16_ROWS];
                        for v in 0..X16_ROWS / S::LANES {
                            let sum = sums[v / each][n * each + v % each][i];
                            // SAFETY: the vectors are as long as the values.
                            unsafe { simd.store(sum, values.as_mut_ptr().add(v * S::LANES)) };
                        }
                        gemm.store_x16(batch, row + i, columns[n], values);
                    }
                }
            }
        }
    }
}

/// Adds the products of block `block` of each x16 panel to its `sums`.
///
/// # Safety
/// B's blocks are readable and A's rows have them.
#[inline(always)]
unsafe fn add_block<
    S: Simd,
    B: InterleavedIntegers,
    const DISTANCE: usize,
    const M: usize,
    const N: usize,
>(
    simd: S,
    a: [Row; M],
    rows: [BlockRows<B>; N],
    block: usize,
    mut sums: [[S::Vector; M]; N],
) -> [[S::Vector; M]; N] {
    let sub_blocks = const {
        assert!(B::ELEMENTS / B::SUB_BLOCK <= SUB_BLOCKS);
        B::ELEMENTS / B::SUB_BLOCK
    };
    // SAFETY: the caller's promise; all spans together write the totals of all sub-blocks.
    unsafe {
        if DISTANCE > 0 {
            // The others with the words.
            for line in const { B::SPANS * B::STEPS * lines_of_step::<B>()..lines_of::<B>() } {
                for n in 0..N {
                    rows[n].prefetch(DISTANCE + line * CACHE_LINE);
                }
            }
        }
        let mut totals = [const { MaybeUninit::uninit() }; SUB_BLOCKS];
        for span in 0..opaque_trip_count(B::SPANS) {
            match const { B::ELEMENTS / B::SUB_BLOCK / B::SPANS } {
                1 => add_span::<S, B, DISTANCE, M, N, 1>(simd, a, rows, block, span, &mut totals),
                2 => add_span::<S, B, DISTANCE, M, N, 2>(simd, a, rows, block, span, &mut totals),
                _ => add_span::<S, B, DISTANCE, M, N, 4>(simd, a, rows, block, span, &mut totals),
            }
        }
        let mut products = totals[0].assume_init_read();
        if const { B::ELEMENTS == B::SUB_BLOCK && B::HAS_MINIMUM } {
            for n in 0..N {
                let factor = B::minimum(simd, &B::factors(simd, rows[n]), 0);
                let minimum = simd.mul(simd.mul(rows[n].minimum(simd), factor), simd.splat(-1.0));
                for i in 0..M {
                    let weight = simd.splat(a[i].weights.add(block).read());
                    sums[n][i] = simd.mul_add(minimum, weight, sums[n][i]);
                }
            }
        }
        if const { B::ELEMENTS > B::SUB_BLOCK } {
            let mut factors = [B::factors(simd, rows[0]); N];
            for n in 1..N {
                factors[n] = B::factors(simd, rows[n]);
            }
            products = [[simd.splat(0.0); M]; N];
            let mut minima = products;
            for sub_block in 0..sub_blocks {
                let totals = totals[sub_block].assume_init_ref();
                for n in 0..N {
                    let factor = B::scale(simd, &factors[n], sub_block);
                    for i in 0..M {
                        products[n][i] = simd.mul_add(totals[n][i], factor, products[n][i]);
                    }
                    if B::HAS_MINIMUM {
                        let minimum = B::minimum(simd, &factors[n], sub_block);
                        for i in 0..M {
                            let weight =
                                simd.splat(a[i].weights.add(block * sub_blocks + sub_block).read());
                            minima[n][i] = simd.mul_add(minimum, weight, minima[n][i]);
                        }
                    }
                }
            }
            if B::HAS_MINIMUM {
                for n in 0..N {
                    let minimum = simd.mul(rows[n].minimum(simd), simd.splat(-1.0));
                    for i in 0..M {
                        sums[n][i] = simd.mul_add(minima[n][i], minimum, sums[n][i]);
                    }
                }
            }
        }
        for n in 0..N {
            let scale = rows[n].scale(simd);
            for i in 0..M {
                sums[n][i] = simd.mul_add(products[n][i], scale, sums[n][i]);
            }
        }
    }
    sums
}

/// Sums of products of a sub-block of `N` x16 panels and `M` rows of A, times the scale of A.
type Total<S, const M: usize, const N: usize> = MaybeUninit<[[<S as Simd>::Vector; M]; N]>;

/// Cache lines of 16 blocks.
const fn lines_of<B>() -> usize {
    size_of::<[B; X16_ROWS]>().div_ceil(CACHE_LINE)
}

/// Those that are prefetched in each step.
const fn lines_of_step<B: InterleavedIntegers>() -> usize {
    lines_of::<B>() / (B::SPANS * B::STEPS)
}

/// Writes the totals of a span's sub-blocks, `P` of them, each of as many of its pieces.
///
/// They are scaled after the block's words have been read, because its factors are between the words and after them.
///
/// # Safety
/// As for [`add_block`].
#[inline(always)]
unsafe fn add_span<
    S: Simd,
    B: InterleavedIntegers,
    const DISTANCE: usize,
    const M: usize,
    const N: usize,
    const P: usize,
>(
    simd: S,
    a: [Row; M],
    rows: [BlockRows<B>; N],
    block: usize,
    span: usize,
    totals: &mut [Total<S, M, N>; SUB_BLOCKS],
) {
    let mut products = [[[DotSums::new(simd, 0); M]; N]; P];
    let in_block = |sub_block: usize| B::start(span, sub_block) / B::SUB_BLOCK;
    // SAFETY: the caller's promise.
    unsafe {
        if !B::HAS_MINIMUM && B::zero::<S>() != 0 {
            for sub_block in 0..P {
                for i in 0..M {
                    let at = block * (B::ELEMENTS / B::SUB_BLOCK) + in_block(sub_block);
                    let start = a[i].starts.add(at).read();
                    for n in 0..N {
                        products[sub_block][n][i] = DotSums::new(simd, start);
                    }
                }
            }
        }
        for step in 0..opaque_trip_count(B::STEPS) {
            if DISTANCE > 0 {
                let lines = const { lines_of_step::<B>() };
                let first = (span * B::STEPS + step) * lines;
                for line in first..first + lines {
                    for n in 0..N {
                        rows[n].prefetch(DISTANCE + line * CACHE_LINE);
                    }
                }
            }
            let mut words = [B::words(simd, rows[0], span, step); N];
            for n in 1..N {
                words[n] = B::words(simd, rows[n], span, step);
            }
            read_order_fence();
            for piece in 0..B::PIECES {
                let at = block * B::ELEMENTS + B::start(span, piece) + step * WORD;
                for n in 0..N {
                    let b = B::integers_of(simd, words[n], span, piece);
                    let sums = &mut products[piece % P][n];
                    *sums = add_piece::<S, B, M>(simd, a, at, b, *sums);
                }
            }
        }
        for sub_block in 0..P {
            let group = (block * B::ELEMENTS + B::start(span, sub_block)) / GROUP;
            let mut sums = [[simd.splat(0.0); M]; N];
            for i in 0..M {
                let scale = simd.splat(a[i].scales.add(group).read());
                for n in 0..N {
                    sums[n][i] = simd.mul(products[sub_block][n][i].total(simd), scale);
                }
            }
            totals[in_block(sub_block)].write(sums);
        }
    }
}

/// Adds the products of a word of B's rows and integers `at ..` of A's.
///
/// # Safety
/// A's rows have the integers.
#[inline(always)]
unsafe fn add_piece<S: Simd, B: InterleavedIntegers, const M: usize>(
    simd: S,
    a: [Row; M],
    at: usize,
    b: S::Bytes,
    mut products: [DotSums<S>; M],
) -> [DotSums<S>; M] {
    for i in 0..M {
        let [first, second] = a[i].planes;
        // SAFETY: the caller's promise.
        let planes = unsafe {
            [
                simd.splat_bytes(first.add(at)),
                simd.splat_bytes(second.add(at)),
            ]
        };
        products[i] = products[i].add(simd, B::SIGNED, b, planes);
    }
    products
}
