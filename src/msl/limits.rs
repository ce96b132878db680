//! What compiling a source may cost, so that a hostile one ends with an error.

use std::time::Duration;

use super::error::Error;

/// The bytes of the largest source when the environment does not say, and of what the preprocessor makes of it.
const SOURCE: u64 = 8 << 20;
/// Enough for a source of a thousand kernels on a slow machine; one of ours takes a third of a second.
const TIME: Duration = Duration::from_secs(60);
/// Bytes of address space, of which clang and its libraries take a quarter before they read a source.
const MEMORY: u64 = 2 << 30;

const TIME_VARIABLE: &str = "IRONBRIDGE_SOFT_COMPILE_TIMEOUT";
const MEMORY_VARIABLE: &str = "IRONBRIDGE_SOFT_COMPILE_MEMORY";
const SOURCE_VARIABLE: &str = "IRONBRIDGE_SOFT_COMPILE_SOURCE";

/// The limits of one compilation. `None`: there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// How long one run of the compiler may take.
    pub time: Option<Duration>,
    /// Bytes of memory that the compiler may take.
    pub memory: Option<u64>,
    /// Bytes of a source, and of the same source preprocessed.
    pub source: Option<u64>,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            time: Some(TIME),
            memory: Some(MEMORY),
            source: Some(SOURCE),
        }
    }
}

impl Limits {
    /// The limits that the environment asks for.
    pub fn from_environment() -> Result<Limits, Error> {
        Limits::read(|name| std::env::var_os(name).map(|text| text.to_string_lossy().into_owned()))
    }

    fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Limits, Error> {
        let mebibytes = |name: &str, usual: u64| match variable(name) {
            None => Ok(Some(usual)),
            Some(text) => match text.trim().parse::<u32>() {
                Ok(count) => Ok((count > 0).then_some(u64::from(count) << 20)),
                Err(_) => Err(Error::Limit(format!(
                    "{name} is {text:?}; it must be a whole number of MiB, 0 for no limit"
                ))),
            },
        };
        let time = match variable(TIME_VARIABLE) {
            None => Some(TIME),
            Some(text) => {
                let seconds = text.trim().parse().ok();
                let limit = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
                let limit = limit.ok_or_else(|| {
                    Error::Limit(format!(
                        "{TIME_VARIABLE} is {text:?}; it must be a number of seconds, 0 for no limit"
                    ))
                })?;
                (limit > Duration::ZERO).then_some(limit)
            }
        };
        Ok(Limits {
            time,
            memory: mebibytes(MEMORY_VARIABLE, MEMORY)?,
            source: mebibytes(SOURCE_VARIABLE, SOURCE)?,
        })
    }

    /// The error of a compiler that took too long.
    pub fn too_slow(&self) -> Error {
        Error::Limit(format!(
            "the Metal compiler took more than {:?} for this source ({TIME_VARIABLE})",
            self.time.unwrap_or_default()
        ))
    }

    /// The error of a compiler that had too little memory.
    pub fn too_hungry(&self) -> Error {
        Error::Limit(format!(
            "the Metal compiler needs more than {} MiB of memory for this source ({MEMORY_VARIABLE})",
            self.memory.unwrap_or(u64::MAX) >> 20
        ))
    }

    /// The error of a source, or of something that is made of it, that is too large.
    pub fn too_large(&self, what: &str) -> Error {
        Error::Limit(format!(
            "{what} has more than {} MiB ({SOURCE_VARIABLE})",
            self.source.unwrap_or(u64::MAX) >> 20
        ))
    }

    /// Whether `bytes` of source are too many.
    pub fn is_too_large(&self, bytes: usize) -> bool {
        self.source.is_some_and(|limit| bytes as u64 > limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(name: &str, value: &str) -> Result<Limits, Error> {
        Limits::read(|asked| (asked == name).then(|| String::from(value)))
    }

    #[test]
    fn limits_are_read_and_can_be_lifted() {
        assert_eq!(read("OTHER", "1"), Ok(Limits::default()));
        let limits = read(TIME_VARIABLE, "0.5").expect("a number");
        assert_eq!(limits.time, Some(Duration::from_millis(500)));
        let limits = read(MEMORY_VARIABLE, " 3 ").expect("a number");
        assert_eq!(limits.memory, Some(3 << 20));
        let limits = read(SOURCE_VARIABLE, "7").expect("a number");
        assert_eq!(limits.source, Some(7 << 20));
        assert!(limits.is_too_large((7 << 20) + 1) && !limits.is_too_large(7 << 20));
        assert_eq!(read(TIME_VARIABLE, "0").expect("none").time, None);
        assert_eq!(read(MEMORY_VARIABLE, "0").expect("none").memory, None);
        let limits = read(SOURCE_VARIABLE, "0").expect("none");
        assert!(!limits.is_too_large(usize::MAX));
    }

    #[test]
    fn a_limit_that_is_no_number_is_an_error_that_names_the_variable() {
        for name in [TIME_VARIABLE, MEMORY_VARIABLE, SOURCE_VARIABLE] {
            for wrong in ["", "much", "-1", "1e999", "NaN"] {
                let error = read(name, wrong).expect_err(wrong).to_string();
                assert!(error.contains(name), "{error}");
            }
        }
    }

    #[test]
    fn errors_name_the_limit_and_what_changes_it() {
        let limits = Limits::default();
        let text = limits.too_slow().to_string();
        assert!(
            text.contains("60s") && text.contains(TIME_VARIABLE),
            "{text}"
        );
        let text = limits.too_hungry().to_string();
        assert!(
            text.contains("2048 MiB") && text.contains(MEMORY_VARIABLE),
            "{text}"
        );
        let text = limits.too_large("the source").to_string();
        assert!(
            text.contains("8 MiB") && text.contains(SOURCE_VARIABLE),
            "{text}"
        );
    }
}
