//! A as integers of 15 bits with a scale for each group: `scale · (128 · high + low)`, or of 8: `scale · high`.
//!
//! For a few rows, where products of 16 bits take no longer than those of bytes ([`Simd::I16_MADD`]), an integer of 15
//! bits is of one part.

use std::marker::PhantomData;
use std::ops::Range;

use crate::backend::cpu::gemm::rows::Rows;
use crate::backend::cpu::machine::Machine;
use crate::backend::cpu::quants::{GROUP, Integers, SCALED_GROUPS, WORD};
use crate::backend::cpu::scratch::{CacheLine, Scratch, arena};
use crate::backend::cpu::simd::{Body, Isa, Simd};
use crate::backend::fault::Fault;

/// Rows of A that are multiplied together, and share the choice of where they have a second byte.
pub const TILE_ROWS: usize = 4;

/// Up to this many rows have all of their 15 bits.
const EXACT_ROWS: usize = 8;

/// Few groups are above it, mostly those that hold a value far from the others', and yet a good part of the error is
/// theirs.
const OUTLIERS: f32 = 2.0;

/// What A is rounded to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Precision {
    /// 15 bits.
    Exact,
    /// 15 bits, for [`Simd::madd_i16`].
    I16,
    /// 15 bits in the groups of a tile whose squared rounding error to 8 would be above [`OUTLIERS`] times the average
    /// of that tile; 8 bits in the others.
    Mixed,
}

impl Precision {
    /// For `rows` rows of A. A GEMV has the I16 form where the instruction set prefers it.
    pub fn of(isa: Isa, rows: usize, gemv: bool) -> Precision {
        match rows {
            _ if gemv && isa.i16_madd() => Precision::I16,
            ..=EXACT_ROWS => Precision::Exact,
            _ => Precision::Mixed,
        }
    }
}

pub struct Activations {
    scratch: Scratch,
    layout: Layout,
    /// Rows from one matrix to the next; 0 when all batches share one.
    batch_rows: usize,
}

/// One row, which nobody writes after [`Activations::new`].
#[derive(Clone, Copy)]
pub struct Row {
    /// The upper bytes of k integers, and zeros up to a multiple of two groups, and as many lower ones, which groups of
    /// 8 bits do not have. With [`Precision::I16`] the first and the third of every four integers, and the others,
    /// two bytes each.
    pub planes: [*mut i8; 2],
    /// One for each group, of `128 · high + low` or of `high` alone, and zeros up to a multiple of [`SCALED_GROUPS`].
    pub scales: *mut f32,
    /// The sum of the integers for each scale of B, and zeros as for the scales. It corrects products for B's zero and
    /// minimum.
    pub sums: *mut i32,
    /// The same, times `scale`: what B's minima are multiplied with.
    pub weights: *mut f32,
    /// The same, times the integer that stands for 0 in B, negative: what products begin with.
    pub starts: *mut i32,
    /// Of a tile's first row: the number of groups of 8 bits; these groups, and then the others.
    order: *mut u32,
}

/// How many of each a row has, padded but for `k`. They follow one another as [`Row`] lists them.
#[derive(Clone, Copy)]
struct Layout {
    k: usize,
    integers: usize,
    groups: usize,
    sub_blocks: usize,
}

impl Layout {
    fn new<B: Integers>(k: usize) -> Layout {
        let groups = (k / GROUP).next_multiple_of(SCALED_GROUPS);
        Layout {
            k,
            integers: k.next_multiple_of(2 * GROUP),
            groups,
            sub_blocks: groups * (GROUP / B::SUB_BLOCK),
        }
    }

    /// Bytes from one row to the next.
    fn stride(self) -> usize {
        let words = self.groups + 3 * self.sub_blocks + (1 + self.groups);
        (2 * self.integers + 4 * words).next_multiple_of(size_of::<CacheLine>())
    }

    fn row(self, bytes: *mut i8) -> Row {
        let scales: *mut f32 = bytes.wrapping_add(2 * self.integers).cast();
        let sums: *mut i32 = scales.wrapping_add(self.groups).cast();
        let weights: *mut f32 = sums.wrapping_add(self.sub_blocks).cast();
        let starts: *mut i32 = weights.wrapping_add(self.sub_blocks).cast();
        Row {
            planes: [bytes, bytes.wrapping_add(self.integers)],
            scales,
            sums,
            weights,
            starts,
            order: starts.wrapping_add(self.sub_blocks).cast(),
        }
    }
}

arena!(ARENA);

impl Activations {
    pub fn new<B: Integers>(
        machine: &Machine,
        a: &Rows,
        k: usize,
        precision: Precision,
    ) -> Result<Activations, Fault> {
        let layout = Layout::new::<B>(k);
        let bytes = (a.batches * a.rows).saturating_mul(layout.stride());
        let activations = Activations {
            scratch: Scratch::take_for("rounded activations", &ARENA, bytes)?,
            layout,
            batch_rows: if a.batches > 1 { a.rows } else { 0 },
        };
        let tiles = a.rows.div_ceil(TILE_ROWS);
        let grain = machine.grain(2 * k * TILE_ROWS);
        machine.for_ranges(a.batches * tiles, grain, |range| {
            for tile in range {
                let (batch, first) = (tile / tiles, tile % tiles * TILE_ROWS);
                let rows = first..a.rows.min(first + TILE_ROWS);
                for row in rows.clone() {
                    machine.isa.run(Round {
                        from: a.row(batch, row),
                        to: activations.row(batch, row),
                        layout,
                        sub_block: B::SUB_BLOCK,
                        as_i16: precision == Precision::I16,
                    });
                }
                let rows = rows.map(|row| activations.row(batch, row));
                // SAFETY: these rows are rounded, and nobody else has them.
                unsafe { choose(rows.clone(), k, B::SUB_BLOCK, precision) };
                for row in rows {
                    machine.isa.run(Correct::<B>(row, k, PhantomData));
                }
            }
        });
        Ok(activations)
    }

    pub fn row(&self, batch: usize, row: usize) -> Row {
        let stride = self.layout.stride();
        let start = (batch * self.batch_rows + row) * stride;
        self.layout.row(self.scratch.at(start, stride))
    }

    /// The first `M` of some rows. Past the end the last one stands in.
    pub fn rows<const M: usize>(&self, batch: usize, rows: Range<usize>) -> [Row; M] {
        let mut all = [self.row(batch, rows.start); M];
        for i in 1..M {
            all[i] = self.row(batch, (rows.start + i).min(rows.end - 1));
        }
        all
    }

    /// The groups of the tile whose first row this is: those of 8 bits, and those of 15.
    pub fn order(&self, batch: usize, row: usize) -> (&[u32], &[u32]) {
        let order = self.row(batch, row).order;
        // SAFETY: `choose` wrote both, and nobody writes after `new`.
        unsafe {
            let groups = std::slice::from_raw_parts(order.add(1), self.layout.k / GROUP);
            groups.split_at(order.read() as usize)
        }
    }
}

/// Drops the second byte of the groups of a tile where it matters least, and writes the order of its groups.
///
/// # Safety
/// `rows` are rounded rows of `k` integers that nobody else uses.
unsafe fn choose(
    rows: impl Iterator<Item = Row> + Clone,
    k: usize,
    sub_block: usize,
    precision: Precision,
) {
    let groups = k / GROUP;
    let energy = |group| -> f32 {
        // SAFETY: the caller's promise.
        let square = |row: Row| unsafe { row.scales.add(group).read() }.powi(2);
        rows.clone().map(square).sum()
    };
    let mean = (0..groups).map(energy).sum::<f32>() / groups as f32;
    let single = |group| precision == Precision::Mixed && energy(group) <= OUTLIERS * mean;
    let Some(Row { order, .. }) = rows.clone().next() else {
        return;
    };
    // SAFETY: the caller's promise.
    unsafe {
        let (mut singles, mut doubles) = (0, groups);
        for group in 0..groups {
            if !single(group) {
                doubles -= 1;
                order.add(1 + doubles).write(group as u32);
                continue;
            }
            order.add(1 + singles).write(group as u32);
            singles += 1;
            for row in rows.clone() {
                *row.scales.add(group) *= 128.0;
                for part in group * GROUP / sub_block..(group + 1) * GROUP / sub_block {
                    let integers = row.planes[0].add(part * sub_block);
                    let integers = std::slice::from_raw_parts(integers, sub_block);
                    let sum = integers.iter().map(|integer| i32::from(*integer)).sum();
                    row.sums.add(part).write(sum);
                }
            }
        }
        order.write(singles as u32);
    }
}

/// Writes what is computed from the sums of a row of this many integers.
struct Correct<B>(Row, usize, PhantomData<B>);

impl<B: Integers> Body for Correct<B> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let Correct(row, k, _) = self;
        let per_group = GROUP / B::SUB_BLOCK;
        // SAFETY: a row has as many of each as there are sub-blocks.
        unsafe {
            for sub_block in 0..k / B::SUB_BLOCK {
                let sum = row.sums.add(sub_block).read();
                let weight = sum as f32 * row.scales.add(sub_block / per_group).read();
                row.weights.add(sub_block).write(weight);
                row.starts.add(sub_block).write(-B::zero::<S>() * sum);
            }
        }
    }
}

struct Round {
    from: *const f32,
    to: Row,
    layout: Layout,
    sub_block: usize,
    as_i16: bool,
}

impl Body for Round {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        match self.sub_block {
            16 => self.sub_blocks::<16>(),
            _ => self.sub_blocks::<GROUP>(),
        }
    }
}

impl Round {
    #[inline(always)]
    fn sub_blocks<const SUB_BLOCK: usize>(self) {
        let (to, layout) = (self.to, self.layout);
        let per_group = GROUP / SUB_BLOCK;
        // SAFETY: `from` is a row of `k` values and `to` one of the layout.
        unsafe {
            // What pads the integers, the scales and the sums.
            for plane in to.planes {
                let end = plane.add(layout.k);
                end.write_bytes(0, layout.integers - layout.k);
            }
            let words = layout.groups + 3 * layout.sub_blocks;
            to.scales.write_bytes(0, words);
            for group in 0..layout.k / GROUP {
                let at = group * GROUP;
                let values = &*self.from.add(at).cast::<[f32; GROUP]>();
                let (factor, scale) = rounding(values);
                if self.as_i16 {
                    for (plane, to) in to.planes.into_iter().enumerate() {
                        let to = to.add(at).cast::<i32>();
                        for word in 0..GROUP / WORD {
                            let lower = rounded(values[word * WORD + plane], factor);
                            let upper = rounded(values[word * WORD + plane + 2], factor);
                            to.add(word).write_unaligned(lower & 0xffff | upper << 16);
                        }
                    }
                } else {
                    for i in 0..GROUP {
                        let integer = rounded(values[i], factor);
                        let high = (integer + 64) >> 7;
                        to.planes[0].add(at + i).write(high as i8);
                        let low = integer - (high << 7);
                        to.planes[1].add(at + i).write(low as i8);
                    }
                }
                to.scales.add(group).write(scale);
                for part in 0..per_group {
                    // Once more: an array of them would be written and read in pieces that the processor has to wait
                    // for.
                    let mut sum = 0;
                    for i in 0..SUB_BLOCK {
                        sum += rounded(values[part * SUB_BLOCK + i], factor);
                    }
                    to.sums.add(group * per_group + part).write(sum);
                }
            }
        }
    }
}

/// The largest integer: 127 · 128.
const LARGEST: f32 = 127.0 * 128.0;

/// What the values of a group are multiplied with to be rounded to integers, and what these integers are multiplied
/// with to be the values again. A group with an infinity or a NaN has NaN for a scale, one without any normal number 0.
#[inline(always)]
fn rounding(values: &[f32; GROUP]) -> (f32, f32) {
    const INFINITY: u32 = f32::INFINITY.to_bits();
    // Magnitudes are in the order of their bits, NaN last. (Loops, because closures of `map` and `fold` need not be
    // inlined, and then miss the instruction set.)
    let mut largest = 0;
    for value in values {
        largest = largest.max(value.to_bits() & 0x7fff_ffff);
    }
    match f32::from_bits(largest) {
        _ if largest >= INFINITY => (0.0, f32::NAN),
        largest if largest < LARGEST * f32::MIN_POSITIVE => (0.0, 0.0),
        largest => (LARGEST / largest, largest / LARGEST),
    }
}

/// A value of a group as an integer, from -[`LARGEST`] to [`LARGEST`].
#[inline(always)]
fn rounded(value: f32, factor: f32) -> i32 {
    /// Added to a number, rounds it to an integer, ties to even, which is then in the lowest bits.
    const TO_INTEGER: f32 = (3 << 22) as f32;
    let bits = (value * factor + TO_INTEGER).to_bits();
    let integer = bits.wrapping_sub(TO_INTEGER.to_bits()) as i32;
    // A NaN's bits are no integer; what it is does not matter beside a scale of NaN, but it must not overflow.
    integer.clamp(-LARGEST as i32, LARGEST as i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_keeps_15_bits() {
        let values: [f32; GROUP] = std::array::from_fn(|i| (i as f32 * 0.7 - 9.0).powi(3));
        let (factor, scale) = rounding(&values);
        let integers = values.map(|value| rounded(value, factor));
        for (value, integer) in values.iter().zip(integers) {
            let error = f64::from(*value) - f64::from(scale) * f64::from(integer);
            assert!(error.abs() <= 0.5001 * f64::from(scale), "{value}: {error}");
        }
        assert!(integers.contains(&(127 * 128)));
    }

    #[test]
    fn what_cannot_be_rounded_is_nan_and_what_is_nothing_is_zero() {
        let with = |value: f32| {
            let mut values = [1.0; GROUP];
            values[7] = value;
            rounding(&values).1
        };
        for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            assert!(with(value).is_nan());
        }
        assert_eq!(rounding(&[0.0; GROUP]).1, 0.0);
        assert_eq!(rounding(&[-f32::MIN_POSITIVE; GROUP]).1, 0.0);
        assert!(with(f32::MAX).is_finite());
    }
}
