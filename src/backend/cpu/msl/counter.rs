//! What the threads of a dispatch ask memory for, added up by code that was compiled to count.

use std::ops::AddAssign;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, PoisonError};

use super::abi::{Counts, Extent, LINE};
use crate::backend::cpu::range::Range;

/// The work of one dispatch, or of several. Bytes of textures and of `constant` arguments are in none of the numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Work {
    /// Threadgroups.
    pub threadgroups: u64,
    /// Threads.
    pub threads: u64,
    /// Bytes of device memory that threads load, each time that they do.
    pub loaded: u64,
    /// Bytes of device memory that threads store. An atomic operation stores.
    pub stored: u64,
    /// Bytes of the lines, of 64 bytes each, that a dispatch reads of device memory: each line once.
    pub read: u64,
    /// Bytes of the lines that a dispatch writes, likewise.
    pub written: u64,
    /// Threadgroup barriers, of all threadgroups together.
    pub barriers: u64,
    /// Bytes of threadgroup memory that threads load.
    pub threadgroup_loaded: u64,
    /// Bytes of threadgroup memory that threads store.
    pub threadgroup_stored: u64,
}

impl AddAssign for Work {
    fn add_assign(&mut self, other: Work) {
        self.threadgroups += other.threadgroups;
        self.threads += other.threads;
        self.loaded += other.loaded;
        self.stored += other.stored;
        self.read += other.read;
        self.written += other.written;
        self.barriers += other.barriers;
        self.threadgroup_loaded += other.threadgroup_loaded;
        self.threadgroup_stored += other.threadgroup_stored;
    }
}

/// Adds up one dispatch.
pub struct Counter {
    extents: Vec<Extent>,
    /// What the extents point to.
    lines: Vec<[Vec<AtomicU8>; 2]>,
    work: Mutex<Work>,
}

// SAFETY: the extents point to atomic bytes that the same value owns.
unsafe impl Send for Counter {}
// SAFETY: as above.
unsafe impl Sync for Counter {}

impl Counter {
    /// Of a dispatch to which these ranges of device memory are bound. They may overlap.
    pub fn new(bound: impl Iterator<Item = Range>) -> Counter {
        let mut bound: Vec<(u64, u64)> = bound
            .filter(|range| range.length > 0)
            .map(|range| (range.pointer as u64, range.pointer as u64 + range.length))
            .collect();
        bound.sort_unstable();
        let mut joined: Vec<(u64, u64)> = Vec::new();
        for (start, end) in bound {
            match joined.last_mut() {
                Some(last) if start <= last.1 => last.1 = last.1.max(end),
                _ => joined.push((start, end)),
            }
        }
        let (mut extents, mut lines) = (Vec::new(), Vec::new());
        for (start, end) in joined {
            let count = ((end - 1) / LINE - start / LINE + 1) as usize;
            let untouched = || (0..count).map(|_| AtomicU8::new(0)).collect();
            let [read, written]: [Vec<AtomicU8>; 2] = [untouched(), untouched()];
            extents.push(Extent {
                start,
                length: end - start,
                read: read.as_ptr(),
                written: written.as_ptr(),
            });
            lines.push([read, written]);
        }
        Counter {
            extents,
            lines,
            work: Mutex::default(),
        }
    }

    /// What one worker begins with, whose threadgroup memory is this.
    pub fn begin(&self, threadgroup: Range) -> Counts {
        Counts {
            extents: self.extents.as_ptr(),
            extent_count: self.extents.len() as u64,
            threadgroup_start: threadgroup.pointer as u64,
            threadgroup_length: threadgroup.length,
            ..Counts::NONE
        }
    }

    /// Adds what a worker has counted.
    pub fn add(&self, counts: &Counts, barriers: u64) {
        *self.work.lock().unwrap_or_else(PoisonError::into_inner) += Work {
            loaded: counts.loaded,
            stored: counts.stored,
            threadgroup_loaded: counts.threadgroup_loaded,
            threadgroup_stored: counts.threadgroup_stored,
            barriers,
            ..Work::default()
        };
    }

    /// How large the dispatch is.
    pub fn launched(&self, threadgroups: u64, threads: u64) {
        let mut work = self.work.lock().unwrap_or_else(PoisonError::into_inner);
        (work.threadgroups, work.threads) = (threadgroups, threads);
    }

    /// All of it, after the dispatch.
    pub fn work(self) -> Work {
        let touched = |way: usize| {
            let lines = self.lines.iter().flat_map(|both| &both[way]);
            lines
                .map(|line| u64::from(line.load(Ordering::Relaxed)) * LINE)
                .sum()
        };
        let (read, written) = (touched(0), touched(1));
        let work = self
            .work
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        Work {
            read,
            written,
            ..work
        }
    }
}
