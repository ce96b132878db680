//! `rope`.

use super::trigonometry;
use crate::backend::cpu::bindings::{Dispatch, Extent, View};
use crate::backend::cpu::machine::{ALONE, Machine};
use crate::backend::cpu::simd::{Body, Simd};
use crate::backend::fault::Fault;
use crate::backend::ffi::args::*;

pub fn rope(dispatch: &Dispatch, machine: &Machine) -> Result<(), Fault> {
    let args: rope_args = dispatch.arguments(ROPE_ARGS)?;
    let (tokens, heads, rotary_dim) = (args.tokens, args.heads, args.rotary_dim);
    if rotary_dim % 2 != 0 {
        return Err(dispatch.invalid(format!("rotary_dim is {rotary_dim}, which is odd")));
    }
    let pairing = args.pairing;
    if ![ROPE_PAIRING_INTERLEAVED, ROPE_PAIRING_HALF].contains(&pairing) {
        return Err(dispatch.invalid(format!("there is no pairing {pairing}")));
    }
    let extent = Extent::nested(
        (tokens, args.token_stride),
        (heads, args.head_stride),
        rotary_dim,
    );
    let x: View<f32> = dispatch.view(ROPE_X, "x", extent)?;
    let positions: View<u32> =
        dispatch.view(ROPE_POSITIONS, "positions", Extent::packed(tokens))?;
    let pairs = rotary_dim / 2;
    let factors: Option<View<f32>> = match args.has_factors {
        0 => None,
        _ => Some(dispatch.view(ROPE_FACTORS, "factors", Extent::packed(pairs))?),
    };
    // A thread may turn its pair of several heads.
    dispatch.expect_points([pairs.into(), 1, tokens.into()])?;

    // The angle of position 1. Far from the start an f32 has no digits left for the angle's fraction, hence f64.
    let angles: Vec<f64> = (0..pairs as usize)
        .map(|i| {
            let exponent = -2.0 * i as f64 / f64::from(rotary_dim);
            let frequency = f64::from(args.frequency_base).powf(exponent);
            // SAFETY: `at` checked the place.
            let factor = factors.map_or(1.0, |factors| unsafe { factors.at(i, 1).read() });
            f64::from(args.frequency_scale) * frequency / f64::from(factor)
        })
        .collect();

    let separable = x.writes_once()
        && x.is_apart_from(&positions)
        && factors.is_none_or(|factors| x.is_apart_from(&factors));
    let grain = if separable {
        machine.grain(4 * heads as usize * rotary_dim as usize)
    } else {
        ALONE
    };
    machine.for_ranges(tokens as usize, grain, |tokens| {
        let [mut sin, mut cos] = [(); 2].map(|()| vec![0f32; angles.len()]);
        for token in tokens {
            machine.isa.run(Token {
                args,
                x,
                start: token * args.token_stride as usize,
                // SAFETY: `at` checked the place.
                position: f64::from(unsafe { positions.at(token, 1).read() }),
                angles: &angles,
                sin: &mut sin,
                cos: &mut cos,
            });
        }
    });
    Ok(())
}

/// Turns the heads of a token.
struct Token<'a> {
    args: rope_args,
    x: View<'a, f32>,
    start: usize,
    position: f64,
    angles: &'a [f64],
    sin: &'a mut [f32],
    cos: &'a mut [f32],
}

impl Body for Token<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, simd: S) {
        self.find_angles::<S>();
        let (rotary_dim, pairs) = (self.args.rotary_dim as usize, self.angles.len());
        for head in 0..self.args.heads as usize {
            let start = self.start + head * self.args.head_stride as usize;
            let x = self.x.at(start, rotary_dim);
            // SAFETY: `at` checked both elements of each pair, which are these.
            unsafe {
                if self.args.pairing == ROPE_PAIRING_INTERLEAVED {
                    for i in 0..pairs {
                        self.turn(i, x.add(2 * i), x.add(2 * i + 1));
                    }
                    continue;
                }
                let whole = pairs - pairs % S::LANES;
                for i in (0..whole).step_by(S::LANES) {
                    let (first, second) = (x.add(i), x.add(i + pairs));
                    let (a, b) = (simd.load(first), simd.load(second));
                    let sin = simd.load(self.sin.as_ptr().add(i));
                    let cos = simd.load(self.cos.as_ptr().add(i));
                    let minus = simd.mul(simd.splat(-1.0), sin);
                    simd.store(simd.add(simd.mul(a, cos), simd.mul(b, minus)), first);
                    simd.store(simd.add(simd.mul(a, sin), simd.mul(b, cos)), second);
                }
                for i in whole..pairs {
                    self.turn(i, x.add(i), x.add(i + pairs));
                }
            }
        }
    }
}

impl Token<'_> {
    #[inline(always)]
    fn find_angles<S: Simd>(&mut self) {
        let Token {
            position, angles, ..
        } = *self;
        let turns = self.sin.iter_mut().zip(self.cos.iter_mut());
        let mut are_small = true;
        for angle in angles {
            are_small &= (position * angle).abs() <= trigonometry::MOST;
        }
        for (angle, (sin, cos)) in angles.iter().zip(turns) {
            let (of_sin, of_cos) = match are_small {
                true => trigonometry::sin_cos::<S>(position * angle),
                false => (position * angle).sin_cos(),
            };
            (*sin, *cos) = (of_sin as f32, of_cos as f32);
        }
    }

    /// Turns pair `i`.
    ///
    /// # Safety
    /// Both are elements that nobody else reads or writes.
    #[inline(always)]
    unsafe fn turn(&self, i: usize, first: *mut f32, second: *mut f32) {
        let (sin, cos) = (self.sin[i], self.cos[i]);
        // SAFETY: the caller's promise.
        unsafe {
            let (a, b) = (first.read(), second.read());
            first.write(a * cos - b * sin);
            second.write(a * sin + b * cos);
        }
    }
}

#[cfg(test)]
pub mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::backend::cpu::testing::*;

    #[derive(Clone, Copy, Debug)]
    struct Case {
        tokens: usize,
        heads: usize,
        rotary_dim: usize,
        /// Elements of a head that are not rotated, and between tokens.
        gaps: [usize; 2],
        first_position: u32,
        pairing: u32,
        has_factors: bool,
        scale: f32,
    }

    fn check(case: Case) {
        let Case {
            tokens,
            heads,
            rotary_dim,
            ..
        } = case;
        let head_stride = rotary_dim + case.gaps[0];
        let token_stride = heads * head_stride + case.gaps[1];
        let mut numbers = Numbers::new((tokens * 100 + rotary_dim) as u64);
        let x: Vec<f32> = numbers.vec(tokens * token_stride);
        let factors: Vec<f32> = numbers.vec(rotary_dim / 2);
        let factors: Vec<f32> = factors.iter().map(|factor| factor + 2.0).collect();
        let positions: Vec<u32> = (0..tokens as u32)
            .map(|t| case.first_position + 3 * t)
            .collect();
        let base = 10_000.0;
        let args = rope_args {
            token_stride: token_stride as u64,
            head_stride: head_stride as u64,
            tokens: tokens as u32,
            heads: heads as u32,
            rotary_dim: rotary_dim as u32,
            pairing: case.pairing,
            frequency_base: base,
            frequency_scale: case.scale,
            has_factors: case.has_factors.into(),
            reserved: 0,
        };
        let run = |on: Executor| {
            let (mut x, mut positions, mut factors) =
                (x.clone(), positions.clone(), factors.clone());
            let call = Call::new("rope")
                .covering([rotary_dim / 2, heads, tokens])
                .bind(ROPE_X, &mut x)
                .bind(ROPE_POSITIONS, &mut positions);
            let call = call
                .bind(ROPE_FACTORS, &mut factors)
                .arguments(ROPE_ARGS, &args);
            call.run_on(on).expect("good arguments");
            x
        };

        let mut expected: Vec<(f64, f64)> = x.iter().map(|x| (f64::from(*x), 0.0)).collect();
        for (token, position) in positions.iter().enumerate() {
            for (head, i) in (0..heads).flat_map(|head| (0..rotary_dim / 2).map(move |i| (head, i)))
            {
                let factor = if case.has_factors {
                    factors[i].into()
                } else {
                    1.0
                };
                let frequency = f64::from(base).powf(-2.0 * i as f64 / rotary_dim as f64);
                let theta = f64::from(*position) * f64::from(case.scale) * frequency / factor;
                let start = token * token_stride + head * head_stride;
                let (first, second) = match case.pairing {
                    ROPE_PAIRING_INTERLEAVED => (start + 2 * i, start + 2 * i + 1),
                    _ => (start + i, start + i + rotary_dim / 2),
                };
                let (a, b) = (f64::from(x[first]), f64::from(x[second]));
                expected[first] = (a * theta.cos() - b * theta.sin(), theta);
                expected[second] = (a * theta.sin() + b * theta.cos(), theta);
            }
        }
        // `roundings` of an angle: its error turns both elements.
        let verify = |out: &[f32], roundings: f64| {
            for (index, (expected, theta)) in expected.iter().enumerate() {
                // Elements outside of the pairs are among these: they must be what they were.
                let tolerance = if *expected == f64::from(x[index]) {
                    0.0
                } else {
                    (6.0 + roundings * theta.abs()) * f32::ROUNDING
                };
                assert_close(
                    out[index].into(),
                    *expected,
                    tolerance,
                    format_args!("{case:?} {index}"),
                );
            }
        };
        // The native kernel computes angles in double precision. Metal has none: the power is off by 4 units, then come
        // two products and a quotient.
        on_every_machine(
            |machine| run(Executor::Native(machine)),
            |out| verify(out, 0.0),
        );
        for (order, validate) in METAL {
            verify(&run(Executor::Metal(order, validate)), 12.0);
        }
    }

    pub fn at_edge(edge: usize) {
        for pairing in [ROPE_PAIRING_INTERLEAVED, ROPE_PAIRING_HALF] {
            let case = Case {
                pairing,
                gaps: [1, 3],
                ..PLAIN
            };
            let pairs = Case {
                rotary_dim: 2 * edge,
                has_factors: true,
                ..case
            };
            let tokens = Case {
                tokens: edge,
                rotary_dim: 6,
                ..case
            };
            let heads = Case {
                heads: edge,
                rotary_dim: 6,
                ..case
            };
            for case in [pairs, tokens, heads] {
                check(case);
            }
        }
    }

    const PLAIN: Case = Case {
        tokens: 5,
        heads: 3,
        rotary_dim: 64,
        gaps: [0, 0],
        first_position: 0,
        pairing: ROPE_PAIRING_INTERLEAVED,
        has_factors: false,
        scale: 1.0,
    };

    #[test]
    fn both_pairings_with_and_without_factors() {
        for pairing in [ROPE_PAIRING_INTERLEAVED, ROPE_PAIRING_HALF] {
            for has_factors in [false, true] {
                for rotary_dim in [2, 6, 32, 64, 128] {
                    check(Case {
                        pairing,
                        has_factors,
                        rotary_dim,
                        ..PLAIN
                    });
                    check(Case {
                        pairing,
                        has_factors,
                        rotary_dim,
                        gaps: [4, 7],
                        ..PLAIN
                    });
                }
            }
        }
    }

    #[test]
    fn far_from_the_start() {
        check(Case {
            first_position: 1_000_000,
            ..PLAIN
        });
        check(Case {
            first_position: 131_072,
            scale: 0.25,
            ..PLAIN
        });
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn any_shape(
            tokens in 1usize..9, heads in 1usize..9, pairs in 1usize..70, gaps: [u8; 2],
            first_position in 0u32..100_000, half: bool, has_factors: bool, scale in 0.1f32..2.0,
        ) {
            check(Case {
                tokens,
                heads,
                rotary_dim: 2 * pairs,
                gaps: gaps.map(|gap| usize::from(gap) % 16),
                first_position,
                pairing: half.into(),
                has_factors,
                scale,
            });
        }
    }

    #[test]
    fn wrong_arguments_are_faults() {
        let good = rope_args {
            token_stride: 16,
            head_stride: 8,
            tokens: 2,
            heads: 2,
            rotary_dim: 8,
            frequency_base: 10_000.0,
            frequency_scale: 1.0,
            has_factors: 1,
            ..Default::default()
        };
        let run = |args: rope_args, lengths: [usize; 3]| {
            let (mut x, mut factors) = (vec![0f32; lengths[0]], vec![1f32; lengths[2]]);
            let mut positions = vec![0u32; lengths[1]];
            let call = Call::new("rope")
                .bind(ROPE_X, &mut x)
                .bind(ROPE_POSITIONS, &mut positions);
            let call = call
                .bind(ROPE_FACTORS, &mut factors)
                .arguments(ROPE_ARGS, &args);
            fault(call.run(&machines()[0])).0
        };
        assert_eq!(run(good, [32, 2, 4]), "ok");
        for short in [[31, 2, 4], [32, 1, 4], [32, 2, 3]] {
            assert_eq!(run(good, short), "out of bounds");
        }
        assert_eq!(
            run(
                rope_args {
                    rotary_dim: 7,
                    ..good
                },
                [32, 2, 4]
            ),
            "invalid"
        );
        assert_eq!(run(rope_args { pairing: 2, ..good }, [32, 2, 4]), "invalid");
    }
}
