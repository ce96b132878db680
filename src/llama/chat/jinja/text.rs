//! Values as text, as Python's `str` and `repr` write them.

use std::rc::Rc;

use super::Failure;
use super::budget::{Budget, TextBuilder};
use super::value::Value;
use crate::llama::chat::BREAK;

/// White space, as Python's `str.isspace` has it.
pub fn is_space(character: char) -> bool {
    character.is_whitespace() || ('\x1c'..='\x1f').contains(&character)
}

/// `str(value)`
pub fn to_text(budget: &Rc<Budget>, value: &Value) -> Result<Value, Failure> {
    if matches!(value, Value::Text(_)) {
        return Ok(value.clone());
    }
    let mut text = TextBuilder::new(budget)?;
    write_str(&mut text, budget, value)?;
    Ok(text.finish())
}

pub fn write_str(text: &mut TextBuilder, budget: &Budget, value: &Value) -> Result<(), Failure> {
    match value {
        Value::Text(_) => text.push(value.as_str().unwrap_or_default()),
        Value::Undefined => Ok(()),
        _ => write_repr(text, budget, value),
    }
}

/// `repr(value)`
pub fn write_repr(text: &mut TextBuilder, budget: &Budget, value: &Value) -> Result<(), Failure> {
    budget.steps(1)?;
    match value {
        Value::Undefined => text.push("Undefined"),
        Value::None => text.push("None"),
        Value::Bool(true) => text.push("True"),
        Value::Bool(false) => text.push("False"),
        Value::Int(number) => text.push(&number.to_string()),
        Value::Float(number) => text.push(&float(*number)),
        Value::Text(_) => write_quoted(text, value.as_str().unwrap_or_default()),
        Value::List(list) => {
            text.push(if list.tuple { "(" } else { "[" })?;
            for (position, item) in list.items.iter().enumerate() {
                if position > 0 {
                    text.push(", ")?;
                }
                write_repr(text, budget, item)?;
            }
            text.push(match (list.tuple, list.items.len()) {
                (true, 1) => ",)",
                (true, _) => ")",
                (false, _) => "]",
            })
        }
        Value::Map(map) => {
            text.push("{")?;
            for (position, (key, value)) in map.entries.iter().enumerate() {
                if position > 0 {
                    text.push(", ")?;
                }
                write_repr(text, budget, key)?;
                text.push(": ")?;
                write_repr(text, budget, value)?;
            }
            text.push("}")
        }
        Value::Namespace(_) => text.push("<Namespace>"),
        Value::Loop(..) => text.push("<LoopContext>"),
        Value::Macro(_) | Value::Caller(..) => text.push("<Macro>"),
        Value::Function(_) => text.push("<function>"),
    }
}

fn write_quoted(text: &mut TextBuilder, quoted: &str) -> Result<(), Failure> {
    let mark = if quoted.contains('\'') && !quoted.contains('"') {
        '"'
    } else {
        '\''
    };
    text.push_char(mark)?;
    for character in quoted.chars() {
        match character {
            '\n' => text.push("\\n")?,
            '\r' => text.push("\\r")?,
            '\t' => text.push("\\t")?,
            '\\' => text.push("\\\\")?,
            _ if character == mark => {
                text.push("\\")?;
                text.push_char(character)?;
            }
            BREAK => text.push_char(character)?,
            _ if is_printable(character) => text.push_char(character)?,
            _ => text.push(&match u32::from(character) {
                code @ ..=0xff => format!("\\x{code:02x}"),
                code @ ..=0xffff => format!("\\u{code:04x}"),
                code => format!("\\U{code:08x}"),
            })?,
        }
    }
    text.push_char(mark)
}

/// Rust escapes what is not, and marks that combine at the beginning of a text.
fn is_printable(character: char) -> bool {
    if character.is_ascii() {
        return !character.is_ascii_control();
    }
    let mut behind = [b'a'; 5];
    let length = 1 + character.encode_utf8(&mut behind[1..]).len();
    let text = std::str::from_utf8(&behind[..length]).unwrap_or_default();
    text.escape_debug().nth(1) == Some(character)
}

/// `repr` of a float: as short as it can be read back, with an exponent where there are more than 16 digits.
pub fn float(number: f64) -> String {
    if number.is_nan() {
        return "nan".into();
    }
    if number.is_infinite() {
        return if number > 0.0 { "inf" } else { "-inf" }.into();
    }
    if number == 0.0 || (1e-4..1e16).contains(&number.abs()) {
        return format!("{number:?}");
    }
    let scientific = format!("{number:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let (sign, exponent) = match exponent.strip_prefix('-') {
        Some(exponent) => ('-', exponent),
        None => ('+', exponent),
    };
    format!("{digits}e{sign}{exponent:0>2}")
}

/// What stands between the quotation marks of a string, with Python's escapes read.
pub fn unescape(quoted: &str, text: &mut String) -> Result<(), String> {
    let mut rest = quoted;
    while let Some(place) = rest.find('\\') {
        text.push_str(&rest[..place]);
        rest = &rest[place + 1..];
        let Some(escape) = rest.chars().next() else {
            text.push('\\');
            break;
        };
        let behind = &rest[escape.len_utf8()..];
        rest = behind;
        match escape {
            '\n' => {}
            '\\' | '\'' | '"' => text.push(escape),
            'a' => text.push('\x07'),
            'b' => text.push('\x08'),
            'f' => text.push('\x0c'),
            'n' => text.push('\n'),
            'r' => text.push('\r'),
            't' => text.push('\t'),
            'v' => text.push('\x0b'),
            '0'..='7' => {
                let octal = behind
                    .bytes()
                    .take(2)
                    .take_while(|byte| matches!(byte, b'0'..=b'7'));
                let more = octal.count();
                let code = behind[..more]
                    .bytes()
                    .fold(escape as u32 - '0' as u32, |code, digit| {
                        code * 8 + u32::from(digit - b'0')
                    });
                text.extend(char::from_u32(code));
                rest = &behind[more..];
            }
            'x' | 'u' | 'U' => {
                let digits = match escape {
                    'x' => 2,
                    'u' => 4,
                    _ => 8,
                };
                let read = |text: &str| {
                    let code = text.get(..digits)?;
                    let all = code.bytes().all(|byte| byte.is_ascii_hexdigit());
                    all.then(|| u32::from_str_radix(code, 16).ok())?
                };
                let Some(code) = read(behind) else {
                    return Err(format!("\\{escape} takes {digits} hexadecimal digits"));
                };
                rest = &behind[digits..];
                // Two halves of a pair, as JSON has them, are one character here too.
                if (0xd800..0xdc00).contains(&code)
                    && let Some(low) = rest.strip_prefix("\\u").and_then(read)
                    && (0xdc00..0xe000).contains(&low)
                {
                    rest = &rest[6..];
                    text.extend(char::from_u32(
                        0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00),
                    ));
                    continue;
                }
                match char::from_u32(code) {
                    Some(character) => text.push(character),
                    None => return Err(format!("\\{escape}{code:0digits$x} is no character")),
                }
            }
            other => {
                text.push('\\');
                text.push(other);
            }
        }
    }
    text.push_str(rest);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::llama::chat::limits::ChatTemplateLimits;

    #[test]
    fn floats_are_pythons() {
        for (number, expected) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.5, "1.5"),
            (100.0, "100.0"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (1.25e-5, "1.25e-05"),
            (1e-4, "0.0001"),
            (1e300, "1e+300"),
            (f64::NAN, "nan"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(float(number), expected);
        }
    }

    #[test]
    fn strings_are_quoted_as_python_does() {
        let budget = Budget::new(ChatTemplateLimits::default());
        for (text, expected) in [
            ("a", "'a'"),
            ("it's", "\"it's\""),
            ("'\"", r#"'\'"'"#),
            ("\n\t\\\x07\u{85}", r"'\n\t\\\x07\x85'"),
            ("é🦀e\u{301}", "'é🦀e\u{301}'"),
            ("\u{200b}\u{e000}\u{f0000}", r"'\u200b\ue000\U000f0000'"),
        ] {
            let mut written = TextBuilder::new(&budget).unwrap();
            write_quoted(&mut written, text).unwrap();
            assert_eq!(written.finish().as_str(), Some(expected));
        }
    }

    #[test]
    fn escapes_are_pythons() {
        let read = |quoted: &str| {
            let mut text = String::new();
            unescape(quoted, &mut text).map(|()| text)
        };
        assert_eq!(
            read(r"\n\x41\u00e9\U0001f980\101\0é\q\'").unwrap(),
            "\nAé🦀A\0é\\q'"
        );
        assert_eq!(read(r"\ud83e\udd80").unwrap(), "🦀");
        for wrong in [r"\ud800", r"\xg0", r"\u12", r"\U00110000", r"\x", r"\u1é2"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
