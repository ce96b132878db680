//! LoRA adapters: small files of low-rank changes of a model's weights.
//!
//! The form is llama.cpp's (`llama_adapter_lora_init_impl` in `src/llama-adapter.cpp`): a GGUF file whose
//! `general.type` is `adapter`, with `adapter.lora.alpha` and, for each weight, two tensors: `NAME.lora_a`, rank ×
//! inputs, and `NAME.lora_b`, outputs × rank.

mod error;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::floats::floats;
use super::gguf::{GgufFile, GgufHeader, TensorInfo, TensorType};
use crate::llama::error::LlamaError;
pub use error::AdapterError;

/// What the names of a weight's two tensors end with.
pub(crate) const DOWN: &str = ".lora_a";
pub(crate) const UP: &str = ".lora_b";
/// The keys and values that make a GGUF file an adapter.
pub(crate) const KIND: (&str, &str) = ("general.type", "adapter");
pub(crate) const METHOD: (&str, &str) = ("adapter.type", "lora");
pub(crate) const ALPHA: &str = "adapter.lora.alpha";
const ARCHITECTURE: &str = "general.architecture";

/// A LoRA adapter in llama.cpp's GGUF form, as `ironbridge finetune` and `convert_lora_to_gguf.py` write it. Hu et al.
/// 2021, [arXiv:2106.09685](https://arxiv.org/abs/2106.09685).
///
/// ```no_run
/// use ironbridge::Device;
/// use ironbridge::llama::{LoraAdapter, Model};
///
/// # fn main() -> Result<(), ironbridge::Error> {
/// let model = Model::open(&Device::open("default")?, "model.gguf")?;
/// let adapter = LoraAdapter::open("adapter.gguf")?;
/// let tuned = model.with_adapter(&adapter, 1.0)?; // the same weights, and a little beside them
/// # let _ = tuned;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct LoraAdapter {
    path: PathBuf,
    file: GgufFile,
    architecture: String,
    alpha: f32,
    changes: BTreeMap<String, LoraSizes>,
}

/// The sizes of the change of one weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoraSizes {
    /// What its two matrices have in common.
    pub rank: usize,
    /// Elements that the weight takes.
    pub inputs: usize,
    /// Elements that it gives.
    pub outputs: usize,
}

impl LoraAdapter {
    /// Maps an adapter's file.
    ///
    /// # Errors
    ///
    /// [`LlamaError::Open`] and [`LlamaError::Gguf`] when the file cannot be read, [`LlamaError::Adapter`] when it is
    /// no LoRA adapter.
    pub fn open(path: impl AsRef<Path>) -> Result<LoraAdapter, LlamaError> {
        let path = path.as_ref().to_owned();
        let file = GgufFile::open(&path)?;
        let wrong = |source| LlamaError::Adapter {
            path: path.clone(),
            source,
        };
        let header = file.header();
        let text = |key: &str| header.metadata().get::<&str>(key);
        for (key, expected) in [KIND, METHOD] {
            let found = text(key)?.unwrap_or("not there");
            if found != expected {
                return Err(wrong(AdapterError::Kind {
                    key,
                    found: found.to_owned(),
                    expected,
                }));
            }
        }
        let alpha: f32 = header.metadata().require(ALPHA)?;
        if !alpha.is_finite() {
            return Err(wrong(AdapterError::Alpha(alpha)));
        }
        Ok(LoraAdapter {
            architecture: text(ARCHITECTURE)?.unwrap_or_default().to_owned(),
            changes: changes(header).map_err(wrong)?,
            path,
            alpha,
            file,
        })
    }

    /// The architecture of the model that it was made for, as GGUF names it.
    pub fn architecture(&self) -> &str {
        &self.architecture
    }

    /// A change is multiplied by `alpha / rank`; where this is 0, by 1.
    pub fn alpha(&self) -> f32 {
        self.alpha
    }

    /// The weights that it changes, by name in alphabetical order, and the sizes of each change.
    pub fn changes(&self) -> impl ExactSizeIterator<Item = (&str, LoraSizes)> {
        self.changes
            .iter()
            .map(|(name, sizes)| (name.as_str(), *sizes))
    }

    pub(crate) fn wrong(&self, source: AdapterError) -> LlamaError {
        LlamaError::Adapter {
            path: self.path.clone(),
            source,
        }
    }

    /// What the change of this rank is multiplied by.
    pub(crate) fn factor(&self, rank: usize) -> f32 {
        match self.alpha == 0.0 {
            true => 1.0,
            false => self.alpha / rank as f32,
        }
    }

    /// The numbers of a weight's matrices, rank × inputs and outputs × rank, row by row.
    pub(crate) fn numbers(&self, name: &str) -> [Vec<f32>; 2] {
        [DOWN, UP].map(|end| {
            let name = format!("{name}{end}");
            let tensor = self.file.header().tensor(&name);
            let bytes = self.file.tensor_bytes(&name).unwrap_or_default();
            // They were looked at when the file was opened.
            tensor.map_or_else(Vec::new, |tensor| {
                floats(bytes, tensor.tensor_type()).collect()
            })
        })
    }
}

fn changes(header: &GgufHeader) -> Result<BTreeMap<String, LoraSizes>, AdapterError> {
    let mut changes = BTreeMap::new();
    for tensor in header.tensors() {
        let name = tensor.name();
        let other = match (name.strip_suffix(DOWN), name.strip_suffix(UP)) {
            (Some(weight), _) => format!("{weight}{UP}"),
            (_, Some(weight)) => format!("{weight}{DOWN}"),
            _ => return Err(AdapterError::Tensor(name.to_owned())),
        };
        let Some(other) = header.tensor(&other) else {
            return Err(AdapterError::Alone {
                name: name.to_owned(),
                other,
            });
        };
        let [inputs, rank] = matrix(tensor)?;
        if let Some(weight) = name.strip_suffix(DOWN) {
            let [of_up, outputs] = matrix(other)?;
            if of_up != rank {
                return Err(AdapterError::Rank {
                    weight: weight.to_owned(),
                    down: rank,
                    up: of_up,
                });
            }
            let sizes = LoraSizes {
                rank,
                inputs,
                outputs,
            };
            changes.insert(weight.to_owned(), sizes);
        }
    }
    match changes.is_empty() {
        true => Err(AdapterError::Empty),
        false => Ok(changes),
    }
}

/// A matrix's sizes in GGML's order.
fn matrix(tensor: &TensorInfo) -> Result<[usize; 2], AdapterError> {
    let name = || tensor.name().to_owned();
    match tensor.tensor_type() {
        TensorType::F32 | TensorType::F16 | TensorType::BF16 => (),
        found => {
            return Err(AdapterError::TensorType {
                name: name(),
                found,
            });
        }
    }
    // All are in memory, so that their numbers are sizes.
    match *tensor.dimensions() {
        [columns, rows] if columns > 0 && rows > 0 => Ok([columns as usize, rows as usize]),
        _ => Err(AdapterError::Matrix(name())),
    }
}

/// Rows of heads of `head_dim` rows, whose pairs were neighbors, with the first of each pair in the first half.
pub(crate) fn in_halves(rows: &[f32], width: usize, head_dim: usize) -> Vec<f32> {
    let half = head_dim / 2;
    reordered(rows, width, head_dim, |index| {
        2 * (index % half) + index / half
    })
}

/// The opposite.
#[cfg(any(test, feature = "train"))]
pub(crate) fn in_pairs(rows: &[f32], width: usize, head_dim: usize) -> Vec<f32> {
    let half = head_dim / 2;
    reordered(rows, width, head_dim, |index| index % 2 * half + index / 2)
}

/// `from`: which row of a head comes to this place.
fn reordered(
    rows: &[f32],
    width: usize,
    head_dim: usize,
    from: impl Fn(usize) -> usize,
) -> Vec<f32> {
    let place = |row: usize| row - row % head_dim + from(row % head_dim);
    (0..rows.len() / width)
        .flat_map(|row| &rows[place(row) * width..][..width])
        .copied()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_become_halves_and_pairs_again() {
        // Two heads of four rows, each a number of its own.
        let rows = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0];
        let halves = [0.0, 2.0, 1.0, 3.0, 4.0, 6.0, 5.0, 7.0];
        assert_eq!(in_halves(&rows, 1, 4), halves);
        assert_eq!(in_pairs(&halves, 1, 4), rows);
        let wide: Vec<f32> = rows.iter().flat_map(|row| [*row, -row]).collect();
        let expected: Vec<f32> = halves.iter().flat_map(|row| [*row, -row]).collect();
        assert_eq!(in_halves(&wide, 2, 4), expected);
    }
}
