//! What a buffer can hold, and what an operation can compute with.

use std::fmt::Debug;

use half::{bf16, f16};

use crate::ffi;
use crate::tables::dtypes;

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
    const DTYPE: DType;
}

macro_rules! elements {
    ($($element:ty $(=> $dtype:ident)?),*) => {$(
        impl sealed::Sealed for $element {}
        impl Element for $element {}
        $(impl Number for $element {
            const DTYPE: DType = DType::$dtype;
        })?
    )*};
}
elements!(f32 => F32, f16 => F16, bf16 => Bf16, u32 => U32, u8, i8);

macro_rules! dtype_of_rows {
    ($($variant:ident {
        block $block:ident, name $lower:literal, constant $constant:ident, ggml $name:ident = $ggml:literal,
        $elements:literal in $bytes:literal, aligned $alignment:literal, scale $scale:ident, $doc:literal
    })*) => {
        /// How the elements of a [`Tensor`](crate::Tensor) are stored (`iron_dtype`).
        ///
        /// The types with several elements in a block are GGML's. They are for weights only, and a row is a whole
        /// number of blocks. Layouts: `ggml-common.h` of llama.cpp.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum DType {
            $(#[doc = $doc] $variant,)*
        }

        impl DType {
            /// Every type.
            pub const ALL: &[DType] = &[$(DType::$variant,)*];

            /// GGML's name: `"Q4_K"`.
            pub const fn name(self) -> &'static str {
                match self {
                    $(DType::$variant => stringify!($name),)*
                }
            }

            /// Elements that are stored together: 1, or 32 or 256 for block types.
            pub const fn block_elements(self) -> usize {
                match self {
                    $(DType::$variant => $elements,)*
                }
            }

            /// Bytes of one block.
            pub const fn block_bytes(self) -> usize {
                match self {
                    $(DType::$variant => $bytes,)*
                }
            }

            /// Bytes that a tensor's offset is a multiple of.
            pub const fn alignment(self) -> usize {
                match self {
                    $(DType::$variant => $alignment,)*
                }
            }

            pub(crate) const fn native(self) -> ffi::iron_dtype {
                match self {
                    $(DType::$variant => ffi::$constant,)*
                }
            }
        }
    };
}
dtypes!(dtype_of_rows);

impl DType {
    /// The type that GGML calls so.
    #[cfg(feature = "llama")]
    pub(crate) fn named(name: &str) -> Option<DType> {
        let mut all = DType::ALL.iter().copied();
        all.find(|dtype| dtype.name() == name)
    }

    /// Bytes of `elements` packed elements; `None` when they are not whole blocks or the number overflows.
    pub const fn bytes(self, elements: usize) -> Option<usize> {
        match elements % self.block_elements() {
            0 => (elements / self.block_elements()).checked_mul(self.block_bytes()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_whole_blocks_only() {
        assert_eq!(DType::F32.bytes(3), Some(12));
        assert_eq!(DType::Bf16.bytes(3), Some(6));
        assert_eq!(DType::Q8_0.bytes(64), Some(68));
        assert_eq!(DType::Q8_0.bytes(33), None);
        assert_eq!(DType::U32.bytes(usize::MAX), None);
    }

    #[test]
    fn a_dtype_is_as_large_as_its_element() {
        assert_eq!(DType::F32.block_bytes(), size_of::<f32>());
        assert_eq!(DType::F16.block_bytes(), size_of::<f16>());
        assert_eq!(DType::Bf16.block_bytes(), size_of::<bf16>());
        assert_eq!(DType::U32.block_bytes(), size_of::<u32>());
    }
}
