//! `embedding_<B>`.

use std::mem::MaybeUninit;

use crate::backend::cpu::bindings::{Dispatch, Extent, View};
use crate::backend::cpu::machine::{ALONE, Machine};
use crate::backend::cpu::quants::packing::unpack;
use crate::backend::cpu::quants::{Interleaved, Readable, X16_ROWS};
use crate::backend::cpu::simd::{Body, Simd};
use crate::backend::fault::Fault;
use crate::backend::ffi::args::*;

pub fn embedding<B: Readable>(dispatch: &Dispatch, machine: &Machine) -> Result<(), Fault> {
    for_entries::<B>(dispatch, machine, |table, start, out, width| {
        let entry = table.at(start, width);
        machine.isa.run(Widen { entry, out, width });
    })
}

/// The same for a table of which some rows lie in x16 panels.
pub fn embedding_x16<B: Readable + Interleaved>(
    dispatch: &Dispatch,
    machine: &Machine,
) -> Result<(), Fault> {
    /// Blocks that are unpacked together.
    const BLOCKS: usize = 32;
    let x16_rows = dispatch.x16_rows();
    for_entries::<B>(dispatch, machine, |table, start, out, width| {
        let row = start / width;
        if row as u64 >= x16_rows {
            let entry = table.at(start, width);
            machine.isa.run(Widen { entry, out, width });
            return;
        }
        let panel = table.at((row - row % X16_ROWS) * width, X16_ROWS * width);
        let mut entry = [const { MaybeUninit::<B>::uninit() }; BLOCKS];
        let blocks = width / B::ELEMENTS;
        for first in (0..blocks).step_by(BLOCKS) {
            let count = BLOCKS.min(blocks - first);
            let to = entry.as_mut_ptr();
            // SAFETY: `at` checked the panel, which has these blocks; there is room for them.
            unsafe { unpack::<B>(panel.cast(), row % X16_ROWS, first, count, to.cast()) };
            machine.isa.run(Widen {
                entry: to.cast_const().cast::<B>(),
                out: out.wrapping_add(first * B::ELEMENTS),
                width: count * B::ELEMENTS,
            });
        }
    })
}

/// Calls `widen` with the table, the element at which a row of it starts, where it goes as f32, and its width.
fn for_entries<B: Readable>(
    dispatch: &Dispatch,
    machine: &Machine,
    widen: impl Fn(&View<B>, usize, *mut f32, usize) + Sync,
) -> Result<(), Fault> {
    let args: embedding_args = dispatch.arguments(EMBEDDING_ARGS)?;
    let (rows, width) = (args.rows, args.width);
    let table = Extent::rows(args.vocab, args.table_row_stride, width);
    let table: View<B> = dispatch.view(EMBEDDING_TABLE, "table", table)?;
    let ids: View<u32> = dispatch.view(EMBEDDING_IDS, "ids", Extent::packed(rows))?;
    let out = Extent::rows(rows, args.out_row_stride, width);
    let out: View<f32> = dispatch.view(EMBEDDING_OUT, "out", out)?;
    dispatch.expect_points([width.into(), rows.into(), 1])?;
    if dispatch.x16_rows() > 0 && args.table_row_stride != u64::from(width) {
        return Err(dispatch.invalid("a packed table has no gaps between its rows"));
    }

    let width = width as usize;
    let separable = out.writes_once() && out.is_apart_from(&table) && out.is_apart_from(&ids);
    let grain = if separable {
        machine.grain(4 * width)
    } else {
        ALONE
    };
    machine.for_ranges(rows as usize, grain, |rows| {
        for row in rows {
            // SAFETY: `at` checked the place.
            let id = unsafe { ids.at(row, 1).read() };
            let out = out.at(row * args.out_row_stride as usize, width);
            if id < args.vocab {
                widen(
                    &table,
                    id as usize * args.table_row_stride as usize,
                    out,
                    width,
                );
                if args.scale != 1.0 {
                    // SAFETY: `at` checked `width` elements, and no other range has this row.
                    let out = unsafe { std::slice::from_raw_parts_mut(out, width) };
                    out.iter_mut().for_each(|value| *value *= args.scale);
                }
            } else {
                // SAFETY: `at` checked `width` elements.
                (0..width).for_each(|j| unsafe { out.add(j).write(f32::NAN) });
            }
        }
    });
    Ok(())
}

struct Widen<B> {
    entry: *const B,
    out: *mut f32,
    width: usize,
}

impl<B: Readable> Body for Widen<B> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        // SAFETY: whoever made this checked `width` elements of both.
        unsafe { B::widen(simd, self.entry, self.out, self.width) }
    }
}

#[cfg(test)]
pub mod tests {
    use half::{bf16, f16};
    use proptest::prelude::*;

    use super::*;
    use crate::backend::cpu::quants::packing::pack;
    use crate::backend::cpu::quants::*;
    use crate::backend::cpu::testing::*;
    use crate::tables::block_dtypes;

    fn check<B: Sample>(name: &'static str, width: usize, gap: usize) {
        const VOCAB: usize = 7;
        let stride = (width + gap).next_multiple_of(B::ELEMENTS);
        let out_stride = width + gap;
        let table: Vec<B> = Numbers::new(width as u64).vec(VOCAB * stride);
        let ids = [6, 0, 3, 3, 7, u32::MAX, 1];
        let args = embedding_args {
            table_row_stride: stride as u64,
            out_row_stride: out_stride as u64,
            rows: ids.len() as u32,
            width: width as u32,
            vocab: VOCAB as u32,
            scale: 1.0,
        };
        let run = |on: Executor| {
            let (mut table, mut ids) = (table.clone(), ids);
            let mut out = vec![f32::POISON; ids.len() * out_stride];
            Call::new(name)
                .covering([width, ids.len(), 1])
                .bind(EMBEDDING_TABLE, &mut table)
                .bind(EMBEDDING_IDS, &mut ids)
                .bind(EMBEDDING_OUT, &mut out)
                .arguments(EMBEDDING_ARGS, &args)
                .run_on(on)
                .expect("good arguments");
            out
        };
        on_every_executor(run, |out| {
            for (row, id) in ids.iter().enumerate() {
                for j in 0..width {
                    let value = out[row * out_stride + j];
                    match usize::try_from(*id) {
                        Ok(id) if id < VOCAB => {
                            assert_eq!(f64::from(value), B::value(&table, id * stride + j));
                        }
                        _ => assert!(value.is_nan() && value.bits() != f32::POISON.bits()),
                    }
                }
            }
            assert_untouched(out, row_ranges(ids.len(), out_stride, width));
        });
    }

    /// A table of which all rows but the last, that fill no panel, lie in x16 panels, gives the rows of the plain one.
    fn check_x16<B: Sample + Interleaved>(name: &'static str, blocks: usize) {
        const VOCAB: usize = 2 * X16_ROWS + 5;
        let width = blocks * B::ELEMENTS;
        let table: Vec<B> = Numbers::new(width as u64).vec(VOCAB * width);
        let mut packed = table.clone();
        for panel in 0..VOCAB / X16_ROWS {
            let start = panel * X16_ROWS * blocks;
            // SAFETY: 16 rows of both tables.
            unsafe {
                let to = packed.as_mut_ptr().add(start);
                pack::<B>(table.as_ptr().add(start).cast(), to.cast(), blocks);
            }
        }
        let ids = [0, VOCAB as u32 - 1, 17, 31, 32, 5, VOCAB as u32];
        let args = embedding_args {
            table_row_stride: width as u64,
            out_row_stride: width as u64,
            rows: ids.len() as u32,
            width: width as u32,
            vocab: VOCAB as u32,
            scale: 2.0,
        };
        let run = |machine: &Machine, table: &[B], x16_rows: usize| {
            let (mut table, mut ids) = (table.to_vec(), ids);
            let mut out = vec![0f32; ids.len() * width];
            let call = Call::new(name)
                .covering([width, ids.len(), 1])
                .bind(EMBEDDING_TABLE, &mut table)
                .bind(EMBEDDING_IDS, &mut ids)
                .bind(EMBEDDING_OUT, &mut out);
            let call = call.x16_rows(x16_rows).arguments(EMBEDDING_ARGS, &args);
            call.run(machine).expect("good arguments");
            out.into_iter().map(f32::to_bits).collect::<Vec<_>>()
        };
        for machine in machines() {
            let expected = run(machine, &table, 0);
            let rows = VOCAB - VOCAB % X16_ROWS;
            assert_eq!(run(machine, &packed, rows), expected, "{name} {blocks}");
        }
    }

    #[test]
    fn rows_of_x16_panels() {
        for blocks in [1, 3, 32, 33, 70] {
            check_x16::<f16>("embedding_f16", blocks);
            check_x16::<bf16>("embedding_bf16", blocks);
            check_x16::<BlockQ8_0>("embedding_q8_0", blocks);
            check_x16::<BlockQ4_0>("embedding_q4_0", blocks);
            check_x16::<BlockQ4_1>("embedding_q4_1", blocks);
            check_x16::<BlockQ5_0>("embedding_q5_0", blocks);
            check_x16::<BlockQ5_1>("embedding_q5_1", blocks);
            check_x16::<BlockQ2K>("embedding_q2_k", blocks);
            check_x16::<BlockQ3K>("embedding_q3_k", blocks);
            check_x16::<BlockQ4K>("embedding_q4_k", blocks);
            check_x16::<BlockQ5K>("embedding_q5_k", blocks);
            check_x16::<BlockQ6K>("embedding_q6_k", blocks);
            check_x16::<BlockIq4Nl>("embedding_iq4_nl", blocks);
            check_x16::<BlockIq4Xs>("embedding_iq4_xs", blocks);
            check_x16::<BlockMxfp4>("embedding_mxfp4", blocks);
        }
    }

    pub fn at_edge(name: &'static str, edge: usize) {
        macro_rules! check_of_rows {
            ($($variant:ident { block $block:ident, name $name:literal, $($rest:tt)* })*) => {
                match name {
                    "embedding_f32" => check::<f32>,
                    "embedding_f16" => check::<f16>,
                    "embedding_bf16" => check::<bf16>,
                    $(concat!("embedding_", $name) => check::<$block>,)*
                    _ => panic!("{name} is of another family"),
                }
            };
        }
        let check = block_dtypes!(check_of_rows);
        check(name, edge, 0);
        check(name, edge, 5);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]
        #[test]
        fn any_shape(width in 1usize..600, gap in 0usize..9) {
            check::<bf16>("embedding_bf16", width, gap);
            check::<BlockQ6K>("embedding_q6_k", width, gap);
        }
    }

    #[test]
    fn what_lies_outside_is_a_fault() {
        let args = embedding_args {
            table_row_stride: 32,
            out_row_stride: 32,
            rows: 2,
            width: 32,
            vocab: 3,
            scale: 1.0,
        };
        let run = |args: embedding_args, blocks: usize, ids: usize, out: usize| {
            let mut table = Numbers::new(1).vec::<BlockQ8_0>(blocks * 32);
            let (mut ids, mut out) = (vec![0u32; ids], vec![0f32; out]);
            let call = Call::new("embedding_q8_0").bind(EMBEDDING_TABLE, &mut table);
            let call = call
                .bind(EMBEDDING_IDS, &mut ids)
                .bind(EMBEDDING_OUT, &mut out);
            fault(call.arguments(EMBEDDING_ARGS, &args).run(&machines()[0])).0
        };
        assert_eq!(run(args, 3, 2, 64), "ok");
        assert_eq!(run(args, 2, 2, 64), "out of bounds");
        assert_eq!(run(args, 3, 1, 64), "out of bounds");
        assert_eq!(run(args, 3, 2, 63), "out of bounds");
        assert_eq!(
            run(
                embedding_args {
                    table_row_stride: 33,
                    ..args
                },
                9,
                2,
                64
            ),
            "invalid"
        );
    }
}
