//! `adam_step`.

use crate::backend::cpu::bindings::{Dispatch, Extent, View};
use crate::backend::cpu::machine::{ALONE, Machine};
use crate::backend::cpu::simd::{Body, Simd};
use crate::backend::fault::Fault;
use crate::backend::ffi::args::*;

pub fn adam_step(dispatch: &Dispatch, machine: &Machine) -> Result<(), Fault> {
    let args: adam_args = dispatch.arguments(ADAM_ARGS)?;
    let all = Extent::packed(args.count);
    let gradient: View<f32> = dispatch.view(ADAM_GRADIENT, "gradient", all)?;
    let weights: View<f32> = dispatch.view(ADAM_WEIGHTS, "weights", all)?;
    let first: View<f32> = dispatch.view(ADAM_FIRST_MOMENT, "first_moment", all)?;
    let second: View<f32> = dispatch.view(ADAM_SECOND_MOMENT, "second_moment", all)?;
    dispatch.expect_points([args.count, 1, 1])?;

    let operands = [&gradient, &weights, &first, &second];
    let separable =
        (1..4).all(|later| (0..later).all(|i| operands[i].is_apart_from(operands[later])));
    let grain = if separable { machine.grain(12) } else { ALONE };
    machine.for_ranges(args.count as usize, grain, |range| {
        let (start, count) = (range.start, range.len());
        machine.isa.run(Step {
            gradient: gradient.at(start, count),
            weights: weights.at(start, count),
            first_moment: first.at(start, count),
            second_moment: second.at(start, count),
            count,
            args,
        });
    });
    Ok(())
}

struct Step {
    gradient: *const f32,
    weights: *mut f32,
    first_moment: *mut f32,
    second_moment: *mut f32,
    count: usize,
    args: adam_args,
}

impl Body for Step {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let args = self.args;
        for i in 0..self.count {
            // SAFETY: `adam_step` checked `count` elements of each.
            unsafe {
                let g = self.gradient.add(i).read();
                let first = args.beta1 * self.first_moment.add(i).read() + (1.0 - args.beta1) * g;
                let before = self.second_moment.add(i).read();
                let second = args.beta2 * before + (1.0 - args.beta2) * (g * g);
                self.first_moment.add(i).write(first);
                self.second_moment.add(i).write(second);
                let size = second.sqrt() / args.root + args.eps;
                let weight = args.decay * self.weights.add(i).read();
                self.weights
                    .add(i)
                    .write(weight - args.step_size * (first / size));
            }
        }
    }
}

#[cfg(test)]
pub mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::backend::cpu::testing::*;

    fn check(count: usize, args: adam_args) {
        let mut numbers = Numbers::new(count as u64);
        let [g, w, m, v]: [Vec<f32>; 4] = std::array::from_fn(|_| numbers.vec(count));
        let v: Vec<f32> = v.into_iter().map(f32::abs).collect();
        let args = adam_args {
            count: count as u64,
            ..args
        };
        // Weights, first and second moments, each with one more that must stay as it is.
        let run = |on: Executor| {
            let mut gradient = g.clone();
            let [mut weights, mut first, mut second] =
                [&w, &m, &v].map(|x| [&x[..], &[f32::POISON]].concat());
            Call::new("adam_step")
                .covering([count, 1, 1])
                .bind(ADAM_GRADIENT, &mut gradient)
                .bind(ADAM_WEIGHTS, &mut weights)
                .bind(ADAM_FIRST_MOMENT, &mut first)
                .bind(ADAM_SECOND_MOMENT, &mut second)
                .arguments(ADAM_ARGS, &args)
                .run_on(on)
                .expect("good arguments");
            [weights, first, second].concat()
        };
        let [decay, beta1, beta2] = [args.decay, args.beta1, args.beta2].map(f64::from);
        let [eps, step_size, root] = [args.eps, args.step_size, args.root].map(f64::from);
        on_every_executor(run, |out| {
            let [weights, firsts, seconds] = [0, 1, 2].map(|part| &out[part * (count + 1)..]);
            for i in 0..count {
                let [g, w, m, v] = [g[i], w[i], m[i], v[i]].map(f64::from);
                let first = beta1 * m + (1.0 - beta1) * g;
                let off = 3.0 * f32::ROUNDING * (beta1 * m.abs() + (1.0 - beta1) * g.abs());
                assert_close(
                    firsts[i].into(),
                    first,
                    off,
                    format_args!("first moment {i}"),
                );
                let second = beta2 * v + (1.0 - beta2) * g * g;
                let off_second = 5.0 * f32::ROUNDING * second + 1e-37;
                let what = format!("second moment {i}");
                assert_close(seconds[i].into(), second, off_second, what);
                let update = step_size * first / (second.sqrt() / root + eps);
                // Half of the second moment's roundings, and those of root, quotient, sum, quotient and product.
                let off = step_size * off / (second.sqrt() / root + eps)
                    + 9.0 * f32::ROUNDING * update.abs()
                    + 2.0 * f32::ROUNDING * ((decay * w).abs() + update.abs());
                assert_close(
                    weights[i].into(),
                    decay * w - update,
                    off,
                    format_args!("weight {i}"),
                );
            }
            let part = |part: usize| part * (count + 1)..part * (count + 1) + count;
            assert_untouched(out, (0..3).map(part));
        });
    }

    pub fn at_edge(edge: usize) {
        for (decay, step_size, root) in [(1.0, 0.01, 0.0316), (0.999, 0.001, 1.0)] {
            let args = adam_args {
                decay,
                beta1: 0.9,
                beta2: 0.999,
                eps: 1e-8,
                step_size,
                root,
                ..Default::default()
            };
            check(edge, args);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]
        #[test]
        fn any_step(
            count in 1usize..2000, decay in 0.5f32..1.0, beta1 in 0f32..1.0, beta2 in 0f32..1.0,
            step_size in 0f32..1.0, root in 0.01f32..1.0,
        ) {
            let eps = 1e-8;
            check(count, adam_args { decay, beta1, beta2, eps, step_size, root, ..Default::default() });
        }
    }
}
