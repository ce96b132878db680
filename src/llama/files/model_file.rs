//! Where a model comes from: one GGUF file, or a folder of Hugging Face's.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use super::gguf::{GgufFile, Metadata, MetadataError, TensorType, Value};
use super::mapped_file::MappedFile;

/// A model's metadata and tensors, under GGUF's names whatever they are read from. Tensors stay in the files, which are
/// mapped into memory.
///
/// The files must not be changed while they are open: other bytes would give other numbers, and a shorter file would
/// end the process with SIGBUS.
#[derive(Clone, Debug)]
pub struct ModelFile {
    format: ModelFormat,
    metadata: Arc<Metadata>,
    tensors: Arc<[ModelTensor]>,
    index: Arc<HashMap<String, usize>>,
    files: Vec<MappedFile>,
}

/// How a model is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ModelFormat {
    /// A GGUF file of this version.
    Gguf(u32),
    /// `config.json`, `.safetensors` files and a tokenizer in a folder.
    HuggingFace,
}

/// One tensor of a [`ModelFile`].
#[derive(Clone, Debug, PartialEq)]
pub struct ModelTensor {
    pub(crate) name: String,
    pub(crate) stored_name: String,
    pub(crate) tensor_type: TensorType,
    pub(crate) dimensions: Vec<u64>,
    pub(crate) row_order: RowOrder,
    pub(crate) place: Place,
}

/// How the rows of a tensor lie in comparison with GGUF's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowOrder {
    Same,
    /// Rows of each of this many heads are in halves and not in pairs: Hugging Face's queries and keys of a `llama`.
    Halves {
        heads: u64,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Place {
    /// In the file of that number.
    File(usize, Range<u64>),
    /// Made from the folder's settings.
    Memory(Arc<[u8]>),
}

impl ModelFile {
    /// Names must not repeat.
    pub(crate) fn new(
        format: ModelFormat,
        metadata: Metadata,
        tensors: Vec<ModelTensor>,
        files: Vec<MappedFile>,
    ) -> ModelFile {
        let names = tensors.iter().map(|tensor| tensor.name.clone());
        ModelFile {
            format,
            metadata: Arc::new(metadata),
            index: Arc::new(names.zip(0..).collect()),
            tensors: tensors.into(),
            files,
        }
    }

    /// How the model is stored.
    pub fn format(&self) -> ModelFormat {
        self.format
    }

    /// The metadata. That of a folder is what llama.cpp's converter would write into a GGUF file.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Sets the value of a metadata key, as if the file had it: how a model is run as its file does not say. The file
    /// stays as it is.
    ///
    /// # Errors
    ///
    /// As [`Metadata::set`].
    pub fn set_metadata(
        &mut self,
        key: impl Into<String>,
        value: impl Into<Value>,
    ) -> Result<(), MetadataError> {
        Arc::make_mut(&mut self.metadata).set(key, value)
    }

    /// The tensors in the files' order.
    pub fn tensors(&self) -> &[ModelTensor] {
        &self.tensors
    }

    /// The tensor of that name.
    pub fn tensor(&self, name: &str) -> Option<&ModelTensor> {
        self.tensor_index(name).map(|index| &self.tensors[index])
    }

    /// The bytes of one of this file's tensors, in the order in which they are stored.
    pub fn bytes<'a>(&'a self, tensor: &'a ModelTensor) -> &'a [u8] {
        match &tensor.place {
            Place::File(file, range) => self.files[*file].range(range.clone()),
            Place::Memory(bytes) => bytes,
        }
    }

    pub(crate) fn tensor_index(&self, name: &str) -> Option<usize> {
        self.index.get(name).copied()
    }

    pub(crate) fn files(&self) -> &[MappedFile] {
        &self.files
    }
}

impl From<GgufFile> for ModelFile {
    fn from(file: GgufFile) -> ModelFile {
        let header = file.header();
        let tensors = header.tensors().iter().map(|tensor| ModelTensor {
            name: tensor.name().to_owned(),
            stored_name: tensor.name().to_owned(),
            tensor_type: tensor.tensor_type(),
            dimensions: tensor.dimensions().to_vec(),
            row_order: RowOrder::Same,
            place: Place::File(0, tensor.bytes()),
        });
        ModelFile::new(
            ModelFormat::Gguf(header.version()),
            header.metadata().clone(),
            tensors.collect(),
            vec![file.mapped().clone()],
        )
    }
}

impl ModelTensor {
    /// GGUF's name for the tensor: `"blk.0.attn_q.weight"`. A tensor that GGUF has no name for keeps its own.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The name in the file: `"model.layers.0.self_attn.q_proj.weight"`.
    pub fn stored_name(&self) -> &str {
        &self.stored_name
    }

    /// How its numbers are stored.
    pub fn tensor_type(&self) -> TensorType {
        self.tensor_type
    }

    /// Its sizes in GGML's order, the one whose elements lie side by side first.
    pub fn dimensions(&self) -> &[u64] {
        &self.dimensions
    }

    /// How many numbers it has.
    pub fn elements(&self) -> u64 {
        self.dimensions.iter().product() // checked when it was read
    }

    /// How many bytes it takes.
    pub fn byte_length(&self) -> u64 {
        match &self.place {
            Place::File(_, range) => range.end - range.start,
            Place::Memory(bytes) => bytes.len() as u64,
        }
    }
}
