//! The one owner of a reference of the C ABI.

use std::panic::Location;
use std::ptr::NonNull;
use std::{fmt, ptr};

use crate::error::{Error, Result, Status, check};
use crate::ffi;

/// A kind of C handle.
pub(crate) trait Object: Sized {
    /// Gives one reference back.
    const RELEASE: unsafe extern "C" fn(*mut Self) -> ffi::iron_status;
}

impl Object for ffi::iron_device {
    const RELEASE: unsafe extern "C" fn(*mut Self) -> ffi::iron_status = ffi::iron_device_release;
}
impl Object for ffi::iron_buffer {
    const RELEASE: unsafe extern "C" fn(*mut Self) -> ffi::iron_status = ffi::iron_buffer_release;
}
impl Object for ffi::iron_commands {
    const RELEASE: unsafe extern "C" fn(*mut Self) -> ffi::iron_status = ffi::iron_commands_release;
}
impl Object for ffi::iron_library {
    const RELEASE: unsafe extern "C" fn(*mut Self) -> ffi::iron_status = ffi::iron_library_release;
}
impl Object for ffi::iron_kernel {
    const RELEASE: unsafe extern "C" fn(*mut Self) -> ffi::iron_status = ffi::iron_kernel_release;
}

/// Owns one reference and gives it back on drop, which is the only place where Rust releases anything.
///
/// The pointer is a ticket and never followed on this side of the bridge.
pub(crate) struct Handle<H: Object>(NonNull<H>);

impl<H: Object> Handle<H> {
    /// Takes over the reference that the C function `call` stores through its out-parameter.
    pub(crate) fn create(
        call: &'static str,
        create: impl FnOnce(*mut *mut H) -> ffi::iron_status,
    ) -> Result<Self> {
        let mut pointer = ptr::null_mut();
        check(call, create(&mut pointer))?;
        NonNull::new(pointer).map(Handle).ok_or_else(|| {
            Error::new(
                call,
                Status::Internal,
                format!("{call} succeeded without a handle"),
            )
        })
    }

    /// For the arguments of C functions, which take no reference over.
    pub(crate) fn as_ptr(&self) -> *mut H {
        self.0.as_ptr()
    }
}

impl<H: Object> Drop for Handle<H> {
    fn drop(&mut self) {
        // SAFETY: `self` owns the reference and ends with this call, so nothing uses it afterwards.
        let status = unsafe { H::RELEASE(self.0.as_ptr()) };
        debug_assert_eq!(status, ffi::IRON_OK, "an owned handle was not live");
    }
}

impl Clone for Handle<ffi::iron_device> {
    /// `iron_device_retain`.
    fn clone(&self) -> Self {
        // SAFETY: takes any pointer; this one is live because `self` owns a reference.
        let status = unsafe { ffi::iron_device_retain(self.as_ptr()) };
        // It fails for dead handles only. Were it to fail all the same, the second release is answered with
        // IRON_ERROR_INVALID_HANDLE, not with a crash.
        debug_assert_eq!(status, ffi::IRON_OK, "an owned handle was not live");
        Handle(self.0)
    }
}

impl<H: Object> fmt::Debug for Handle<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

// SAFETY: the header says under "Threads" that every function may be called from any thread at any time on any handle,
// so a reference may be used and given back on another thread than the one that made it. Only the recording of an
// iron_commands is limited, to one thread at a time: its handle is Send and not Sync.
unsafe impl Send for Handle<ffi::iron_device> {}
// SAFETY: see above.
unsafe impl Sync for Handle<ffi::iron_device> {}
// SAFETY: see above.
unsafe impl Send for Handle<ffi::iron_buffer> {}
// SAFETY: see above.
unsafe impl Sync for Handle<ffi::iron_buffer> {}
// SAFETY: see above.
unsafe impl Send for Handle<ffi::iron_library> {}
// SAFETY: see above.
unsafe impl Sync for Handle<ffi::iron_library> {}
// SAFETY: see above.
unsafe impl Send for Handle<ffi::iron_kernel> {}
// SAFETY: see above.
unsafe impl Sync for Handle<ffi::iron_kernel> {}
// SAFETY: see above: whoever holds it is the one thread that records.
unsafe impl Send for Handle<ffi::iron_commands> {}

/// Tells the bridge where this thread's next call comes from: the caller of the function that calls this, when that is
/// `#[track_caller]`.
#[track_caller]
pub(crate) fn note_caller() {
    let place = Location::caller();
    let file = place.file();
    // SAFETY: the text is static and as long as stated.
    unsafe { ffi::iron_source(file.as_ptr().cast(), file.len(), place.line()) };
}
