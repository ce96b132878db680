//! `iron_quantize`.

use std::ffi::{CString, c_char, c_void};
use std::ops::ControlFlow;
use std::sync::LazyLock;

use super::arguments::{Room, Value, array, c_string, optional_string, path, string};
use super::call::{Failure, Outcome, enter};
use super::handle::{acquire, acquire_optional};
use super::progress::Progress;
use super::structs::{self, Output, reserved, truth};
use crate::ffi;
use crate::llama::gguf::TensorType;
use crate::llama::{CancelToken, ImportanceMatrix, QuantizeMix, Quantizer, quantize};

/// The type of tensors of that name.
fn tensor_type(name: &str, argument: &str) -> Outcome<TensorType> {
    let mut all = TensorType::ALL.iter().copied();
    all.find(|known| known.name().eq_ignore_ascii_case(name))
        .ok_or_else(|| Failure::invalid(format!("{argument}: no type is called {name:?}")))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn iron_quantize_type(
    index: u32,
    kind: *mut *const c_char,
) -> ffi::iron_status {
    static NAMES: LazyLock<Vec<CString>> = LazyLock::new(|| {
        let types = Quantizer::TYPES.iter().map(|it| it.name());
        let mixes = QuantizeMix::ALL.iter().map(|mix| mix.name());
        types.chain(mixes).map(c_string).collect()
    });
    enter(c"iron_quantize_type", || {
        // SAFETY: the caller's pointer, as the header asks.
        let place = unsafe { Value::clear(kind, "type") }?;
        let name = NAMES.get(index as usize).ok_or_else(|| {
            Failure::out_of_range(format!("index: {index}, there are {} types", NAMES.len()))
        })?;
        place.set(name.as_ptr());
        Ok(())
    })
}

/// That of a type or of a mix.
fn quantizer_of(name: &str) -> Result<Quantizer, Failure> {
    match QuantizeMix::ALL.iter().find(|mix| mix.name() == name) {
        Some(mix) => Ok(Quantizer::mix(*mix)),
        None => Ok(Quantizer::new(tensor_type(name, "options.type")?)?),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn iron_quantize_file(
    file: *mut ffi::iron_model_file,
    path: *const c_char,
    options: *const ffi::iron_quantize_options,
    report: *mut ffi::iron_quantize_report,
) -> ffi::iron_status {
    enter(c"iron_quantize_file", || {
        // SAFETY: the caller's pointer, as the header asks.
        let output = unsafe { Output::clear_optional(report, c"report") }?;
        let file = acquire(file)?;
        // SAFETY: as above.
        let path = unsafe { self::path(path, "path") }?;
        // SAFETY: as above.
        let given = unsafe { structs::read(options, c"options") }?;
        // SAFETY: as above.
        let quantizer = match unsafe { optional_string(given.type_, "options.type") }? {
            Some(name) => quantizer_of(name)?,
            None => Quantizer::new(TensorType::Q8_0)?,
        };
        // A callback ends the call as the caller's own token does, which must not be set for it.
        let cancel = acquire_optional(given.cancel, c"options.cancel")?;
        let (theirs, ours) = (cancel.as_deref(), CancelToken::new());
        let mut quantizer = quantizer
            .overwrite(truth("options.overwrite", given.overwrite)?)
            .cancel(ours.clone());
        if given.threads > 0 {
            quantizer = quantizer.threads(given.threads as usize);
        }
        // SAFETY: as above.
        let tensors = unsafe { array(given.tensors, given.tensor_count, "options.tensors") }?;
        for (place, tensor) in tensors.iter().enumerate() {
            let argument = format!("options.tensors[{place}]");
            reserved(&argument, &tensor.reserved)?;
            // SAFETY: as above.
            let name = unsafe { string(tensor.tensor, &format!("{argument}.tensor")) }?;
            // SAFETY: as above.
            let kind = unsafe { string(tensor.type_, &format!("{argument}.type")) }?;
            quantizer = quantizer.tensor(name, tensor_type(kind, &format!("{argument}.type"))?)?;
        }
        if !given.importance.is_null() {
            // SAFETY: as above.
            let path = unsafe { self::path(given.importance, "options.importance") }?;
            quantizer = quantizer.importance(ImportanceMatrix::open(path)?);
        }
        let progress = Progress::new(given.progress, given.progress_context);
        let is_set = || theirs.is_some_and(CancelToken::is_cancelled);
        if is_set() {
            ours.cancel();
        }
        let report = quantizer.write(&file.file, path, &mut |written| {
            let answer = progress.report(written.done, written.total);
            if answer == ControlFlow::Break(()) || is_set() {
                ours.cancel();
            }
        })?;
        if let Some(output) = output {
            output.write(&ffi::iron_quantize_report {
                size: 0,
                tensors: report.tensors.len() as u64,
                bytes_before: report.bytes_before,
                bytes_after: report.bytes_after,
                without_importance: report.without_importance.len() as u64,
            });
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn iron_quantize(
    kind: *const c_char,
    numbers: *const f32,
    count: usize,
    bytes: *mut c_void,
    capacity: usize,
    length: *mut usize,
) -> ffi::iron_status {
    enter(c"iron_quantize", || {
        // SAFETY: the caller's pointers, as the header asks.
        let room =
            unsafe { Room::new((bytes.cast::<u8>(), capacity), "bytes", (length, "length")) }?;
        // SAFETY: as above.
        let kind = tensor_type(unsafe { string(kind, "type") }?, "type")?;
        // SAFETY: as above.
        let numbers = unsafe { array(numbers, count, "numbers") }?;
        room.write(&quantize(kind, numbers)?)
    })
}
