//! `rms_norm_backward`.

use crate::backend::cpu::bindings::{Dispatch, Extent, View};
use crate::backend::cpu::machine::{ALONE, Machine};
use crate::backend::cpu::simd::{Body, Simd};
use crate::backend::fault::Fault;
use crate::backend::ffi::args::*;

pub fn rms_norm_backward(dispatch: &Dispatch, machine: &Machine) -> Result<(), Fault> {
    let args: rms_norm_backward_args = dispatch.arguments(RMS_NORM_BACKWARD_ARGS)?;
    let view = |index, name, stride| -> Result<View<f32>, Fault> {
        dispatch.view(index, name, Extent::rows(args.rows, stride, args.width))
    };
    let x = view(RMS_NORM_BACKWARD_X, "x", args.x_row_stride)?;
    let weight = Extent::packed(args.width);
    let weight: View<f32> = dispatch.view(RMS_NORM_BACKWARD_WEIGHT, "weight", weight)?;
    let stride = args.gradient_row_stride;
    let gradient = view(RMS_NORM_BACKWARD_GRADIENT, "gradient", stride)?;
    let stride = args.x_gradient_row_stride;
    let x_gradient = view(RMS_NORM_BACKWARD_X_GRADIENT, "x_gradient", stride)?;
    let stride = args.products_row_stride;
    let products = view(RMS_NORM_BACKWARD_PRODUCTS, "products", stride)?;
    dispatch.expect_points([args.rows.into(), 1, 1])?;

    let width = args.width as usize;
    let inputs = [x, weight, gradient];
    let separable = [x_gradient, products]
        .iter()
        .all(|out| out.writes_once() && inputs.iter().all(|input| out.is_apart_from(input)))
        && x_gradient.is_apart_from(&products);
    let grain = if separable {
        machine.grain(12 * width)
    } else {
        ALONE
    };
    machine.for_ranges(args.rows as usize, grain, |rows| {
        for row in rows {
            machine.isa.run(Row {
                x: x.at(row * args.x_row_stride as usize, width),
                weight: weight.at(0, width),
                gradient: gradient.at(row * args.gradient_row_stride as usize, width),
                x_gradient: x_gradient.at(row * args.x_gradient_row_stride as usize, width),
                products: products.at(row * args.products_row_stride as usize, width),
                width,
                eps: args.eps,
            });
        }
    });
    Ok(())
}

struct Row {
    x: *const f32,
    weight: *const f32,
    gradient: *const f32,
    x_gradient: *mut f32,
    products: *mut f32,
    width: usize,
    eps: f32,
}

impl Body for Row {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        /// Sums that a compiler makes vectors of.
        const SUMS: usize = 16;
        let Row {
            x,
            weight,
            gradient,
            width,
            ..
        } = self;
        let (mut squares, mut along) = ([0f64; SUMS], [0f64; SUMS]);
        // SAFETY: `rms_norm_backward` checked `width` elements of each.
        unsafe {
            for first in (0..width).step_by(SUMS) {
                for place in 0..SUMS.min(width - first) {
                    let j = first + place;
                    let x = f64::from(x.add(j).read());
                    let change = f64::from(gradient.add(j).read() * weight.add(j).read());
                    squares[place] += x * x;
                    along[place] += change * x;
                }
            }
            let mean = |sums: [f64; SUMS]| sums.iter().sum::<f64>() / width as f64;
            let factor = 1.0 / (mean(squares) + f64::from(self.eps)).sqrt();
            let back = (factor * factor * mean(along)) as f32;
            let factor = factor as f32;
            for j in 0..width {
                let (x, gradient) = (x.add(j).read(), gradient.add(j).read());
                let change = gradient * weight.add(j).read();
                self.products.add(j).write(gradient * (x * factor));
                self.x_gradient.add(j).write(factor * (change - x * back));
            }
        }
    }
}

#[cfg(test)]
pub mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::backend::cpu::testing::*;

    fn check(rows: usize, width: usize, gaps: [usize; 4], eps: f32) {
        let strides = gaps.map(|gap| width + gap);
        let mut numbers = Numbers::new((rows * width) as u64);
        let x: Vec<f32> = numbers.vec(rows * strides[0]);
        let weight: Vec<f32> = numbers.vec(width);
        let gradient: Vec<f32> = numbers.vec(rows * strides[1]);
        let args = rms_norm_backward_args {
            x_row_stride: strides[0] as u64,
            gradient_row_stride: strides[1] as u64,
            x_gradient_row_stride: strides[2] as u64,
            products_row_stride: strides[3] as u64,
            rows: rows as u32,
            width: width as u32,
            eps,
            reserved: 0,
        };
        let run = |on: Executor| {
            let [mut x, mut weight, mut gradient] = [&x, &weight, &gradient].map(|x| x.clone());
            let mut x_gradient = vec![f32::POISON; rows * strides[2]];
            let mut products = vec![f32::POISON; rows * strides[3]];
            Call::new("rms_norm_backward")
                .covering([rows, 1, 1])
                .bind(RMS_NORM_BACKWARD_X, &mut x)
                .bind(RMS_NORM_BACKWARD_WEIGHT, &mut weight)
                .bind(RMS_NORM_BACKWARD_GRADIENT, &mut gradient)
                .bind(RMS_NORM_BACKWARD_X_GRADIENT, &mut x_gradient)
                .bind(RMS_NORM_BACKWARD_PRODUCTS, &mut products)
                .arguments(RMS_NORM_BACKWARD_ARGS, &args)
                .run_on(on)
                .expect("good arguments");
            [x_gradient, products].concat()
        };
        let start = rows * strides[2];
        on_every_executor(run, |out| {
            for row in 0..rows {
                let [x, gradient] = [&x[row * strides[0]..], &gradient[row * strides[1]..]];
                let x = |j: usize| f64::from(x[j]);
                let gradient = |j: usize| f64::from(gradient[j]);
                let change = |j: usize| gradient(j) * f64::from(weight[j]);
                let n = width as f64;
                let squares: f64 = (0..width).map(|j| x(j) * x(j)).sum();
                let factor = 1.0 / (squares / n + f64::from(eps)).sqrt();
                let along: f64 = (0..width).map(|j| change(j) * x(j)).sum();
                let most: f64 = (0..width).map(|j| (change(j) * x(j)).abs()).sum();
                let back = factor * factor * along / n;
                for j in 0..width {
                    let what = format!("{row}, {j}");
                    let product = gradient(j) * x(j) * factor;
                    // As in `rms_norm`, and a product more.
                    let off = (n / 2.0 + 8.0) * f32::ROUNDING;
                    let value = out[start + row * strides[3] + j].into();
                    assert_close(
                        value,
                        product,
                        off * product.abs(),
                        format_args!("product {what}"),
                    );
                    let expected = factor * (change(j) - x(j) * back);
                    let of_back = (n + 8.0) * factor * factor * most / n * x(j).abs();
                    let tolerance = factor
                        * f32::ROUNDING
                        * (of_back
                            + (n / 2.0 + 10.0) * change(j).abs()
                            + 3.0 * n * (x(j) * back).abs());
                    let value = out[row * strides[2] + j].into();
                    assert_close(value, expected, tolerance, format_args!("gradient {what}"));
                }
            }
            let products = row_ranges(rows, strides[3], width);
            let products = products.map(|range| start + range.start..start + range.end);
            assert_untouched(out, row_ranges(rows, strides[2], width).chain(products));
        });
    }

    pub fn at_edge(edge: usize) {
        check(5, edge, [0; 4], 1e-5);
        check(edge, 6, [3, 1, 2, 5], 0.5);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn any_shape(rows in 1usize..20, width in 1usize..300, gaps: [u8; 4], eps in 1e-6f32..1.0) {
            check(rows, width, gaps.map(|gap| usize::from(gap) % 8), eps);
        }
    }
}
