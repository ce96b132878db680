//! A GGUF file, mapped into memory.

use std::path::Path;
use std::sync::Arc;

use super::header::GgufHeader;
use crate::llama::error::LlamaError;
use crate::llama::files::mapped_file::MappedFile;

/// A GGUF file mapped into memory: opening it reads the header, and the tensors' pages are read from disk when they are
/// used.
///
/// The file must not be changed while it is open, as with every memory-mapped file: other bytes would give other
/// numbers, and a shorter file would end the process with SIGBUS.
#[derive(Clone, Debug)]
pub struct GgufFile {
    file: MappedFile,
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
        let file = MappedFile::open(path)?;
        let header = GgufHeader::parse(file.bytes()).map_err(|source| LlamaError::Gguf {
            path: path.to_owned(),
            source,
        })?;
        Ok(GgufFile {
            file,
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
        Some(self.file.range(tensor.bytes()))
    }

    pub(in crate::llama) fn mapped(&self) -> &MappedFile {
        &self.file
    }
}
