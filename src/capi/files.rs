//! `iron_model_file`.

use std::ffi::{CString, c_char, c_void};

use serde_json::{Number, Value as Json};

use super::arguments::{Room, c_string, path, string};
use super::call::{Failure, enter};
use super::handle::{Place, acquire, handled, references};
use super::structs::Output;
use crate::error::Status;
use crate::ffi;
use crate::llama::gguf::{Array, Value};
use crate::llama::{ModelFile, ModelFormat};

/// An open file, and the names of its tensors as C wants them.
pub struct OpenFile {
    pub(super) file: ModelFile,
    /// Each tensor's name, and its name in the file.
    names: Vec<[CString; 2]>,
}

handled!(iron_model_file, c"file", OpenFile);
references!(
    iron_model_file,
    iron_model_file_retain,
    iron_model_file_release
);

#[unsafe(no_mangle)]
pub unsafe extern "C" fn iron_model_file_open(
    path: *const c_char,
    file: *mut *mut ffi::iron_model_file,
) -> ffi::iron_status {
    enter(c"iron_model_file_open", || {
        // SAFETY: the caller's pointers, as the header asks.
        let (place, path) = unsafe { (Place::clear(file, "file")?, self::path(path, "path")?) };
        let file = ModelFile::open(path)?;
        let tensors = file.tensors().iter();
        let names = tensors.map(|it| [it.name(), it.stored_name()].map(c_string));
        place.fill(OpenFile {
            names: names.collect(),
            file,
        })
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn iron_model_file_describe(
    file: *mut ffi::iron_model_file,
    info: *mut ffi::iron_model_file_info,
) -> ffi::iron_status {
    enter(c"iron_model_file_describe", || {
        // SAFETY: the caller's pointer, as the header asks.
        let info = unsafe { Output::clear(info, c"info") }?;
        let file = &acquire(file)?.file;
        let (format, version) = match file.format() {
            ModelFormat::Gguf(version) => (ffi::IRON_FORMAT_GGUF, version),
            ModelFormat::HuggingFace => (ffi::IRON_FORMAT_HUGGING_FACE, 0),
        };
        let bytes = file.tensors().iter().map(|tensor| tensor.byte_length());
        info.write(&ffi::iron_model_file_info {
            format,
            version,
            tensors: file.tensors().len() as u64,
            metadata: file.metadata().iter().len() as u64,
            tensor_bytes: bytes.sum(),
            ..Default::default()
        });
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn iron_model_file_metadata(
    file: *mut ffi::iron_model_file,
    key: *const c_char,
    json: *mut c_char,
    capacity: usize,
    length: *mut usize,
) -> ffi::iron_status {
    enter(c"iron_model_file_metadata", || {
        // SAFETY: the caller's pointers, as the header asks.
        let room = unsafe { Room::new((json, capacity), "json", (length, "length")) }?;
        let file = acquire(file)?;
        // SAFETY: the caller's pointer, as the header asks.
        let key = unsafe { string(key, "key") }?;
        let value = file.file.metadata().value(key).ok_or_else(|| {
            Failure::new(Status::NotFound, format!("key: the file has no {key:?}"))
        })?;
        room.write_text(json_of(value).to_string().as_bytes())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn iron_model_file_keys(
    file: *mut ffi::iron_model_file,
    visit: ffi::iron_key_callback,
    context: *mut c_void,
) -> ffi::iron_status {
    enter(c"iron_model_file_keys", || {
        let file = acquire(file)?;
        let visit = visit.ok_or_else(|| Failure::invalid("visit: is NULL"))?;
        for (key, _) in file.file.metadata().iter() {
            let text = [key.as_bytes(), b"\0"].concat();
            // SAFETY: the callback is the caller's, and gets a text of that length with a NUL behind it.
            unsafe { visit(text.as_ptr().cast(), key.len(), context) };
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn iron_model_file_tensors(
    file: *mut ffi::iron_model_file,
    visit: ffi::iron_model_tensor_callback,
    context: *mut c_void,
) -> ffi::iron_status {
    enter(c"iron_model_file_tensors", || {
        let file = acquire(file)?;
        let visit = visit.ok_or_else(|| Failure::invalid("visit: is NULL"))?;
        for (tensor, [name, stored_name]) in file.file.tensors().iter().zip(&file.names) {
            let kind = c_string(tensor.tensor_type().name());
            let native = ffi::iron_model_tensor {
                size: size_of::<ffi::iron_model_tensor>(),
                name: name.as_ptr(),
                stored_name: stored_name.as_ptr(),
                type_: kind.as_ptr(),
                dimensions: tensor.dimensions().as_ptr(),
                dimension_count: tensor.dimensions().len(),
                elements: tensor.elements(),
                bytes: file.file.bytes(tensor).as_ptr().cast(),
                byte_length: tensor.byte_length(),
            };
            // SAFETY: the callback is the caller's, and all that the struct leads to lives through its call.
            unsafe { visit(&native, context) };
        }
        Ok(())
    })
}

fn json_of(value: &Value) -> Json {
    match value {
        Value::U8(number) => (*number).into(),
        Value::I8(number) => (*number).into(),
        Value::U16(number) => (*number).into(),
        Value::I16(number) => (*number).into(),
        Value::U32(number) => (*number).into(),
        Value::I32(number) => (*number).into(),
        Value::F32(number) => json_of_float(*number),
        Value::Bool(truth) => (*truth).into(),
        Value::String(bytes) => String::from_utf8_lossy(bytes).into(),
        Value::Array(array) => json_of_array(array),
        Value::U64(number) => (*number).into(),
        Value::I64(number) => (*number).into(),
        Value::F64(number) => Number::from_f64(*number).map_or(Json::Null, Json::Number),
    }
}

/// With as few digits as tell the number from others of its type.
fn json_of_float(number: f32) -> Json {
    let shortest = number.to_string().parse().ok();
    let number = shortest.and_then(Number::from_f64);
    number.map_or(Json::Null, Json::Number)
}

fn json_of_array(array: &Array) -> Json {
    match array {
        Array::U8(values) => values.iter().copied().collect(),
        Array::I8(values) => values.iter().copied().collect(),
        Array::U16(values) => values.iter().copied().collect(),
        Array::I16(values) => values.iter().copied().collect(),
        Array::U32(values) => values.iter().copied().collect(),
        Array::I32(values) => values.iter().copied().collect(),
        Array::F32(values) => values.iter().copied().map(json_of_float).collect(),
        Array::Bool(values) => values.iter().copied().collect(),
        Array::String(values) => {
            let texts = values.iter().map(|bytes| String::from_utf8_lossy(bytes));
            texts.map(Json::from).collect()
        }
        Array::Array(values) => values.iter().map(json_of_array).collect(),
        Array::U64(values) => values.iter().copied().collect(),
        Array::I64(values) => values.iter().copied().collect(),
        Array::F64(values) => {
            let numbers = values.iter().map(|number| Number::from_f64(*number));
            numbers
                .map(|number| number.map_or(Json::Null, Json::Number))
                .collect()
        }
    }
}
