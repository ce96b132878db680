//! Folders of any small model with a tokenizer of the caller's.

use std::fs;
use std::path::Path;

use ironbridge::llama::{LlamaError, ModelFile};
use serde_json::Value as Json;
use tempfile::TempDir;

/// A folder with a file of that name and content; `vocabulary`: how many tokens the model has.
pub fn folder_with(name: &str, content: &[u8], vocabulary: usize) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/models/llama-2");
    let config = fs::read_to_string(model.join("config.json")).unwrap();
    let mut config: Json = serde_json::from_str(&config).unwrap();
    config["vocab_size"] = vocabulary.into();
    fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
    fs::write(folder.path().join(name), content).unwrap();
    let weights = "model.safetensors";
    fs::copy(model.join(weights), folder.path().join(weights)).unwrap();
    folder
}

/// Opens such a folder.
pub fn open_with(name: &str, content: &[u8], vocabulary: usize) -> Result<ModelFile, LlamaError> {
    ModelFile::open(folder_with(name, content, vocabulary).path())
}
