//! Dot products of small integers with the two bytes of an activation.

use crate::backend::cpu::simd::Simd;

/// Sums of products of B's integers with a few rows of A's of 15 bits.
#[derive(Clone, Copy)]
pub struct DotSums<S: Simd> {
    /// With A's second plane; with both where they are pairs ([`Simd::I16_MADD`]).
    lower: S::Ints,
    /// With A's first plane.
    upper: S::Ints,
}

impl<S: Simd> DotSums<S> {
    #[inline(always)]
    pub fn new(simd: S, start: i32) -> DotSums<S> {
        DotSums {
            lower: simd.splat_int(start),
            upper: simd.splat_int(0),
        }
    }

    /// Adds the products of four integers of B in each lane with as many of A, of both planes. `signed` is as for
    /// [`dot`].
    #[inline(always)]
    pub fn add(self, simd: S, signed: bool, b: S::Bytes, a: [S::Bytes; 2]) -> DotSums<S> {
        if S::I16_MADD {
            let b = simd.widen_i16(signed, b);
            let first = simd.madd_i16(self.lower, b[0], a[0]);
            return DotSums {
                lower: simd.madd_i16(first, b[1], a[1]),
                ..self
            };
        }
        DotSums {
            lower: dot(simd, signed, self.lower, b, a[1]),
            upper: dot(simd, signed, self.upper, b, a[0]),
        }
    }

    #[inline(always)]
    pub fn total(self, simd: S) -> S::Vector {
        simd.to_float(match S::I16_MADD {
            true => self.lower,
            false => simd.mul128_add(self.lower, self.upper),
        })
    }
}

/// Sums + the products of bytes of B, made with `Simd::bias_group` where its type is signed, and of A.
#[inline(always)]
pub fn dot<S: Simd>(simd: S, signed: bool, sums: S::Ints, b: S::Bytes, a: S::Bytes) -> S::Ints {
    match signed {
        true => simd.dot_signed(sums, b, a),
        false => simd.dot(sums, b, a),
    }
}
