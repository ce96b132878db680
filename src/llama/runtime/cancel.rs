//! Stopping from another thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Stops a generation from any thread or signal handler. Clones are the same token.
#[derive(Clone, Debug, Default)]
pub struct CancelToken(Arc<AtomicBool>);

impl CancelToken {
    /// A token that nobody has cancelled.
    pub fn new() -> CancelToken {
        CancelToken::default()
    }

    /// Whoever looks at this token stops at its next look: within a token's time, or a pass's while a prompt is read.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl From<Arc<AtomicBool>> for CancelToken {
    /// Cancelled when the flag is true: for flags that somebody else sets, such as a handler of signals.
    fn from(flag: Arc<AtomicBool>) -> CancelToken {
        CancelToken(flag)
    }
}
