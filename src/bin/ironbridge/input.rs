//! Texts that commands read.

use std::error::Error;
use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::path::Path;

use crate::terminal::bytes;

/// The longest text that a command reads, in bytes. A device file has no end.
const LONGEST: u64 = 256 << 20;

/// A file's text; that of standard input for `-` and for no file at all.
///
/// # Errors
///
/// When it cannot be read, is longer than 256 MiB or is not UTF-8.
pub fn read_text(file: Option<&Path>) -> Result<String, Box<dyn Error>> {
    let (name, read) = match file {
        Some(path) if path != Path::new("-") => {
            let read = File::open(path).and_then(|file| read_bytes(file, LONGEST));
            (path.display().to_string(), read)
        }
        _ => {
            let read = read_bytes(io::stdin().lock(), LONGEST);
            ("standard input".to_owned(), read)
        }
    };
    let read = read.map_err(|error| format!("cannot read {name}: {error}"))?;
    let read = read.ok_or_else(|| {
        let limit = bytes(LONGEST);
        format!("{name} is longer than {limit}, the most that is read of a text")
    })?;
    String::from_utf8(read).map_err(|error| {
        let place = error.utf8_error().valid_up_to();
        format!("{name} is not UTF-8 text from byte {place} on").into()
    })
}

/// The same without the line end at its end, which every editor writes and nobody means.
///
/// # Errors
///
/// As [`read_text`], and when there is neither a file nor anything but a terminal to read from.
pub fn read_prompt(file: Option<&Path>) -> Result<String, Box<dyn Error>> {
    if file.is_none() && io::stdin().is_terminal() {
        return Err(
            "there is no text to go on from; give it by --prompt, --file or standard input".into(),
        );
    }
    let mut text = read_text(file)?;
    text.truncate(without_last_line_end(&text).len());
    Ok(text)
}

fn without_last_line_end(text: &str) -> &str {
    let line = text.strip_suffix('\n').unwrap_or(text);
    match line.len() < text.len() {
        true => line.strip_suffix('\r').unwrap_or(line),
        false => text,
    }
}

/// A text with its escapes resolved: `\n`, `\r`, `\t`, `\\`, `\"`, `\'` and `\x41`. Others stay as they are, as they do
/// in llama.cpp.
pub fn unescaped(text: &str) -> String {
    let mut result = String::new();
    let mut rest = text;
    while let Some(place) = rest.find('\\') {
        let (before, escape) = rest.split_at(place);
        result.push_str(before);
        let (written, length) = match escape.as_bytes() {
            [_, b'n', ..] => ('\n', 2),
            [_, b'r', ..] => ('\r', 2),
            [_, b't', ..] => ('\t', 2),
            [_, quoted @ (b'\\' | b'"' | b'\''), ..] => (char::from(*quoted), 2),
            // Above 0x7f a single byte is no character.
            [_, b'x', high @ b'0'..=b'7', low, ..] if low.is_ascii_hexdigit() => {
                let digits = [*high, *low].map(|digit| char::from(digit).to_digit(16).unwrap_or(0));
                (char::from((digits[0] * 16 + digits[1]) as u8), 4)
            }
            _ => ('\\', 1),
        };
        result.push(written);
        rest = &escape[length..];
    }
    result + rest
}

/// All of it; `None` when it has more than `limit` bytes.
fn read_bytes(from: impl Read, limit: u64) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    from.take(limit + 1).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= limit).then_some(bytes))
}

#[cfg(test)]
mod tests {
    use super::{read_bytes, unescaped, without_last_line_end};

    #[test]
    fn one_line_end_goes() {
        for (text, expected) in [
            ("a\n", "a"),
            ("a\r\n", "a"),
            ("a\n\n", "a\n"),
            ("a", "a"),
            ("a\r", "a\r"),
            ("\n", ""),
            ("", ""),
        ] {
            assert_eq!(without_last_line_end(text), expected);
        }
    }

    #[test]
    fn escapes_are_those_of_llama_cpp() {
        assert_eq!(unescaped(r#"a\nb\t\\n\"\'\x41\r"#), "a\nb\t\\n\"'A\r");
        for unknown in [r"\q", r"\", r"\xZ1", r"\xC3", r"\x4", r"\ä"] {
            assert_eq!(unescaped(unknown), unknown);
        }
    }

    #[test]
    fn what_is_longer_than_the_limit_is_refused() {
        let of = |text: &str| read_bytes(text.as_bytes(), 4).expect("memory is readable");
        assert_eq!(of("four"), Some(b"four".to_vec()));
        assert_eq!(of("fives"), None);
        let endless = read_bytes(std::io::repeat(0), 1 << 20);
        assert_eq!(endless.expect("zeros are readable"), None);
    }
}
