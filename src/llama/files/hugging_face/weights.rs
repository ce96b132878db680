//! The `.safetensors` files.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::Path;

use super::config::FolderConfig;
use super::error::HuggingFaceError;
use super::json::{at, read};
use super::names;
use crate::llama::error::LlamaError;
use crate::llama::files::floats::floats;
use crate::llama::files::gguf::TensorType;
use crate::llama::files::mapped_file::MappedFile;
use crate::llama::files::model_file::{ModelTensor, Place, RowOrder};
use crate::llama::files::safetensors::{SafetensorsDtype, SafetensorsHeader, SafetensorsTensor};

/// The most bytes in an index.
const INDEX_LIMIT: u64 = 1 << 26;
/// The most files of weights. The largest models have a few hundred.
const FILES: usize = 4096;
/// The most bytes in a file's name that any file system takes.
const NAME: usize = 255;

type Weights = (Vec<ModelTensor>, Vec<MappedFile>);

/// Maps the files and gives the tensors GGUF's names.
pub(super) fn open(folder: &Path, config: &FolderConfig) -> Result<Weights, LlamaError> {
    let single = folder.join("model.safetensors");
    let index = folder.join("model.safetensors.index.json");
    let mut tensors = Tensors {
        config,
        names: HashSet::new(),
        list: Vec::new(),
        files: Vec::new(),
    };
    if index.exists() {
        let Index { weight_map } = read(&index, INDEX_LIMIT)?;
        let names: BTreeSet<&String> = weight_map.values().collect();
        if names.len() > FILES {
            let error = HuggingFaceError::TooManyFiles(names.len(), FILES);
            return Err(at(&index, error));
        }
        for name in names {
            // A path from a stranger's file must not lead out of the folder, and messages have it.
            let plain = Path::new(name)
                .file_name()
                .is_some_and(|file| file == name.as_str());
            let is_short = name.len() <= NAME && !name.contains(char::is_control);
            if !plain || !is_short || !name.ends_with(".safetensors") {
                return Err(at(&index, HuggingFaceError::ForeignFile(name.clone())));
            }
            let of_file = |tensor: &str| weight_map.get(tensor) == Some(name);
            tensors.add_file(&folder.join(name), of_file)?;
        }
        if let Some((tensor, file)) = weight_map
            .iter()
            .find(|(tensor, _)| !tensors.names.contains(tensor.as_str()))
        {
            let (tensor, file) = (tensor.clone(), file.clone());
            let error = HuggingFaceError::MissingFromFile { tensor, file };
            return Err(at(&index, error));
        }
    } else if single.exists() {
        tensors.add_file(&single, |_| true)?;
    } else {
        return Err(at(folder, HuggingFaceError::NoWeights));
    }
    tensors.add_rope_factors();
    let mut names = HashSet::new();
    for tensor in &tensors.list {
        if !names.insert(&tensor.name) {
            let error = HuggingFaceError::DuplicateTensor(tensor.stored_name.clone());
            return Err(at(folder, error));
        }
    }
    Ok((tensors.list, tensors.files))
}

/// Which file has which tensor.
#[derive(serde::Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

struct Tensors<'a> {
    config: &'a FolderConfig,
    /// The names in the files, those that are left out as well.
    names: HashSet<String>,
    list: Vec<ModelTensor>,
    files: Vec<MappedFile>,
}

impl Tensors<'_> {
    /// Adds the tensors of a file that `wanted` is true for.
    fn add_file(&mut self, path: &Path, wanted: impl Fn(&str) -> bool) -> Result<(), LlamaError> {
        let file = MappedFile::open(path)?;
        let header =
            SafetensorsHeader::parse(file.bytes()).map_err(|source| LlamaError::Safetensors {
                path: path.to_owned(),
                source,
            })?;
        for tensor in header.tensors() {
            if !wanted(&tensor.name) {
                continue;
            }
            // Each name is wanted from one file, and is once in it.
            self.names.insert(tensor.name.clone());
            if !names::is_redundant(&tensor.name, self.config) {
                let tensor = self
                    .tensor(tensor, &file)
                    .map_err(|error| at(path, error))?;
                self.list.push(tensor);
            }
        }
        self.files.push(file);
        Ok(())
    }

    fn tensor(
        &self,
        tensor: &SafetensorsTensor,
        file: &MappedFile,
    ) -> Result<ModelTensor, HuggingFaceError> {
        let spec = self.config.architecture.spec();
        let name = names::gguf_name(&tensor.name, spec).unwrap_or_else(|| tensor.name.clone());
        if !(1..=4).contains(&tensor.shape.len()) || tensor.shape.contains(&0) {
            return Err(HuggingFaceError::Shape {
                name: tensor.name.clone(),
                shape: tensor.shape.clone(),
            });
        }
        let tensor_type = match tensor.dtype {
            SafetensorsDtype::F32 => TensorType::F32,
            SafetensorsDtype::F16 => TensorType::F16,
            SafetensorsDtype::BF16 => TensorType::BF16,
            other => {
                return Err(HuggingFaceError::DType {
                    name: tensor.name.clone(),
                    dtype: other.name(),
                });
            }
        };
        let row_order = names::row_order(&name, self.config);
        if let RowOrder::Halves { heads } = row_order {
            // Heads of two halves each. The number of heads is from a stranger's file, too.
            let (rows, halves) = (tensor.shape[0], heads.saturating_mul(2));
            if halves == 0 || !rows.is_multiple_of(halves) {
                return Err(HuggingFaceError::Heads {
                    name: tensor.name.clone(),
                    rows,
                    heads,
                });
            }
        }
        let mut read = ModelTensor {
            row_order,
            name,
            stored_name: tensor.name.clone(),
            tensor_type,
            dimensions: tensor.shape.iter().rev().copied().collect(),
            place: Place::File(self.files.len(), tensor.bytes.clone()),
        };
        if spec.norm_offset != 0.0 && read.name.ends_with("norm.weight") {
            let stored = file.range(tensor.bytes.clone());
            let numbers = floats(stored, tensor_type).map(|number| number + spec.norm_offset);
            let bytes: Vec<u8> = numbers.flat_map(f32::to_le_bytes).collect();
            read.tensor_type = TensorType::F32;
            read.place = Place::Memory(bytes.into());
        }
        Ok(read)
    }

    /// Llama 3.1's scaling is a tensor in GGUF.
    fn add_rope_factors(&mut self) {
        let Some(factors) = &self.config.rope_factors else {
            return;
        };
        let bytes: Vec<u8> = factors
            .iter()
            .flat_map(|factor| factor.to_le_bytes())
            .collect();
        self.list.push(ModelTensor {
            name: "rope_freqs.weight".to_owned(),
            stored_name: "rope_scaling".to_owned(),
            tensor_type: TensorType::F32,
            dimensions: vec![factors.len() as u64],
            row_order: RowOrder::Same,
            place: Place::Memory(bytes.into()),
        });
    }
}
