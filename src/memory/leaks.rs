//! What is still allocated: the list of live buffers, and what is told when it should be empty.

use std::ffi::{CStr, c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::{Category, Storage};
use crate::device::Device;
use crate::error::{Result, check};
use crate::ffi;

/// Bytes that may be left over on a device without a word.
pub const LEAK_THRESHOLD: u64 = ffi::IRON_LEAK_THRESHOLD as u64;

/// One live buffer (`iron_allocation`). From [`Device::allocations`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Allocation {
    /// Its bytes.
    pub bytes: u64,
    /// What it is for.
    pub category: Category,
    /// Where its memory is.
    pub storage: Storage,
    /// Its label, or `""`.
    pub label: String,
    /// The source file and line that made it; `None` for C callers that did not say.
    pub place: Option<(String, u32)>,
    /// It goes back to the pool.
    pub pooled: bool,
    /// It is memory that was wrapped.
    pub wrapped: bool,
    /// Commands that are recorded or in flight use it, or a map.
    pub in_use: bool,
    /// References of its handle; 0 when only commands keep it.
    pub references: u64,
    /// How long ago it was made.
    pub age: Duration,
}

impl Allocation {
    /// # Safety
    /// Its texts are valid.
    unsafe fn from_native(native: &ffi::iron_allocation) -> Allocation {
        Allocation {
            bytes: native.bytes,
            category: Category::from_native(native.category),
            storage: match native.storage {
                ffi::IRON_STORAGE_PRIVATE => Storage::Private,
                _ => Storage::Shared,
            },
            // SAFETY: the caller's promise.
            label: unsafe { text(native.label) },
            place: (!native.file.is_null()).then(|| {
                // SAFETY: the caller's promise; the file's name is as long as stated.
                let file = unsafe {
                    std::slice::from_raw_parts(native.file.cast::<u8>(), native.file_length)
                };
                (String::from_utf8_lossy(file).into_owned(), native.line)
            }),
            pooled: native.pooled != 0,
            wrapped: native.wrapped != 0,
            in_use: native.in_use != 0,
            references: native.references,
            age: Duration::from_nanos(native.age),
        }
    }

    pub(crate) fn list(device: &Device) -> Result<Vec<Allocation>> {
        unsafe extern "C" fn collect(native: *const ffi::iron_allocation, context: *mut c_void) {
            // SAFETY: the context that `list` passes, during its call; the bridge passes a valid struct.
            unsafe {
                let list = &mut *context.cast::<Vec<Allocation>>();
                list.push(Allocation::from_native(&*native));
            }
        }
        let mut list: Vec<Allocation> = Vec::new();
        // SAFETY: the device is live; `collect` takes the context for what it is.
        check("Device::allocations", unsafe {
            ffi::iron_memory_list(
                device.handle.as_ptr(),
                Some(collect),
                (&raw mut list).cast(),
            )
        })?;
        Ok(list)
    }
}

/// # Safety
/// NULL, or valid and NUL-terminated.
unsafe fn text(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(text) }
        .to_string_lossy()
        .into_owned()
}

/// What was still allocated on a device when it was closed or the process ended (`iron_leaks`).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leaks {
    /// The device's name.
    pub device: String,
    /// Found when the process ended, not by [`Device::close`].
    pub at_exit: bool,
    /// The device's `currentAllocatedSize` before the purge, in bytes.
    pub device_before: u64,
    /// The same afterwards.
    pub device_after: u64,
    /// The difference.
    pub freed_bytes: u64,
    /// Bytes of live buffers, idle ones of the pool apart.
    pub leaked_bytes: u64,
    /// The live buffers, the largest first.
    pub allocations: Vec<Allocation>,
}

impl Leaks {
    /// # Safety
    /// Its texts and its list are valid.
    unsafe fn from_native(native: &ffi::iron_leaks) -> Leaks {
        let listed = match native.allocations.is_null() {
            true => &[][..],
            // SAFETY: the caller's promise.
            false => unsafe {
                std::slice::from_raw_parts(native.allocations, native.leaked_count as usize)
            },
        };
        Leaks {
            // SAFETY: the caller's promise.
            device: unsafe { text(native.device) },
            at_exit: native.at_exit != 0,
            device_before: native.device_before,
            device_after: native.device_after,
            freed_bytes: native.freed_bytes,
            leaked_bytes: native.leaked_bytes,
            allocations: listed
                .iter()
                // SAFETY: the caller's promise.
                .map(|allocation| unsafe { Allocation::from_native(allocation) })
                .collect(),
        }
    }

    pub(crate) fn at_close(device: &Device, timeout: u64) -> Result<Leaks> {
        let name = device.info()?.name;
        let allocations = Allocation::list(device)?;
        let mut native = ffi::iron_leaks {
            size: size_of::<ffi::iron_leaks>(),
            ..Default::default()
        };
        // SAFETY: the device is live, and `native` may be written and starts with its size.
        check("Device::close", unsafe {
            ffi::iron_device_close(device.handle.as_ptr(), timeout, &mut native)
        })?;
        // SAFETY: its texts and list are NULL.
        let leaks = unsafe { Leaks::from_native(&native) };
        Ok(Leaks {
            device: name,
            allocations,
            ..leaks
        })
    }
}

/// Is told of leaks: see [`set_leak_hook`].
pub type LeakHook = Box<dyn Fn(&Leaks) + Send + Sync>;

type Hook = Arc<dyn Fn(&Leaks) + Send + Sync>;

static HOOK: Mutex<Option<Hook>> = Mutex::new(None);

/// Tells `hook` of leaks beyond [`LEAK_THRESHOLD`], once for each device, instead of stderr; `None` goes back to stderr
/// (`iron_leak_hook`).
///
/// It is called by [`Device::close`] and, for devices that are open then, when the process exits. A panic in it ends
/// there.
pub fn set_leak_hook(hook: Option<LeakHook>) {
    let native = hook.is_some().then_some(tell as _);
    *HOOK.lock().unwrap_or_else(PoisonError::into_inner) = hook.map(Hook::from);
    // SAFETY: `tell` needs no context.
    unsafe { ffi::iron_leak_hook(native, std::ptr::null_mut()) };
}

unsafe extern "C" fn tell(leaks: *const ffi::iron_leaks, _context: *mut c_void) {
    let hook = HOOK.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let Some(hook) = hook else { return };
    // SAFETY: the bridge passes a struct that is valid during the call.
    let leaks = unsafe { Leaks::from_native(&*leaks) };
    // The bridge is C: nothing may unwind into it. The panic has been reported by its own hook.
    let _ = catch_unwind(AssertUnwindSafe(|| hook(&leaks)));
}
