//! Handles of the one table (`native/bridge/base/handle.h`) for values of Rust's.

use std::ffi::{CStr, c_char, c_void};
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};

use super::call::{self, Failure, Outcome, reported};
use crate::error::Status;
use crate::ffi;

unsafe extern "C" {
    // native/bridge/base/rust_object.h
    fn IronRustCreate(
        kind: *const c_char,
        value: *mut c_void,
        drop: unsafe extern "C" fn(*mut c_void),
        handle: *mut *mut c_void,
    ) -> ffi::iron_status;
    fn IronRustAcquire(
        kind: *const c_char,
        handle: *const c_void,
        argument: *const c_char,
        keep: unsafe extern "C" fn(*mut c_void),
    ) -> *mut c_void;
    fn IronRustShareDevice(
        device: *const c_void,
        argument: *const c_char,
        own: *mut *mut c_void,
    ) -> ffi::iron_status;
    fn IronRustRetain(
        kind: *const c_char,
        handle: *const c_void,
        argument: *const c_char,
    ) -> ffi::iron_status;
    fn IronRustRelease(
        kind: *const c_char,
        handle: *const c_void,
        argument: *const c_char,
    ) -> ffi::iron_status;
}

/// A C type of handles and the value that is behind them.
pub(super) trait Handled {
    /// The header's name of the type.
    const TYPE: &'static CStr;
    /// What messages call a handle that is an argument.
    const ARGUMENT: &'static CStr;
    type Value: Send + Sync + 'static;
}

macro_rules! handled {
    ($type:ident, $argument:literal, $value:ty) => {
        impl crate::capi::handle::Handled for crate::ffi::$type {
            const TYPE: &'static std::ffi::CStr = match std::ffi::CStr::from_bytes_with_nul(
                concat!(stringify!($type), "\0").as_bytes(),
            ) {
                Ok(name) => name,
                Err(_) => unreachable!(),
            };
            const ARGUMENT: &'static std::ffi::CStr = $argument;
            type Value = $value;
        }
    };
}
pub(super) use handled;

/// The place for a new handle, set to NULL.
pub(super) struct Place<H>(*mut *mut H);

impl<H: Handled> Place<H> {
    /// # Safety
    ///
    /// `place` is NULL or may be written until the last use of the result.
    pub unsafe fn clear(place: *mut *mut H, argument: &str) -> Outcome<Place<H>> {
        if place.is_null() {
            return Err(Failure::invalid(format!("{argument}: is NULL")));
        }
        // SAFETY: it may be written.
        unsafe { place.write(ptr::null_mut()) };
        Ok(Place(place))
    }

    /// Makes a handle with one reference.
    pub fn fill(self, value: H::Value) -> Outcome {
        self.share(Arc::new(value))
    }

    /// The same for a value that others have, too.
    pub fn share(self, value: Arc<H::Value>) -> Outcome {
        let value = Arc::into_raw(value).cast_mut().cast();
        // SAFETY: the type is a name of the table's, `value` is an Arc that the handle owns from here on, `drop_value`
        // gives back one of that type, and the place may be written.
        reported(unsafe {
            IronRustCreate(
                H::TYPE.as_ptr(),
                value,
                drop_value::<H::Value>,
                self.0.cast(),
            )
        })
    }
}

/// Gives back the reference of a handle that is gone.
unsafe extern "C" fn drop_value<T>(value: *mut c_void) {
    // SAFETY: `Place::share` made it from an Arc of that type, and each handle is destroyed once.
    call::without_unwinding(|| drop(unsafe { Arc::<T>::from_raw(value.cast()) }));
}

/// Takes a reference of a value that lives.
unsafe extern "C" fn keep_value<T>(value: *mut c_void) {
    // SAFETY: the handle owns a reference of an Arc of that type while this runs.
    unsafe { Arc::<T>::increment_strong_count(value.cast()) };
}

/// The value of a handle, which lives as long as it is used, whoever releases the handle meanwhile.
pub(super) fn acquire<H: Handled>(handle: *mut H) -> Outcome<Arc<H::Value>> {
    acquire_as(handle, H::ARGUMENT)
}

/// The same for an argument of another name.
pub(super) fn acquire_as<H: Handled>(
    handle: *mut H,
    argument: &'static CStr,
) -> Outcome<Arc<H::Value>> {
    // SAFETY: any pointer is checked; `keep_value` is of the type that handles of this kind have.
    let value = unsafe {
        IronRustAcquire(
            H::TYPE.as_ptr(),
            handle.cast(),
            argument.as_ptr(),
            keep_value::<H::Value>,
        )
    };
    match value.is_null() {
        true => Err(Failure::reported(ffi::IRON_ERROR_INVALID_HANDLE)),
        // SAFETY: `keep_value` took this reference for the caller.
        false => Ok(unsafe { Arc::from_raw(value.cast()) }),
    }
}

/// The same for one that may be NULL.
pub(super) fn acquire_optional<H: Handled>(
    handle: *mut H,
    argument: &'static CStr,
) -> Outcome<Option<Arc<H::Value>>> {
    match handle.is_null() {
        true => Ok(None),
        false => acquire_as(handle, argument).map(Some),
    }
}

/// A handle of one's own for a device: what others do with theirs does not end it.
pub(super) fn share_device(device: *mut ffi::iron_device) -> Outcome<*mut ffi::iron_device> {
    let mut own = ptr::null_mut();
    // SAFETY: any pointer is checked, and `own` may be written.
    reported(unsafe { IronRustShareDevice(device.cast(), c"device".as_ptr(), &mut own) })?;
    Ok(own.cast())
}

pub(super) fn retain<H: Handled>(handle: *mut H) -> Outcome {
    // SAFETY: any pointer is checked.
    reported(unsafe { IronRustRetain(H::TYPE.as_ptr(), handle.cast(), H::ARGUMENT.as_ptr()) })
}

pub(super) fn release<H: Handled>(handle: *mut H) -> Outcome {
    // SAFETY: any pointer is checked.
    reported(unsafe { IronRustRelease(H::TYPE.as_ptr(), handle.cast(), H::ARGUMENT.as_ptr()) })
}

/// Defines `iron_NOUN_retain` and `iron_NOUN_release`.
macro_rules! references {
    ($type:ident, $retain:ident, $release:ident) => {
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $retain(
            handle: *mut crate::ffi::$type,
        ) -> crate::ffi::iron_status {
            const NAME: &str = concat!(stringify!($retain), "\0");
            crate::capi::handle::counted(NAME, || crate::capi::handle::retain(handle))
        }

        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $release(
            handle: *mut crate::ffi::$type,
        ) -> crate::ffi::iron_status {
            const NAME: &str = concat!(stringify!($release), "\0");
            crate::capi::handle::counted(NAME, || crate::capi::handle::release(handle))
        }
    };
}
pub(super) use references;

pub(super) fn counted(name: &'static str, body: impl FnOnce() -> Outcome) -> ffi::iron_status {
    let name = CStr::from_bytes_with_nul(name.as_bytes()).unwrap_or_default();
    call::enter(name, body)
}

/// A value that one call uses at a time.
#[derive(Debug)]
pub(super) struct Exclusive<T>(Mutex<T>);

impl<T> Exclusive<T> {
    pub fn new(value: T) -> Exclusive<T> {
        Exclusive(Mutex::new(value))
    }

    /// # Errors
    ///
    /// `IRON_ERROR_BUSY` while another call has it, `IRON_ERROR_STATE` when one of them ended in a bug.
    pub fn lock(&self, argument: &str) -> Outcome<MutexGuard<'_, T>> {
        self.0.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => Failure::new(
                Status::Busy,
                format!("{argument}: another call uses it at this moment"),
            ),
            TryLockError::Poisoned(_) => Failure::new(
                Status::State,
                format!("{argument}: an earlier call failed inside, make a new one"),
            ),
        })
    }
}
