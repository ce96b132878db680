//! Stacks for fibers, each with a guard page below it, kept for reuse.

use std::io;
use std::ptr::null_mut;

use super::abi::STACK;

/// The smallest page of any supported system.
const PAGE_AT_LEAST: usize = 4096;
/// Stacks that are mapped together.
const SLAB: usize = 16;

/// A worker's stacks: those that are free, and the mappings they all lie in.
pub struct Stacks {
    /// Bytes of the guard page below each: the system's page, which is 16 KiB on Apple silicon.
    guard: usize,
    all: Vec<*mut u8>,
    free: Vec<*mut u8>,
    mappings: Vec<(*mut u8, usize)>,
}

impl Default for Stacks {
    fn default() -> Stacks {
        // SAFETY: sysconf has no preconditions.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) }.max(PAGE_AT_LEAST as _) as usize;
        Stacks::with_guard(page)
    }
}

impl Stacks {
    fn with_guard(guard: usize) -> Stacks {
        Stacks {
            guard,
            all: Vec::new(),
            free: Vec::new(),
            mappings: Vec::new(),
        }
    }

    /// The top of a free stack: a multiple of its size, so that code running on it finds it from its stack pointer.
    pub fn take(&mut self) -> io::Result<*mut u8> {
        if self.free.is_empty() {
            self.grow()?;
        }
        self.free
            .pop()
            .ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))
    }

    /// Whether that is the top of one of these stacks. Safe in a signal handler.
    pub fn has(&self, top: *mut u8) -> bool {
        self.all.contains(&top)
    }

    /// Whether an address lies in the guard page below one of these stacks. Safe in a signal handler.
    pub fn guards(&self, address: usize) -> bool {
        let bottom = |top: &*mut u8| top.addr() - STACK;
        let guarded = |top| (bottom(top)..bottom(top) + self.guard).contains(&address);
        self.all.iter().any(guarded)
    }

    /// Gives a stack back. The caller may still be running on it until it switches away for good.
    pub fn give_back(&mut self, top: *mut u8) {
        self.free.push(top);
    }

    /// Takes every stack back, whatever fibers were left on them.
    pub fn reclaim(&mut self) {
        self.free.clone_from(&self.all);
    }

    fn grow(&mut self) -> io::Result<()> {
        // One more than needed, for the alignment.
        let length = STACK * (SLAB + 1);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANON | libc::MAP_NORESERVE;
        // SAFETY: a new anonymous mapping at an address of the kernel's choice touches no existing memory.
        let base = unsafe {
            libc::mmap(
                null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                flags,
                -1,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = base.cast::<u8>();
        self.mappings.push((base, length));
        let first = base.wrapping_add(base.align_offset(STACK));
        for index in 0..SLAB {
            let bottom = first.wrapping_add(index * STACK);
            // SAFETY: `bottom` and the guard page after it lie in the mapping made above: `first` skips less than one
            // stack's size.
            if unsafe { libc::mprotect(bottom.cast(), self.guard, libc::PROT_NONE) } != 0 {
                return Err(io::Error::last_os_error());
            }
            let top = bottom.wrapping_add(STACK);
            self.all.push(top);
            self.free.push(top);
        }
        Ok(())
    }
}

impl Drop for Stacks {
    fn drop(&mut self) {
        for &(base, length) in &self.mappings {
            // SAFETY: these mappings were made by `grow`, and no fiber runs when a worker's state is dropped.
            unsafe { libc::munmap(base.cast(), length) };
        }
    }
}

// SAFETY: the pointers are to mappings that this value alone owns; nothing is tied to the thread that made them.
unsafe impl Send for Stacks {}

#[cfg(test)]
mod tests {
    use super::*;

    /// On Apple silicon an overflow arrives at the upper end of a page of 16 KiB.
    #[test]
    fn a6_all_of_the_guard_page_is_known_as_such() {
        for page in [PAGE_AT_LEAST, 16 * 1024] {
            let mut stacks = Stacks::with_guard(page);
            let bottom = stacks.take().expect("memory").addr() - STACK;
            assert!(stacks.guards(bottom) && stacks.guards(bottom + page - 1));
            assert!(!stacks.guards(bottom + page), "{page}");
        }
    }
}
