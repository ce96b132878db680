//! `silu_mul_backward` and `gelu_mul_backward`.

use std::marker::PhantomData;

use super::exponential::exp;
use crate::backend::cpu::bindings::{Dispatch, Extent, View};
use crate::backend::cpu::machine::{ALONE, Machine};
use crate::backend::cpu::simd::{Body, Simd};
use crate::backend::fault::Fault;
use crate::backend::ffi::args::*;

pub fn silu_mul_backward(dispatch: &Dispatch, machine: &Machine) -> Result<(), Fault> {
    backward::<Silu>(dispatch, machine)
}

pub fn gelu_mul_backward(dispatch: &Dispatch, machine: &Machine) -> Result<(), Fault> {
    backward::<Gelu>(dispatch, machine)
}

fn backward<G: Gate>(dispatch: &Dispatch, machine: &Machine) -> Result<(), Fault> {
    let args: gated_args = dispatch.arguments(GATED_ARGS)?;
    let view = |index, name| -> Result<View<f32>, Fault> {
        dispatch.view(index, name, Extent::packed(args.count))
    };
    let a = view(GATED_A, "a")?;
    let b = view(GATED_B, "b")?;
    let gradient = view(GATED_GRADIENT, "gradient")?;
    let a_gradient = view(GATED_A_GRADIENT, "a_gradient")?;
    let b_gradient = view(GATED_B_GRADIENT, "b_gradient")?;
    dispatch.expect_points([args.count, 1, 1])?;

    let separable = [a_gradient, b_gradient].iter().all(|out| {
        [a, b, gradient]
            .iter()
            .all(|input| out.is_apart_from(input))
    }) && a_gradient.is_apart_from(&b_gradient);
    let grain = if separable { machine.grain(24) } else { ALONE };
    machine.for_ranges(args.count as usize, grain, |range| {
        let (start, count) = (range.start, range.len());
        machine.isa.run(Gated {
            a: a.at(start, count),
            b: b.at(start, count),
            gradient: gradient.at(start, count),
            a_gradient: a_gradient.at(start, count),
            b_gradient: b_gradient.at(start, count),
            count,
            gate: PhantomData::<G>,
        });
    });
    Ok(())
}

/// A gate `a · s(u(a))` with `s` the logistic function: u, and its slope.
trait Gate {
    fn argument(a: f32) -> f32;
    fn slope(a: f32) -> f32;
}

struct Silu;

impl Gate for Silu {
    #[inline(always)]
    fn argument(a: f32) -> f32 {
        a
    }

    #[inline(always)]
    fn slope(_: f32) -> f32 {
        1.0
    }
}

struct Gelu;

/// 2 sqrt(2 / π).
const TWICE: f32 = 1.595_769;

impl Gate for Gelu {
    #[inline(always)]
    fn argument(a: f32) -> f32 {
        TWICE * (a + 0.044_715 * a * a * a)
    }

    #[inline(always)]
    fn slope(a: f32) -> f32 {
        TWICE * (1.0 + 3.0 * 0.044_715 * a * a)
    }
}

struct Gated<G> {
    a: *const f32,
    b: *const f32,
    gradient: *const f32,
    a_gradient: *mut f32,
    b_gradient: *mut f32,
    count: usize,
    gate: PhantomData<G>,
}

impl<G: Gate> Body for Gated<G> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        for i in 0..self.count {
            // SAFETY: `backward` checked `count` elements of each.
            unsafe {
                let a = self.a.add(i).read();
                let s = 1.0 / (1.0 + exp::<S>(-G::argument(a)));
                // Far out s does not change, however large the slope that it is multiplied with.
                let change = s * (1.0 - s);
                let slope = if change == 0.0 {
                    s
                } else {
                    s + a * change * G::slope(a)
                };
                let gradient = self.gradient.add(i).read();
                let of_a = gradient * self.b.add(i).read() * slope;
                self.a_gradient.add(i).write(of_a);
                self.b_gradient.add(i).write(gradient * (a * s));
            }
        }
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::backend::cpu::testing::*;

    /// The gate, and its derivative.
    fn gate(name: &str, a: f64) -> [f64; 2] {
        let (u, slope) = match name {
            "silu_mul_backward" => (a, 1.0),
            _ => {
                let twice = 2.0 * (2.0 / std::f64::consts::PI).sqrt();
                let slope = twice * (1.0 + 3.0 * 0.044715 * a * a);
                (twice * (a + 0.044715 * a.powi(3)), slope)
            }
        };
        let s = 1.0 / (1.0 + (-u).exp());
        [a * s, s + a * s * (1.0 - s) * slope]
    }

    fn run(name: &'static str, [a, b, gradient]: [&[f32]; 3], on: Executor) -> Vec<f32> {
        let count = a.len();
        let args = gated_args {
            count: count as u64,
        };
        let [mut a, mut b, mut gradient] = [a, b, gradient].map(|x| x.to_vec());
        let [mut of_a, mut of_b] = [(); 2].map(|()| vec![f32::POISON; count + 1]);
        Call::new(name)
            .covering([count, 1, 1])
            .bind(GATED_A, &mut a)
            .bind(GATED_B, &mut b)
            .bind(GATED_GRADIENT, &mut gradient)
            .bind(GATED_A_GRADIENT, &mut of_a)
            .bind(GATED_B_GRADIENT, &mut of_b)
            .arguments(GATED_ARGS, &args)
            .run_on(on)
            .expect("good arguments");
        [of_a, of_b].concat()
    }

    pub fn at_edge(name: &'static str, edge: usize) {
        let mut numbers = Numbers::new(edge as u64);
        let a: Vec<f32> = numbers.vec::<f32>(edge).iter().map(|a| a * 6.0).collect();
        let b: Vec<f32> = numbers.vec(edge);
        let gradient: Vec<f32> = numbers.vec(edge);
        on_every_executor(
            |on| run(name, [&a, &b, &gradient], on),
            |out| {
                for i in 0..edge {
                    let [a, b, g] = [a[i], b[i], gradient[i]].map(f64::from);
                    let [value, slope] = gate(name, a);
                    // The argument, at most 24, is rounded four times, which shifts s and 1 - s by that part of them.
                    let off = 120.0 * f32::ROUNDING;
                    let tolerance = off * (g * b).abs() * (1.0 + a.abs() * 2.0);
                    let what = format!("{name} {i} of {a}");
                    assert_close(out[i].into(), g * b * slope, tolerance, &what);
                    let tolerance = off * (g * value).abs() + 1e-37;
                    assert_close(out[edge + 1 + i].into(), g * value, tolerance, &what);
                }
                assert_untouched(out, [0..edge, edge + 1..2 * edge + 1].into_iter());
            },
        );
    }

    #[test]
    fn far_out_a_gate_is_open_or_closed() {
        for name in ["silu_mul_backward", "gelu_mul_backward"] {
            let a = [1e20, -1e20, 200.0, -200.0, f32::NAN];
            on_every_executor(
                |on| run(name, [&a, &[2.0; 5], &[3.0; 5]], on),
                |out| {
                    assert_eq!(out[..4], [6.0, 0.0, 6.0, 0.0], "{name}");
                    assert!(out[4].is_nan(), "{name}");
                },
            );
        }
    }
}
