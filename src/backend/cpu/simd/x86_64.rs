//! AVX2 (with FMA and F16C), and AVX-512 with VNNI: Cascade Lake, or with VBMI and GFNI as well: Ice Lake, Zen 4 and
//! newer.

#![allow(
    clippy::needless_range_loop,
    reason = "closures of iterators need not be inlined, and then miss the instruction set"
)]

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
    const REGISTERS: usize = 16;
    const FUSED: bool = true;

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

    type Ints = __m256i;
    type Bytes = __m256i;
    type Group = __m256i;
    const SIGNED_BIAS: i32 = 0;

    #[inline(always)]
    fn splat_int(self, value: i32) -> __m256i {
        proven!(_mm256_set1_epi32(value))
    }

    #[inline(always)]
    fn mul128_add(self, a: __m256i, b: __m256i) -> __m256i {
        proven!(_mm256_add_epi32(a, _mm256_slli_epi32::<7>(b)))
    }

    #[inline(always)]
    fn to_float(self, a: __m256i) -> __m256 {
        proven!(_mm256_cvtepi32_ps(a))
    }

    /// Pairs of products fit 16 bits: 2 · 128 · 127 < 2^15.
    #[inline(always)]
    fn dot(self, sums: __m256i, a: __m256i, b: __m256i) -> __m256i {
        proven! {
            let pairs = _mm256_maddubs_epi16(a, b);
            _mm256_add_epi32(sums, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)))
        }
    }

    #[inline(always)]
    fn dot_signed(self, sums: __m256i, a: __m256i, b: __m256i) -> __m256i {
        proven!(self.dot(sums, _mm256_abs_epi8(a), _mm256_sign_epi8(b, a)))
    }

    #[inline(always)]
    fn splat_i16(self, value: i16) -> __m256i {
        proven!(_mm256_set1_epi16(value))
    }

    #[inline(always)]
    fn maddubs_i16(self, sums: __m256i, a: __m256i, b: __m256i) -> __m256i {
        proven!(_mm256_add_epi16(sums, _mm256_maddubs_epi16(a, b)))
    }

    const I16_MADD: bool = true;

    #[inline(always)]
    fn widen_i16(self, signed: bool, a: __m256i) -> [__m256i; 2] {
        proven! {
            match signed {
                true => [
                    _mm256_srai_epi16::<8>(_mm256_slli_epi16::<8>(a)),
                    _mm256_srai_epi16::<8>(a),
                ],
                false => [
                    _mm256_and_si256(a, _mm256_set1_epi16(255)),
                    _mm256_srli_epi16::<8>(a),
                ],
            }
        }
    }

    #[inline(always)]
    fn madd_i16(self, sums: __m256i, a: __m256i, b: __m256i) -> __m256i {
        proven!(_mm256_add_epi32(sums, _mm256_madd_epi16(a, b)))
    }

    #[inline(always)]
    fn bias_group(self, a: __m256i) -> __m256i {
        a
    }

    #[inline(always)]
    fn extract_bits(self, a: __m256i, shift: u32, mask: u8) -> __m256i {
        proven!(extract_bits(a, shift, mask))
    }

    #[inline(always)]
    fn insert_bits(self, a: __m256i, shift: u32, b: __m256i) -> __m256i {
        proven!(insert_bits(a, shift, b))
    }

    #[inline(always)]
    fn bias_bytes(self, a: __m256i) -> __m256i {
        a
    }

    #[inline(always)]
    fn shift_mask(self, a: __m256i, right: i32, mask: u8) -> __m256i {
        proven! {
            let count = _mm_cvtsi32_si128(right.abs());
            let shifted = match right >= 0 {
                true => _mm256_srl_epi16(a, count),
                false => _mm256_sll_epi16(a, count),
            };
            _mm256_and_si256(shifted, _mm256_set1_epi8(mask as i8))
        }
    }

    #[inline(always)]
    fn or(self, a: __m256i, b: __m256i) -> __m256i {
        proven!(_mm256_or_si256(a, b))
    }

    #[inline(always)]
    fn unsigned_byte(self, a: __m256i, byte: usize) -> __m256 {
        proven! {
            let down = _mm256_srl_epi32(a, _mm_cvtsi32_si128(8 * byte as i32));
            _mm256_cvtepi32_ps(_mm256_and_si256(down, _mm256_set1_epi32(255)))
        }
    }

    #[inline(always)]
    fn signed_byte(self, a: __m256i, byte: usize) -> __m256 {
        proven! {
            let up = _mm256_sll_epi32(a, _mm_cvtsi32_si128(24 - 8 * byte as i32));
            _mm256_cvtepi32_ps(_mm256_srai_epi32::<24>(up))
        }
    }

    #[inline(always)]
    fn shuffle_lut(self, a: __m256i, table: &[i8; 16]) -> __m256i {
        proven!(shuffle_lut(a, table))
    }

    #[inline(always)]
    fn shuffle_bytes_lut(self, a: __m256i, table: &[i8; 16]) -> __m256i {
        self.shuffle_lut(a, table)
    }

    #[inline(always)]
    unsafe fn load_u16(self, from: *const u16) -> __m256i {
        proven!(_mm256_cvtepu16_epi32(_mm_loadu_si128(from.cast())))
    }

    #[inline(always)]
    fn concat(self, first: __m256i, _: __m256i) -> __m256i {
        first
    }

    #[inline(always)]
    unsafe fn load_bytes(self, from: *const i8) -> __m256i {
        proven!(_mm256_loadu_si256(from.cast()))
    }

    #[inline(always)]
    unsafe fn store_bytes(self, a: __m256i, to: *mut i8) {
        proven!(_mm256_storeu_si256(to.cast(), a))
    }

    #[inline(always)]
    unsafe fn splat_bytes(self, from: *const i8) -> __m256i {
        proven!(_mm256_set1_epi32(from.cast::<i32>().read_unaligned()))
    }

    #[inline(always)]
    unsafe fn load_group(self, from: *const u8) -> __m256i {
        proven!(_mm256_loadu_si256(from.cast()))
    }

    #[inline(always)]
    unsafe fn load_nibbles(self, from: *const u8) -> __m256i {
        proven!(load_nibbles(from))
    }

    #[inline(always)]
    unsafe fn widen_eight(self, from: *const f16, stride: usize) -> [f32; 8] {
        proven!(widen_eight(from, stride))
    }

    #[inline(always)]
    unsafe fn broadcast_groups<const EACH: usize>(self, from: *const f32) -> __m256 {
        proven! {
            match EACH {
                8 => _mm256_set1_ps(from.read()),
                _ => _mm256_set_m128(_mm_set1_ps(from.add(1).read()), _mm_set1_ps(from.read())),
            }
        }
    }

    #[inline(always)]
    unsafe fn interleave(self, groups: [__m256i; 8], to: *mut i8, stride: usize) {
        proven!(interleave(groups, to, stride))
    }
}

/// 16 lanes. With `VBMI`, the processor has that and GFNI.
#[derive(Clone, Copy, Debug)]
pub struct Avx512<const VBMI: bool>(());

impl<const VBMI: bool> Avx512<VBMI> {
    pub fn new() -> Option<Self> {
        let has = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512vnni");
        let vbmi = is_x86_feature_detected!("avx512vbmi") && is_x86_feature_detected!("gfni");
        (has && (vbmi || !VBMI)).then_some(Avx512(()))
    }
}

impl Avx512<false> {
    #[inline]
    pub fn run<B: Body>(self, body: B) -> B::Output {
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
        fn compiled<B: Body>(simd: Avx512<false>, body: B) -> B::Output {
            body.run(simd)
        }
        proven!(compiled(self, body))
    }
}

impl Avx512<true> {
    /// The same processor's instructions without VBMI and GFNI.
    pub fn without_vbmi(self) -> Avx512<false> {
        Avx512(())
    }

    /// A loop is compiled once more only if it gains from the instructions.
    #[inline]
    pub fn run<B: Body>(self, body: B) -> B::Output {
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,gfni")]
        fn compiled<B: Body>(simd: Avx512<true>, body: B) -> B::Output {
            body.run(simd)
        }
        match B::NEEDS_BIT_PERMUTE {
            true => proven!(compiled(self, body)),
            false => self.without_vbmi().run(body),
        }
    }
}

impl<const VBMI: bool> Simd for Avx512<VBMI> {
    type Vector = __m512;
    const LANES: usize = 16;
    const REGISTERS: usize = 32;
    const FUSED: bool = true;

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
    fn fold_each(self, a: [__m512; 4]) -> __m512 {
        proven! {
            // Neighbouring lanes are of the first and the second vector, or of the third and the fourth, and then of
            // all four.
            let first = _mm512_add_ps(_mm512_unpacklo_ps(a[0], a[1]), _mm512_unpackhi_ps(a[0], a[1]));
            let second = _mm512_add_ps(_mm512_unpacklo_ps(a[2], a[3]), _mm512_unpackhi_ps(a[2], a[3]));
            let (first, second) = (_mm512_castps_pd(first), _mm512_castps_pd(second));
            let low = _mm512_castpd_ps(_mm512_unpacklo_pd(first, second));
            _mm512_add_ps(low, _mm512_castpd_ps(_mm512_unpackhi_pd(first, second)))
        }
    }

    #[inline(always)]
    fn sum_folded(self, all: __m512) -> [f32; 4] {
        proven! {
            let eight = _mm256_add_ps(_mm512_castps512_ps256(all), _mm512_extractf32x8_ps::<1>(all));
            let four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps::<1>(eight));
            let mut sums = [0.0; 4];
            _mm_storeu_ps(sums.as_mut_ptr(), four);
            sums
        }
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

    type Ints = __m512i;
    type Bytes = __m512i;
    type Group = __m256i;
    const SIGNED_BIAS: i32 = 128;

    #[inline(always)]
    fn splat_int(self, value: i32) -> __m512i {
        proven!(_mm512_set1_epi32(value))
    }

    #[inline(always)]
    fn mul128_add(self, a: __m512i, b: __m512i) -> __m512i {
        proven!(_mm512_add_epi32(a, _mm512_slli_epi32::<7>(b)))
    }

    #[inline(always)]
    fn to_float(self, a: __m512i) -> __m512 {
        proven!(_mm512_cvtepi32_ps(a))
    }

    #[inline(always)]
    fn dot(self, sums: __m512i, a: __m512i, b: __m512i) -> __m512i {
        proven!(_mm512_dpbusd_epi32(sums, a, b))
    }

    #[inline(always)]
    fn dot_signed(self, sums: __m512i, a: __m512i, b: __m512i) -> __m512i {
        proven!(_mm512_dpbusd_epi32(sums, a, b))
    }

    #[inline(always)]
    fn splat_i16(self, value: i16) -> __m512i {
        proven!(_mm512_set1_epi16(value))
    }

    #[inline(always)]
    fn maddubs_i16(self, sums: __m512i, a: __m512i, b: __m512i) -> __m512i {
        proven!(_mm512_add_epi16(sums, _mm512_maddubs_epi16(a, b)))
    }

    const I16_MADD: bool = false;

    #[inline(always)]
    fn widen_i16(self, signed: bool, a: __m512i) -> [__m512i; 2] {
        proven! {
            match signed {
                true => [
                    _mm512_srai_epi16::<8>(_mm512_slli_epi16::<8>(a)),
                    _mm512_srai_epi16::<8>(a),
                ],
                false => [
                    _mm512_and_si512(a, _mm512_set1_epi16(255)),
                    _mm512_srli_epi16::<8>(a),
                ],
            }
        }
    }

    #[inline(always)]
    fn madd_i16(self, sums: __m512i, a: __m512i, b: __m512i) -> __m512i {
        proven!(_mm512_add_epi32(sums, _mm512_madd_epi16(a, b)))
    }

    #[inline(always)]
    fn bias_group(self, a: __m256i) -> __m256i {
        proven!(_mm256_xor_si256(a, _mm256_set1_epi8(-128)))
    }

    #[inline(always)]
    fn extract_bits(self, a: __m256i, shift: u32, mask: u8) -> __m256i {
        proven!(extract_bits(a, shift, mask))
    }

    #[inline(always)]
    fn insert_bits(self, a: __m256i, shift: u32, b: __m256i) -> __m256i {
        proven!(insert_bits(a, shift, b))
    }

    #[inline(always)]
    fn bias_bytes(self, a: __m512i) -> __m512i {
        proven!(_mm512_xor_si512(a, _mm512_set1_epi8(-128)))
    }

    /// A shift and a mask, or one product with a matrix of bits.
    #[inline(always)]
    fn shift_mask(self, a: __m512i, right: i32, mask: u8) -> __m512i {
        proven! {
            if VBMI && right != 0 {
                let matrix = _mm512_set1_epi64(bit_matrix(right, mask));
                return _mm512_gf2p8affine_epi64_epi8::<0>(a, matrix);
            }
            let count = _mm_cvtsi32_si128(right.abs());
            let shifted = match right {
                0 => a,
                1.. => _mm512_srl_epi16(a, count),
                _ => _mm512_sll_epi16(a, count),
            };
            _mm512_and_si512(shifted, _mm512_set1_epi8(mask as i8))
        }
    }

    #[inline(always)]
    fn or(self, a: __m512i, b: __m512i) -> __m512i {
        proven!(_mm512_or_si512(a, b))
    }

    #[inline(always)]
    fn unsigned_byte(self, a: __m512i, byte: usize) -> __m512 {
        proven! {
            let down = _mm512_srl_epi32(a, _mm_cvtsi32_si128(8 * byte as i32));
            _mm512_cvtepi32_ps(_mm512_and_si512(down, _mm512_set1_epi32(255)))
        }
    }

    #[inline(always)]
    fn signed_byte(self, a: __m512i, byte: usize) -> __m512 {
        proven! {
            let up = _mm512_sll_epi32(a, _mm_cvtsi32_si128(24 - 8 * byte as i32));
            _mm512_cvtepi32_ps(_mm512_srai_epi32::<24>(up))
        }
    }

    #[inline(always)]
    fn shuffle_lut(self, a: __m256i, table: &[i8; 16]) -> __m256i {
        proven!(shuffle_lut(a, table))
    }

    #[inline(always)]
    fn shuffle_bytes_lut(self, a: __m512i, table: &[i8; 16]) -> __m512i {
        proven! {
            let table = _mm512_broadcast_i32x4(_mm_loadu_si128(table.as_ptr().cast()));
            _mm512_shuffle_epi8(table, a)
        }
    }

    #[inline(always)]
    unsafe fn load_u16(self, from: *const u16) -> __m512i {
        proven!(_mm512_cvtepu16_epi32(_mm256_loadu_si256(from.cast())))
    }

    #[inline(always)]
    fn concat(self, first: __m256i, second: __m256i) -> __m512i {
        proven!(_mm512_inserti64x4::<1>(
            _mm512_castsi256_si512(first),
            second
        ))
    }

    #[inline(always)]
    unsafe fn load_bytes(self, from: *const i8) -> __m512i {
        proven!(_mm512_loadu_si512(from.cast()))
    }

    #[inline(always)]
    unsafe fn store_bytes(self, a: __m512i, to: *mut i8) {
        proven!(_mm512_storeu_si512(to.cast(), a))
    }

    #[inline(always)]
    unsafe fn splat_bytes(self, from: *const i8) -> __m512i {
        proven!(_mm512_set1_epi32(from.cast::<i32>().read_unaligned()))
    }

    #[inline(always)]
    unsafe fn load_group(self, from: *const u8) -> __m256i {
        proven!(_mm256_loadu_si256(from.cast()))
    }

    #[inline(always)]
    unsafe fn load_nibbles(self, from: *const u8) -> __m256i {
        proven!(load_nibbles(from))
    }

    #[inline(always)]
    unsafe fn widen_eight(self, from: *const f16, stride: usize) -> [f32; 8] {
        proven!(widen_eight(from, stride))
    }

    #[inline(always)]
    unsafe fn broadcast_groups<const EACH: usize>(self, from: *const f32) -> __m512 {
        proven! {
            match EACH {
                8 => {
                    let pair = _mm512_castpd_ps(_mm512_set1_pd(from.cast::<f64>().read_unaligned()));
                    let lanes = _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1);
                    _mm512_permutexvar_ps(lanes, pair)
                }
                _ => {
                    let four = _mm512_broadcast_f32x4(_mm_loadu_ps(from));
                    let lanes = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
                    _mm512_permutexvar_ps(lanes, four)
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn interleave(self, groups: [__m256i; 8], to: *mut i8, stride: usize) {
        proven!(interleave(groups, to, stride))
    }
}

/// The matrix of bits for `gf2p8affineqb` that does [`Simd::shift_mask`]: its byte 7 - i chooses bit i.
///
/// A constant without a loop: a loop may remain in a build with optimization at link time, and spills all vectors.
#[inline(always)]
const fn bit_matrix(right: i32, mask: u8) -> i64 {
    const SAME: u64 = 0x0102_0408_1020_4080;
    const EACH: u64 = 0x0101_0101_0101_0101;
    (match right {
        0.. => (SAME & (EACH * ((mask as u64) << right))) << (8 * right),
        _ => (SAME & (EACH * (mask as u64 >> -right))) >> (-8 * right),
    }) as i64
}

/// # Safety
/// The processor has AVX2.
#[inline(always)]
unsafe fn extract_bits(a: __m256i, shift: u32, mask: u8) -> __m256i {
    // SAFETY: the caller's promise. Bits that cross into the next byte are masked away.
    unsafe {
        let shifted = _mm256_srl_epi16(a, _mm_cvtsi32_si128(shift as i32));
        _mm256_and_si256(shifted, _mm256_set1_epi8(mask as i8))
    }
}

/// # Safety
/// The processor has AVX2.
#[inline(always)]
unsafe fn insert_bits(a: __m256i, shift: u32, b: __m256i) -> __m256i {
    // SAFETY: the caller's promise. The upper bits are 0, so that none crosses into the next byte.
    unsafe { _mm256_or_si256(_mm256_sll_epi16(a, _mm_cvtsi32_si128(shift as i32)), b) }
}

/// # Safety
/// The processor has AVX2.
#[inline(always)]
unsafe fn shuffle_lut(a: __m256i, table: &[i8; 16]) -> __m256i {
    // SAFETY: the caller's promise, and 16 bytes of table.
    unsafe {
        let table = _mm256_broadcastsi128_si256(_mm_loadu_si128(table.as_ptr().cast()));
        _mm256_shuffle_epi8(table, a)
    }
}

/// # Safety
/// The processor has AVX2; `from` is readable for 16 bytes.
#[inline(always)]
unsafe fn load_nibbles(from: *const u8) -> __m256i {
    // SAFETY: the caller's promise.
    unsafe {
        let bytes = _mm_loadu_si128(from.cast());
        let both = _mm256_set_m128i(_mm_srli_epi16::<4>(bytes), bytes);
        _mm256_and_si256(both, _mm256_set1_epi8(15))
    }
}

/// # Safety
/// The processor has AVX2 and F16C; `from` is readable for 8 halves `stride` bytes apart.
#[inline(always)]
unsafe fn widen_eight(from: *const f16, stride: usize) -> [f32; 8] {
    // SAFETY: the caller's promise.
    unsafe {
        let bits = from.cast::<i16>();
        let mut halves = _mm_cvtsi32_si128(i32::from(bits.read()));
        halves = _mm_insert_epi16::<1>(halves, i32::from(bits.byte_add(stride).read()));
        halves = _mm_insert_epi16::<2>(halves, i32::from(bits.byte_add(2 * stride).read()));
        halves = _mm_insert_epi16::<3>(halves, i32::from(bits.byte_add(3 * stride).read()));
        halves = _mm_insert_epi16::<4>(halves, i32::from(bits.byte_add(4 * stride).read()));
        halves = _mm_insert_epi16::<5>(halves, i32::from(bits.byte_add(5 * stride).read()));
        halves = _mm_insert_epi16::<6>(halves, i32::from(bits.byte_add(6 * stride).read()));
        halves = _mm_insert_epi16::<7>(halves, i32::from(bits.byte_add(7 * stride).read()));
        let mut wide = [0f32; 8];
        _mm256_storeu_ps(wide.as_mut_ptr(), _mm256_cvtph_ps(halves));
        wide
    }
}

/// A transposition of 8 × 8 doublewords.
///
/// # Safety
/// The processor has AVX2; `to` is as for [`Simd::interleave`].
#[inline(always)]
unsafe fn interleave(g: [__m256i; 8], to: *mut i8, stride: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        // quads[h][i]: doubleword i of groups 4 h .. 4 h + 4, in the lower half; doubleword i + 4 in the upper one.
        let mut quads = [[_mm256_setzero_si256(); 4]; 2];
        for h in 0..2 {
            let [a, b, c, d] = [g[4 * h], g[4 * h + 1], g[4 * h + 2], g[4 * h + 3]];
            let (low, high) = (_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
            let (next_low, next_high) = (_mm256_unpacklo_epi32(c, d), _mm256_unpackhi_epi32(c, d));
            quads[h] = [
                _mm256_unpacklo_epi64(low, next_low),
                _mm256_unpackhi_epi64(low, next_low),
                _mm256_unpacklo_epi64(high, next_high),
                _mm256_unpackhi_epi64(high, next_high),
            ];
        }
        for i in 0..4 {
            let (a, b) = (quads[0][i], quads[1][i]);
            let low = _mm256_permute2x128_si256::<0x20>(a, b);
            let high = _mm256_permute2x128_si256::<0x31>(a, b);
            _mm256_storeu_si256(to.add(i * stride).cast(), low);
            _mm256_storeu_si256(to.add((i + 4) * stride).cast(), high);
        }
    }
}
