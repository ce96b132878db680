//! Cuts a text into words for tokenizers whose pieces are text: `pre_tokenizer` of `tokenizer.json`, as the
//! `tokenizers` package does it. Byte-level ones are cut by the patterns of [`crate::llama::pre_tokenizer`].

use std::ops::Range;

use regex::Regex;
use serde_json::Value as Json;

use super::characters::is_punctuation;
use super::normalizer::pattern;
use super::step::{self, UnknownStep};

/// What becomes of the parts that are found, by the package's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::llama) enum Behavior {
    Removed,
    Isolated,
    MergedWithPrevious,
    MergedWithNext,
    Contiguous,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
/// Which words get the character that stands for a space.
pub(in crate::llama) enum Scheme {
    Never,
    First,
    Always,
}

#[derive(Clone, Debug)]
pub(in crate::llama) enum WordSplitter {
    /// At white space, which is dropped.
    Whitespace,
    /// At white space, which is dropped, and at each punctuation mark.
    Bert,
    /// Spaces become the character, which begins words if they are split there.
    Metaspace {
        replacement: char,
        scheme: Scheme,
        splits: bool,
    },
    Digits(Behavior),
    Punctuation(Behavior),
    Pattern {
        pattern: Regex,
        behavior: Behavior,
        /// Whether the pattern finds what is between.
        invert: bool,
    },
    Sequence(Vec<WordSplitter>),
}

/// A word, and whether it begins the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::llama) struct Word {
    pub text: String,
    pub first: bool,
}

/// A part of a text, and whether a pattern found it.
type Part = (Range<usize>, bool);

impl WordSplitter {
    /// Reads one, or `None` for `null`.
    ///
    /// # Errors
    ///
    /// [`UnknownStep`] when it is not known.
    pub fn parse(json: &Json) -> Result<Option<WordSplitter>, UnknownStep> {
        match json.is_null() {
            true => Ok(None),
            false => WordSplitter::step(json, false).map(Some),
        }
    }

    /// `follows`: another step has cut the text by then.
    fn step(json: &Json, follows: bool) -> Result<WordSplitter, UnknownStep> {
        Ok(match step::kind(json) {
            "WhitespaceSplit" => WordSplitter::Whitespace,
            "BertPreTokenizer" => WordSplitter::Bert,
            "Whitespace" => WordSplitter::Pattern {
                pattern: Regex::new(r"\w+|[^\w\s]+")
                    .expect("a pattern that compiles: a test uses it"),
                behavior: Behavior::Removed,
                invert: true,
            },
            "Metaspace" => metaspace(json, follows)?,
            "Digits" => WordSplitter::Digits(match step::flag(json, "individual_digits", false)? {
                true => Behavior::Isolated,
                false => Behavior::Contiguous,
            }),
            "Punctuation" => WordSplitter::Punctuation(match json["behavior"].is_null() {
                true => Behavior::Isolated,
                false => behavior(json)?,
            }),
            "Split" => WordSplitter::Pattern {
                pattern: pattern(json)?,
                behavior: behavior(json)?,
                invert: step::flag(json, "invert", false)?,
            },
            "Sequence" => {
                let steps = step::steps(json, "pretokenizers")?.iter();
                let steps = steps.enumerate();
                let steps =
                    steps.map(|(index, step)| WordSplitter::step(step, follows || index > 0));
                WordSplitter::Sequence(steps.collect::<Result<_, _>>()?)
            }
            _ => return Err(step::unknown(json, "this pre-tokenizer is not known here")),
        })
    }

    /// The words of a text; `first`: it begins the whole text.
    pub fn split(&self, text: &str, first: bool) -> Vec<Word> {
        let whole = Word {
            text: text.to_owned(),
            first,
        };
        self.cut(vec![whole])
    }

    fn cut(&self, words: Vec<Word>) -> Vec<Word> {
        if let WordSplitter::Sequence(steps) = self {
            return steps.iter().fold(words, |words, step| step.cut(words));
        }
        let mut cut = Vec::with_capacity(words.len());
        for word in words.into_iter().filter(|word| !word.text.is_empty()) {
            self.cut_word(word, &mut cut);
        }
        cut
    }

    fn cut_word(&self, word: Word, words: &mut Vec<Word>) {
        let text = word.text.as_str();
        let parts = match self {
            WordSplitter::Whitespace => {
                behave(by_character(text, char::is_whitespace), Behavior::Removed)
            }
            WordSplitter::Bert => {
                let texts = bert_words(text).map(str::to_owned);
                words.extend(texts.map(|text| Word { text, first: false }));
                return;
            }
            WordSplitter::Metaspace {
                replacement,
                scheme,
                splits,
            } => {
                let mut escaped = text.replace(' ', replacement.encode_utf8(&mut [0; 4]));
                let wanted = match scheme {
                    Scheme::Never => false,
                    Scheme::First => word.first,
                    Scheme::Always => true,
                };
                if wanted && !escaped.starts_with(*replacement) {
                    escaped.insert(0, *replacement);
                }
                let parts = by_character(&escaped, |c| *splits && c == *replacement);
                let parts = behave(parts, Behavior::MergedWithNext);
                return push(&escaped, word.first, parts, words);
            }
            WordSplitter::Digits(behavior) => {
                behave(by_character(text, char::is_numeric), *behavior)
            }
            WordSplitter::Punctuation(behavior) => {
                behave(by_character(text, is_punctuation), *behavior)
            }
            WordSplitter::Pattern {
                pattern,
                behavior,
                invert,
            } => {
                let parts = by_pattern(text, pattern);
                let parts = parts
                    .into_iter()
                    .map(|(part, found)| (part, found != *invert));
                behave(parts.collect(), *behavior)
            }
            WordSplitter::Sequence(_) => unreachable!("`cut` takes a sequence apart"),
        };
        push(text, word.first, parts, words);
    }
}

fn push(text: &str, first: bool, parts: Vec<Range<usize>>, words: &mut Vec<Word>) {
    words.extend(parts.into_iter().map(|part| Word {
        first: first && part.start == 0,
        text: text[part].to_owned(),
    }));
}

/// What BERT takes for words: between white space, with each punctuation mark apart.
pub(in crate::llama) fn bert_words(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(char::is_whitespace);
    words.flat_map(|word| {
        let parts = by_character(word, is_punctuation).into_iter();
        parts.map(|(part, _)| &word[part])
    })
}

fn metaspace(json: &Json, follows: bool) -> Result<WordSplitter, UnknownStep> {
    let mut characters = step::text(json, "replacement")?.chars();
    let (Some(replacement), None) = (characters.next(), characters.next()) else {
        return Err(step::unknown(json, "its replacement is not one character"));
    };
    // Older files have no scheme.
    let scheme = match (
        json["prepend_scheme"].as_str(),
        step::flag(json, "add_prefix_space", true)?,
    ) {
        (Some("first"), _) if follows => {
            return Err(step::unknown(
                json,
                "\"first\" is supported only where no step is before it",
            ));
        }
        (Some("first"), _) => Scheme::First,
        (Some("always"), _) | (None, true) => Scheme::Always,
        (Some("never"), _) | (None, false) => Scheme::Never,
        _ => return Err(step::unknown(json, "its prepend_scheme is not known")),
    };
    Ok(WordSplitter::Metaspace {
        replacement,
        scheme,
        splits: step::flag(json, "split", true)?,
    })
}

fn behavior(json: &Json) -> Result<Behavior, UnknownStep> {
    Ok(match step::text(json, "behavior")? {
        "Removed" => Behavior::Removed,
        "Isolated" => Behavior::Isolated,
        "MergedWithPrevious" => Behavior::MergedWithPrevious,
        "MergedWithNext" => Behavior::MergedWithNext,
        "Contiguous" => Behavior::Contiguous,
        _ => return Err(step::unknown(json, "its behavior is not known")),
    })
}

/// Each character that is of the class, and what is between them.
fn by_character(text: &str, is_found: impl Fn(char) -> bool) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut start = 0;
    for (place, character) in text
        .char_indices()
        .filter(|(_, character)| is_found(*character))
    {
        if start < place {
            parts.push((start..place, false));
        }
        start = place + character.len_utf8();
        parts.push((place..start, true));
    }
    if start < text.len() {
        parts.push((start..text.len(), false));
    }
    parts
}

fn by_pattern(text: &str, pattern: &Regex) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut start = 0;
    for found in pattern.find_iter(text) {
        if start < found.start() {
            parts.push((start..found.start(), false));
        }
        parts.push((found.range(), true));
        start = found.end();
    }
    if start < text.len() {
        parts.push((start..text.len(), false));
    }
    parts
}

fn behave(parts: Vec<Part>, behavior: Behavior) -> Vec<Range<usize>> {
    let mut words: Vec<Range<usize>> = Vec::with_capacity(parts.len());
    match behavior {
        Behavior::Isolated => words.extend(parts.into_iter().map(|(part, _)| part)),
        Behavior::Removed => {
            let between = parts.into_iter().filter(|(_, found)| !found);
            words.extend(between.map(|(part, _)| part));
        }
        Behavior::Contiguous => {
            let mut last = None;
            for (part, found) in parts {
                match words.last_mut().filter(|_| last == Some(found)) {
                    Some(word) => word.end = part.end,
                    None => words.push(part),
                }
                last = Some(found);
            }
        }
        Behavior::MergedWithPrevious => {
            let mut last = false;
            for (part, found) in parts {
                match words.last_mut().filter(|_| found && !last) {
                    Some(word) => word.end = part.end,
                    None => words.push(part),
                }
                last = found;
            }
        }
        Behavior::MergedWithNext => {
            let mut last = false;
            for (part, found) in parts.into_iter().rev() {
                match words.last_mut().filter(|_| found && !last) {
                    Some(word) => word.start = part.start,
                    None => words.push(part),
                }
                last = found;
            }
            words.reverse();
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn split(json: &Json, text: &str) -> Vec<String> {
        let splitter = WordSplitter::parse(json).unwrap().unwrap();
        let words = splitter.split(text, true).into_iter();
        words.map(|word| word.text).collect()
    }

    #[test]
    fn words_are_cut_as_the_package_cuts_them() {
        let metaspace = |scheme: &str, split: bool| json!({ "type": "Metaspace", "replacement": "_", "prepend_scheme": scheme, "split": split });
        let by_x = |behavior: &str| json!({ "type": "Split", "pattern": { "String": "x" }, "behavior": behavior });
        for (json, text, words) in [
            (
                json!({ "type": "BertPreTokenizer" }),
                " it's 5$\u{3000}x",
                &["it", "'", "s", "5", "$", "x"][..],
            ),
            (
                json!({ "type": "Whitespace" }),
                "a_b ->c",
                &["a_b", "->", "c"],
            ),
            (
                json!({ "type": "Digits", "individual_digits": true }),
                "a12",
                &["a", "1", "2"],
            ),
            (json!({ "type": "Digits" }), "a12b", &["a", "12", "b"]),
            (metaspace("always", true), "a  b", &["_a", "_", "_b"]),
            (metaspace("never", true), "a b", &["a", "_b"]),
            (metaspace("first", false), " a b", &["_a_b"]),
            (by_x("Isolated"), "axxb", &["a", "x", "x", "b"]),
            (by_x("Removed"), "axxb", &["a", "b"]),
            (by_x("Contiguous"), "axxb", &["a", "xx", "b"]),
            (by_x("MergedWithPrevious"), "axxb", &["ax", "x", "b"]),
            (by_x("MergedWithNext"), "axxb", &["a", "x", "xb"]),
        ] {
            assert_eq!(split(&json, text), words, "{json}");
        }
        let sequence = json!({ "type": "Sequence", "pretokenizers": [{ "type": "WhitespaceSplit" }, metaspace("always", true)] });
        assert_eq!(split(&sequence, " a b"), ["_a", "_b"]);
        assert_eq!(split(&sequence, ""), [""; 0]);
    }

    #[test]
    fn what_is_not_known_is_named() {
        let first = json!({ "type": "Metaspace", "replacement": "_", "prepend_scheme": "first" });
        let sequence =
            json!({ "type": "Sequence", "pretokenizers": [{ "type": "Whitespace" }, first] });
        for (json, kind) in [
            (json!({ "type": "UnicodeScripts" }), "UnicodeScripts"),
            (
                json!({ "type": "Sequence", "pretokenizers": 3 }),
                "Sequence",
            ),
            (
                json!({ "type": "Metaspace", "replacement": "ab" }),
                "Metaspace",
            ),
            (
                json!({ "type": "Metaspace", "replacement": "a", "prepend_scheme": "last" }),
                "Metaspace",
            ),
            (
                json!({ "type": "Split", "pattern": { "String": "a" }, "behavior": "Kept" }),
                "Split",
            ),
            (sequence, "Metaspace"),
        ] {
            assert_eq!(WordSplitter::parse(&json).unwrap_err().kind, kind);
        }
    }

    proptest! {
        #[test]
        fn no_behavior_but_removal_loses_text(text in "[ax1. \u{e9}]{0,30}") {
            for behavior in ["Isolated", "Contiguous", "MergedWithPrevious", "MergedWithNext"] {
                let json = json!({ "type": "Split", "pattern": { "Regex": "x|1*" }, "behavior": behavior });
                prop_assert_eq!(split(&json, &text).concat(), text.clone());
            }
        }
    }
}
