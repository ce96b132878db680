//! The memory behind buffers: whole pages of the system's, zeroed, or the caller's. The one place that knows how a
//! buffer is mapped. A buffer of weights knows how its rows lie.

use std::ffi::c_void;
use std::ptr::{self, NonNull};

use super::bindings::Range;
use super::weights::Weights;
use crate::backend::fault::Fault;
use crate::backend::vtable::{Buffer, HostPages, Matrix, Storage};

/// Of a large page, where the system has them. Memory of this size and above is aligned to it.
const LARGE_PAGE: usize = if cfg!(target_os = "linux") {
    2 << 20
} else {
    usize::MAX
};

/// A buffer.
pub struct Memory {
    pages: NonNull<u8>,
    /// In bytes, not rounded.
    length: usize,
    shared: bool,
    /// The caller's, who keeps it.
    imported: bool,
    weights: Option<Weights>,
}

// SAFETY: plain memory. Metal's rules, which the device keeps, say who may touch it when.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

pub fn page_size() -> u64 {
    // SAFETY: asks for a number.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

/// The machine's memory, in bytes.
pub fn of_machine() -> u64 {
    // SAFETY: asks for a number.
    let pages = unsafe { libc::sysconf(libc::_SC_PHYS_PAGES) };
    u64::try_from(pages).unwrap_or(0) * page_size()
}

/// `length` in whole pages, in bytes.
fn rounded(length: usize) -> Option<usize> {
    length.checked_next_multiple_of(page_size() as usize)
}

fn map(length: usize) -> Option<NonNull<u8>> {
    // SAFETY: a new mapping, which overlaps nothing.
    let pages = unsafe {
        libc::mmap(
            ptr::null_mut(),
            length,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANON,
            -1,
            0,
        )
    };
    NonNull::new(pages.cast()).filter(|_| pages != libc::MAP_FAILED)
}

/// Zeroed pages.
fn map_aligned(length: usize) -> Option<NonNull<u8>> {
    let rounded = rounded(length)?;
    if rounded < LARGE_PAGE {
        return map(rounded);
    }
    // Large pages are where their size divides the address. What lies around these addresses goes back; it was never
    // touched.
    let around = map(rounded.checked_add(LARGE_PAGE)?)?;
    let before = around.addr().get().next_multiple_of(LARGE_PAGE) - around.addr().get();
    // SAFETY: both ranges are of the new mapping, and nobody knows them.
    unsafe {
        let pages = around.add(before);
        if before > 0 {
            libc::munmap(around.as_ptr().cast(), before);
        }
        libc::munmap(pages.as_ptr().add(rounded).cast(), LARGE_PAGE - before);
        Some(pages)
    }
}

impl Memory {
    /// Zeroed.
    pub fn new(length: u64, storage: Storage) -> Result<Memory, Fault> {
        let exhausted = || Fault::OutOfMemory(format!("there is no memory for {length} bytes"));
        let size = usize::try_from(length).map_err(|_| exhausted())?;
        Ok(Memory {
            pages: map_aligned(size).ok_or_else(exhausted)?,
            length: size,
            shared: storage == Storage::Shared,
            imported: false,
            weights: None,
        })
    }

    /// Zeroed, for weights alone.
    pub fn for_weights(length: u64, weights: Weights) -> Result<Memory, Fault> {
        let mut memory = Memory::new(length, Storage::Weights)?;
        memory.expect_reads();
        memory.weights = Some(weights);
        Ok(memory)
    }

    /// How many rows of weights from `offset` on lie in x16 panels.
    pub fn x16_rows(&self, offset: u64) -> u64 {
        let weights = self.weights.as_ref();
        weights.map_or(0, |weights| weights.x16_rows(offset))
    }

    fn weights(&self) -> Result<&Weights, Fault> {
        let none = || Fault::Invalid(String::from("the buffer was not made for weights"));
        self.weights.as_ref().ok_or_else(none)
    }

    pub fn imported(pages: &HostPages) -> Result<Memory, Fault> {
        let too_long = |_| Fault::OutOfMemory(format!("{} bytes are too many", pages.length));
        Ok(Memory {
            pages: pages.pointer,
            length: usize::try_from(pages.length).map_err(too_long)?,
            shared: true,
            imported: true,
            weights: None,
        })
    }

    /// `length` bytes from `offset` on; fewer where the buffer ends.
    pub fn range(&self, offset: u64, length: u64) -> Range {
        let all = self.length as u64;
        let offset = offset.min(all);
        Range {
            pointer: self.pages.as_ptr().wrapping_add(offset as usize),
            length: length.min(all - offset),
        }
    }
}

impl Buffer for Memory {
    fn address(&self) -> u64 {
        self.pages.addr().get() as u64
    }

    fn contents(&self) -> Option<NonNull<u8>> {
        self.shared.then_some(self.pages)
    }

    /// Memory that will be touched as a whole comes in large pages. The processor prefetches across 4 KiB, and needs a
    /// translation for each page that it reads.
    fn expect_reads(&self) {
        #[cfg(target_os = "linux")]
        if !self.imported
            && let Some(length) = rounded(self.length).filter(|length| *length >= LARGE_PAGE)
        {
            // SAFETY: our own mapping. A system that refuses has small pages.
            unsafe { libc::madvise(self.pages.as_ptr().cast(), length, libc::MADV_HUGEPAGE) };
        }
    }

    fn write_weights(
        &self,
        matrix: &Matrix,
        first: u64,
        count: u64,
        rows: &[u8],
    ) -> Result<(), Fault> {
        let memory = (self.pages, self.length as u64);
        // SAFETY: our own pages. backend.h: one thread writes these rows, in order, and no submission uses them yet.
        unsafe { self.weights()?.write(memory, matrix, (first, count), rows) }
    }

    fn read_weights(
        &self,
        matrix: &Matrix,
        first: u64,
        count: u64,
        rows: &mut [u8],
    ) -> Result<(), Fault> {
        let memory = (self.pages, self.length as u64);
        // SAFETY: our own pages. backend.h: rows that were written never change.
        unsafe { self.weights()?.read(memory, matrix, (first, count), rows) }
    }

    fn discard(&self) -> Result<(), Fault> {
        if self.imported {
            let text = "memory of the caller's is not given back";
            return Err(Fault::Unsupported(String::from(text)));
        }
        let pages: *mut c_void = self.pages.as_ptr().cast();
        // Fresh pages over the old ones, and not madvise: on a Mac MADV_DONTNEED gives nothing back and MADV_FREE late.
        // SAFETY: our own mapping, whose contents nobody wants.
        let fresh = unsafe {
            libc::mmap(
                pages,
                rounded(self.length).unwrap_or(self.length),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANON | libc::MAP_FIXED,
                -1,
                0,
            )
        };
        if fresh == libc::MAP_FAILED {
            // The old mapping may be gone, so there is nothing valid to go on with.
            std::process::abort();
        }
        Ok(())
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if self.imported {
            return;
        }
        let length = rounded(self.length).unwrap_or(self.length);
        // SAFETY: our own mapping, which nobody uses any more.
        unsafe { libc::munmap(self.pages.as_ptr().cast(), length) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(memory: &mut Memory) -> &mut [u8] {
        let range = memory.range(0, u64::MAX);
        // SAFETY: the memory's own bytes, and the only reference to them.
        unsafe { std::slice::from_raw_parts_mut(range.pointer, range.length as usize) }
    }

    #[test]
    fn memory_is_zeroed_and_discarded_to_zeroes() {
        for length in [1, 4096, 4097, 5 << 20] {
            let mut memory = Memory::new(length, Storage::Shared).expect("little memory");
            let address = memory.address();
            assert!(address.is_multiple_of(page_size()));
            assert!(length < LARGE_PAGE as u64 || address.is_multiple_of(LARGE_PAGE as u64));
            memory.expect_reads();
            assert_eq!(bytes(&mut memory).len() as u64, length);
            for _ in 0..2 {
                assert!(bytes(&mut memory).iter().all(|byte| *byte == 0));
                bytes(&mut memory).fill(7);
                memory.discard().expect("it is ours");
            }
            assert_eq!(memory.address(), address);
        }
    }

    #[test]
    fn the_host_sees_shared_memory_alone() {
        let contents = |storage| {
            let memory = Memory::new(64, storage).expect("little memory");
            assert_ne!(memory.address(), 0);
            memory.contents().is_some()
        };
        assert!(contents(Storage::Shared));
        assert!(!contents(Storage::Private) && !contents(Storage::Weights));
    }

    #[test]
    fn memory_of_the_callers_stays_the_callers() {
        let mut pages = Memory::new(4096, Storage::Shared).expect("little memory");
        bytes(&mut pages).fill(7);
        let host = HostPages {
            pointer: pages.contents().expect("shared"),
            length: 4096,
            read_only: false,
        };
        let imported = Memory::imported(&host).expect("it fits");
        assert_eq!(imported.contents(), pages.contents());
        assert!(matches!(imported.discard(), Err(Fault::Unsupported(_))));
        drop(imported);
        assert!(bytes(&mut pages).iter().all(|byte| *byte == 7));
    }

    #[test]
    fn a_range_ends_with_its_buffer() {
        let memory = Memory::new(100, Storage::Private).expect("little memory");
        let ends = |offset, length| {
            let range = memory.range(offset, length);
            (range.pointer.addr() as u64 - memory.address(), range.length)
        };
        assert_eq!(ends(10, 20), (10, 20));
        assert_eq!(ends(90, 20), (90, 10));
        assert_eq!(ends(200, u64::MAX), (100, 0));
    }

    #[test]
    fn what_the_system_lacks_is_an_error() {
        for length in [0, 1 << 62, u64::MAX] {
            assert!(matches!(
                Memory::new(length, Storage::Shared),
                Err(Fault::OutOfMemory(_))
            ));
        }
    }
}
