//! The process's one machine. A forked child makes one of its own: it has none of the threads of its parent's, and
//! whatever lock one of them held when the process forked is never given back.

use std::panic::catch_unwind;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use super::machine::Machine;
use super::threads::affinity::{self, PinError};
use super::threads::thread_pool;
use crate::backend::fault::Fault;
use crate::backend::time_limit;

/// What is wrong with the environment's wishes for a machine, or one.
type Made = Result<Machine, String>;

/// Null until it is first asked for. No lock guards this, so that no thread of a child waits for one of its parent's.
static MACHINE: AtomicPtr<Made> = AtomicPtr::new(null_mut());

fn make() -> Made {
    let mut machine = thread_pool::configured_threads().map(Machine::new)?;
    machine.deadline = time_limit::DISPATCH.of_environment()?;
    if let Some(places) = affinity::configured()? {
        machine.pool.pin(&places).map_err(PinError::text)?;
    }
    Ok(machine)
}

extern "C" fn forget_as_child() {
    MACHINE.store(null_mut(), Ordering::Release);
}

fn forget_in_children() {
    static DONE: AtomicBool = AtomicBool::new(false);
    if !DONE.swap(true, Ordering::Relaxed) {
        // SAFETY: the handler stores to an atomic variable, which any thread may do at any time. Where there is no
        // memory for it, children keep their parent's machine.
        unsafe { libc::pthread_atfork(None, None, Some(forget_as_child)) };
    }
}

/// What kernels compute with. Threads that ask for the first time at once each make one; the first to be ready stays.
fn machine() -> &'static Made {
    let known = MACHINE.load(Ordering::Acquire);
    // SAFETY: what the variable holds came from a box and is never freed, in a child neither: it is null or valid.
    if let Some(known) = unsafe { known.as_ref() } {
        return known;
    }
    forget_in_children();
    let made = Box::into_raw(Box::new(make()));
    let first = MACHINE.compare_exchange(null_mut(), made, Ordering::AcqRel, Ordering::Acquire);
    if first.is_err() {
        // SAFETY: the box is from above, and no other thread has seen its address.
        drop(unsafe { Box::from_raw(made) });
    }
    // SAFETY: as above, and one of the two was stored.
    unsafe { &*first.map_or_else(|first| first, |_| made) }
}

/// The machine. An error is of the environment.
pub fn usable_machine() -> Result<&'static Machine, Fault> {
    machine()
        .as_ref()
        .map_err(|text| Fault::Invalid(text.clone()))
}

/// The machine, for who has no place for what is wrong with it.
pub fn working_machine() -> Option<&'static Machine> {
    catch_unwind(machine)
        .ok()
        .and_then(|machine| machine.as_ref().ok())
}
