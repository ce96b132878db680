//! `relu_backward`, `sigmoid_backward` and `tanh_backward`.

use std::marker::PhantomData;

use super::elementwise::for_elements;
use crate::backend::cpu::bindings::Dispatch;
use crate::backend::cpu::machine::Machine;
use crate::backend::cpu::simd::{Body, Simd};
use crate::backend::fault::Fault;

pub fn relu_backward(dispatch: &Dispatch, machine: &Machine) -> Result<(), Fault> {
    backward::<Relu>(dispatch, machine)
}

pub fn sigmoid_backward(dispatch: &Dispatch, machine: &Machine) -> Result<(), Fault> {
    backward::<Sigmoid>(dispatch, machine)
}

pub fn tanh_backward(dispatch: &Dispatch, machine: &Machine) -> Result<(), Fault> {
    backward::<Tanh>(dispatch, machine)
}

fn backward<F: Derivative>(dispatch: &Dispatch, machine: &Machine) -> Result<(), Fault> {
    for_elements(dispatch, machine, 4, |y, gradient, out, count| {
        let function = PhantomData::<F>;
        machine.isa.run(Backward {
            y,
            gradient,
            out,
            count,
            function,
        });
    })
}

/// The gradient of a function's input, from its output and the gradient of that.
trait Derivative {
    fn of(y: f32, gradient: f32) -> f32;
}

struct Relu;

impl Derivative for Relu {
    #[inline(always)]
    fn of(y: f32, gradient: f32) -> f32 {
        match y {
            _ if y <= 0.0 => 0.0,
            _ if y.is_nan() => y,
            _ => gradient,
        }
    }
}

struct Sigmoid;

impl Derivative for Sigmoid {
    #[inline(always)]
    fn of(y: f32, gradient: f32) -> f32 {
        gradient * (y * (1.0 - y))
    }
}

struct Tanh;

impl Derivative for Tanh {
    /// The product, and not `1 - y²`, which is all rounding error where |y| is nearly 1.
    #[inline(always)]
    fn of(y: f32, gradient: f32) -> f32 {
        gradient * ((1.0 - y) * (1.0 + y))
    }
}

struct Backward<F> {
    y: *const f32,
    gradient: *const f32,
    out: *mut f32,
    count: usize,
    function: PhantomData<F>,
}

impl<F: Derivative> Body for Backward<F> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        /// What is computed between reading and writing, so that a compiler need not fear that `out` is an input.
        const BLOCK: usize = 64;
        let whole = self.count - self.count % BLOCK;
        // SAFETY: `for_elements` checked `count` elements of each.
        unsafe {
            for start in (0..whole).step_by(BLOCK) {
                let ys = self.y.add(start).cast::<[f32; BLOCK]>().read();
                let mut block = self.gradient.add(start).cast::<[f32; BLOCK]>().read();
                for (gradient, y) in block.iter_mut().zip(&ys) {
                    *gradient = F::of(*y, *gradient);
                }
                self.out.add(start).cast::<[f32; BLOCK]>().write(block);
            }
            for i in whole..self.count {
                let gradient = F::of(self.y.add(i).read(), self.gradient.add(i).read());
                self.out.add(i).write(gradient);
            }
        }
    }
}

#[cfg(test)]
pub mod tests {
    use proptest::prelude::*;

    use crate::backend::cpu::testing::*;
    use crate::backend::ffi::args::*;

    /// The derivative of a function, of its output.
    fn derivative(name: &str, y: f64) -> f64 {
        match name {
            "relu_backward" => f64::from(u8::from(y > 0.0)),
            "sigmoid_backward" => y * (1.0 - y),
            "tanh_backward" => 1.0 - y * y,
            _ => panic!("{name} is of another family"),
        }
    }

    fn run(
        name: &'static str,
        y: &[f32],
        gradient: &[f32],
        over: Option<u32>,
        on: Executor,
    ) -> Vec<f32> {
        let args = elementwise_args {
            count: y.len() as u64,
        };
        // One more than is asked for: it must stay as it is.
        let [mut y, mut gradient] = [y, gradient].map(|x| [x, &[f32::POISON]].concat());
        let mut out = vec![f32::POISON; y.len()];
        let call = Call::new(name)
            .covering([y.len() - 1, 1, 1])
            .bind(ELEMENTWISE_A, &mut y)
            .bind(ELEMENTWISE_B, &mut gradient);
        let call = match over {
            None => call.bind(ELEMENTWISE_OUT, &mut out),
            Some(input) => call.bind_same(ELEMENTWISE_OUT, input),
        };
        call.arguments(ELEMENTWISE_ARGS, &args)
            .run_on(on)
            .expect("good arguments");
        match over {
            None => out,
            Some(ELEMENTWISE_A) => y,
            Some(_) => gradient,
        }
    }

    fn check(name: &'static str, count: usize, over: Option<u32>) {
        let mut numbers = Numbers::new(count as u64);
        let y: Vec<f32> = numbers.vec(count);
        let gradient: Vec<f32> = numbers.vec(count);
        on_every_executor(
            |on| run(name, &y, &gradient, over, on),
            |out| {
                for i in 0..count {
                    let expected = derivative(name, y[i].into()) * f64::from(gradient[i]);
                    // Two sums or one, and two products. 1 - y itself is exact or rounded once, relative to itself.
                    let tolerance =
                        5.0 * f32::ROUNDING * expected.abs() + f64::from(f32::MIN_POSITIVE);
                    let what = format!("{name} {over:?} {i} of y {}", y[i]);
                    assert_close(out[i].into(), expected, tolerance, what);
                }
                assert_untouched(out, std::iter::once(0..count));
            },
        );
    }

    pub fn at_edge(name: &'static str, edge: usize) {
        for over in [None, Some(ELEMENTWISE_A), Some(ELEMENTWISE_B)] {
            check(name, edge, over);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]
        #[test]
        fn any_count(count in 1usize..3000) {
            for name in ["relu_backward", "sigmoid_backward", "tanh_backward"] {
                check(name, count, None);
            }
        }
    }

    /// A unit that is off passes nothing on, not even what is not finite, and a NaN is not hidden.
    #[test]
    fn relu_at_its_corner() {
        let y = [0.0, -0.0, 1e-30, f32::NAN];
        let gradient = [f32::NAN, f32::INFINITY, 3.0, 1.0];
        on_every_executor(
            |on| run("relu_backward", &y, &gradient, None, on),
            |out| {
                assert_eq!(out[..3], [0.0, 0.0, 3.0]);
                assert!(out[3].is_nan() && out[3].bits() != f32::POISON.bits());
            },
        );
    }
}
