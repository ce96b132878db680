//! The header: a JSON object of tensors by name.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::ops::Range;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::error::{SafetensorsError, SafetensorsErrorKind};
use crate::llama::quote::message;

/// The most of everything that is read.
pub mod limits {
    /// Bytes in a header; the reference implementation's own limit.
    pub const HEADER: u64 = 100_000_000;
    /// Tensors in a file.
    pub const TENSORS: usize = 1 << 16;
    /// Bytes in a tensor's name.
    pub const TENSOR_NAME: usize = 1024;
    /// Dimensions of a tensor.
    pub const DIMENSIONS: usize = 8;
}

/// Everything in a safetensors file but the tensors' bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SafetensorsHeader {
    tensors: Vec<SafetensorsTensor>,
    metadata: BTreeMap<String, String>,
}

/// One tensor of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SafetensorsTensor {
    /// Its name.
    pub name: String,
    /// How its numbers are stored.
    pub dtype: SafetensorsDtype,
    /// Its sizes, the one whose elements lie side by side last. None: one number. A size may be 0.
    pub shape: Vec<u64>,
    /// Its bytes in the file.
    pub bytes: Range<u64>,
}

/// One row a type: its name and its bytes.
macro_rules! dtypes {
    ($($name:ident: $size:literal;)*) => {
        /// How the numbers of a tensor are stored: those of the format's types that take whole bytes.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[allow(non_camel_case_types, missing_docs, reason = "these are the format's names")]
        #[non_exhaustive]
        pub enum SafetensorsDtype {
            $($name,)*
        }

        impl SafetensorsDtype {
            /// The format's name: `"BF16"`.
            pub fn name(self) -> &'static str {
                match self {
                    $(SafetensorsDtype::$name => stringify!($name),)*
                }
            }

            /// Bytes of a number.
            pub fn size(self) -> u64 {
                match self {
                    $(SafetensorsDtype::$name => $size,)*
                }
            }

            fn from_name(name: &str) -> Option<SafetensorsDtype> {
                match name {
                    $(stringify!($name) => Some(SafetensorsDtype::$name),)*
                    _ => None,
                }
            }
        }
    };
}
dtypes! {
    BOOL: 1;
    U8: 1;
    I8: 1;
    F8_E5M2: 1;
    F8_E4M3: 1;
    F8_E8M0: 1;
    I16: 2;
    U16: 2;
    F16: 2;
    BF16: 2;
    I32: 4;
    U32: 4;
    F32: 4;
    F64: 8;
    I64: 8;
    U64: 8;
    C64: 8;
}

impl SafetensorsHeader {
    /// Reads the header of a whole file.
    ///
    /// # Errors
    ///
    /// [`SafetensorsError`] when the bytes are not a whole and consistent safetensors file. Tensors that reach past the
    /// end, that overlap or that leave bytes between or behind them are errors, as the format says.
    pub fn parse(file: &[u8]) -> Result<SafetensorsHeader, SafetensorsError> {
        let at = |offset, kind| Err(SafetensorsError { offset, kind });
        let Some((length, rest)) = file.split_first_chunk::<8>() else {
            return at(0, SafetensorsErrorKind::TooShort(file.len() as u64));
        };
        let length = u64::from_le_bytes(*length);
        let left = rest.len() as u64;
        if length > limits::HEADER {
            let limit = limits::HEADER;
            return at(0, SafetensorsErrorKind::HeaderTooLong { length, limit });
        }
        if length > left {
            let needed = length;
            return at(8, SafetensorsErrorKind::Truncated { needed, left });
        }
        let (json, data) = rest.split_at(length as usize);
        let Table(mut tensors, metadata) =
            serde_json::from_slice(json).map_err(|error| SafetensorsError {
                offset: 8 + offset_of(json, &error),
                kind: SafetensorsErrorKind::Json(message(error)),
            })?;
        place(&mut tensors, 8 + length, data.len() as u64)
            .map_err(|kind| SafetensorsError { offset: 8, kind })?;
        Ok(SafetensorsHeader { tensors, metadata })
    }

    /// The tensors in the order of their bytes.
    pub fn tensors(&self) -> &[SafetensorsTensor] {
        &self.tensors
    }

    /// What the file says about itself, `__metadata__`: texts by name. Empty where it is something else.
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.metadata
    }
}

/// Where in `json` an error is: it counts lines, and bytes in a line, from 1.
fn offset_of(json: &[u8], error: &serde_json::Error) -> u64 {
    let lines = json.split_inclusive(|byte| *byte == b'\n');
    let before: usize = lines
        .take(error.line().saturating_sub(1))
        .map(<[u8]>::len)
        .sum();
    (before + error.column().saturating_sub(1)).min(json.len()) as u64
}

/// Holds the tensors against each other and against the `length` bytes of data, and moves them from the start of the
/// data to the file's byte `start`, in the order in which they lie there.
fn place(
    tensors: &mut [SafetensorsTensor],
    start: u64,
    length: u64,
) -> Result<(), SafetensorsErrorKind> {
    let mut names = HashSet::with_capacity(tensors.len());
    for tensor in &*tensors {
        let name = || tensor.name.clone();
        if !names.insert(tensor.name.as_str()) {
            return Err(SafetensorsErrorKind::DuplicateTensor(name()));
        }
        let elements = tensor
            .shape
            .iter()
            .try_fold(tensor.dtype.size(), |product, size| {
                product.checked_mul(*size)
            });
        let Some(needed) = elements else {
            return Err(SafetensorsErrorKind::Overflow { name: name() });
        };
        let Range { start: begin, end } = tensor.bytes;
        if end.checked_sub(begin) != Some(needed) {
            return Err(SafetensorsErrorKind::WrongLength {
                name: name(),
                begin,
                end,
                needed,
            });
        }
        if end > length {
            let name = name();
            return Err(SafetensorsErrorKind::OutsideFile { name, end, length });
        }
    }
    tensors.sort_by_key(|tensor| (tensor.bytes.start, tensor.bytes.end));
    let mut end = 0;
    for tensor in &mut *tensors {
        let begin = tensor.bytes.start;
        if begin != end {
            let name = tensor.name.clone();
            return Err(SafetensorsErrorKind::OverlapOrHole { name, begin, end });
        }
        end = tensor.bytes.end;
        // Nothing overflows: both are inside of the file.
        tensor.bytes = start + begin..start + end;
    }
    match end == length {
        true => Ok(()),
        false => Err(SafetensorsErrorKind::Unused { end, length }),
    }
}

/// The header's object. Reading it into a map would lose names that repeat.
struct Table(Vec<SafetensorsTensor>, BTreeMap<String, String>);

/// The texts of an object, or nothing of anything else: it never keeps a file from being read.
#[derive(Default)]
struct Texts(BTreeMap<String, String>);

impl<'de> Deserialize<'de> for Texts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Texts, D::Error> {
        let value = serde_json::Value::deserialize(deserializer)?;
        let entries = match value {
            serde_json::Value::Object(entries) => entries.into_iter(),
            _ => return Ok(Texts::default()),
        };
        let texts = entries.filter_map(|(key, value)| match value {
            serde_json::Value::String(text) => Some((key, text)),
            _ => None,
        });
        Ok(Texts(texts.collect()))
    }
}

impl<'de> Deserialize<'de> for Table {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Table, D::Error> {
        struct Rows;
        impl<'de> Visitor<'de> for Rows {
            type Value = Table;

            fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
                formatter.write_str("an object of tensors")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Table, A::Error> {
                let (mut tensors, mut metadata) = (Vec::new(), BTreeMap::new());
                while let Some(name) = map.next_key::<String>()? {
                    if name == "__metadata__" {
                        Texts(metadata) = map.next_value()?;
                        continue;
                    }
                    if tensors.len() == limits::TENSORS {
                        return Err(A::Error::custom("more tensors than the limit"));
                    }
                    if name.len() > limits::TENSOR_NAME {
                        return Err(A::Error::custom("a tensor's name longer than the limit"));
                    }
                    let entry: Entry = map.next_value()?;
                    let dtype = SafetensorsDtype::from_name(&entry.dtype)
                        .ok_or_else(|| A::Error::custom("a dtype that is not known"))?;
                    let [begin, end] = entry.data_offsets;
                    tensors.push(SafetensorsTensor {
                        name,
                        dtype,
                        shape: entry.shape.0,
                        bytes: Range { start: begin, end },
                    });
                }
                Ok(Table(tensors, metadata))
            }
        }
        deserializer.deserialize_map(Rows)
    }
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    dtype: String,
    shape: Shape,
    data_offsets: [u64; 2],
}

struct Shape(Vec<u64>);

impl<'de> Deserialize<'de> for Shape {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Shape, D::Error> {
        struct Sizes;
        impl<'de> Visitor<'de> for Sizes {
            type Value = Shape;

            fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
                formatter.write_str("a list of sizes")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut sizes: A) -> Result<Shape, A::Error> {
                let mut shape = Vec::new();
                while let Some(size) = sizes.next_element()? {
                    if shape.len() == limits::DIMENSIONS {
                        return Err(A::Error::custom("more dimensions than the limit"));
                    }
                    shape.push(size);
                }
                Ok(Shape(shape))
            }
        }
        deserializer.deserialize_seq(Sizes)
    }
}
