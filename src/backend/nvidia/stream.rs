//! Executes submissions in their order: their commands go into a CUDA stream as a whole, behind those of the
//! submissions in front, and an event tells when they have ended. The thread that submits puts them there. A thread of
//! the stream's own completes them, or one that waits for a submission (caller-runs): then no thread is woken on the
//! way.

use std::collections::VecDeque;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::{self, JoinHandle, ThreadId};
use std::time::{Duration, Instant};

use super::backend::Nvidia;
use super::context::Context;
use super::driver::{self, Address};
use super::graph::Graphs;
use super::launch;
use crate::backend::fault::Fault;
use crate::backend::vtable::{self, Submission, Times, guarded};

/// Of the stream's thread, which calls back into the program.
const STACK: usize = 8 << 20;
/// Submissions in the GPU's hands at a time.
const MOST_IN_FLIGHT: usize = 8;
/// How long a thread asks for an event before it sleeps between two questions.
const SPIN: Duration = Duration::from_millis(2);
/// How long it sleeps, at least and at most: a part of the time for which it has waited.
const NAPS: (Duration, Duration) = (Duration::from_micros(20), Duration::from_millis(1));
const NAPS_OF_A_WAIT: u32 = 128;
/// How long the stream's thread leaves a submission to the thread that waited for the last one.
const GRACE: Duration = Duration::from_millis(1);
/// Bytes of a slab for what setBytes copied.
const SLAB: usize = 64 << 10;

/// Memory for small arguments of kernels that point to them, for as long as a submission runs.
pub struct Staging {
    slabs: Vec<Slab>,
    used: usize,
    free: Vec<Slab>,
}

struct Slab {
    pointer: *mut u8,
    address: Address,
    length: usize,
}

// SAFETY: memory that one thread at a time writes: the one that enqueues.
unsafe impl Send for Slab {}

impl Staging {
    fn new() -> Staging {
        Staging {
            slabs: Vec::new(),
            used: 0,
            free: Vec::new(),
        }
    }

    /// Copies bytes to where kernels read them; at least 4 KiB are a slab's.
    pub fn keep(&mut self, context: &Context, bytes: &[u8]) -> Result<Address, Fault> {
        let room = self.slabs.last().map_or(0, |slab| slab.length - self.used);
        if room < bytes.len() {
            let slab = match self.free.pop() {
                Some(slab) if slab.length >= bytes.len() => slab,
                _ => Slab::new(context, bytes.len().max(SLAB))?,
            };
            self.slabs.push(slab);
            self.used = 0;
        }
        let Some(slab) = self.slabs.last() else {
            return Err(Fault::Internal(String::from("there is no slab")));
        };
        // SAFETY: inside the slab, whose bytes from `used` on nobody reads yet.
        unsafe {
            let to = slab.pointer.add(self.used);
            ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
        }
        let address = slab.address + self.used as u64;
        self.used = (self.used + bytes.len())
            .next_multiple_of(16)
            .min(slab.length);
        Ok(address)
    }

    /// The slabs of the submission that was enqueued.
    fn take(&mut self) -> Vec<Slab> {
        self.used = 0;
        std::mem::take(&mut self.slabs)
    }
}

impl Slab {
    fn new(context: &Context, length: usize) -> Result<Slab, Fault> {
        let mut pointer = ptr::null_mut();
        // SAFETY: a place for the pointer; freed by `Core`.
        let status =
            unsafe { (context.driver.host_allocate)(&mut pointer, length, driver::HOST_MAPPED) };
        context.check("cuMemHostAlloc", status)?;
        let mut address = 0;
        // SAFETY: a place for the address of memory that is mapped.
        let status = unsafe { (context.driver.host_address)(&mut address, pointer, 0) };
        context.check("cuMemHostGetDevicePointer", status)?;
        Ok(Slab {
            pointer: pointer.cast(),
            address,
            length,
        })
    }

    /// The context is the calling thread's.
    fn free(self, context: &Context) {
        // SAFETY: allocated once, and no kernel in flight reads it.
        let _ = unsafe { (context.driver.host_free)(self.pointer.cast()) };
    }
}

/// A queue of submissions.
pub struct Stream {
    core: Arc<Core>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Core {
    context: Arc<Context>,
    stream: driver::Stream,
    state: Mutex<State>,
    /// Something was submitted, a runner went, or the stream is closing.
    changed: Condvar,
    /// Nobody enqueues any more.
    enqueued: Condvar,
    /// The newest submission's ticket, for a runner that looks too often to take the lock each time: whoever submits
    /// would not get it.
    newest: AtomicU64,
    /// Threads that wait to be the runner, to which the stream's own thread gives way.
    helpers: AtomicU64,
}

#[derive(Default)]
struct State {
    pending: VecDeque<Pending>,
    in_flight: VecDeque<InFlight>,
    /// The newest submission.
    ticket: u64,
    /// Who completes submissions, and enqueues those that nobody has.
    runner: Option<ThreadId>,
    /// Who enqueues. Both call back.
    enqueuer: Option<ThreadId>,
    /// The submission that it is at, neither pending nor in flight.
    enqueuing: Option<u64>,
    /// The newest one that was taken from those pending.
    taken: u64,
    /// The stream's thread.
    own: Option<ThreadId>,
    /// Whether it sleeps until it is woken.
    sleeps: bool,
    /// Whether a helper completed the last submissions.
    was_helped: bool,
    closing: bool,
    /// A submission in flight, and since when it has been the oldest that somebody waits for.
    front: Option<(u64, Instant)>,
    events: Vec<driver::Event>,
    free_slabs: Vec<Slab>,
    /// Both are the enqueuer's while there is one.
    staging: Option<Staging>,
    graphs: Option<Graphs>,
}

struct Pending {
    submission: Submission<Nvidia>,
    ticket: u64,
}

/// A submission whose commands are in the CUDA stream, or could not be put there.
struct InFlight {
    submission: Submission<Nvidia>,
    ticket: u64,
    event: Option<driver::Event>,
    enqueued: Result<(), Fault>,
    slabs: Vec<Slab>,
    start: u64,
}

impl Stream {
    pub fn create(context: &Arc<Context>) -> Result<Stream, Fault> {
        context.still_there()?;
        let _entered = context.enter()?;
        let mut stream = driver::Stream(ptr::null_mut());
        // SAFETY: a place for the stream.
        let status = unsafe { (context.driver.stream_create)(&mut stream, driver::NON_BLOCKING) };
        context.check("cuStreamCreate", status)?;
        let core = Arc::new(Core {
            context: Arc::clone(context),
            stream,
            state: Mutex::new(State {
                staging: Some(Staging::new()),
                ..State::default()
            }),
            changed: Condvar::new(),
            enqueued: Condvar::new(),
            newest: AtomicU64::new(0),
            helpers: AtomicU64::new(0),
        });
        let own = Arc::clone(&core);
        let thread = thread::Builder::new()
            .name(String::from("metal-queue"))
            .stack_size(STACK)
            .spawn(move || own.work())
            .map_err(|error| Fault::OutOfMemory(format!("no thread for a queue: {error}")))?;
        Ok(Stream {
            core,
            thread: Mutex::new(Some(thread)),
        })
    }
}

impl vtable::Stream<Nvidia> for Stream {
    fn submit(&self, submission: Submission<Nvidia>, caller_helps: bool) -> u64 {
        let mut state = self.core.lock();
        state.ticket += 1;
        let ticket = state.ticket;
        state.pending.push_back(Pending { submission, ticket });
        self.core.newest.store(ticket, Ordering::Release);
        let sleeps = state.sleeps;
        drop(state);
        if !caller_helps && sleeps {
            self.core.changed.notify_all();
        }
        ticket
    }

    fn start(&self) {
        drop(self.core.enqueue_pending(self.core.lock()));
    }

    fn help(&self, ticket: u64) {
        let mut state = self.core.lock();
        if state.runner == Some(thread::current().id()) {
            return; // in a callback: it would wait for itself
        }
        self.core.helpers.fetch_add(1, Ordering::Relaxed);
        // The stream's thread gives way when it asks the GPU the next time.
        while state.own_thread_runs() && state.has(ticket) {
            state = self.core.wait(state);
        }
        self.core.helpers.fetch_sub(1, Ordering::Relaxed);
        match state.runner.is_none() && state.has(ticket) {
            true => {
                state.was_helped = true;
                drop(self.core.run(state, ticket));
            }
            false => self.core.changed.notify_all(), // the stream's thread may have waited for this one
        }
    }

    fn close(&self) {
        let mut state = self.core.lock();
        state.closing = true;
        self.core.changed.notify_all();
        let this = Some(thread::current().id());
        let inside = state.runner == this || state.enqueuer == this;
        while !inside && (state.is_busy() || state.oldest().is_some()) {
            state = self.core.wait(state);
        }
        drop(state);
        let own = self
            .thread
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
            .take();
        if let Some(own) = own
            && own.thread().id() != thread::current().id()
            && !inside
        {
            // Its body catches panics, so it ends normally.
            let _ = own.join();
        }
    }
}

impl State {
    /// The oldest submission that is not complete.
    fn oldest(&self) -> Option<u64> {
        let in_flight = self.in_flight.front().map(|first| first.ticket);
        let pending = || self.pending.front().map(|first| first.ticket);
        in_flight.or(self.enqueuing).or_else(pending)
    }

    /// Whether a submission up to `ticket` is not complete.
    fn has(&self, ticket: u64) -> bool {
        self.oldest().is_some_and(|oldest| oldest <= ticket)
    }

    fn own_thread_runs(&self) -> bool {
        self.runner.is_some() && self.runner == self.own
    }

    fn is_busy(&self) -> bool {
        self.runner.is_some() || self.enqueuer.is_some()
    }
}

impl Core {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn wait<'s>(&self, state: MutexGuard<'s, State>) -> MutexGuard<'s, State> {
        self.changed
            .wait(state)
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The body of the stream's own thread.
    fn work(&self) {
        let mut state = self.lock();
        state.own = Some(thread::current().id());
        loop {
            let helped = self.helpers.load(Ordering::Relaxed) > 0;
            if state.runner.is_none() && state.oldest().is_some() && !helped {
                state = match state.was_helped {
                    true => self.leave_to_helper(state),
                    false => self.run(state, u64::MAX),
                };
            } else if state.closing && state.oldest().is_none() && state.enqueuer.is_none() {
                return;
            } else {
                state.sleeps = true;
                state = self.wait(state);
                state.sleeps = false;
            }
        }
    }

    /// Waits for a helper. Two threads that ask for events would hold each other up, and so would one of them the
    /// thread that enqueues.
    fn leave_to_helper<'s>(&'s self, state: MutexGuard<'s, State>) -> MutexGuard<'s, State> {
        let oldest = state.oldest();
        let nobody_came = |state: &mut State| state.runner.is_none() && state.oldest() == oldest;
        let waited = self.changed.wait_timeout_while(state, GRACE, nobody_came);
        let (mut state, result) = waited.unwrap_or_else(|poisoned| poisoned.into_inner());
        state.was_helped = !result.timed_out();
        state
    }

    /// Enqueues and completes submissions up to `ticket` as the runner.
    fn run<'s>(&'s self, mut state: MutexGuard<'s, State>, ticket: u64) -> MutexGuard<'s, State> {
        state.runner = Some(thread::current().id());
        while state.has(ticket) {
            state = self.enqueue_pending(state);
            state = self.complete_oldest(state);
            if state.own_thread_runs() && self.helpers.load(Ordering::Relaxed) > 0 {
                break;
            }
        }
        state.runner = None;
        self.changed.notify_all();
        state
    }

    /// Puts what is pending into the CUDA stream, unless another thread is at it.
    fn enqueue_pending<'s>(&'s self, mut state: MutexGuard<'s, State>) -> MutexGuard<'s, State> {
        if state.enqueuer.is_some() || state.pending.is_empty() {
            return state;
        }
        state.enqueuer = Some(thread::current().id());
        while state.in_flight.len() < MOST_IN_FLIGHT
            && let Some(pending) = state.pending.pop_front()
        {
            (state.taken, state.enqueuing) = (pending.ticket, Some(pending.ticket));
            let mut staging = state.staging.take().unwrap_or_else(Staging::new);
            staging.free.append(&mut state.free_slabs);
            let mut graphs = state.graphs.take().unwrap_or_default();
            let event = state.events.pop();
            drop(state);
            let in_flight = self.enqueue(pending, event, &mut staging, &mut graphs);
            state = self.lock();
            state.staging = Some(staging);
            state.graphs = Some(graphs);
            state.enqueuing = None;
            state.in_flight.push_back(in_flight);
        }
        state.enqueuer = None;
        self.enqueued.notify_all();
        if state.closing {
            self.changed.notify_all();
        }
        state
    }

    /// Begins a submission and puts its commands into the CUDA stream.
    fn enqueue(
        &self,
        pending: Pending,
        event: Option<driver::Event>,
        staging: &mut Staging,
        graphs: &mut Graphs,
    ) -> InFlight {
        let mut in_flight = InFlight {
            submission: pending.submission,
            ticket: pending.ticket,
            event,
            enqueued: Ok(()),
            slabs: Vec::new(),
            start: 0,
        };
        if !in_flight.submission.begin() {
            return in_flight;
        }
        in_flight.start = now();
        in_flight.enqueued = guarded(|| self.enqueue_commands(&mut in_flight, staging, graphs));
        graphs.launches.clear();
        in_flight.slabs = staging.take();
        in_flight
    }

    fn enqueue_commands(
        &self,
        in_flight: &mut InFlight,
        staging: &mut Staging,
        graphs: &mut Graphs,
    ) -> Result<(), Fault> {
        let context = &*self.context;
        context.still_there()?;
        let _entered = context.enter()?;
        let event = match in_flight.event {
            Some(event) => event,
            None => {
                let mut event = driver::Event(ptr::null_mut());
                // SAFETY: a place for the event.
                let status =
                    unsafe { (context.driver.event_create)(&mut event, driver::DISABLE_TIMING) };
                context.check("cuEventCreate", status)?;
                in_flight.event = Some(event);
                event
            }
        };
        let commands = in_flight.submission.commands();
        let enqueued = launch::enqueue_all(context, self.stream, staging, graphs, commands);
        // Also behind a part of the commands: what they use is not free before.
        // SAFETY: a live event and stream of this context.
        let status = unsafe { (context.driver.event_record)(event, self.stream) };
        if let Ok(true) = enqueued {
            in_flight.start = now(); // until here the GPU had none of it
        }
        enqueued?;
        context.check("cuEventRecord", status)
    }

    /// Waits for the oldest submission in flight and completes it. Returns early when there is something to enqueue.
    fn complete_oldest<'s>(&'s self, mut state: MutexGuard<'s, State>) -> MutexGuard<'s, State> {
        let Some(first) = state.in_flight.front() else {
            // Another thread is about to enqueue it.
            return match state.enqueuer {
                Some(_) => {
                    let waited = self.enqueued.wait(state);
                    waited.unwrap_or_else(|poisoned| poisoned.into_inner())
                }
                None => state,
            };
        };
        let (event, started, ticket) = (first.event, first.start != 0, first.ticket);
        let gives_way = state.own_thread_runs();
        let taken = state.taken;
        let room = state.in_flight.len() < MOST_IN_FLIGHT;
        if let (Some(event), true) = (event, started) {
            let since = match state.front {
                Some((front, since)) if front == ticket => since,
                _ => Instant::now(),
            };
            state.front = Some((ticket, since));
            drop(state);
            let taken = if room { taken } else { u64::MAX };
            let ended = self.wait_for(event, since, taken, gives_way);
            state = self.lock();
            match ended {
                None => return state,
                Some(Err(fault)) => {
                    if let Some(first) = state.in_flight.front_mut() {
                        first.enqueued =
                            std::mem::replace(&mut first.enqueued, Ok(())).and(Err(fault));
                    }
                }
                Some(Ok(())) => {}
            }
        }
        let Some(first) = state.in_flight.pop_front() else {
            return state;
        };
        state.events.extend(first.event);
        state.free_slabs.extend(first.slabs);
        drop(state);
        let times = Times {
            start: first.start,
            end: match first.start {
                0 => 0,
                _ => now(),
            },
        };
        first.submission.complete(first.enqueued, times);
        let state = self.lock();
        self.changed.notify_all();
        state
    }

    /// `None`: more than `taken` was submitted meanwhile, and the GPU can be given that; or, if it `gives_way`, a
    /// helper waits.
    fn wait_for(
        &self,
        event: driver::Event,
        since: Instant,
        taken: u64,
        gives_way: bool,
    ) -> Option<Result<(), Fault>> {
        let context = &*self.context;
        let entered = context.enter();
        if let Err(fault) = entered {
            return Some(Err(fault));
        }
        let start = Instant::now();
        loop {
            // SAFETY: a recorded event of this context.
            match unsafe { (context.driver.event_query)(event) } {
                driver::status::NOT_READY => {}
                status => return Some(context.check("a submission", status)),
            }
            let helped = gives_way && self.helpers.load(Ordering::Relaxed) > 0;
            if helped || self.newest.load(Ordering::Acquire) > taken {
                return None;
            }
            let waited = start.elapsed();
            if waited < SPIN {
                std::hint::spin_loop();
                continue;
            }
            if let Some(limit) = context.limit
                && since.elapsed() > limit
            {
                return Some(Err(context.give_up(limit)));
            }
            thread::sleep((waited / NAPS_OF_A_WAIT).clamp(NAPS.0, NAPS.1));
        }
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        let Ok(_entered) = self.context.enter() else {
            return; // the context is gone, and its streams with it
        };
        let state = self
            .state
            .get_mut()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        for event in state.events.drain(..) {
            // SAFETY: created once, and nothing waits for it.
            let _ = unsafe { (self.context.driver.event_destroy)(event) };
        }
        if let Some(graphs) = &mut state.graphs {
            graphs.destroy(&self.context);
        }
        let staged = state.staging.take().map(|staging| staging.free);
        let staged = staged.into_iter().flatten();
        for slab in staged.chain(state.free_slabs.drain(..)) {
            slab.free(&self.context);
        }
        // SAFETY: created once; what was submitted has completed.
        let _ = unsafe { (self.context.driver.stream_destroy)(self.stream) };
    }
}

/// Nanoseconds of CLOCK_MONOTONIC.
fn now() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: a place for the time; this clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
