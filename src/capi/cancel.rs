//! `iron_cancel`.

use super::arguments::Value;
use super::call::enter;
use super::handle::{Place, acquire, handled, references};
use crate::ffi;
use crate::llama::CancelToken;

handled!(iron_cancel, c"cancel", CancelToken);
references!(iron_cancel, iron_cancel_retain, iron_cancel_release);

#[unsafe(no_mangle)]
pub unsafe extern "C" fn iron_cancel_create(
    cancel: *mut *mut ffi::iron_cancel,
) -> ffi::iron_status {
    enter(c"iron_cancel_create", || {
        // SAFETY: the caller's pointer, as the header asks.
        let place = unsafe { Place::clear(cancel, "cancel") }?;
        place.fill(CancelToken::new())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn iron_cancel_set(cancel: *mut ffi::iron_cancel) -> ffi::iron_status {
    enter(c"iron_cancel_set", || {
        acquire(cancel)?.cancel();
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn iron_cancel_is_set(
    cancel: *mut ffi::iron_cancel,
    set: *mut u32,
) -> ffi::iron_status {
    enter(c"iron_cancel_is_set", || {
        // SAFETY: the caller's pointer, as the header asks.
        let set = unsafe { Value::clear(set, "set") }?;
        set.set(acquire(cancel)?.is_cancelled().into());
        Ok(())
    })
}
