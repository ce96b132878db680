//! An end for native kernels that are asked for more than anybody waits for: rows may overlap, so a few gigabytes are
//! enough for a product that takes years.
//!
//! The thread that runs a dispatch keeps its end. Work for several threads ([`Machine::for_ranges`]) begins only in
//! time, and where it is long it is done in pieces, each of them begun in time.
//!
//! [`Machine::for_ranges`]: super::machine::Machine::for_ranges

use std::cell::Cell;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::backend::fault::Fault;
use crate::backend::time_limit::DISPATCH;

/// Work, in multiply-adds, that is always done in one piece: a second, or ten of them where it is slow.
pub const PIECE: usize = 1 << 34;

#[derive(Clone, Copy)]
enum State {
    /// No limit, or no dispatch.
    Free,
    /// Begun just now: the clock need not be read.
    New(Instant),
    Until(Instant),
    Over,
}

thread_local! {
    static STATE: Cell<State> = const { Cell::new(State::Free) };
}

/// Runs a dispatch on the calling thread, which may take that long; `None`: for ever.
pub fn run(limit: Option<Duration>, body: impl FnOnce() -> Result<(), Fault>) -> Result<(), Fault> {
    /// What there was before, also after a panic.
    struct Restore(State);
    impl Drop for Restore {
        fn drop(&mut self) {
            STATE.set(self.0);
        }
    }
    let end = limit.and_then(|limit| Instant::now().checked_add(limit));
    let _restore = Restore(STATE.replace(end.map_or(State::Free, State::New)));
    body()?;
    match (STATE.get(), limit) {
        (State::Over, Some(limit)) => Err(Fault::Timeout(format!(
            "it took more than {limit:?} ({})",
            DISPATCH.variable
        ))),
        _ => Ok(()),
    }
}

/// The end of the dispatch that the calling thread runs, as the threads that help it see it.
pub struct Watch {
    end: Option<Instant>,
    over: AtomicBool,
}

impl Watch {
    pub fn begin() -> Watch {
        let (end, over) = match STATE.get() {
            State::Free => (None, false),
            State::New(end) => (Some(end), false),
            State::Until(end) => (Some(end), Instant::now() >= end),
            State::Over => (None, true),
        };
        Watch {
            end,
            over: AtomicBool::new(over),
        }
    }

    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Calls `body` with all of `range`, at most `longest` items at a time, until time is over.
    pub fn in_pieces(&self, range: Range<usize>, longest: usize, body: impl Fn(Range<usize>)) {
        if range.len() <= longest {
            return body(range);
        }
        for start in range.clone().step_by(longest) {
            if self.end.is_some_and(|end| Instant::now() >= end) {
                self.over.store(true, Ordering::Relaxed);
            }
            if self.is_over() {
                return;
            }
            body(start..range.end.min(start.saturating_add(longest)));
        }
    }

    /// For the thread that began.
    pub fn end(self) {
        match self.end {
            _ if self.over.into_inner() => STATE.set(State::Over),
            Some(end) => STATE.set(State::Until(end)),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::{iter, thread};

    use super::*;

    const LONG: Duration = Duration::from_secs(3600);

    fn pieces(watch: &Watch, range: Range<usize>, longest: usize) -> Vec<Range<usize>> {
        let seen = Mutex::new(Vec::new());
        watch.in_pieces(range, longest, |piece| {
            seen.lock().expect("one thread").push(piece)
        });
        seen.into_inner().expect("one thread")
    }

    #[test]
    fn the_pieces_are_the_range() {
        let watch = Watch::begin();
        assert_eq!(pieces(&watch, 3..10, 3), [3..6, 6..9, 9..10]);
        assert_eq!(
            pieces(&watch, 3..10, 7),
            iter::once(3..10).collect::<Vec<_>>()
        );
        assert_eq!(
            pieces(&watch, 0..10, usize::MAX),
            iter::once(0..10).collect::<Vec<_>>()
        );
        let most = usize::MAX;
        assert_eq!(
            pieces(&watch, most - 5..most, 3),
            [most - 5..most - 2, most - 2..most]
        );
    }

    #[test]
    fn what_began_in_time_goes_on_and_then_nothing_does() {
        let limit = Duration::from_millis(20);
        let result = run(Some(limit), || {
            let watch = Watch::begin();
            let seen = Cell::new(0);
            watch.in_pieces(0..1_000_000, 1, |_| {
                seen.set(seen.get() + 1);
                thread::sleep(Duration::from_millis(1));
            });
            assert!((1..100).contains(&seen.get()), "{}", seen.get());
            assert!(watch.is_over());
            watch.end();
            assert!(Watch::begin().is_over());
            Ok(())
        });
        let Err(Fault::Timeout(text)) = result else {
            panic!("{result:?}");
        };
        assert!(
            text.contains("20ms") && text.contains(DISPATCH.variable),
            "{text}"
        );
        assert!(!Watch::begin().is_over());
    }

    #[test]
    fn many_short_calls_end_as_well() {
        let result = run(Some(Duration::from_millis(20)), || {
            let start = Instant::now();
            loop {
                let watch = Watch::begin();
                if watch.is_over() {
                    return Ok(());
                }
                assert!(start.elapsed() < Duration::from_secs(30));
                watch.in_pieces(0..1, 1, |_| thread::sleep(Duration::from_millis(1)));
                watch.end();
            }
        });
        assert!(matches!(result, Ok(())) || matches!(result, Err(Fault::Timeout(_))));
    }

    #[test]
    fn without_a_limit_nothing_ends() {
        for limit in [None, Some(LONG), Some(Duration::MAX)] {
            let result = run(limit, || {
                for _ in 0..3 {
                    let watch = Watch::begin();
                    assert_eq!(pieces(&watch, 0..4, 2), [0..2, 2..4]);
                    watch.end();
                }
                Ok(())
            });
            assert_eq!(result, Ok(()));
        }
    }

    #[test]
    fn a_fault_of_the_kernel_comes_first() {
        let result = run(Some(LONG), || Err(Fault::OutOfMemory(String::new())));
        assert_eq!(result, Err(Fault::OutOfMemory(String::new())));
    }
}
