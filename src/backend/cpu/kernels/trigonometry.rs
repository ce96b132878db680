//! Sine and cosine in a form that a compiler makes vectors of, which it cannot of a call into the system's library.

use super::exponential::{WHOLE, mul_add, polynomial};
use crate::backend::cpu::simd::Simd;

/// The largest angle: the upper part of π / 2 times a whole number of 20 bits is exact.
pub const MOST: f64 = 1e6;

/// The first 33 bits of π / 2, and the rest.
const HALF_PI: [f64; 2] = [1.570_796_326_734_125_6, 6.077_100_506_506_192e-11];

/// The series of sin(r) / r and of cos(r), of r². What is left out is below 2^-32 for |r| <= π / 4.
const SIN: [f64; 6] = [
    1.0,
    -1.0 / 6.0,
    1.0 / 120.0,
    -1.0 / 5040.0,
    1.0 / 362_880.0,
    -1.0 / 39_916_800.0,
];
const COS: [f64; 6] = [
    1.0,
    -1.0 / 2.0,
    1.0 / 24.0,
    -1.0 / 720.0,
    1.0 / 40320.0,
    -1.0 / 3_628_800.0,
];

/// The sine and the cosine of an angle of at most [`MOST`], off by less than 2^-32.
#[inline(always)]
pub fn sin_cos<S: Simd>(angle: f64) -> (f64, f64) {
    let shifted = mul_add::<S>(angle, std::f64::consts::FRAC_2_PI, WHOLE);
    let quarters = shifted - WHOLE;
    let r = mul_add::<S>(quarters, -HALF_PI[0], angle);
    let r = mul_add::<S>(quarters, -HALF_PI[1], r);
    let square = r * r;
    let (sin, cos) = (
        r * polynomial::<S, _>(&SIN, square),
        polynomial::<S, _>(&COS, square),
    );
    // Of each quarter turn the sine becomes the cosine, and the cosine the negated sine.
    let quarter = shifted.to_bits();
    let (sin, cos) = match quarter & 1 {
        0 => (sin, cos),
        _ => (cos, sin),
    };
    let negate = |x: f64, negative: u64| f64::from_bits(x.to_bits() ^ (negative << 63));
    (
        negate(sin, quarter >> 1 & 1),
        negate(cos, (quarter + 1) >> 1 & 1),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::cpu::simd::{Body, Isa};

    struct Of(f64);

    impl Body for Of {
        type Output = (f64, f64);

        #[inline(always)]
        fn run<S: Simd>(self, _: S) -> (f64, f64) {
            sin_cos::<S>(self.0)
        }
    }

    #[test]
    fn all_quarters_of_small_and_large_angles() {
        for isa in Isa::available() {
            let check = |angle: f64| {
                let found = isa.run(Of(angle));
                let off = [found.0 - angle.sin(), found.1 - angle.cos()];
                let bound = 2f64.powi(-32);
                assert!(off.iter().all(|off| off.abs() < bound), "{angle}: {off:?}");
            };
            for i in -40_000..=40_000 {
                check(f64::from(i) * 1e-3);
                check(f64::from(i) * (MOST / 40_000.0));
            }
            // Near the multiples of π / 4, where a quarter begins and where a result is 0.
            for i in -1000..=1000 {
                for distance in [-1e-9, 0.0, 1e-9] {
                    check(f64::from(i) * std::f64::consts::FRAC_PI_4 + distance);
                }
            }
        }
    }
}
