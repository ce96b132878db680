//! What templates expect of Python beside Jinja: they are written for transformers.

use std::rc::Rc;
use std::time::{SystemTime, UNIX_EPOCH};

use super::BREAK;
use super::jinja::Failure;
use crate::llama::chat::jinja::budget::{Budget, TextBuilder};
use crate::llama::chat::jinja::text::float;
use crate::llama::chat::jinja::value::Value;

/// How `json.dumps` is to write.
#[derive(Debug, Default)]
pub struct JsonOptions {
    /// What a level is indented by, and how often; all is one line where there is none.
    pub indent: Option<(String, usize)>,
    pub ascii: bool,
    pub sorted: bool,
    /// Between items and behind keys.
    pub separators: Option<(String, String)>,
}

/// `json.dumps(value)`
pub fn to_json(
    budget: &Rc<Budget>,
    value: &Value,
    options: &JsonOptions,
) -> Result<Value, Failure> {
    let (item, key) = match (&options.separators, &options.indent) {
        (Some((item, key)), _) => (item.as_str(), key.as_str()),
        (None, Some(_)) => (",", ": "),
        (None, None) => (", ", ": "),
    };
    let mut json = Json {
        text: TextBuilder::new(budget)?,
        budget,
        options,
        item,
        key,
    };
    json.value(value, 0)?;
    Ok(json.text.finish())
}

struct Json<'a> {
    text: TextBuilder,
    budget: &'a Rc<Budget>,
    options: &'a JsonOptions,
    item: &'a str,
    key: &'a str,
}

impl Json<'_> {
    fn value(&mut self, value: &Value, level: usize) -> Result<(), Failure> {
        self.budget.steps(1)?;
        match value {
            Value::None => self.text.push("null"),
            Value::Bool(value) => self.text.push(if *value { "true" } else { "false" }),
            Value::Int(number) => self.text.push(&number.to_string()),
            Value::Float(number) if number.is_nan() => self.text.push("NaN"),
            Value::Float(number) if number.is_infinite() => self.text.push(if *number > 0.0 {
                "Infinity"
            } else {
                "-Infinity"
            }),
            Value::Float(number) => self.text.push(&float(*number)),
            Value::Text(_) => self.quoted(value.as_str().unwrap_or_default()),
            Value::List(list) => {
                self.text.push("[")?;
                for (position, item) in list.items.iter().enumerate() {
                    self.begin(position, level + 1)?;
                    self.value(item, level + 1)?;
                }
                self.end(list.items.len(), level, "]")
            }
            Value::Map(map) => {
                self.text.push("{")?;
                let mut entries: Vec<_> = map.entries.iter().collect();
                if self.options.sorted {
                    self.budget.steps(entries.len())?;
                    entries.sort_by_key(|(key, _)| key.as_str());
                }
                for (position, (key, value)) in entries.into_iter().enumerate() {
                    self.begin(position, level + 1)?;
                    match key {
                        Value::Text(_) => self.value(key, level)?,
                        _ => {
                            self.text.push("\"")?;
                            self.value(key, level)?;
                            self.text.push("\"")?;
                        }
                    }
                    self.text.push(self.key)?;
                    self.value(value, level + 1)?;
                }
                self.end(map.entries.len(), level, "}")
            }
            other => Err(Failure::fault(format!(
                "{} cannot be written as JSON",
                other.kind()
            ))),
        }
    }

    fn begin(&mut self, position: usize, level: usize) -> Result<(), Failure> {
        if position > 0 {
            self.text.push(self.item)?;
        }
        self.new_line(level)
    }

    fn end(&mut self, items: usize, level: usize, bracket: &str) -> Result<(), Failure> {
        if items > 0 {
            self.new_line(level)?;
        }
        self.text.push(bracket)
    }

    fn new_line(&mut self, level: usize) -> Result<(), Failure> {
        let Some((indent, count)) = &self.options.indent else {
            return Ok(());
        };
        self.text.push("\n")?;
        self.text.repeat(indent, level.saturating_mul(*count))
    }

    fn quoted(&mut self, text: &str) -> Result<(), Failure> {
        self.text.push("\"")?;
        // Most characters stand for themselves.
        let mut plain = 0;
        for (position, character) in text.char_indices() {
            let escape = match character {
                '"' => "\\\"".into(),
                '\\' => "\\\\".into(),
                '\n' => "\\n".into(),
                '\r' => "\\r".into(),
                '\t' => "\\t".into(),
                '\x08' => "\\b".into(),
                '\x0c' => "\\f".into(),
                '\0'..='\x1f' => format!("\\u{:04x}", u32::from(character)),
                BREAK => continue,
                _ if self.options.ascii && !(' '..='~').contains(&character) => {
                    let mut units = [0; 2];
                    let units = character.encode_utf16(&mut units).iter();
                    units.map(|unit| format!("\\u{unit:04x}")).collect()
                }
                _ => continue,
            };
            self.text.push(&text[plain..position])?;
            self.text.push(&escape)?;
            plain = position + character.len_utf8();
        }
        self.text.push(&text[plain..])?;
        self.text.push("\"")
    }
}

/// `datetime.now().strftime(format)`, in UTC.
pub fn strftime_now(budget: &Rc<Budget>, format: &str) -> Result<Value, Failure> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    strftime(budget, now.unwrap_or_default().as_secs(), format)
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
fn strftime(budget: &Rc<Budget>, seconds: u64, format: &str) -> Result<Value, Failure> {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = date(days);
    let (month_name, day_name) = (MONTHS[month as usize - 1], DAYS[(days % 7) as usize]);
    let mut text = TextBuilder::new(budget)?;
    let mut characters = format.chars();
    while let Some(character) = characters.next() {
        if character != '%' {
            text.push_char(character)?;
            continue;
        }
        let directive = characters.next();
        let written = match directive {
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
                return Err(Failure::fault(message));
            }
        };
        text.push(&written)?;
    }
    Ok(text.finish())
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
    use super::*;
    use crate::llama::chat::jinja::value::from_json;
    use crate::llama::chat::limits::ChatTemplateLimits;

    #[test]
    fn moments_are_pythons() {
        // datetime.fromtimestamp(seconds, timezone.utc).strftime(...)
        let format = "%A %a %d %B %b %Y %y %m %H:%M:%S 100%%";
        let budget = Budget::new(ChatTemplateLimits::default());
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
            let written = strftime(&budget, seconds, format).unwrap();
            assert_eq!(written.as_str(), Some(expected));
        }
        assert!(strftime(&budget, 0, "%Q").is_err());
        assert!(strftime(&budget, 0, "%").is_err());
    }

    #[test]
    fn json_is_pythons() {
        let budget = Budget::new(ChatTemplateLimits::default());
        let json =
            serde_json::json!({"b": {"c": "é\n<\u{1}🦀"}, "a": [1, 2.5, null, true], "d": []});
        let value = from_json(&budget, &json).unwrap();
        let json = |options: JsonOptions| {
            let written = to_json(&budget, &value, &options).unwrap();
            written.as_str().unwrap().to_owned()
        };
        assert_eq!(
            json(JsonOptions::default()),
            r#"{"b": {"c": "é\n<\u0001🦀"}, "a": [1, 2.5, null, true], "d": []}"#
        );
        let options = JsonOptions {
            indent: Some((" ".into(), 2)),
            ..JsonOptions::default()
        };
        let pretty = "{\n  \"b\": {\n    \"c\": \"é\\n<\\u0001🦀\"\n  },\n  \"a\": [\n    1,\n    2.5,\n    null,\n    true\n  ],\n  \"d\": []\n}";
        assert_eq!(json(options), pretty);
        let options = JsonOptions {
            ascii: true,
            sorted: true,
            separators: Some((",".into(), ":".into())),
            ..JsonOptions::default()
        };
        assert_eq!(
            json(options),
            r#"{"a":[1,2.5,null,true],"b":{"c":"\u00e9\n<\u0001\ud83e\udd80"},"d":[]}"#
        );
    }
}
