//! The 4-bit types whose numbers choose among levels that are not evenly spaced.

use half::f16;

use super::blocks::{Block, blocks, nibble};
use super::dot::{Integers, Scales, halves, one_group, scales_of_halves};
use super::storage::GROUP;
use crate::backend::cpu::simd::Simd;

blocks! {
    /// `scale · level[q]`.
    BlockIq4Nl { scale: f16, quants: [u8; 16] }
}

/// The levels, in scales: closer together where weights are more frequent. (`kvalues_iq4nl`.)
const LEVELS: [i8; 16] = [
    -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113,
];

fn level(quant: u8) -> f32 {
    f32::from(LEVELS[usize::from(quant)])
}

impl Block for BlockIq4Nl {
    #[inline(always)]
    fn group(&self, _: usize) -> [f32; GROUP] {
        let scale = self.scale.to_f32();
        std::array::from_fn(|i| scale * level(nibble(&self.quants, i)))
    }
}

one_group!(BlockIq4Nl, { SIGNED: bool = true; }, scale, |simd, from| {
    let nibbles = simd.load_nibbles((&raw const (*from).quants).cast());
    simd.bias_group(simd.shuffle_lut(nibbles, &LEVELS))
});
