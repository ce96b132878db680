//! The threads that compute, shared by every queue of the process.
//!
//! A call of [`ThreadPool::parallel_for`] is a job of numbered chunks. The calling thread works on its own job, and
//! idle threads of the pool help; so a job never waits for a free thread. Several queues may call at once, or a
//! chunk of another job.
//!
//! Kernels follow one another within microseconds, and waking a thread takes as long as many of them. So a thread
//! without work spins ([`SPIN`]) before it sleeps. While threads are awake, a job takes no lock and allocates nothing.
//!
//! How many threads there are and on which processors they run can change at any time.

use std::any::Any;
use std::cell::{Cell, UnsafeCell};
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::affinity::{self, PinError};

/// How many threads compute; a whole number from 1 to [`MAX_THREADS`].
pub const THREADS_VARIABLE: &str = "IRONBRIDGE_THREADS";
pub const MAX_THREADS: usize = 1024;

/// The spin budget of a thread without work, or at the end of its job: longer than from one kernel to the next, and too
/// short to show in the processor's use.
const SPIN: Duration = Duration::from_micros(300);
/// The spin budget of a thread that brings jobs or waits for their ends, while a processor is spare: a few times what
/// it takes to wake a virtual processor.
const WAIT_SPIN: Duration = Duration::from_micros(500);
/// Jobs that can have helpers at one time. Further ones are done by their callers alone.
const SLOTS: usize = 16;
/// No processor.
const NO_CORE: usize = usize::MAX;

thread_local! {
    /// The placement epoch that this thread has applied, if it is one of the device's own, which bring jobs; 0: none
    /// yet.
    static APPLIED_EPOCH: Cell<Option<usize>> = const { Cell::new(None) };
    /// The reserved core that it was pinned to since then, because it had work for several threads.
    static PINNED_CORE: Cell<usize> = const { Cell::new(NO_CORE) };
}

/// Marks the calling thread, which brings jobs, as the device's own: it may be pinned. The program's threads are at
/// most moved.
pub fn adopt_this_thread() {
    APPLIED_EPOCH.set(Some(APPLIED_EPOCH.get().unwrap_or(0)));
}

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

pub struct ThreadPool {
    shared: Arc<Shared>,
    workers: Mutex<Workers>,
    /// The placement epoch: grows with every change of affinity; 0 before the first. No two pools share a number.
    placement_epoch: AtomicUsize,
    /// The reserved core, which no helper is pinned to, where helpers have the others; else [`NO_CORE`].
    reserved_core: AtomicUsize,
    /// Whether the compute threads were pinned by a call or the environment.
    pinned: AtomicBool,
}

/// The workers and their affinity.
struct Workers {
    /// Helper `i` at `i - 1`: the caller of a job is thread 0 of it.
    helpers: Vec<thread::JoinHandle<()>>,
    /// The processors that threads were asked to be pinned to, round-robin. Empty: any. `None`: nothing was asked.
    cpuset: Option<Vec<usize>>,
    /// Those of them for the threads that bring jobs.
    callers: Vec<usize>,
}

struct Shared {
    slots: [Slot; SLOTS],
    /// Helpers that sleep, or are about to. Counted under `sleep`, before the last check for work.
    sleepers: AtomicUsize,
    sleep: Mutex<()>,
    /// Signalled when a job arrives or the number of threads changes.
    work: Condvar,
    /// How many threads work on one job. A helper of that index or above it ends.
    threads: AtomicUsize,
    /// Not when there are more threads than processors: a spinning thread then keeps others from working.
    spins: AtomicBool,
    /// Whether there are fewer threads than processors.
    spare: AtomicBool,
}

/// A place for a job. Its caller has taken it; helpers enter while it is open.
struct Slot {
    taken: AtomicBool,
    open: AtomicBool,
    /// Helpers inside. A helper enters by counting itself and then seeing the slot open; the caller closes it, and then
    /// waits for zero.
    helpers: AtomicUsize,
    /// The next chunk to claim; at or above `chunks` when none is left.
    next: AtomicUsize,
    chunks: AtomicUsize,
    job: UnsafeCell<Job>,
    panicked: AtomicBool,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    /// Whether the caller sleeps until the last helper has left. Set under `sleep`, before the last check.
    waiting: AtomicBool,
    sleep: Mutex<()>,
    left: Condvar,
}

#[derive(Clone, Copy)]
struct Job {
    /// Borrowed from the stack of the thread in `parallel_for`, which stays there while a helper is inside.
    body: *const (dyn Fn(usize) + Sync),
    chunks: usize,
}

// SAFETY: `job` is written by the slot's taker while it is closed, and read by helpers that saw it open, which the
// taker waits for; its `body` points to a `Sync` closure. Everything else in a slot is Send and Sync.
unsafe impl Send for Slot {}
// SAFETY: as above.
unsafe impl Sync for Slot {}

impl ThreadPool {
    /// A pool in which `threads` threads compute: the caller of `parallel_for` and `threads - 1` helpers. When the
    /// system refuses a thread, the pool has fewer.
    pub fn new(threads: usize) -> ThreadPool {
        let pool = ThreadPool {
            shared: Arc::new(Shared {
                slots: std::array::from_fn(|_| Slot::new()),
                sleepers: AtomicUsize::new(0),
                sleep: Mutex::new(()),
                work: Condvar::new(),
                threads: AtomicUsize::new(1),
                spins: AtomicBool::new(true),
                spare: AtomicBool::new(false),
            }),
            workers: Mutex::new(Workers {
                helpers: Vec::new(),
                cpuset: None,
                callers: Vec::new(),
            }),
            placement_epoch: AtomicUsize::new(0),
            reserved_core: AtomicUsize::new(NO_CORE),
            pinned: AtomicBool::new(false),
        };
        pool.set_threads(threads);
        pool
    }

    /// How many threads can work on one job.
    pub fn threads(&self) -> usize {
        self.shared.threads.load(Ordering::Relaxed)
    }

    /// The spin budget of threads that bring jobs or wait for their ends.
    pub fn spin_budget(&self) -> Duration {
        match self.shared.spare.load(Ordering::Relaxed) {
            true => WAIT_SPIN,
            false => Duration::ZERO,
        }
    }

    /// Changes the number of threads, of jobs that have not begun, and returns what it is then: less when the system
    /// refuses a thread. Waits for helpers that are too many, until the ends of the jobs that they are at; so no job
    /// may call this.
    pub fn set_threads(&self, threads: usize) -> usize {
        let mut workers = lock(&self.workers);
        let wanted = threads.clamp(1, MAX_THREADS) - 1;
        self.shared.set_threads(wanted + 1);
        let kept = wanted.min(workers.helpers.len());
        for helper in workers.helpers.drain(kept..) {
            // A helper catches the panics of chunks, so it ends normally.
            let _ = helper.join();
        }
        for index in workers.helpers.len() + 1..=wanted {
            let shared = Arc::clone(&self.shared);
            let helper = thread::Builder::new()
                .name(format!("softmetal-{index}"))
                .spawn(move || shared.help(index));
            let Ok(helper) = helper else {
                break;
            };
            workers.helpers.push(helper);
        }
        self.shared.set_threads(workers.helpers.len() + 1);
        // The set was allowed before. What the system forbids since then is no reason not to compute.
        let _ = self.place(&mut workers);
        workers.helpers.len() + 1
    }

    /// Pins each helper to one of `cpuset`, round-robin, and the threads that bring jobs to those that no helper has,
    /// if any. An empty set: every thread may run on every processor of the process again.
    pub fn pin(&self, cpuset: &[usize]) -> Result<(), PinError> {
        affinity::check(cpuset)?;
        let mut workers = lock(&self.workers);
        if workers.cpuset.as_deref() == Some(cpuset) {
            return Ok(());
        }
        workers.cpuset = Some(cpuset.to_vec());
        self.place(&mut workers)
    }

    /// Whether foreign threads, which cannot be pinned, may bring jobs: not where the compute threads were pinned on
    /// request.
    pub fn accepts_foreign_threads(&self) -> bool {
        !self.pinned.load(Ordering::Relaxed)
    }

    /// Applies [`ThreadPool::pin`] to the calling thread, if it is one of the device's own. It reads one number,
    /// unless that has changed.
    pub fn place_caller(&self) {
        let Some(applied) = APPLIED_EPOCH.get() else {
            return;
        };
        let number = self.placement_epoch.load(Ordering::Relaxed);
        if applied != number {
            APPLIED_EPOCH.set(Some(number));
            PINNED_CORE.set(NO_CORE);
            // As with new helpers.
            let _ = affinity::pin_this_thread(&lock(&self.workers).callers);
        }
    }

    /// Moves a thread that brings a job for several threads to the reserved core: until the next placement, or, if it
    /// is not the device's own, for as long as the system leaves it there.
    fn move_to_reserved_core(&self) {
        let reserved_core = self.reserved_core.load(Ordering::Relaxed);
        if reserved_core == NO_CORE {
            return;
        }
        match APPLIED_EPOCH.get() {
            None => affinity::move_this_thread(reserved_core),
            Some(_) if PINNED_CORE.replace(reserved_core) == reserved_core => {}
            Some(_) => {
                // As with new helpers.
                let _ = affinity::pin_this_thread(&[reserved_core]);
            }
        }
    }

    /// Pins the helpers as `workers` says, and callers at their next job. If nothing was asked, and there are as many
    /// threads as processors, each helper gets a processor of its own: a thread that slept may else be woken on a busy
    /// processor, though one is idle. Threads that bring jobs, of which there may be several, stay free as long as
    /// their jobs are for one thread.
    fn place(&self, workers: &mut Workers) -> Result<(), PinError> {
        /// The number of the newest placement of any pool.
        static NEWEST: AtomicUsize = AtomicUsize::new(0);
        let any = match affinity::allowed() {
            Err(_) if workers.cpuset.is_none() => return Ok(()),
            any => any?,
        };
        let spread =
            workers.cpuset.is_none() && any.len() > 1 && workers.helpers.len() + 1 == any.len();
        let cpuset = match &workers.cpuset {
            Some(cpuset) => cpuset.as_slice(),
            None if spread => any,
            None => &[],
        };
        let count = cpuset.len();
        let mut callers = cpuset.to_vec();
        for (index, helper) in (1..).zip(&workers.helpers) {
            let place = match count {
                0 => any,
                _ => &cpuset[index % count..][..1],
            };
            affinity::pin_thread(helper, place)?;
            callers.retain(|processor| !place.contains(processor));
        }
        workers.callers = match spread || count == 0 {
            true => any.to_vec(),
            false if callers.is_empty() => cpuset.to_vec(),
            false => callers,
        };
        self.pinned.store(!spread && count > 0, Ordering::Relaxed);
        let reserved_core = if spread { any[0] } else { NO_CORE };
        self.reserved_core.store(reserved_core, Ordering::Relaxed);
        let number = NEWEST.fetch_add(1, Ordering::Relaxed) + 1;
        self.placement_epoch.store(number, Ordering::Relaxed);
        Ok(())
    }

    /// Calls `body` once with each of `0..chunks`, in no order, on several threads, and returns when all calls have.
    /// Free threads claim one chunk at a time; as many chunks as threads gives a static partition.
    ///
    /// # Panics
    /// When `body` panicked, with the payload of the first panic, after the other chunks have ended.
    pub fn parallel_for(&self, chunks: usize, body: impl Fn(usize) + Sync) {
        let free = |slot: &&Slot| !slot.taken.swap(true, Ordering::Acquire);
        let slot = match chunks <= 1 || self.threads() <= 1 {
            true => None,
            false => self.shared.slots.iter().find(free),
        };
        let Some(slot) = slot else {
            (0..chunks).for_each(body);
            return;
        };
        self.move_to_reserved_core();
        let body: &(dyn Fn(usize) + Sync) = &body;
        // SAFETY: only the lifetime changes. `Slot::job` says why nobody follows the pointer after this function has
        // returned.
        let body: &'static (dyn Fn(usize) + Sync) = unsafe { std::mem::transmute(body) };
        // SAFETY: the slot is ours and closed.
        unsafe { slot.job.get().write(Job { body, chunks }) };
        slot.next.store(0, Ordering::Relaxed);
        slot.chunks.store(chunks, Ordering::Relaxed);
        slot.open.store(true, Ordering::SeqCst);
        self.shared.wake(chunks - 1);

        slot.work(Job { body, chunks });
        slot.open.store(false, Ordering::SeqCst);
        slot.wait_for_helpers(self.shared.spin());
        let panic = match slot.panicked.swap(false, Ordering::Relaxed) {
            true => lock(&slot.panic).take(),
            false => None,
        };
        slot.taken.store(false, Ordering::Release);
        if let Some(payload) = panic {
            resume_unwind(payload);
        }
    }
}

impl Drop for ThreadPool {
    fn drop(&mut self) {
        self.set_threads(1);
    }
}

impl Shared {
    /// Helpers whose index is not below `threads` end at their next check for work.
    fn set_threads(&self, threads: usize) {
        let processors = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        self.spins.store(threads <= processors, Ordering::Relaxed);
        self.spare.store(threads < processors, Ordering::Relaxed);
        self.threads.store(threads, Ordering::SeqCst);
        drop(lock(&self.sleep));
        self.work.notify_all();
    }

    fn spin(&self) -> Duration {
        match self.spins.load(Ordering::Relaxed) {
            true => SPIN,
            false => Duration::ZERO,
        }
    }

    /// The life of helper `index`: works on whatever slot is open until it is one too many.
    fn help(&self, index: usize) {
        let superfluous = || index >= self.threads.load(Ordering::SeqCst);
        while !superfluous() {
            if self.help_once() {
                continue;
            }
            let found = spin_until(self.spin(), || {
                superfluous() || self.slots.iter().any(Slot::has_work)
            });
            if found {
                continue;
            }
            let mut guard = lock(&self.sleep);
            self.sleepers.fetch_add(1, Ordering::SeqCst);
            while !superfluous() && !self.slots.iter().any(Slot::has_work) {
                guard = self
                    .work
                    .wait(guard)
                    .unwrap_or_else(PoisonError::into_inner);
            }
            self.sleepers.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Whether there was a job to help with.
    fn help_once(&self) -> bool {
        let mut helped = false;
        for slot in &self.slots {
            if !slot.has_work() {
                continue;
            }
            slot.helpers.fetch_add(1, Ordering::SeqCst);
            if slot.open.load(Ordering::SeqCst) {
                // SAFETY: the slot was seen open by a helper that is counted, so its job is written and stays.
                slot.work(unsafe { slot.job.get().read() });
                helped = true;
            }
            if slot.helpers.fetch_sub(1, Ordering::SeqCst) == 1
                && slot.waiting.load(Ordering::SeqCst)
            {
                drop(lock(&slot.sleep));
                slot.left.notify_all();
            }
        }
        helped
    }

    /// Wakes helpers that sleep, at most `count`. One that is about to sleep either sees the open slot or is seen here:
    /// both sides write before they read.
    fn wake(&self, count: usize) {
        let sleepers = self.sleepers.load(Ordering::SeqCst);
        if sleepers > 0 {
            drop(lock(&self.sleep));
            (0..count.min(sleepers)).for_each(|_| self.work.notify_one());
        }
    }
}

impl Slot {
    fn new() -> Slot {
        Slot {
            taken: AtomicBool::new(false),
            open: AtomicBool::new(false),
            helpers: AtomicUsize::new(0),
            next: AtomicUsize::new(0),
            chunks: AtomicUsize::new(0),
            job: UnsafeCell::new(Job {
                body: &|_| {},
                chunks: 0,
            }),
            panicked: AtomicBool::new(false),
            panic: Mutex::new(None),
            waiting: AtomicBool::new(false),
            sleep: Mutex::new(()),
            left: Condvar::new(),
        }
    }

    /// Whether a helper should enter. One whose chunks are all claimed is about to be closed.
    fn has_work(&self) -> bool {
        self.open.load(Ordering::SeqCst)
            && self.next.load(Ordering::Relaxed) < self.chunks.load(Ordering::Relaxed)
    }

    /// Runs unclaimed chunks until there is none left.
    fn work(&self, job: Job) {
        loop {
            let chunk = self.next.fetch_add(1, Ordering::Relaxed);
            if chunk >= job.chunks {
                return;
            }
            // SAFETY: the caller's closure is there until every helper inside has left, and the caller is in
            // `parallel_for`.
            let body = unsafe { &*job.body };
            if let Err(payload) = catch_unwind(AssertUnwindSafe(|| body(chunk))) {
                lock(&self.panic).get_or_insert(payload);
                self.panicked.store(true, Ordering::Relaxed);
            }
        }
    }

    /// Waits until no helper is inside. Their counting down makes what they wrote visible.
    fn wait_for_helpers(&self, spin: Duration) {
        let alone = || self.helpers.load(Ordering::SeqCst) == 0;
        if spin_until(spin, alone) {
            return;
        }
        let mut guard = lock(&self.sleep);
        self.waiting.store(true, Ordering::SeqCst);
        while !alone() {
            guard = self
                .left
                .wait(guard)
                .unwrap_or_else(PoisonError::into_inner);
        }
        self.waiting.store(false, Ordering::SeqCst);
    }
}

/// Spins until `done`, for at most `limit` and at least one check. Returns whether it was done.
fn spin_until(limit: Duration, done: impl Fn() -> bool) -> bool {
    /// Polls between two readings of the clock.
    const POLLS: usize = 64;
    let start = Instant::now();
    loop {
        for _ in 0..POLLS {
            if done() {
                return true;
            }
            if limit.is_zero() {
                return false;
            }
            std::hint::spin_loop();
        }
        if start.elapsed() >= limit {
            return false;
        }
    }
}

/// Nothing that runs under these locks panics half-way through a change, so a poisoned one is as good as any.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::alloc::{GlobalAlloc, Layout, System};

    use super::*;

    #[test]
    fn every_chunk_runs_once() {
        for threads in [1, 2, 5] {
            let pool = ThreadPool::new(threads);
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
    fn spinning_takes_a_spare_processor() {
        let processors = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let pool = ThreadPool::new(processors);
        assert_eq!(pool.spin_budget(), Duration::ZERO);
        if processors > 1 {
            pool.set_threads(processors - 1);
            assert_eq!(pool.spin_budget(), WAIT_SPIN);
        }
        pool.set_threads(processors + 1);
        assert_eq!(pool.spin_budget(), Duration::ZERO);
    }

    #[test]
    fn several_callers_share_a_pool() {
        let pool = ThreadPool::new(3);
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
        let pool = ThreadPool::new(2);
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
        let pool = ThreadPool::new(2);
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
    fn more_callers_than_slots_and_more_threads_than_processors() {
        let pool = ThreadPool::new(12);
        let total = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..2 * SLOTS {
                scope.spawn(|| {
                    for chunks in 0..100 {
                        pool.parallel_for(chunks, |_| {
                            total.fetch_add(1, Ordering::Relaxed);
                        });
                    }
                });
            }
        });
        assert_eq!(total.into_inner(), 2 * SLOTS * 99 * 100 / 2);
    }

    #[test]
    fn what_helpers_wrote_is_seen_by_the_caller() {
        let pool = ThreadPool::new(3);
        let mut values = vec![0usize; 64];
        for round in 1..2000 {
            let pointer = values.as_mut_ptr().expose_provenance();
            pool.parallel_for(64, |chunk| {
                let place = std::ptr::with_exposed_provenance_mut::<usize>(pointer);
                // SAFETY: each chunk has a place of its own, which outlives the job.
                unsafe { place.add(chunk).write(round) };
            });
            assert!(values.iter().all(|value| *value == round));
        }
    }

    /// Counts the calling thread's allocations.
    struct Counting;

    thread_local! {
        static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
    }

    // SAFETY: everything is the system's allocator's.
    unsafe impl GlobalAlloc for Counting {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            // A thread's last allocations come after its thread-local variables.
            let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
            // SAFETY: the caller's promise.
            unsafe { System.alloc(layout) }
        }

        unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
            // SAFETY: as above.
            unsafe { System.dealloc(pointer, layout) }
        }
    }

    #[global_allocator]
    static COUNTING: Counting = Counting;

    #[test]
    fn a_job_allocates_nothing() {
        thread_local! {
            static AT_FIRST: Cell<Option<usize>> = const { Cell::new(None) };
        }
        let pool = ThreadPool::new(3);
        let more = AtomicUsize::new(0);
        let before = ALLOCATIONS.get();
        for _ in 0..1000 {
            pool.parallel_for(12, |_| {
                let now = ALLOCATIONS.get();
                let first = AT_FIRST.get().unwrap_or(now);
                AT_FIRST.set(Some(first));
                more.fetch_add(now - first, Ordering::Relaxed);
            });
        }
        assert_eq!(ALLOCATIONS.get(), before);
        assert_eq!(more.into_inner(), 0, "by helpers");
    }

    #[test]
    fn the_number_of_threads_changes_while_jobs_run() {
        let pool = ThreadPool::new(2);
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while !done.load(Ordering::Relaxed) {
                        let total = AtomicUsize::new(0);
                        pool.parallel_for(9, |chunk| {
                            total.fetch_add(chunk, Ordering::Relaxed);
                        });
                        assert_eq!(total.into_inner(), 36);
                    }
                });
            }
            for round in 0..200 {
                let threads = 1 + round * 5 % 7;
                assert_eq!(pool.set_threads(threads), threads);
                assert_eq!(pool.threads(), threads);
                thread::yield_now();
            }
            done.store(true, Ordering::Relaxed);
        });
        assert_eq!(lock(&pool.workers).helpers.len(), pool.threads() - 1);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn idle_threads_use_no_processor() {
        let pool = ThreadPool::new(4);
        pool.parallel_for(64, |_| thread::sleep(Duration::from_micros(10)));
        // On a busy machine a helper may get a processor for its last check only much later.
        let start = Instant::now();
        loop {
            let before = helpers_time(&pool);
            thread::sleep(Duration::from_millis(300));
            let after = helpers_time(&pool);
            if after == before {
                break;
            }
            assert!(
                start.elapsed() < Duration::from_secs(10),
                "{before:?} became {after:?}"
            );
        }
    }

    /// What the helpers have used of the processors so far.
    #[cfg(target_os = "linux")]
    fn helpers_time(pool: &ThreadPool) -> Duration {
        use std::os::unix::thread::JoinHandleExt;
        let mut total = Duration::ZERO;
        for helper in &lock(&pool.workers).helpers {
            let mut clock = 0;
            let mut time = libc::timespec {
                tv_sec: 0,
                tv_nsec: 0,
            };
            // SAFETY: the helper runs, and both cpuset are of the types that are written.
            unsafe {
                assert_eq!(
                    libc::pthread_getcpuclockid(helper.as_pthread_t(), &mut clock),
                    0
                );
                assert_eq!(libc::clock_gettime(clock, &mut time), 0);
            }
            total += Duration::new(time.tv_sec as u64, time.tv_nsec as u32);
        }
        total
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
