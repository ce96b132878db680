//! Signals that end a long command when it has tidied up.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::{flag, low_level};

/// Which signal came.
pub struct Interrupted {
    flag: Arc<AtomicBool>,
    signal: Arc<AtomicUsize>,
}

impl Interrupted {
    /// From now on the first signal sets a flag, and a second one ends the process at once.
    ///
    /// # Errors
    ///
    /// When the system takes no handler.
    pub fn by_signals() -> io::Result<Interrupted> {
        let interrupted = Interrupted {
            flag: Arc::default(),
            signal: Arc::default(),
        };
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            flag::register_conditional_default(signal, interrupted.flag.clone())?;
            flag::register_usize(signal, interrupted.signal.clone(), signal as usize)?;
            flag::register(signal, interrupted.flag.clone())?;
        }
        Ok(interrupted)
    }

    pub fn flag(&self) -> Arc<AtomicBool> {
        self.flag.clone()
    }

    pub fn is_set(&self) -> bool {
        self.flag.load(Ordering::SeqCst)
    }

    /// Ends the process as the shell expects of a program that the signal has ended. Returns only if the signal has no
    /// such default.
    ///
    /// # Errors
    ///
    /// When the system takes no handler.
    pub fn end(&self) -> io::Result<()> {
        low_level::emulate_default_handler(self.signal.load(Ordering::SeqCst) as i32)
    }
}
