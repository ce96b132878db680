//! A mutex with conditions, of the system's threads library.
//!
//! The standard library's own are not seen by ThreadSanitizer where only the native code is compiled for it, and what
//! they order would be reported as races. They also cannot take part in schedules (`schedule.rs`).

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};

use super::schedule;

/// A value behind a mutex.
pub struct Monitor<T> {
    /// In a box, because a mutex in use must not move.
    inner: Box<Inner<T>>,
}

struct Inner<T> {
    mutex: UnsafeCell<libc::pthread_mutex_t>,
    value: UnsafeCell<T>,
}

// SAFETY: the mutex lets one thread at a time reach the value, which may be sent between them.
unsafe impl<T: Send> Send for Monitor<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Monitor<T> {}

/// What threads that hold a monitor wait for.
pub struct Condition(Box<UnsafeCell<libc::pthread_cond_t>>);

// SAFETY: a condition may be used from any thread.
unsafe impl Send for Condition {}
// SAFETY: as above.
unsafe impl Sync for Condition {}

/// The value, while the calling thread holds its mutex.
pub struct Guard<'a, T> {
    inner: &'a Inner<T>,
}

impl<T> Monitor<T> {
    pub fn new(value: T) -> Monitor<T> {
        Monitor {
            inner: Box::new(Inner {
                mutex: UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER),
                value: UnsafeCell::new(value),
            }),
        }
    }

    pub fn lock(&self) -> Guard<'_, T> {
        // SAFETY: initialized, and where it was initialized.
        unsafe { libc::pthread_mutex_lock(self.inner.mutex.get()) };
        Guard { inner: &self.inner }
    }
}

impl<T> Drop for Monitor<T> {
    fn drop(&mut self) {
        // SAFETY: no guard is left, so nobody holds it.
        unsafe { libc::pthread_mutex_destroy(self.inner.mutex.get()) };
    }
}

impl<T> Guard<'_, T> {
    /// Until `condition` is signaled, or for no reason; the mutex is free meanwhile.
    pub fn wait(&mut self, condition: &Condition) {
        let mutex = self.inner.mutex.get();
        schedule::asleep(&*condition.0, || {
            // SAFETY: this thread holds the mutex, and both stay where they are.
            unsafe {
                libc::pthread_cond_wait(condition.0.get(), mutex);
                libc::pthread_mutex_unlock(mutex);
            }
        });
        // SAFETY: as in `lock`.
        unsafe { libc::pthread_mutex_lock(mutex) };
    }
}

impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        // SAFETY: this thread holds it.
        unsafe { libc::pthread_mutex_unlock(self.inner.mutex.get()) };
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: this thread holds the mutex.
        unsafe { &*self.inner.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this thread holds the mutex, and the guard is borrowed for as long.
        unsafe { &mut *self.inner.value.get() }
    }
}

impl Condition {
    pub fn new() -> Condition {
        Condition(Box::new(UnsafeCell::new(libc::PTHREAD_COND_INITIALIZER)))
    }

    /// Wakes one thread that waits. The mutex may be held.
    pub fn signal(&self) {
        // SAFETY: initialized, and where it was initialized.
        unsafe { libc::pthread_cond_signal(self.0.get()) };
        schedule::wake(&*self.0);
    }

    /// Wakes all threads that wait. The mutex may be held.
    pub fn broadcast(&self) {
        // SAFETY: as above.
        unsafe { libc::pthread_cond_broadcast(self.0.get()) };
        schedule::wake(&*self.0);
    }
}

impl Drop for Condition {
    fn drop(&mut self) {
        // SAFETY: nobody waits: whoever does borrows it.
        unsafe { libc::pthread_cond_destroy(self.0.get()) };
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn threads_take_turns() {
        let (turn, changed) = (Monitor::new(0), Condition::new());
        thread::scope(|scope| {
            for mine in 0..3 {
                let (turn, changed) = (&turn, &changed);
                scope.spawn(move || {
                    for round in 0..200 {
                        let mut now = turn.lock();
                        while *now != 3 * round + mine {
                            now.wait(changed);
                        }
                        *now += 1;
                        changed.broadcast();
                    }
                });
            }
        });
        assert_eq!(*turn.lock(), 600);
    }
}
