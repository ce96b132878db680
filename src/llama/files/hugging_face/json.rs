//! Reads JSON files of a bounded size, and the values in them by key.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::error::HuggingFaceError;
use crate::llama::error::LlamaError;
use crate::llama::quote::message;

/// The bytes of a regular file of at most `limit` bytes.
pub(super) fn read_bytes(path: &Path, limit: u64) -> Result<Vec<u8>, LlamaError> {
    let cannot_open = |source| LlamaError::Open {
        path: path.to_owned(),
        source,
    };
    if !std::fs::metadata(path).map_err(cannot_open)?.is_file() {
        let source = io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file");
        return Err(cannot_open(source));
    }
    let file = File::open(path).map_err(cannot_open)?;
    let mut bytes = Vec::new();
    // One more than the limit shows that it is exceeded, whatever the file's size is said to be.
    let read = file.take(limit + 1).read_to_end(&mut bytes);
    read.map_err(cannot_open)?;
    let length = bytes.len() as u64;
    match length > limit {
        true => Err(at(path, HuggingFaceError::TooLarge { length, limit })),
        false => Ok(bytes),
    }
}

/// A JSON file of at most `limit` bytes.
pub(super) fn read<T: DeserializeOwned>(path: &Path, limit: u64) -> Result<T, LlamaError> {
    let bytes = read_bytes(path, limit)?;
    serde_json::from_slice(&bytes).map_err(|error| at(path, HuggingFaceError::Json(message(error))))
}

/// Names the file of an error.
pub(super) fn at(path: &Path, source: HuggingFaceError) -> LlamaError {
    LlamaError::HuggingFace {
        path: path.to_owned(),
        source,
    }
}

/// An object of a file, whose values are read by key. A value that is `null` is one that is not there.
#[derive(Clone, Copy)]
pub(super) struct Object<'a> {
    value: &'a Value,
}

type Found<T> = Result<Option<T>, HuggingFaceError>;

impl<'a> Object<'a> {
    pub fn new(value: &'a Value) -> Object<'a> {
        Object { value }
    }

    pub fn value(self, key: &str) -> Option<&'a Value> {
        self.value.get(key).filter(|value| !value.is_null())
    }

    /// An integer from 0 to 2^32 - 1.
    pub fn integer(self, key: &str) -> Found<u32> {
        let read = |value: &Value| value.as_u64().and_then(|number| number.try_into().ok());
        self.typed(key, "an integer from 0 to 2^32 - 1", read)
    }

    pub fn number(self, key: &str) -> Found<f32> {
        let read = |value: &Value| value.as_f64().map(|number| number as f32);
        self.typed(key, "a number", read)
    }

    pub fn boolean(self, key: &str) -> Found<bool> {
        self.typed(key, "a boolean", Value::as_bool)
    }

    pub fn text(self, key: &str) -> Found<&'a str> {
        self.typed(key, "a string", Value::as_str)
    }

    pub fn object(self, key: &str) -> Found<Object<'a>> {
        let read = |value: &'a Value| value.is_object().then_some(Object { value });
        self.typed(key, "an object", read)
    }

    /// What must be there.
    pub fn require<T>(
        self,
        key: &str,
        read: impl FnOnce(Self, &str) -> Found<T>,
    ) -> Result<T, HuggingFaceError> {
        read(self, key)?.ok_or_else(|| HuggingFaceError::Missing(key.to_owned()))
    }

    fn typed<T>(
        self,
        key: &str,
        expected: &'static str,
        read: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Found<T> {
        let Some(value) = self.value(key) else {
            return Ok(None);
        };
        match read(value) {
            Some(found) => Ok(Some(found)),
            None => Err(HuggingFaceError::WrongType {
                key: key.to_owned(),
                expected,
            }),
        }
    }
}
