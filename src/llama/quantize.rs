//! Writing a model with smaller numbers.
//!
//! Blocks are those of llama.cpp: to the byte what its `gguf` package makes, and for the K types, for IQ4_NL and with
//! an importance matrix what its quantizer makes.

mod blocks;
mod choice;
mod error;
mod microscaling;
pub(crate) mod mix;
mod nonlinear;
mod rows;
mod scale_search;
mod super_blocks;
mod weights;

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::error::LlamaError;
use crate::llama::files::gguf::{GgufWriter, Metadata, MetadataError, NewTensor, TensorType};
use crate::llama::files::importance::ImportanceMatrix;
use crate::llama::files::model_file::{ModelFile, ModelTensor};
use crate::llama::files::progress::LoadProgress;
use crate::llama::runtime::cancel::CancelToken;
use crate::new_file::NewFile;
pub use error::QuantizeError;
pub use mix::QuantizeMix;

/// Writes GGUF files whose matrices are stored in another type.
///
/// Matrices take the type that is asked for, except where it would not fit or not be sensible:
///
/// - vectors (norms, biases) are F32;
/// - the output, and the embedding of models that use it as the output, is Q6_K if that is larger, because every score
///   of every token comes from it (Q8_0 where rows are not multiples of 256);
/// - matrices whose rows are not multiples of 256 have Q4_0 in place of Q2_K and Q3_K, Q5_0 of Q4_K, Q5_1 of Q5_K,
///   Q8_0 of Q6_K and IQ4_NL of IQ4_XS, and those whose rows are not multiples of 32 have F16.
///
/// These are llama.cpp's choices for its types without a mixture; [`tensor`](Quantizer::tensor) overrules them.
///
/// ```no_run
/// use ironbridge::llama::gguf::TensorType;
/// use ironbridge::llama::{ModelFile, Quantizer};
///
/// # fn main() -> Result<(), ironbridge::Error> {
/// let model = ModelFile::open("some-model/")?; // a folder of Hugging Face's, or a GGUF file
/// let report = Quantizer::new(TensorType::Q4_K)?.write(&model, "some-model-q4_k.gguf", &mut |_| ())?;
/// println!("{} bytes became {}", report.bytes_before, report.bytes_after);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Quantizer {
    tensor_type: TensorType,
    mix: Option<QuantizeMix>,
    overrides: Vec<(String, TensorType)>,
    importance: Option<Arc<ImportanceMatrix>>,
    threads: usize,
    overwrite: bool,
    cancel: CancelToken,
}

/// What [`Quantizer::write`] has done.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QuantizeReport {
    /// Each tensor's name, and how it is stored now.
    pub tensors: Vec<(String, TensorType)>,
    /// Tensors whose rows are not whole blocks of the type that was asked for: the name, that type, and the one that
    /// they are stored in.
    pub not_as_asked: Vec<(String, TensorType, TensorType)>,
    /// Matrices of blocks that the importance matrix says nothing about. Empty without one.
    pub without_importance: Vec<String>,
    /// Bytes of all tensors before.
    pub bytes_before: u64,
    /// Bytes of all tensors in the new file.
    pub bytes_after: u64,
}

/// A tensor's name, the type that was asked for and the one that it has.
type NotAsAsked = (String, TensorType, TensorType);

/// Numbers that are read between two writes, for each thread: 16 MiB in F32.
const STEP: usize = 1 << 22;

impl Quantizer {
    /// The types that can be written.
    pub const TYPES: &[TensorType] = rows::TYPES;

    /// For matrices of that type, with as many threads as there are processors.
    ///
    /// # Errors
    ///
    /// [`QuantizeError::Target`] for a type that is not in [`TYPES`](Quantizer::TYPES).
    pub fn new(tensor_type: TensorType) -> Result<Quantizer, QuantizeError> {
        rows::check_target(tensor_type)?;
        Ok(Quantizer {
            tensor_type,
            mix: None,
            overrides: Vec::new(),
            importance: None,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            overwrite: false,
            cancel: CancelToken::new(),
        })
    }

    /// A mix: types by the place of a tensor in the model, as llama.cpp's quantizer chooses them.
    pub fn mix(mix: QuantizeMix) -> Quantizer {
        let all = Quantizer::new(mix.most())
            .unwrap_or_else(|_| unreachable!("mixes are of types that are written"));
        Quantizer {
            mix: Some(mix),
            ..all
        }
    }

    /// Another type for the tensor of that name. [`write`](Quantizer::write) fails when the model has none.
    ///
    /// # Errors
    ///
    /// [`QuantizeError::Target`] for a type that is not in [`TYPES`](Quantizer::TYPES).
    pub fn tensor(
        mut self,
        name: impl Into<String>,
        tensor_type: TensorType,
    ) -> Result<Quantizer, QuantizeError> {
        rows::check_target(tensor_type)?;
        self.overrides.push((name.into(), tensor_type));
        Ok(self)
    }

    /// Rounds numbers by how much their columns matter: the error of important ones becomes less, that of others more.
    /// Blocks are those of llama.cpp's `--imatrix`. F32, F16, BF16, Q8_0 and MXFP4 stay as they are.
    ///
    /// Matrices that it says nothing about are rounded without it and
    /// [reported](QuantizeReport::without_importance).
    #[must_use]
    pub fn importance(self, importance: ImportanceMatrix) -> Quantizer {
        Quantizer {
            importance: Some(Arc::new(importance)),
            ..self
        }
    }

    /// How many threads compute, at least one. The file is the same whatever their number.
    #[must_use]
    pub fn threads(self, threads: usize) -> Quantizer {
        let threads = threads.max(1);
        Quantizer { threads, ..self }
    }

    /// Whether a file that is there already is replaced. Else it is an error.
    #[must_use]
    pub fn overwrite(self, overwrite: bool) -> Quantizer {
        Quantizer { overwrite, ..self }
    }

    /// Whoever cancels this token stops [`write`](Quantizer::write) within 4 Mi numbers for each thread, and nothing
    /// is left of the file.
    #[must_use]
    pub fn cancel(self, cancel: CancelToken) -> Quantizer {
        Quantizer { cancel, ..self }
    }

    /// Writes the model to `path` and reports how many of its tensors' bytes are done. The file appears there when it
    /// is complete, not before; it may even replace the one that is read. Until then it is beside it, under a hidden
    /// name, locked: what a process that was killed has left there is removed by the next call for the same file.
    ///
    /// # Errors
    ///
    /// [`LlamaError::Quantize`] when a tensor is quantised already or holds what is no number or too large for the
    /// type, when the importance matrix is another model's, when a file is in the way or cannot be written, or the
    /// token was cancelled;
    /// [`LlamaError::UnexpectedTensor`] for a tensor of a folder that GGUF has no name for.
    pub fn write(
        &self,
        model: &ModelFile,
        path: impl AsRef<Path>,
        progress: &mut dyn FnMut(LoadProgress),
    ) -> Result<QuantizeReport, LlamaError> {
        let path = path.as_ref();
        let (tensors, not_as_asked) = self.choose(model)?;
        let importance = self.importance_of(model, &tensors)?;
        let cannot_write = |source: io::Error| match source.kind() {
            io::ErrorKind::AlreadyExists => QuantizeError::Exists(path.to_owned()),
            _ => QuantizeError::Write {
                path: path.to_owned(),
                source,
            },
        };
        let mut file = NewFile::create(path, self.overwrite).map_err(cannot_write)?;
        let metadata = self.metadata(model)?;
        let mut writer = GgufWriter::new(&mut file, &metadata, &tensors).map_err(cannot_write)?;

        let bytes_before = model.tensors().iter().map(|tensor| tensor.byte_length());
        let mut done = LoadProgress {
            done: 0,
            total: bytes_before.sum(),
        };
        for ((source, target), importance) in model.tensors().iter().zip(&tensors).zip(&importance)
        {
            let rows = rows::Rows::new(model, source, target.tensor_type, *importance)?;
            let step = (STEP / rows.columns()).max(1) * self.threads;
            for first in (0..rows.count()).step_by(step) {
                if self.cancel.is_cancelled() {
                    return Err(QuantizeError::Cancelled(path.to_owned()).into());
                }
                let count = step.min(rows.count() - first);
                let bytes = rows.encode(first, count, self.threads)?;
                writer.write(&bytes).map_err(cannot_write)?;
                done.done += rows.source_bytes(count);
                progress(done);
            }
        }
        let placed = writer.header().tensors().iter();
        let bytes_after = placed.map(|tensor| tensor.bytes().end - tensor.bytes().start);
        let report = QuantizeReport {
            bytes_before: done.total,
            bytes_after: bytes_after.sum(),
            tensors: tensors
                .iter()
                .map(|tensor| (tensor.name.clone(), tensor.tensor_type))
                .collect(),
            not_as_asked,
            without_importance: self.without_importance(&tensors, &importance),
        };
        writer.finish().map_err(cannot_write)?;
        file.persist().map_err(cannot_write)?;
        Ok(report)
    }

    /// What each tensor of the model is to be.
    fn choose(&self, model: &ModelFile) -> Result<(Vec<NewTensor>, Vec<NotAsAsked>), LlamaError> {
        for (name, _) in &self.overrides {
            if model.tensor(name).is_none() {
                return Err(LlamaError::MissingTensor(name.clone()));
            }
        }
        let layers = mix::Layers::of(model);
        let (mut chosen, mut not_as_asked) = (Vec::new(), Vec::new());
        for tensor in model.tensors() {
            let wanted = match self.mix {
                Some(mix) => mix.tensor_type(tensor.name(), &layers),
                None => self.tensor_type,
            };
            let choice = choice::tensor_type(model, tensor, wanted, &self.overrides)?;
            if choice.asked != choice.fits {
                not_as_asked.push((tensor.name().to_owned(), choice.asked, choice.fits));
            }
            chosen.push(NewTensor {
                tensor_type: choice.fits,
                name: tensor.name().to_owned(),
                dimensions: tensor.dimensions().to_vec(),
            });
        }
        Ok((chosen, not_as_asked))
    }

    /// How much each column of each tensor matters, where a matrix says so and it has a part in the type.
    fn importance_of(
        &self,
        model: &ModelFile,
        tensors: &[NewTensor],
    ) -> Result<Vec<Option<&[f32]>>, QuantizeError> {
        let of = |(source, target): (&ModelTensor, &NewTensor)| {
            let matrix = self.importance.as_ref();
            let Some(found) = matrix.and_then(|matrix| matrix.columns(source.name())) else {
                return Ok(None);
            };
            let columns = source.dimensions()[0];
            if found.len() as u64 != columns {
                return Err(QuantizeError::Importance {
                    name: source.name().to_owned(),
                    found: found.len(),
                    columns,
                });
            }
            Ok(rows::has_weights(target.tensor_type).then_some(found))
        };
        if let Some(matrix) = &self.importance
            && !matrix.names().any(|name| model.tensor(name).is_some())
        {
            return Err(QuantizeError::NoImportance);
        }
        model.tensors().iter().zip(tensors).map(of).collect()
    }

    fn without_importance(
        &self,
        tensors: &[NewTensor],
        importance: &[Option<&[f32]>],
    ) -> Vec<String> {
        let is_without = |(tensor, importance): &(&NewTensor, &Option<&[f32]>)| {
            self.importance.is_some()
                && importance.is_none()
                && rows::has_weights(tensor.tensor_type)
        };
        let without = tensors.iter().zip(importance).filter(is_without);
        without.map(|(tensor, _)| tensor.name.clone()).collect()
    }

    fn metadata(&self, model: &ModelFile) -> Result<Metadata, MetadataError> {
        let mut metadata = model.metadata().clone();
        let number = match self.mix {
            Some(mix) => Some(mix.file_type()),
            None => choice::file_type(self.tensor_type),
        };
        if let Some(number) = number {
            metadata.set("general.file_type", number)?;
        }
        if let Some(importance) = &self.importance {
            // The keys of llama.cpp's `quantize`.
            let count = importance.names().len() as i32;
            metadata.set("quantize.imatrix.entries_count", count)?;
            if let [first, ..] = importance.datasets() {
                metadata.set("quantize.imatrix.dataset", first.as_str())?;
            }
            if let chunks @ 1.. = importance.chunks() {
                metadata.set("quantize.imatrix.chunks_count", chunks)?;
            }
        }
        // GGML's GGML_QNT_VERSION: the second layout of its blocks.
        metadata.set("general.quantization_version", 2u32)?;
        Ok(metadata)
    }
}

/// Rounds numbers to blocks of a type.
///
/// # Errors
///
/// [`QuantizeError`] when the type is not in [`Quantizer::TYPES`], when there are not whole blocks of numbers, or when
/// one of them is no number or too large for the type.
///
/// ```
/// use ironbridge::llama::{gguf::TensorType, quantize};
///
/// let block = quantize(TensorType::Q8_0, &[1.0; 32]).unwrap();
/// assert_eq!(block.len(), 34);
/// assert!(quantize(TensorType::Q8_0, &[f32::NAN; 32]).is_err());
/// ```
pub fn quantize(tensor_type: TensorType, numbers: &[f32]) -> Result<Vec<u8>, QuantizeError> {
    encode(tensor_type, numbers, None)
}

fn encode(
    tensor_type: TensorType,
    numbers: &[f32],
    importance: Option<&[f32]>,
) -> Result<Vec<u8>, QuantizeError> {
    rows::check_target(tensor_type)?;
    let length = tensor_type.block_length() as usize;
    if !numbers.len().is_multiple_of(length) {
        return Err(QuantizeError::PartialBlock {
            name: String::new(),
            columns: numbers.len() as u64,
            tensor_type,
        });
    }
    let mut bytes = vec![0; numbers.len() / length * tensor_type.block_size() as usize];
    rows::check_numbers(tensor_type, numbers, "", 0)?;
    rows::encode(tensor_type, numbers, importance, &mut bytes);
    Ok(bytes)
}

#[cfg(test)]
mod tests;
