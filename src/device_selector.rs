//! Which device is meant: the forms that a command line and the environment know, as a type.

use std::ffi::CString;
use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result, Status};

/// Which device [`Device::open`](crate::Device::open) opens.
///
/// It is made of its text by [`FromStr`], or of the variants, and [`Display`](fmt::Display) gives the text back:
///
/// | text | |
/// | --- | --- |
/// | `""`, `"default"` | the environment's `IRONBRIDGE_DEVICE`, else the first that can be opened: Metal, a GPU of NVIDIA's, the CPU |
/// | `"metal"` | Apple's default Metal device |
/// | `"cpu"` | the software device; `"cpu:KEY=VALUE,…"` makes it small or faulty for tests |
/// | `"nvidia"`, `"nvidia:1"` | a GPU of NVIDIA's, by the driver's number; a build with the feature `nvidia` has them |
/// | `"0"`, `"1"`, … | by index in [`Device::list`](crate::Device::list) |
///
/// ```
/// use ironbridge::{Device, DeviceSelector};
///
/// # fn main() -> Result<(), ironbridge::Error> {
/// let selector: DeviceSelector = "cpu".parse()?; // a command line's `--device`
/// assert_eq!(selector, DeviceSelector::cpu());
/// let device = Device::open(selector)?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum DeviceSelector {
    /// The environment's, else the first that can be opened of Metal, NVIDIA's GPUs and the CPU.
    #[default]
    Default,
    /// Apple's default Metal device.
    Metal,
    /// The software device, with options in the form `"KEY=VALUE,KEY=VALUE"`: `softmetal.h` lists them. None: `""`.
    Cpu(String),
    /// A GPU of NVIDIA's, by the driver's number.
    Nvidia(u32),
    /// By index in [`Device::list`](crate::Device::list).
    Index(u32),
    /// A backend in a library of its own, for tests: builds with debug assertions load it.
    #[doc(hidden)]
    External(String),
}

impl DeviceSelector {
    /// The software device, without options.
    pub const fn cpu() -> DeviceSelector {
        DeviceSelector::Cpu(String::new())
    }
}

impl fmt::Display for DeviceSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeviceSelector::Default => f.write_str("default"),
            DeviceSelector::Metal => f.write_str("metal"),
            DeviceSelector::Cpu(options) if options.is_empty() => f.write_str("cpu"),
            DeviceSelector::Cpu(options) => write!(f, "cpu:{options}"),
            DeviceSelector::Nvidia(number) => write!(f, "nvidia:{number}"),
            DeviceSelector::Index(index) => write!(f, "{index}"),
            DeviceSelector::External(options) => write!(f, "external:{options}"),
        }
    }
}

/// # Errors
/// [`Error::NoDevice`] when the text is none of the forms. Keys and values of the software device's options are
/// checked by [`Device::open`](crate::Device::open): [`Error::InvalidArgument`].
impl FromStr for DeviceSelector {
    type Err = Error;

    fn from_str(text: &str) -> Result<DeviceSelector> {
        CString::new(text).map_err(|source| Error::Text {
            argument: "selector",
            source,
        })?;
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let number = |digits: &str| {
            digits.parse().map_err(|_| {
                let message = format!(
                    "selector: there is no device {text}, indices end at {}",
                    u32::MAX
                );
                Error::new("DeviceSelector::from_str", Status::NoDevice, message)
            })
        };
        match text {
            "" | "default" => Ok(DeviceSelector::Default),
            "metal" => Ok(DeviceSelector::Metal),
            "cpu" => Ok(DeviceSelector::cpu()),
            "nvidia" => Ok(DeviceSelector::Nvidia(0)),
            _ if is_number(text) => number(text).map(DeviceSelector::Index),
            _ => match text.split_once(':') {
                Some(("cpu", options)) => Ok(DeviceSelector::Cpu(options.to_owned())),
                Some(("external", options)) => Ok(DeviceSelector::External(options.to_owned())),
                Some(("nvidia", digits)) if is_number(digits) => {
                    number(digits).map(DeviceSelector::Nvidia)
                }
                _ => Err(Error::new(
                    "DeviceSelector::from_str",
                    Status::NoDevice,
                    format!(
                        "selector: no device answers to {text:?}; these do: default, metal, cpu, cpu:KEY=VALUE,…, \
                         nvidia, nvidia:NUMBER and the indices"
                    ),
                )),
            },
        }
    }
}

impl TryFrom<&str> for DeviceSelector {
    type Error = Error;

    fn try_from(text: &str) -> Result<DeviceSelector> {
        text.parse()
    }
}

impl TryFrom<&String> for DeviceSelector {
    type Error = Error;

    fn try_from(text: &String) -> Result<DeviceSelector> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_selectors_are_each_other() {
        for (text, selector) in [
            ("default", DeviceSelector::Default),
            ("metal", DeviceSelector::Metal),
            ("cpu", DeviceSelector::cpu()),
            ("cpu:delay_us=1", DeviceSelector::Cpu("delay_us=1".into())),
            ("nvidia:2", DeviceSelector::Nvidia(2)),
            ("7", DeviceSelector::Index(7)),
        ] {
            assert_eq!(text.parse::<DeviceSelector>().unwrap(), selector);
            assert_eq!(selector.to_string(), text);
        }
        assert_eq!(
            "".parse::<DeviceSelector>().unwrap(),
            DeviceSelector::Default
        );
    }

    #[test]
    fn other_texts_are_a_typed_error_that_lists_the_forms() {
        for text in ["CPU", "gpu", "-1", "1.0", "cpu ", "metal:0", "nvidia:x"] {
            let error = text.parse::<DeviceSelector>().unwrap_err();
            assert!(matches!(error, Error::NoDevice(_)), "{text}: {error:?}");
            assert!(error.to_string().contains("cpu:KEY=VALUE"), "{error}");
        }
    }
}
