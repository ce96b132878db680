//! How every C function in Rust begins and ends.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::ffi::{CStr, c_char};
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind, set_hook, take_hook};
use std::sync::Once;

use crate::error::Status;
use crate::ffi;

/// Why a C function fails.
pub(super) struct Failure {
    status: Status,
    /// `None`: the bridge has kept its own.
    message: Option<String>,
}

pub(super) type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    pub fn new(status: Status, message: impl Into<String>) -> Failure {
        Failure {
            status,
            message: Some(message.into()),
        }
    }

    /// What a function of `native/bridge/base` returned, which has reported it.
    pub fn reported(status: ffi::iron_status) -> Failure {
        Failure {
            status: Status::from_native(status),
            message: None,
        }
    }

    pub fn invalid(message: impl Into<String>) -> Failure {
        Failure::new(Status::InvalidArgument, message)
    }

    pub fn out_of_range(message: impl Into<String>) -> Failure {
        Failure::new(Status::OutOfRange, message)
    }
}

/// The status of what a function of `native/bridge/base` returned.
pub(super) fn reported(status: ffi::iron_status) -> Outcome {
    match status {
        ffi::IRON_OK => Ok(()),
        other => Err(Failure::reported(other)),
    }
}

unsafe extern "C" {
    // native/bridge/base/rust_object.h
    fn IronRustEnter(function: *const c_char);
    fn IronRustReport(
        function: *const c_char,
        status: ffi::iron_status,
        text: *const c_char,
        length: usize,
    ) -> ffi::iron_status;
}

/// Runs the body of the C function of that name. A panic is a bug and becomes `IRON_ERROR_INTERNAL`; nothing is
/// printed.
pub(super) fn enter(function: &'static CStr, body: impl FnOnce() -> Outcome) -> ffi::iron_status {
    silence_panics();
    // SAFETY: the name is static.
    unsafe { IronRustEnter(function.as_ptr()) };
    let before = INSIDE.replace(true);
    // A handle whose call panicked is poisoned: see `handle::Exclusive`.
    let outcome = catch_unwind(AssertUnwindSafe(body));
    INSIDE.set(before);
    let failure = match outcome {
        Ok(Ok(())) => return ffi::IRON_OK,
        Ok(Err(failure)) => failure,
        Err(panic) => Failure::new(Status::Internal, describe(&*panic)),
    };
    let status = failure.status.native();
    match failure.message {
        None => status,
        // SAFETY: the text has the length that is stated, and the name is static.
        Some(text) => unsafe {
            IronRustReport(function.as_ptr(), status, text.as_ptr().cast(), text.len())
        },
    }
}

/// Runs what no error can be reported of: a destructor.
pub(super) fn without_unwinding(body: impl FnOnce()) {
    silence_panics();
    let before = INSIDE.replace(true);
    let _ = catch_unwind(AssertUnwindSafe(body));
    INSIDE.set(before);
}

thread_local! {
    /// Whether this thread runs the body of a C function.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
    /// Where its last panic was.
    static PLACE: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Panics inside C functions are reported as errors, and all others as before.
fn silence_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |panic: &PanicHookInfo| match INSIDE.get() {
            true => PLACE.set(
                panic
                    .location()
                    .map(ToString::to_string)
                    .unwrap_or_default(),
            ),
            false => before(panic),
        }));
    });
}

fn describe(panic: &(dyn Any + Send)) -> String {
    let text = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let text = text.unwrap_or("a panic without a text");
    format!("{text} ({})", PLACE.take())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn last_error() -> String {
        // SAFETY: never NULL, NUL-terminated, valid until this thread's next failing call.
        let text = unsafe { CStr::from_ptr(ffi::iron_last_error()) };
        text.to_string_lossy().into_owned()
    }

    #[test]
    fn a_panic_is_an_internal_error_with_its_place() {
        let status = enter(c"iron_test", || panic!("the {}", "reason"));
        assert_eq!(status, ffi::IRON_ERROR_INTERNAL);
        let message = last_error();
        assert!(message.starts_with("iron_test: the reason ("), "{message}");
        assert!(message.contains("src/capi/call.rs:"), "{message}");
    }

    #[test]
    fn a_failure_names_the_function() {
        let status = enter(c"iron_test", || Err(Failure::invalid("x: 100 % wrong")));
        assert_eq!(status, ffi::IRON_ERROR_INVALID_ARGUMENT);
        assert_eq!(last_error(), "iron_test: x: 100 % wrong");
    }
}
