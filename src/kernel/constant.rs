//! Values of function constants.

use std::ffi::CString;

use half::{bf16, f16};

use crate::device::text;
use crate::error::Result;
use crate::ffi;

mod sealed {
    pub trait Sealed {}
}

/// The value of a function constant, `constant T x [[function_constant(index)]];` of a source (`iron_constant`).
///
/// ```
/// use ironbridge::kernel::Constant;
///
/// let constants = [
///     Constant::at(0, true),
///     Constant::at(1, 0.5f32),
///     Constant::named("tile", [16u16, 8]),
/// ];
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Constant {
    place: Place,
    scalar: ffi::iron_constant_type,
    components: u32,
    /// In the machine's order, the type's own size for each component; a bool takes four.
    bytes: [u8; MOST_BYTES],
}

/// Of four components of 64 bits.
const MOST_BYTES: usize = 32;

#[derive(Debug, Clone, PartialEq)]
enum Place {
    Index(u32),
    Name(String),
}

impl Constant {
    /// The value of the constant with the attribute `[[function_constant(index)]]`.
    pub fn at(index: u32, value: impl ConstantValue) -> Constant {
        Constant::new(Place::Index(index), value)
    }

    /// The value of the constant of that name.
    pub fn named(name: impl Into<String>, value: impl ConstantValue) -> Constant {
        Constant::new(Place::Name(name.into()), value)
    }

    fn new<T: ConstantValue>(place: Place, value: T) -> Constant {
        let mut bytes = [0; MOST_BYTES];
        value.write(&mut bytes);
        Constant {
            place,
            scalar: T::SCALAR,
            components: T::COMPONENTS,
            bytes,
        }
    }

    /// The name as C wants it, which the result of [`native`](Constant::native) points to.
    pub(super) fn name(&self) -> Result<Option<CString>> {
        match &self.place {
            Place::Index(_) => Ok(None),
            Place::Name(name) => text("constant", name).map(Some),
        }
    }

    pub(super) fn native(&self, name: Option<&CString>) -> ffi::iron_constant {
        let words: [u64; MOST_BYTES / 8] = std::array::from_fn(|word| {
            let bytes = self.bytes[8 * word..][..8].try_into();
            u64::from_ne_bytes(bytes.expect("there are eight"))
        });
        ffi::iron_constant {
            name: name.map_or(std::ptr::null(), |name| name.as_ptr()),
            index: match self.place {
                Place::Index(index) => index,
                Place::Name(_) => 0,
            },
            type_: self.scalar,
            components: self.components,
            value: ffi::iron_constant__bindgen_ty_1 { u64s: words },
            ..Default::default()
        }
    }
}

/// What a function constant can be: `bool`, an integer of 8 to 64 bits, [`half::f16`], [`half::bf16`] or `f32`, or a
/// vector: an array of two, three or four of them. Sealed.
pub trait ConstantValue: sealed::Sealed {
    #[doc(hidden)]
    const SCALAR: ffi::iron_constant_type;
    #[doc(hidden)]
    const COMPONENTS: u32;
    #[doc(hidden)]
    fn write(self, bytes: &mut [u8]);
}

macro_rules! constant_values {
    ($($scalar:ty => $name:ident, |$value:ident| $bytes:expr;)*) => {$(
        impl sealed::Sealed for $scalar {}
        impl ConstantValue for $scalar {
            const SCALAR: ffi::iron_constant_type = ffi::$name;
            const COMPONENTS: u32 = 1;
            fn write(self, bytes: &mut [u8]) {
                let $value = self;
                let own = $bytes;
                bytes[..own.len()].copy_from_slice(&own);
            }
        }
        constant_values!(vector $scalar, $name, 2);
        constant_values!(vector $scalar, $name, 3);
        constant_values!(vector $scalar, $name, 4);
    )*};
    (vector $scalar:ty, $name:ident, $components:literal) => {
        impl sealed::Sealed for [$scalar; $components] {}
        impl ConstantValue for [$scalar; $components] {
            const SCALAR: ffi::iron_constant_type = ffi::$name;
            const COMPONENTS: u32 = $components;
            fn write(self, bytes: &mut [u8]) {
                let size = match Self::SCALAR {
                    ffi::IRON_CONSTANT_BOOL => 4,
                    _ => size_of::<$scalar>(),
                };
                for (value, place) in self.into_iter().zip(bytes.chunks_mut(size)) {
                    value.write(place);
                }
            }
        }
    };
}

constant_values! {
    bool => IRON_CONSTANT_BOOL, |value| u32::from(value).to_ne_bytes();
    i8 => IRON_CONSTANT_I8, |value| value.to_ne_bytes();
    u8 => IRON_CONSTANT_U8, |value| value.to_ne_bytes();
    i16 => IRON_CONSTANT_I16, |value| value.to_ne_bytes();
    u16 => IRON_CONSTANT_U16, |value| value.to_ne_bytes();
    i32 => IRON_CONSTANT_I32, |value| value.to_ne_bytes();
    u32 => IRON_CONSTANT_U32, |value| value.to_ne_bytes();
    i64 => IRON_CONSTANT_I64, |value| value.to_ne_bytes();
    u64 => IRON_CONSTANT_U64, |value| value.to_ne_bytes();
    f16 => IRON_CONSTANT_F16, |value| value.to_ne_bytes();
    bf16 => IRON_CONSTANT_BF16, |value| value.to_ne_bytes();
    f32 => IRON_CONSTANT_F32, |value| value.to_ne_bytes();
}
