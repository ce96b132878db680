//! Why a dispatch failed.

/// Why a dispatch did not run to its end. The text is for the user.
#[derive(Debug, PartialEq, Eq)]
pub enum Fault {
    /// The arguments reach outside the bound memory.
    OutOfBounds(String),
    /// A binding is missing or the arguments contradict each other.
    Invalid(String),
    /// Scratch memory could not be had.
    OutOfMemory(String),
    /// A thread used more stack than there is.
    StackOverflow(String),
    /// It took longer than it may.
    Timeout(String),
}
