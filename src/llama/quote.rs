//! Texts of strangers inside messages of errors: never long, and on one line.

use std::fmt::{self, Write};

/// Characters of a name, or of another library's message, that one message has.
const CHARACTERS: usize = 100;

/// Those of them that are the end of a long message.
const END_CHARACTERS: usize = 35;

/// The text in quotation marks, escaped, and cut where that is long: `"name"`.
pub fn quoted(text: &str) -> Quoted<'_> {
    Quoted(text)
}

/// What another library says, or a value that is no name, on one line. A long one loses its middle: the end of serde's
/// messages is the place in the file.
pub fn message(error: impl fmt::Display) -> String {
    let text = error.to_string();
    let cut = |place: usize| text.char_indices().nth(place).map(|(offset, _)| offset);
    if cut(CHARACTERS).is_none() {
        return text.chars().map(plain).collect();
    }
    let start = text.chars().take(CHARACTERS - END_CHARACTERS).map(plain);
    let end = text.char_indices().rev().nth(END_CHARACTERS - 1);
    let end = end.map_or("", |(offset, _)| &text[offset..]);
    start.chain(['…']).chain(end.chars().map(plain)).collect()
}

/// The text's first characters, with spaces for control characters and `…` where there are more.
#[cfg(feature = "chat")]
pub fn one_line(text: &str, most: usize) -> String {
    let mut characters = text.chars();
    let start = characters.by_ref().take(most);
    let mut line: String = start.map(plain).collect();
    if characters.next().is_some() {
        line.push('…');
    }
    line
}

fn plain(character: char) -> char {
    if character.is_control() {
        ' '
    } else {
        character
    }
}

pub struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_char('"')?;
        let mut left = CHARACTERS;
        for character in self.0.chars() {
            let escaped = character.escape_debug();
            let length = if character == '\'' { 1 } else { escaped.len() };
            let Some(rest) = left.checked_sub(length) else {
                return formatter.write_str("…\"");
            };
            left = rest;
            match character {
                '\'' => formatter.write_char(character)?,
                _ => write!(formatter, "{escaped}")?,
            }
        }
        formatter.write_char('"')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_between_characters() {
        assert_eq!(quoted("it's \"a\"\n").to_string(), r#""it's \"a\"\n""#);
        let long = "é".repeat(50_000_000);
        assert_eq!(
            quoted(&long).to_string(),
            format!("\"{}…\"", "é".repeat(100))
        );
        let control = "\u{1b}".repeat(100);
        assert_eq!(
            quoted(&control).to_string(),
            format!("\"{}…\"", "\\u{1b}".repeat(16))
        );
        let json = serde_json::from_str::<u8>(&format!("{long:?}")).unwrap_err();
        let cut = message(json);
        assert_eq!(cut.chars().count(), 101);
        assert!(cut.starts_with("invalid type: string \"éé"), "{cut}");
        assert!(cut.ends_with("at line 1 column 100000002"), "{cut}");
        assert_eq!(message("a\nb"), "a b");
        assert_eq!(message("é".repeat(100)), "é".repeat(100));
    }
}
