//! Standard output, as every command writes to it. Lints keep commands from other ways (`clippy.toml`).
//!
//! A reader that has seen enough is no error, and a full disk is one line and status 1: [`end`] sees to both,
//! whatever a command does about the results of its writes.

use std::error::Error;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

use ironbridge::llama::SamplerError;

use crate::terminal;

/// What failed when nobody could be told.
static FAILED: Mutex<Option<io::Error>> = Mutex::new(None);

/// A way to standard output. What it holds back is written when it is dropped, at the latest.
pub struct Output(Box<dyn Write>);

/// As it is, line by line.
#[expect(clippy::disallowed_methods, reason = "this is the one place")]
pub fn stdout() -> Output {
    Output(Box::new(io::stdout().lock()))
}

/// In large pieces, for what may be long.
#[expect(clippy::disallowed_methods, reason = "this is the one place")]
pub fn buffered() -> Output {
    Output(Box::new(BufWriter::new(io::stdout().lock())))
}

/// With colours where they are shown, and without where they are not.
#[expect(clippy::disallowed_methods, reason = "this is the one place")]
pub fn styled() -> Output {
    Output(Box::new(anstream::stdout().lock()))
}

#[expect(clippy::disallowed_methods, reason = "this is the one place")]
pub fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// The status of a command, once all its output is where it belongs.
pub fn end(result: Result<ExitCode, Box<dyn Error>>) -> ExitCode {
    drop(stdout());
    let failed = FAILED.lock().unwrap_or_else(PoisonError::into_inner).take();
    let result = match failed {
        Some(failed) if result.is_ok() => Err(failed.into()),
        _ => result,
    };
    result.unwrap_or_else(|error| match error.downcast_ref::<io::Error>() {
        Some(closed) if closed.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        _ => {
            terminal::report(error.as_ref());
            // By themselves they are of a sampler that could not be made: an argument was wrong.
            match error.is::<SamplerError>() {
                true => ExitCode::from(2),
                false => ExitCode::FAILURE,
            }
        }
    })
}

fn named(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::Interrupted => error, // to be tried again, by whoever writes
        kind => io::Error::new(kind, format!("cannot write to standard output: {error}")),
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).map_err(named)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().map_err(named)
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if let Err(error) = self.flush() {
            let mut failed = FAILED.lock().unwrap_or_else(PoisonError::into_inner);
            failed.get_or_insert(error);
        }
    }
}
