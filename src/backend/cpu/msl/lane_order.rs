//! In which order the threads of a threadgroup take their turns. A kernel's result must not depend on it; one that
//! forgets a barrier does, and running it in several orders shows it.

use super::abi::SIMD_WIDTH;

/// The order between two barriers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LaneOrder {
    #[default]
    Forward,
    Reverse,
    /// Another order after every barrier, all of them determined by the seed.
    Random(u64),
}

impl LaneOrder {
    /// The bytes of threadgroup memory that nobody wrote: a NaN in float, half and bfloat, and an absurd integer. Zeros
    /// in one order, so that what a kernel makes of them differs.
    pub fn unwritten(self) -> u8 {
        match self {
            LaneOrder::Random(0) => 0,
            LaneOrder::Forward | LaneOrder::Reverse | LaneOrder::Random(_) => 0xff,
        }
    }

    const VARIABLE: &str = "IRONBRIDGE_SOFT_LANE_ORDER";

    /// What `IRONBRIDGE_SOFT_LANE_ORDER` asks for: `forward`, `reverse` or `random:SEED`.
    pub fn from_environment() -> Result<LaneOrder, String> {
        match std::env::var(Self::VARIABLE) {
            Ok(text) => Self::parse(&text).ok_or_else(|| {
                format!(
                    "{}={text}: expected forward, reverse or random:SEED",
                    Self::VARIABLE
                )
            }),
            Err(_) => Ok(LaneOrder::Forward),
        }
    }

    fn parse(text: &str) -> Option<LaneOrder> {
        match text {
            "" | "forward" => Some(LaneOrder::Forward),
            "reverse" => Some(LaneOrder::Reverse),
            _ => text
                .strip_prefix("random:")?
                .parse()
                .ok()
                .map(LaneOrder::Random),
        }
    }
}

/// The turns of one threadgroup: SIMD-group by SIMD-group, and the threads within each.
pub struct Turns {
    simdgroups: [u8; SIMD_WIDTH],
    lanes: [[u8; SIMD_WIDTH]; SIMD_WIDTH],
}

impl Turns {
    pub fn new() -> Turns {
        Turns {
            simdgroups: [0; SIMD_WIDTH],
            lanes: [[0; SIMD_WIDTH]; SIMD_WIDTH],
        }
    }

    /// Lays out the turns of `threads` threads. `phase` is different for every threadgroup and every barrier in it.
    pub fn arrange(&mut self, order: LaneOrder, threads: usize, phase: u64) {
        let mut random = SplitMix(match order {
            LaneOrder::Random(seed) => seed ^ phase.wrapping_mul(0x9e37_79b9_7f4a_7c15),
            _ => 0,
        });
        let simdgroups = threads.div_ceil(SIMD_WIDTH);
        permute(&mut self.simdgroups[..simdgroups], order, &mut random);
        for (index, lanes) in self.lanes[..simdgroups].iter_mut().enumerate() {
            let count = (threads - index * SIMD_WIDTH).min(SIMD_WIDTH);
            permute(&mut lanes[..count], order, &mut random);
        }
    }

    pub fn simdgroup(&self, turn: usize) -> usize {
        usize::from(self.simdgroups[turn])
    }

    pub fn lane(&self, simdgroup: usize, turn: usize) -> usize {
        usize::from(self.lanes[simdgroup][turn])
    }
}

fn permute(list: &mut [u8], order: LaneOrder, random: &mut SplitMix) {
    let last = list.len() - 1;
    for (index, entry) in list.iter_mut().enumerate() {
        *entry = if order == LaneOrder::Reverse {
            last - index
        } else {
            index
        } as u8;
    }
    if let LaneOrder::Random(_) = order {
        for index in (1..list.len()).rev() {
            list.swap(index, random.below(index + 1));
        }
    }
}

/// Steele, Lea and Flood 2014, "Fast splittable pseudorandom number generators".
struct SplitMix(u64);

impl SplitMix {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % bound as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(order: LaneOrder, threads: usize, phase: u64) -> Vec<usize> {
        let mut turns = Turns::new();
        turns.arrange(order, threads, phase);
        let simdgroups = threads.div_ceil(SIMD_WIDTH);
        let lanes = |simdgroup: usize| {
            let count = (threads - simdgroup * SIMD_WIDTH).min(SIMD_WIDTH);
            (0..count)
                .map(move |turn| (simdgroup, turn))
                .collect::<Vec<_>>()
        };
        (0..simdgroups)
            .flat_map(|turn| lanes(turns.simdgroup(turn)))
            .map(|(simdgroup, turn)| simdgroup * SIMD_WIDTH + turns.lane(simdgroup, turn))
            .collect()
    }

    #[test]
    fn every_order_gives_each_thread_one_turn() {
        for threads in [1, 31, 32, 33, 100, 1024] {
            let forward: Vec<usize> = (0..threads).collect();
            assert_eq!(all(LaneOrder::Forward, threads, 3), forward);
            assert_eq!(
                all(LaneOrder::Reverse, threads, 3),
                forward.iter().rev().copied().collect::<Vec<_>>()
            );
            let mut random = all(LaneOrder::Random(7), threads, 3);
            assert!(threads < 31 || random != forward);
            assert!(threads < 31 || random != all(LaneOrder::Random(7), threads, 4));
            random.sort_unstable();
            assert_eq!(random, forward);
        }
    }

    #[test]
    fn the_variable_is_parsed() {
        assert_eq!(LaneOrder::parse("reverse"), Some(LaneOrder::Reverse));
        assert_eq!(LaneOrder::parse("random:42"), Some(LaneOrder::Random(42)));
        for wrong in ["backward", "random", "random:", "random:x"] {
            assert_eq!(LaneOrder::parse(wrong), None, "{wrong}");
        }
    }
}
