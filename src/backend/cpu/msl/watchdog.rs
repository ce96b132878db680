//! An end for threadgroups and dispatches without end. A GPU has a watchdog too, and Metal an error for it,
//! MTLCommandBufferErrorTimeout.
//!
//! The watchdog is one thread. It looks at which threadgroup each worker is at; a worker that stays at one for too long
//! is told that it is late, and interrupted (`traps`). A worker whose dispatch takes too long is told so, and
//! interrupted as well, unless a threadgroup may take any time.
//!
//! A threadgroup's time is its thread's processor time where the system tells it: a kernel only computes, and a machine
//! that has other work, or a process that was stopped, is no reason to end a kernel that is right. A virtual machine
//! that its host held up counts that time as its threads' own, so the time between two looks counts as at most half the
//! limit.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use super::traps;

/// What a worker and the watchdog have in common.
#[derive(Default)]
pub struct Alarm {
    /// Counts the worker's threadgroups, from 1.
    turn: AtomicU64,
    /// The turn that took too long.
    late: AtomicU64,
    /// Whether the dispatch took too long.
    overdue: AtomicBool,
}

impl Alarm {
    /// Another threadgroup begins.
    pub fn next_turn(&self) {
        self.turn.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether the threadgroup that runs now has taken too long.
    pub fn is_late(&self) -> bool {
        self.late.load(Ordering::Relaxed) == self.turn.load(Ordering::Relaxed)
    }

    /// Whether the dispatch that the worker is at has taken too long.
    pub fn is_overdue(&self) -> bool {
        self.overdue.load(Ordering::Relaxed)
    }
}

struct Worker {
    alarm: Arc<Alarm>,
    thread: libc::pthread_t,
    limit: Option<Duration>,
    end: Option<Instant>,
    clock: ThreadClock,
    turn: Turn,
}

/// The threadgroup that a worker is at, as the watchdog sees it.
#[derive(Default)]
struct Turn {
    number: u64,
    /// What it took from look to look, since it was first seen.
    took: Duration,
    /// What the thread's clock said at the last look.
    clock: Duration,
}

impl Turn {
    /// Looks once more, and tells whether the turn takes longer than `limit`.
    fn is_longer(&mut self, number: u64, clock: Duration, limit: Duration) -> bool {
        let step = clock.saturating_sub(self.clock).min(limit / 2);
        self.clock = clock;
        self.took = match number == self.number {
            true => self.took.saturating_add(step),
            false => Duration::ZERO,
        };
        self.number = number;
        self.took > limit
    }
}

/// How long a thread has computed.
struct ThreadClock {
    #[cfg(target_os = "linux")]
    clock: Option<libc::clockid_t>,
    start: Instant,
}

impl ThreadClock {
    /// The calling thread's.
    fn of_this_thread() -> ThreadClock {
        ThreadClock {
            #[cfg(target_os = "linux")]
            clock: {
                let mut clock = 0;
                // SAFETY: the thread is the calling one, and `clock` is written by the call alone.
                let status =
                    unsafe { libc::pthread_getcpuclockid(libc::pthread_self(), &mut clock) };
                (status == 0).then_some(clock)
            },
            start: Instant::now(),
        }
    }

    /// Processor time, or time on the wall where the system does not tell the former.
    fn now(&self) -> Duration {
        #[cfg(target_os = "linux")]
        if let Some(clock) = self.clock {
            let mut time = libc::timespec {
                tv_sec: 0,
                tv_nsec: 0,
            };
            // SAFETY: `time` is a timespec of this frame. A clock whose thread has ended is an error.
            if unsafe { libc::clock_gettime(clock, &mut time) } == 0 {
                return Duration::new(time.tv_sec as u64, time.tv_nsec as u32);
            }
        }
        self.start.elapsed()
    }
}

#[derive(Default)]
struct State {
    workers: Vec<Worker>,
    started: bool,
    /// The watchdog waits for a worker to come.
    asleep: bool,
}

static STATE: Mutex<Option<State>> = Mutex::new(None);
static ARRIVAL: Condvar = Condvar::new();

fn lock() -> MutexGuard<'static, Option<State>> {
    STATE
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// The calling thread is watched as long as this lives.
pub struct Watch(Arc<Alarm>);

/// Has the calling thread watched: no turn of `alarm` may take longer than `limit`, nor all of them last beyond `end`.
/// `None`, when there is nothing to watch for.
pub fn watch(alarm: &Arc<Alarm>, limit: Option<Duration>, end: Option<Instant>) -> Option<Watch> {
    if limit.is_none() && end.is_none() {
        return None;
    }
    alarm.overdue.store(false, Ordering::Relaxed);
    let mut state = lock();
    let state = state.get_or_insert_default();
    let clock = ThreadClock::of_this_thread();
    state.workers.push(Worker {
        alarm: Arc::clone(alarm),
        // SAFETY: it has no preconditions.
        thread: unsafe { libc::pthread_self() },
        limit,
        end,
        turn: Turn {
            clock: clock.now(),
            ..Turn::default()
        },
        clock,
    });
    if !state.started {
        let watchdog = thread::Builder::new().name(String::from("softmetal-watch"));
        // Without the thread there is no limit, which is no reason not to run.
        state.started = watchdog.spawn(run).is_ok();
    }
    if std::mem::take(&mut state.asleep) {
        ARRIVAL.notify_one();
    }
    Some(Watch(Arc::clone(alarm)))
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(state) = &mut *lock() {
            state
                .workers
                .retain(|worker| !Arc::ptr_eq(&worker.alarm, &self.0));
        }
    }
}

fn run() {
    const LONGEST_NAP: Duration = Duration::from_millis(250);
    let mut state = lock();
    loop {
        let now = Instant::now();
        let mut nap = LONGEST_NAP;
        let inner = state.get_or_insert_default();
        for worker in &mut inner.workers {
            let turn = worker.alarm.turn.load(Ordering::Relaxed);
            let overdue = worker.end.is_some_and(|end| now >= end);
            if overdue {
                worker.alarm.overdue.store(true, Ordering::Relaxed);
            }
            if let Some(limit) = worker.limit {
                let is_longer = worker.turn.is_longer(turn, worker.clock.now(), limit);
                if overdue || is_longer {
                    worker.alarm.late.store(turn, Ordering::Relaxed);
                    // SAFETY: a worker takes itself off the list, under this lock, before its thread can end.
                    unsafe { libc::pthread_kill(worker.thread, traps::INTERRUPT) };
                }
                nap = nap.min(limit / 4).max(Duration::from_millis(1));
            }
        }
        inner.asleep = inner.workers.is_empty();
        let asleep = inner.asleep;
        state = match asleep {
            true => ARRIVAL
                .wait(state)
                .unwrap_or_else(|poisoned| poisoned.into_inner()),
            false => {
                ARRIVAL
                    .wait_timeout(state, nap)
                    .unwrap_or_else(|poisoned| poisoned.into_inner())
                    .0
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_long_by_what_it_took_between_looks() {
        let (second, limit) = (Duration::from_secs(1), Duration::from_secs(4));
        let mut turn = Turn::default();
        for clock in 1..=5 {
            assert!(!turn.is_longer(1, clock * second, limit), "{clock}");
        }
        assert!(turn.is_longer(1, 6 * second, limit));
        assert!(!turn.is_longer(2, 6 * second, limit));
        // A clock that jumps, as a machine's that was held up.
        assert!(!turn.is_longer(2, 1000 * second, limit));
        assert!(!turn.is_longer(2, 1002 * second, limit));
        assert!(turn.is_longer(2, 1003 * second, limit));
    }

    #[test]
    fn only_the_turn_that_took_too_long_is_late() {
        let alarm = Arc::new(Alarm::default());
        alarm.next_turn();
        let watch = watch(&alarm, Some(Duration::from_millis(20)), None);
        let start = Instant::now();
        while !alarm.is_late() && start.elapsed() < Duration::from_secs(30) {
            std::hint::spin_loop();
        }
        assert!(alarm.is_late());
        alarm.next_turn();
        assert!(!alarm.is_late());
        assert!(!alarm.is_overdue());
        drop(watch);
    }

    /// A thread that gets no processor, and a process that is stopped, are not late.
    #[test]
    #[cfg(target_os = "linux")]
    fn a_thread_that_waits_is_not_late() {
        let alarm = Arc::new(Alarm::default());
        alarm.next_turn();
        let watch = watch(&alarm, Some(Duration::from_millis(100)), None);
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(1) {
            thread::sleep(Duration::from_millis(50));
            assert!(!alarm.is_late());
        }
        drop(watch);
    }

    #[test]
    fn a_dispatch_is_overdue_at_its_end_whatever_its_threadgroups_do() {
        let alarm = Arc::new(Alarm::default());
        let start = Instant::now();
        let watch = watch(&alarm, None, Some(start + Duration::from_millis(20)));
        while !alarm.is_overdue() && start.elapsed() < Duration::from_secs(30) {
            alarm.next_turn();
            thread::sleep(Duration::from_millis(1));
        }
        assert!(alarm.is_overdue());
        assert!(start.elapsed() >= Duration::from_millis(20));
        drop(watch);
    }

    #[test]
    fn the_next_dispatch_begins_in_time() {
        let alarm = Arc::new(Alarm::default());
        alarm.overdue.store(true, Ordering::Relaxed);
        let end = Instant::now() + Duration::from_secs(3600);
        let watch = watch(&alarm, None, Some(end));
        assert!(watch.is_some() && !alarm.is_overdue());
    }
}
