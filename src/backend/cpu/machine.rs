//! What the native kernels compute with, and how they share work among threads.

use std::ops::Range;
use std::time::Duration;

use super::deadline::{self, Watch};
use super::simd::{Amx, Isa, Tuning};
use crate::backend::cpu::threads::thread_pool::ThreadPool;
use crate::backend::time_limit::DISPATCH;

/// What kernels compute with.
pub struct Machine {
    pub pool: ThreadPool,
    pub isa: Isa,
    /// Its instructions for tiles of bf16.
    pub amx: Option<Amx>,
    pub tuning: &'static Tuning,
    /// How much work, in multiply-adds, is worth handing to another thread.
    pub grain_work: usize,
    /// How long a dispatch may take; `None`: no limit.
    pub deadline: Option<Duration>,
}

impl Machine {
    pub fn new(threads: usize) -> Machine {
        let isa = Isa::best();
        Machine {
            pool: ThreadPool::new(threads),
            isa,
            amx: Amx::new(),
            tuning: Tuning::of(isa),
            // What a thread does in some ten microseconds, several times what it takes to wake it.
            grain_work: 1 << 18,
            deadline: Some(DISPATCH.default),
        }
    }

    /// Whether threads that are not the device's own may bring work. Not where that changes more of them than the rules
    /// of function calls allow in practice: llama.cpp configures tiles once per thread.
    pub fn accepts_foreign_threads(&self) -> bool {
        self.pool.accepts_foreign_threads() && self.amx.is_none()
    }

    /// The grain for items of `work` multiply-adds each.
    pub fn grain(&self, work: usize) -> Grain {
        Grain {
            least: self.grain_work.div_ceil(work.max(1)),
            most: (deadline::PIECE / work.max(1)).max(1),
        }
    }

    /// Splits `0..items` into ranges of some `grain` items or more and calls `body` with each, on several threads. A
    /// grain of [`ALONE`] keeps everything on the calling thread. What the dispatch has no time left for is not done,
    /// see [`deadline`].
    ///
    /// A range's end breaks off a stream from memory, so there are no more of them than help: one for a single thread,
    /// and for several ranges that get smaller, so that all threads end at about the same time, also when one was held
    /// up. (Tzeng & Ni 1993, "Trapezoid self-scheduling", IEEE TPDS 4(1).)
    pub fn for_ranges(&self, items: usize, grain: Grain, body: impl Fn(Range<usize>) + Sync) {
        self.share(items, grain, &body);
    }

    /// Compiled once: kernels have hundreds of bodies.
    fn share(&self, items: usize, grain: Grain, body: &(dyn Fn(Range<usize>) + Sync)) {
        const RANGES_PER_THREAD: usize = 6;
        let watch = Watch::begin();
        if watch.is_over() {
            return;
        }
        let threads = self.pool.threads();
        let most = match threads {
            1 => 1,
            _ => threads * RANGES_PER_THREAD,
        };
        let worth = items / grain.least.max(1);
        let ranges = Ranges {
            items,
            count: worth.clamp(1, most),
            falling: worth >= most,
        };
        self.pool.parallel_for(ranges.count, |range| {
            watch.in_pieces(ranges.get(range), grain.most, body);
        });
        watch.end();
    }
}

/// How many items are worth handing to another thread, and how many are done between two readings of the clock.
#[derive(Clone, Copy)]
pub struct Grain {
    least: usize,
    most: usize,
}

/// `0..items` in `count` ranges: alike but for one item, or as long as `count`, `count - 1`, … 1 parts of it.
#[derive(Clone, Copy)]
pub struct Ranges {
    pub items: usize,
    pub count: usize,
    pub falling: bool,
}

impl Ranges {
    pub fn get(&self, index: usize) -> Range<usize> {
        self.start(index)..self.start(index + 1)
    }

    fn start(&self, index: usize) -> usize {
        let Ranges { items, count, .. } = *self;
        // `before` of `parts` parts.
        let (before, parts) = match self.falling {
            true => (index * (2 * count - index + 1) / 2, count * (count + 1) / 2),
            false => (index, count),
        };
        items / parts * before + items % parts * before / parts
    }
}

/// The grain of work that must not be shared between threads.
pub const ALONE: Grain = Grain {
    least: usize::MAX,
    most: usize::MAX,
};
