//! `softmax_backward`.

use crate::backend::cpu::bindings::{Dispatch, Extent, View};
use crate::backend::cpu::machine::{ALONE, Machine};
use crate::backend::cpu::simd::{Body, Simd};
use crate::backend::fault::Fault;
use crate::backend::ffi::args::*;

pub fn softmax_backward(dispatch: &Dispatch, machine: &Machine) -> Result<(), Fault> {
    let args: softmax_backward_args = dispatch.arguments(SOFTMAX_BACKWARD_ARGS)?;
    let view = |index, name, stride| -> Result<View<f32>, Fault> {
        dispatch.view(index, name, Extent::rows(args.rows, stride, args.width))
    };
    let y = view(SOFTMAX_BACKWARD_Y, "y", args.y_row_stride)?;
    let stride = args.gradient_row_stride;
    let gradient = view(SOFTMAX_BACKWARD_GRADIENT, "gradient", stride)?;
    let out = view(SOFTMAX_BACKWARD_OUT, "out", args.out_row_stride)?;
    dispatch.expect_points([args.rows.into(), 1, 1])?;

    let width = args.width as usize;
    let separable = out.writes_once()
        && out.is_apart_from(&y)
        && (out.aliases_rows_of(&gradient) || out.is_apart_from(&gradient));
    let grain = if separable {
        machine.grain(4 * width)
    } else {
        ALONE
    };
    machine.for_ranges(args.rows as usize, grain, |rows| {
        for row in rows {
            machine.isa.run(Row {
                y: y.at(row * args.y_row_stride as usize, width),
                gradient: gradient.at(row * args.gradient_row_stride as usize, width),
                out: out.at(row * args.out_row_stride as usize, width),
                width,
                scale: args.scale,
            });
        }
    });
    Ok(())
}

struct Row {
    y: *const f32,
    gradient: *const f32,
    out: *mut f32,
    width: usize,
    scale: f32,
}

impl Body for Row {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        // SAFETY: `softmax_backward` checked `width` elements of each.
        unsafe {
            let mut mean = 0f64;
            for j in 0..self.width {
                mean += f64::from(self.y.add(j).read()) * f64::from(self.gradient.add(j).read());
            }
            let mean = mean as f32;
            for j in 0..self.width {
                let change = self.y.add(j).read() * (self.gradient.add(j).read() - mean);
                self.out.add(j).write(self.scale * change);
            }
        }
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::backend::cpu::testing::*;

    fn check(rows: usize, width: usize, gaps: [usize; 3], scale: f32, in_place: bool) {
        let [y_stride, g_stride, mut out_stride] = gaps.map(|gap| width + gap);
        if in_place {
            out_stride = g_stride;
        }
        let mut numbers = Numbers::new((rows * width) as u64);
        let y: Vec<f32> = numbers.vec(rows * y_stride);
        let gradient: Vec<f32> = numbers.vec(rows * g_stride);
        let args = softmax_backward_args {
            y_row_stride: y_stride as u64,
            gradient_row_stride: g_stride as u64,
            out_row_stride: out_stride as u64,
            rows: rows as u32,
            width: width as u32,
            scale,
            reserved: 0,
        };
        let run = |on: Executor| {
            let (mut y, mut gradient) = (y.clone(), gradient.clone());
            let mut out = vec![f32::POISON; rows * out_stride];
            let call = Call::new("softmax_backward")
                .covering([rows, 1, 1])
                .bind(SOFTMAX_BACKWARD_Y, &mut y)
                .bind(SOFTMAX_BACKWARD_GRADIENT, &mut gradient);
            let call = match in_place {
                true => call.bind_same(SOFTMAX_BACKWARD_OUT, SOFTMAX_BACKWARD_GRADIENT),
                false => call.bind(SOFTMAX_BACKWARD_OUT, &mut out),
            };
            call.arguments(SOFTMAX_BACKWARD_ARGS, &args)
                .run_on(on)
                .expect("good arguments");
            if in_place { gradient } else { out }
        };
        on_every_executor(run, |out| {
            for row in 0..rows {
                let y = |j: usize| f64::from(y[row * y_stride + j]);
                let gradient = |j: usize| f64::from(gradient[row * g_stride + j]);
                let mean: f64 = (0..width).map(|j| y(j) * gradient(j)).sum();
                let most: f64 = (0..width).map(|j| (y(j) * gradient(j)).abs()).sum();
                for j in 0..width {
                    let scale = f64::from(scale);
                    let expected = scale * y(j) * (gradient(j) - mean);
                    let of_mean = (width as f64 + 1.0) * most + gradient(j).abs() + mean.abs();
                    let tolerance = (scale * y(j)).abs() * of_mean * f32::ROUNDING
                        + 3.0 * f32::ROUNDING * expected.abs();
                    let value = out[row * out_stride + j].into();
                    assert_close(value, expected, tolerance, format_args!("{row}, {j}"));
                }
            }
            if !in_place {
                assert_untouched(out, row_ranges(rows, out_stride, width));
            }
        });
    }

    pub fn at_edge(edge: usize) {
        check(5, edge, [0; 3], 1.0, false);
        check(5, edge, [3, 2, 0], -0.5, true);
        check(edge, 6, [7, 2, 1], 0.125, false);
    }
}
