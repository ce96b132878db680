//! What was learned, as an adapter in llama.cpp's form.

use std::io::{self, Write};
use std::path::Path;

use crate::finetune::error::FinetuneError;
use crate::llama::adapter::{ALPHA, DOWN, KIND, METHOD, UP, in_pairs};
use crate::llama::gguf::{GgufWriter, Metadata, NewTensor, TensorType};
use crate::new_file::NewFile;

/// The change of one weight.
pub(super) struct LearnedChange {
    pub weight: String,
    pub rank: usize,
    /// Rank × inputs and outputs × rank.
    pub down: Vec<f32>,
    pub up: Vec<f32>,
    /// Rows of a head, where the outputs are heads in halves: an adapter's are in pairs.
    pub head_dim: Option<usize>,
}

pub(super) fn write(
    path: &Path,
    overwrite: bool,
    architecture: &str,
    alpha: f32,
    changes: Vec<LearnedChange>,
) -> Result<(), FinetuneError> {
    let write = || -> io::Result<()> {
        let tensors: Vec<NewTensor> = changes.iter().flat_map(tensors).collect();
        let mut file = NewFile::create(path, overwrite)?;
        let metadata = metadata(architecture, alpha)?;
        let mut writer = GgufWriter::new(&mut file, &metadata, &tensors)?;
        let mut numbers = |numbers: &[f32]| -> io::Result<()> {
            let bytes: Vec<u8> = numbers.iter().flat_map(|n| n.to_le_bytes()).collect();
            writer.write(&bytes)
        };
        for change in &changes {
            numbers(&change.down)?;
            match change.head_dim {
                Some(head_dim) => numbers(&in_pairs(&change.up, change.rank, head_dim))?,
                None => numbers(&change.up)?,
            }
        }
        writer.finish()?.flush()?;
        file.persist()
    };
    write().map_err(|source| match source.kind() {
        io::ErrorKind::AlreadyExists => FinetuneError::Exists(path.to_owned()),
        _ => FinetuneError::Write {
            path: path.to_owned(),
            source,
        },
    })
}

fn metadata(architecture: &str, alpha: f32) -> io::Result<Metadata> {
    let mut metadata = Metadata::default();
    let invalid = |error| io::Error::new(io::ErrorKind::InvalidInput, error);
    metadata
        .set("general.architecture", architecture)
        .map_err(invalid)?;
    for (key, value) in [KIND, METHOD] {
        metadata.set(key, value).map_err(invalid)?;
    }
    metadata.set(ALPHA, alpha).map_err(invalid)?;
    Ok(metadata)
}

fn tensors(change: &LearnedChange) -> [NewTensor; 2] {
    let tensor = |end: &str, columns: usize, rows: usize| NewTensor {
        name: format!("{}{end}", change.weight),
        tensor_type: TensorType::F32,
        dimensions: vec![columns as u64, rows as u64],
    };
    let rank = change.rank;
    [
        tensor(DOWN, change.down.len() / rank, rank),
        tensor(UP, rank, change.up.len() / rank),
    ]
}
