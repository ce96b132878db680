//! NEON, which every aarch64 processor has, without and with the instruction for dot products of bytes, which most
//! have.

use std::arch::{aarch64::*, asm, is_aarch64_feature_detected};

use half::{bf16, f16};

use super::Simd;
use super::portable::{interleave, narrow_bf16, widen_f16};

/// Calls intrinsics of the architecture's baseline.
macro_rules! baseline {
    ($($code:tt)*) => {
        // SAFETY: NEON is part of the target; pointers are the caller's promise.
        unsafe { $($code)* }
    };
}

/// 8 lanes, in two registers: a group of 32 bytes has as many integers.
#[derive(Clone, Copy, Debug)]
pub struct Neon<const DOT_PRODUCTS: bool>(());

impl Neon<false> {
    pub fn new() -> Neon<false> {
        Neon(())
    }
}

impl Neon<true> {
    pub fn new() -> Option<Neon<true>> {
        is_aarch64_feature_detected!("dotprod").then_some(Neon(()))
    }
}

/// What an intrinsic makes of both registers.
macro_rules! both {
    ($with:ident($($a:expr),*)) => {
        baseline!(float32x4x2_t($with($($a.0),*), $with($($a.1),*)))
    };
}

impl<const DOT_PRODUCTS: bool> Simd for Neon<DOT_PRODUCTS> {
    type Vector = float32x4x2_t;
    const LANES: usize = 8;
    const REGISTERS: usize = 16;
    const FUSED: bool = true;

    #[inline(always)]
    fn splat(self, value: f32) -> float32x4x2_t {
        baseline!(float32x4x2_t(vdupq_n_f32(value), vdupq_n_f32(value)))
    }

    #[inline(always)]
    fn add(self, a: float32x4x2_t, b: float32x4x2_t) -> float32x4x2_t {
        both!(vaddq_f32(a, b))
    }

    #[inline(always)]
    fn mul(self, a: float32x4x2_t, b: float32x4x2_t) -> float32x4x2_t {
        both!(vmulq_f32(a, b))
    }

    #[inline(always)]
    fn mul_add(self, a: float32x4x2_t, b: float32x4x2_t, c: float32x4x2_t) -> float32x4x2_t {
        both!(vfmaq_f32(c, a, b))
    }

    #[inline(always)]
    fn sum(self, a: float32x4x2_t) -> f32 {
        baseline!(vaddvq_f32(vaddq_f32(a.0, a.1)))
    }

    #[inline(always)]
    unsafe fn load(self, from: *const f32) -> float32x4x2_t {
        baseline!(float32x4x2_t(vld1q_f32(from), vld1q_f32(from.add(4))))
    }

    #[inline(always)]
    unsafe fn load_f16(self, from: *const f16) -> float32x4x2_t {
        baseline! {
            let lanes = from.cast::<[u16; 8]>().read().map(widen_f16);
            self.load(lanes.as_ptr())
        }
    }

    #[inline(always)]
    unsafe fn load_bf16(self, from: *const bf16) -> float32x4x2_t {
        baseline! {
            let halves = vld1q_u16(from.cast());
            float32x4x2_t(
                vreinterpretq_f32_u32(vshll_n_u16::<16>(vget_low_u16(halves))),
                vreinterpretq_f32_u32(vshll_n_u16::<16>(vget_high_u16(halves))),
            )
        }
    }

    #[inline(always)]
    unsafe fn load_i8(self, from: *const i8) -> float32x4x2_t {
        baseline! {
            let wide = vmovl_s8(vld1_s8(from));
            float32x4x2_t(
                vcvtq_f32_s32(vmovl_s16(vget_low_s16(wide))),
                vcvtq_f32_s32(vmovl_s16(vget_high_s16(wide))),
            )
        }
    }

    #[inline(always)]
    unsafe fn store(self, a: float32x4x2_t, to: *mut f32) {
        baseline! {
            vst1q_f32(to, a.0);
            vst1q_f32(to.add(4), a.1)
        }
    }

    #[inline(always)]
    unsafe fn store_f16(self, a: float32x4x2_t, to: *mut f16) {
        baseline! {
            let mut lanes = [0f32; 8];
            self.store(a, lanes.as_mut_ptr());
            to.cast::<[f16; 8]>().write(lanes.map(f16::from_f32))
        }
    }

    #[inline(always)]
    unsafe fn store_bf16(self, a: float32x4x2_t, to: *mut bf16) {
        baseline! {
            let mut lanes = [0f32; 8];
            self.store(a, lanes.as_mut_ptr());
            to.cast::<[bf16; 8]>().write(lanes.map(narrow_bf16))
        }
    }

    type Ints = int32x4x2_t;
    type Bytes = int8x16x2_t;
    type Group = int8x16x2_t;
    const SIGNED_BIAS: i32 = 0;

    #[inline(always)]
    fn splat_int(self, value: i32) -> int32x4x2_t {
        baseline!(int32x4x2_t(vdupq_n_s32(value), vdupq_n_s32(value)))
    }

    #[inline(always)]
    fn mul128_add(self, a: int32x4x2_t, b: int32x4x2_t) -> int32x4x2_t {
        baseline!(int32x4x2_t(
            vaddq_s32(a.0, vshlq_n_s32::<7>(b.0)),
            vaddq_s32(a.1, vshlq_n_s32::<7>(b.1))
        ))
    }

    #[inline(always)]
    fn to_float(self, a: int32x4x2_t) -> float32x4x2_t {
        both!(vcvtq_f32_s32(a))
    }

    #[inline(always)]
    fn dot(self, sums: int32x4x2_t, a: int8x16x2_t, b: int8x16x2_t) -> int32x4x2_t {
        match DOT_PRODUCTS {
            // SAFETY: only a processor that has the instruction makes a `Neon<true>`.
            true => unsafe { int32x4x2_t(sdot(sums.0, a.0, b.0), sdot(sums.1, a.1, b.1)) },
            false => baseline!(int32x4x2_t(
                vaddq_s32(sums.0, fours(a.0, b.0)),
                vaddq_s32(sums.1, fours(a.1, b.1))
            )),
        }
    }

    #[inline(always)]
    fn dot_signed(self, sums: int32x4x2_t, a: int8x16x2_t, b: int8x16x2_t) -> int32x4x2_t {
        self.dot(sums, a, b)
    }

    #[inline(always)]
    fn splat_i16(self, value: i16) -> int8x16x2_t {
        let both = baseline!(vreinterpretq_s8_s16(vdupq_n_s16(value)));
        int8x16x2_t(both, both)
    }

    #[inline(always)]
    fn maddubs_i16(self, sums: int8x16x2_t, a: int8x16x2_t, b: int8x16x2_t) -> int8x16x2_t {
        int8x16x2_t(shorts(sums.0, a.0, b.0), shorts(sums.1, a.1, b.1))
    }

    const I16_MADD: bool = false;

    #[inline(always)]
    fn widen_i16(self, signed: bool, a: int8x16x2_t) -> [int8x16x2_t; 2] {
        [
            int8x16x2_t(even(signed, a.0), even(signed, a.1)),
            int8x16x2_t(odd(signed, a.0), odd(signed, a.1)),
        ]
    }

    #[inline(always)]
    fn madd_i16(self, sums: int32x4x2_t, a: int8x16x2_t, b: int8x16x2_t) -> int32x4x2_t {
        baseline!(int32x4x2_t(
            vaddq_s32(sums.0, twos(a.0, b.0)),
            vaddq_s32(sums.1, twos(a.1, b.1))
        ))
    }

    #[inline(always)]
    fn bias_group(self, a: int8x16x2_t) -> int8x16x2_t {
        a
    }

    #[inline(always)]
    fn extract_bits(self, a: int8x16x2_t, shift: u32, mask: u8) -> int8x16x2_t {
        baseline! {
            let (down, mask) = (vdupq_n_s8(-(shift as i8)), vdupq_n_u8(mask));
            int8x16x2_t(
                vreinterpretq_s8_u8(vandq_u8(vshlq_u8(vreinterpretq_u8_s8(a.0), down), mask)),
                vreinterpretq_s8_u8(vandq_u8(vshlq_u8(vreinterpretq_u8_s8(a.1), down), mask)),
            )
        }
    }

    #[inline(always)]
    fn insert_bits(self, a: int8x16x2_t, shift: u32, b: int8x16x2_t) -> int8x16x2_t {
        baseline! {
            let up = vdupq_n_s8(shift as i8);
            int8x16x2_t(
                vorrq_s8(vshlq_s8(a.0, up), b.0),
                vorrq_s8(vshlq_s8(a.1, up), b.1),
            )
        }
    }

    #[inline(always)]
    fn bias_bytes(self, a: int8x16x2_t) -> int8x16x2_t {
        a
    }

    #[inline(always)]
    fn shift_mask(self, a: int8x16x2_t, right: i32, mask: u8) -> int8x16x2_t {
        baseline! {
            let (down, mask) = (vdupq_n_s8(-right as i8), vdupq_n_u8(mask));
            int8x16x2_t(
                vreinterpretq_s8_u8(vandq_u8(vshlq_u8(vreinterpretq_u8_s8(a.0), down), mask)),
                vreinterpretq_s8_u8(vandq_u8(vshlq_u8(vreinterpretq_u8_s8(a.1), down), mask)),
            )
        }
    }

    #[inline(always)]
    fn or(self, a: int8x16x2_t, b: int8x16x2_t) -> int8x16x2_t {
        baseline!(int8x16x2_t(vorrq_s8(a.0, b.0), vorrq_s8(a.1, b.1)))
    }

    #[inline(always)]
    fn unsigned_byte(self, a: int8x16x2_t, byte: usize) -> float32x4x2_t {
        baseline! {
            let (down, mask) = (vdupq_n_s32(-8 * byte as i32), vdupq_n_u32(255));
            let lanes = |a| vandq_u32(vshlq_u32(vreinterpretq_u32_s8(a), down), mask);
            float32x4x2_t(vcvtq_f32_u32(lanes(a.0)), vcvtq_f32_u32(lanes(a.1)))
        }
    }

    #[inline(always)]
    fn signed_byte(self, a: int8x16x2_t, byte: usize) -> float32x4x2_t {
        baseline! {
            let up = vdupq_n_s32(24 - 8 * byte as i32);
            let lanes = |a| vshrq_n_s32::<24>(vshlq_s32(vreinterpretq_s32_s8(a), up));
            float32x4x2_t(vcvtq_f32_s32(lanes(a.0)), vcvtq_f32_s32(lanes(a.1)))
        }
    }

    #[inline(always)]
    fn shuffle_lut(self, a: int8x16x2_t, table: &[i8; 16]) -> int8x16x2_t {
        baseline! {
            let table = vld1q_s8(table.as_ptr());
            int8x16x2_t(
                vqtbl1q_s8(table, vreinterpretq_u8_s8(a.0)),
                vqtbl1q_s8(table, vreinterpretq_u8_s8(a.1)),
            )
        }
    }

    #[inline(always)]
    fn shuffle_bytes_lut(self, a: int8x16x2_t, table: &[i8; 16]) -> int8x16x2_t {
        self.shuffle_lut(a, table)
    }

    #[inline(always)]
    unsafe fn load_u16(self, from: *const u16) -> int8x16x2_t {
        // SAFETY: the caller's promise.
        let halves = unsafe { from.cast::<[u16; 8]>().read_unaligned() };
        baseline! {
            let halves = vld1q_u16(halves.as_ptr());
            int8x16x2_t(
                vreinterpretq_s8_u32(vmovl_u16(vget_low_u16(halves))),
                vreinterpretq_s8_u32(vmovl_high_u16(halves)),
            )
        }
    }

    #[inline(always)]
    fn concat(self, first: int8x16x2_t, _: int8x16x2_t) -> int8x16x2_t {
        first
    }

    #[inline(always)]
    unsafe fn load_bytes(self, from: *const i8) -> int8x16x2_t {
        baseline!(int8x16x2_t(vld1q_s8(from), vld1q_s8(from.add(16))))
    }

    #[inline(always)]
    unsafe fn store_bytes(self, a: int8x16x2_t, to: *mut i8) {
        baseline! {
            vst1q_s8(to, a.0);
            vst1q_s8(to.add(16), a.1)
        }
    }

    #[inline(always)]
    unsafe fn splat_bytes(self, from: *const i8) -> int8x16x2_t {
        baseline! {
            let four = vreinterpretq_s8_s32(vdupq_n_s32(from.cast::<i32>().read_unaligned()));
            int8x16x2_t(four, four)
        }
    }

    #[inline(always)]
    unsafe fn load_group(self, from: *const u8) -> int8x16x2_t {
        baseline!(self.load_bytes(from.cast()))
    }

    #[inline(always)]
    unsafe fn load_nibbles(self, from: *const u8) -> int8x16x2_t {
        baseline! {
            let bytes = vld1q_u8(from);
            int8x16x2_t(
                vreinterpretq_s8_u8(vandq_u8(bytes, vdupq_n_u8(15))),
                vreinterpretq_s8_u8(vshrq_n_u8::<4>(bytes)),
            )
        }
    }

    #[inline(always)]
    unsafe fn broadcast_groups<const EACH: usize>(self, from: *const f32) -> float32x4x2_t {
        baseline!(float32x4x2_t(
            vdupq_n_f32(from.read()),
            vdupq_n_f32(from.add(4 / EACH).read())
        ))
    }

    #[inline(always)]
    unsafe fn interleave(self, groups: [int8x16x2_t; 8], to: *mut i8, stride: usize) {
        baseline! {
            let mut bytes = [[0i8; 32]; 8];
            for i in 0..8 {
                vst1q_s8(bytes[i].as_mut_ptr(), groups[i].0);
                vst1q_s8(bytes[i].as_mut_ptr().add(16), groups[i].1);
            }
            interleave(bytes, to, stride)
        }
    }
}

/// The sums of four neighbouring products each.
#[inline(always)]
fn fours(a: int8x16_t, b: int8x16_t) -> int32x4_t {
    baseline! {
        let low = vmull_s8(vget_low_s8(a), vget_low_s8(b));
        let high = vmull_high_s8(a, b);
        vpaddq_s32(vpaddlq_s16(low), vpaddlq_s16(high))
    }
}

/// sums + two neighbouring products each, in 16 bits.
#[inline(always)]
fn shorts(sums: int8x16_t, a: int8x16_t, b: int8x16_t) -> int8x16_t {
    baseline! {
        let low = vmull_s8(vget_low_s8(a), vget_low_s8(b));
        let products = vpaddq_s16(low, vmull_high_s8(a, b));
        vreinterpretq_s8_s16(vaddq_s16(vreinterpretq_s16_s8(sums), products))
    }
}

/// The sums of two neighbouring products each, of integers of 16 bits.
#[inline(always)]
fn twos(a: int8x16_t, b: int8x16_t) -> int32x4_t {
    baseline! {
        let (a, b) = (vreinterpretq_s16_s8(a), vreinterpretq_s16_s8(b));
        let low = vmull_s16(vget_low_s16(a), vget_low_s16(b));
        vpaddq_s32(low, vmull_high_s16(a, b))
    }
}

/// Bytes 0, 2, 4 … as integers of 16 bits.
#[inline(always)]
fn even(signed: bool, a: int8x16_t) -> int8x16_t {
    baseline! {
        let up = vshlq_n_s16::<8>(vreinterpretq_s16_s8(a));
        odd(signed, vreinterpretq_s8_s16(up))
    }
}

/// Bytes 1, 3, 5 … as integers of 16 bits.
#[inline(always)]
fn odd(signed: bool, a: int8x16_t) -> int8x16_t {
    baseline! {
        match signed {
            true => vreinterpretq_s8_s16(vshrq_n_s16::<8>(vreinterpretq_s16_s8(a))),
            false => vreinterpretq_s8_u16(vshrq_n_u16::<8>(vreinterpretq_u16_s8(a))),
        }
    }
}

/// sums + the sums of four neighbouring products each. `vdotq_s32` is stable since Rust 1.98 only.
///
/// # Safety
/// The processor has dot products.
#[inline(always)]
unsafe fn sdot(mut sums: int32x4_t, a: int8x16_t, b: int8x16_t) -> int32x4_t {
    // SAFETY: the instruction computes with these registers and does nothing else; that it exists is the caller's
    // promise.
    unsafe {
        asm!(
            ".arch_extension dotprod",
            "sdot {sums:v}.4s, {a:v}.16b, {b:v}.16b",
            sums = inout(vreg) sums,
            a = in(vreg) a,
            b = in(vreg) b,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    sums
}
