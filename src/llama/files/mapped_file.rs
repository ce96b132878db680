//! A file in memory that the operating system reads when it is looked at.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use memmap2::{Mmap, UncheckedAdvice};

use crate::buffer::HostMemory;
use crate::llama::error::LlamaError;

/// A look at one page maps as much around it on Linux, where that is in the page cache (fault_around_bytes).
const AROUND: usize = 64 << 10;

/// The file must not be changed while it is mapped: other bytes would give other numbers, and a shorter file would end
/// the process with SIGBUS. The types that hand one to users say so.
#[derive(Clone, Debug)]
pub(crate) struct MappedFile(Arc<Mmap>);

impl MappedFile {
    /// # Errors
    ///
    /// [`LlamaError::Open`] when the file cannot be opened or mapped.
    pub fn open(path: &Path) -> Result<MappedFile, LlamaError> {
        let cannot_open = |source| LlamaError::Open {
            path: path.to_owned(),
            source,
        };
        // Opening a pipe would wait for a writer, perhaps for ever.
        if !std::fs::metadata(path).map_err(cannot_open)?.is_file() {
            let source = io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file");
            return Err(cannot_open(source));
        }
        let file = File::open(path).map_err(cannot_open)?;
        // SAFETY: The mapping is private to this value and only ever read. That nobody changes the file meanwhile is
        // what the types above ask of their users; no operating system lets a process make sure of it.
        let mapping = unsafe { Mmap::map(&file) }.map_err(cannot_open)?;
        Ok(MappedFile(Arc::new(mapping)))
    }

    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Some of the file's bytes. The range is inside of it: whoever makes one has checked that.
    pub fn range(&self, range: Range<u64>) -> &[u8] {
        &self.0[range.start as usize..range.end as usize]
    }

    /// Gives the pages of these bytes back to the system, which reads them again should anybody look. With them go
    /// those that the system mapped around them.
    pub fn forget(&self, range: Range<u64>) {
        let start = (range.start as usize).saturating_sub(AROUND);
        let end = (range.end as usize)
            .saturating_add(AROUND)
            .min(self.0.len());
        // SAFETY: The mapping is of a file and read-only, so that what comes back is what was there. Not to give
        // memory back is no error.
        let _ = unsafe {
            self.0.unchecked_advise_range(
                UncheckedAdvice::DontNeed,
                start,
                end.saturating_sub(start),
            )
        };
    }

    /// Some of the file's bytes, starting on a page, for a device to read in place. They keep the file mapped.
    pub fn pages(&self, range: Range<u64>) -> FilePages {
        FilePages {
            mapping: self.0.clone(),
            range: range.start as usize..range.end as usize,
        }
    }
}

/// Part of a mapped file, in memory that a device can use as it is.
pub(crate) struct FilePages {
    mapping: Arc<Mmap>,
    range: Range<usize>,
}

// SAFETY: the mapping lives as long as this value, has a fixed address, is read-only, and consists of whole pages, so
// that its last page can be read to the end; that the file does not change is what the users of `MappedFile` ask of
// theirs. Dropping it unmaps at most.
unsafe impl HostMemory for FilePages {
    fn bytes(&self) -> &[u8] {
        &self.mapping[self.range.clone()]
    }
}
