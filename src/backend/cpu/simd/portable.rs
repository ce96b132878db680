//! Any processor: arrays that the compiler turns into whatever vectors the target's baseline has.

use half::{bf16, f16};

use super::Simd;

const LANES: usize = 8;

#[derive(Clone, Copy, Debug)]
pub struct Portable;

impl Simd for Portable {
    type Vector = [f32; LANES];
    const LANES: usize = LANES;
    const REGISTERS: usize = 16;
    const FUSED: bool = false;

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

    type Ints = [i32; LANES];
    type Bytes = [i8; 32];
    type Group = [i8; 32];
    const SIGNED_BIAS: i32 = 0;

    #[inline(always)]
    fn splat_int(self, value: i32) -> [i32; LANES] {
        [value; LANES]
    }

    #[inline(always)]
    fn mul128_add(self, a: [i32; LANES], b: [i32; LANES]) -> [i32; LANES] {
        std::array::from_fn(|lane| a[lane] + (b[lane] << 7))
    }

    #[inline(always)]
    fn to_float(self, a: [i32; LANES]) -> [f32; LANES] {
        a.map(|a| a as f32)
    }

    #[inline(always)]
    fn dot(self, sums: [i32; LANES], a: [i8; 32], b: [i8; 32]) -> [i32; LANES] {
        std::array::from_fn(|lane| {
            let product = |i| i32::from(a[4 * lane + i]) * i32::from(b[4 * lane + i]);
            sums[lane] + (0..4).map(product).sum::<i32>()
        })
    }

    #[inline(always)]
    fn dot_signed(self, sums: [i32; LANES], a: [i8; 32], b: [i8; 32]) -> [i32; LANES] {
        self.dot(sums, a, b)
    }

    #[inline(always)]
    fn splat_i16(self, value: i16) -> [i8; 32] {
        let bytes = value.to_le_bytes();
        std::array::from_fn(|i| bytes[i % 2] as i8)
    }

    #[inline(always)]
    fn maddubs_i16(self, sums: [i8; 32], a: [i8; 32], b: [i8; 32]) -> [i8; 32] {
        std::array::from_fn(|i| {
            let first = i / 2 * 2;
            let product = |i: usize| i16::from(a[i]) * i16::from(b[i]);
            let sum = i16::from_le_bytes([sums[first] as u8, sums[first + 1] as u8]);
            (sum + product(first) + product(first + 1)).to_le_bytes()[i % 2] as i8
        })
    }

    const I16_MADD: bool = false;

    #[inline(always)]
    fn widen_i16(self, signed: bool, a: [i8; 32]) -> [[i8; 32]; 2] {
        std::array::from_fn(|odd| {
            std::array::from_fn(|i| match (a[i / 2 * 2 + odd], i % 2) {
                (byte, 0) => byte,
                (byte, _) if signed => byte >> 7,
                _ => 0,
            })
        })
    }

    #[inline(always)]
    fn madd_i16(self, sums: [i32; LANES], a: [i8; 32], b: [i8; 32]) -> [i32; LANES] {
        let integer = |bytes: [i8; 32], i: usize| {
            i32::from(i16::from_le_bytes([bytes[i] as u8, bytes[i + 1] as u8]))
        };
        std::array::from_fn(|lane| {
            let product = |i| integer(a, i) * integer(b, i);
            sums[lane] + product(4 * lane) + product(4 * lane + 2)
        })
    }

    #[inline(always)]
    fn bias_group(self, a: [i8; 32]) -> [i8; 32] {
        a
    }

    #[inline(always)]
    fn extract_bits(self, a: [i8; 32], shift: u32, mask: u8) -> [i8; 32] {
        a.map(|a| (a as u8 >> shift & mask) as i8)
    }

    #[inline(always)]
    fn insert_bits(self, a: [i8; 32], shift: u32, b: [i8; 32]) -> [i8; 32] {
        std::array::from_fn(|i| a[i] << shift | b[i])
    }

    #[inline(always)]
    fn bias_bytes(self, a: [i8; 32]) -> [i8; 32] {
        a
    }

    #[inline(always)]
    fn shift_mask(self, a: [i8; 32], right: i32, mask: u8) -> [i8; 32] {
        a.map(|a| match right >= 0 {
            true => (a as u8 >> right & mask) as i8,
            false => ((a as u8) << -right & mask) as i8,
        })
    }

    #[inline(always)]
    fn or(self, a: [i8; 32], b: [i8; 32]) -> [i8; 32] {
        std::array::from_fn(|i| a[i] | b[i])
    }

    #[inline(always)]
    fn unsigned_byte(self, a: [i8; 32], byte: usize) -> [f32; LANES] {
        std::array::from_fn(|lane| f32::from(a[4 * lane + byte] as u8))
    }

    #[inline(always)]
    fn signed_byte(self, a: [i8; 32], byte: usize) -> [f32; LANES] {
        std::array::from_fn(|lane| f32::from(a[4 * lane + byte]))
    }

    #[inline(always)]
    fn shuffle_lut(self, a: [i8; 32], table: &[i8; 16]) -> [i8; 32] {
        a.map(|a| table[a as usize & 15])
    }

    #[inline(always)]
    fn shuffle_bytes_lut(self, a: [i8; 32], table: &[i8; 16]) -> [i8; 32] {
        self.shuffle_lut(a, table)
    }

    #[inline(always)]
    unsafe fn load_u16(self, from: *const u16) -> [i8; 32] {
        // SAFETY: the caller's promise.
        let halves = unsafe { from.cast::<[u16; 8]>().read_unaligned() };
        let mut bytes = [0; 32];
        for (lane, half) in bytes.chunks_exact_mut(4).zip(halves) {
            let [low, high, ..] = half.to_le_bytes();
            lane[0] = low as i8;
            lane[1] = high as i8;
        }
        bytes
    }

    #[inline(always)]
    fn concat(self, first: [i8; 32], _: [i8; 32]) -> [i8; 32] {
        first
    }

    #[inline(always)]
    unsafe fn load_bytes(self, from: *const i8) -> [i8; 32] {
        // SAFETY: the caller's promise.
        unsafe { from.cast::<[i8; 32]>().read() }
    }

    #[inline(always)]
    unsafe fn store_bytes(self, a: [i8; 32], to: *mut i8) {
        // SAFETY: the caller's promise.
        unsafe { to.cast::<[i8; 32]>().write(a) }
    }

    #[inline(always)]
    unsafe fn splat_bytes(self, from: *const i8) -> [i8; 32] {
        // SAFETY: the caller's promise.
        let bytes = unsafe { from.cast::<[i8; 4]>().read() };
        std::array::from_fn(|i| bytes[i % 4])
    }

    #[inline(always)]
    unsafe fn load_group(self, from: *const u8) -> [i8; 32] {
        // SAFETY: the caller's promise.
        unsafe { from.cast::<[i8; 32]>().read() }
    }

    #[inline(always)]
    unsafe fn load_nibbles(self, from: *const u8) -> [i8; 32] {
        // SAFETY: the caller's promise.
        let bytes = unsafe { from.cast::<[u8; 16]>().read() };
        std::array::from_fn(|i| (bytes[i % 16] >> (i / 16 * 4) & 15) as i8)
    }

    #[inline(always)]
    unsafe fn broadcast_groups<const EACH: usize>(self, from: *const f32) -> [f32; LANES] {
        // SAFETY: the caller's promise.
        std::array::from_fn(|lane| unsafe { from.add(lane / EACH).read() })
    }

    #[inline(always)]
    unsafe fn interleave(self, groups: [[i8; 32]; 8], to: *mut i8, stride: usize) {
        // SAFETY: the caller's promise.
        unsafe { interleave(groups, to, stride) }
    }
}

/// [`Simd::interleave`] of bytes in memory.
///
/// # Safety
/// As there.
#[inline(always)]
pub unsafe fn interleave(groups: [[i8; 32]; 8], to: *mut i8, stride: usize) {
    for i in 0..8 {
        for (j, group) in groups.iter().enumerate() {
            let bytes: [i8; 4] = std::array::from_fn(|byte| group[4 * i + byte]);
            // SAFETY: the caller's promise.
            unsafe { to.add(i * stride + 4 * j).cast::<[i8; 4]>().write(bytes) };
        }
    }
}

/// The value of a half with these bits, without a branch, so that a loop of it becomes vectors.
#[inline(always)]
pub fn widen_f16(bits: u16) -> f32 {
    /// What the exponent biases of the two types, 127 and 15, differ by, as a factor. It also makes subnormal halves
    /// normal.
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
