//! Any processor: arrays that the compiler turns into whatever vectors the target's baseline has.

use half::{bf16, f16};

use super::Simd;

const LANES: usize = 8;

#[derive(Clone, Copy, Debug)]
pub struct Portable;

impl Simd for Portable {
    type Vector = [f32; LANES];
    const LANES: usize = LANES;

    #[inline(always)]
    fn splat(self, value: f32) -> [f32; LANES] {
        [value; LANES]
    }

    #[inline(always)]
    fn add(self, a: [f32; LANES], b: [f32; LANES]) -> [f32; LANES] {
        std::array::from_fn(|lane| a[lane] + b[lane])
    }

    #[inline(always)]
    fn mul(self, a: [f32; LANES], b: [f32; LANES]) -> [f32; LANES] {
        std::array::from_fn(|lane| a[lane] * b[lane])
    }

    #[inline(always)]
    fn mul_add(self, a: [f32; LANES], b: [f32; LANES], c: [f32; LANES]) -> [f32; LANES] {
        // `f32::mul_add` is a function call where the baseline has no such instruction.
        std::array::from_fn(|lane| a[lane] * b[lane] + c[lane])
    }

    #[inline(always)]
    fn sum(self, a: [f32; LANES]) -> f32 {
        let halves: [f32; 4] = std::array::from_fn(|lane| a[lane] + a[lane + 4]);
        (halves[0] + halves[2]) + (halves[1] + halves[3])
    }

    #[inline(always)]
    unsafe fn load(self, from: *const f32) -> [f32; LANES] {
        // SAFETY: the caller's promise.
        unsafe { from.cast::<[f32; LANES]>().read() }
    }

    #[inline(always)]
    unsafe fn load_f16(self, from: *const f16) -> [f32; LANES] {
        // SAFETY: the caller's promise; f16 is its bits.
        unsafe { from.cast::<[u16; LANES]>().read() }.map(widen_f16)
    }

    #[inline(always)]
    unsafe fn load_bf16(self, from: *const bf16) -> [f32; LANES] {
        // SAFETY: the caller's promise; bf16 is its bits, the upper half of an f32's.
        unsafe { from.cast::<[u16; LANES]>().read() }
            .map(|bits| f32::from_bits(u32::from(bits) << 16))
    }

    #[inline(always)]
    unsafe fn load_i8(self, from: *const i8) -> [f32; LANES] {
        // SAFETY: the caller's promise.
        unsafe { from.cast::<[i8; LANES]>().read() }.map(f32::from)
    }

    #[inline(always)]
    unsafe fn store(self, a: [f32; LANES], to: *mut f32) {
        // SAFETY: the caller's promise.
        unsafe { to.cast::<[f32; LANES]>().write(a) }
    }

    #[inline(always)]
    unsafe fn store_f16(self, a: [f32; LANES], to: *mut f16) {
        // SAFETY: the caller's promise.
        unsafe { to.cast::<[f16; LANES]>().write(a.map(f16::from_f32)) }
    }

    #[inline(always)]
    unsafe fn store_bf16(self, a: [f32; LANES], to: *mut bf16) {
        // SAFETY: the caller's promise.
        unsafe { to.cast::<[bf16; LANES]>().write(a.map(narrow_bf16)) }
    }
}

/// The value of a half with these bits, without a branch, so that a loop of it becomes vectors.
#[inline(always)]
pub fn widen_f16(bits: u16) -> f32 {
    /// What the exponent biases of the two types, 127 and 15, differ by, as a factor. It also makes subnormal halves normal.
    const REBIAS: f32 = f32::from_bits((127 + 127 - 15) << 23);
    let magnitude = u32::from(bits & 0x7fff) << 13;
    let finite = (f32::from_bits(magnitude) * REBIAS).to_bits();
    let special = magnitude | 0x7f80_0000; // infinity or NaN
    let sign = u32::from(bits & 0x8000) << 16;
    f32::from_bits(
        sign | if magnitude >= 0x0f80_0000 {
            special
        } else {
            finite
        },
    )
}

/// The nearest bfloat16, ties to even, without a branch.
#[inline(always)]
pub fn narrow_bf16(value: f32) -> bf16 {
    let bits = value.to_bits();
    let rounded = (bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16) as u16;
    let quiet = (bits >> 16) as u16 | 0x40; // adding could turn a NaN into an infinity
    bf16::from_bits(if value.is_nan() { quiet } else { rounded })
}
