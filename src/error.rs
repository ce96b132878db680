//! What can go wrong, typed, with the bridge's own sentence kept.

use std::convert::Infallible;
use std::ffi::{CStr, NulError};
use std::fmt;
use std::io;

use crate::ffi;
#[cfg(feature = "llama")]
use crate::llama::LlamaError;

/// The result of everything that can fail here.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a call or a submission failed.
///
/// A variant is a group of causes that a program reacts to alike; [`Error::status`] tells the members of a group apart,
/// and [`Failure::message`] is the bridge's sentence, which names the argument.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The call is wrong as it stands: a null or overflowing value, a range outside its buffer, shapes that do not fit.
    #[error("{}", .0.message())]
    InvalidArgument(#[source] Failure),
    /// An object of another device.
    #[error("{}", .0.message())]
    WrongDevice(#[source] Failure),
    /// A write to memory that may only be read.
    #[error("{}", .0.message())]
    ReadOnly(#[source] Failure),
    /// No device answers to that selector.
    #[error("{}", .0.message())]
    NoDevice(#[source] Failure),
    /// This device or this build cannot do it.
    #[error("{}", .0.message())]
    Unsupported(#[source] Failure),
    /// The library has no kernel of that name.
    #[error("{}", .0.message())]
    NotFound(#[source] Failure),
    /// The Metal source has errors; the message is the compiler's.
    #[error("{}", .0.message())]
    Compile(#[source] Failure),
    /// A file cannot be opened, read or written, or is of another kind.
    #[error("{}", .0.message())]
    File(#[source] Failure),
    /// An allocation failed, on the host or on the device.
    #[error("{}", .0.message())]
    OutOfMemory(#[source] Failure),
    /// Not now: the object is in another state, or another thread is using it.
    #[error("{}", .0.message())]
    State(#[source] Failure),
    /// The host and commands want the same buffer: it is mapped, or commands that are still being recorded touch it.
    #[error("{}", .0.message())]
    InUse(#[source] Failure),
    /// The time limit of a wait passed. The work goes on.
    #[error("{}", .0.message())]
    Timeout(#[source] Failure),
    /// The submission that should have written this buffer failed, so that it holds no result.
    #[error("{}", .0.message())]
    Poisoned(#[source] Failure),
    /// The device failed while it ran a submission: time-out, page fault, device lost, invalid resource, internal.
    #[error("{}", .0.message())]
    Device(#[source] Failure),
    /// A bug in ironbridge. Please report it with the message.
    #[error("{}", .0.message())]
    Internal(#[source] Failure),
    /// A model: its file, its numbers, or what was asked of it.
    #[cfg(feature = "llama")]
    #[error(transparent)]
    Llama(#[from] LlamaError),
    /// A text for the C side has a NUL byte inside.
    #[error("{argument} has a NUL byte inside")]
    Text {
        /// Which text.
        argument: &'static str,
        /// Where the byte is.
        source: NulError,
    },
    /// The operating system did not answer.
    #[error("{action} failed")]
    System {
        /// What was asked of it.
        action: &'static str,
        /// Its answer.
        source: io::Error,
    },
}

/// What cannot fail has no error: selectors that need not be read.
impl From<Infallible> for Error {
    fn from(never: Infallible) -> Error {
        match never {}
    }
}

impl Error {
    /// The exact status of the C ABI, where the error came from there or stands for one of its statuses.
    pub fn status(&self) -> Option<Status> {
        self.failure().map(Failure::status)
    }

    /// The failed call, where there is one.
    pub fn failure(&self) -> Option<&Failure> {
        match self {
            Error::InvalidArgument(failure)
            | Error::WrongDevice(failure)
            | Error::ReadOnly(failure)
            | Error::NoDevice(failure)
            | Error::Unsupported(failure)
            | Error::NotFound(failure)
            | Error::Compile(failure)
            | Error::File(failure)
            | Error::OutOfMemory(failure)
            | Error::State(failure)
            | Error::InUse(failure)
            | Error::Timeout(failure)
            | Error::Poisoned(failure)
            | Error::Device(failure)
            | Error::Internal(failure) => Some(failure),
            #[cfg(feature = "llama")]
            Error::Llama(_) => None,
            Error::Text { .. } | Error::System { .. } => None,
        }
    }

    /// The same error of a function that calls `parts` otherwise than the one that failed: pairs of its name and the
    /// caller's.
    pub(crate) fn renamed(mut self, call: &'static str, parts: &[(&str, &str)]) -> Error {
        let Some(failure) = self.failure_mut() else {
            return self;
        };
        failure.call = call;
        let message = std::mem::take(&mut failure.message);
        let (subject, rest) = message.split_once(": ").unwrap_or(("", &message));
        let of = |name: &str| parts.iter().find(|(known, _)| *known == name);
        let mut rest = rest.to_owned();
        for (name, theirs) in parts {
            rest = rest.replace(&format!(", {name} is "), &format!(", {theirs} is "));
            rest = rest.replace(&format!(", set {name}"), &format!(", set {theirs}"));
        }
        if let Some((_, theirs)) = rest.strip_prefix("overlaps ").and_then(&of) {
            rest = format!("overlaps {theirs}");
        }
        let subject = of(subject).map_or(subject, |(_, theirs)| theirs);
        failure.message = match subject {
            "" => rest,
            subject => format!("{subject}: {rest}"),
        };
        self
    }

    fn failure_mut(&mut self) -> Option<&mut Failure> {
        match self {
            Error::InvalidArgument(failure)
            | Error::WrongDevice(failure)
            | Error::ReadOnly(failure)
            | Error::NoDevice(failure)
            | Error::Unsupported(failure)
            | Error::NotFound(failure)
            | Error::Compile(failure)
            | Error::File(failure)
            | Error::OutOfMemory(failure)
            | Error::State(failure)
            | Error::InUse(failure)
            | Error::Timeout(failure)
            | Error::Poisoned(failure)
            | Error::Device(failure)
            | Error::Internal(failure) => Some(failure),
            #[cfg(feature = "llama")]
            Error::Llama(_) => None,
            Error::Text { .. } | Error::System { .. } => None,
        }
    }

    /// An error that the facade finds before it asks the bridge.
    pub(crate) fn new(call: &'static str, status: Status, message: String) -> Error {
        let failure = Failure {
            call,
            status,
            message,
        };
        match status {
            Status::InvalidArgument
            | Status::InvalidHandle
            | Status::OutOfRange
            | Status::Shape => Error::InvalidArgument(failure),
            Status::WrongDevice => Error::WrongDevice(failure),
            Status::ReadOnly => Error::ReadOnly(failure),
            Status::NoDevice => Error::NoDevice(failure),
            Status::Unsupported => Error::Unsupported(failure),
            Status::NotFound => Error::NotFound(failure),
            Status::Compile => Error::Compile(failure),
            Status::File => Error::File(failure),
            Status::OutOfMemory => Error::OutOfMemory(failure),
            Status::State | Status::Busy => Error::State(failure),
            Status::Mapped | Status::NotCommitted => Error::InUse(failure),
            Status::Timeout => Error::Timeout(failure),
            Status::Poisoned => Error::Poisoned(failure),
            Status::DeviceTimeout
            | Status::DevicePageFault
            | Status::DeviceLost
            | Status::DeviceInvalid
            | Status::DeviceInternal => Error::Device(failure),
            // The bridge itself has no models.
            Status::Model
            | Status::ContextFull
            | Status::Cancelled
            | Status::Chat
            | Status::Internal
            | Status::Unknown(_) => Error::Internal(failure),
        }
    }
}

/// A failed call: which, with what status, and what the bridge had to say.
///
/// As the source of an [`Error`] it adds the call and the status to the message that the error itself shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    call: &'static str,
    status: Status,
    message: String,
}

impl Failure {
    /// The function of this crate that failed, such as `Commands::matmul`.
    pub fn call(&self) -> &'static str {
        self.call
    }

    /// The status of the C ABI.
    pub fn status(&self) -> Status {
        self.status
    }

    /// The sentence of `iron_last_error`, without its function; where the bridge left none, the status' name.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} returned {}", self.call, self.status)
    }
}

impl std::error::Error for Failure {}

macro_rules! statuses {
    ($($(#[$doc:meta])* $name:ident = $native:ident,)*) => {
        /// The C ABI's `iron_status`, without `IRON_OK`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Status {
            $($(#[$doc])* $name,)*
            /// A number that this version does not know.
            Unknown(u32),
        }

        impl Status {
            pub(crate) fn from_native(status: ffi::iron_status) -> Status {
                match status {
                    $(ffi::$native => Status::$name,)*
                    other => Status::Unknown(other),
                }
            }

            #[cfg(feature = "llama")]
            pub(crate) fn native(self) -> ffi::iron_status {
                match self {
                    $(Status::$name => ffi::$native,)*
                    Status::Unknown(number) => number,
                }
            }

            /// The constant's name in the C header, for example `IRON_ERROR_SHAPE`.
            pub fn name(self) -> &'static str {
                match self {
                    $(Status::$name => stringify!($native),)*
                    Status::Unknown(_) => "IRON_ERROR_UNKNOWN",
                }
            }
        }
    };
}

statuses! {
    /// A null pointer, a zero or overflowing size, an unknown constant.
    InvalidArgument = IRON_ERROR_INVALID_ARGUMENT,
    /// A null, released or foreign handle.
    InvalidHandle = IRON_ERROR_INVALID_HANDLE,
    /// A range that leaves its buffer, an index past the end.
    OutOfRange = IRON_ERROR_OUT_OF_RANGE,
    /// Operands whose shapes, strides or types do not fit each other.
    Shape = IRON_ERROR_SHAPE,
    /// An object of another device.
    WrongDevice = IRON_ERROR_WRONG_DEVICE,
    /// No device answers to that selector.
    NoDevice = IRON_ERROR_NO_DEVICE,
    /// This device or build cannot do it.
    Unsupported = IRON_ERROR_UNSUPPORTED,
    /// No such kernel in the library.
    NotFound = IRON_ERROR_NOT_FOUND,
    /// The Metal source has errors.
    Compile = IRON_ERROR_COMPILE,
    /// An allocation failed, here or on the device.
    OutOfMemory = IRON_ERROR_OUT_OF_MEMORY,
    /// Recorded after commit, waited before commit, and the like.
    State = IRON_ERROR_STATE,
    /// Another thread records these commands, or too many are open at once.
    Busy = IRON_ERROR_BUSY,
    /// The host has mapped the buffer.
    Mapped = IRON_ERROR_MAPPED,
    /// Commands that are still being recorded touch the buffer.
    NotCommitted = IRON_ERROR_NOT_COMMITTED,
    /// A wait's own limit passed; the work goes on.
    Timeout = IRON_ERROR_TIMEOUT,
    /// A submission that should have written the buffer failed.
    Poisoned = IRON_ERROR_POISONED,
    /// A write to a buffer that is read-only.
    ReadOnly = IRON_ERROR_READ_ONLY,
    /// A file cannot be opened, mapped or written.
    File = IRON_ERROR_FILE,
    /// A model's file or numbers cannot be used.
    Model = IRON_ERROR_MODEL,
    /// More tokens than the context has room for.
    ContextFull = IRON_ERROR_CONTEXT_FULL,
    /// A callback or a cancel token ended the call.
    Cancelled = IRON_ERROR_CANCELED,
    /// A chat template has an error, fails, or refuses the conversation.
    Chat = IRON_ERROR_CHAT,
    /// The device gave up a command buffer that took too long.
    DeviceTimeout = IRON_ERROR_DEVICE_TIMEOUT,
    /// A kernel reached outside its memory.
    DevicePageFault = IRON_ERROR_DEVICE_PAGE_FAULT,
    /// The device was removed or access to it revoked.
    DeviceLost = IRON_ERROR_DEVICE_LOST,
    /// The device found a resource that it may not use.
    DeviceInvalid = IRON_ERROR_DEVICE_INVALID,
    /// Any other failure of the device.
    DeviceInternal = IRON_ERROR_DEVICE_INTERNAL,
    /// A bug in ironbridge.
    Internal = IRON_ERROR_INTERNAL,
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Status::Unknown(number) => write!(f, "iron_status {number}"),
            known => f.write_str(known.name()),
        }
    }
}

/// Turns the status that a C function has just returned on this thread into a result. `call`: the Rust function that
/// asked, which the caller knows.
pub(crate) fn check(call: &'static str, status: ffi::iron_status) -> Result<()> {
    if status == ffi::IRON_OK {
        return Ok(());
    }
    // SAFETY: never null, NUL-terminated and valid until this thread's next failing call, which comes after the copy.
    let sentence = unsafe { CStr::from_ptr(ffi::iron_last_error()) }.to_string_lossy();
    let status = Status::from_native(status);
    let message = match without_function(&sentence) {
        "" => status.to_string(),
        sentence => sentence.to_owned(),
    };
    Err(Error::new(call, status, message))
}

/// The bridge's sentence without the C function that it begins with: "iron_encode_matmul: a: …".
fn without_function(sentence: &str) -> &str {
    match sentence.split_once(": ") {
        Some((function, rest)) if function.starts_with("iron_") => rest,
        _ => sentence,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::error::Error as _;

    #[test]
    fn an_error_shows_the_sentence_and_its_source_the_call() {
        let error = Error::new(
            "Commands::matmul",
            Status::Shape,
            "c: 4 rows do not hold m = 5".into(),
        );
        assert_eq!(error.to_string(), "c: 4 rows do not hold m = 5");
        assert_eq!(
            error.source().map(ToString::to_string).as_deref(),
            Some("Commands::matmul returned IRON_ERROR_SHAPE")
        );
        assert_eq!(error.status(), Some(Status::Shape));
        assert!(matches!(error, Error::InvalidArgument(_)));
    }

    #[test]
    fn status_names_are_the_bridges_own() {
        for number in (1..=22).chain(32..=36).chain([64, 63, 1000]) {
            // SAFETY: takes any number and returns static text.
            let native = unsafe { CStr::from_ptr(ffi::iron_status_name(number)) };
            assert_eq!(
                native.to_str(),
                Ok(Status::from_native(number).name()),
                "{number}"
            );
        }
    }

    #[test]
    fn a_number_from_a_newer_bridge_is_internal_and_keeps_its_value() {
        let error = Error::new("Device::open", Status::from_native(99), "new".into());
        assert!(matches!(error, Error::Internal(_)));
        assert_eq!(error.status(), Some(Status::Unknown(99)));
    }
}
