//! Thread-local scratch arenas: memory stays with its thread for the next use, so a steady state allocates nothing and
//! touches no fresh page.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::LocalKey;

use crate::backend::fault::Fault;

/// As much as a cache holds together and the widest vector loads.
const LINE: usize = 64;

#[repr(align(64))]
#[derive(Clone, Copy)]
pub struct CacheLine {
    _bytes: [u8; LINE],
}

/// One piece of a thread's memory, between uses.
pub type Arena = LocalKey<Cell<Vec<CacheLine>>>;

/// Declares an arena: `arena!(NAME)`.
macro_rules! arena {
    ($name:ident) => {
        thread_local! {
            static $name: std::cell::Cell<Vec<$crate::backend::cpu::scratch::CacheLine>> =
                const { std::cell::Cell::new(Vec::new()) };
        }
    };
}
pub(crate) use arena;

/// There is no memory.
#[derive(Debug)]
pub struct AllocError;

/// Whether there was no memory for some part of a kernel's work, on whichever thread.
#[derive(Default)]
pub struct AllocStatus(AtomicBool);

impl AllocStatus {
    pub fn note(&self, part: Result<(), AllocError>) {
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
    arena: &'static Arena,
    memory: Vec<CacheLine>,
    pointer: *mut u8,
}

impl Scratch {
    /// At least `bytes` of any content, aligned to a cache line. While it lives, another taken from the same `arena` is
    /// fresh memory.
    pub fn take(arena: &'static Arena, bytes: usize) -> Result<Scratch, AllocError> {
        let mut memory = arena.take();
        let lines = bytes.div_ceil(LINE);
        if memory.len() < lines {
            memory
                .try_reserve_exact(lines - memory.len())
                .map_err(|_| AllocError)?;
            memory.resize(lines, CacheLine { _bytes: [0; LINE] });
        }
        let pointer = memory.as_mut_ptr().cast();
        Ok(Scratch {
            arena,
            memory,
            pointer,
        })
    }

    /// Pieces of that many floats each, one after the other.
    pub fn floats<const N: usize>(
        arena: &'static Arena,
        counts: [usize; N],
    ) -> Result<(Scratch, [*mut f32; N]), AllocError> {
        let total = counts
            .iter()
            .fold(0, |sum: usize, count| sum.saturating_add(*count));
        let scratch = Scratch::take(arena, total.saturating_mul(size_of::<f32>()))?;
        let mut start = 0;
        let pieces = counts.map(|count| {
            let piece = scratch.at(start, count);
            start += count * size_of::<f32>();
            piece
        });
        Ok((scratch, pieces))
    }

    /// As [`take`](Scratch::take), for `purpose` as an error names it.
    pub fn take_for(purpose: &str, arena: &'static Arena, bytes: usize) -> Result<Scratch, Fault> {
        Scratch::take(arena, bytes)
            .map_err(|_| Fault::OutOfMemory(format!("no memory for {bytes} bytes of {purpose}")))
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
        self.arena.set(std::mem::take(&mut self.memory));
    }
}
