//! What happens to a text before it is split: `normalizer` of `tokenizer.json`, as the `tokenizers` package does it.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use regex::{Regex, RegexBuilder};
use serde_json::Value as Json;
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

use super::character_map::CharacterMap;
use super::characters::{is_ideograph, is_nonspacing_mark, is_other};
use super::step::{self, UnknownStep};

/// How many times longer all steps together may make a text. Real ones stay below 100.
const MOST_GROWTH: usize = 4096;
/// Bytes that a compiled pattern may have.
const PATTERN_SIZE: usize = 1 << 20;

#[derive(Clone, Debug)]
pub(in crate::llama) enum Normalizer {
    Nfc,
    Nfd,
    Nfkc,
    Nfkd,
    Lowercase,
    StripAccents,
    /// White space at the left and at the right.
    Strip(bool, bool),
    /// What the pattern finds becomes the text.
    Replace(Regex, String),
    Prepend(String),
    Precompiled(Box<CharacterMap>),
    Bert(Bert),
    /// SentencePiece's rule of that name: fewer control characters, and one kind of space.
    Nmt,
    Sequence(Vec<Normalizer>),
}

/// `BertNormalizer`.
#[derive(Clone, Copy, Debug)]
pub(in crate::llama) struct Bert {
    pub clean_text: bool,
    pub handle_chinese_chars: bool,
    pub strip_accents: bool,
    pub lowercase: bool,
}

impl Bert {
    /// That of the uncased models.
    pub const UNCASED: Bert = Bert {
        clean_text: true,
        handle_chinese_chars: true,
        strip_accents: true,
        lowercase: true,
    };

    fn apply(self, text: &str) -> String {
        let mut text = text.to_owned();
        if self.clean_text {
            let kept = |c: &char| match c {
                '\t' | '\n' | '\r' => true,
                c => *c != '\u{fffd}' && !is_other(*c),
            };
            let one_space = |c: char| if c.is_whitespace() { ' ' } else { c };
            text = text.chars().filter(kept).map(one_space).collect();
        }
        if self.handle_chinese_chars && !text.is_ascii() {
            let mut apart = String::with_capacity(text.len());
            for character in text.chars() {
                match is_ideograph(character) {
                    true => apart.extend([' ', character, ' ']),
                    false => apart.push(character),
                }
            }
            text = apart;
        }
        if self.strip_accents && !text.is_ascii() {
            text = text.nfd().filter(|c| !is_nonspacing_mark(*c)).collect();
        }
        match self.lowercase {
            true => lowercase(&text),
            false => text,
        }
    }
}

/// Character by character: the last sigma of a word is none of its own here.
fn lowercase(text: &str) -> String {
    text.chars().flat_map(char::to_lowercase).collect()
}

impl Normalizer {
    /// Reads one, or `None` for `null`.
    ///
    /// # Errors
    ///
    /// [`UnknownStep`] when it is not known, or could make a short text fill the memory.
    pub fn parse(json: &Json) -> Result<Option<Normalizer>, UnknownStep> {
        if json.is_null() {
            return Ok(None);
        }
        let normalizer = Normalizer::step(json)?;
        match normalizer.growth() <= MOST_GROWTH {
            true => Ok(Some(normalizer)),
            false => Err(step::unknown(
                json,
                "it could make a text more than 4096 times longer",
            )),
        }
    }

    fn step(json: &Json) -> Result<Normalizer, UnknownStep> {
        Ok(match step::kind(json) {
            "NFC" => Normalizer::Nfc,
            "NFD" => Normalizer::Nfd,
            "NFKC" => Normalizer::Nfkc,
            "NFKD" => Normalizer::Nfkd,
            "Lowercase" => Normalizer::Lowercase,
            "StripAccents" => Normalizer::StripAccents,
            "Strip" => Normalizer::Strip(
                step::flag(json, "strip_left", true)?,
                step::flag(json, "strip_right", true)?,
            ),
            "Replace" => {
                Normalizer::Replace(pattern(json)?, step::text(json, "content")?.to_owned())
            }
            "Prepend" => Normalizer::Prepend(step::text(json, "prepend")?.to_owned()),
            "Precompiled" => {
                let text = step::text(json, "precompiled_charsmap")?;
                let bytes = BASE64_STANDARD.decode(text);
                let bytes = bytes
                    .map_err(|_| step::unknown(json, "its table of characters is no base64"))?;
                let map = CharacterMap::parse(&bytes);
                Normalizer::Precompiled(Box::new(
                    map.map_err(|reason| step::unknown(json, reason))?,
                ))
            }
            "BertNormalizer" => {
                let lowercase = step::flag(json, "lowercase", true)?;
                Normalizer::Bert(Bert {
                    clean_text: step::flag(json, "clean_text", true)?,
                    handle_chinese_chars: step::flag(json, "handle_chinese_chars", true)?,
                    strip_accents: step::flag(json, "strip_accents", lowercase)?,
                    lowercase,
                })
            }
            "Nmt" => Normalizer::Nmt,
            "Sequence" => {
                let steps = step::steps(json, "normalizers")?.iter();
                Normalizer::Sequence(steps.map(Normalizer::step).collect::<Result<_, _>>()?)
            }
            _ => return Err(step::unknown(json, "this normalizer is not known")),
        })
    }

    /// At most how many bytes one becomes, Unicode's own forms aside.
    fn growth(&self) -> usize {
        match self {
            // A pattern may match between two characters.
            Normalizer::Replace(_, content) => content.len().saturating_add(1),
            Normalizer::Prepend(prefix) => prefix.len().saturating_add(1),
            Normalizer::Precompiled(map) => map.growth(),
            Normalizer::Sequence(steps) => {
                let all = steps.iter().map(Normalizer::growth);
                all.fold(1, usize::saturating_mul)
            }
            _ => 1,
        }
    }

    pub fn apply(&self, text: &str) -> String {
        match self {
            Normalizer::Nfc => text.nfc().collect(),
            Normalizer::Nfd => text.nfd().collect(),
            Normalizer::Nfkc => text.nfkc().collect(),
            Normalizer::Nfkd => text.nfkd().collect(),
            Normalizer::Lowercase => lowercase(text),
            Normalizer::StripAccents => text.chars().filter(|c| !is_combining_mark(*c)).collect(),
            Normalizer::Strip(left, right) => {
                let text = if *left { text.trim_start() } else { text };
                if *right { text.trim_end() } else { text }.to_owned()
            }
            Normalizer::Replace(pattern, content) => {
                let content = regex::NoExpand(content);
                pattern.replace_all(text, content).into_owned()
            }
            Normalizer::Prepend(prefix) if !text.is_empty() => format!("{prefix}{text}"),
            Normalizer::Prepend(_) => String::new(),
            Normalizer::Precompiled(map) => map.replace_clusters(text),
            Normalizer::Bert(bert) => bert.apply(text),
            Normalizer::Nmt => text.chars().filter_map(nmt).collect(),
            Normalizer::Sequence(steps) => {
                let all = steps.iter();
                all.fold(text.to_owned(), |text, step| step.apply(&text))
            }
        }
    }
}

/// The rule `nmt` of SentencePiece's `builder.cc`.
fn nmt(character: char) -> Option<char> {
    Some(match character {
        '\u{1}'..='\u{8}' | '\u{b}' | '\u{e}'..='\u{1f}' | '\u{7f}' | '\u{8f}' | '\u{9f}' => {
            return None;
        }
        '\t' | '\n' | '\u{c}' | '\r' | '\u{1680}' | '\u{200b}'..='\u{200f}' => ' ',
        '\u{2028}' | '\u{2029}' | '\u{2581}' | '\u{feff}' | '\u{fffd}' => ' ',
        other => other,
    })
}

/// `pattern` of a step: a text, or a regular expression. The package's `^` and `$` are at the ends of lines.
pub(super) fn pattern(step: &Json) -> Result<Regex, UnknownStep> {
    let pattern = &step["pattern"];
    let written = match (pattern["String"].as_str(), pattern["Regex"].as_str()) {
        (Some(""), _) => return Err(step::unknown(step, "its pattern is empty")),
        (Some(text), _) => regex::escape(text),
        (_, Some(written)) => written.to_owned(),
        _ => return Err(step::unknown(step, "it has no pattern")),
    };
    let compiled = RegexBuilder::new(&written)
        .multi_line(true)
        .size_limit(PATTERN_SIZE)
        .build();
    compiled.map_err(|_| {
        step::unknown(
            step,
            "its pattern has parts that are not supported, such as look-around",
        )
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn apply(json: Json, text: &str) -> String {
        Normalizer::parse(&json).unwrap().unwrap().apply(text)
    }

    #[test]
    fn steps_follow_each_other() {
        let steps = json!([
            { "type": "Replace", "pattern": { "Regex": " {2,}" }, "content": "$0" },
            { "type": "Prepend", "prepend": "A" },
            { "type": "Lowercase" },
        ]);
        let sequence = json!({ "type": "Sequence", "normalizers": steps });
        assert_eq!(apply(sequence.clone(), "X  Y"), "ax$0y");
        assert_eq!(apply(sequence, ""), "");
        assert_eq!(apply(json!({ "type": "NFKC" }), "\u{fb01}\u{ff21}"), "fiA");
        assert_eq!(apply(json!({ "type": "Strip" }), "\u{3000}a \n"), "a");
        assert!(Normalizer::parse(&Json::Null).unwrap().is_none());
    }

    #[test]
    fn what_is_not_known_is_named() {
        let long = "x".repeat(100);
        let grows = json!({ "type": "Replace", "pattern": { "String": "x" }, "content": long });
        for (json, kind, reason) in [
            (json!({ "type": "Reverse" }), "Reverse", "not known"),
            (json!("NFC"), "null", "not known"),
            (json!({ "type": "Sequence" }), "Sequence", "no list"),
            (
                json!({ "type": "Strip", "strip_left": 1 }),
                "Strip",
                "neither true nor false",
            ),
            (json!({ "type": "Prepend" }), "Prepend", "missing"),
            (
                json!({ "type": "Precompiled", "precompiled_charsmap": "?" }),
                "Precompiled",
                "base64",
            ),
            (
                json!({ "type": "Precompiled", "precompiled_charsmap": "AAAA" }),
                "Precompiled",
                "too short",
            ),
            (
                json!({ "type": "Replace", "pattern": { "Regex": "a(?!b)" }, "content": "" }),
                "Replace",
                "look-around",
            ),
            (
                json!({ "type": "Replace", "pattern": { "Regex": "(\\w{999}){999}" }, "content": "" }),
                "Replace",
                "parts",
            ),
            (
                json!({ "type": "Replace", "pattern": { "String": "" }, "content": "a" }),
                "Replace",
                "empty",
            ),
            (
                json!({ "type": "Sequence", "normalizers": [grows, grows] }),
                "Sequence",
                "longer",
            ),
        ] {
            let error = Normalizer::parse(&json).unwrap_err();
            assert_eq!(error.kind, kind);
            assert!(error.reason.contains(reason), "{kind}: {}", error.reason);
        }
    }
}
