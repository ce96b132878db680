//! A GGUF file, mapped into memory.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use memmap2::Mmap;

use super::{GgufHeader, TensorInfo};
use crate::llama::LlamaError;

/// A GGUF file mapped into memory: opening it reads the header, and the tensors' pages are read from disk when they are used.
///
/// The file must not be changed while it is open, as with every memory-mapped file: other bytes would give other numbers, and
/// a shorter file would end the process with SIGBUS.
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
        let file = File::open(path).map_err(cannot_open)?;
        // SAFETY: The mapping is private to this value and only ever read. That nobody changes the file meanwhile is what the
        // type's documentation asks for; no operating system lets a process make sure of it.
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

    /// The bytes of one of this file's tensors; `None` for a tensor of another, longer file.
    pub fn tensor_bytes(&self, tensor: &TensorInfo) -> Option<&[u8]> {
        let bytes = tensor.bytes();
        let start = usize::try_from(bytes.start).ok()?;
        let end = usize::try_from(bytes.end).ok()?;
        self.mapping.get(start..end)
    }
}
