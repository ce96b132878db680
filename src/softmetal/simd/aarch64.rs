//! NEON, which every aarch64 processor has.

use std::arch::aarch64::*;

use half::{bf16, f16};

use super::Simd;
use super::portable::{narrow_bf16, widen_f16};

/// Calls intrinsics of the architecture's baseline.
macro_rules! baseline {
    ($($code:tt)*) => {
        // SAFETY: NEON is part of the target; pointers are the caller's promise.
        unsafe { $($code)* }
    };
}

/// 4 lanes.
#[derive(Clone, Copy, Debug)]
pub struct Neon(());

impl Neon {
    pub fn new() -> Neon {
        Neon(())
    }
}

impl Simd for Neon {
    type Vector = float32x4_t;
    const LANES: usize = 4;

    #[inline(always)]
    fn splat(self, value: f32) -> float32x4_t {
        baseline!(vdupq_n_f32(value))
    }

    #[inline(always)]
    fn add(self, a: float32x4_t, b: float32x4_t) -> float32x4_t {
        baseline!(vaddq_f32(a, b))
    }

    #[inline(always)]
    fn mul(self, a: float32x4_t, b: float32x4_t) -> float32x4_t {
        baseline!(vmulq_f32(a, b))
    }

    #[inline(always)]
    fn mul_add(self, a: float32x4_t, b: float32x4_t, c: float32x4_t) -> float32x4_t {
        baseline!(vfmaq_f32(c, a, b))
    }

    #[inline(always)]
    fn sum(self, a: float32x4_t) -> f32 {
        baseline!(vaddvq_f32(a))
    }

    #[inline(always)]
    unsafe fn load(self, from: *const f32) -> float32x4_t {
        baseline!(vld1q_f32(from))
    }

    #[inline(always)]
    unsafe fn load_f16(self, from: *const f16) -> float32x4_t {
        baseline! {
            let lanes = from.cast::<[u16; 4]>().read().map(widen_f16);
            vld1q_f32(lanes.as_ptr())
        }
    }

    #[inline(always)]
    unsafe fn load_bf16(self, from: *const bf16) -> float32x4_t {
        baseline!(vreinterpretq_f32_u32(vshll_n_u16::<16>(vld1_u16(
            from.cast()
        ))))
    }

    #[inline(always)]
    unsafe fn load_i8(self, from: *const i8) -> float32x4_t {
        baseline! {
            let lanes = from.cast::<[i8; 4]>().read().map(f32::from);
            vld1q_f32(lanes.as_ptr())
        }
    }

    #[inline(always)]
    unsafe fn store(self, a: float32x4_t, to: *mut f32) {
        baseline!(vst1q_f32(to, a))
    }

    #[inline(always)]
    unsafe fn store_f16(self, a: float32x4_t, to: *mut f16) {
        baseline! {
            let mut lanes = [0f32; 4];
            vst1q_f32(lanes.as_mut_ptr(), a);
            to.cast::<[f16; 4]>().write(lanes.map(f16::from_f32))
        }
    }

    #[inline(always)]
    unsafe fn store_bf16(self, a: float32x4_t, to: *mut bf16) {
        baseline! {
            let mut lanes = [0f32; 4];
            vst1q_f32(lanes.as_mut_ptr(), a);
            to.cast::<[bf16; 4]>().write(lanes.map(narrow_bf16))
        }
    }
}
