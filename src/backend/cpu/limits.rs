//! What a dispatch may take: threadgroup memory and time.

#[cfg(feature = "msl")]
use std::time::Duration;

#[cfg(feature = "msl")]
use crate::backend::time_limit::TimeLimit;

/// Threadgroup memory that a dispatch may use, static and dynamic together: what Apple7 and later GPUs have.
pub const THREADGROUP_MEMORY: u32 = 32 * 1024;
/// The most that a device can be asked to have.
pub const MOST_THREADGROUP_MEMORY: u32 = 256 * 1024;

/// How long a threadgroup may take. The slowest of our own takes a thousandth of the default, on a busy machine and
/// with every access checked.
#[cfg(feature = "msl")]
pub const THREADGROUP: TimeLimit = TimeLimit {
    variable: "IRONBRIDGE_SOFT_TIMEOUT",
    default: Duration::from_secs(60),
};
