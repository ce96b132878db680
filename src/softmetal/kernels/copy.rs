//! `copy_<S>_<D>`.

use std::ops::Range;

use super::super::bindings::args::*;
use super::super::dispatch::{Dispatch, Extent, Fault, View};
use super::super::elements::{GROUP, Readable, Stored, Writable};
use super::super::simd::{Body, Simd};
use super::{ALONE, Machine, grain};

/// Rows are copied in pieces of this many elements, so that one long row is shared between threads too.
const PIECE: usize = 4096;

/// From one type to another.
pub fn copy<S: Readable, D: Writable>(dispatch: &Dispatch, machine: &Machine) -> Result<(), Fault> {
    for_pieces::<S, D>(dispatch, machine, |src, dst, count| {
        machine.isa.run(Convert { src, dst, count });
    })
}

/// Within one type, bit by bit.
pub fn copy_same<T: Stored>(dispatch: &Dispatch, machine: &Machine) -> Result<(), Fault> {
    for_pieces::<T, T>(dispatch, machine, |src, dst, count| {
        // SAFETY: `for_pieces` hands out checked ranges; `copy` allows for an overlap.
        unsafe { std::ptr::copy(src, dst, count) }
    })
}

/// Calls `piece` with (source, destination, count) for pieces that together are the whole operation.
fn for_pieces<S: Stored, D: Stored>(
    dispatch: &Dispatch,
    machine: &Machine,
    piece: impl Fn(*const S, *mut D, usize) + Sync,
) -> Result<(), Fault> {
    let args: copy_args = dispatch.arguments(COPY_ARGS)?;
    let (rows, width) = (args.rows, args.width);
    let src = Extent::rows(rows, args.src_row_stride, width);
    let src: View<S> = dispatch.view(COPY_SRC, "src", src)?;
    let dst = Extent::rows(rows, args.dst_row_stride, width);
    let dst: View<D> = dispatch.view(COPY_DST, "dst", dst)?;
    dispatch.expect_threads([width.into(), rows.into(), 1])?;

    let width = width as usize;
    let pieces_per_row = width.div_ceil(PIECE);
    let separable = dst.writes_once() && (dst.shares_rows_with(&src) || dst.is_apart_from(&src));
    let grain = if separable {
        grain(4 * width.min(PIECE))
    } else {
        ALONE
    };
    machine.for_ranges(
        rows as usize * pieces_per_row,
        grain,
        |pieces: Range<usize>| {
            for index in pieces {
                let (row, first) = (index / pieces_per_row, index % pieces_per_row * PIECE);
                let count = PIECE.min(width - first);
                let src = src.at(row * args.src_row_stride as usize + first, count);
                let dst = dst.at(row * args.dst_row_stride as usize + first, count);
                piece(src, dst, count);
            }
        },
    );
    Ok(())
}

struct Convert<S, D> {
    src: *const S,
    dst: *mut D,
    count: usize,
}

impl<S: Readable, D: Writable> Body for Convert<S, D> {
    type Output = ();

    #[inline(always)]
    fn run<I: Simd>(self, simd: I) {
        let Convert { src, dst, count } = self;
        // SAFETY: `for_pieces` checked `count` elements of both.
        unsafe {
            for group in 0..count / GROUP {
                for offset in (0..GROUP).step_by(I::LANES) {
                    let vector = S::vector(simd, src, group, offset);
                    D::store(simd, vector, dst.add(group * GROUP + offset));
                }
            }
            for index in count - count % GROUP..count {
                dst.add(index).write(D::from_f32(S::element(src, index)));
            }
        }
    }
}
