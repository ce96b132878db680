//! Checkpoints: safetensors files of weights and the optimizer's state.
//!
//! What a run notes about itself is among the metadata. A parameter has its own name, what the optimizer keeps for it
//! `optimizer.KIND.NAME`, and `optimizer.step`, one U64, is the number of steps.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::Path;

use serde_json::{Map, json};

use crate::llama::safetensors::{SafetensorsDtype, SafetensorsHeader, SafetensorsTensor};
use crate::new_file::NewFile;
use crate::train::error::TrainError;

const STEP: &str = "optimizer.step";

/// A tensor of a checkpoint.
pub(super) struct Saved {
    pub name: String,
    pub shape: [usize; 2],
    pub values: Vec<f32>,
}

/// Writes a checkpoint as a whole or not at all.
pub(super) fn save(
    path: &Path,
    steps: u64,
    tensors: &[Saved],
    notes: &BTreeMap<String, String>,
) -> Result<(), TrainError> {
    let write = || -> io::Result<()> {
        let mut file = NewFile::create(path, true)?;
        let header = header(tensors, notes);
        file.write_all(&(header.len() as u64).to_le_bytes())?;
        file.write_all(&header)?;
        file.write_all(&steps.to_le_bytes())?;
        for tensor in tensors {
            for value in &tensor.values {
                file.write_all(&value.to_le_bytes())?;
            }
        }
        file.persist()
    };
    write().map_err(|source| TrainError::Write {
        path: path.to_owned(),
        source,
    })
}

/// The JSON header, padded with spaces so that the data begins at a multiple of 8 bytes
/// (<https://huggingface.co/docs/safetensors>).
fn header(tensors: &[Saved], notes: &BTreeMap<String, String>) -> Vec<u8> {
    let entry = |dtype: &str, shape: &[usize], start: usize, bytes: usize| {
        let offsets = [start, start + bytes];
        json!({ "dtype": dtype, "shape": shape, "data_offsets": offsets })
    };
    let mut entries = Map::new();
    let mut metadata = notes.clone();
    metadata.insert("format".to_owned(), "ironbridge checkpoint".to_owned());
    metadata.insert("version".to_owned(), "1".to_owned());
    entries.insert("__metadata__".to_owned(), json!(metadata));
    entries.insert(STEP.to_owned(), entry("U64", &[1], 0, 8));
    let mut start = 8;
    for tensor in tensors {
        let bytes = 4 * tensor.values.len();
        let described = entry("F32", &tensor.shape, start, bytes);
        entries.insert(tensor.name.clone(), described);
        start += bytes;
    }
    let mut header = serde_json::Value::Object(entries).to_string().into_bytes();
    header.resize(header.len().next_multiple_of(8), b' ');
    header
}

/// Reads a checkpoint that has just `expected` tensors: the number of steps, and their values in that order.
pub(super) fn read(
    path: &Path,
    expected: &[(String, [usize; 2])],
    notes: &BTreeMap<String, String>,
) -> Result<(u64, Vec<Vec<f32>>), TrainError> {
    let other = |reason: String| TrainError::OtherModel {
        path: path.to_owned(),
        reason,
    };
    let cannot_read = |source| TrainError::Read {
        path: path.to_owned(),
        source,
    };
    // Another model's file may have any size, and is not read.
    let data: u64 = expected
        .iter()
        .map(|(_, [rows, width])| 4 * (rows * width) as u64)
        .sum();
    let names: u64 = expected.iter().map(|(name, _)| name.len() as u64).sum();
    let noted = notes.iter().map(|(key, value)| key.len() + value.len());
    let noted: usize = noted.map(|length| 6 * length + 16).sum();
    let most = data + 8 * names + 1024 * (expected.len() as u64 + 1) + noted as u64;
    let length = fs::metadata(path).map_err(cannot_read)?.len();
    if length > most {
        return Err(other(format!(
            "it has {length} bytes, and this model's has at most {most}"
        )));
    }
    let bytes = fs::read(path).map_err(cannot_read)?;
    let header = SafetensorsHeader::parse(&bytes).map_err(|source| TrainError::Safetensors {
        path: path.to_owned(),
        source,
    })?;

    for (key, value) in notes {
        let said = header.metadata().get(key).map_or("nothing", String::as_str);
        if said != value {
            return Err(other(format!(
                "its {key} is {said}, and this run's is {value}"
            )));
        }
    }
    let find = |name: &str| {
        let mut tensors = header.tensors().iter();
        let found = tensors.find(|tensor| tensor.name == name);
        found.ok_or_else(|| other(format!("it lacks the tensor {name:?}")))
    };
    let data_of =
        |tensor: &SafetensorsTensor| &bytes[tensor.bytes.start as usize..tensor.bytes.end as usize];
    let check = |tensor: &SafetensorsTensor, dtype: SafetensorsDtype, shape: &[u64]| match tensor
        .dtype
        == dtype
        && tensor.shape == shape
    {
        true => Ok(()),
        false => Err(other(format!(
            "its tensor {:?} is {:?} {}, and must be {shape:?} {}",
            tensor.name,
            tensor.shape,
            tensor.dtype.name(),
            dtype.name()
        ))),
    };
    let mut values = Vec::new();
    for (name, [rows, width]) in expected {
        let tensor = find(name)?;
        check(
            tensor,
            SafetensorsDtype::F32,
            &[*rows as u64, *width as u64],
        )?;
        let (numbers, _) = data_of(tensor).as_chunks::<4>();
        values.push(
            numbers
                .iter()
                .map(|four| f32::from_le_bytes(*four))
                .collect(),
        );
    }
    let step = find(STEP)?;
    check(step, SafetensorsDtype::U64, &[1])?;
    let (steps, _) = data_of(step).as_chunks::<8>();
    let is_expected = |tensor: &&SafetensorsTensor| {
        tensor.name == STEP || expected.iter().any(|(name, _)| *name == tensor.name)
    };
    if let Some(more) = header.tensors().iter().find(|tensor| !is_expected(tensor)) {
        return Err(other(format!(
            "it has the tensor {:?}, which this model has not",
            more.name
        )));
    }
    Ok((u64::from_le_bytes(steps[0]), values))
}
