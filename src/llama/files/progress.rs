//! How much of a file is loaded.

/// How much of a model is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadProgress {
    /// Bytes of tensors that are in memory.
    pub done: u64,
    /// Bytes of all tensors.
    pub total: u64,
}
