//! Typed metadata values.

use std::fmt;

use super::cursor::Cursor;
use super::error::{GgufError, GgufErrorKind};
use super::header::limits;

/// The type of a metadata value. The numbers are the format's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names say it")]
pub enum ValueType {
    U8 = 0,
    I8 = 1,
    U16 = 2,
    I16 = 3,
    U32 = 4,
    I32 = 5,
    F32 = 6,
    Bool = 7,
    String = 8,
    Array = 9,
    U64 = 10,
    I64 = 11,
    F64 = 12,
}

impl ValueType {
    const ALL: [ValueType; 13] = [
        ValueType::U8,
        ValueType::I8,
        ValueType::U16,
        ValueType::I16,
        ValueType::U32,
        ValueType::I32,
        ValueType::F32,
        ValueType::Bool,
        ValueType::String,
        ValueType::Array,
        ValueType::U64,
        ValueType::I64,
        ValueType::F64,
    ];

    fn from_number(number: u32) -> Option<ValueType> {
        ValueType::ALL.get(number as usize).copied()
    }

    /// The fewest bytes that a value takes in the file.
    fn smallest(self) -> u64 {
        match self {
            ValueType::U8 | ValueType::I8 | ValueType::Bool => 1,
            ValueType::U16 | ValueType::I16 => 2,
            ValueType::U32 | ValueType::I32 | ValueType::F32 => 4,
            ValueType::U64 | ValueType::I64 | ValueType::F64 => 8,
            ValueType::String => 8,    // its length
            ValueType::Array => 4 + 8, // its type and length
        }
    }

    pub(super) fn read(cursor: &mut Cursor) -> Result<ValueType, GgufError> {
        let offset = cursor.position();
        let number = cursor.u32("value type")?;
        let kind = GgufErrorKind::UnknownValueType(number);
        ValueType::from_number(number).ok_or(GgufError { offset, kind })
    }
}

impl fmt::Display for ValueType {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        let name = match self {
            ValueType::U8 => "u8",
            ValueType::I8 => "i8",
            ValueType::U16 => "u16",
            ValueType::I16 => "i16",
            ValueType::U32 => "u32",
            ValueType::I32 => "i32",
            ValueType::F32 => "f32",
            ValueType::Bool => "bool",
            ValueType::String => "string",
            ValueType::Array => "array",
            ValueType::U64 => "u64",
            ValueType::I64 => "i64",
            ValueType::F64 => "f64",
        };
        formatter.write_str(name)
    }
}

/// A metadata value. Strings are the file's bytes: the format asks for UTF-8, writers do not always keep to it.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Value {
    U8(u8),
    I8(i8),
    U16(u16),
    I16(i16),
    U32(u32),
    I32(i32),
    F32(f32),
    Bool(bool),
    String(Box<[u8]>),
    Array(Array),
    U64(u64),
    I64(i64),
    F64(f64),
}

/// An array of metadata values of one type.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Array {
    U8(Vec<u8>),
    I8(Vec<i8>),
    U16(Vec<u16>),
    I16(Vec<i16>),
    U32(Vec<u32>),
    I32(Vec<i32>),
    F32(Vec<f32>),
    Bool(Vec<bool>),
    String(Vec<Box<[u8]>>),
    Array(Vec<Array>),
    U64(Vec<u64>),
    I64(Vec<i64>),
    F64(Vec<f64>),
}

impl Value {
    /// The type, as the file states it.
    pub fn value_type(&self) -> ValueType {
        match self {
            Value::U8(_) => ValueType::U8,
            Value::I8(_) => ValueType::I8,
            Value::U16(_) => ValueType::U16,
            Value::I16(_) => ValueType::I16,
            Value::U32(_) => ValueType::U32,
            Value::I32(_) => ValueType::I32,
            Value::F32(_) => ValueType::F32,
            Value::Bool(_) => ValueType::Bool,
            Value::String(_) => ValueType::String,
            Value::Array(_) => ValueType::Array,
            Value::U64(_) => ValueType::U64,
            Value::I64(_) => ValueType::I64,
            Value::F64(_) => ValueType::F64,
        }
    }

    /// An integer of any type that is not negative.
    pub fn as_u64(&self) -> Option<u64> {
        match *self {
            Value::U8(value) => Some(value.into()),
            Value::U16(value) => Some(value.into()),
            Value::U32(value) => Some(value.into()),
            Value::U64(value) => Some(value),
            Value::I8(value) => value.try_into().ok(),
            Value::I16(value) => value.try_into().ok(),
            Value::I32(value) => value.try_into().ok(),
            Value::I64(value) => value.try_into().ok(),
            _ => None,
        }
    }

    /// A float of either width.
    pub fn as_f64(&self) -> Option<f64> {
        match *self {
            Value::F32(value) => Some(value.into()),
            Value::F64(value) => Some(value),
            _ => None,
        }
    }

    /// A boolean.
    pub fn as_bool(&self) -> Option<bool> {
        match *self {
            Value::Bool(value) => Some(value),
            _ => None,
        }
    }

    /// A string that is UTF-8.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::String(bytes) => std::str::from_utf8(bytes).ok(),
            _ => None,
        }
    }

    /// An array.
    pub fn as_array(&self) -> Option<&Array> {
        match self {
            Value::Array(array) => Some(array),
            _ => None,
        }
    }

    pub(super) fn read(cursor: &mut Cursor) -> Result<Value, GgufError> {
        Ok(match ValueType::read(cursor)? {
            ValueType::U8 => Value::U8(u8::from_le_bytes(cursor.array("value")?)),
            ValueType::I8 => Value::I8(i8::from_le_bytes(cursor.array("value")?)),
            ValueType::U16 => Value::U16(u16::from_le_bytes(cursor.array("value")?)),
            ValueType::I16 => Value::I16(i16::from_le_bytes(cursor.array("value")?)),
            ValueType::U32 => Value::U32(u32::from_le_bytes(cursor.array("value")?)),
            ValueType::I32 => Value::I32(i32::from_le_bytes(cursor.array("value")?)),
            ValueType::F32 => Value::F32(f32::from_le_bytes(cursor.array("value")?)),
            ValueType::U64 => Value::U64(u64::from_le_bytes(cursor.array("value")?)),
            ValueType::I64 => Value::I64(i64::from_le_bytes(cursor.array("value")?)),
            ValueType::F64 => Value::F64(f64::from_le_bytes(cursor.array("value")?)),
            ValueType::Bool => Value::Bool(boolean(cursor)?),
            ValueType::String => Value::String(cursor.string("string", limits::STRING)?.into()),
            ValueType::Array => Value::Array(Array::read(cursor, 1)?),
        })
    }
}

macro_rules! values {
    ($($from:ty => |$value:ident| $result:expr),* $(,)?) => {$(
        impl From<$from> for Value {
            fn from($value: $from) -> Value {
                $result
            }
        }
    )*};
}
values! {
    u32 => |value| Value::U32(value),
    u64 => |value| Value::U64(value),
    i32 => |value| Value::I32(value),
    f32 => |value| Value::F32(value),
    bool => |value| Value::Bool(value),
    &str => |value| Value::String(value.as_bytes().into()),
    String => |value| Value::String(value.into_bytes().into()),
    Array => |value| Value::Array(value),
    Vec<f32> => |value| Value::Array(Array::F32(value)),
    Vec<i32> => |value| Value::Array(Array::I32(value)),
    Vec<Box<[u8]>> => |value| Value::Array(Array::String(value)),
}

impl Array {
    /// The type of the elements.
    pub fn element_type(&self) -> ValueType {
        match self {
            Array::U8(_) => ValueType::U8,
            Array::I8(_) => ValueType::I8,
            Array::U16(_) => ValueType::U16,
            Array::I16(_) => ValueType::I16,
            Array::U32(_) => ValueType::U32,
            Array::I32(_) => ValueType::I32,
            Array::F32(_) => ValueType::F32,
            Array::Bool(_) => ValueType::Bool,
            Array::String(_) => ValueType::String,
            Array::Array(_) => ValueType::Array,
            Array::U64(_) => ValueType::U64,
            Array::I64(_) => ValueType::I64,
            Array::F64(_) => ValueType::F64,
        }
    }

    /// How many elements there are.
    pub fn len(&self) -> usize {
        match self {
            Array::U8(items) => items.len(),
            Array::I8(items) => items.len(),
            Array::U16(items) => items.len(),
            Array::I16(items) => items.len(),
            Array::U32(items) => items.len(),
            Array::I32(items) => items.len(),
            Array::F32(items) => items.len(),
            Array::Bool(items) => items.len(),
            Array::String(items) => items.len(),
            Array::Array(items) => items.len(),
            Array::U64(items) => items.len(),
            Array::I64(items) => items.len(),
            Array::F64(items) => items.len(),
        }
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// `depth` counts from 1 for an array that is itself a value.
    fn read(cursor: &mut Cursor, depth: u32) -> Result<Array, GgufError> {
        let start = cursor.position();
        let kind = ValueType::read(cursor)?;
        if depth > limits::NESTING {
            let kind = GgufErrorKind::Nesting(kind, limits::NESTING);
            return Err(GgufError {
                offset: start,
                kind,
            });
        }
        let count = cursor.count("array's length", kind.smallest(), limits::ARRAY)?;
        Ok(match kind {
            ValueType::U8 => Array::U8(cursor.numbers(count, u8::from_le_bytes)?),
            ValueType::I8 => Array::I8(cursor.numbers(count, i8::from_le_bytes)?),
            ValueType::U16 => Array::U16(cursor.numbers(count, u16::from_le_bytes)?),
            ValueType::I16 => Array::I16(cursor.numbers(count, i16::from_le_bytes)?),
            ValueType::U32 => Array::U32(cursor.numbers(count, u32::from_le_bytes)?),
            ValueType::I32 => Array::I32(cursor.numbers(count, i32::from_le_bytes)?),
            ValueType::F32 => Array::F32(cursor.numbers(count, f32::from_le_bytes)?),
            ValueType::U64 => Array::U64(cursor.numbers(count, u64::from_le_bytes)?),
            ValueType::I64 => Array::I64(cursor.numbers(count, i64::from_le_bytes)?),
            ValueType::F64 => Array::F64(cursor.numbers(count, f64::from_le_bytes)?),
            ValueType::Bool => Array::Bool(
                (0..count)
                    .map(|_| boolean(cursor))
                    .collect::<Result<_, _>>()?,
            ),
            ValueType::String => {
                let string = |_| Ok(cursor.string("string", limits::STRING)?.into());
                Array::String((0..count).map(string).collect::<Result<_, GgufError>>()?)
            }
            ValueType::Array => {
                let array = |_| Array::read(cursor, depth + 1);
                Array::Array((0..count).map(array).collect::<Result<_, _>>()?)
            }
        })
    }
}

fn boolean(cursor: &mut Cursor) -> Result<bool, GgufError> {
    let offset = cursor.position();
    match cursor.array("boolean")? {
        [0] => Ok(false),
        [1] => Ok(true),
        [other] => Err(GgufError {
            offset,
            kind: GgufErrorKind::Boolean(other),
        }),
    }
}
