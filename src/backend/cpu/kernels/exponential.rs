//! e^x in a form that a compiler makes vectors of, which it cannot of a call into the system's library.

/// e^x, off by little more than half a unit in the last place: computed in f64 and rounded once.
#[inline(always)]
pub fn exp(x: f32) -> f32 {
    /// Beyond these the result is 0 and infinity. Comparisons that NaN passes unchanged.
    const LEAST: f64 = -104.0;
    const MOST: f64 = 89.0;
    /// Adding it rounds to a whole number, which is then in the lower bits.
    const WHOLE: f64 = 1.5 * (1u64 << 52) as f64;
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

#[cfg(test)]
mod tests {
    use super::exp;

    #[test]
    fn it_is_the_nearest_number_or_one_beside_an_exact_half() {
        // Every 997th number: all exponents, both signs.
        for bits in (0..=u32::MAX).step_by(997) {
            let x = f32::from_bits(bits);
            let exact = f64::from(x).exp();
            let found = exp(x);
            if x.is_nan() {
                assert!(found.is_nan());
                continue;
            }
            let nearest = exact as f32;
            if found.to_bits() == nearest.to_bits() {
                continue;
            }
            // What the series leaves out, 2^-32 of a value of fewer than 2^24 units, can tip an exact half.
            let unit = f64::from((found - nearest).abs());
            let off = (f64::from(found) - exact).abs();
            assert!(
                off <= (0.5 + 1.0 / 256.0) * unit,
                "{x:?}: {found:?}, {exact:?}"
            );
        }
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
