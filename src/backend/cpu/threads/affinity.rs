//! Which processors a thread may run on.

use std::thread::JoinHandle;

/// The processors that compute threads are pinned to: `all`, a list of numbers and ranges such as `0,2-3`, or `any` for
/// none.
pub const PIN_VARIABLE: &str = "IRONBRIDGE_PIN";

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PinError {
    /// Not a processor of this process.
    Unknown(String),
    /// Not on this system.
    Unsupported(String),
}

impl PinError {
    pub fn text(self) -> String {
        match self {
            PinError::Unknown(text) | PinError::Unsupported(text) => text,
        }
    }
}

/// What the environment asks for, if it does.
pub fn configured() -> Result<Option<Vec<usize>>, String> {
    let Some(text) = std::env::var_os(PIN_VARIABLE) else {
        return Ok(None);
    };
    let cpuset = match &*text.to_string_lossy() {
        "any" => Vec::new(),
        "all" => allowed().map_err(PinError::text)?.to_vec(),
        text => parse(text)?,
    };
    Ok(Some(cpuset))
}

fn parse(text: &str) -> Result<Vec<usize>, String> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        (first <= last && last < system::MOST).then_some(first..=last)
    };
    let ranges: Option<Vec<_>> = text.split(',').map(range).collect();
    ranges
        .map(|ranges| ranges.into_iter().flatten().collect())
        .ok_or_else(|| {
            format!("{PIN_VARIABLE} is {text:?}; it must be \"all\", \"any\" or numbers of processors, such as 0,2-3")
        })
}

/// Whether this process may run on all of them.
pub fn check(processors: &[usize]) -> Result<(), PinError> {
    if processors.is_empty() {
        return Ok(());
    }
    let allowed = allowed()?;
    match processors
        .iter()
        .find(|processor| !allowed.contains(processor))
    {
        None => Ok(()),
        Some(processor) => Err(PinError::Unknown(format!(
            "processor {processor} is not one of those that this process may use: {allowed:?}"
        ))),
    }
}

pub use system::{allowed, move_this_thread, pin_this_thread, pin_thread};

#[cfg(target_os = "linux")]
mod system {
    use std::io;
    use std::mem::{MaybeUninit, size_of};
    use std::os::unix::thread::JoinHandleExt;
    use std::sync::OnceLock;

    use super::{JoinHandle, PinError};

    /// Processors that a `cpu_set_t` has room for.
    pub const MOST: usize = 8 * size_of::<libc::cpu_set_t>();

    /// The processors of this process, before any thread of ours was pinned.
    pub fn allowed() -> Result<&'static [usize], PinError> {
        static ALLOWED: OnceLock<Result<Vec<usize>, PinError>> = OnceLock::new();
        let allowed = ALLOWED.get_or_init(|| {
            let mut set = MaybeUninit::<libc::cpu_set_t>::zeroed();
            // SAFETY: the set has the size that is stated; all of its bit patterns are values.
            let set = unsafe {
                if libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), set.as_mut_ptr()) != 0 {
                    let error = io::Error::last_os_error();
                    return Err(PinError::Unsupported(format!("sched_getaffinity: {error}")));
                }
                set.assume_init()
            };
            // SAFETY: below `MOST`.
            let has = |processor: &usize| unsafe { libc::CPU_ISSET(*processor, &set) };
            Ok((0..MOST).filter(has).collect())
        });
        allowed.as_deref().map_err(PinError::clone)
    }

    pub fn pin_thread(thread: &JoinHandle<()>, processors: &[usize]) -> Result<(), PinError> {
        pin(thread.as_pthread_t(), processors)
    }

    pub fn pin_this_thread(processors: &[usize]) -> Result<(), PinError> {
        // SAFETY: always succeeds.
        pin(unsafe { libc::pthread_self() }, processors)
    }

    /// Moves the calling thread to a processor that it may run on, and leaves it free to be moved elsewhere again.
    pub fn move_this_thread(processor: usize) {
        // SAFETY: no arguments.
        let here = unsafe { libc::sched_getcpu() };
        if usize::try_from(here) == Ok(processor) {
            return;
        }
        let mut before = MaybeUninit::<libc::cpu_set_t>::zeroed();
        let size = size_of::<libc::cpu_set_t>();
        // SAFETY: the set has the size that is stated, and all of its bit patterns are values; the number is below
        // `MOST`, for `allowed` gave it.
        unsafe {
            let thread = libc::pthread_self();
            let got = libc::pthread_getaffinity_np(thread, size, before.as_mut_ptr()) == 0;
            if got
                && libc::CPU_ISSET(processor, before.assume_init_ref())
                && pin(thread, &[processor]).is_ok()
            {
                libc::pthread_setaffinity_np(thread, size, before.as_ptr());
            }
        }
    }

    /// The thread exists: it is this one or is not joined.
    fn pin(thread: libc::pthread_t, processors: &[usize]) -> Result<(), PinError> {
        // SAFETY: all bit patterns of the set are values; the numbers are below `MOST`, for `allowed` gave them.
        let set = unsafe {
            let mut set = MaybeUninit::<libc::cpu_set_t>::zeroed().assume_init();
            for processor in processors {
                libc::CPU_SET(*processor, &mut set);
            }
            set
        };
        // SAFETY: the thread exists, and the set has the size that is stated.
        match unsafe { libc::pthread_setaffinity_np(thread, size_of::<libc::cpu_set_t>(), &set) } {
            0 => Ok(()),
            error => Err(PinError::Unsupported(format!(
                "the system does not pin a thread to processors {processors:?}: {}",
                io::Error::from_raw_os_error(error)
            ))),
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use super::{JoinHandle, PinError};

    pub const MOST: usize = 1024;

    pub fn allowed() -> Result<&'static [usize], PinError> {
        Err(PinError::Unsupported(String::from(
            "this system does not let a program choose the processors of its threads",
        )))
    }

    pub fn pin_thread(_: &JoinHandle<()>, _: &[usize]) -> Result<(), PinError> {
        allowed().map(|_| ())
    }

    pub fn pin_this_thread(_: &[usize]) -> Result<(), PinError> {
        allowed().map(|_| ())
    }

    pub fn move_this_thread(_: usize) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_processors() {
        assert_eq!(parse("0"), Ok(vec![0]));
        assert_eq!(parse("3, 0-2"), Ok(vec![3, 0, 1, 2]));
        for text in ["", "one", "-1", "2-1", "0,,1", "1-", "0-99999999999"] {
            let error = parse(text).expect_err(text);
            assert!(error.contains(PIN_VARIABLE), "{error}");
        }
    }

    #[test]
    fn only_processors_of_the_process_can_be_had() {
        assert_eq!(check(&[]), Ok(()));
        let error = check(&[system::MOST - 1]).expect_err("no machine has so many");
        let expected = if cfg!(target_os = "linux") {
            "not one of those"
        } else {
            "this system"
        };
        assert!(error.clone().text().contains(expected), "{error:?}");
    }
}
