//! Finds added tokens in a text by the rules of the `tokenizers` package: `AddedVocabulary::find_matches`.

use std::collections::HashMap;

use super::vocabulary::PrefixMatcher;
use crate::llama::tokenizer_json::{AddedToken, Normalizer, is_word_character};

/// The tokens that are found in the text as it is, and those that are found when it is normalized.
#[derive(Clone, Debug, Default)]
pub(super) struct AddedTokens {
    written: PrefixMatcher,
    normalized: PrefixMatcher,
    rules: HashMap<u32, AddedToken>,
}

/// A part of a text, or the token that stands in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Segment<'a> {
    Text(&'a str),
    Token(u32),
}

impl AddedTokens {
    pub fn new(tokens: Vec<AddedToken>, normalizer: Option<&Normalizer>) -> AddedTokens {
        let mut added = AddedTokens::default();
        for token in tokens {
            // A vocabulary's size was checked, and no token outside of it is ever found.
            let Ok(id) = u32::try_from(token.id) else {
                continue;
            };
            match normalizer.filter(|_| token.normalized) {
                Some(normalizer) => {
                    let content = normalizer.apply(&token.content);
                    added.normalized.add(content.as_bytes(), id);
                }
                None if token.normalized => added.normalized.add(token.content.as_bytes(), id),
                None => added.written.add(token.content.as_bytes(), id),
            }
            added.rules.insert(id, token);
        }
        added
    }

    /// The segments of a text that is not normalized yet. Control tokens are found only if `control`.
    pub fn split_written<'a>(&self, text: &'a str, control: bool) -> Vec<Segment<'a>> {
        self.split(&self.written, text, control)
    }

    /// Those of a normalized text.
    pub fn split_normalized<'a>(&self, text: &'a str, control: bool) -> Vec<Segment<'a>> {
        self.split(&self.normalized, text, control)
    }

    fn split<'a>(&self, matcher: &PrefixMatcher, text: &'a str, control: bool) -> Vec<Segment<'a>> {
        let mut segments = Vec::new();
        // The end of the last token with its white space, and where the search goes on.
        let (mut end, mut from) = (0, 0);
        while let Some((place, length, id)) = matcher.find(text, from) {
            from = place + length;
            let Some(rule) = self.rules.get(&id) else {
                continue;
            };
            let (before, behind) = (&text[..place], &text[from..]);
            let in_word = before.chars().next_back().is_some_and(is_word_character)
                || behind.chars().next().is_some_and(is_word_character);
            // White space of the token before may reach over the begin of this one.
            if place < end || (rule.special && !control) || (rule.single_word && in_word) {
                continue;
            }
            let start = match rule.lstrip {
                true => before.trim_end().len().max(end),
                false => place,
            };
            if end < start {
                segments.push(Segment::Text(&text[end..start]));
            }
            segments.push(Segment::Token(id));
            end = match rule.rstrip {
                true => text.len() - behind.trim_start().len(),
                false => from,
            };
        }
        if end < text.len() {
            segments.push(Segment::Text(&text[end..]));
        }
        segments
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn added(tokens: serde_json::Value, normalizer: Option<&Normalizer>) -> AddedTokens {
        AddedTokens::new(serde_json::from_value(tokens).unwrap(), normalizer)
    }

    #[test]
    fn rules_look_at_the_text_around_a_token() {
        use Segment::{Text, Token};
        let tokens = added(
            json!([
                { "id": 1, "content": "<m>", "lstrip": true, "special": true },
                { "id": 2, "content": "<r>", "rstrip": true },
                { "id": 3, "content": "tok", "single_word": true },
                { "id": 4, "content": " x" },
            ]),
            None,
        );
        let split = |text, control| tokens.split_written(text, control);
        assert_eq!(split("a \n<m> b", true), [Text("a"), Token(1), Text(" b")]);
        assert_eq!(split("a <m> b", false), [Text("a <m> b")]);
        assert_eq!(
            split("a <r> \u{3000}b", false),
            [Text("a "), Token(2), Text("b")]
        );
        assert_eq!(split("<r> <m>", true), [Token(2), Token(1)]);
        assert_eq!(
            split("tok atok tok\u{e9} (tok)", false),
            [Token(3), Text(" atok tok\u{e9} ("), Token(3), Text(")")]
        );
        // The first has taken the space.
        assert_eq!(split("<r> x", false), [Token(2), Text("x")]);
        assert_eq!(split("", true), []);
    }

    #[test]
    fn normalized_tokens_are_found_in_normalized_text() {
        let lowercase = Normalizer::Lowercase;
        let token = json!([{ "id": 5, "content": "YES", "normalized": true }]);
        let tokens = added(token, Some(&lowercase));
        assert_eq!(tokens.split_written("YES", true), [Segment::Text("YES")]);
        assert_eq!(tokens.split_normalized("yes", true), [Segment::Token(5)]);
    }

    proptest! {
        #[test]
        fn segments_are_in_order_and_lose_only_white_space(text in "[ab<>\\s\u{e9}]{0,40}") {
            let tokens = added(
                json!([
                    { "id": 1, "content": "<", "lstrip": true, "rstrip": true },
                    { "id": 2, "content": "a>", "single_word": true },
                    { "id": 3, "content": " b" },
                ]),
                None,
            );
            let names = ["", "<", "a>", " b"];
            let parts = tokens.split_written(&text, true).into_iter().map(|segment| match segment {
                Segment::Text(part) => part,
                Segment::Token(id) => names[id as usize],
            });
            let bare = |text: &str| text.replace(char::is_whitespace, "");
            prop_assert_eq!(bare(&parts.collect::<String>()), bare(&text));
        }
    }
}
