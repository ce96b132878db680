//! `cross_entropy`.

use super::exponential::exp;
use crate::backend::cpu::bindings::{Dispatch, Extent, View};
use crate::backend::cpu::machine::{ALONE, Machine};
use crate::backend::cpu::simd::{Body, Simd};
use crate::backend::fault::Fault;
use crate::backend::ffi::args::*;

pub fn cross_entropy(dispatch: &Dispatch, machine: &Machine) -> Result<(), Fault> {
    let args: cross_entropy_args = dispatch.arguments(CROSS_ENTROPY_ARGS)?;
    let rows = |stride| Extent::rows(args.rows, stride, args.width);
    let one = Extent::packed(args.rows);
    let logits: View<f32> =
        dispatch.view(CROSS_ENTROPY_LOGITS, "logits", rows(args.logits_row_stride))?;
    let labels: View<u32> = dispatch.view(CROSS_ENTROPY_LABELS, "labels", one)?;
    let gradient: View<f32> = dispatch.view(
        CROSS_ENTROPY_GRADIENT,
        "gradient",
        rows(args.gradient_row_stride),
    )?;
    let loss: View<f32> = dispatch.view(CROSS_ENTROPY_LOSS, "loss", one)?;
    dispatch.expect_points([args.rows.into(), 1, 1])?;

    let width = args.width as usize;
    let separable = gradient.writes_once()
        && gradient.is_apart_from(&loss)
        && gradient.is_apart_from(&logits)
        && gradient.is_apart_from(&labels)
        && loss.is_apart_from(&logits)
        && loss.is_apart_from(&labels);
    let grain = if separable {
        machine.grain(32 * width)
    } else {
        ALONE
    };
    machine.for_ranges(args.rows as usize, grain, |rows| {
        for row in rows {
            // SAFETY: `at` checked the place.
            let label = unsafe { labels.at(row, 1).read() };
            let value = machine.isa.run(Row {
                logits: logits.at(row * args.logits_row_stride as usize, width),
                gradient: gradient.at(row * args.gradient_row_stride as usize, width),
                width,
                label,
                scale: args.scale,
            });
            // SAFETY: as above.
            unsafe { loss.at(row, 1).write(value) };
        }
    });
    Ok(())
}

/// Writes a row's gradient and returns its loss.
struct Row {
    logits: *const f32,
    gradient: *mut f32,
    width: usize,
    label: u32,
    scale: f32,
}

impl Body for Row {
    type Output = f32;

    #[inline(always)]
    fn run<S: Simd>(self, _: S) -> f32 {
        let label = self.label as usize;
        // SAFETY: `cross_entropy` checked `width` elements of each, and `label` is one of them where it is used.
        unsafe {
            if label >= self.width {
                let nothing = match self.label {
                    CROSS_ENTROPY_IGNORED => 0.0,
                    _ => f32::NAN,
                };
                for j in 0..self.width {
                    self.gradient.add(j).write(nothing);
                }
                return nothing;
            }
            let mut largest = f32::NEG_INFINITY;
            for j in 0..self.width {
                let logit = self.logits.add(j).read();
                largest = if logit > largest { logit } else { largest };
            }
            let mut sum = 0f64;
            for j in 0..self.width {
                let exponential = exp::<S>(self.logits.add(j).read() - largest);
                self.gradient.add(j).write(exponential);
                sum += f64::from(exponential);
            }
            let factor = 1.0 / sum;
            for j in 0..self.width {
                let share = f64::from(self.gradient.add(j).read()) * factor;
                let at_label = f64::from(u8::from(j == label));
                self.gradient
                    .add(j)
                    .write((f64::from(self.scale) * (share - at_label)) as f32);
            }
            let distance = f64::from(largest) - f64::from(self.logits.add(label).read());
            (f64::from(self.scale) * (sum.ln() + distance)) as f32
        }
    }
}

#[cfg(test)]
pub mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::backend::cpu::testing::*;

    /// The gradient's rows and then the losses.
    fn run(logits: &[f32], labels: &[u32], args: &cross_entropy_args, on: Executor) -> Vec<f32> {
        let (mut logits, mut labels) = (logits.to_vec(), labels.to_vec());
        let rows = args.rows as usize;
        let mut gradient = vec![f32::POISON; rows * args.gradient_row_stride as usize];
        let mut loss = vec![f32::POISON; rows + 1];
        Call::new("cross_entropy")
            .covering([rows, 1, 1])
            .bind(CROSS_ENTROPY_LOGITS, &mut logits)
            .bind(CROSS_ENTROPY_LABELS, &mut labels)
            .bind(CROSS_ENTROPY_GRADIENT, &mut gradient)
            .bind(CROSS_ENTROPY_LOSS, &mut loss)
            .arguments(CROSS_ENTROPY_ARGS, args)
            .run_on(on)
            .expect("good arguments");
        gradient.extend(loss);
        gradient
    }

    fn check(rows: usize, width: usize, gaps: [usize; 2], scale: f32) {
        let [l, g] = gaps.map(|gap| width + gap);
        let x: Vec<f32> = Numbers::new((rows * width) as u64).vec(rows * l);
        let logits: Vec<f32> = x.iter().map(|x| x * 20.0).collect();
        let labels: Vec<u32> = (0..rows).map(|row| (row * 7 % width) as u32).collect();
        let args = cross_entropy_args {
            logits_row_stride: l as u64,
            gradient_row_stride: g as u64,
            rows: rows as u32,
            width: width as u32,
            scale,
            reserved: 0,
        };
        on_every_executor(
            |on| run(&logits, &labels, &args, on),
            |out| {
                let scale = f64::from(scale);
                for row in 0..rows {
                    let logits: Vec<f64> = logits[row * l..][..width]
                        .iter()
                        .map(|x| (*x).into())
                        .collect();
                    let largest = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                    let sum: f64 = logits.iter().map(|x| (x - largest).exp()).sum();
                    let label = labels[row] as usize;
                    // A sum of `width` positive terms, each of an exponential whose argument is rounded once.
                    let of_sum = width as f64 + 44.0;
                    for (j, logit) in logits.iter().enumerate() {
                        let share = (logit - largest).exp() / sum;
                        let expected = scale * (share - f64::from(u8::from(j == label)));
                        let relative = of_sum + (logit - largest).abs() + 8.0;
                        let tolerance = scale * share * relative * f32::ROUNDING
                            + 3.0 * f32::ROUNDING * expected.abs()
                            + 1e-37;
                        let what = format!("gradient {row}, {j}");
                        assert_close(out[row * g + j].into(), expected, tolerance, what);
                    }
                    let distance = largest - logits[label];
                    let expected = scale * (sum.ln() + distance);
                    let tolerance = scale * (of_sum + 4.0 * (sum.ln() + distance)) * f32::ROUNDING;
                    let loss = out[rows * g + row].into();
                    assert_close(loss, expected, tolerance, format_args!("loss {row}"));
                }
                let losses = rows * g..rows * g + rows;
                assert_untouched(out, row_ranges(rows, g, width).chain([losses]));
            },
        );
    }

    pub fn at_edge(edge: usize) {
        check(5, edge, [0, 0], 1.0);
        check(edge, 6, [7, 2], 0.125);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn any_shape(rows in 1usize..20, width in 1usize..300, gaps: [u8; 2], scale in 0.01f32..2.0) {
            check(rows, width, gaps.map(|gap| usize::from(gap) % 8), scale);
        }
    }

    #[test]
    fn labels_that_are_ignored_and_labels_that_are_none() {
        let args = cross_entropy_args {
            logits_row_stride: 3,
            gradient_row_stride: 3,
            rows: 3,
            width: 3,
            scale: 1.0,
            reserved: 0,
        };
        let logits = [1000.0, -1000.0, 0.0].repeat(3);
        let labels = [0, CROSS_ENTROPY_IGNORED, 3];
        on_every_executor(
            |on| run(&logits, &labels, &args, on),
            |out| {
                assert_eq!(out[..6], [0.0; 6]);
                assert_eq!(out[9..11], [0.0; 2]);
                let nan = |x: &f32| x.is_nan() && x.bits() != f32::POISON.bits();
                assert!(out[6..9].iter().all(nan) && nan(&out[11]), "{out:?}");
            },
        );
    }
}
