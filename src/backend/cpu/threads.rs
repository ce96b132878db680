//! The threads that compute, and where they run.

pub(crate) mod affinity;
pub(crate) mod stack;
pub(crate) mod thread_pool;
