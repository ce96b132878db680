//! Vectors of f32 and of small integers, one implementation for each instruction set.
//!
//! A kernel's loop is written once, as a [`Body`] generic over [`Simd`], and [`Isa::run`] compiles it for each
//! instruction set. A value of an implementing type is the proof that the processor has the instructions, so its
//! methods are safe where they touch no memory. Everything between `Isa::run` and the intrinsics is
//! `#[inline(always)]`: that is how the instruction set reaches the loop.

mod portable;

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod amx;
mod tuning;
#[cfg(target_arch = "x86_64")]
mod x86_64;

use half::{bf16, f16};

#[cfg(target_arch = "x86_64")]
pub use amx::{Amx, Configured, DEPTH, PREFETCH_BYTES, TILE, Tile};
use portable::Portable;
#[cfg(target_arch = "x86_64")]
pub use portable::narrow_bf16;
pub use portable::widen_f16;
#[cfg(target_arch = "x86_64")]
pub use tuning::PREFETCH_DISTANCE;
pub use tuning::Tuning;
#[cfg(target_arch = "x86_64")]
pub use x86_64::Avx512;

/// No processor of this architecture has it.
#[cfg(not(target_arch = "x86_64"))]
#[derive(Clone, Copy, Debug)]
pub enum Amx {}

#[cfg(not(target_arch = "x86_64"))]
impl Amx {
    pub fn new() -> Option<Amx> {
        None
    }
}

/// One instruction set.
pub trait Simd: Copy + Send + Sync {
    type Vector: Copy;
    /// Values in a vector: a power of two, at most 16.
    const LANES: usize;
    /// Vectors that fit the registers.
    const REGISTERS: usize;
    /// Whether a · b + c, rounded once, is one instruction.
    const FUSED: bool;

    fn splat(self, value: f32) -> Self::Vector;
    fn add(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    fn mul(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// a · b + c, rounded once where the instruction set can.
    fn mul_add(self, a: Self::Vector, b: Self::Vector, c: Self::Vector) -> Self::Vector;
    /// The sum of all lanes.
    fn sum(self, a: Self::Vector) -> f32;
    /// The sums of neighbouring lanes of four vectors: lane i has some of vector i % 4.
    #[cfg_attr(
        not(target_arch = "x86_64"),
        allow(dead_code, reason = "only x86-64 uses it")
    )]
    #[inline(always)]
    fn fold_each(self, a: [Self::Vector; 4]) -> Self::Vector {
        let (mut lanes, mut folded) = ([[0.0; 16]; 4], [0.0; 16]);
        for (vector, lanes) in a.into_iter().zip(&mut lanes) {
            // SAFETY: no vector has more lanes.
            unsafe { self.store(vector, lanes.as_mut_ptr()) };
        }
        for lane in 0..Self::LANES {
            folded[lane] = lanes[lane % 4][lane / 4 * 4..][..4].iter().sum();
        }
        // SAFETY: as above.
        unsafe { self.load(folded.as_ptr()) }
    }

    /// The sums of all lanes of four vectors that [`fold_each`](Simd::fold_each) has put together.
    #[cfg_attr(
        not(target_arch = "x86_64"),
        allow(dead_code, reason = "only x86-64 uses it")
    )]
    #[inline(always)]
    fn sum_folded(self, a: Self::Vector) -> [f32; 4] {
        let (mut lanes, mut sums) = ([0.0; 16], [0.0; 4]);
        // SAFETY: no vector has more lanes.
        unsafe { self.store(a, lanes.as_mut_ptr()) };
        for lane in 0..Self::LANES {
            sums[lane % 4] += lanes[lane];
        }
        sums
    }

    /// # Safety
    /// `from` is readable for `LANES` values.
    unsafe fn load(self, from: *const f32) -> Self::Vector;
    /// # Safety
    /// `from` is readable for `LANES` values.
    unsafe fn load_f16(self, from: *const f16) -> Self::Vector;
    /// # Safety
    /// `from` is readable for `LANES` values.
    unsafe fn load_bf16(self, from: *const bf16) -> Self::Vector;
    /// # Safety
    /// `from` is readable for `LANES` values.
    unsafe fn load_i8(self, from: *const i8) -> Self::Vector;
    /// # Safety
    /// `to` is writable for `LANES` values.
    unsafe fn store(self, a: Self::Vector, to: *mut f32);
    /// Rounds to nearest even.
    ///
    /// # Safety
    /// `to` is writable for `LANES` values.
    unsafe fn store_f16(self, a: Self::Vector, to: *mut f16);
    /// Rounds to nearest even.
    ///
    /// # Safety
    /// `to` is writable for `LANES` values.
    unsafe fn store_bf16(self, a: Self::Vector, to: *mut bf16);

    /// 32-bit integers, as many as a vector has lanes.
    type Ints: Copy;
    /// Four bytes for each of these.
    type Bytes: Copy;
    /// 32 bytes, of which one or two make a [`Simd::Bytes`].
    type Group: Copy;
    /// What [`bias_group`](Simd::bias_group) adds to its bytes, where the instruction set multiplies unsigned bytes
    /// with signed ones only. A sum of products is then too large by this times the sum of the other factors.
    const SIGNED_BIAS: i32;

    fn splat_int(self, value: i32) -> Self::Ints;
    /// a + 128 · b.
    fn mul128_add(self, a: Self::Ints, b: Self::Ints) -> Self::Ints;
    fn to_float(self, a: Self::Ints) -> Self::Vector;
    /// sums + the four products of each lane. `a` is from 0 to 127, `b` from -127 to 127.
    fn dot(self, sums: Self::Ints, a: Self::Bytes, b: Self::Bytes) -> Self::Ints;
    /// The same for an `a` that was made with [`bias_group`](Simd::bias_group).
    fn dot_signed(self, sums: Self::Ints, a: Self::Bytes, b: Self::Bytes) -> Self::Ints;
    fn splat_i16(self, value: i16) -> Self::Bytes;
    /// sums + two neighbouring products each, in 16 bits. `a` and `b` are as for [`dot`](Simd::dot).
    fn maddubs_i16(self, sums: Self::Bytes, a: Self::Bytes, b: Self::Bytes) -> Self::Bytes;
    /// Whether [`dot`](Simd::dot) takes several instructions, so that it is quicker to add up in 16 bits what fits
    /// ([`maddubs_i16`](Simd::maddubs_i16)), and not to take an integer of 15 bits for two bytes
    /// ([`madd_i16`](Simd::madd_i16)).
    const I16_MADD: bool;
    /// The first and the third byte of each lane's four, and the others, as integers of 16 bits.
    fn widen_i16(self, signed: bool, a: Self::Bytes) -> [Self::Bytes; 2];
    /// sums + the two products of each lane's integers of 16 bits.
    fn madd_i16(self, sums: Self::Ints, a: Self::Bytes, b: Self::Bytes) -> Self::Ints;
    /// Signed bytes as `dot_signed` wants them: [`Simd::SIGNED_BIAS`] more.
    fn bias_group(self, a: Self::Group) -> Self::Group;
    /// `a` shifted right by `shift` bits and masked; `mask` has none of the `shift` upper bits.
    fn extract_bits(self, a: Self::Group, shift: u32, mask: u8) -> Self::Group;
    /// `a`, whose `shift` upper bits are 0, shifted left, and the bits of `b`.
    fn insert_bits(self, a: Self::Group, shift: u32, b: Self::Group) -> Self::Group;
    /// Signed bytes as `dot_signed` wants them.
    fn bias_bytes(self, a: Self::Bytes) -> Self::Bytes;
    /// Each byte shifted right by `right` bits, or left where that is negative, and masked; `mask` has only bits that
    /// come from the same byte.
    fn shift_mask(self, a: Self::Bytes, right: i32, mask: u8) -> Self::Bytes;
    /// The bits of both.
    fn or(self, a: Self::Bytes, b: Self::Bytes) -> Self::Bytes;
    /// Byte `byte` of each lane's four.
    fn unsigned_byte(self, a: Self::Bytes, byte: usize) -> Self::Vector;
    /// The same for signed ones.
    fn signed_byte(self, a: Self::Bytes, byte: usize) -> Self::Vector;
    /// `table[i]` for each byte i of `a`, all below 16.
    fn shuffle_lut(self, a: Self::Group, table: &[i8; 16]) -> Self::Group;
    /// The same for [`Simd::Bytes`].
    fn shuffle_bytes_lut(self, a: Self::Bytes, table: &[i8; 16]) -> Self::Bytes;
    /// One group, or two where there is room for them.
    fn concat(self, first: Self::Group, second: Self::Group) -> Self::Bytes;

    /// # Safety
    /// `from` is readable for `4 * LANES` values.
    unsafe fn load_bytes(self, from: *const i8) -> Self::Bytes;
    /// A number of 16 bits in each lane, zero-extended.
    ///
    /// # Safety
    /// `from` is readable for `LANES` values.
    unsafe fn load_u16(self, from: *const u16) -> Self::Bytes;
    /// # Safety
    /// `to` is writable for `4 * LANES` values.
    unsafe fn store_bytes(self, a: Self::Bytes, to: *mut i8);
    /// The same four bytes in each lane.
    ///
    /// # Safety
    /// `from` is readable for 4 values.
    unsafe fn splat_bytes(self, from: *const i8) -> Self::Bytes;
    /// # Safety
    /// `from` is readable for 32 values.
    unsafe fn load_group(self, from: *const u8) -> Self::Group;
    /// 4-bit numbers: the low ones of 16 bytes, then the high ones.
    ///
    /// # Safety
    /// `from` is readable for 16 values.
    unsafe fn load_nibbles(self, from: *const u8) -> Self::Group;
    /// 8 halves, `stride` bytes apart.
    ///
    /// # Safety
    /// `from` is readable for them.
    #[inline(always)]
    unsafe fn widen_eight(self, from: *const f16, stride: usize) -> [f32; 8] {
        let mut wide = [0.0; 8];
        for (i, wide) in wide.iter_mut().enumerate() {
            // SAFETY: the caller's promise.
            *wide = widen_f16(unsafe { from.byte_add(i * stride).read() }.to_bits());
        }
        wide
    }
    /// `from[i / EACH]` in lane i. `EACH` is 4 or 8.
    ///
    /// # Safety
    /// `from` is readable for `LANES / EACH` values.
    unsafe fn broadcast_groups<const EACH: usize>(self, from: *const f32) -> Self::Vector;
    /// Writes bytes `4 * i .. 4 * i + 4` of group `j` to `to + i * stride + 4 * j`.
    ///
    /// # Safety
    /// `to` is writable for 8 rows of 32 bytes `stride` apart.
    unsafe fn interleave(self, groups: [Self::Group; 8], to: *mut i8, stride: usize);
}

/// Prefetches the cache line of `from` into L1, whether it is readable or not.
#[inline(always)]
pub fn prefetch<T>(from: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch of what is not readable does nothing; all processors of this architecture have SSE.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(from.cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{}]", in(reg) from, options(nostack, readonly, preserves_flags));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = from;
}

/// The same, into L2 only.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub fn prefetch_l2<T>(from: *const T) {
    // SAFETY: as for `prefetch`.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T1 }>(from.cast());
    }
}

/// Bytes of a cache line.
pub const CACHE_LINE: usize = 64;

/// [`prefetch`] for each cache line of `bytes` bytes.
#[inline(always)]
pub fn prefetch_lines<T>(from: *const T, bytes: usize) {
    for at in (0..bytes).step_by(CACHE_LINE) {
        prefetch(from.wrapping_byte_add(at));
    }
}

/// A compiler fence: reads before and after it stay in this order, in which the processor prefetches. Built for one
/// processor, the compiler would reorder them (docs/perf, Zen 4).
#[inline(always)]
pub fn read_order_fence() {
    std::sync::atomic::compiler_fence(std::sync::atomic::Ordering::SeqCst);
}

/// The same pointer, which the compiler keeps in a register of its own instead of adding an index to another one in
/// each instruction: Intel's processors split a multiply-add whose operand is indexed in two ("Intel 64 and IA-32
/// Architectures Optimization Reference Manual", on micro-fusion and unlamination).
#[inline(always)]
pub fn opaque_pointer<T>(mut pointer: *const T) -> *const T {
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    #[allow(
        clippy::pointers_in_nomem_asm_block,
        reason = "nothing is done with it"
    )]
    // SAFETY: there is no instruction in it.
    unsafe {
        std::arch::asm!("/* {} */", inout(reg) pointer, options(nomem, nostack, preserves_flags));
    }
    pointer
}

/// An opaque trip count, so that the compiler does not unroll the loop. Unrolled, it would read what all iterations
/// need before the first and spill it.
#[inline(always)]
pub fn opaque_trip_count(count: usize) -> usize {
    std::hint::black_box(count)
}

/// A loop that can be compiled for any instruction set. `run` and what it calls must be `#[inline(always)]`.
pub trait Body {
    type Output;
    /// Whether it uses [`Simd::shift_mask`], for which processors with GFNI get a loop of their own.
    #[cfg_attr(
        not(target_arch = "x86_64"),
        allow(dead_code, reason = "only x86-64 uses it")
    )]
    const NEEDS_BIT_PERMUTE: bool = false;
    fn run<S: Simd>(self, simd: S) -> Self::Output;
}

/// A [`Body`] that reads memory in address order, compiled with prefetch instructions and without.
pub trait Streaming {
    type Output;
    /// As [`Body::NEEDS_BIT_PERMUTE`].
    #[cfg_attr(
        not(target_arch = "x86_64"),
        allow(dead_code, reason = "only x86-64 uses it")
    )]
    const NEEDS_BIT_PERMUTE: bool = false;
    /// `DISTANCE` is in bytes; 0: no prefetch instructions.
    fn run<S: Simd, const DISTANCE: usize>(self, simd: S) -> Self::Output;
}

/// A [`Streaming`] loop with its prefetch distance.
struct AtDistance<B, const DISTANCE: usize>(B);

impl<B: Streaming, const DISTANCE: usize> Body for AtDistance<B, DISTANCE> {
    type Output = B::Output;
    const NEEDS_BIT_PERMUTE: bool = B::NEEDS_BIT_PERMUTE;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> B::Output {
        self.0.run::<S, DISTANCE>(simd)
    }
}

/// The constants of a [`Simd`].
struct Properties {
    lanes: usize,
    registers: usize,
    i16_madd: bool,
}

/// An instruction set that this processor has.
#[derive(Clone, Copy, Debug)]
pub enum Isa {
    Portable(Portable),
    #[cfg(target_arch = "x86_64")]
    Avx2(x86_64::Avx2),
    #[cfg(target_arch = "x86_64")]
    Avx512(Avx512<false>),
    #[cfg(target_arch = "x86_64")]
    Avx512Vbmi(Avx512<true>),
    #[cfg(target_arch = "aarch64")]
    Neon(aarch64::Neon<false>),
    #[cfg(target_arch = "aarch64")]
    NeonDot(aarch64::Neon<true>),
}

impl Isa {
    /// The instruction sets of this processor, the fastest last.
    pub fn available() -> Vec<Isa> {
        let mut available = vec![Isa::Portable(Portable)];
        #[cfg(target_arch = "x86_64")]
        {
            available.extend(x86_64::Avx2::new().map(Isa::Avx2));
            available.extend(Avx512::new().map(Isa::Avx512));
            available.extend(Avx512::new().map(Isa::Avx512Vbmi));
        }
        #[cfg(target_arch = "aarch64")]
        {
            available.push(Isa::Neon(aarch64::Neon::<false>::new()));
            available.extend(aarch64::Neon::<true>::new().map(Isa::NeonDot));
        }
        available
    }

    /// The fastest one.
    pub fn best() -> Isa {
        Isa::available().pop().unwrap_or(Isa::Portable(Portable))
    }

    /// One with vectors of half the lanes, where this processor has it.
    pub fn half(self) -> Option<Isa> {
        match self {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512(_) | Isa::Avx512Vbmi(_) => x86_64::Avx2::new().map(Isa::Avx2),
            _ => None,
        }
    }

    /// AVX-512, for loops that are compiled for nothing else.
    #[cfg(target_arch = "x86_64")]
    pub fn avx512(self) -> Option<Avx512<false>> {
        match self {
            Isa::Avx512(simd) => Some(simd),
            Isa::Avx512Vbmi(simd) => Some(simd.without_vbmi()),
            _ => None,
        }
    }

    /// Whether it has vectors of 16 lanes and 32 registers.
    pub fn is_avx512(self) -> bool {
        match self {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512(_) | Isa::Avx512Vbmi(_) => true,
            _ => false,
        }
    }

    /// Whether it has AVX-512 with VBMI and GFNI.
    pub fn has_vbmi(self) -> bool {
        match self {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512Vbmi(_) => true,
            _ => false,
        }
    }

    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Isa::Portable(_) => "portable",
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2(_) => "AVX2",
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512(_) => "AVX-512",
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512Vbmi(_) => "AVX-512 with VBMI and GFNI",
            #[cfg(target_arch = "aarch64")]
            Isa::Neon(_) => "NEON",
            #[cfg(target_arch = "aarch64")]
            Isa::NeonDot(_) => "NEON with dot products",
        }
    }

    /// [`Simd::LANES`].
    pub fn lanes(self) -> usize {
        self.properties().lanes
    }

    /// [`Simd::REGISTERS`].
    pub fn registers(self) -> usize {
        self.properties().registers
    }

    /// [`Simd::I16_MADD`].
    pub fn i16_madd(self) -> bool {
        self.properties().i16_madd
    }

    fn properties(self) -> Properties {
        struct Read;

        impl Body for Read {
            type Output = Properties;

            #[inline(always)]
            fn run<S: Simd>(self, _: S) -> Properties {
                Properties {
                    lanes: S::LANES,
                    registers: S::REGISTERS,
                    i16_madd: S::I16_MADD,
                }
            }
        }
        self.run(Read)
    }

    /// Runs `body`, compiled for this instruction set.
    #[inline]
    pub fn run<B: Body>(self, body: B) -> B::Output {
        match self {
            Isa::Portable(simd) => body.run(simd),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2(simd) => simd.run(body),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512(simd) => simd.run(body),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512Vbmi(simd) => simd.run(body),
            #[cfg(target_arch = "aarch64")]
            Isa::Neon(simd) => body.run(simd),
            #[cfg(target_arch = "aarch64")]
            Isa::NeonDot(simd) => body.run(simd),
        }
    }

    /// Runs `body`, with a prefetch distance of `PREFETCH_DISTANCE` or without. It is compiled for what processors gain
    /// from: those without AVX-512 from none, and those that have it without VBMI, which are Intel's, always from one.
    #[inline]
    pub fn run_streaming<B: Streaming>(self, prefetch: bool, body: B) -> B::Output {
        #[cfg(not(target_arch = "x86_64"))]
        let _ = prefetch;
        match self {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512(simd) => simd.run(AtDistance::<B, PREFETCH_DISTANCE>(body)),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512Vbmi(simd) if prefetch => simd.run(AtDistance::<B, PREFETCH_DISTANCE>(body)),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512Vbmi(simd) => simd.run(AtDistance::<B, 0>(body)),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2(simd) => simd.run(AtDistance::<B, 0>(body)),
            Isa::Portable(simd) => AtDistance::<B, 0>(body).run(simd),
            #[cfg(target_arch = "aarch64")]
            Isa::Neon(simd) => AtDistance::<B, 0>(body).run(simd),
            #[cfg(target_arch = "aarch64")]
            Isa::NeonDot(simd) => AtDistance::<B, 0>(body).run(simd),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every operation of one instruction set against plain arithmetic, lane by lane.
    struct EveryOperation;

    impl Body for EveryOperation {
        type Output = ();

        #[inline(always)]
        fn run<S: Simd>(self, simd: S) {
            let lanes = S::LANES;
            assert!(lanes.is_power_of_two() && lanes <= 16);
            let a: Vec<f32> = (0..16).map(|i| i as f32 * 1.25 - 7.0).collect();
            let b: Vec<f32> = (0..16).map(|i| 3.0 - i as f32 * 0.5).collect();
            let bytes: Vec<i8> = (0..16).map(|i| (i * 17 - 128) as i8).collect();
            let mut out = [0f32; 16];
            let mut check = |vector: S::Vector, expected: &dyn Fn(usize) -> f32| {
                // SAFETY: 16 values hold any vector.
                unsafe { simd.store(vector, out.as_mut_ptr()) };
                for (lane, value) in out.iter().enumerate().take(lanes) {
                    assert_eq!(*value, expected(lane), "lane {lane}");
                }
            };
            // SAFETY: 16 values hold any vector.
            let (va, vb, vi) = unsafe {
                (
                    simd.load(a.as_ptr()),
                    simd.load(b.as_ptr()),
                    simd.load_i8(bytes.as_ptr()),
                )
            };
            check(va, &|i| a[i]);
            check(vi, &|i| bytes[i].into());
            check(simd.splat(2.5), &|_| 2.5);
            check(simd.add(va, vb), &|i| a[i] + b[i]);
            check(simd.mul(va, vb), &|i| a[i] * b[i]);
            // These products are exact, so that fused and separate rounding agree.
            check(simd.mul_add(va, vb, simd.splat(1.0)), &|i| {
                a[i] * b[i] + 1.0
            });
            assert_eq!(simd.sum(va), a[..lanes].iter().sum::<f32>());
            let four = [va, vb, simd.splat(2.0), simd.add(va, va)];
            let folded = simd.sum_folded(simd.fold_each(four));
            assert_eq!(folded, four.map(|vector| simd.sum(vector)));
        }
    }

    /// Sums of products of integers, of 8 bits and of 15, against plain arithmetic.
    struct IntegerProducts;

    impl Body for IntegerProducts {
        type Output = ();

        #[inline(always)]
        fn run<S: Simd>(self, simd: S) {
            // The largest magnitudes come together in the first lane.
            let b: [i8; 64] = std::array::from_fn(|i| [127, 127, 127, 127, -128, 0, -1, 5][i % 8]);
            let unsigned = b.map(|b| b & 127);
            let few = b.map(|b| b & 15);
            let a: [i8; 64] = std::array::from_fn(|i| match i < 8 {
                true => [127, -127][i / 4],
                false => (i as i32 * 37 % 255 - 127) as i8,
            });
            let wide: [i16; 64] = std::array::from_fn(|i| match i < 4 {
                true => 127 * 128,
                false => (i as i32 * 4099 % 32513 - 16256) as i16,
            });
            // In pairs as `Simd::widen_i16` has them, from byte `odd` on.
            let plane = |odd: usize| -> [i8; 64] {
                std::array::from_fn(|i| {
                    wide[i / 4 * 4 + i % 4 / 2 * 2 + odd].to_le_bytes()[i % 2] as i8
                })
            };
            let load = |bytes: &[i8; 64]| {
                // SAFETY: 64 bytes hold any vector's.
                unsafe { simd.load_bytes(bytes.as_ptr()) }
            };
            let check = |sums: S::Ints, expected: &dyn Fn(usize) -> i32| {
                let mut out = [0f32; 16];
                // SAFETY: 16 values hold any vector.
                unsafe { simd.store(simd.to_float(sums), out.as_mut_ptr()) };
                for (lane, sum) in out.iter().enumerate().take(S::LANES) {
                    assert_eq!(*sum, expected(lane) as f32, "lane {lane}");
                }
            };
            let sum = |b: [i8; 64], a: &dyn Fn(usize) -> i32| -> Vec<i32> {
                let product = |i: usize| i32::from(b[i]) * a(i);
                let lane = |lane: usize| (4 * lane..4 * lane + 4).map(product).sum();
                (0..16).map(lane).collect()
            };
            let start = simd.splat_int(-3);
            let bytes = sum(unsigned, &|i| a[i].into());
            check(simd.dot(start, load(&unsigned), load(&a)), &|lane| {
                bytes[lane] - 3
            });
            for (signed, b) in [(false, unsigned), (true, b)] {
                let sums = sum(b, &|i| wide[i].into());
                let [first, second] = simd.widen_i16(signed, load(&b));
                let half = simd.madd_i16(start, first, load(&plane(0)));
                let whole = simd.madd_i16(half, second, load(&plane(1)));
                check(whole, &|lane| sums[lane] - 3);
            }
            // Eight steps of 4-bit integers fit 16 bits.
            let mut partial = simd.splat_i16(0);
            for _ in 0..8 {
                partial = simd.maddubs_i16(partial, load(&few), load(&a));
            }
            let sums = sum(few, &|i| a[i].into());
            check(simd.madd_i16(start, partial, simd.splat_i16(1)), &|lane| {
                8 * sums[lane] - 3
            });
        }
    }

    /// All 65536 values of both half-width types, widened and narrowed again.
    struct EveryHalf;

    impl Body for EveryHalf {
        type Output = ();

        #[inline(always)]
        fn run<S: Simd>(self, simd: S) {
            let halves: Vec<f16> = (0..=u16::MAX).map(f16::from_bits).collect();
            let brains: Vec<bf16> = (0..=u16::MAX).map(bf16::from_bits).collect();
            let mut wide = [0f32; 16];
            let mut half = [f16::ZERO; 16];
            let mut brain = [bf16::ZERO; 16];
            for first in (0..halves.len()).step_by(S::LANES) {
                // SAFETY: 65536 is a multiple of LANES; 16 values hold any vector.
                unsafe {
                    let vector = simd.load_f16(halves.as_ptr().add(first));
                    simd.store(vector, wide.as_mut_ptr());
                    simd.store_f16(vector, half.as_mut_ptr());
                }
                for lane in 0..S::LANES {
                    let expected = halves[first + lane];
                    assert!(same(wide[lane], expected.to_f32()), "{expected:?}");
                    assert!(same(half[lane].to_f32(), expected.to_f32()), "{expected:?}");
                }
                // SAFETY: as above.
                unsafe {
                    let vector = simd.load_bf16(brains.as_ptr().add(first));
                    simd.store(vector, wide.as_mut_ptr());
                    simd.store_bf16(vector, brain.as_mut_ptr());
                }
                for lane in 0..S::LANES {
                    let expected = brains[first + lane];
                    assert!(same(wide[lane], expected.to_f32()), "{expected:?}");
                    assert!(
                        same(brain[lane].to_f32(), expected.to_f32()),
                        "{expected:?}"
                    );
                }
            }
        }
    }

    /// Floats around every rounding boundary of the narrow types.
    struct Rounding;

    impl Body for Rounding {
        type Output = ();

        #[inline(always)]
        fn run<S: Simd>(self, simd: S) {
            let mut half = [f16::ZERO; 16];
            let mut brain = [bf16::ZERO; 16];
            let mut state = 1u32;
            for _ in 0..100_000 {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                // Half-way cases are rare by chance: often clear the bits below the rounding position.
                let mask = [!0, !0xfff, !0x7fff, !0x1fff][(state >> 7) as usize % 4];
                let value = f32::from_bits(state & mask);
                // SAFETY: 16 values hold any vector.
                unsafe {
                    simd.store_f16(simd.splat(value), half.as_mut_ptr());
                    simd.store_bf16(simd.splat(value), brain.as_mut_ptr());
                }
                assert!(
                    same(half[0].to_f32(), f16::from_f32(value).to_f32()),
                    "{value:?}"
                );
                assert!(
                    same(brain[0].to_f32(), bf16::from_f32(value).to_f32()),
                    "{value:?}"
                );
            }
        }
    }

    fn same(a: f32, b: f32) -> bool {
        a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
    }

    #[test]
    fn every_instruction_set_does_the_same() {
        for isa in Isa::available() {
            println!("{isa:?}");
            isa.run(EveryOperation);
            isa.run(IntegerProducts);
            isa.run(EveryHalf);
            isa.run(Rounding);
        }
    }
}
