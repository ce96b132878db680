//! `accumulate_<T>`.

use crate::backend::cpu::bindings::{Dispatch, Extent, View};
use crate::backend::cpu::machine::{ALONE, Machine};
use crate::backend::cpu::quants::Writable;
use crate::backend::fault::Fault;
use crate::backend::ffi::args::*;

pub fn accumulate<T: Writable>(dispatch: &Dispatch, machine: &Machine) -> Result<(), Fault> {
    let args: accumulate_args = dispatch.arguments(ACCUMULATE_ARGS)?;
    let (m, n, batch) = (args.m, args.n, args.batch);
    let packed = u64::from(m) * u64::from(n);
    let product = Extent::rows(batch, packed, packed);
    let product: View<T> = dispatch.view(ACCUMULATE_PRODUCT, "product", product)?;
    let c = Extent::nested((batch, args.c_batch_stride), (m, args.c_row_stride), n);
    let c: View<T> = dispatch.view(ACCUMULATE_C, "c", c)?;
    let bias: Option<View<T>> = match args.has_bias {
        0 => None,
        _ => Some(dispatch.view(ACCUMULATE_BIAS, "bias", Extent::packed(n))?),
    };
    dispatch.expect_points([n.into(), m.into(), batch.into()])?;

    let (m, n) = (m as usize, n as usize);
    let separable = c.writes_once()
        && c.is_apart_from(&product)
        && bias.is_none_or(|bias| c.is_apart_from(&bias));
    let grain = if separable {
        machine.grain(2 * n)
    } else {
        ALONE
    };
    machine.for_ranges(batch as usize * m, grain, |rows| {
        for row in rows {
            let (z, i) = (row / m, row % m);
            let product = product.at(row * n, n);
            let start = z * args.c_batch_stride as usize + i * args.c_row_stride as usize;
            let c = c.at(start, n);
            let bias = bias.map(|bias| bias.at(0, n));
            for j in 0..n {
                // SAFETY: `at` checked `n` elements of each.
                unsafe {
                    let mut sum = args.alpha * T::element(product, j);
                    if args.beta != 0.0 {
                        sum += args.beta * T::element(c, j);
                    }
                    if let Some(bias) = bias {
                        sum += T::element(bias, j);
                    }
                    c.add(j).write(T::from_f32(sum));
                }
            }
        }
    });
    Ok(())
}

#[cfg(test)]
pub mod tests {
    use half::f16;

    use super::*;
    use crate::backend::cpu::testing::*;

    struct Case {
        shape: [usize; 3],
        gap: usize,
        factors: [f32; 2],
        has_bias: bool,
    }

    fn check<T: Output + Into<f64>>(name: &'static str, case: &Case, rounding: f64) {
        let ([batch, m, n], [alpha, beta]) = (case.shape, case.factors);
        let (stride, packed) = (n + case.gap, m * n);
        let plane = m * stride + case.gap;
        let mut numbers = Numbers::new((m * n) as u64);
        let product: Vec<T> = numbers.vec(batch * packed);
        let before: Vec<T> = numbers.vec(batch * plane);
        let bias: Vec<T> = numbers.vec(n);
        let args = accumulate_args {
            c_row_stride: stride as u64,
            c_batch_stride: plane as u64,
            m: m as u32,
            n: n as u32,
            batch: batch as u32,
            has_bias: case.has_bias.into(),
            alpha,
            beta,
        };
        let run = |on: Executor| {
            let (mut product, mut bias, mut c) = (product.clone(), bias.clone(), before.clone());
            if beta == 0.0 {
                c.fill(T::POISON);
            }
            let call = Call::new(name)
                .covering([n, m, batch])
                .bind(ACCUMULATE_PRODUCT, &mut product)
                .bind(ACCUMULATE_C, &mut c);
            let call = match case.has_bias {
                true => call.bind(ACCUMULATE_BIAS, &mut bias),
                false => call.bind_same(ACCUMULATE_BIAS, ACCUMULATE_C),
            };
            call.arguments(ACCUMULATE_ARGS, &args)
                .run_on(on)
                .expect("good arguments");
            c
        };
        on_every_executor(run, |out| {
            for (z, i, j) in (0..batch * packed).map(|at| (at / packed, at / n % m, at % n)) {
                let place = z * plane + i * stride + j;
                let terms = [
                    f64::from(alpha) * product[z * packed + i * n + j].into(),
                    f64::from(beta) * before[place].into(),
                    if case.has_bias { bias[j].into() } else { 0.0 },
                ];
                let expected: f64 = terms.iter().sum();
                let most: f64 = terms.iter().map(|term| term.abs()).sum();
                let tolerance =
                    4.0 * f32::ROUNDING * most + rounding * expected.abs() + 1e-7 * rounding;
                let value: f64 = out[place].into();
                assert_close(
                    value,
                    expected,
                    tolerance,
                    format_args!("{name} {z}, {i}, {j}"),
                );
            }
        });
    }

    pub fn at_edge(name: &'static str, edge: usize) {
        for (factors, has_bias) in [([1.0, 1.0], false), ([0.5, -2.0], true), ([3.0, 0.0], true)] {
            for shape in [[1, 5, edge], [2, edge, 6]] {
                let case = &Case {
                    shape,
                    gap: edge % 3,
                    factors,
                    has_bias,
                };
                match name {
                    "accumulate_f32" => check::<f32>(name, case, f32::ROUNDING),
                    _ => check::<f16>(name, case, f16::ROUNDING),
                }
            }
        }
    }
}
