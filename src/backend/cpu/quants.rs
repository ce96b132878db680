//! How a type is stored in a buffer, and how its elements become f32 or integers for products.

mod blocks;
mod dot;
mod iq4;
mod mxfp4;
pub mod packing;
mod storage;
mod ternary;
#[cfg(target_arch = "x86_64")]
pub mod units;
pub mod x16;
mod x16_q2_q3;

pub use blocks::*;
pub use dot::{Integers, SCALED_GROUPS, Scales};
pub use iq4::*;
pub use mxfp4::*;
pub use storage::*;
pub use ternary::*;
pub use x16::{BlockRows, Interleaved, InterleavedIntegers, SUB_BLOCKS, WORD, X16_ROWS};

use crate::tables::block_dtypes;

macro_rules! stored_rows {
    ($($variant:ident {
        block $block:ident, name $lower:literal, constant $constant:ident, ggml $name:ident = $ggml:literal,
        $elements:literal in $bytes:literal, aligned $alignment:literal, $($rest:tt)*
    })*) => {$(
        impl Stored for $block {
            const ELEMENTS: usize = $elements;
        }

        const _: () = assert!(size_of::<$block>() == $bytes && align_of::<$block>() == $alignment);
    )*};
}
block_dtypes!(stored_rows);

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks of random bytes and the weights that the public `gguf` package reads from them. Made by
    /// scripts/block_fixtures.py.
    fn check<B: Readable>(name: &str) {
        let fixtures: serde_json::Value =
            serde_json::from_str(include_str!("../../../tests/data/blocks.json")).expect("JSON");
        let fixture = &fixtures[name];
        let bytes: Vec<u8> = (fixture["bytes"].as_array().expect("bytes").iter())
            .map(|byte| byte.as_u64().expect("a byte") as u8)
            .collect();
        let weights = fixture["weights"].as_array().expect("weights");
        assert_eq!(bytes.len() % size_of::<B>(), 0);
        assert_eq!(bytes.len() / size_of::<B>() * B::ELEMENTS, weights.len());
        let blocks: Vec<B> = bytes
            .chunks(size_of::<B>())
            // SAFETY: blocks are plain bytes and as long as the chunk.
            .map(|chunk| unsafe { chunk.as_ptr().cast::<B>().read_unaligned() })
            .collect();
        for (index, weight) in weights.iter().enumerate() {
            let bits = weight.as_u64().expect("the bits of a weight") as u32;
            // SAFETY: the index is below the number of weights.
            let value = unsafe { B::element(blocks.as_ptr(), index) };
            let expected = f32::from_bits(bits);
            assert!(
                value == expected,
                "{name} weight {index}: {value} is not {expected}"
            );
        }
    }

    #[test]
    fn weights_are_those_of_the_gguf_package() {
        macro_rules! check_rows {
            ($($variant:ident {
                block $block:ident, name $lower:literal, constant $constant:ident, ggml $name:ident = $($rest:tt)*
            })*) => {
                $(check::<$block>(stringify!($name));)*
            };
        }
        block_dtypes!(check_rows);
    }
}
