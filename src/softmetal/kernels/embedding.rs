//! `embedding_<B>`.

use super::super::bindings::args::*;
use super::super::dispatch::{Dispatch, Extent, Fault, View};
use super::super::elements::Readable;
use super::super::simd::{Body, Simd};
use super::{ALONE, Machine, grain};

pub fn embedding<B: Readable>(dispatch: &Dispatch, machine: &Machine) -> Result<(), Fault> {
    let args: embedding_args = dispatch.arguments(EMBEDDING_ARGS)?;
    let (rows, width) = (args.rows, args.width);
    let table = Extent::rows(args.vocab, args.table_row_stride, width);
    let table: View<B> = dispatch.view(EMBEDDING_TABLE, "table", table)?;
    let ids: View<u32> = dispatch.view(EMBEDDING_IDS, "ids", Extent::packed(rows))?;
    let out = Extent::rows(rows, args.out_row_stride, width);
    let out: View<f32> = dispatch.view(EMBEDDING_OUT, "out", out)?;
    dispatch.expect_threads([width.into(), rows.into(), 1])?;

    let width = width as usize;
    let separable = out.writes_once() && out.is_apart_from(&table) && out.is_apart_from(&ids);
    let grain = if separable { grain(4 * width) } else { ALONE };
    machine.for_ranges(rows as usize, grain, |rows| {
        for row in rows {
            // SAFETY: `at` checked the place.
            let id = unsafe { ids.at(row, 1).read() };
            let out = out.at(row * args.out_row_stride as usize, width);
            if id < args.vocab {
                let entry = table.at(id as usize * args.table_row_stride as usize, width);
                machine.isa.run(Widen { entry, out, width });
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
        // SAFETY: `embedding` checked `width` elements of both.
        unsafe { B::widen(simd, self.entry, self.out, self.width) }
    }
}
