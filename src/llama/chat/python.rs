//! What templates expect of Python: they are written for Jinja2 and transformers.

use std::time::{SystemTime, UNIX_EPOCH};

use minijinja::value::{Kwargs, Value, ValueKind};
use minijinja::{Error, ErrorKind, Output, State};
use serde::Serialize;
use serde_json::ser::{Formatter, PrettyFormatter, Serializer};

/// Writes a value as `str` does: `None`, `True` and `False`.
pub fn format(output: &mut Output, state: &mut State, value: &Value) -> Result<(), Error> {
    let text = match (value.kind(), value.is_true()) {
        (ValueKind::None, _) => "None",
        (ValueKind::Bool, true) => "True",
        (ValueKind::Bool, false) => "False",
        _ => return minijinja::escape_formatter(output, state, value),
    };
    Ok(output.write_str(text)?)
}

/// `None` is not, where minijinja takes it for an empty list.
pub fn is_iterable(value: &Value) -> bool {
    !value.is_none() && value.try_iter().is_ok()
}

/// `json.dumps(value, ensure_ascii=False, indent=indent)`.
pub fn to_json(value: Value, options: Kwargs) -> Result<String, Error> {
    let indent: Option<usize> = options.get("indent")?;
    let ascii: Option<bool> = options.get("ensure_ascii")?;
    options.assert_all_used()?;
    if ascii == Some(true) {
        let message = "tojson does not escape what is not ASCII";
        return Err(Error::new(ErrorKind::InvalidOperation, message));
    }
    match indent {
        None => write_json(&value, Spaced),
        Some(indent) => {
            let indent = vec![b' '; indent.min(64)];
            write_json(&value, PrettyFormatter::with_indent(&indent))
        }
    }
}

fn write_json(value: &Value, formatter: impl Formatter) -> Result<String, Error> {
    let mut bytes = Vec::new();
    let written = value.serialize(&mut Serializer::with_formatter(&mut bytes, formatter));
    written.map_err(|error| Error::new(ErrorKind::BadSerialization, error.to_string()))?;
    Ok(String::from_utf8(bytes).expect("JSON is written in UTF-8"))
}

/// One line, with the spaces that Python's separators have.
struct Spaced;

impl Formatter for Spaced {
    fn begin_array_value<W: ?Sized + std::io::Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> std::io::Result<()> {
        writer.write_all(if first { b"" } else { b", " })
    }

    fn begin_object_key<W: ?Sized + std::io::Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> std::io::Result<()> {
        writer.write_all(if first { b"" } else { b", " })
    }

    fn begin_object_value<W: ?Sized + std::io::Write>(
        &mut self,
        writer: &mut W,
    ) -> std::io::Result<()> {
        writer.write_all(b": ")
    }
}

/// `datetime.now().strftime(format)`, in UTC.
pub fn strftime_now(format: &str) -> Result<String, Error> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    strftime(now.unwrap_or_default().as_secs(), format)
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = [
    "Thursday",
    "Friday",
    "Saturday",
    "Sunday",
    "Monday",
    "Tuesday",
    "Wednesday",
];

/// The moment `seconds` after the first second of 1970, which was a Thursday.
fn strftime(seconds: u64, format: &str) -> Result<String, Error> {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = date(days);
    let (month_name, day_name) = (MONTHS[month as usize - 1], DAYS[(days % 7) as usize]);
    let mut text = String::new();
    let mut characters = format.chars();
    while let Some(character) = characters.next() {
        if character != '%' {
            text.push(character);
            continue;
        }
        let directive = characters.next();
        text += &match directive {
            Some('Y') => year.to_string(),
            Some('y') => format!("{:02}", year % 100),
            Some('m') => format!("{month:02}"),
            Some('d') => format!("{day:02}"),
            Some('B') => month_name.into(),
            Some('b') => month_name[..3].into(),
            Some('A') => day_name.into(),
            Some('a') => day_name[..3].into(),
            Some('H') => format!("{:02}", second / 3600),
            Some('M') => format!("{:02}", second / 60 % 60),
            Some('S') => format!("{:02}", second % 60),
            Some('%') => "%".into(),
            other => {
                let directive = other.map(String::from).unwrap_or_default();
                let message = format!("strftime_now does not know %{directive}");
                return Err(Error::new(ErrorKind::InvalidOperation, message));
            }
        };
    }
    Ok(text)
}

/// Year, month and day of the Gregorian calendar, `days` after 1 January 1970: Howard Hinnant,
/// <https://howardhinnant.github.io/date_algorithms.html#civil_from_days>, for days that are not negative.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468; // since 1 March of year 0
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153; // from March
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use minijinja::value::Serde;

    use super::*;

    #[test]
    fn moments_are_pythons() {
        // datetime.fromtimestamp(seconds, timezone.utc).strftime(...)
        let format = "%A %a %d %B %b %Y %y %m %H:%M:%S 100%%";
        for (seconds, expected) in [
            (0, "Thursday Thu 01 January Jan 1970 70 01 00:00:00 100%"),
            (
                951_782_400,
                "Tuesday Tue 29 February Feb 2000 00 02 00:00:00 100%",
            ),
            (
                1_735_689_599,
                "Tuesday Tue 31 December Dec 2024 24 12 23:59:59 100%",
            ),
            (
                4_107_542_400,
                "Monday Mon 01 March Mar 2100 00 03 00:00:00 100%",
            ),
        ] {
            assert_eq!(strftime(seconds, format).unwrap(), expected);
        }
        assert!(strftime(0, "%Q").is_err());
        assert!(strftime(0, "%").is_err());
    }

    #[test]
    fn json_is_pythons() {
        let value = Value::from(Serde(
            serde_json::json!({"a": [1, 2.5, null, true], "b": {"c": "é\n<"}, "d": []}),
        ));
        let json = |options: &[(&str, Value)]| {
            to_json(value.clone(), options.iter().cloned().collect()).unwrap()
        };
        assert_eq!(
            json(&[]),
            r#"{"a": [1, 2.5, null, true], "b": {"c": "é\n<"}, "d": []}"#
        );
        let pretty = "{\n  \"a\": [\n    1,\n    2.5,\n    null,\n    true\n  ],\n  \"b\": {\n    \"c\": \"é\\n<\"\n  },\n  \"d\": []\n}";
        assert_eq!(json(&[("indent", 2.into())]), pretty);
    }
}
