//! How a tensor's numbers are stored.

use std::fmt;

/// One row a type: its name, its number in the file, the numbers in a block and the bytes of a block.
macro_rules! tensor_types {
    ($($name:ident = $number:literal, $length:literal in $size:literal;)*) => {
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

// The figures are those of GGML_QUANT_SIZES in llama.cpp's `gguf` package.
tensor_types! {
    F32 = 0, 1 in 4;
    F16 = 1, 1 in 2;
    Q4_0 = 2, 32 in 18;
    Q4_1 = 3, 32 in 20;
    Q5_0 = 6, 32 in 22;
    Q5_1 = 7, 32 in 24;
    Q8_0 = 8, 32 in 34;
    Q8_1 = 9, 32 in 40;
    Q2_K = 10, 256 in 84;
    Q3_K = 11, 256 in 110;
    Q4_K = 12, 256 in 144;
    Q5_K = 13, 256 in 176;
    Q6_K = 14, 256 in 210;
    Q8_K = 15, 256 in 292;
    IQ2_XXS = 16, 256 in 66;
    IQ2_XS = 17, 256 in 74;
    IQ3_XXS = 18, 256 in 98;
    IQ1_S = 19, 256 in 50;
    IQ4_NL = 20, 32 in 18;
    IQ3_S = 21, 256 in 110;
    IQ2_S = 22, 256 in 82;
    IQ4_XS = 23, 256 in 136;
    I8 = 24, 1 in 1;
    I16 = 25, 1 in 2;
    I32 = 26, 1 in 4;
    I64 = 27, 1 in 8;
    F64 = 28, 1 in 8;
    IQ1_M = 29, 256 in 56;
    BF16 = 30, 1 in 2;
    TQ1_0 = 34, 256 in 54;
    TQ2_0 = 35, 256 in 66;
    MXFP4 = 39, 32 in 17;
    NVFP4 = 40, 64 in 36;
    Q1_0 = 41, 128 in 18;
}

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
