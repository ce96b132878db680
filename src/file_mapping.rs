//! A file in memory, for a device to read in place.

use std::fs::File;

use crate::buffer::HostMemory;
use crate::error::{Error, Result};

/// A file that is mapped read-only, for [`BufferOptions::wrap`](crate::BufferOptions::wrap).
#[derive(Debug)]
pub struct FileMapping(memmap2::Mmap);

impl FileMapping {
    /// Maps the whole file. The file itself may be closed afterwards.
    ///
    /// # Safety
    /// Until this value is dropped, nobody changes the file or makes it shorter, in this process or another one. Other
    /// bytes would change under references to them, and what is missing ends the process with SIGBUS.
    ///
    /// # Errors
    /// [`Error::System`] when it cannot be mapped.
    pub unsafe fn of(file: &File) -> Result<FileMapping> {
        // SAFETY: the caller's promise.
        let mapping = unsafe { memmap2::Mmap::map(file) };
        mapping.map(FileMapping).map_err(|source| Error::System {
            action: "mapping a file",
            source,
        })
    }
}

// SAFETY: a mapping has a fixed address and whole pages, is read-only, and whoever made it promised that the file does
// not change. Dropping it unmaps, nothing more.
unsafe impl HostMemory for FileMapping {
    fn bytes(&self) -> &[u8] {
        &self.0
    }
}
