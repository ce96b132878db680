//! One event for each recorded operation, with the figures of memory after it.

use std::ffi::{CStr, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError, RwLock};

use crate::ffi;

/// One recorded operation and the memory after it (`iron_trace_event`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct TraceEvent<'a> {
    /// `"matmul"` and so on.
    pub operation: &'a str,
    /// The operands' rows × columns: `"a=784x100 b=100x10 c=784x10"`.
    pub shape: &'a str,
    /// The source file and line that recorded it; `None` for C callers that did not say.
    pub place: Option<(&'a str, u32)>,
    /// Bytes of the process that are resident (RSS).
    pub resident_bytes: u64,
    /// The device's own `currentAllocatedSize`, in bytes.
    pub device_bytes: u64,
    /// Bytes in buffers that somebody holds or commands use.
    pub active_bytes: u64,
    /// Bytes idle in the pool.
    pub pool_bytes: u64,
    /// Buffers idle in the pool.
    pub pool_buffers: u64,
    /// Command buffers being recorded or in flight.
    pub command_buffers: u64,
    /// Handles given out and not given back, of all kinds.
    pub live_handles: i64,
    /// Objects that wait in the autorelease pools of this thread. `None` where the runtime cannot tell (Apple's).
    pub autoreleased: Option<i64>,
    /// Objects autoreleased where no pool would ever release them, since the start.
    pub autoreleased_without_pool: Option<i64>,
}

/// Is told of operations: see [`set_trace_hook`].
pub type TraceHook = Box<dyn Fn(&TraceEvent<'_>) + Send + Sync>;

type Hook = Arc<dyn Fn(&TraceEvent<'_>) + Send + Sync>;

static HOOK: RwLock<Option<Hook>> = RwLock::new(None);

/// Tells `hook` of every operation, on the thread that recorded it; `None` ends that (`iron_trace_hook`).
///
/// It must not call ironbridge. A panic in it ends there. `IRONBRIDGE_MEM_TRACE` writes the same events as lines.
pub fn set_trace_hook(hook: Option<TraceHook>) {
    let native = hook.is_some().then_some(tell as _);
    *HOOK.write().unwrap_or_else(PoisonError::into_inner) = hook.map(Hook::from);
    // SAFETY: `tell` needs no context.
    unsafe { ffi::iron_trace_hook(native, std::ptr::null_mut()) };
}

unsafe extern "C" fn tell(native: *const ffi::iron_trace_event, _context: *mut c_void) {
    let hook = HOOK.read().unwrap_or_else(PoisonError::into_inner).clone();
    let Some(hook) = hook else { return };
    // SAFETY: the bridge passes a struct whose texts are valid during the call; the file's name is as long as stated.
    let (native, operation, shape, file) = unsafe {
        let native = &*native;
        let file = match native.file.is_null() {
            true => None,
            false => Some(std::slice::from_raw_parts(
                native.file.cast::<u8>(),
                native.file_length,
            )),
        };
        (
            native,
            CStr::from_ptr(native.operation).to_string_lossy(),
            CStr::from_ptr(native.shape).to_string_lossy(),
            file.map(String::from_utf8_lossy),
        )
    };
    let event = TraceEvent {
        operation: &operation,
        shape: &shape,
        place: file.as_deref().map(|file| (file, native.line)),
        resident_bytes: native.resident_bytes,
        device_bytes: native.device_bytes,
        active_bytes: native.active_bytes,
        pool_bytes: native.pool_bytes,
        pool_buffers: native.pool_buffers,
        command_buffers: native.command_buffers,
        live_handles: native.live_handles,
        autoreleased: (native.autoreleased >= 0).then_some(native.autoreleased),
        autoreleased_without_pool: (native.autoreleased_without_pool >= 0)
            .then_some(native.autoreleased_without_pool),
    };
    // The bridge is C: nothing may unwind into it. The panic has been reported by its own hook.
    let _ = catch_unwind(AssertUnwindSafe(|| hook(&event)));
}

/// Emits every operation as an event of the `tracing` crate, target `ironbridge::memory`, level trace; in place of any
/// other hook.
#[cfg(feature = "tracing")]
pub fn emit_tracing_events() {
    set_trace_hook(Some(Box::new(|event| {
        let (file, line) = event.place.unwrap_or(("-", 0));
        tracing::trace!(
            target: "ironbridge::memory",
            operation = event.operation,
            shape = event.shape,
            at.file = file,
            at.line = line,
            resident_bytes = event.resident_bytes,
            device_bytes = event.device_bytes,
            active_bytes = event.active_bytes,
            pool_bytes = event.pool_bytes,
            pool_buffers = event.pool_buffers,
            command_buffers = event.command_buffers,
            live_handles = event.live_handles,
            autoreleased = event.autoreleased,
            autoreleased_without_pool = event.autoreleased_without_pool,
        );
    })));
}
