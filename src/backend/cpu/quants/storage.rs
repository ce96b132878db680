//! What buffers hold, and how it becomes f32.

use half::{bf16, f16};

use crate::backend::cpu::simd::{Simd, widen_f16};

/// A value as it is stored in a buffer.
pub trait Stored: Copy + Send + Sync + 'static {
    /// How many elements one stored value stands for: more than one in block-quantized types.
    const ELEMENTS: usize = 1;
    const IS_F32: bool = false;
}

impl Stored for f32 {
    const IS_F32: bool = true;
}
impl Stored for u32 {}
impl Stored for f16 {}
impl Stored for bf16 {}

/// GGML's Q8_0: 32 elements, each `scale` times a signed byte. (ggml-common.h, `block_q8_0`.)
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BlockQ8_0 {
    pub scale: f16,
    pub quants: [i8; 32],
}

/// Elements are widened in groups of this many: a multiple of every vector's lanes and of every type's block.
pub const GROUP: usize = 32;

/// Stored elements that a kernel reads as f32. Every conversion is exact.
pub trait Readable: Stored {
    /// Elements `GROUP * group + offset ..` of `row`, as many as a vector has lanes. `offset` is a multiple of the
    /// lanes and below `GROUP`.
    ///
    /// # Safety
    /// `row` is readable for these elements.
    unsafe fn vector<S: Simd>(simd: S, row: *const Self, group: usize, offset: usize) -> S::Vector;

    /// Element `index` of `row`.
    ///
    /// # Safety
    /// `row` is readable for this element.
    unsafe fn element(row: *const Self, index: usize) -> f32;

    /// Widens the first `count` elements of `row`.
    ///
    /// # Safety
    /// `row` is readable and `to` writable for `count` elements.
    #[inline(always)]
    unsafe fn widen<S: Simd>(simd: S, row: *const Self, to: *mut f32, count: usize) {
        // SAFETY: whole groups first, then single elements, none at or past `count`.
        unsafe {
            for group in 0..count / GROUP {
                for offset in (0..GROUP).step_by(S::LANES) {
                    let vector = Self::vector(simd, row, group, offset);
                    simd.store(vector, to.add(group * GROUP + offset));
                }
            }
            for index in count - count % GROUP..count {
                to.add(index).write(Self::element(row, index));
            }
        }
    }
}

impl Readable for f32 {
    #[inline(always)]
    unsafe fn vector<S: Simd>(simd: S, row: *const f32, group: usize, offset: usize) -> S::Vector {
        // SAFETY: the caller's promise.
        unsafe { simd.load(row.add(group * GROUP + offset)) }
    }

    #[inline(always)]
    unsafe fn element(row: *const f32, index: usize) -> f32 {
        // SAFETY: the caller's promise.
        unsafe { row.add(index).read() }
    }
}

impl Readable for f16 {
    #[inline(always)]
    unsafe fn vector<S: Simd>(simd: S, row: *const f16, group: usize, offset: usize) -> S::Vector {
        // SAFETY: the caller's promise.
        unsafe { simd.load_f16(row.add(group * GROUP + offset)) }
    }

    #[inline(always)]
    unsafe fn element(row: *const f16, index: usize) -> f32 {
        // SAFETY: the caller's promise.
        unsafe { row.add(index).read() }.to_f32()
    }
}

impl Readable for bf16 {
    #[inline(always)]
    unsafe fn vector<S: Simd>(simd: S, row: *const bf16, group: usize, offset: usize) -> S::Vector {
        // SAFETY: the caller's promise.
        unsafe { simd.load_bf16(row.add(group * GROUP + offset)) }
    }

    #[inline(always)]
    unsafe fn element(row: *const bf16, index: usize) -> f32 {
        // SAFETY: the caller's promise.
        unsafe { row.add(index).read() }.to_f32()
    }
}

impl Readable for BlockQ8_0 {
    #[inline(always)]
    unsafe fn vector<S: Simd>(
        simd: S,
        row: *const BlockQ8_0,
        group: usize,
        offset: usize,
    ) -> S::Vector {
        const { assert!(GROUP == Self::ELEMENTS) }
        // SAFETY: the caller's promise; no reference is made.
        let (scale, quants) = unsafe {
            let block = row.add(group);
            let quants: *const i8 = (&raw const (*block).quants).cast();
            (
                (&raw const (*block).scale).read(),
                simd.load_i8(quants.add(offset)),
            )
        };
        // 11 bits times 8: exact.
        simd.mul(simd.splat(widen_f16(scale.to_bits())), quants)
    }

    #[inline(always)]
    unsafe fn element(row: *const BlockQ8_0, index: usize) -> f32 {
        // SAFETY: the caller's promise.
        let block = unsafe { row.add(index / Self::ELEMENTS).read() };
        block.scale.to_f32() * f32::from(block.quants[index % Self::ELEMENTS])
    }
}

/// Elements that a kernel also writes, rounded to nearest even.
pub trait Writable: Readable {
    /// # Safety
    /// `to` is writable for as many values as a vector has lanes.
    unsafe fn store<S: Simd>(simd: S, vector: S::Vector, to: *mut Self);

    fn from_f32(value: f32) -> Self;
}

impl Writable for f32 {
    #[inline(always)]
    unsafe fn store<S: Simd>(simd: S, vector: S::Vector, to: *mut f32) {
        // SAFETY: the caller's promise.
        unsafe { simd.store(vector, to) }
    }

    #[inline(always)]
    fn from_f32(value: f32) -> f32 {
        value
    }
}

impl Writable for f16 {
    #[inline(always)]
    unsafe fn store<S: Simd>(simd: S, vector: S::Vector, to: *mut f16) {
        // SAFETY: the caller's promise.
        unsafe { simd.store_f16(vector, to) }
    }

    #[inline(always)]
    fn from_f32(value: f32) -> f16 {
        f16::from_f32(value)
    }
}

impl Writable for bf16 {
    #[inline(always)]
    unsafe fn store<S: Simd>(simd: S, vector: S::Vector, to: *mut bf16) {
        // SAFETY: the caller's promise.
        unsafe { simd.store_bf16(vector, to) }
    }

    #[inline(always)]
    fn from_f32(value: f32) -> bf16 {
        bf16::from_f32(value)
    }
}
