//! How a type lies in a buffer, and how its elements become f32 or integers for products.

mod blocks;
mod dot;
mod storage;
mod x16;

pub use blocks::*;
pub use dot::{Integers, SCALED_GROUPS, Scales};
pub use storage::*;
pub use x16::{BlockRows, Interleaved, InterleavedIntegers, SHARES, STRIP, WORD};
