//! The stack of a thread that is not the device's own.

use std::cell::Cell;
use std::mem::MaybeUninit;

/// Room for any native kernel. The kernels' tests pass with half of it.
const NEEDED: usize = 512 << 10;

/// Whether the calling thread is on a stack that the system gave it, with room for any native kernel.
pub fn has_room() -> bool {
    thread_local! {
        /// From the lowest to the highest address; `None`: not measured.
        static STACK: Cell<Option<(usize, usize)>> = const { Cell::new(None) };
    }
    let (low, high) = STACK.get().unwrap_or_else(|| {
        let bounds = bounds().unwrap_or((0, 0));
        STACK.set(Some(bounds));
        bounds
    });
    let here = MaybeUninit::<usize>::uninit();
    let here = here.as_ptr().addr();
    here < high && here > low && here - low >= NEEDED
}

/// `None` when the system does not say.
#[cfg(target_vendor = "apple")]
fn bounds() -> Option<(usize, usize)> {
    // SAFETY: asks about the calling thread.
    let (high, size) = unsafe {
        let thread = libc::pthread_self();
        let high = libc::pthread_get_stackaddr_np(thread).addr();
        (high, libc::pthread_get_stacksize_np(thread))
    };
    Some((high - size, high))
}

/// `None` when the system does not say.
#[cfg(not(target_vendor = "apple"))]
fn bounds() -> Option<(usize, usize)> {
    let mut attributes = MaybeUninit::uninit();
    let (mut lowest, mut size) = (std::ptr::null_mut(), 0);
    // SAFETY: the attributes are written before they are read, and destroyed once.
    unsafe {
        if libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr()) != 0 {
            return None;
        }
        libc::pthread_attr_getstack(attributes.as_ptr(), &mut lowest, &mut size);
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
    }
    Some((lowest.addr(), lowest.addr() + size))
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn a_short_stack_has_no_room() {
        let on_stack = |bytes| {
            let thread = thread::Builder::new().stack_size(bytes).spawn(has_room);
            thread.expect("it starts").join().expect("no panic")
        };
        assert!(on_stack(2 << 20) && !on_stack(256 << 10));
        assert!(on_stack(8 << 20));
    }
}
