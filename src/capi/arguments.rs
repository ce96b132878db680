//! Arrays, texts and places of the caller's.

use std::ffi::{CStr, CString, c_char};
use std::path::Path;
use std::slice;
use std::str;

use super::call::{Failure, Outcome};

/// `count` values of the caller's.
///
/// # Safety
///
/// `values` is NULL or leads to as many, which nobody changes while the result is used.
pub(super) unsafe fn array<'a, T>(
    values: *const T,
    count: usize,
    argument: &str,
) -> Outcome<&'a [T]> {
    match (values.is_null(), count) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(Failure::invalid(format!("{argument}: is NULL"))),
        _ if !values.is_aligned() || count > isize::MAX as usize / size_of::<T>() => Err(
            Failure::invalid(format!("{argument}: {count} values cannot be there")),
        ),
        // SAFETY: it is aligned, no longer than an object can be, and as the caller promises.
        _ => Ok(unsafe { slice::from_raw_parts(values, count) }),
    }
}

/// Tokens of the caller's, at least one.
///
/// # Safety
///
/// As [`array`].
pub(super) unsafe fn some_tokens<'a>(
    tokens: *const u32,
    count: usize,
    argument: &str,
) -> Outcome<&'a [u32]> {
    match count {
        0 => Err(Failure::invalid(format!("{argument}: there are none"))),
        // SAFETY: as the caller promises.
        _ => unsafe { array(tokens, count, argument) },
    }
}

/// A text with a length.
///
/// # Safety
///
/// As [`array`].
pub(super) unsafe fn text<'a>(
    bytes: *const c_char,
    length: usize,
    argument: &str,
) -> Outcome<&'a str> {
    // SAFETY: as the caller promises.
    let bytes = unsafe { array(bytes.cast::<u8>(), length, argument) }?;
    str::from_utf8(bytes).map_err(|error| not_utf8(argument, &error))
}

/// A text that ends with a NUL; `None` for NULL.
///
/// # Safety
///
/// `text` is NULL or ends with a NUL, and nobody changes it while the result is used.
pub(super) unsafe fn optional_string<'a>(
    text: *const c_char,
    argument: &str,
) -> Outcome<Option<&'a str>> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: as the caller promises.
    let text = unsafe { CStr::from_ptr(text) };
    let text = text.to_str().map_err(|error| not_utf8(argument, &error))?;
    Ok(Some(text))
}

/// The same where NULL is an error.
///
/// # Safety
///
/// As [`optional_string`].
pub(super) unsafe fn string<'a>(text: *const c_char, argument: &str) -> Outcome<&'a str> {
    // SAFETY: as the caller promises.
    unsafe { optional_string(text, argument) }?
        .ok_or_else(|| Failure::invalid(format!("{argument}: is NULL")))
}

/// A path, which need not be UTF-8.
///
/// # Safety
///
/// As [`optional_string`].
pub(super) unsafe fn path<'a>(path: *const c_char, argument: &str) -> Outcome<&'a Path> {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    if path.is_null() {
        return Err(Failure::invalid(format!("{argument}: is NULL")));
    }
    // SAFETY: as the caller promises.
    let bytes = unsafe { CStr::from_ptr(path) }.to_bytes();
    if bytes.is_empty() {
        return Err(Failure::invalid(format!("{argument}: is empty")));
    }
    Ok(Path::new(OsStr::from_bytes(bytes)))
}

/// A NUL ends what C sees of a text.
pub(super) fn c_string(text: &str) -> CString {
    let end = text.find('\0').unwrap_or(text.len());
    CString::new(&text[..end]).unwrap_or_default()
}

fn not_utf8(argument: &str, error: &str::Utf8Error) -> Failure {
    let place = error.valid_up_to();
    Failure::invalid(format!("{argument}: is not UTF-8 from byte {place} on"))
}

/// A place for one value, set to its default.
pub(super) struct Value<T>(*mut T);

impl<T: Default> Value<T> {
    /// # Safety
    ///
    /// `place` is NULL or may be written until the last use of the result.
    pub unsafe fn clear(place: *mut T, argument: &str) -> Outcome<Value<T>> {
        if place.is_null() {
            return Err(Failure::invalid(format!("{argument}: is NULL")));
        }
        // SAFETY: it may be written.
        unsafe { place.write(T::default()) };
        Ok(Value(place))
    }

    pub fn set(&self, value: T) {
        // SAFETY: `clear` says so.
        unsafe { self.0.write(value) };
    }
}

/// A place for a result of unknown length: all of it or nothing is written.
pub(super) struct Room<T> {
    values: *mut T,
    capacity: usize,
    argument: &'static str,
    count: Value<usize>,
}

impl<T: Copy> Room<T> {
    /// `argument` and `counts` are the names of the two places.
    ///
    /// # Safety
    ///
    /// `values` is NULL or has room for `capacity`; `count` is NULL or may be written; both until the last use of the
    /// result.
    pub unsafe fn new(
        (values, capacity): (*mut T, usize),
        argument: &'static str,
        (count, counts): (*mut usize, &'static str),
    ) -> Outcome<Room<T>> {
        // SAFETY: as the caller promises.
        let count = unsafe { Value::clear(count, counts) }?;
        if values.is_null() && capacity > 0 {
            return Err(Failure::invalid(format!("{argument}: is NULL")));
        }
        if !values.is_aligned() {
            return Err(Failure::invalid(format!("{argument}: is not aligned")));
        }
        Ok(Room {
            values,
            capacity,
            argument,
            count,
        })
    }

    /// Whether only the length is asked for.
    pub fn only_counts(&self) -> bool {
        self.capacity == 0
    }

    /// Gives the length, and says whether there is room for that many values: before they are computed.
    pub fn reserve(&self, count: usize) -> Outcome {
        if self.capacity > 0 && count > self.capacity {
            return Err(Failure::out_of_range(format!(
                "{}: there is room for {}, and {count} are needed",
                self.argument, self.capacity
            )));
        }
        self.count.set(count);
        Ok(())
    }

    pub fn write(&self, values: &[T]) -> Outcome {
        self.reserve(values.len())?;
        if self.capacity > 0 {
            // SAFETY: there is room for that many, and what is there is no part of what Rust made.
            unsafe {
                self.values
                    .copy_from_nonoverlapping(values.as_ptr(), values.len())
            };
        }
        Ok(())
    }
}

impl Room<c_char> {
    /// Writes a text and a NUL behind it. The length does not count that.
    pub fn write_text(&self, text: &[u8]) -> Outcome {
        if self.capacity > 0 && text.len() >= self.capacity {
            return Err(Failure::out_of_range(format!(
                "{}: there is room for {}, and {} are needed, one of them for the NUL",
                self.argument,
                self.capacity,
                text.len() + 1
            )));
        }
        self.count.set(text.len());
        if self.capacity > 0 {
            // SAFETY: there is room for the text and one more, and what is there is no part of what Rust made.
            unsafe {
                self.values
                    .cast::<u8>()
                    .copy_from_nonoverlapping(text.as_ptr(), text.len());
                self.values.add(text.len()).write(0);
            }
        }
        Ok(())
    }
}
