//! e^x and tanh in a form that a compiler makes vectors of, which it cannot of a call into the system's library.

/// Adding it rounds to a whole number, which is then in the lower bits.
const WHOLE: f64 = 1.5 * (1u64 << 52) as f64;

/// e^x, off by little more than half a unit in the last place: computed in f64 and rounded once.
#[inline(always)]
pub fn exp(x: f32) -> f32 {
    /// Beyond these the result is 0 and infinity. Comparisons that NaN passes unchanged.
    const LEAST: f64 = -104.0;
    const MOST: f64 = 89.0;
    let x = f64::from(x);
    let x = if x < LEAST { LEAST } else { x };
    let x = if x > MOST { MOST } else { x };
    // e^x = 2^n · e^r, |r| <= ln 2 / 2: the first term of the series that is left out is r^9 / 9! < 2^-32.
    let shifted = x * std::f64::consts::LOG2_E + WHOLE;
    let r = x - (shifted - WHOLE) * std::f64::consts::LN_2;
    let mut sum = 1.0 / 40320.0;
    for factorial in [5040.0, 720.0, 120.0, 24.0, 6.0, 2.0, 1.0, 1.0] {
        sum = sum * r + 1.0 / factorial;
    }
    let power = f64::from_bits(shifted.to_bits().wrapping_add(1023) << 52);
    (sum * power) as f32
}

/// tanh(x), off by little more than half a unit in the last place: computed in f64 and rounded once.
#[inline(always)]
pub fn tanh(x: f32) -> f32 {
    /// Beyond it the result is 1.
    const MOST: f64 = 20.0;
    let given = f64::from(x);
    let x = if given < -MOST { -MOST } else { given };
    let twice = 2.0 * if x > MOST { MOST } else { x };
    // e^2x - 1 = 2^n · (e^r - 1) + (2^n - 1): where x is small n is 0, and nothing cancels. The first term of (e^r - 1)
    // / r that is left out is r^8 / 9! < 2^-30.
    let shifted = twice * std::f64::consts::LOG2_E + WHOLE;
    let r = twice - (shifted - WHOLE) * std::f64::consts::LN_2;
    let mut sum = 1.0 / 40320.0;
    for factorial in [5040.0, 720.0, 120.0, 24.0, 6.0, 2.0, 1.0] {
        sum = sum * r + 1.0 / factorial;
    }
    let power = f64::from_bits(shifted.to_bits().wrapping_add(1023) << 52);
    let grown = power * (sum * r) + (power - 1.0);
    (grown / (grown + 2.0)).copysign(given) as f32
}

#[cfg(test)]
mod tests {
    use super::{exp, tanh};

    /// Holds a function to the nearest number, or one beside an exact half, which an error of `tip` units can tip, at
    /// every 997th number: all exponents, both signs.
    fn is_nearest(function: impl Fn(f32) -> f32, exact: impl Fn(f64) -> f64, tip: f64) {
        for bits in (0..=u32::MAX).step_by(997) {
            let x = f32::from_bits(bits);
            let (found, exact) = (function(x), exact(f64::from(x)));
            if x.is_nan() {
                assert!(found.is_nan());
                continue;
            }
            let nearest = exact as f32;
            if found.to_bits() == nearest.to_bits() {
                continue;
            }
            let unit = f64::from((found - nearest).abs());
            let off = (f64::from(found) - exact).abs();
            assert!(off <= (0.5 + tip) * unit, "{x:?}: {found:?}, {exact:?}");
        }
    }

    #[test]
    fn tanh_is_the_nearest_number_or_one_beside_an_exact_half() {
        // The series leaves out 2^-30 of a value of fewer than 2^24 units.
        is_nearest(tanh, f64::tanh, 1.0 / 64.0);
        let zero = tanh(-0.0);
        assert!(zero == 0.0 && zero.is_sign_negative());
        assert_eq!([tanh(f32::INFINITY), tanh(f32::NEG_INFINITY)], [1.0, -1.0]);
    }

    #[test]
    fn it_is_the_nearest_number_or_one_beside_an_exact_half() {
        // The series leaves out 2^-32 of a value of fewer than 2^24 units.
        is_nearest(exp, f64::exp, 1.0 / 256.0);
    }

    #[test]
    fn the_ends_are_exact() {
        for (x, expected) in [
            (0.0, 1.0),
            (-0.0, 1.0),
            (f32::INFINITY, f32::INFINITY),
            (f32::NEG_INFINITY, 0.0),
            (f32::MAX, f32::INFINITY),
            (f32::MIN, 0.0),
            (88.73, f32::INFINITY),
            (-103.98, 0.0),
            (-103.9, f32::from_bits(1)),
        ] {
            assert_eq!(exp(x), expected, "{x}");
        }
    }
}
