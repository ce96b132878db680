//! Why something failed in a backend.

/// Why a call failed, or why a dispatch did not run to its end. The text is for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The arguments reach outside the bound memory.
    OutOfBounds(String),
    /// An argument or a binding is missing, or they contradict each other.
    Invalid(String),
    /// Memory could not be had.
    OutOfMemory(String),
    /// A thread used more stack than there is.
    #[cfg_attr(
        not(feature = "msl"),
        expect(dead_code, reason = "native kernels have the caller's stack")
    )]
    StackOverflow(String),
    /// It took longer than it may.
    Timeout(String),
    /// Not on this backend, or not on this system.
    Unsupported(String),
    /// The device is gone, and whatever comes later fails likewise.
    #[cfg_attr(
        not(any(test, all(feature = "nvidia", target_os = "linux"))),
        expect(dead_code, reason = "a processor is not lost")
    )]
    DeviceLost(String),
    /// A bug of the backend's.
    Internal(String),
}

impl Fault {
    /// The same fault with another text.
    pub fn map_text(self, change: impl FnOnce(String) -> String) -> Fault {
        match self {
            Fault::OutOfBounds(text) => Fault::OutOfBounds(change(text)),
            Fault::Invalid(text) => Fault::Invalid(change(text)),
            Fault::OutOfMemory(text) => Fault::OutOfMemory(change(text)),
            Fault::StackOverflow(text) => Fault::StackOverflow(change(text)),
            Fault::Timeout(text) => Fault::Timeout(change(text)),
            Fault::Unsupported(text) => Fault::Unsupported(change(text)),
            Fault::DeviceLost(text) => Fault::DeviceLost(change(text)),
            Fault::Internal(text) => Fault::Internal(change(text)),
        }
    }
}
