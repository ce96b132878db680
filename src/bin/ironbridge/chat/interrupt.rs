//! Ctrl-C stops an answer while there is one, and the program at any other time.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ironbridge::llama::CancelToken;
use signal_hook::consts::SIGINT;
use signal_hook::flag;

pub struct Interrupt {
    /// Whether nobody waits for the signal, so that it does what it does to every program.
    idle: Arc<AtomicBool>,
    interrupted: Arc<AtomicBool>,
}

/// While it lives, the signal cancels its token and does nothing else.
pub struct Caught {
    idle: Arc<AtomicBool>,
    token: CancelToken,
}

impl Interrupt {
    pub fn install() -> io::Result<Interrupt> {
        let interrupt = Interrupt {
            idle: Arc::new(AtomicBool::new(true)),
            interrupted: Arc::default(),
        };
        flag::register_conditional_default(SIGINT, interrupt.idle.clone())?;
        flag::register(SIGINT, interrupt.interrupted.clone())?;
        Ok(interrupt)
    }

    pub fn catch(&self) -> Caught {
        self.interrupted.store(false, Ordering::SeqCst);
        self.idle.store(false, Ordering::SeqCst);
        Caught {
            idle: self.idle.clone(),
            token: CancelToken::from(self.interrupted.clone()),
        }
    }
}

impl Caught {
    pub fn token(&self) -> &CancelToken {
        &self.token
    }
}

impl Drop for Caught {
    fn drop(&mut self) {
        self.idle.store(true, Ordering::SeqCst);
    }
}
