//! A as tiles of bf16, one or more for each of its values.

use half::bf16;

use crate::backend::cpu::gemm::rows::Rows;
use crate::backend::cpu::machine::Machine;
use crate::backend::cpu::quants::GROUP;
use crate::backend::cpu::scratch::{Scratch, arena};
use crate::backend::cpu::simd::{Body, DEPTH, Simd, TILE, Tile, narrow_bf16};
use crate::backend::fault::Fault;

arena!(ARENA);

/// Of [part][batch][row of tiles][step]. Rows and steps that there are not are zeros.
pub struct Activations {
    scratch: Scratch,
    /// Rows of tiles of all matrices.
    row_tiles: usize,
    /// Rows of tiles from one matrix to the next; 0 when all batches share one.
    batch_tiles: usize,
    /// Tiles in a row of them.
    steps: usize,
}

impl Activations {
    /// With as many parts of bf16 as a value is the sum of, rounded.
    pub fn new(machine: &Machine, a: &Rows, k: usize, parts: usize) -> Result<Activations, Fault> {
        let (in_batch, steps) = (a.rows.div_ceil(TILE), k.div_ceil(DEPTH));
        let row_tiles = a.batches.saturating_mul(in_batch);
        let bytes = row_tiles.saturating_mul(parts * steps * size_of::<Tile>());
        let activations = Activations {
            scratch: Scratch::take_for("rounded activations", &ARENA, bytes)?,
            row_tiles,
            batch_tiles: if a.batches > 1 { in_batch } else { 0 },
            steps,
        };
        let part = row_tiles * steps;
        let grain = machine.grain(parts * k * TILE);
        machine.for_ranges(row_tiles, grain, |range| {
            for row_tile in range {
                let (batch, first) = (row_tile / in_batch, row_tile % in_batch * TILE);
                let count = (parts - 1) * part + steps;
                let start = row_tile * steps * size_of::<Tile>();
                let tiles: *mut Tile = activations.scratch.at(start, count);
                for i in 0..TILE {
                    let row = (first + i < a.rows).then(|| a.row(batch, first + i));
                    machine.isa.run(Split {
                        from: row,
                        k,
                        to: tiles.cast::<[u16; DEPTH]>().wrapping_add(i),
                        parts,
                        part: part * TILE,
                    });
                }
            }
        });
        Ok(activations)
    }

    /// `count` tiles of the rows from `row` on, a multiple of [`TILE`], and the steps from `step` on, a multiple of
    /// [`DEPTH`].
    pub fn tiles(
        &self,
        part: usize,
        batch: usize,
        row: usize,
        step: usize,
        count: usize,
    ) -> *const Tile {
        let row_tile = part * self.row_tiles + batch * self.batch_tiles + row / TILE;
        let start = row_tile * self.steps + step / DEPTH;
        self.scratch.at(start * size_of::<Tile>(), count)
    }
}

/// Writes a row's parts; zeros where there is no row.
struct Split {
    from: Option<*const f32>,
    k: usize,
    /// [`DEPTH`] values of the row in a tile.
    to: *mut [u16; DEPTH],
    parts: usize,
    /// Rows of tiles from one part to the next.
    part: usize,
}

impl Body for Split {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        // What `Rows::row` is filled up to.
        const { assert!(DEPTH == GROUP) };
        let Split { from, k, to, .. } = self;
        for (tile, start) in (0..k).step_by(DEPTH).enumerate() {
            let mut rest = [0f32; DEPTH];
            if let Some(from) = from {
                // SAFETY: a row has zeros up to a multiple of as many values.
                rest = unsafe { from.add(start).cast::<[f32; DEPTH]>().read_unaligned() };
            }
            for part in 0..self.parts {
                let mut values = [0u16; DEPTH];
                for i in 0..DEPTH {
                    let rounded = narrow_bf16(rest[i]);
                    values[i] = rounded.to_bits();
                    rest[i] = remainder(rest[i], rounded);
                }
                // SAFETY: `Activations::new` checked the tiles of all parts.
                unsafe { to.add(part * self.part + tile * TILE).write(values) };
            }
        }
    }
}

/// What is left of a value: nothing of one that is not finite.
#[inline(always)]
fn remainder(value: f32, rounded: bf16) -> f32 {
    let rest = value - f32::from_bits(u32::from(rounded.to_bits()) << 16);
    if rest.is_finite() { rest } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_add_up_to_the_value() {
        for value in [1.0, -0.1, 2.718_31, 1e-30, 65504.0, 0.0, 1.000_03] {
            let first = narrow_bf16(value);
            assert_eq!(first, bf16::from_f32(value));
            let rest = remainder(value, first);
            let error = rest - narrow_bf16(rest).to_f32();
            assert!(
                error.abs() <= value.abs() * 2f32.powi(-17),
                "{value}: {error}"
            );
        }
    }

    #[test]
    fn what_is_not_finite_stays_so() {
        for value in [f32::INFINITY, f32::NEG_INFINITY] {
            assert_eq!(narrow_bf16(value).to_f32(), value);
            assert_eq!(remainder(value, narrow_bf16(value)), 0.0);
        }
        for nan in [
            f32::NAN,
            f32::from_bits(0x7fff_ffff),
            f32::from_bits(0xffff_ffff),
        ] {
            assert!(narrow_bf16(nan).is_nan());
            assert_eq!(remainder(nan, narrow_bf16(nan)), 0.0);
        }
    }
}
