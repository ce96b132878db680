//! Where in the caller's source a call comes from, for memory reports and the trace.

use std::panic::Location;

use crate::ffi;

/// Tells the bridge where this thread's next call comes from: the caller of the function that calls this, when that is
/// `#[track_caller]`.
#[track_caller]
pub(crate) fn note_caller() {
    let place = Location::caller();
    let file = place.file();
    // SAFETY: the text is static and as long as stated.
    unsafe { ffi::iron_source(file.as_ptr().cast(), file.len(), place.line()) };
}
