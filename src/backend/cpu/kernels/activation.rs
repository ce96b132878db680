//! `relu`, `sigmoid` and `tanh`.

use std::marker::PhantomData;

use super::exponential;
use crate::backend::cpu::bindings::{Dispatch, Extent, View};
use crate::backend::cpu::machine::Machine;
use crate::backend::cpu::simd::{Body, Simd};
use crate::backend::fault::Fault;
use crate::backend::ffi::args::*;

pub fn relu(dispatch: &Dispatch, machine: &Machine) -> Result<(), Fault> {
    for_elements::<Relu>(dispatch, machine, 2)
}

pub fn sigmoid(dispatch: &Dispatch, machine: &Machine) -> Result<(), Fault> {
    for_elements::<Sigmoid>(dispatch, machine, 16)
}

pub fn tanh(dispatch: &Dispatch, machine: &Machine) -> Result<(), Fault> {
    for_elements::<Tanh>(dispatch, machine, 16)
}

trait Function: Sync {
    fn of<S: Simd>(x: f32) -> f32;
}

struct Relu;

impl Function for Relu {
    #[inline(always)]
    fn of<S: Simd>(x: f32) -> f32 {
        if x < 0.0 { 0.0 } else { x }
    }
}

struct Sigmoid;

impl Function for Sigmoid {
    #[inline(always)]
    fn of<S: Simd>(x: f32) -> f32 {
        1.0 / (1.0 + exponential::exp::<S>(-x))
    }
}

struct Tanh;

impl Function for Tanh {
    #[inline(always)]
    fn of<S: Simd>(x: f32) -> f32 {
        exponential::tanh::<S>(x)
    }
}

fn for_elements<F: Function>(
    dispatch: &Dispatch,
    machine: &Machine,
    work: usize,
) -> Result<(), Fault> {
    let args: activation_args = dispatch.arguments(ACTIVATION_ARGS)?;
    let all = Extent::packed(args.count);
    let x: View<f32> = dispatch.view(ACTIVATION_X, "x", all)?;
    let out: View<f32> = dispatch.view(ACTIVATION_OUT, "out", all)?;
    dispatch.expect_points([args.count, 1, 1])?;

    let apply = |first: usize, count: usize| {
        machine.isa.run(Apply {
            x: x.at(first, count),
            out: out.at(first, count),
            count,
            scale: args.scale,
            function: PhantomData::<F>,
        });
    };
    let count = args.count as usize;
    if !(out.aliases_rows_of(&x) || out.is_apart_from(&x)) {
        // One after the other, each as the ones before have left it.
        (0..count).for_each(|i| apply(i, 1));
        return Ok(());
    }
    machine.for_ranges(count, machine.grain(work), |range| {
        apply(range.start, range.len());
    });
    Ok(())
}

struct Apply<F> {
    x: *const f32,
    out: *mut f32,
    count: usize,
    scale: f32,
    function: PhantomData<F>,
}

impl<F: Function> Body for Apply<F> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        /// What is computed between reading and writing, so that a compiler need not fear that `out` is `x`.
        const BLOCK: usize = 64;
        let mut values = [0f32; BLOCK];
        for start in (0..self.count).step_by(BLOCK) {
            let count = BLOCK.min(self.count - start);
            // SAFETY: `for_elements` checked `count` elements of both.
            unsafe { self.x.add(start).copy_to(values.as_mut_ptr(), count) };
            for value in &mut values {
                *value = self.scale * F::of::<S>(*value / self.scale);
            }
            // SAFETY: as above; the block is of this thread's own.
            unsafe { self.out.add(start).copy_from(values.as_ptr(), count) };
        }
    }
}

#[cfg(test)]
pub mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::backend::cpu::testing::*;

    fn run(name: &'static str, x: &[f32], scale: f32, in_place: bool, on: Executor) -> Vec<f32> {
        let args = activation_args {
            count: x.len() as u64,
            scale,
            reserved: 0,
        };
        // One more than is asked for: it must stay as it is.
        let (mut x, mut out) = ([x, &[f32::POISON]].concat(), vec![f32::POISON; x.len() + 1]);
        let call = Call::new(name).covering([x.len() - 1, 1, 1]);
        let call = call.bind(ACTIVATION_X, &mut x);
        let call = match in_place {
            true => call.bind_same(ACTIVATION_OUT, ACTIVATION_X),
            false => call.bind(ACTIVATION_OUT, &mut out),
        };
        call.arguments(ACTIVATION_ARGS, &args)
            .run_on(on)
            .expect("good arguments");
        if in_place { x } else { out }
    }

    fn check(name: &'static str, count: usize, scale: f32, in_place: bool) {
        let x: Vec<f32> = Numbers::new(count as u64).vec(count);
        let x: Vec<f32> = x.iter().map(|x| x * 30.0).collect();
        let function: fn(f64) -> f64 = match name {
            "relu" => |x| x.max(0.0),
            "sigmoid" => |x| 1.0 / (1.0 + (-x).exp()),
            "tanh" => f64::tanh,
            _ => panic!("{name} is of another family"),
        };
        on_every_executor(
            |on| run(name, &x, scale, in_place, on),
            |out| {
                for (x, out) in x.iter().zip(out) {
                    let scale = f64::from(scale);
                    let quotient = f64::from(*x) / scale;
                    let expected = scale * function(quotient);
                    // The rounding of the quotient, times |x · f'(x) / f(x)|, which is at most 1 but for sigmoid.
                    let condition = match name {
                        "sigmoid" => quotient.abs() * (1.0 - function(quotient)),
                        _ => 1.0,
                    };
                    // Below the smallest normal number nothing is promised.
                    let least = scale * f64::from(f32::MIN_POSITIVE);
                    let tolerance = (5.0 + condition) * f32::ROUNDING * expected.abs() + least;
                    assert_close(
                        (*out).into(),
                        expected,
                        tolerance,
                        format_args!("{name} {x}"),
                    );
                }
                assert_untouched(out, std::iter::once(0..count));
            },
        );
    }

    pub fn at_edge(name: &'static str, edge: usize) {
        check(name, edge, 1.0, false);
        check(name, edge, 30.0, true);
    }

    /// The quotients are large, and so is what their rounding does to an exponential.
    #[test]
    fn small_scales() {
        for name in ["relu", "sigmoid", "tanh"] {
            check(name, 1000, 0.1, false);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn any_count(count in 1usize..5000, scale in 0.1f32..100.0, in_place: bool) {
            for name in ["relu", "sigmoid", "tanh"] {
                check(name, count, scale, in_place);
            }
        }
    }

    #[test]
    fn the_ends_of_the_line() {
        let x = [f32::NEG_INFINITY, -0.0, f32::INFINITY, f32::NAN];
        let ends = |of: &dyn Fn(&'static str) -> Vec<f32>| {
            assert_eq!(of("relu")[..3], [0.0, 0.0, f32::INFINITY]);
            assert_eq!(of("sigmoid")[..3], [0.0, 0.5, 1.0]);
            assert_eq!(of("tanh")[..3], [-1.0, 0.0, 1.0]);
            for name in ["relu", "sigmoid", "tanh"] {
                assert!(of(name)[3].is_nan());
            }
        };
        ends(&|name| run(name, &x, 1.0, false, Executor::Native(&machines()[0])));
        for (order, validate) in METAL {
            ends(&|name| run(name, &x, 1.0, false, Executor::Metal(order, validate)));
        }
    }
}
