//! A GGUF file, mapped into memory.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use memmap2::Mmap;

use super::GgufHeader;
use crate::HostMemory;
use crate::llama::LlamaError;

/// A GGUF file mapped into memory: opening it reads the header, and the tensors' pages are read from disk when they are
/// used.
///
/// The file must not be changed while it is open, as with every memory-mapped file: other bytes would give other
/// numbers, and a shorter file would end the process with SIGBUS.
#[derive(Clone, Debug)]
pub struct GgufFile {
    mapping: Arc<Mmap>,
    header: Arc<GgufHeader>,
}

impl GgufFile {
    /// Maps a file and reads its header.
    ///
    /// # Errors
    ///
    /// [`LlamaError::Open`] when the file cannot be opened or mapped, [`LlamaError::Gguf`] when it is not a GGUF file.
    pub fn open(path: impl AsRef<Path>) -> Result<GgufFile, LlamaError> {
        let path = path.as_ref();
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
        // what the type's documentation asks for; no operating system lets a process make sure of it.
        let mapping = unsafe { Mmap::map(&file) }.map_err(cannot_open)?;
        let header = GgufHeader::parse(&mapping).map_err(|source| LlamaError::Gguf {
            path: path.to_owned(),
            source,
        })?;
        Ok(GgufFile {
            mapping: Arc::new(mapping),
            header: Arc::new(header),
        })
    }

    /// The metadata and the table of tensors.
    pub fn header(&self) -> &GgufHeader {
        &self.header
    }

    /// The bytes of the tensor of that name.
    pub fn tensor_bytes(&self, name: &str) -> Option<&[u8]> {
        let tensor = self.header.tensor(name)?;
        Some(self.bytes(tensor.bytes()))
    }

    /// Some of the file's bytes. The header's tensors are all inside of it: that was checked when it was read.
    pub(in crate::llama) fn bytes(&self, range: Range<u64>) -> &[u8] {
        &self.mapping[range.start as usize..range.end as usize]
    }

    /// Some of the file's bytes, starting on a page, for a device to read in place. They keep the file mapped.
    pub(in crate::llama) fn pages(&self, range: Range<u64>) -> FilePages {
        FilePages {
            mapping: self.mapping.clone(),
            range: range.start as usize..range.end as usize,
        }
    }
}

/// Part of a mapped file, in memory that a device can use as it is.
pub(in crate::llama) struct FilePages {
    mapping: Arc<Mmap>,
    range: Range<usize>,
}

// SAFETY: the mapping lives as long as this value, has a fixed address, is read-only, and consists of whole pages, so
// that its last page can be read to the end; that the file does not change is what `GgufFile` asks of its users.
// Dropping it unmaps at most.
unsafe impl HostMemory for FilePages {
    fn bytes(&self) -> &[u8] {
        &self.mapping[self.range.clone()]
    }
}
