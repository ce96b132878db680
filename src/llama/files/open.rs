//! The format of a model, by its path.

use std::path::Path;

use super::gguf::GgufFile;
use super::hugging_face;
use super::model_file::ModelFile;
use super::split;
use crate::llama::error::LlamaError;

impl ModelFile {
    /// Opens a GGUF file, with the other parts of the model where it is a part of one, or a folder with `config.json`,
    /// one or more `.safetensors` and `tokenizer.json` or `tokenizer.model`.
    ///
    /// # Errors
    ///
    /// [`LlamaError::Open`] when a file cannot be opened or mapped; [`LlamaError::Gguf`], [`LlamaError::Split`],
    /// [`LlamaError::Safetensors`] and [`LlamaError::HuggingFace`] when one is not what its name says.
    pub fn open(path: impl AsRef<Path>) -> Result<ModelFile, LlamaError> {
        let path = path.as_ref();
        match path.is_dir() {
            true => hugging_face::open(path),
            false => split::complete(path, GgufFile::open(path)?),
        }
    }
}
