//! Executes submissions, one after another: on a thread of the stream's own, and, while that has not begun, on a thread
//! that waits for one of them (caller-runs). To wake a thread takes longer than many a list of commands.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::backend::Cpu;
use super::execute::{execute, runs_on_any_thread};
use super::machine::Machine;
use super::process_machine::working_machine;
use super::threads::{stack, thread_pool};
use crate::backend::fault::Fault;
use crate::backend::monitor::{Condition, Guard, Monitor};
use crate::backend::schedule;
use crate::backend::vtable::{self, Submission, Times, guarded};

/// Of the stream's thread, which calls back into the program: as much as the program's own first one has.
const STACK: usize = 8 << 20;

/// A queue of submissions.
pub struct Stream {
    shared: Arc<Shared>,
    thread: Monitor<Option<JoinHandle<()>>>,
}

struct Shared {
    state: Monitor<State>,
    /// For the stream's thread: there may be something to execute, or an end.
    work: Condition,
    /// For who closes the stream: nothing is left.
    idle: Condition,
    /// The work epoch. It grows after there may be something to execute, for a thread that spins.
    /// Who joins that thread sleeps on its address.
    epoch: AtomicU64,
}

struct State {
    pending: VecDeque<Pending>,
    /// The newest one.
    ticket: u64,
    /// Who executes a submission, or is in its callbacks.
    runner: Option<libc::pthread_t>,
    closing: bool,
}

struct Pending {
    submission: Submission<Cpu>,
    ticket: u64,
    /// Threads other than the stream's own may execute it.
    any_thread: bool,
}

impl Stream {
    /// Fails when the system has no thread left.
    pub fn new() -> Result<Stream, Fault> {
        let shared = Arc::new(Shared {
            state: Monitor::new(State {
                pending: VecDeque::new(),
                ticket: 0,
                runner: None,
                closing: false,
            }),
            work: Condition::new(),
            idle: Condition::new(),
            epoch: AtomicU64::new(0),
        });
        let own = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name(String::from("metal-queue"))
            .stack_size(STACK)
            .spawn(move || own.work())
            .map_err(|error| Fault::OutOfMemory(format!("no thread for a queue: {error}")))?;
        Ok(Stream {
            shared,
            thread: Monitor::new(Some(thread)),
        })
    }
}

impl vtable::Stream<Cpu> for Stream {
    fn submit(&self, submission: Submission<Cpu>, caller_helps: bool) -> u64 {
        let any_thread = submission
            .commands()
            .all(|command| runs_on_any_thread(&command));
        let mut state = self.shared.state.lock();
        state.ticket += 1;
        let ticket = state.ticket;
        state.pending.push_back(Pending {
            submission,
            ticket,
            any_thread,
        });
        if !caller_helps {
            self.shared.work.signal();
        }
        drop(state);
        if !caller_helps {
            // Not before: who spins then finds the mutex free.
            self.shared.epoch.fetch_add(1, Ordering::Relaxed);
        }
        ticket
    }

    fn help(&self, ticket: u64) {
        let shared = &self.shared;
        let mut next = shared.next_until(shared.state.lock(), ticket);
        while let Some(pending) = next {
            pending.run();
            next = shared.next_until(shared.finished(), ticket);
        }
    }

    fn close(&self) {
        let shared = &self.shared;
        let mut state = shared.state.lock();
        state.closing = true;
        shared.work.signal();
        let inside = state.is_runner();
        while !inside && (state.runner.is_some() || !state.pending.is_empty()) {
            state.wait(&shared.idle);
        }
        drop(state);
        shared.epoch.fetch_add(1, Ordering::Relaxed);
        let Some(own) = self.thread.lock().take() else {
            return;
        };
        if own.thread().id() != thread::current().id() {
            // Its body catches panics, so it ends normally.
            let _ = schedule::asleep(&shared.epoch, || own.join());
        }
    }
}

impl Pending {
    /// Begins, executes and completes the submission.
    fn run(self) {
        let mut submission = self.submission;
        let mut times = Times::default();
        let mut result = Ok(());
        if submission.begin() {
            times.start = now();
            result = guarded(|| submission.commands().try_for_each(execute));
            times.end = now();
        }
        submission.complete(result, times);
        schedule::point();
    }
}

impl State {
    /// Whether the calling thread is in a callback of this stream's.
    fn is_runner(&self) -> bool {
        // SAFETY: compares two threads, of which one calls.
        self.runner
            .is_some_and(|runner| unsafe { libc::pthread_equal(runner, libc::pthread_self()) } != 0)
    }

    /// What nothing keeps from being executed now.
    fn ready(&self) -> Option<&Pending> {
        self.pending.front().filter(|_| self.runner.is_none())
    }

    /// Takes what is ready, for the calling thread to execute.
    fn take(&mut self) -> Option<Pending> {
        self.ready()?;
        // SAFETY: asks who calls.
        self.runner = Some(unsafe { libc::pthread_self() });
        self.pending.pop_front()
    }
}

impl Shared {
    /// Nobody executes anything now.
    fn finished(&self) -> Guard<'_, State> {
        let mut state = self.state.lock();
        state.runner = None;
        if state.closing {
            self.idle.broadcast();
        }
        state
    }

    /// What comes next, taken, when it is not after `ticket` and the calling thread may execute it. Else nothing, and
    /// the stream's thread sees to what there is.
    fn next_until(&self, mut state: Guard<'_, State>, ticket: u64) -> Option<Pending> {
        let next = state.ready()?;
        let mine = next.ticket <= ticket
            && next.any_thread
            && stack::has_room()
            && working_machine().is_none_or(Machine::accepts_foreign_threads);
        if mine {
            return state.take();
        }
        self.work.signal();
        drop(state);
        self.epoch.fetch_add(1, Ordering::Relaxed);
        None
    }

    /// The life of the stream's thread.
    fn work(&self) {
        thread_pool::adopt_this_thread();
        // Who has just executed something is likely to get more.
        let mut next = self.next(self.state.lock(), Duration::ZERO);
        while let Some(pending) = next {
            pending.run();
            let budget =
                working_machine().map_or(Duration::ZERO, |machine| machine.pool.spin_budget());
            next = self.next(self.finished(), budget);
        }
        schedule::wake(&self.epoch);
    }

    /// What comes next, taken, or nothing when the stream is closed. Spins for as long as `budget` before it sleeps.
    fn next<'a>(&'a self, mut state: Guard<'a, State>, budget: Duration) -> Option<Pending> {
        let spins = !budget.is_zero() && !schedule::is_on();
        let end = spins.then(|| Instant::now() + budget);
        while state.ready().is_none() {
            if state.closing && state.pending.is_empty() {
                return None;
            }
            match end {
                Some(end) if Instant::now() < end => {
                    let seen = self.epoch.load(Ordering::Relaxed);
                    drop(state);
                    self.spin(seen, end);
                    state = self.state.lock();
                }
                _ => state.wait(&self.work),
            }
        }
        let next = state.take();
        drop(state);
        schedule::point();
        next
    }

    /// Until the epoch is not `seen` any more.
    fn spin(&self, seen: u64, end: Instant) {
        /// Between two readings of the clock.
        const SPINS_PER_CLOCK_READ: usize = 64;
        while Instant::now() < end {
            for _ in 0..SPINS_PER_CLOCK_READ {
                if self.epoch.load(Ordering::Relaxed) != seen {
                    return;
                }
                std::hint::spin_loop();
            }
        }
    }
}

/// Nanoseconds of `CLOCK_MONOTONIC`.
fn now() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: a place for the time.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests;
