//! Numbers for first weights and for the order of texts.

/// SplitMix64 (Steele, Lea and Flood 2014, "Fast splittable pseudorandom number generators"): the same seed gives the
/// same numbers everywhere.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Numbers from 0 to below `count` in a random order (Fisher and Yates).
    pub fn order(&mut self, count: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..count).collect();
        for last in (1..count).rev() {
            // The excess of some over others is below 2^-32 for what memory holds.
            let other = (u128::from(self.bits()) * (last as u128 + 1)) >> 64;
            order.swap(last, other as usize);
        }
        order
    }

    /// From `-bound` to below `bound`.
    pub fn uniform(&mut self, bound: f32) -> f32 {
        let unit = (self.bits() >> 40) as f32 / (1 << 23) as f32;
        (unit - 1.0) * bound
    }
}

#[cfg(test)]
mod tests {
    use super::Random;

    #[test]
    fn it_is_splitmix64() {
        // The reference implementation's first numbers of seed 1234567.
        let mut random = Random::new(1_234_567);
        assert_eq!(random.bits(), 6_457_827_717_110_365_317);
        assert_eq!(random.bits(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn orders_have_each_number_once() {
        let mut random = Random::new(3);
        let [first, second] = [random.order(100), random.order(100)];
        assert_ne!(first, second);
        for mut order in [first, second] {
            order.sort_unstable();
            assert!(order.into_iter().eq(0..100));
        }
        assert!(random.order(0).is_empty());
    }

    #[test]
    fn numbers_are_in_their_bounds() {
        let mut random = Random::new(1);
        let numbers: Vec<f32> = (0..1000).map(|_| random.uniform(0.5)).collect();
        assert!(numbers.iter().all(|number| (-0.5..0.5).contains(number)));
        let mean: f32 = numbers.iter().sum::<f32>() / 1000.0;
        assert!(mean.abs() < 0.05, "{mean}");
    }
}
