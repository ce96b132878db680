//! Writes GGUF files of version 3.

use std::io::{self, Write};

use super::error::GgufError;
use super::header::GgufHeader;
use super::metadata::Metadata;
use super::tensor_type::TensorType;
use super::value::{Array, Value};

/// A tensor of a file to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewTensor {
    /// Its name, unlike those of the others.
    pub name: String,
    /// How its numbers are stored.
    pub tensor_type: TensorType,
    /// Its one to four sizes in GGML's order, the one whose elements lie side by side first.
    pub dimensions: Vec<u64>,
}

/// Writes a GGUF file from its start to its end: the header is made from what is known beforehand, then come the bytes
/// of each tensor.
///
/// ```
/// use ironbridge::llama::gguf::{GgufHeader, GgufWriter, Metadata, NewTensor, TensorType};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut metadata = Metadata::default();
/// metadata.set("general.architecture", "llama")?;
/// let norm = NewTensor { name: "norm".into(), tensor_type: TensorType::F32, dimensions: vec![2] };
/// let mut file = GgufWriter::new(Vec::new(), &metadata, &[norm])?;
/// for number in [1.0f32, 2.0] {
///     file.write(&number.to_le_bytes())?;
/// }
/// let bytes = file.finish()?;
/// assert_eq!(GgufHeader::parse(&bytes)?.tensors()[0].dimensions(), [2]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct GgufWriter<W> {
    out: W,
    header: GgufHeader,
    position: u64,
    /// The tensor whose bytes come next.
    tensor: usize,
}

impl<W: Write> GgufWriter<W> {
    /// Writes the header of a file with these tensors, whose bytes are expected in their order.
    ///
    /// # Errors
    ///
    /// Of the kind [`InvalidInput`](io::ErrorKind::InvalidInput), with a [`GgufError`] inside, for what this crate
    /// would not read: names that repeat, rows that are not whole blocks, more than [`limits`](super::limits) allow.
    /// Else those of `out`.
    pub fn new(
        mut out: W,
        metadata: &Metadata,
        tensors: &[NewTensor],
    ) -> io::Result<GgufWriter<W>> {
        let (start, header) = encode(metadata, tensors)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        out.write_all(&start)?;
        Ok(GgufWriter {
            out,
            header,
            position: start.len() as u64,
            tensor: 0,
        })
    }

    /// The header, with the place of each tensor in the file.
    pub fn header(&self) -> &GgufHeader {
        &self.header
    }

    /// Writes the next bytes of the current tensor. A tensor that is complete makes way for the next one.
    ///
    /// # Errors
    ///
    /// Of the kind [`InvalidInput`](io::ErrorKind::InvalidInput) for more bytes than the tensor lacks; those of `out`.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some(tensor) = self.header.tensors().get(self.tensor) else {
            return Err(invalid("all tensors are written already".to_owned()));
        };
        let place = tensor.bytes();
        if self.position < place.start {
            self.pad(place.start)?;
        }
        let left = place.end - self.position;
        let length = bytes.len() as u64;
        if length > left {
            let name = self.header.tensors()[self.tensor].name();
            let text =
                format!("tensor {name:?} lacks {left} bytes and {length} were to be written");
            return Err(invalid(text));
        }
        self.out.write_all(bytes)?;
        self.position += length;
        if self.position == place.end {
            self.tensor += 1;
        }
        Ok(())
    }

    /// Ends the file and gives back where it was written to.
    ///
    /// # Errors
    ///
    /// Of the kind [`InvalidInput`](io::ErrorKind::InvalidInput) when a tensor lacks bytes; those of `out`.
    pub fn finish(mut self) -> io::Result<W> {
        if let Some(tensor) = self.header.tensors().get(self.tensor) {
            return Err(invalid(format!("tensor {:?} lacks bytes", tensor.name())));
        }
        // llama.cpp's own files are padded at the end as well.
        let alignment = self.header.metadata().alignment();
        self.pad(self.position.next_multiple_of(alignment.into()))?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn pad(&mut self, end: u64) -> io::Result<()> {
        // Less than an alignment, which is at most 1 MiB.
        self.out
            .write_all(&vec![0; (end - self.position) as usize])?;
        self.position = end;
        Ok(())
    }
}

fn invalid(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, text)
}

/// The bytes before the first tensor's, and what reading them gives: nothing is written that would not be read again.
fn encode(metadata: &Metadata, tensors: &[NewTensor]) -> Result<(Vec<u8>, GgufHeader), GgufError> {
    let mut start = b"GGUF".to_vec();
    start.extend(3u32.to_le_bytes());
    start.extend((tensors.len() as u64).to_le_bytes());
    start.extend((metadata.iter().len() as u64).to_le_bytes());
    for (key, value) in metadata.iter() {
        string(&mut start, key.as_bytes());
        start.extend((value.value_type() as u32).to_le_bytes());
        encode_value(&mut start, value);
    }
    let alignment = u64::from(metadata.alignment());
    let mut offset = 0u64;
    for tensor in tensors {
        string(&mut start, tensor.name.as_bytes());
        start.extend((tensor.dimensions.len() as u32).to_le_bytes());
        for size in &tensor.dimensions {
            start.extend(size.to_le_bytes());
        }
        start.extend((tensor.tensor_type as u32).to_le_bytes());
        start.extend(offset.to_le_bytes());
        // What overflows is refused by its own field when the header is read below.
        let elements = tensor
            .dimensions
            .iter()
            .fold(1, |product: u64, size| product.saturating_mul(*size));
        let blocks = elements / tensor.tensor_type.block_length();
        let length = blocks.saturating_mul(tensor.tensor_type.block_size());
        offset = offset
            .saturating_add(length)
            .checked_next_multiple_of(alignment)
            .unwrap_or(u64::MAX);
    }
    let header = GgufHeader::parse_start(&start, u64::MAX)?;
    start.resize(start.len().next_multiple_of(alignment as usize), 0);
    Ok((start, header))
}

fn string(file: &mut Vec<u8>, bytes: &[u8]) {
    file.extend((bytes.len() as u64).to_le_bytes());
    file.extend(bytes);
}

fn encode_value(file: &mut Vec<u8>, value: &Value) {
    match value {
        Value::U8(value) => file.extend(value.to_le_bytes()),
        Value::I8(value) => file.extend(value.to_le_bytes()),
        Value::U16(value) => file.extend(value.to_le_bytes()),
        Value::I16(value) => file.extend(value.to_le_bytes()),
        Value::U32(value) => file.extend(value.to_le_bytes()),
        Value::I32(value) => file.extend(value.to_le_bytes()),
        Value::F32(value) => file.extend(value.to_le_bytes()),
        Value::Bool(value) => file.push((*value).into()),
        Value::String(bytes) => string(file, bytes),
        Value::Array(array) => encode_array(file, array),
        Value::U64(value) => file.extend(value.to_le_bytes()),
        Value::I64(value) => file.extend(value.to_le_bytes()),
        Value::F64(value) => file.extend(value.to_le_bytes()),
    }
}

fn encode_array(file: &mut Vec<u8>, array: &Array) {
    file.extend((array.element_type() as u32).to_le_bytes());
    file.extend((array.len() as u64).to_le_bytes());
    match array {
        Array::U8(items) => file.extend(items),
        Array::I8(items) => file.extend(items.iter().map(|item| *item as u8)),
        Array::U16(items) => file.extend(items.iter().flat_map(|item| item.to_le_bytes())),
        Array::I16(items) => file.extend(items.iter().flat_map(|item| item.to_le_bytes())),
        Array::U32(items) => file.extend(items.iter().flat_map(|item| item.to_le_bytes())),
        Array::I32(items) => file.extend(items.iter().flat_map(|item| item.to_le_bytes())),
        Array::F32(items) => file.extend(items.iter().flat_map(|item| item.to_le_bytes())),
        Array::Bool(items) => file.extend(items.iter().map(|item| u8::from(*item))),
        Array::String(items) => items.iter().for_each(|item| string(file, item)),
        Array::Array(items) => items.iter().for_each(|item| encode_array(file, item)),
        Array::U64(items) => file.extend(items.iter().flat_map(|item| item.to_le_bytes())),
        Array::I64(items) => file.extend(items.iter().flat_map(|item| item.to_le_bytes())),
        Array::F64(items) => file.extend(items.iter().flat_map(|item| item.to_le_bytes())),
    }
}
