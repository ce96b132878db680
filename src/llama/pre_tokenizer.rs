//! Cuts a text into words, which byte-level tokenizers never merge across.
//!
//! The patterns are the published ones, but for `\s+(?!\S)`, "white space but for the last if a word follows", which
//! the `regex` crate cannot say: it is `\s+` here, and [`Pattern::split`] gives the last character back.

use std::sync::OnceLock;

use regex::Regex;

mod table;

/// `\s+(?!\S)|\s+`.
const SPACES: &str = r"\s+";

/// How to cut: a row of [`table::TABLE`].
#[derive(Debug)]
pub(in crate::llama) struct PreTokenizer {
    /// GGUF's names for it.
    names: &'static [&'static str],
    /// Each cuts what the one before it left.
    patterns: &'static [&'static str],
    whole_words: bool,
    adds_bos: bool,
    composes: bool,
    compiled: OnceLock<Box<[Pattern]>>,
}

impl PreTokenizer {
    const fn new(
        names: &'static [&'static str],
        patterns: &'static [&'static str],
    ) -> PreTokenizer {
        PreTokenizer {
            names,
            patterns,
            whole_words: false,
            adds_bos: false,
            composes: false,
            compiled: OnceLock::new(),
        }
    }

    const fn keeping_whole_words(mut self) -> PreTokenizer {
        self.whole_words = true;
        self
    }

    const fn beginning_with_bos(mut self) -> PreTokenizer {
        self.adds_bos = true;
        self
    }

    const fn composing(mut self) -> PreTokenizer {
        self.composes = true;
        self
    }

    /// The pre-tokenizer that GGUF's `tokenizer.ggml.pre` names.
    pub fn from_gguf_name(name: &str) -> Option<&'static PreTokenizer> {
        table::TABLE.iter().find(|row| row.names.contains(&name))
    }

    /// The one with these published patterns, and with or without normalization form C.
    pub fn from_published_patterns(
        patterns: &[String],
        composes: bool,
    ) -> Option<&'static PreTokenizer> {
        let written = patterns.iter().map(|pattern| {
            let pattern = pattern.replace(r"\s+(?!\S)|\s+", SPACES);
            pattern.replace(r"\s+(?!\S)", SPACES)
        });
        let written: Vec<String> = written.collect();
        let same = |row: &&PreTokenizer| row.patterns == written && row.composes == composes;
        table::TABLE.iter().find(same)
    }

    /// Every name that GGUF has for one.
    pub fn all_names() -> impl Iterator<Item = &'static str> {
        table::TABLE.iter().flat_map(|row| row.names).copied()
    }

    /// The first of GGUF's names for it.
    pub fn name(&self) -> &'static str {
        self.names[0]
    }

    /// Whether a word that is a token is not split any further, whatever its merges: `ignore_merges`.
    pub fn keeps_whole_words(&self) -> bool {
        self.whole_words
    }

    /// Whether a text begins with the token for it where the file does not say.
    pub fn adds_bos(&self) -> bool {
        self.adds_bos
    }

    /// Whether a text is brought into Unicode's normalization form C first: Qwen's `tokenizer.json` asks for it, and
    /// llama.cpp leaves it out.
    pub fn composes(&self) -> bool {
        self.composes
    }

    /// The words of a text, in their order: all of it.
    pub fn split<'a>(&self, text: &'a str) -> Vec<&'a str> {
        let compile = || self.patterns.iter().copied().map(Pattern::new).collect();
        let patterns = self.compiled.get_or_init(compile);
        patterns.iter().fold(vec![text], |parts, pattern| {
            let parts = parts.into_iter();
            parts.flat_map(|part| pattern.split(part)).collect()
        })
    }
}

#[derive(Debug)]
struct Pattern {
    regex: Regex,
    /// Whether its last alternative is [`SPACES`].
    ends_in_spaces: bool,
}

impl Pattern {
    fn new(pattern: &str) -> Pattern {
        Pattern {
            regex: Regex::new(pattern)
                .expect("the patterns of the table compile: a test splits with each"),
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

    fn split<'a>(name: &str, text: &'a str) -> Vec<&'a str> {
        PreTokenizer::from_gguf_name(name).unwrap().split(text)
    }

    /// `scripts/pre_tokenizer_fixtures.py` made the cases with the published patterns, lookahead and all.
    #[test]
    fn words_are_those_of_the_tokenizers_package() {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/data/pre_tokenizers.json"
        );
        let fixtures: serde_json::Value =
            serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        let texts = fixtures["texts"].as_array().unwrap();
        let mut wrong = Vec::new();
        for (name, lists) in fixtures["words"].as_object().unwrap() {
            for (text, expected) in texts.iter().zip(lists.as_array().unwrap()) {
                let text = text.as_str().unwrap();
                let words = split(name, text);
                let lengths: Vec<usize> = words.iter().map(|word| word.chars().count()).collect();
                if serde_json::json!(lengths) != *expected {
                    wrong.push(format!(
                        "{name}, {text:?}: {words:?} and not lengths {expected}"
                    ));
                }
            }
        }
        assert!(
            wrong.is_empty(),
            "{} wrong:\n{}",
            wrong.len(),
            wrong.join("\n")
        );
    }

    #[test]
    fn no_name_stands_twice() {
        let mut names: Vec<&str> = PreTokenizer::all_names().collect();
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn smollm_cuts_off_each_digit() {
        assert_eq!(
            split("smollm", "in 1234 days"),
            ["in", " ", "1", "2", "3", "4", " days"]
        );
    }

    #[test]
    fn tekken_cuts_at_changes_of_case() {
        assert_eq!(
            split("tekken", "helloWorld HTTPServer 12/\n"),
            ["hello", "World", " HTTPServer", " ", "1", "2", "/\n"]
        );
    }

    #[test]
    fn words_are_those_of_the_published_patterns() {
        let text = "Hello  world's\n\n  1234 don'T \u{65e5}\u{672c}!?\n x   ";
        assert_eq!(
            split("gpt-2", text),
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
            split("llama-bpe", text),
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
            split("qwen2", "a 12\t\tb"),
            ["a", " ", "1", "2", "\t", "\tb"]
        );
        assert_eq!(
            split("default", "x=12345 <a>"),
            ["x", "=", "123", "45", " ", "<", "a", ">"]
        );
    }

    proptest! {
        #[test]
        fn words_are_all_of_the_text(text in "[a '\n\r\t1s\u{e9}\u{65e5}!\u{a0}]{0,40}") {
            for row in &table::TABLE {
                let parts = row.split(&text);
                prop_assert!(parts.iter().all(|part| !part.is_empty()));
                prop_assert_eq!(parts.concat(), text.clone());
            }
        }
    }
}
