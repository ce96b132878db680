//! Bytes of the host's on their way into the GPU's memory. The driver copies memory that is not pinned with one thread.
//! Here several threads copy it into pinned memory, from where the GPU takes it meanwhile.

use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use super::context::Context;
use super::driver::{self, Address};
use crate::backend::fault::Fault;

/// Bytes that are copied at once.
const PIECE: usize = 1 << 20;
/// From how many bytes on threads pay.
const LEAST: usize = 2 * PIECE;
const MOST_LANES: usize = 8;

/// What threads copy through. It stays for the next bytes, until the device is closed.
#[derive(Default)]
pub struct Lanes(Mutex<Vec<Lane>>);

/// One is filled while the GPU reads the other.
struct Lane([Place; 2]);

/// Pinned memory of `PIECE` bytes, and the stream that it is read in.
struct Place {
    context: Arc<Context>,
    stream: driver::Stream,
    memory: NonNull<u8>,
}

// SAFETY: the memory is this place's alone, and any thread may use a stream.
unsafe impl Send for Place {}

impl Place {
    /// The context is the calling thread's.
    fn new(context: &Arc<Context>) -> Result<Place, Fault> {
        let driver = &context.driver;
        let (mut stream, mut memory) = (driver::Stream(ptr::null_mut()), ptr::null_mut());
        // SAFETY: a place for the stream.
        let status = unsafe { (driver.stream_create)(&mut stream, driver::NON_BLOCKING) };
        context.check("cuStreamCreate", status)?;
        // SAFETY: a place for the pointer.
        let status = unsafe { (driver.host_allocate)(&mut memory, PIECE, driver::HOST_MAPPED) };
        let allocated = context.check("cuMemHostAlloc", status);
        if let (Ok(()), Some(memory)) = (allocated.as_ref(), NonNull::new(memory.cast())) {
            return Ok(Place {
                context: Arc::clone(context),
                stream,
                memory,
            });
        }
        // SAFETY: just created, and nothing was put into it.
        let _ = unsafe { (driver.stream_destroy)(stream) };
        allocated?;
        Err(Fault::OutOfMemory(String::from("no pinned memory")))
    }

    /// Until the GPU has read what was here.
    fn wait(&self) -> Result<(), Fault> {
        // SAFETY: a live stream of a context that is the calling thread's.
        let status = unsafe { (self.context.driver.stream_synchronize)(self.stream) };
        self.context.check("cuStreamSynchronize", status)
    }

    /// Starts copying at most `PIECE` bytes.
    fn start(&self, to: Address, bytes: &[u8]) -> Result<(), Fault> {
        self.wait()?;
        // SAFETY: `PIECE` bytes that nobody reads now, and no more are copied.
        unsafe {
            self.memory
                .as_ptr()
                .copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        }
        let from = self.memory.as_ptr().expose_provenance() as Address;
        // SAFETY: as many bytes in both places; pinned memory has one address for host and GPU, and stays until the
        // stream was waited for.
        let status =
            unsafe { (self.context.driver.copy_on_stream)(to, from, bytes.len(), self.stream) };
        self.context.check("cuMemcpyAsync", status)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Ok(_entered) = self.context.enter() else {
            return; // the context is gone, and this with it
        };
        let driver = &self.context.driver;
        let memory: *mut c_void = self.memory.as_ptr().cast();
        // SAFETY: made once by `new`; whoever started a copy has waited for it.
        unsafe {
            let _ = (driver.stream_destroy)(self.stream);
            let _ = (driver.host_free)(memory);
        }
    }
}

impl Lane {
    /// Copies pieces until there are none left, and waits for them.
    fn carry(
        &mut self,
        context: &Context,
        next: &AtomicUsize,
        to: Address,
        bytes: &[u8],
    ) -> Result<(), Fault> {
        let _entered = context.enter()?;
        let mut started = Ok(());
        for place in self.0.iter().cycle() {
            let start = next.fetch_add(PIECE, Ordering::Relaxed);
            if start >= bytes.len() || started.is_err() {
                break;
            }
            let end = bytes.len().min(start + PIECE);
            started = place.start(to + start as Address, &bytes[start..end]);
        }
        let waited = self.0.each_ref().map(Place::wait);
        waited.into_iter().fold(started, Result::and)
    }
}

impl Lanes {
    /// Copies `bytes` to an address of the GPU's with as many bytes. `Ok(false)`: it does not pay, or there is no
    /// pinned memory for it, and nothing was copied.
    pub fn copy(&self, context: &Arc<Context>, to: Address, bytes: &[u8]) -> Result<bool, Fault> {
        if bytes.len() < LEAST {
            return Ok(false);
        }
        let most = thread::available_parallelism().map_or(1, |threads| threads.get());
        let mut lanes = self.take(context, most.min(MOST_LANES));
        if lanes.is_empty() {
            return Ok(false);
        }
        let next = AtomicUsize::new(0);
        let carried = thread::scope(|scope| {
            let (first, others) = lanes.split_at_mut(1);
            let mut helpers = Vec::new();
            for lane in others {
                // Where there is no thread to be had, the others do it all.
                let next = &next;
                let carry = move || lane.carry(context, next, to, bytes);
                helpers.extend(thread::Builder::new().spawn_scoped(scope, carry));
            }
            let own = first[0].carry(context, &next, to, bytes);
            helpers.into_iter().fold(own, |all, helper| {
                let panicked = |_| Err(Fault::Internal(String::from("a thread panicked")));
                all.and(helper.join().unwrap_or_else(panicked))
            })
        });
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.append(&mut lanes);
        kept.truncate(MOST_LANES);
        carried.map(|()| true)
    }

    /// At most `most` lanes: those that are kept, and new ones as far as there is memory. The context is the calling
    /// thread's.
    fn take(&self, context: &Arc<Context>, most: usize) -> Vec<Lane> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let from = kept.len().saturating_sub(most);
        let mut lanes = kept.split_off(from);
        drop(kept);
        while lanes.len() < most {
            match Place::new(context).and_then(|one| Ok(Lane([one, Place::new(context)?]))) {
                Ok(lane) => lanes.push(lane),
                Err(_) => break,
            }
        }
        lanes
    }
}
