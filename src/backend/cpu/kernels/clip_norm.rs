//! `clip_norm`.

use crate::backend::cpu::bindings::{Dispatch, Extent, View};
use crate::backend::cpu::machine::Machine;
use crate::backend::cpu::simd::{Body, Simd};
use crate::backend::fault::Fault;
use crate::backend::ffi::args::*;

pub fn clip_norm(dispatch: &Dispatch, machine: &Machine) -> Result<(), Fault> {
    let args: clip_norm_args = dispatch.arguments(CLIP_NORM_ARGS)?;
    let squares: View<f32> = dispatch.view(CLIP_NORM_SQUARES, "squares", Extent::packed(1u32))?;
    let x: View<f32> = dispatch.view(CLIP_NORM_X, "x", Extent::packed(args.count))?;
    dispatch.expect_points([args.count, 1, 1])?;

    // SAFETY: `view` checked one element, and nothing of this dispatch has been written yet.
    let squares = unsafe { squares.at(0, 1).read() };
    let factor = args.norm / (args.scale.abs() * squares.sqrt() + CLIP_NORM_EPS as f32);
    // Written so that a NaN is not taken for a norm that is small enough.
    let factor = args.scale * if factor > 1.0 { 1.0 } else { factor };
    machine.for_ranges(args.count as usize, machine.grain(2), |range| {
        machine.isa.run(Scale {
            x: x.at(range.start, range.len()),
            count: range.len(),
            factor,
        });
    });
    Ok(())
}

struct Scale {
    x: *mut f32,
    count: usize,
    factor: f32,
}

impl Body for Scale {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        for i in 0..self.count {
            // SAFETY: `clip_norm` checked `count` elements.
            unsafe { self.x.add(i).write(self.x.add(i).read() * self.factor) };
        }
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::backend::cpu::testing::*;

    fn run(x: &[f32], squares: f32, [norm, scale]: [f32; 2], on: Executor) -> Vec<f32> {
        let args = clip_norm_args {
            count: x.len() as u64,
            norm,
            scale,
        };
        let (mut x, mut squares) = ([x, &[f32::POISON]].concat(), [squares]);
        Call::new("clip_norm")
            .covering([x.len() - 1, 1, 1])
            .bind(CLIP_NORM_SQUARES, &mut squares)
            .bind(CLIP_NORM_X, &mut x)
            .arguments(CLIP_NORM_ARGS, &args)
            .run_on(on)
            .expect("good arguments");
        x
    }

    pub fn at_edge(edge: usize) {
        let x: Vec<f32> = Numbers::new(edge as u64).vec(edge);
        for (squares, norm, scale) in [
            (9.0f32, 1.5, 1.0),
            (0.25, 0.5, 1.0),
            (0.25, 7.0, 1.0),
            (0.0, 1.0, 1.0),
            (4.0, 0.0, 1.0),
            (9.0, 0.7, 0.3),
            (9.0, 1.0, 0.3),
            (9.0, 0.7, -0.3),
            (1e6, f32::MAX, 0.125),
        ] {
            let scale_64 = f64::from(scale);
            let factor = f64::from(norm) / (scale_64.abs() * f64::from(squares).sqrt() + 1e-6);
            let factor = scale_64 * factor.min(1.0);
            on_every_executor(
                |on| run(&x, squares, [norm, scale], on),
                |out| {
                    for (i, x) in x.iter().enumerate() {
                        let expected = factor * f64::from(*x);
                        // Roundings of the root, of the small number, of the sum, the quotient and the products.
                        let tolerance = 7.0 * f32::ROUNDING * expected.abs();
                        assert_close(out[i].into(), expected, tolerance, format_args!("{i}"));
                    }
                    assert_untouched(out, std::iter::once(0..edge));
                },
            );
        }
    }

    #[test]
    fn a_norm_that_is_not_finite_is_not_hidden() {
        for squares in [f32::NAN, f32::INFINITY] {
            on_every_executor(
                |on| run(&[1.0, f32::INFINITY], squares, [1.0; 2], on),
                |out| assert!(out[1].is_nan(), "{squares}: {out:?}"),
            );
        }
    }
}
