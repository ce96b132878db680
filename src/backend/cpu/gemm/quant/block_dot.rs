//! Dot products of small integers with the two bytes of an activation.

use crate::backend::cpu::simd::Simd;

/// Sums of products of B's integers with a few rows of A's of 15 bits.
#[derive(Clone, Copy)]
pub struct Products<S: Simd> {
    /// With A's second plane; with both where they are pairs ([`Simd::PAIRS`]).
    lower: S::Ints,
    /// With A's first plane.
    upper: S::Ints,
}

impl<S: Simd> Products<S> {
    #[inline(always)]
    pub fn new(simd: S, start: i32) -> Products<S> {
        Products {
            lower: simd.splat_int(start),
            upper: simd.splat_int(0),
        }
    }

    /// Adds the products of four integers of B in each lane with as many of A, of both planes. `signed` is as for
    /// [`dot`].
    #[inline(always)]
    pub fn add(self, simd: S, signed: bool, b: S::Bytes, a: [S::Bytes; 2]) -> Products<S> {
        if S::PAIRS {
            let b = simd.pairs(signed, b);
            let first = simd.dot_pairs(self.lower, b[0], a[0]);
            return Products {
                lower: simd.dot_pairs(first, b[1], a[1]),
                ..self
            };
        }
        Products {
            lower: dot(simd, signed, self.lower, b, a[1]),
            upper: dot(simd, signed, self.upper, b, a[0]),
        }
    }

    #[inline(always)]
    pub fn total(self, simd: S) -> S::Vector {
        simd.to_float(match S::PAIRS {
            true => self.lower,
            false => simd.plus_128(self.lower, self.upper),
        })
    }
}

/// Sums + the products of bytes of B, made with `Simd::signed` where its type is signed, and of A.
#[inline(always)]
pub fn dot<S: Simd>(simd: S, signed: bool, sums: S::Ints, b: S::Bytes, a: S::Bytes) -> S::Ints {
    match signed {
        true => simd.dot_signed(sums, b, a),
        false => simd.dot(sums, b, a),
    }
}
