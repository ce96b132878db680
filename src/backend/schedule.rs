//! `native/objects/schedule.h`: who runs at a hand-over between threads, for tests.

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

/// `soft_sleeper`.
#[repr(C)]
struct Sleeper {
    on: *const c_void,
    called: *mut c_void,
    woken: bool,
    next: *mut Sleeper,
}

unsafe extern "C" {
    static soft_schedule_active: AtomicBool;
    fn soft_schedule_draw();
    fn soft_schedule_rouse(on: *const c_void);
    fn soft_schedule_sleep(sleeper: *mut Sleeper, on: *const c_void);
    fn soft_schedule_awake(sleeper: *mut Sleeper);
}

pub fn is_on() -> bool {
    // SAFETY: an atomic boolean of the header's.
    unsafe { &soft_schedule_active }.load(Ordering::Relaxed)
}

/// A hand-over. Called without locks.
#[inline]
pub fn point() {
    if is_on() {
        // SAFETY: the header's function takes nothing and may be called from any thread.
        unsafe { soft_schedule_draw() }
    }
}

/// Wakes those who sleep on that address. Locks may be held.
#[inline]
pub fn wake<T>(on: &T) {
    if is_on() {
        // SAFETY: the address is compared and not followed.
        unsafe { soft_schedule_rouse(ptr::from_ref(on).cast()) }
    }
}

/// Runs `sleep`, which ends when somebody calls [`wake`] with that address, and holds no lock at its end. Locks may be
/// held at its beginning.
pub fn asleep<T, R>(on: &T, sleep: impl FnOnce() -> R) -> R {
    let mut sleeper = Sleeper {
        on: ptr::null(),
        called: ptr::null_mut(),
        woken: false,
        next: ptr::null_mut(),
    };
    // SAFETY: the sleeper stays here until `soft_schedule_awake` has taken it off its list.
    unsafe { soft_schedule_sleep(&raw mut sleeper, ptr::from_ref(on).cast()) };
    let result = sleep();
    // SAFETY: as above.
    unsafe { soft_schedule_awake(&raw mut sleeper) };
    result
}
