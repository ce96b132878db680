//! Limits of time that the environment can change.

use std::time::Duration;

/// How long something may take.
pub struct TimeLimit {
    /// In seconds; 0: none.
    pub variable: &'static str,
    pub default: Duration,
}

/// How long a dispatch may take, that is all of its threadgroups together; where they are not told apart, all
/// dispatches of a submission.
pub const DISPATCH: TimeLimit = TimeLimit {
    variable: "IRONBRIDGE_SOFT_DISPATCH_TIMEOUT",
    default: Duration::from_secs(600),
};

impl TimeLimit {
    /// What the environment asks for; `None`: there is no limit.
    pub fn of_environment(&self) -> Result<Option<Duration>, String> {
        match std::env::var_os(self.variable) {
            None => Ok(Some(self.default)),
            Some(text) => self.parse(&text.to_string_lossy()),
        }
    }

    /// What a variable's text asks for.
    pub fn parse(&self, text: &str) -> Result<Option<Duration>, String> {
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
