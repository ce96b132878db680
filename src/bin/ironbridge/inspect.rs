//! `ironbridge inspect`

use std::error::Error;
use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use ironbridge::llama::gguf::{Array, Value};
use ironbridge::llama::{ModelFile, ModelFormat, ModelTensor};
use serde_json::{Map, Value as Json, json};

use crate::output;
use crate::terminal::bytes;

#[derive(Args)]
pub struct InspectArguments {
    /// A GGUF file, or a folder with config.json and .safetensors files
    #[arg(value_name = "FILE")]
    model: PathBuf,
    /// Write everything as one JSON object
    #[arg(long)]
    json: bool,
}

/// Elements of an array that are shown to a person.
const SHOWN: usize = 5;

pub fn run(arguments: &InspectArguments) -> Result<(), Box<dyn Error>> {
    let model = ModelFile::open(&arguments.model)?;
    let mut out = output::buffered();
    match arguments.json {
        true => writeln!(out, "{}", describe(&model))?,
        false => print(&model, &mut out)?,
    }
    out.flush()?;
    Ok(())
}

fn print(model: &ModelFile, out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let (tensors, metadata) = (model.tensors(), model.metadata());
    let size = tensors.iter().map(ModelTensor::byte_length).sum();
    let numbers: u64 = tensors.iter().map(ModelTensor::elements).sum();
    match model.format() {
        ModelFormat::Gguf(version) => writeln!(out, "GGUF, version {version}")?,
        _ => writeln!(out, "Hugging Face folder, under GGUF's names")?,
    }
    writeln!(
        out,
        "{} tensors of {numbers} numbers in {}",
        tensors.len(),
        bytes(size)
    )?;

    writeln!(out, "\nmetadata")?;
    let longest = metadata.iter().map(|(key, _)| key.len()).max().unwrap_or(0);
    for (key, value) in metadata.iter() {
        writeln!(out, "  {:<longest$}  {}", printable(key), shortened(value))?;
    }

    writeln!(out, "\ntensors")?;
    let longest = tensors.iter().map(|tensor| tensor.name().len()).max();
    let longest = longest.unwrap_or(0);
    for tensor in tensors {
        let sizes: Vec<String> = tensor.dimensions().iter().map(u64::to_string).collect();
        writeln!(
            out,
            "  {:<longest$}  {:<7}  {:>10}  {}",
            printable(tensor.name()),
            tensor.tensor_type(),
            bytes(tensor.byte_length()),
            sizes.join(" × ")
        )?;
    }
    Ok(())
}

/// Names come from strangers' files: what would steer a terminal is escaped.
fn printable(text: &str) -> String {
    text.escape_debug().to_string()
}

/// A value on one line.
fn shortened(value: &Value) -> String {
    match (value, to_json(value)) {
        (Value::Array(array), Json::Array(items)) => {
            let shown: Vec<String> = items.iter().take(SHOWN).map(Json::to_string).collect();
            let rest = if items.len() > SHOWN { ", …" } else { "" };
            let (count, kind) = (array.len(), array.element_type());
            format!("{count} {kind}: [{}{rest}]", shown.join(", "))
        }
        (Value::String(_), Json::String(text)) => {
            let mut start: String = text.chars().take(200).collect();
            if start.len() < text.len() {
                start.push('…');
            }
            format!("\"{}\"", printable(&start))
        }
        (_, json) => json.to_string(),
    }
}

fn describe(model: &ModelFile) -> Json {
    let (format, version) = match model.format() {
        ModelFormat::Gguf(version) => ("gguf", Some(version)),
        _ => ("hugging-face", None),
    };
    let metadata = model.metadata().iter();
    let metadata: Map<String, Json> = metadata
        .map(|(key, value)| (key.to_owned(), to_json(value)))
        .collect();
    let tensor = |tensor: &ModelTensor| {
        json!({
            "name": tensor.name(),
            "stored_name": tensor.stored_name(),
            "type": tensor.tensor_type().name(),
            "dimensions": tensor.dimensions(),
            "bytes": tensor.byte_length(),
        })
    };
    let tensors: Vec<Json> = model.tensors().iter().map(tensor).collect();
    json!({ "format": format, "version": version, "metadata": metadata, "tensors": tensors })
}

/// JSON has no NaN and no infinity: they are null. Bytes that are no UTF-8 become U+FFFD.
fn to_json(value: &Value) -> Json {
    match value {
        Value::U8(value) => (*value).into(),
        Value::I8(value) => (*value).into(),
        Value::U16(value) => (*value).into(),
        Value::I16(value) => (*value).into(),
        Value::U32(value) => (*value).into(),
        Value::I32(value) => (*value).into(),
        Value::F32(value) => (*value).into(),
        Value::Bool(value) => (*value).into(),
        Value::String(text) => String::from_utf8_lossy(text).into(),
        Value::Array(array) => array_to_json(array),
        Value::U64(value) => (*value).into(),
        Value::I64(value) => (*value).into(),
        Value::F64(value) => (*value).into(),
    }
}

fn array_to_json(array: &Array) -> Json {
    match array {
        Array::U8(items) => items.clone().into(),
        Array::I8(items) => items.clone().into(),
        Array::U16(items) => items.clone().into(),
        Array::I16(items) => items.clone().into(),
        Array::U32(items) => items.clone().into(),
        Array::I32(items) => items.clone().into(),
        Array::F32(items) => items.clone().into(),
        Array::Bool(items) => items.clone().into(),
        Array::String(items) => items
            .iter()
            .map(|text| String::from_utf8_lossy(text))
            .collect(),
        Array::Array(items) => items.iter().map(array_to_json).collect(),
        Array::U64(items) => items.clone().into(),
        Array::I64(items) => items.clone().into(),
        Array::F64(items) => items.clone().into(),
    }
}
