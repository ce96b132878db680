//! `add` and `silu_mul`.

use super::super::bindings::args::*;
use super::super::dispatch::{Dispatch, Extent, Fault, View};
use super::super::simd::{Body, Simd};
use super::{ALONE, Machine, grain};

pub fn add(dispatch: &Dispatch, machine: &Machine) -> Result<(), Fault> {
    for_elements(dispatch, machine, 4, |a, b, out, count| {
        machine.isa.run(Add { a, b, out, count });
    })
}

pub fn silu_mul(dispatch: &Dispatch, machine: &Machine) -> Result<(), Fault> {
    for_elements(dispatch, machine, 16, |a, b, out, count| {
        for i in 0..count {
            // SAFETY: `for_elements` hands out checked ranges.
            unsafe {
                let gate = a.add(i).read();
                let silu = gate / (1.0 + (-gate).exp());
                out.add(i).write(silu * b.add(i).read());
            }
        }
    })
}

/// Calls `body` with (a, b, out, count) for ranges that together are the whole operation.
fn for_elements(
    dispatch: &Dispatch,
    machine: &Machine,
    work: usize,
    body: impl Fn(*const f32, *const f32, *mut f32, usize) + Sync,
) -> Result<(), Fault> {
    let args: elementwise_args = dispatch.arguments(ELEMENTWISE_ARGS)?;
    let all = Extent::packed(args.count);
    let a: View<f32> = dispatch.view(ELEMENTWISE_A, "a", all)?;
    let b: View<f32> = dispatch.view(ELEMENTWISE_B, "b", all)?;
    let out: View<f32> = dispatch.view(ELEMENTWISE_OUT, "out", all)?;
    dispatch.expect_threads([args.count, 1, 1])?;

    let separable = [&a, &b]
        .into_iter()
        .all(|input| out.shares_rows_with(input) || out.is_apart_from(input));
    let grain = if separable { grain(work) } else { ALONE };
    machine.for_ranges(args.count as usize, grain, |range| {
        let (first, count) = (range.start, range.len());
        body(
            a.at(first, count),
            b.at(first, count),
            out.at(first, count),
            count,
        );
    });
    Ok(())
}

struct Add {
    a: *const f32,
    b: *const f32,
    out: *mut f32,
    count: usize,
}

impl Body for Add {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Add { a, b, out, count } = self;
        let whole = count - count % S::LANES;
        // SAFETY: `for_elements` checked `count` elements of each.
        unsafe {
            for i in (0..whole).step_by(S::LANES) {
                simd.store(
                    simd.add(simd.load(a.add(i)), simd.load(b.add(i))),
                    out.add(i),
                );
            }
            for i in whole..count {
                out.add(i).write(a.add(i).read() + b.add(i).read());
            }
        }
    }
}
