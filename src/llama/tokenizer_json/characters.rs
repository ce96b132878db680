//! Classes of characters, as the `tokenizers` package asks for them.

use std::sync::LazyLock;

use regex::Regex;

/// A class by the name that regular expressions have for it.
struct Class(LazyLock<Regex>);

impl Class {
    fn contains(&self, character: char) -> bool {
        self.0.is_match(character.encode_utf8(&mut [0; 4]))
    }
}

macro_rules! class {
    ($name:ident, $pattern:literal) => {
        static $name: Class = Class(LazyLock::new(|| {
            Regex::new($pattern).expect("the pattern of a class compiles: a test uses each")
        }));
    };
}

class!(PUNCTUATION, r"\p{P}");
class!(OTHER, r"[\p{Cc}\p{Cf}\p{Co}]");
class!(NONSPACING, r"\p{Mn}");
class!(WORD, r"\w");

/// ASCII's, which are symbols in part, and Unicode's.
pub(super) fn is_punctuation(character: char) -> bool {
    character.is_ascii_punctuation() || (!character.is_ascii() && PUNCTUATION.contains(character))
}

/// Controls, formats and private use. Unassigned characters are not among them in the package.
pub(super) fn is_other(character: char) -> bool {
    match character.is_ascii() {
        true => character.is_ascii_control(),
        false => OTHER.contains(character),
    }
}

pub(super) fn is_nonspacing_mark(character: char) -> bool {
    !character.is_ascii() && NONSPACING.contains(character)
}

/// `\w` of regular expressions.
pub(in crate::llama) fn is_word_character(character: char) -> bool {
    WORD.contains(character)
}

/// The ideographs that BERT takes for words. The gap before U+2B920 is the package's, and llama.cpp's.
pub(super) fn is_ideograph(character: char) -> bool {
    matches!(
        u32::from(character),
        0x4E00..=0x9FFF
            | 0x3400..=0x4DBF
            | 0x20000..=0x2A6DF
            | 0x2A700..=0x2B73F
            | 0x2B740..=0x2B81F
            | 0x2B920..=0x2CEAF
            | 0xF900..=0xFAFF
            | 0x2F800..=0x2FA1F
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_have_their_characters() {
        assert!(is_punctuation('$') && is_punctuation('\u{3002}') && !is_punctuation('\u{20ac}'));
        assert!(is_other('\u{7f}') && is_other('\u{200d}') && is_other('\u{e000}'));
        assert!(!is_other('a') && !is_other('\u{378}'));
        assert!(is_nonspacing_mark('\u{301}') && !is_nonspacing_mark('\u{903}'));
        assert!(is_word_character('_') && is_word_character('\u{e9}') && !is_word_character('-'));
        assert!(is_ideograph('\u{65e5}') && !is_ideograph('\u{3042}'));
    }
}
