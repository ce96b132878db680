//! Folders as Hugging Face's `transformers` writes them: `config.json`, `.safetensors` files, perhaps with an index,
//! and `tokenizer.model` or `tokenizer.json`.
//!
//! A folder becomes what llama.cpp's converter would make of it: metadata under GGUF's keys and tensors under GGUF's
//! names, so that everything after this reads one format. Only the weights stay as they are, in their files.

mod config;
mod error;
mod json;
mod names;
mod sentencepiece;
mod tokenizer;
mod tokenizer_json;
mod tokens;
mod weights;

use std::path::Path;

use super::gguf::Metadata;
use super::model_file::{ModelFile, ModelFormat};
use crate::llama::error::LlamaError;
use config::FolderConfig;
pub use error::HuggingFaceError;

/// Opens a folder.
pub(crate) fn open(folder: &Path) -> Result<ModelFile, LlamaError> {
    let mut metadata = Metadata::default();
    let config = FolderConfig::read(folder, &mut metadata)?;
    tokenizer::read_folder(folder, &config, &mut metadata)?;
    let (tensors, files) = weights::open(folder, &config)?;
    Ok(ModelFile::new(
        ModelFormat::HuggingFace,
        metadata,
        tensors,
        files,
    ))
}

#[cfg(test)]
mod tests;
