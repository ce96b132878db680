//! Wide-load GEMV on plain rows, up to 4 rows of A, for AVX-512 with VBMI and GFNI: a row of B is read in whole
//! vectors, scales and all, and its parts are sorted in registers.
//!
//! The processor prefetches for loads that follow one another without a gap, and not for those of a block's parts, each
//! of its own size. All that is not a product of integers is done for 16 scales at a time. A is put into the order of
//! the vectors of a [`Unit`] of B.

use std::any::TypeId;
use std::arch::x86_64::*;
use std::marker::PhantomData;

use super::gemv_dot::COLUMNS;
use super::quantize_a::{Activations, Row};
use crate::backend::cpu::gemm::problem::{Block, Gemm};
use crate::backend::cpu::machine::Machine;
use crate::backend::cpu::quants::units::{LANES, MAX_VECTORS, Q4_0, Q4K, Q6K, Unit};
use crate::backend::cpu::quants::{BlockQ4_0, BlockQ4K, BlockQ6K, GROUP, Integers, Stored};
use crate::backend::cpu::scratch::{Scratch, arena};
use crate::backend::fault::Fault;

/// The most rows of A.
const MAX_ROWS: usize = 4;
/// Bytes of a vector.
const VECTOR: usize = 64;
/// Neighbors in A that are neighbors in a vector, too.
const PIECE: usize = 16;

/// Bytes of B that are read of one stream before the next one: with more or fewer, prefetching falls behind (docs/perf,
/// Zen 4).
const ROUND: usize = 9 << 10;

arena!(ARENA);

pub type Multiply<B> = fn(&Machine, &Gemm<B, f32>, &Activations, bool) -> Result<(), Fault>;

/// The loop for this type of B, if there is one. For processors with VBMI and GFNI, and up to 4 rows of A.
pub fn of_type<B: Integers>() -> Option<Multiply<B>> {
    let blocks = TypeId::of::<B>();
    if blocks == TypeId::of::<BlockQ4_0>() {
        Some(multiply_units::<B, Q4_0>)
    } else if blocks == TypeId::of::<BlockQ4K>() {
        Some(multiply_units::<B, Q4K>)
    } else if blocks == TypeId::of::<BlockQ6K>() {
        Some(multiply_units::<B, Q6K>)
    } else {
        None
    }
}

/// For a B of the blocks of `U`. This is compiled for each pair of types, and what it calls once for each `U`.
fn multiply_units<B: Integers, U: Unit>(
    machine: &Machine,
    gemm: &Gemm<B, f32>,
    a: &Activations,
    separable: bool,
) -> Result<(), Fault> {
    assert_eq!(TypeId::of::<B>(), TypeId::of::<U::Block>());
    // SAFETY: the types are the same.
    let gemm = unsafe { &*std::ptr::from_ref(gemm).cast::<Gemm<U::Block, f32>>() };
    multiply_blocks::<U>(machine, gemm, a, separable)
}

fn multiply_blocks<U: Unit>(
    machine: &Machine,
    gemm: &Gemm<U::Block, f32>,
    a: &Activations,
    separable: bool,
) -> Result<(), Fault> {
    let a = &PackedA::<U>::new(gemm, a)?;
    gemm.for_blocks(machine, separable, COLUMNS, |block| {
        // SAFETY: `multiply` is for processors that have the features.
        unsafe {
            match block.rows.len() {
                1 => multiply_block::<U, 1>(gemm, a, block),
                2 => multiply_block::<U, 2>(gemm, a, block),
                3 => multiply_block::<U, 3>(gemm, a, block),
                _ => multiply_block::<U, MAX_ROWS>(gemm, a, block),
            }
        }
    });
    Ok(())
}

/// The integers of A in the order of the vectors of units.
struct PackedA<U> {
    scratch: Scratch,
    units: usize,
    /// Rows from one matrix to the next; 0 when all batches share one.
    batch_rows: usize,
    order: PhantomData<fn() -> U>,
}

impl<U: Unit> PackedA<U> {
    /// Vectors of integers in a unit.
    const VECTORS: usize = U::GROUPS * GROUP / VECTOR;
    /// Bytes of a unit: for each vector the upper and the lower bytes of 15-bit integers; a scale for each scale of B;
    /// and these times the sums of the integers and the one that stands for 0 in B, which corrects for it.
    const BYTES: usize = (2 * Self::VECTORS + 2) * VECTOR;
    const SCALES: usize = 2 * Self::VECTORS * VECTOR;
    const CORRECTIONS: usize = Self::SCALES + VECTOR;

    fn new(gemm: &Gemm<U::Block, f32>, a: &Activations) -> Result<PackedA<U>, Fault> {
        let (batches, rows) = (gemm.a.batches, gemm.a.rows);
        let groups = gemm.k() / GROUP;
        let units = groups.div_ceil(U::GROUPS);
        let bytes = (batches * rows * units).saturating_mul(Self::BYTES);
        let packed = PackedA {
            scratch: Scratch::take_for("rounded activations", &ARENA, bytes)?,
            units,
            batch_rows: if batches > 1 { rows } else { 0 },
            order: PhantomData,
        };
        for (batch, row) in (0..batches).flat_map(|batch| (0..rows).map(move |row| (batch, row))) {
            let (from, to) = (a.row(batch, row), packed.row(batch, row));
            for unit in 0..units {
                // SAFETY: `row` checked all units of the place, which nobody else has yet, and those of A have so many
                // groups.
                unsafe { Self::pack_unit(from, unit, groups, to.add(unit * Self::BYTES)) };
            }
        }
        Ok(packed)
    }

    /// All units of a row.
    fn row(&self, batch: usize, row: usize) -> *mut u8 {
        let bytes = self.units * Self::BYTES;
        let start = (batch * self.batch_rows + row) * bytes;
        self.scratch.at(start, bytes)
    }

    /// Writes a unit; zeros past A's last group.
    ///
    /// # Safety
    /// `from` is a row of `groups` groups and `to` has room.
    unsafe fn pack_unit(from: Row, unit: usize, groups: usize, to: *mut u8) {
        let first = unit * U::GROUPS;
        let pieces = VECTOR / PIECE;
        // SAFETY: the caller's promise; what is read is below `groups` groups.
        unsafe {
            for piece in 0..Self::VECTORS * pieces {
                let start = first * GROUP + U::piece(piece / pieces, piece % pieces) * PIECE;
                let to = to.add(piece / pieces * 2 * VECTOR + piece % pieces * PIECE);
                for (plane, from) in from.planes.into_iter().enumerate() {
                    let to = to.add(plane * VECTOR);
                    match start < groups * GROUP {
                        true => from.add(start).cast::<u8>().copy_to(to, PIECE),
                        false => to.write_bytes(0, PIECE),
                    }
                }
            }
            for lane in 0..LANES {
                let sub_block = unit * LANES + lane;
                let group = sub_block * U::Block::SUB_BLOCK / GROUP;
                let (mut scale, mut correction) = (0.0, 0.0);
                if group < groups {
                    scale = from.scales.add(group).read();
                    // Minima are what A's sums themselves are multiplied with.
                    let zero = match U::Block::HAS_MINIMUM {
                        true => 1,
                        false => U::Block::ZERO,
                    };
                    correction = scale * (zero * from.sums.add(sub_block).read()) as f32;
                }
                to.add(Self::SCALES).cast::<f32>().add(lane).write(scale);
                let to = to.add(Self::CORRECTIONS).cast::<f32>();
                to.add(lane).write(correction);
            }
        }
    }
}

/// # Safety
/// The processor has the features, and `block` has `M` rows.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,gfni")]
unsafe fn multiply_block<U: Unit, const M: usize>(
    gemm: &Gemm<U::Block, f32>,
    a: &PackedA<U>,
    block: Block,
) {
    let (batch, rows, columns) = (block.batch, block.rows, block.columns);
    let k = gemm.k();
    let bytes = k / U::Block::ELEMENTS * size_of::<U::Block>();
    let mut a_rows = [std::ptr::null::<u8>(); M];
    for i in 0..M {
        a_rows[i] = a.row(batch, rows.start + i);
    }
    // Rows of several parts alternately: more than one stream is prefetched at a time.
    let streams = (ROUND / bytes.max(1)).clamp(2, 4);
    let apart = columns.len().div_ceil(streams);
    for place in 0..apart * streams {
        let column = columns.start + place / streams + place % streams * apart;
        if column >= columns.end {
            continue;
        }
        let b = gemm.b.at(gemm.b_row(batch, column), k);
        // SAFETY: `at` checked the row's bytes, and `PackedA` made rows of its units.
        let dots = unsafe { dots::<U, M>(a_rows, b.cast::<u8>().cast_const(), bytes) };
        for i in 0..M {
            gemm.output.write(batch, rows.start + i, column, dots[i]);
        }
    }
}

/// The dot products of rows of A and a row of B of `bytes` bytes.
///
/// # Safety
/// The processor has the features, `b` is readable and rows of A are as long.
#[inline(always)]
unsafe fn dots<U: Unit, const M: usize>(a: [*const u8; M], b: *const u8, bytes: usize) -> [f32; M] {
    // SAFETY: the caller's promise; a part of a unit is copied to the start of a whole one.
    unsafe {
        let mut sums = [Sums {
            products: _mm512_setzero_ps(),
            corrections: _mm512_setzero_ps(),
        }; M];
        let whole = bytes / U::BYTES;
        for unit in 0..whole {
            sums = add_unit::<U, M>(a, unit, b.add(unit * U::BYTES), sums);
        }
        let rest = bytes - whole * U::BYTES;
        if rest > 0 {
            let mut padded = [0u8; MAX_BYTES];
            let from = b.add(whole * U::BYTES);
            from.copy_to_nonoverlapping(padded.as_mut_ptr(), rest);
            sums = add_unit::<U, M>(a, whole, padded.as_ptr(), sums);
        }
        let mut dots = [0.0; M];
        for i in 0..M {
            let sum = _mm512_sub_ps(sums[i].products, sums[i].corrections);
            dots[i] = _mm512_reduce_add_ps(sum);
        }
        dots
    }
}

/// Bytes of the longest unit.
const MAX_BYTES: usize = 288;

/// What is summed up for one row of A.
#[derive(Clone, Copy)]
struct Sums {
    products: __m512,
    corrections: __m512,
}

/// Adds the products of a unit to `sums`.
///
/// # Safety
/// The processor has the features, `a` has the unit and `b` is readable for it.
#[inline(always)]
unsafe fn add_unit<U: Unit, const M: usize>(
    a: [*const u8; M],
    unit: usize,
    b: *const u8,
    mut sums: [Sums; M],
) -> [Sums; M] {
    const { assert!(U::BYTES <= MAX_BYTES && U::GROUPS * GROUP <= MAX_VECTORS * VECTOR) }
    // SAFETY: the caller's promise.
    unsafe {
        let b = U::load(b);
        let mut factors = [_mm512_setzero_ps(); M];
        for i in 0..M {
            let a = a[i].add(unit * PackedA::<U>::BYTES);
            let corrections = _mm512_load_ps(a.add(PackedA::<U>::CORRECTIONS).cast());
            let corrections = _mm512_fmadd_ps(b.minima, corrections, sums[i].corrections);
            sums[i].corrections = corrections;
            let scales = _mm512_load_ps(a.add(PackedA::<U>::SCALES).cast());
            factors[i] = _mm512_mul_ps(b.scales, scales);
        }
        for step in 0..PackedA::<U>::VECTORS / U::STEP_VECTORS {
            let lanes = _mm512_loadu_si512(U::SCALE_OF_LANE[step].as_ptr().cast());
            for i in 0..M {
                let a = a[i].add(unit * PackedA::<U>::BYTES);
                let mut products = _mm512_setzero_si512();
                for plane in 0..2 {
                    products = _mm512_slli_epi32::<7>(products);
                    for vector in step * U::STEP_VECTORS..(step + 1) * U::STEP_VECTORS {
                        let a = _mm512_load_si512(a.add((2 * vector + plane) * VECTOR).cast());
                        products = _mm512_dpbusd_epi32(products, b.integers[vector], a);
                    }
                }
                let factors = _mm512_permutexvar_ps(lanes, factors[i]);
                let products = _mm512_cvtepi32_ps(products);
                sums[i].products = _mm512_fmadd_ps(products, factors, sums[i].products);
            }
        }
        sums
    }
}
