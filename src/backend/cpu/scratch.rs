//! Memory of the calling thread, kept for its next use: a steady state allocates nothing and meets no fresh page.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::LocalKey;

use crate::backend::fault::Fault;

/// As much as a cache holds together and the widest vector loads.
const LINE: usize = 64;

#[repr(align(64))]
#[derive(Clone, Copy)]
pub struct Line {
    _bytes: [u8; LINE],
}

/// Where a thread keeps one piece of memory between uses.
pub type Keep = LocalKey<Cell<Vec<Line>>>;

/// There is no memory.
#[derive(Debug)]
pub struct Exhausted;

/// Whether there was no memory for some part of a kernel's work, on whichever thread.
#[derive(Default)]
pub struct Shortage(AtomicBool);

impl Shortage {
    pub fn note(&self, part: Result<(), Exhausted>) {
        if part.is_err() {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    /// The result of all parts, each of which needed memory for `purpose`.
    pub fn into_result(self, purpose: &str) -> Result<(), Fault> {
        match self.0.into_inner() {
            true => Err(Fault::OutOfMemory(format!("no memory for {purpose}"))),
            false => Ok(()),
        }
    }
}

pub struct Scratch {
    keep: &'static Keep,
    memory: Vec<Line>,
    pointer: *mut u8,
}

impl Scratch {
    /// At least `bytes` of any content, aligned to a cache line. While it lives, another taken from the same `keep` is
    /// fresh memory.
    pub fn take(keep: &'static Keep, bytes: usize) -> Result<Scratch, Exhausted> {
        let mut memory = keep.take();
        let lines = bytes.div_ceil(LINE);
        if memory.len() < lines {
            memory
                .try_reserve_exact(lines - memory.len())
                .map_err(|_| Exhausted)?;
            memory.resize(lines, Line { _bytes: [0; LINE] });
        }
        let pointer = memory.as_mut_ptr().cast();
        Ok(Scratch {
            keep,
            memory,
            pointer,
        })
    }

    /// A pointer to `count` values from byte `start` on.
    ///
    /// # Panics
    /// When they are not inside, or not aligned: a bug of the kernel.
    #[inline(always)]
    pub fn at<T>(&self, start: usize, count: usize) -> *mut T {
        let length = self.memory.len() * LINE;
        assert!(
            start <= length && count <= (length - start) / size_of::<T>(),
            "a kernel left its scratch"
        );
        assert!(
            start.is_multiple_of(align_of::<T>()),
            "a kernel's scratch is not aligned"
        );
        self.pointer.wrapping_add(start).cast()
    }
}

// SAFETY: `at` only computes pointers into plain memory; whoever follows them sees to it that no two threads write the
// same place.
unsafe impl Sync for Scratch {}

impl Drop for Scratch {
    fn drop(&mut self) {
        self.keep.set(std::mem::take(&mut self.memory));
    }
}
