//! What a dispatch may take: threadgroup memory and time.

use std::time::Duration;

/// Threadgroup memory that a dispatch may use, static and dynamic together: what Apple7 and later GPUs have.
pub const THREADGROUP_MEMORY: u32 = 32 * 1024;
/// The most that a device can be asked to have.
pub const MOST_THREADGROUP_MEMORY: u32 = 256 * 1024;

/// A limit of time that the environment can change.
pub struct Limit {
    /// In seconds; 0: none.
    pub variable: &'static str,
    pub default: Duration,
}

/// How long a threadgroup may take. The slowest of our own takes a thousandth of the default, on a busy machine and
/// with every access checked.
#[cfg(feature = "msl")]
pub const THREADGROUP: Limit = Limit {
    variable: "IRONBRIDGE_SOFT_TIMEOUT",
    default: Duration::from_secs(60),
};

/// How long a dispatch may take, that is all of its threadgroups together.
pub const DISPATCH: Limit = Limit {
    variable: "IRONBRIDGE_SOFT_DISPATCH_TIMEOUT",
    default: Duration::from_secs(600),
};

impl Limit {
    /// What the environment asks for; `None`: there is no limit.
    pub fn of_environment(&self) -> Result<Option<Duration>, String> {
        match std::env::var_os(self.variable) {
            None => Ok(Some(self.default)),
            Some(text) => self.parse(&text.to_string_lossy()),
        }
    }

    fn parse(&self, text: &str) -> Result<Option<Duration>, String> {
        let seconds = text.trim().parse().ok();
        match seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()) {
            Some(limit) => Ok((limit > Duration::ZERO).then_some(limit)),
            None => Err(format!(
                "{} is {text:?}; it must be a number of seconds, 0 for no limit",
                self.variable
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
