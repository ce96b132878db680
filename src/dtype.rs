//! What a buffer can hold, and what an operation can compute with.

use std::fmt::Debug;

use half::{bf16, f16};

use crate::ffi;

mod sealed {
    pub trait Sealed {}
}

/// The type of a buffer's elements: `f32`, [`half::f16`], [`half::bf16`], `u32`, `u8` or `i8`.
///
/// Sealed, because the facade reads device memory as a slice of it: each implementor is plain old data without padding,
/// for which every bit pattern is a value, so that fresh, pooled or foreign memory can be read without a check.
///
/// ```compile_fail,E0277
/// let device = ironbridge::Device::open("cpu").unwrap();
/// let booleans = device.buffer::<bool>(4); // two of 256 bit patterns only
/// ```
pub trait Element:
    sealed::Sealed + Copy + Debug + Default + PartialEq + Send + Sync + 'static
{
}

/// An [`Element`] that operations can compute with.
pub trait Number: Element {
    /// Its name in a [`Tensor`](crate::Tensor).
    const DTYPE: Dtype;
}

macro_rules! elements {
    ($($element:ty $(=> $dtype:ident)?),*) => {$(
        impl sealed::Sealed for $element {}
        impl Element for $element {}
        $(impl Number for $element {
            const DTYPE: Dtype = Dtype::$dtype;
        })?
    )*};
}
elements!(f32 => F32, f16 => F16, bf16 => Bf16, u32 => U32, u8, i8);

/// How the elements of a [`Tensor`](crate::Tensor) are stored (`iron_dtype`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Dtype {
    /// IEEE 754 single precision.
    F32,
    /// IEEE 754 half precision.
    F16,
    /// The upper half of an [`F32`](Dtype::F32).
    Bf16,
    /// Unsigned 32-bit integers: token ids, positions.
    U32,
    /// GGML's block type: 32 weights as one [`F16`](Dtype::F16) scale and 32 signed bytes, 34 bytes together. Block
    /// types are for weights only, and a row is a whole number of blocks. Layouts: `ggml-common.h` of llama.cpp.
    Q8_0,
    /// 32 weights in 18 bytes.
    Q4_0,
    /// 32 weights in 20 bytes.
    Q4_1,
    /// 32 weights in 22 bytes.
    Q5_0,
    /// 32 weights in 24 bytes.
    Q5_1,
    /// 256 weights in 84 bytes.
    Q2K,
    /// 256 weights in 110 bytes.
    Q3K,
    /// 256 weights in 144 bytes.
    Q4K,
    /// 256 weights in 176 bytes.
    Q5K,
    /// 256 weights in 210 bytes.
    Q6K,
    /// 32 weights in 18 bytes.
    Iq4Nl,
}

impl Dtype {
    /// Elements that are stored together: 1, or 32 or 256 for block types.
    pub const fn block_elements(self) -> usize {
        match self {
            Dtype::F32 | Dtype::F16 | Dtype::Bf16 | Dtype::U32 => 1,
            Dtype::Q8_0 | Dtype::Q4_0 | Dtype::Q4_1 | Dtype::Q5_0 | Dtype::Q5_1 | Dtype::Iq4Nl => {
                32
            }
            Dtype::Q2K | Dtype::Q3K | Dtype::Q4K | Dtype::Q5K | Dtype::Q6K => 256,
        }
    }

    /// Whether [`Commands::interleave`](crate::Commands::interleave) takes rows of it.
    pub const fn can_interleave(self) -> bool {
        matches!(
            self,
            Dtype::F16
                | Dtype::Bf16
                | Dtype::Q8_0
                | Dtype::Q4_0
                | Dtype::Q4K
                | Dtype::Q5K
                | Dtype::Q6K
        )
    }

    /// Bytes of one block.
    pub const fn block_bytes(self) -> usize {
        match self {
            Dtype::F32 | Dtype::U32 => 4,
            Dtype::F16 | Dtype::Bf16 => 2,
            Dtype::Q8_0 => 34,
            Dtype::Q4_0 => 18,
            Dtype::Q4_1 => 20,
            Dtype::Q5_0 => 22,
            Dtype::Q5_1 => 24,
            Dtype::Q2K => 84,
            Dtype::Q3K => 110,
            Dtype::Q4K => 144,
            Dtype::Q5K => 176,
            Dtype::Q6K => 210,
            Dtype::Iq4Nl => 18,
        }
    }

    /// Bytes of `elements` packed elements; `None` when they are not whole blocks or the number overflows.
    pub const fn bytes(self, elements: usize) -> Option<usize> {
        match elements % self.block_elements() {
            0 => (elements / self.block_elements()).checked_mul(self.block_bytes()),
            _ => None,
        }
    }

    pub(crate) const fn native(self) -> ffi::iron_dtype {
        match self {
            Dtype::F32 => ffi::IRON_F32,
            Dtype::F16 => ffi::IRON_F16,
            Dtype::Bf16 => ffi::IRON_BF16,
            Dtype::U32 => ffi::IRON_U32,
            Dtype::Q8_0 => ffi::IRON_Q8_0,
            Dtype::Q4_0 => ffi::IRON_Q4_0,
            Dtype::Q4_1 => ffi::IRON_Q4_1,
            Dtype::Q5_0 => ffi::IRON_Q5_0,
            Dtype::Q5_1 => ffi::IRON_Q5_1,
            Dtype::Q2K => ffi::IRON_Q2_K,
            Dtype::Q3K => ffi::IRON_Q3_K,
            Dtype::Q4K => ffi::IRON_Q4_K,
            Dtype::Q5K => ffi::IRON_Q5_K,
            Dtype::Q6K => ffi::IRON_Q6_K,
            Dtype::Iq4Nl => ffi::IRON_IQ4_NL,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_whole_blocks_only() {
        assert_eq!(Dtype::F32.bytes(3), Some(12));
        assert_eq!(Dtype::Bf16.bytes(3), Some(6));
        assert_eq!(Dtype::Q8_0.bytes(64), Some(68));
        assert_eq!(Dtype::Q8_0.bytes(33), None);
        assert_eq!(Dtype::U32.bytes(usize::MAX), None);
    }

    #[test]
    fn a_dtype_is_as_large_as_its_element() {
        assert_eq!(Dtype::F32.block_bytes(), size_of::<f32>());
        assert_eq!(Dtype::F16.block_bytes(), size_of::<f16>());
        assert_eq!(Dtype::Bf16.block_bytes(), size_of::<bf16>());
        assert_eq!(Dtype::U32.block_bytes(), size_of::<u32>());
    }
}
