//! Unigram segmentation: `Model::EncodeOptimized` of SentencePiece's `unigram_model.cc`, the path of the best sum of
//! scores.

use super::merge::{UnknownRun, push_tokens};
use super::prefix_search::PrefixSearch;
use super::vocabulary::{TokenKind, Vocabulary};

/// How far below the worst piece a character without one is: `kUnkPenalty`.
const UNKNOWN_PENALTY: f32 = 10.0;

/// What the best path is found with.
#[derive(Clone, Debug)]
pub(super) struct Unigram {
    pieces: PrefixSearch,
    unknown: f32,
    precision: Precision,
}

/// What sums of scores are rounded to, which decides between paths that are nearly as good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Precision {
    /// As SentencePiece.
    Single,
    /// As the `tokenizers` package and llama.cpp.
    Double,
}

/// The end of the best path to a place in the text.
#[derive(Clone, Copy)]
struct Step {
    score: f64,
    start: usize,
}

impl Unigram {
    pub fn new(vocabulary: &Vocabulary, precision: Precision) -> Unigram {
        let is_normal =
            |token: &u32| matches!(vocabulary.piece(*token), Some((_, TokenKind::Normal)));
        let normal = (0..vocabulary.len()).filter(is_normal);
        let scores = normal.map(|token| vocabulary.score(token));
        let worst = scores.reduce(f32::min).unwrap_or(0.0);
        Unigram {
            pieces: PrefixSearch::new(vocabulary, &[TokenKind::Normal, TokenKind::UserDefined]),
            unknown: worst - UNKNOWN_PENALTY,
            precision,
        }
    }

    /// Appends the tokens of `text`, whose spaces are escaped.
    pub fn encode(&self, vocabulary: &Vocabulary, text: &str, tokens: &mut Vec<u32>) {
        let mut steps: Vec<Option<Step>> = vec![None; text.len() + 1];
        for (start, character) in text.char_indices() {
            // Every other place is reached by the character before it.
            let before = steps[start].map_or(0.0, |step| step.score);
            let mut offer = |end: usize, candidate: f64| {
                let score = self.rounded(candidate);
                if steps[end].is_none_or(|best| score > best.score) {
                    steps[end] = Some(Step { score, start });
                }
            };
            let mut has_single = false;
            self.pieces
                .each(vocabulary, &text.as_bytes()[start..], |length, token| {
                    let end = start + length;
                    if text.is_char_boundary(end) {
                        has_single |= length == character.len_utf8();
                        offer(end, before + score(vocabulary, token));
                    }
                });
            if !has_single {
                offer(
                    start + character.len_utf8(),
                    before + f64::from(self.unknown),
                );
            }
        }
        let (mut path, mut end) = (Vec::new(), text.len());
        while end > 0 {
            let start = steps[end].map_or(0, |step| step.start);
            path.push(start..end);
            end = start;
        }
        let mut unknown = UnknownRun::default();
        for part in path.into_iter().rev() {
            push_tokens(vocabulary, &text[part], &mut unknown, tokens);
        }
    }

    fn rounded(&self, score: f64) -> f64 {
        match self.precision {
            // The double's rounding does not change what the single's makes of a sum of two singles.
            Precision::Single => f64::from(score as f32),
            Precision::Double => score,
        }
    }
}

/// User-defined pieces win against what they are made of, whatever score the file gives them.
fn score(vocabulary: &Vocabulary, token: u32) -> f64 {
    match vocabulary.piece(token) {
        Some((_, TokenKind::UserDefined)) => 0.0,
        _ => f64::from(vocabulary.score(token)),
    }
}
