//! The table of metadata: keys and typed values.

use std::collections::HashMap;

use super::cursor::Cursor;
use super::error::{GgufError, GgufErrorKind};
use super::header::limits;
use super::value::{Array, Value};
use crate::llama::quote::quoted;

/// The alignment of files that do not state one.
const DEFAULT_ALIGNMENT: u32 = 32;

/// The metadata key of the alignment.
const ALIGNMENT_KEY: &str = "general.alignment";

/// The metadata of a GGUF file, in the file's order.
#[derive(Clone, Debug, PartialEq)]
pub struct Metadata {
    entries: Vec<(String, Value)>,
    index: HashMap<String, usize>,
    alignment: u32,
}

/// A metadata key that is missing or has a value of another type or range than its meaning asks for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MetadataError {
    /// The key is not there and has no default.
    #[error("the model file lacks the metadata key {quoted}", quoted = quoted(.0))]
    Missing(String),
    /// The value does not fit.
    #[error(
        "the metadata key {key} should be {expected}, and is {found} in the model file",
        key = quoted(key)
    )]
    WrongType {
        /// The metadata key.
        key: String,
        /// What was asked for.
        expected: &'static str,
        /// The value's type, and the value where it is a number.
        found: String,
    },
}

impl Default for Metadata {
    fn default() -> Metadata {
        Metadata {
            entries: Vec::new(),
            index: HashMap::new(),
            alignment: DEFAULT_ALIGNMENT,
        }
    }
}

impl Metadata {
    /// Sets the value of a key, in the place of the one that it had or at the end.
    ///
    /// # Errors
    ///
    /// [`MetadataError::WrongType`] for a `general.alignment` that the format does not allow; nothing is changed then.
    pub fn set(
        &mut self,
        key: impl Into<String>,
        value: impl Into<Value>,
    ) -> Result<(), MetadataError> {
        let (key, value) = (key.into(), value.into());
        if key == ALIGNMENT_KEY {
            self.alignment = alignment(&value).map_err(|_| MetadataError::WrongType {
                key: key.clone(),
                expected: "a power of two from 8 to 2^20 of type u32",
                found: describe(&value),
            })?;
        }
        match self.index.get(&key) {
            Some(index) => self.entries[*index].1 = value,
            None => {
                self.index.insert(key.clone(), self.entries.len());
                self.entries.push((key, value));
            }
        }
        Ok(())
    }

    /// The value of a key, as the file has it.
    pub fn value(&self, key: &str) -> Option<&Value> {
        self.index.get(key).map(|index| &self.entries[*index].1)
    }

    /// The value of a key that may be missing, as a Rust type.
    ///
    /// # Errors
    ///
    /// [`MetadataError::WrongType`] when the value is there and does not fit the type.
    pub fn get<'a, T: FromValue<'a>>(&'a self, key: &str) -> Result<Option<T>, MetadataError> {
        let Some(value) = self.value(key) else {
            return Ok(None);
        };
        match T::from_value(value) {
            Some(fitting) => Ok(Some(fitting)),
            None => Err(MetadataError::WrongType {
                key: key.to_owned(),
                expected: T::EXPECTED,
                found: describe(value),
            }),
        }
    }

    /// The value of a key that must be there, as a Rust type.
    ///
    /// # Errors
    ///
    /// [`MetadataError`] when the key is missing or the value does not fit the type.
    pub fn require<'a, T: FromValue<'a>>(&'a self, key: &str) -> Result<T, MetadataError> {
        self.get(key)?
            .ok_or_else(|| MetadataError::Missing(key.to_owned()))
    }

    /// All keys and values.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Value)> {
        self.entries
            .iter()
            .map(|(key, value)| (key.as_str(), value))
    }

    /// What the offset of every tensor is a multiple of, in bytes: `general.alignment`, or 32.
    pub fn alignment(&self) -> u32 {
        self.alignment
    }

    pub(super) fn read(cursor: &mut Cursor, count: usize) -> Result<Metadata, GgufError> {
        let mut metadata = Metadata {
            entries: Vec::with_capacity(count),
            index: HashMap::with_capacity(count),
            ..Metadata::default()
        };
        for position in 0..count {
            let offset = cursor.position();
            let key = cursor.utf8("metadata key", limits::KEY)?.to_owned();
            if metadata.index.insert(key.clone(), position).is_some() {
                let kind = GgufErrorKind::DuplicateKey(key);
                return Err(GgufError { offset, kind });
            }
            let value = Value::read(cursor)?;
            if key == ALIGNMENT_KEY {
                metadata.alignment =
                    alignment(&value).map_err(|kind| GgufError { offset, kind })?;
            }
            metadata.entries.push((key, value));
        }
        Ok(metadata)
    }
}

fn alignment(value: &Value) -> Result<u32, GgufErrorKind> {
    match *value {
        Value::U32(bytes)
            if bytes.is_power_of_two() && (8..=limits::ALIGNMENT).contains(&bytes) =>
        {
            Ok(bytes)
        }
        _ => Err(GgufErrorKind::Alignment {
            found: describe(value),
            limit: limits::ALIGNMENT,
        }),
    }
}

/// The type of a value, with the value when it is a number: for messages.
fn describe(value: &Value) -> String {
    let kind = value.value_type();
    match value {
        Value::String(_) => kind.to_string(),
        Value::Array(array) => format!("array of {} {}", array.len(), array.element_type()),
        Value::Bool(boolean) => boolean.to_string(),
        number => match (number.as_u64(), number.as_f64()) {
            (Some(integer), _) => format!("{kind} {integer}"),
            (_, Some(float)) => format!("{kind} {float}"),
            _ => format!("a negative {kind}"),
        },
    }
}

/// Rust types that a metadata value can be read as. Integers of any width fit as long as their value does, and so do
/// floats.
pub trait FromValue<'a>: Sized {
    /// What the type asks for, in words.
    const EXPECTED: &'static str;

    /// The value as this type, if it fits.
    fn from_value(value: &'a Value) -> Option<Self>;
}

impl FromValue<'_> for u64 {
    const EXPECTED: &'static str = "an integer from 0 to 2^64 - 1";
    fn from_value(value: &Value) -> Option<u64> {
        value.as_u64()
    }
}

impl FromValue<'_> for u32 {
    const EXPECTED: &'static str = "an integer from 0 to 2^32 - 1";
    fn from_value(value: &Value) -> Option<u32> {
        value.as_u64()?.try_into().ok()
    }
}

impl FromValue<'_> for f32 {
    const EXPECTED: &'static str = "a float";
    fn from_value(value: &Value) -> Option<f32> {
        value.as_f64().map(|float| float as f32)
    }
}

impl FromValue<'_> for bool {
    const EXPECTED: &'static str = "a boolean";
    fn from_value(value: &Value) -> Option<bool> {
        value.as_bool()
    }
}

impl<'a> FromValue<'a> for &'a str {
    const EXPECTED: &'static str = "a string of UTF-8";
    fn from_value(value: &'a Value) -> Option<&'a str> {
        value.as_str()
    }
}

impl<'a> FromValue<'a> for &'a [Box<[u8]>] {
    const EXPECTED: &'static str = "an array of strings";
    fn from_value(value: &'a Value) -> Option<&'a [Box<[u8]>]> {
        match value.as_array()? {
            Array::String(strings) => Some(strings),
            _ => None,
        }
    }
}

impl<'a> FromValue<'a> for &'a [f32] {
    const EXPECTED: &'static str = "an array of f32";
    fn from_value(value: &'a Value) -> Option<&'a [f32]> {
        match value.as_array()? {
            Array::F32(floats) => Some(floats),
            _ => None,
        }
    }
}

impl<'a> FromValue<'a> for &'a [u32] {
    const EXPECTED: &'static str = "an array of u32";
    fn from_value(value: &'a Value) -> Option<&'a [u32]> {
        match value.as_array()? {
            Array::U32(integers) => Some(integers),
            _ => None,
        }
    }
}

impl<'a> FromValue<'a> for &'a [i32] {
    const EXPECTED: &'static str = "an array of i32";
    fn from_value(value: &'a Value) -> Option<&'a [i32]> {
        match value.as_array()? {
            Array::I32(integers) => Some(integers),
            _ => None,
        }
    }
}
