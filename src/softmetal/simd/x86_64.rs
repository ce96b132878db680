//! AVX2 (with FMA and F16C) and AVX-512.

use std::arch::x86_64::*;

use half::{bf16, f16};

use super::portable::narrow_bf16;
use super::{Body, Simd};

/// Calls intrinsics in the methods of a type whose values prove that the processor has them.
macro_rules! proven {
    ($($code:tt)*) => {
        // SAFETY: `new` saw the features; pointers are the caller's promise.
        unsafe { $($code)* }
    };
}

/// 8 lanes.
#[derive(Clone, Copy, Debug)]
pub struct Avx2(());

impl Avx2 {
    pub fn new() -> Option<Avx2> {
        let has = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("f16c");
        has.then_some(Avx2(()))
    }

    #[inline]
    pub fn run<B: Body>(self, body: B) -> B::Output {
        #[target_feature(enable = "avx2,fma,f16c")]
        fn compiled<B: Body>(simd: Avx2, body: B) -> B::Output {
            body.run(simd)
        }
        proven!(compiled(self, body))
    }
}

impl Simd for Avx2 {
    type Vector = __m256;
    const LANES: usize = 8;

    #[inline(always)]
    fn splat(self, value: f32) -> __m256 {
        proven!(_mm256_set1_ps(value))
    }

    #[inline(always)]
    fn add(self, a: __m256, b: __m256) -> __m256 {
        proven!(_mm256_add_ps(a, b))
    }

    #[inline(always)]
    fn mul(self, a: __m256, b: __m256) -> __m256 {
        proven!(_mm256_mul_ps(a, b))
    }

    #[inline(always)]
    fn mul_add(self, a: __m256, b: __m256, c: __m256) -> __m256 {
        proven!(_mm256_fmadd_ps(a, b, c))
    }

    #[inline(always)]
    fn sum(self, a: __m256) -> f32 {
        proven! {
            let four = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a));
            let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)))
        }
    }

    #[inline(always)]
    unsafe fn load(self, from: *const f32) -> __m256 {
        proven!(_mm256_loadu_ps(from))
    }

    #[inline(always)]
    unsafe fn load_f16(self, from: *const f16) -> __m256 {
        proven!(_mm256_cvtph_ps(_mm_loadu_si128(from.cast())))
    }

    #[inline(always)]
    unsafe fn load_bf16(self, from: *const bf16) -> __m256 {
        proven! {
            let wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(from.cast()));
            _mm256_castsi256_ps(_mm256_slli_epi32::<16>(wide))
        }
    }

    #[inline(always)]
    unsafe fn load_i8(self, from: *const i8) -> __m256 {
        proven!(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(
            from.cast()
        ))))
    }

    #[inline(always)]
    unsafe fn store(self, a: __m256, to: *mut f32) {
        proven!(_mm256_storeu_ps(to, a))
    }

    #[inline(always)]
    unsafe fn store_f16(self, a: __m256, to: *mut f16) {
        proven!(_mm_storeu_si128(
            to.cast(),
            _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(a)
        ))
    }

    #[inline(always)]
    unsafe fn store_bf16(self, a: __m256, to: *mut bf16) {
        proven! {
            let mut lanes = [0f32; 8];
            _mm256_storeu_ps(lanes.as_mut_ptr(), a);
            to.cast::<[bf16; 8]>().write(lanes.map(narrow_bf16))
        }
    }
}

/// 16 lanes.
#[derive(Clone, Copy, Debug)]
pub struct Avx512(());

impl Avx512 {
    pub fn new() -> Option<Avx512> {
        let has = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl");
        has.then_some(Avx512(()))
    }

    #[inline]
    pub fn run<B: Body>(self, body: B) -> B::Output {
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
        fn compiled<B: Body>(simd: Avx512, body: B) -> B::Output {
            body.run(simd)
        }
        proven!(compiled(self, body))
    }
}

impl Simd for Avx512 {
    type Vector = __m512;
    const LANES: usize = 16;

    #[inline(always)]
    fn splat(self, value: f32) -> __m512 {
        proven!(_mm512_set1_ps(value))
    }

    #[inline(always)]
    fn add(self, a: __m512, b: __m512) -> __m512 {
        proven!(_mm512_add_ps(a, b))
    }

    #[inline(always)]
    fn mul(self, a: __m512, b: __m512) -> __m512 {
        proven!(_mm512_mul_ps(a, b))
    }

    #[inline(always)]
    fn mul_add(self, a: __m512, b: __m512, c: __m512) -> __m512 {
        proven!(_mm512_fmadd_ps(a, b, c))
    }

    #[inline(always)]
    fn sum(self, a: __m512) -> f32 {
        proven!(_mm512_reduce_add_ps(a))
    }

    #[inline(always)]
    unsafe fn load(self, from: *const f32) -> __m512 {
        proven!(_mm512_loadu_ps(from))
    }

    #[inline(always)]
    unsafe fn load_f16(self, from: *const f16) -> __m512 {
        proven!(_mm512_cvtph_ps(_mm256_loadu_si256(from.cast())))
    }

    #[inline(always)]
    unsafe fn load_bf16(self, from: *const bf16) -> __m512 {
        proven! {
            let wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(from.cast()));
            _mm512_castsi512_ps(_mm512_slli_epi32::<16>(wide))
        }
    }

    #[inline(always)]
    unsafe fn load_i8(self, from: *const i8) -> __m512 {
        proven!(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(
            from.cast()
        ))))
    }

    #[inline(always)]
    unsafe fn store(self, a: __m512, to: *mut f32) {
        proven!(_mm512_storeu_ps(to, a))
    }

    #[inline(always)]
    unsafe fn store_f16(self, a: __m512, to: *mut f16) {
        proven!(_mm256_storeu_si256(
            to.cast(),
            _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(a)
        ))
    }

    #[inline(always)]
    unsafe fn store_bf16(self, a: __m512, to: *mut bf16) {
        proven! {
            let mut lanes = [0f32; 16];
            _mm512_storeu_ps(lanes.as_mut_ptr(), a);
            to.cast::<[bf16; 16]>().write(lanes.map(narrow_bf16))
        }
    }
}
