//! Cuts a text into words, which byte-level tokenizers never merge across.
//!
//! The patterns are the published ones, but for `\s+(?!\S)`, "white space but for the last if a word follows", which
//! the `regex` crate cannot say: it is `\s+` here, and [`Pattern::split`] gives the last character back.

use std::sync::LazyLock;

use regex::Regex;

/// How to cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PreTokenizer {
    /// Radford et al. 2019: contractions, then letters, numbers or others after at most one space.
    Gpt2,
    /// Llama 3: numbers in groups of three, newlines stay with punctuation.
    Llama3,
    /// Qwen 2 and 3: as Llama 3, with every digit for itself.
    Qwen2,
    /// What llama.cpp does for files that do not say.
    Default,
}

/// `\s+(?!\S)|\s+`.
const SPACES: &str = r"\s+";
const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+";
const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+";
const QWEN2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+";

impl PreTokenizer {
    /// The pre-tokenizer that GGUF's `tokenizer.ggml.pre` names.
    pub fn from_gguf_name(name: &str) -> Option<PreTokenizer> {
        Some(match name {
            "llama-bpe" | "llama3" | "llama-v3" => PreTokenizer::Llama3,
            "gpt-2" | "gpt2" => PreTokenizer::Gpt2,
            "qwen2" | "deepseek-r1-qwen" => PreTokenizer::Qwen2,
            "default" => PreTokenizer::Default,
            _ => return None,
        })
    }

    /// The words of a text, in their order: all of it.
    pub fn split(self, text: &str) -> Vec<&str> {
        self.patterns().iter().fold(vec![text], |parts, pattern| {
            let parts = parts.into_iter();
            parts.flat_map(|part| pattern.split(part)).collect()
        })
    }

    /// Each cuts what the one before it left.
    fn patterns(self) -> &'static [Pattern] {
        static GPT2_ONLY: LazyLock<[Pattern; 1]> = LazyLock::new(|| [Pattern::new(GPT2)]);
        static LLAMA3_ONLY: LazyLock<[Pattern; 1]> = LazyLock::new(|| [Pattern::new(LLAMA3)]);
        static QWEN2_ONLY: LazyLock<[Pattern; 1]> = LazyLock::new(|| [Pattern::new(QWEN2)]);
        static DEFAULT: LazyLock<[Pattern; 4]> = LazyLock::new(|| {
            [
                Pattern::new(r"[\p{P}\$\+<=>\^~\|]+"),
                Pattern::new(GPT2),
                Pattern::new(r"\p{N}+"),
                Pattern::new(r"[0-9][0-9][0-9]"),
            ]
        });
        match self {
            PreTokenizer::Gpt2 => &*GPT2_ONLY,
            PreTokenizer::Llama3 => &*LLAMA3_ONLY,
            PreTokenizer::Qwen2 => &*QWEN2_ONLY,
            PreTokenizer::Default => &*DEFAULT,
        }
    }
}

struct Pattern {
    regex: Regex,
    /// Whether its last alternative is [`SPACES`].
    ends_in_spaces: bool,
}

impl Pattern {
    fn new(pattern: &str) -> Pattern {
        Pattern {
            regex: Regex::new(pattern).expect("the patterns are constants of this file"),
            ends_in_spaces: pattern.ends_with(&format!("|{SPACES}")),
        }
    }

    /// The matches and what is between them.
    fn split<'a>(&self, text: &'a str) -> Vec<&'a str> {
        let mut parts = Vec::new();
        let mut start = 0;
        while let Some(found) = self.regex.find_at(text, start) {
            if found.start() > start {
                parts.push(&text[start..found.start()]);
            }
            let end = found.end() - self.given_back(text, found.as_str(), found.end());
            parts.push(&text[found.start()..end]);
            start = end;
        }
        if start < text.len() {
            parts.push(&text[start..]);
        }
        parts
    }

    /// How many bytes of a match its `\s+(?!\S)` would not have taken: the last character, when more than one white
    /// space character matched and a word follows. Where newlines have an alternative of their own, white space up to
    /// one was matched by that.
    fn given_back(&self, text: &str, found: &str, end: usize) -> usize {
        let mut characters = found.chars();
        let last = match characters.next_back() {
            Some(last) if self.ends_in_spaces && end < text.len() => last,
            _ => return 0,
        };
        let newlines_apart = self.regex.as_str().contains(r"\s*[\r\n]+");
        if newlines_apart && matches!(last, '\r' | '\n') {
            return 0;
        }
        // A word that starts with a space does not end in one.
        match last.is_whitespace() && characters.next().is_some() {
            true => last.len_utf8(),
            false => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn words_are_those_of_the_published_patterns() {
        let text = "Hello  world's\n\n  1234 don'T \u{65e5}\u{672c}!?\n x   ";
        assert_eq!(
            PreTokenizer::Gpt2.split(text),
            [
                "Hello",
                " ",
                " world",
                "'s",
                "\n\n ",
                " 1234",
                " don",
                "'",
                "T",
                " \u{65e5}\u{672c}",
                "!?",
                "\n",
                " x",
                "   "
            ]
        );
        assert_eq!(
            PreTokenizer::Llama3.split(text),
            [
                "Hello",
                " ",
                " world",
                "'s",
                "\n\n",
                " ",
                " ",
                "123",
                "4",
                " don",
                "'T",
                " \u{65e5}\u{672c}",
                "!?\n",
                " x",
                "   "
            ]
        );
        assert_eq!(
            PreTokenizer::Qwen2.split("a 12\t\tb"),
            ["a", " ", "1", "2", "\t", "\tb"]
        );
        assert_eq!(
            PreTokenizer::Default.split("x=12345 <a>"),
            ["x", "=", "123", "45", " ", "<", "a", ">"]
        );
    }

    proptest! {
        #[test]
        fn words_are_all_of_the_text(text in "[a '\n\r\t1s\u{e9}\u{65e5}!\u{a0}]{0,40}") {
            for kind in [
                PreTokenizer::Gpt2,
                PreTokenizer::Llama3,
                PreTokenizer::Qwen2,
                PreTokenizer::Default,
            ] {
                let parts = kind.split(&text);
                prop_assert!(parts.iter().all(|part| !part.is_empty()));
                prop_assert_eq!(parts.concat(), text.clone());
            }
        }
    }
}
