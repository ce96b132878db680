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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::time_limit::DISPATCH;

    #[test]
    fn the_limit_is_parsed() {
        for limit in [THREADGROUP, DISPATCH] {
            assert_eq!(limit.parse("2.5"), Ok(Some(Duration::from_millis(2500))));
            assert_eq!(limit.parse("0"), Ok(None));
            for text in ["", "-1", "soon", "nan", "inf", "1e300"] {
                let error = limit.parse(text).expect_err(text);
                assert!(error.contains(limit.variable), "{error}");
            }
        }
    }
}
