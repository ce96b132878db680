//! `add`, `silu_mul` and `gelu_mul`.

use std::marker::PhantomData;

use super::exponential::exp;
use crate::backend::cpu::bindings::{Dispatch, Extent, View};
use crate::backend::cpu::machine::Machine;
use crate::backend::cpu::simd::{Body, Simd};
use crate::backend::fault::Fault;
use crate::backend::ffi::args::*;

pub fn add(dispatch: &Dispatch, machine: &Machine) -> Result<(), Fault> {
    for_elements(dispatch, machine, 4, |a, b, out, count| {
        machine.isa.run(Add { a, b, out, count });
    })
}

pub fn silu_mul(dispatch: &Dispatch, machine: &Machine) -> Result<(), Fault> {
    gated::<Silu>(dispatch, machine)
}

pub fn gelu_mul(dispatch: &Dispatch, machine: &Machine) -> Result<(), Fault> {
    gated::<Gelu>(dispatch, machine)
}

fn gated<G: Gate>(dispatch: &Dispatch, machine: &Machine) -> Result<(), Fault> {
    for_elements(dispatch, machine, 16, |a, b, out, count| {
        let gate = PhantomData::<G>;
        machine.isa.run(Gated {
            a,
            b,
            out,
            count,
            gate,
        });
    })
}

/// Calls `body` with (a, b, out, count) for ranges that together are the whole operation.
pub(super) fn for_elements(
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
    dispatch.expect_points([args.count, 1, 1])?;

    let separable = [&a, &b]
        .into_iter()
        .all(|input| out.aliases_rows_of(input) || out.is_apart_from(input));
    if !separable {
        // One after the other, each as the ones before have left it.
        for i in 0..args.count as usize {
            body(a.at(i, 1), b.at(i, 1), out.at(i, 1), 1);
        }
        return Ok(());
    }
    machine.for_ranges(args.count as usize, machine.grain(work), |range| {
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

/// What the gate of a gated linear unit is given to.
trait Gate {
    fn of<S: Simd>(gate: f32) -> f32;
}

struct Silu;

impl Gate for Silu {
    #[inline(always)]
    fn of<S: Simd>(gate: f32) -> f32 {
        gate / (1.0 + exp::<S>(-gate))
    }
}

/// GELU in its tanh form, of which `(1 + tanh(u)) / 2 = 1 / (1 + exp(-2u))`.
struct Gelu;

impl Gelu {
    /// 2 sqrt(2 / π) (x + 0.044715 x³).
    #[inline(always)]
    fn twice(x: f32) -> f32 {
        1.595_769 * (x + 0.044_715 * x * x * x)
    }
}

impl Gate for Gelu {
    #[inline(always)]
    fn of<S: Simd>(gate: f32) -> f32 {
        gate / (1.0 + exp::<S>(-Gelu::twice(gate)))
    }
}

/// `out = G(a) · b`.
struct Gated<G> {
    a: *const f32,
    b: *const f32,
    out: *mut f32,
    count: usize,
    gate: PhantomData<G>,
}

impl<G: Gate> Body for Gated<G> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        /// What is computed between reading and writing, so that a compiler need not fear that `out` is `a` or `b`.
        const BLOCK: usize = 64;
        let (mut gates, mut ups) = ([0f32; BLOCK], [0f32; BLOCK]);
        for start in (0..self.count).step_by(BLOCK) {
            let count = BLOCK.min(self.count - start);
            // SAFETY: `for_elements` checked `count` elements of each.
            unsafe {
                self.a.add(start).copy_to(gates.as_mut_ptr(), count);
                self.b.add(start).copy_to(ups.as_mut_ptr(), count);
            }
            for (gate, up) in gates.iter_mut().zip(&ups) {
                *gate = G::of::<S>(*gate) * up;
            }
            // SAFETY: as above; the block is of this thread's own.
            unsafe { self.out.add(start).copy_from(gates.as_ptr(), count) };
        }
    }
}

#[cfg(test)]
pub mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::backend::cpu::testing::*;

    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Place {
        Own,
        OverA,
        OverB,
    }

    /// `x / 2 · (1 + tanh(u))`, without the cancellation where `tanh(u)` is nearly -1.
    fn gelu(x: f64) -> f64 {
        let u = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3));
        x / (1.0 + (-2.0 * u).exp())
    }

    /// Of rounding, relative to the result. What GELU's exponential is given has seven roundings, and an error of it
    /// is a relative one of the result.
    fn roundings(name: &str, a: f32) -> f64 {
        match name {
            "gelu_mul" => 8.0 + 7.0 * f64::from(Gelu::twice(a).abs()),
            _ => 4.0,
        }
    }

    fn check(name: &'static str, count: usize, place: Place, formula: fn(f64, f64) -> f64) {
        let mut numbers = Numbers::new(count as u64);
        let a: Vec<f32> = numbers.vec::<f32>(count).iter().map(|a| a * 30.0).collect();
        let b: Vec<f32> = numbers.vec(count);
        let args = elementwise_args {
            count: count as u64,
        };
        let run = |on: Executor| {
            // One more than is asked for: it must stay as it is.
            let [mut a, mut b] = [&a, &b].map(|x| [&x[..], &[f32::POISON]].concat());
            let mut out = vec![f32::POISON; count + 1];
            let call = Call::new(name)
                .covering([count, 1, 1])
                .bind(ELEMENTWISE_A, &mut a)
                .bind(ELEMENTWISE_B, &mut b);
            let call = match place {
                Place::Own => call.bind(ELEMENTWISE_OUT, &mut out),
                Place::OverA => call.bind_same(ELEMENTWISE_OUT, ELEMENTWISE_A),
                Place::OverB => call.bind_same(ELEMENTWISE_OUT, ELEMENTWISE_B),
            };
            call.arguments(ELEMENTWISE_ARGS, &args)
                .run_on(on)
                .expect("good arguments");
            match place {
                Place::Own => out,
                Place::OverA => a,
                Place::OverB => b,
            }
        };
        on_every_executor(run, |out| {
            for i in 0..count {
                let expected = formula(a[i].into(), b[i].into());
                // An exponential that overflows makes 0 of what is left.
                let least = f64::from(f32::MIN_POSITIVE) * f64::from(a[i] * b[i]).abs().max(1.0);
                let tolerance = roundings(name, a[i]) * f32::ROUNDING * expected.abs() + least;
                assert_close(
                    out[i].into(),
                    expected,
                    tolerance,
                    format_args!("{name} {place:?} {i}"),
                );
            }
            assert_untouched(out, std::iter::once(0..count));
        });
    }

    pub fn at_edge(name: &'static str, edge: usize) {
        for place in [Place::Own, Place::OverA, Place::OverB] {
            check_one(name, edge, place);
        }
    }

    fn check_one(name: &'static str, count: usize, place: Place) {
        match name {
            "add" => check(name, count, place, |a, b| a + b),
            "silu_mul" => check(name, count, place, |a, b| a / (1.0 + (-a).exp()) * b),
            "gelu_mul" => check(name, count, place, |a, b| gelu(a) * b),
            _ => panic!("{name} is of another family"),
        }
    }

    fn check_all(count: usize, place: Place) {
        for name in ["add", "silu_mul", "gelu_mul"] {
            check_one(name, count, place);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn any_count(count in 1usize..5000) {
            check_all(count, Place::Own);
        }
    }

    #[test]
    fn a_shifted_overlap_has_the_outcome_of_one_thread() {
        let args = elementwise_args { count: 1000 };
        let run = |machine: &Machine| {
            let (mut a, mut b) = (vec![1f32; 1001], vec![1f32; 1000]);
            let call = Call::new("silu_mul")
                .bind(ELEMENTWISE_A, &mut a)
                .bind(ELEMENTWISE_B, &mut b);
            let call = call.bind_offset(ELEMENTWISE_OUT, ELEMENTWISE_A, 4);
            call.arguments(ELEMENTWISE_ARGS, &args)
                .run(machine)
                .expect("good arguments");
            a
        };
        on_every_machine(run, |out| assert!(out[1000] < 1e-3));
    }

    #[test]
    fn too_many_elements_are_a_fault() {
        let run = |count: u64, lengths: [usize; 3]| {
            let args = elementwise_args { count };
            let [mut a, mut b, mut out] = lengths.map(|length| vec![0f32; length]);
            let call = Call::new("add").bind(ELEMENTWISE_A, &mut a);
            let call = call
                .bind(ELEMENTWISE_B, &mut b)
                .bind(ELEMENTWISE_OUT, &mut out);
            fault(call.arguments(ELEMENTWISE_ARGS, &args).run(&machines()[0])).0
        };
        assert_eq!(run(5, [5, 5, 5]), "ok");
        for short in [[4, 5, 5], [5, 4, 5], [5, 5, 4]] {
            assert_eq!(run(5, short), "out of bounds");
        }
        assert_eq!(run(u64::MAX, [5, 5, 5]), "out of bounds");
        assert_eq!(run(u64::MAX / 4 + 2, [5, 5, 5]), "out of bounds"); // whose bytes wrap around to 4
    }
}
