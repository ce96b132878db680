//! The header's sized structs, read and written by the rules of `native/bridge/base/structs.h`.

use std::ffi::{CStr, c_char, c_void};

use super::call::{Failure, Outcome, reported};
use crate::ffi;

/// An `IronLayout`, of which only the address matters here.
#[repr(C)]
pub(super) struct Layout([u8; 0]);

unsafe extern "C" {
    // native/bridge/base/structs.h
    fn IronStructReadOptional(
        local: *mut c_void,
        layout: *const Layout,
        given: *const c_void,
        argument: *const c_char,
    ) -> ffi::iron_status;
    fn IronStructClear(
        given: *mut c_void,
        layout: *const Layout,
        argument: *const c_char,
    ) -> ffi::iron_status;
    fn IronStructWrite(given: *mut c_void, layout: *const Layout, local: *const c_void);
}

/// A struct of the header that starts with its size.
///
/// # Safety
///
/// The layout is that of the type, and all zeros are a value of it.
pub(super) unsafe trait SizedStruct: Copy + Default {
    fn layout() -> *const Layout;
}

macro_rules! sized_structs {
    ($($type:ident = $layout:ident,)*) => {
        unsafe extern "C" {
            $(static $layout: Layout;)*
        }
        $(
            // SAFETY: native/bridge/base/layout.m makes it of the header, as bindgen makes the type.
            unsafe impl SizedStruct for ffi::$type {
                fn layout() -> *const Layout {
                    &raw const $layout
                }
            }
        )*
    };
}

sized_structs! {
    iron_model_file_info = IronLayout_iron_model_file_info,
    iron_load_options = IronLayout_iron_load_options,
    iron_model_info = IronLayout_iron_model_info,
    iron_layer_info = IronLayout_iron_layer_info,
    iron_tokenizer_info = IronLayout_iron_tokenizer_info,
    iron_chat_options = IronLayout_iron_chat_options,
    iron_session_options = IronLayout_iron_session_options,
    iron_session_info = IronLayout_iron_session_info,
    iron_perplexity = IronLayout_iron_perplexity,
    iron_perplexity_options = IronLayout_iron_perplexity_options,
    iron_sampler_options = IronLayout_iron_sampler_options,
    iron_generation_options = IronLayout_iron_generation_options,
    iron_piece = IronLayout_iron_piece,
    iron_generation_info = IronLayout_iron_generation_info,
    iron_quantize_options = IronLayout_iron_quantize_options,
    iron_quantize_report = IronLayout_iron_quantize_report,
}

/// The caller's options; all zeros for NULL.
///
/// # Safety
///
/// `given` is NULL or leads to as many bytes as its size says.
pub(super) unsafe fn read<T: SizedStruct>(given: *const T, argument: &'static CStr) -> Outcome<T> {
    let mut local = T::default();
    // SAFETY: `local` has the layout's length, and `given` is as the caller promises.
    reported(unsafe {
        IronStructReadOptional(
            (&raw mut local).cast(),
            T::layout(),
            given.cast(),
            argument.as_ptr(),
        )
    })?;
    Ok(local)
}

/// A struct of the caller's that is to be filled.
pub(super) struct Output<T: SizedStruct>(*mut T);

impl<T: SizedStruct> Output<T> {
    /// Checks it and zeroes all but its size.
    ///
    /// # Safety
    ///
    /// `given` is NULL or leads to as many bytes as its size says, until the last use of the result.
    pub unsafe fn clear(given: *mut T, argument: &'static CStr) -> Outcome<Output<T>> {
        // SAFETY: as the caller promises.
        reported(unsafe { IronStructClear(given.cast(), T::layout(), argument.as_ptr()) })?;
        Ok(Output(given))
    }

    /// The same for one that may be NULL.
    ///
    /// # Safety
    ///
    /// As [`clear`](Output::clear).
    pub unsafe fn clear_optional(
        given: *mut T,
        argument: &'static CStr,
    ) -> Outcome<Option<Output<T>>> {
        match given.is_null() {
            true => Ok(None),
            // SAFETY: as the caller promises.
            false => unsafe { Output::clear(given, argument) }.map(Some),
        }
    }

    /// Copies as much as the caller's struct has room for.
    pub fn write(&self, local: &T) {
        // SAFETY: it was checked, and lives as `clear` says.
        unsafe { IronStructWrite(self.0.cast(), T::layout(), (&raw const *local).cast()) }
    }
}

/// Checks a truth value among the fields of a struct.
pub(super) fn truth(field: &str, value: u32) -> Outcome<bool> {
    match value {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(Failure::invalid(format!(
            "{field}: is {other}, 0 and 1 are possible"
        ))),
    }
}

/// One of the constants of an enumeration, by its number.
pub(super) fn constant<T: Copy>(field: &str, values: &[T], number: u32) -> Outcome<T> {
    values.get(number as usize).copied().ok_or_else(|| {
        Failure::invalid(format!(
            "{field}: is {number}, 0 to {} are possible",
            values.len() - 1
        ))
    })
}

/// A limit where 0 is `default` and the largest number no limit.
pub(super) fn limit(field: &str, value: u64, default: usize) -> Outcome<usize> {
    match value {
        0 => Ok(default),
        u64::MAX => Ok(usize::MAX),
        other => usize::try_from(other)
            .map_err(|_| Failure::out_of_range(format!("{field}: {other} is too large"))),
    }
}

/// A number of which there is at least one, where 0 is the default.
pub(super) fn positive(field: &str, value: u64) -> Outcome<Option<usize>> {
    Ok(match limit(field, value, 0)? {
        0 => None,
        given => Some(given),
    })
}

/// Checks the `reserved` fields of a struct that has no size.
pub(super) fn reserved(argument: &str, words: &[u32]) -> Outcome {
    match words.iter().position(|word| *word != 0) {
        None => Ok(()),
        Some(index) => Err(Failure::invalid(format!(
            "{argument}: reserved[{index}] is {}, this library (ABI {}) knows no use of it: the struct was not zeroed, \
             or the header is newer",
            words[index],
            ffi::IRON_ABI_VERSION
        ))),
    }
}
