//! A worker thread, which records a pass or most of it while the thread that asks for that submits the last one.

use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How long either thread looks for the other before it sleeps. Passes of small models follow each other sooner.
const SPIN: Duration = Duration::from_millis(1);

type Job = Box<dyn FnOnce() + Send>;

/// The thread, which is there from the first use on. Where none can be made, the one that asks does both.
#[derive(Debug, Default)]
pub(super) struct Worker {
    shared: Option<Arc<Shared>>,
    /// In which it is: the child of a fork has no such thread, and maybe a lock that nobody opens.
    process: u32,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// A job was posted or is done, or the worker is to end.
    changed: Condvar,
    /// Jobs so far.
    posted: AtomicU64,
    done: AtomicU64,
}

#[derive(Default)]
struct State {
    job: Option<Job>,
    closing: bool,
    /// Threads that sleep until something changes.
    sleeping: usize,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Shared").finish_non_exhaustive()
    }
}

impl Worker {
    /// Does `job` on the worker's thread and `body` on this one, and returns what they gave when both are done, as
    /// `join` of the crate rayon does.
    pub fn join<J: Send, B>(
        &mut self,
        job: impl FnOnce() -> J + Send,
        body: impl FnOnce() -> B,
    ) -> (J, B) {
        let Some(shared) = self.shared() else {
            return (job(), body());
        };
        let mut given = None;
        let job: Box<dyn FnOnce() + Send + '_> =
            Box::new(|| given = Some(panic::catch_unwind(AssertUnwindSafe(job))));
        // SAFETY: the two types differ in the lifetime of what the job borrows, `given` included. `Posted` waits, also
        // when `body` panics, until the job has run and is dropped; it goes before anything that the job borrows.
        let job = unsafe { std::mem::transmute::<Box<dyn FnOnce() + Send + '_>, Job>(job) };
        let posted = shared.post(job);
        let result = body();
        drop(posted);
        match given {
            Some(Ok(given)) => (given, result),
            Some(Err(panic)) => panic::resume_unwind(panic),
            None => unreachable!("the job is done"),
        }
    }

    fn shared(&mut self) -> Option<&Shared> {
        let process = std::process::id();
        if self.shared.is_none() {
            let shared = Arc::new(Shared::default());
            let own = Arc::clone(&shared);
            let thread = thread::Builder::new().name(String::from("ironbridge-record"));
            thread.spawn(move || own.work()).ok()?;
            (self.shared, self.process) = (Some(shared), process);
        }
        self.shared.as_deref().filter(|_| self.process == process)
    }
}

/// The thread has no job then, and ends soon.
impl Drop for Worker {
    fn drop(&mut self) {
        if let Some(shared) = &self.shared
            && self.process == std::process::id()
        {
            shared.lock().closing = true;
            shared.changed.notify_all();
        }
    }
}

/// A job that is not done before this is dropped.
struct Posted<'a>(&'a Shared);

impl Drop for Posted<'_> {
    fn drop(&mut self) {
        let posted = self.0.posted.load(Ordering::Relaxed);
        let is_done = || self.0.done.load(Ordering::Acquire) == posted;
        if !spin_until(is_done) {
            drop(self.0.sleep_until(|_| is_done()));
        }
    }
}

/// Whether it became true while there was hope that it does soon.
fn spin_until(is_true: impl Fn() -> bool) -> bool {
    let start = Instant::now();
    while !is_true() {
        if start.elapsed() >= SPIN {
            return false;
        }
        std::hint::spin_loop();
    }
    true
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sleep_until(&self, is_true: impl Fn(&State) -> bool) -> MutexGuard<'_, State> {
        let mut state = self.lock();
        state.sleeping += 1;
        while !is_true(&state) {
            let woken = self.changed.wait(state);
            state = woken.unwrap_or_else(PoisonError::into_inner);
        }
        state.sleeping -= 1;
        state
    }

    fn wake(&self, state: MutexGuard<'_, State>) {
        let sleeping = state.sleeping > 0;
        drop(state);
        if sleeping {
            self.changed.notify_all();
        }
    }

    fn post(&self, job: Job) -> Posted<'_> {
        let mut state = self.lock();
        state.job = Some(job);
        self.posted.fetch_add(1, Ordering::Release);
        self.wake(state);
        Posted(self)
    }

    fn work(&self) {
        loop {
            let done = self.done.load(Ordering::Relaxed);
            spin_until(|| self.posted.load(Ordering::Acquire) != done);
            let mut state = self.sleep_until(|state| state.job.is_some() || state.closing);
            let Some(job) = state.job.take() else {
                return;
            };
            drop(state);
            job();
            let state = self.lock();
            self.done.store(done + 1, Ordering::Release);
            self.wake(state);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_are_done_and_give_what_they_have() {
        let mut worker = Worker::default();
        let here = thread::current().id();
        let mut last = 0;
        for round in 0..200_u64 {
            let (job, body) = worker.join(|| (round + last, thread::current().id()), || round * 2);
            assert_eq!((job.0, body), (round + last, round * 2));
            assert_ne!(job.1, here);
            last = job.0;
            if round % 50 == 0 {
                thread::sleep(2 * SPIN); // until both threads sleep
            }
        }
    }

    #[test]
    fn a_long_job_is_waited_for() {
        let mut done = false;
        let job = || {
            thread::sleep(5 * SPIN);
            done = true;
        };
        Worker::default().join(job, || ());
        assert!(done);
    }

    /// As in the child of a fork, where the thread is not there.
    #[test]
    fn in_another_process_one_thread_does_both() {
        let mut worker = Worker::default();
        worker.join(|| (), || ());
        worker.process += 1;
        let shared = worker.shared.clone().expect("it was used");
        let _locked = shared.lock();
        let here = thread::current().id();
        assert_eq!(worker.join(|| thread::current().id(), || 2), (here, 2));
        drop(worker);
    }

    #[test]
    fn panics_reach_the_thread_that_asked() {
        let mut worker = Worker::default();
        let mut done = false;
        let panicking = AssertUnwindSafe(|| worker.join(|| panic!("a job's"), || done = true));
        let job = panic::catch_unwind(panicking).expect_err("it panics");
        assert_eq!(job.downcast_ref(), Some(&"a job's"));
        assert!(done);
        let mut done = false;
        let job = || {
            thread::sleep(5 * SPIN);
            done = true;
        };
        let panicking = AssertUnwindSafe(|| worker.join(job, || panic!("a body's")));
        assert!(panic::catch_unwind(panicking).is_err());
        assert!(done, "a job that borrows is over before the panic goes on");
        assert_eq!(worker.join(|| 1, || 2), (1, 2));
    }
}
