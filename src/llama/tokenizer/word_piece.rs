//! WordPiece: the longest piece that a word starts with, over and over, or one unknown token for all of the word. The
//! pieces are as GGUF has them: those that begin a word start with [`SPACE`](super::SPACE), where Hugging Face's files
//! write `##` before the others.

use super::SPACE;
use super::prefix_search::PrefixSearch;
use super::vocabulary::{TokenKind, Vocabulary};

#[derive(Clone, Debug)]
pub(super) struct WordPiece {
    pieces: PrefixSearch,
    /// A word of more characters is unknown: `max_input_chars_per_word`. llama.cpp has no such bound.
    longest_word: Option<u32>,
}

impl WordPiece {
    pub fn new(vocabulary: &Vocabulary, longest_word: Option<u32>) -> WordPiece {
        WordPiece {
            pieces: PrefixSearch::new(vocabulary, &[TokenKind::Normal]),
            longest_word,
        }
    }

    /// Appends the tokens of one word.
    pub fn encode(&self, vocabulary: &Vocabulary, word: &str, tokens: &mut Vec<u32>) {
        let before = tokens.len();
        let fits = |most| word.chars().nth(most as usize).is_none();
        let known =
            self.longest_word.is_none_or(fits) && self.push_pieces(vocabulary, word, tokens);
        if !known {
            tokens.truncate(before);
            tokens.push(vocabulary.unknown());
        }
    }

    /// Whether the word is made of pieces.
    fn push_pieces(&self, vocabulary: &Vocabulary, word: &str, tokens: &mut Vec<u32>) -> bool {
        let whole = format!("{SPACE}{word}");
        let mut start = 0;
        while start < whole.len() {
            let inside = start > 0;
            // The space alone begins no word, and no word begins inside of one.
            if inside && whole[start..].starts_with(SPACE) {
                return false;
            }
            let mut longest = None;
            self.pieces
                .each(vocabulary, &whole.as_bytes()[start..], |length, token| {
                    // A piece that is no UTF-8 may end inside a character.
                    let ends_well = whole.is_char_boundary(start + length);
                    if ends_well && (inside || length > SPACE.len()) {
                        longest = Some((length, token));
                    }
                });
            let Some((length, token)) = longest else {
                return false;
            };
            tokens.push(token);
            start += length;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vocabulary() -> Vocabulary {
        let pieces = [
            "[UNK]",
            "\u{2581}",
            "\u{2581}un",
            "\u{2581}unit",
            "\u{2581}a",
            "aff",
            "able",
            "ed",
            "e",
        ];
        let pieces = pieces.map(|piece| piece.as_bytes().into());
        Vocabulary::new(&pieces, &[0.0; 9], &[2, 1, 1, 1, 1, 1, 1, 1, 1], 0).unwrap()
    }

    #[test]
    fn the_longest_piece_is_taken_or_the_word_is_unknown() {
        let vocabulary = vocabulary();
        let encode = |word: &str, longest| {
            let mut tokens = vec![7];
            WordPiece::new(&vocabulary, longest).encode(&vocabulary, word, &mut tokens);
            tokens[1..].to_vec()
        };
        assert_eq!(encode("unaffable", None), [2, 5, 6]);
        assert_eq!(encode("unit", None), [3]);
        // No way back from "unit" to "un".
        assert_eq!(encode("unitaff", None), [3, 5]);
        assert_eq!(encode("unq", None), [0]);
        assert_eq!(encode("able", None), [0], "no piece that begins a word");
        assert_eq!(
            encode("a\u{2581}a", None),
            [0],
            "no word begins inside of one"
        );
        assert_eq!(
            encode("a\u{2581}a", None),
            [0],
            "no word begins inside of one"
        );
        assert_eq!(encode("aeded", Some(5)), [4, 7, 7]);
        assert_eq!(encode("aedede", Some(5)), [0]);
    }
}
