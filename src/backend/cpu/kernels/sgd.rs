//! `sgd_step`.

use crate::backend::cpu::bindings::{Dispatch, Extent, View};
use crate::backend::cpu::machine::{ALONE, Machine};
use crate::backend::cpu::simd::{Body, Simd};
use crate::backend::fault::Fault;
use crate::backend::ffi::args::*;

pub fn sgd_step(dispatch: &Dispatch, machine: &Machine) -> Result<(), Fault> {
    let args: sgd_args = dispatch.arguments(SGD_ARGS)?;
    let all = Extent::packed(args.count);
    let gradient: View<f32> = dispatch.view(SGD_GRADIENT, "gradient", all)?;
    let weights: View<f32> = dispatch.view(SGD_WEIGHTS, "weights", all)?;
    let velocity: View<f32> = dispatch.view(SGD_VELOCITY, "velocity", all)?;
    dispatch.expect_points([args.count, 1, 1])?;

    let separable = gradient.is_apart_from(&weights)
        && gradient.is_apart_from(&velocity)
        && weights.is_apart_from(&velocity);
    let grain = if separable { machine.grain(4) } else { ALONE };
    machine.for_ranges(args.count as usize, grain, |range| {
        let (first, count) = (range.start, range.len());
        machine.isa.run(Step {
            gradient: gradient.at(first, count),
            weights: weights.at(first, count),
            velocity: velocity.at(first, count),
            count,
            args,
        });
    });
    Ok(())
}

struct Step {
    gradient: *const f32,
    weights: *mut f32,
    velocity: *mut f32,
    count: usize,
    args: sgd_args,
}

impl Body for Step {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let args = self.args;
        for i in 0..self.count {
            // SAFETY: `sgd_step` checked `count` elements of each.
            unsafe {
                let weight = self.weights.add(i).read();
                let gradient = self.gradient.add(i).read() + args.weight_decay * weight;
                let moved = args.momentum * self.velocity.add(i).read() + gradient;
                self.velocity.add(i).write(moved);
                self.weights
                    .add(i)
                    .write(weight - args.learning_rate * moved);
            }
        }
    }
}

#[cfg(test)]
pub mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::backend::cpu::testing::*;

    fn check(count: usize, args: sgd_args) {
        let mut numbers = Numbers::new(count as u64);
        let [g, w, v]: [Vec<f32>; 3] = std::array::from_fn(|_| numbers.vec(count));
        let args = sgd_args {
            count: count as u64,
            ..args
        };
        // The weights and then the velocity, each with one more that must stay as it is.
        let run = |on: Executor| {
            let mut gradient = g.clone();
            let [mut weights, mut velocity] = [&w, &v].map(|x| [&x[..], &[f32::POISON]].concat());
            Call::new("sgd_step")
                .covering([count, 1, 1])
                .bind(SGD_GRADIENT, &mut gradient)
                .bind(SGD_WEIGHTS, &mut weights)
                .bind(SGD_VELOCITY, &mut velocity)
                .arguments(SGD_ARGS, &args)
                .run_on(on)
                .expect("good arguments");
            weights.extend(velocity);
            weights
        };
        let [rate, momentum, decay] =
            [args.learning_rate, args.momentum, args.weight_decay].map(f64::from);
        on_every_executor(run, |out| {
            for i in 0..count {
                let [g, w, v] = [g[i], w[i], v[i]].map(f64::from);
                let moved = momentum * v + (g + decay * w);
                let terms = momentum * v.abs() + g.abs() + decay * w.abs();
                let off = 4.0 * f32::ROUNDING * terms;
                assert_close(
                    out[count + 1 + i].into(),
                    moved,
                    off,
                    format_args!("velocity {i}"),
                );
                let expected = w - rate * moved;
                let off = rate * off + 2.0 * f32::ROUNDING * (w.abs() + rate * moved.abs());
                assert_close(out[i].into(), expected, off, format_args!("weight {i}"));
            }
            assert_untouched(out, [0..count, count + 1..2 * count + 1].into_iter());
        });
    }

    pub fn at_edge(edge: usize) {
        for (learning_rate, momentum, weight_decay) in [(0.1, 0.0, 0.0), (0.01, 0.9, 0.1)] {
            let args = sgd_args {
                learning_rate,
                momentum,
                weight_decay,
                ..Default::default()
            };
            check(edge, args);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]
        #[test]
        fn any_step(
            count in 1usize..2000, learning_rate in 0f32..1.0, momentum in 0f32..1.0, weight_decay in 0f32..1.0,
        ) {
            check(count, sgd_args { learning_rate, momentum, weight_decay, ..Default::default() });
        }
    }
}
