//! e^x and tanh in a form that a compiler makes vectors of, which it cannot of a call into the system's library.

use crate::backend::cpu::simd::Simd;

/// Adding it rounds to a whole number, which is then in the lower bits.
pub const WHOLE: f64 = 1.5 * (1u64 << 52) as f64;

/// Minimax polynomial (Remez) of e^r for |r| <= ln 2 / 2, lowest power first: off by a factor of 1 + 2^-34.
const EXP: [f64; 8] = [
    0.999_999_999_961_679_3,
    1.000_000_000_024_308_4,
    0.500_000_010_453_831_4,
    0.166_666_651_261_634_8,
    0.041_666_225_421_037_44,
    0.008_333_561_084_889_894,
    0.001_394_818_358_155_116_4,
    0.000_197_751_750_473_482_18,
];

/// The same of (e^2r - 1) / r for |r| <= ln 2 / 4: off by a factor of 1 + 2^-32.
const GROWTH: [f64; 7] = [
    2.000_000_000_062_379_4,
    2.000_000_018_660_964,
    1.333_333_299_967_670_8,
    0.666_661_671_161_729,
    0.266_668_893_092_622_76,
    0.089_222_432_724_551_26,
    0.025_396_793_396_816_917,
];

/// a · b + c, rounded once where that is one instruction.
#[inline(always)]
pub fn mul_add<S: Simd>(a: f64, b: f64, c: f64) -> f64 {
    match S::FUSED {
        true => a.mul_add(b, c),
        false => a * b + c,
    }
}

/// The polynomial with these factors, the one of the lowest power first.
#[inline(always)]
pub fn polynomial<S: Simd, const N: usize>(factors: &[f64; N], x: f64) -> f64 {
    let mut sum = factors[N - 1];
    for factor in factors.iter().rev().skip(1) {
        sum = mul_add::<S>(sum, x, *factor);
    }
    sum
}

/// 2^n of a number n to which [`WHOLE`] was added.
#[inline(always)]
fn power(shifted: f64) -> f64 {
    f64::from_bits(shifted.to_bits().wrapping_add(1023) << 52)
}

/// e^x, off by little more than half a unit in the last place: computed in f64 and rounded once.
#[inline(always)]
pub fn exp<S: Simd>(x: f32) -> f32 {
    /// Beyond these the result is 0 and infinity. Comparisons that NaN passes unchanged.
    const LEAST: f32 = -104.0;
    const MOST: f32 = 89.0;
    let x = if x < LEAST { LEAST } else { x };
    let x = f64::from(if x > MOST { MOST } else { x });
    // e^x = 2^n · e^r, |r| <= ln 2 / 2.
    let shifted = mul_add::<S>(x, std::f64::consts::LOG2_E, WHOLE);
    let r = mul_add::<S>(shifted - WHOLE, -std::f64::consts::LN_2, x);
    (polynomial::<S, _>(&EXP, r) * power(shifted)) as f32
}

/// tanh(x), off by little more than half a unit in the last place: computed in f64 and rounded once.
#[inline(always)]
pub fn tanh<S: Simd>(given: f32) -> f32 {
    /// Beyond it the result is 1.
    const MOST: f32 = 20.0;
    let x = if given < -MOST { -MOST } else { given };
    let x = f64::from(if x > MOST { MOST } else { x });
    // e^2x - 1 = 2^n · (e^2r - 1) + (2^n - 1), |r| <= ln 2 / 4: where x is small n is 0, and nothing cancels.
    let shifted = mul_add::<S>(x, 2.0 * std::f64::consts::LOG2_E, WHOLE);
    let r = mul_add::<S>(shifted - WHOLE, -0.5 * std::f64::consts::LN_2, x);
    let power = power(shifted);
    let grown = mul_add::<S>(power, polynomial::<S, _>(&GROWTH, r) * r, power - 1.0);
    ((grown / (grown + 2.0)) as f32).copysign(given)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::cpu::simd::{Body, Isa};

    #[derive(Clone, Copy)]
    enum Function {
        Exp,
        Tanh,
    }

    struct Of(Function, f32);

    impl Body for Of {
        type Output = f32;

        #[inline(always)]
        fn run<S: Simd>(self, _: S) -> f32 {
            match self.0 {
                Function::Exp => exp::<S>(self.1),
                Function::Tanh => tanh::<S>(self.1),
            }
        }
    }

    /// Calls `check` with the function on each instruction set.
    fn everywhere(function: Function, check: impl Fn(&dyn Fn(f32) -> f32)) {
        for isa in Isa::available() {
            check(&|x| isa.run(Of(function, x)));
        }
    }

    /// Holds a function to the nearest number, or one beside an exact half, which an error of `tip` units can tip, at
    /// every 997th number: all exponents, both signs.
    fn is_nearest(function: &dyn Fn(f32) -> f32, exact: impl Fn(f64) -> f64, tip: f64) {
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
        // 2^-32 of e^2x - 1 is less than 2^-30 of a value of fewer than 2^24 units.
        everywhere(Function::Tanh, |tanh| {
            is_nearest(tanh, f64::tanh, 1.0 / 64.0);
            let zero = tanh(-0.0);
            assert!(zero == 0.0 && zero.is_sign_negative());
            assert_eq!([tanh(f32::INFINITY), tanh(f32::NEG_INFINITY)], [1.0, -1.0]);
        });
    }

    #[test]
    fn it_is_the_nearest_number_or_one_beside_an_exact_half() {
        // 2^-34 of a value of fewer than 2^24 units.
        everywhere(Function::Exp, |exp| {
            is_nearest(exp, f64::exp, 1.0 / 256.0);
        });
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
            everywhere(Function::Exp, |exp| assert_eq!(exp(x), expected, "{x}"));
        }
    }
}
