//! The threads that compute, shared by every queue of the process.
//!
//! A call of [`ComputePool::parallel_for`] is a job of numbered chunks. The calling thread works on its own job, and idle threads of the
//! pool help; so a job never waits for a free thread, whoever calls: several queues at once, or a chunk of another job.

use std::any::Any;
use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

/// How many threads compute; a whole number from 1 to [`MAX_THREADS`].
pub const THREADS_VARIABLE: &str = "IRONBRIDGE_THREADS";
const MAX_THREADS: usize = 1024;

/// The number of threads that the environment asks for, else one for each processor that this process may use.
pub fn configured_threads() -> Result<usize, String> {
    match std::env::var_os(THREADS_VARIABLE) {
        Some(text) => parse_threads(&text.to_string_lossy()),
        None => Ok(thread::available_parallelism().map_or(1, NonZeroUsize::get)),
    }
}

fn parse_threads(text: &str) -> Result<usize, String> {
    match text.trim().parse() {
        Ok(threads) if (1..=MAX_THREADS).contains(&threads) => Ok(threads),
        _ => Err(format!(
            "{THREADS_VARIABLE} is {text:?}; it must be a whole number from 1 to {MAX_THREADS}"
        )),
    }
}

pub struct ComputePool {
    shared: Arc<Shared>,
    helpers: Vec<thread::JoinHandle<()>>,
}

struct Shared {
    state: Mutex<State>,
    /// Signalled when a job arrives or the pool closes.
    work: Condvar,
}

struct State {
    /// Jobs that may still have unclaimed chunks, oldest first.
    jobs: VecDeque<Arc<Job>>,
    closing: bool,
}

struct Job {
    /// Borrowed from the stack of the thread in `parallel_for`, which stays there until `remaining` is 0.
    body: *const (dyn Fn(usize) + Sync),
    chunks: usize,
    /// The next chunk to claim; at or above `chunks` when none is left.
    next: AtomicUsize,
    outcome: Mutex<Outcome>,
    /// Signalled when the last chunk ends.
    finished: Condvar,
}

struct Outcome {
    remaining: usize,
    panic: Option<Box<dyn Any + Send>>,
}

// SAFETY: `body` points to a `Sync` closure and is only followed by a thread that has claimed a chunk, while `parallel_for` waits for that
// chunk to end; everything else in a job is Send and Sync.
unsafe impl Send for Job {}
// SAFETY: as above.
unsafe impl Sync for Job {}

impl ComputePool {
    /// A pool in which `threads` threads compute: the caller of `parallel_for` and `threads - 1` helpers. When the system refuses a
    /// thread, the pool has fewer.
    pub fn new(threads: usize) -> ComputePool {
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                jobs: VecDeque::new(),
                closing: false,
            }),
            work: Condvar::new(),
        });
        let helpers = (1..threads)
            .map_while(|index| {
                let shared = Arc::clone(&shared);
                thread::Builder::new()
                    .name(format!("softmetal-{index}"))
                    .spawn(move || shared.help())
                    .ok()
            })
            .collect();
        ComputePool { shared, helpers }
    }

    /// How many threads can work on one job.
    pub fn threads(&self) -> usize {
        self.helpers.len() + 1
    }

    /// Calls `body` once with each of `0..chunks`, in no order, on several threads, and returns when all calls have. Chunks are
    /// claimed one at a time by whoever is free; as many chunks as threads gives a static partition.
    ///
    /// # Panics
    /// When `body` panicked, with the payload of the first panic, after the other chunks have ended.
    pub fn parallel_for(&self, chunks: usize, body: impl Fn(usize) + Sync) {
        if chunks <= 1 || self.helpers.is_empty() {
            (0..chunks).for_each(body);
            return;
        }
        let body: &(dyn Fn(usize) + Sync) = &body;
        // SAFETY: only the lifetime changes. `Job::body` says why nobody follows the pointer after this function has returned.
        let body: &'static (dyn Fn(usize) + Sync) = unsafe { std::mem::transmute(body) };
        let job = Arc::new(Job {
            body,
            chunks,
            next: AtomicUsize::new(0),
            outcome: Mutex::new(Outcome {
                remaining: chunks,
                panic: None,
            }),
            finished: Condvar::new(),
        });
        lock(&self.shared.state).jobs.push_back(Arc::clone(&job));
        if chunks - 1 < self.helpers.len() {
            (1..chunks).for_each(|_| self.shared.work.notify_one());
        } else {
            self.shared.work.notify_all();
        }

        job.work();
        self.shared.forget(&job);
        let mut outcome = lock(&job.outcome);
        while outcome.remaining > 0 {
            outcome = job
                .finished
                .wait(outcome)
                .unwrap_or_else(PoisonError::into_inner);
        }
        if let Some(payload) = outcome.panic.take() {
            drop(outcome);
            resume_unwind(payload);
        }
    }
}

impl Drop for ComputePool {
    fn drop(&mut self) {
        lock(&self.shared.state).closing = true;
        self.shared.work.notify_all();
        for helper in self.helpers.drain(..) {
            // A helper catches the panics of chunks, so it ends normally.
            let _ = helper.join();
        }
    }
}

impl Shared {
    /// A helper's life: works on the oldest job until the pool closes.
    fn help(&self) {
        let mut state = lock(&self.state);
        loop {
            if let Some(job) = state.jobs.front().cloned() {
                drop(state);
                job.work();
                self.forget(&job);
                state = lock(&self.state);
            } else if state.closing {
                return;
            } else {
                state = self
                    .work
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    /// Takes a job whose chunks are all claimed off the list.
    fn forget(&self, job: &Arc<Job>) {
        lock(&self.state)
            .jobs
            .retain(|listed| !Arc::ptr_eq(listed, job));
    }
}

impl Job {
    /// Runs unclaimed chunks until there is none left.
    fn work(&self) {
        loop {
            let chunk = self.next.fetch_add(1, Ordering::Relaxed);
            if chunk >= self.chunks {
                return;
            }
            // SAFETY: the chunk just claimed is unfinished, so the thread in `parallel_for` is still there and so is its closure.
            let body = unsafe { &*self.body };
            let result = catch_unwind(AssertUnwindSafe(|| body(chunk)));
            // The mutex also makes what the chunk wrote visible to the thread that waits.
            let mut outcome = lock(&self.outcome);
            outcome.remaining -= 1;
            if let Err(payload) = result {
                outcome.panic.get_or_insert(payload);
            }
            if outcome.remaining == 0 {
                self.finished.notify_all();
            }
        }
    }
}

/// Nothing that runs under these locks panics half-way through a change, so a poisoned one is as good as any.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_chunk_runs_once() {
        for threads in [1, 2, 5] {
            let pool = ComputePool::new(threads);
            for chunks in [0, 1, 2, 3, 64, 1000] {
                let runs: Vec<AtomicUsize> = (0..chunks).map(|_| AtomicUsize::new(0)).collect();
                pool.parallel_for(chunks, |chunk| {
                    runs[chunk].fetch_add(1, Ordering::Relaxed);
                });
                assert!(runs.iter().all(|runs| runs.load(Ordering::Relaxed) == 1));
            }
        }
    }

    #[test]
    fn several_callers_share_a_pool() {
        let pool = ComputePool::new(3);
        let total = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        pool.parallel_for(7, |chunk| {
                            total.fetch_add(chunk, Ordering::Relaxed);
                        });
                    }
                });
            }
        });
        assert_eq!(total.into_inner(), 4 * 200 * 21);
    }

    #[test]
    fn calls_may_nest() {
        let pool = ComputePool::new(2);
        let total = AtomicUsize::new(0);
        pool.parallel_for(8, |_| {
            pool.parallel_for(8, |_| {
                pool.parallel_for(2, |_| {
                    total.fetch_add(1, Ordering::Relaxed);
                });
            });
        });
        assert_eq!(total.into_inner(), 128);
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_pool_lives_on() {
        let pool = ComputePool::new(2);
        let ran = AtomicUsize::new(0);
        let result = catch_unwind(AssertUnwindSafe(|| {
            pool.parallel_for(16, |chunk| {
                ran.fetch_add(1, Ordering::Relaxed);
                assert_ne!(chunk, 3, "planted");
            });
        }));
        let payload = result.expect_err("the panic is handed on");
        let text = payload.downcast_ref::<String>().expect("a message");
        assert!(text.contains("planted"), "{text}");
        assert_eq!(ran.into_inner(), 16);

        let after = AtomicUsize::new(0);
        pool.parallel_for(16, |_| {
            after.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(after.into_inner(), 16);
    }

    #[test]
    fn the_number_of_threads_is_checked() {
        assert_eq!(parse_threads("3"), Ok(3));
        for text in ["", "0", "-1", "two", "1025", "1.5"] {
            let error = parse_threads(text).expect_err(text);
            assert!(error.contains(THREADS_VARIABLE), "{error}");
        }
    }
}
