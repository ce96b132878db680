//! How a tensor's numbers are stored.

use std::fmt;

use crate::tables::tensor_types;

macro_rules! tensor_type_of_rows {
    ($($variant:ident {
        block $block:ident, name $lower:literal, constant $constant:ident, ggml $name:ident = $number:literal,
        $length:literal in $size:literal, aligned $alignment:literal, scale $scale:ident, $doc:literal
    })*) => {
        /// A GGML tensor type. Those that GGML has withdrawn are left out.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[allow(non_camel_case_types, missing_docs, reason = "these are GGML's names")]
        #[non_exhaustive]
        pub enum TensorType {
            $($name = $number,)*
        }

        impl TensorType {
            /// Every type that is known here.
            pub const ALL: &[TensorType] = &[$(TensorType::$name,)*];

            /// GGML's name: `"Q8_0"`.
            pub fn name(self) -> &'static str {
                match self {
                    $(TensorType::$name => stringify!($name),)*
                }
            }

            /// How many numbers one block holds: 1 for plain types. A row is a whole number of blocks.
            pub fn block_length(self) -> u64 {
                match self {
                    $(TensorType::$name => $length,)*
                }
            }

            /// How many bytes one block takes.
            pub fn block_size(self) -> u64 {
                match self {
                    $(TensorType::$name => $size,)*
                }
            }
        }
    };
}
tensor_types!(tensor_type_of_rows);

impl TensorType {
    pub(super) fn from_number(number: u32) -> Option<TensorType> {
        TensorType::ALL
            .iter()
            .copied()
            .find(|known| *known as u32 == number)
    }
}

impl fmt::Display for TensorType {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.pad(self.name())
    }
}
