//! An autorelease pool round Rust code, as `objc::rc::autoreleasepool` opens it: what a caller of the bridge may have
//! round their calls and never needs.

use std::ffi::c_void;

/// Runs `body` in a pool of its own.
pub fn autoreleasepool<R>(body: impl FnOnce() -> R) -> R {
    let _pool = Pool::open();
    body()
}

struct Pool(*mut c_void);

impl Drop for Pool {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(target_os = "macos")]
mod runtime {
    use super::*;

    unsafe extern "C" {
        fn objc_autoreleasePoolPush() -> *mut c_void;
        fn objc_autoreleasePoolPop(pool: *mut c_void);
    }

    impl Pool {
        pub fn open() -> Pool {
            // SAFETY: the pool is popped by the same thread: `Pool` is not Send.
            Pool(unsafe { objc_autoreleasePoolPush() })
        }

        pub fn close(&mut self) {
            // SAFETY: pushed by `open` and popped once, in the order of scopes.
            unsafe { objc_autoreleasePoolPop(self.0) }
        }
    }
}

#[cfg(not(target_os = "macos"))]
mod runtime {
    use std::ffi::c_char;

    use super::*;

    type Method = unsafe extern "C" fn(*mut c_void, *const c_void) -> *mut c_void;

    // GCC's Objective-C runtime.
    unsafe extern "C" {
        fn objc_getClass(name: *const c_char) -> *mut c_void;
        fn sel_registerName(name: *const c_char) -> *const c_void;
        fn objc_msg_lookup(receiver: *mut c_void, selector: *const c_void) -> Option<Method>;
    }

    /// Sends a message without arguments.
    unsafe fn send(receiver: *mut c_void, message: &std::ffi::CStr) -> *mut c_void {
        // SAFETY: the caller's receiver understands the message, which takes no argument and returns an object or
        // nothing.
        unsafe {
            let selector = sel_registerName(message.as_ptr());
            let method = objc_msg_lookup(receiver, selector).expect("the receiver has the method");
            method(receiver, selector)
        }
    }

    impl Pool {
        pub fn open() -> Pool {
            // SAFETY: the class exists in every GNUstep program and its pools are opened by `new`.
            Pool(unsafe { send(objc_getClass(c"NSAutoreleasePool".as_ptr()), c"new") })
        }

        pub fn close(&mut self) {
            // SAFETY: made by `open`, drained once, by the same thread, in the order of scopes.
            unsafe { send(self.0, c"drain") };
        }
    }
}
