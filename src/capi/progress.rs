//! Progress callbacks.

use std::ffi::c_void;
use std::ops::ControlFlow;

use crate::ffi;

/// What a progress callback of the caller's says to each report.
pub(super) struct Progress {
    callback: ffi::iron_progress_callback,
    context: *mut c_void,
}

impl Progress {
    pub fn new(callback: ffi::iron_progress_callback, context: *mut c_void) -> Progress {
        Progress { callback, context }
    }

    /// Whether the call is to end.
    pub fn report(&self, done: u64, total: u64) -> ControlFlow<()> {
        // SAFETY: the callback is the caller's, and so is the context that it gets.
        let answer = self
            .callback
            .map(|callback| unsafe { callback(done, total, self.context) });
        match answer.unwrap_or(0) {
            0 => ControlFlow::Continue(()),
            _ => ControlFlow::Break(()),
        }
    }
}
