//! Unigram segmentation: `Model::EncodeOptimized` of SentencePiece's `unigram_model.cc`, the path of the best sum of
//! scores.

use std::ops::Range;

use super::merge::{UnknownRun, push_tokens};
use super::vocabulary::{TokenKind, Vocabulary};

/// How far below the worst piece a character without one is: `kUnkPenalty`.
const UNKNOWN_PENALTY: f32 = 10.0;

/// The pieces that text can become, in the order of their bytes: it needs no more memory than the vocabulary.
#[derive(Clone, Debug)]
pub(super) struct Unigram {
    sorted: Vec<u32>,
    /// Where the pieces of each first byte are.
    first: Vec<Range<usize>>,
    best: f32,
    unknown: f32,
}

/// The end of the best path to a place in the text.
#[derive(Clone, Copy)]
struct Step {
    score: f32,
    start: usize,
}

fn bytes(vocabulary: &Vocabulary, token: u32) -> &[u8] {
    vocabulary.piece(token).map_or(&[], |(piece, _)| piece)
}

impl Unigram {
    pub fn new(vocabulary: &Vocabulary) -> Unigram {
        let kind = |token: u32| vocabulary.piece(token).map(|(_, kind)| kind);
        let is_text = |token: &u32| {
            let piece = bytes(vocabulary, *token);
            let wanted = [Some(TokenKind::Normal), Some(TokenKind::UserDefined)];
            wanted.contains(&kind(*token)) && vocabulary.text(piece) == Some(*token)
        };
        let all = 0..vocabulary.len();
        // The empty piece is a part of no text.
        let text = all.clone().filter(is_text);
        let mut sorted: Vec<u32> = text
            .filter(|token| !bytes(vocabulary, *token).is_empty())
            .collect();
        sorted.sort_unstable_by_key(|token| bytes(vocabulary, *token));
        let first = (0..=u8::MAX).map(|byte| {
            let start = sorted.partition_point(|token| bytes(vocabulary, *token)[0] < byte);
            start..sorted.partition_point(|token| bytes(vocabulary, *token)[0] <= byte)
        });
        let first = first.collect();
        let scores: Vec<f32> = all
            .filter(|token| kind(*token) == Some(TokenKind::Normal))
            .map(|token| vocabulary.score(token))
            .collect();
        let worst = scores.iter().copied().reduce(f32::min).unwrap_or(0.0);
        Unigram {
            sorted,
            first,
            best: scores.iter().copied().reduce(f32::max).unwrap_or(0.0),
            unknown: worst - UNKNOWN_PENALTY,
        }
    }

    /// Appends the tokens of `text`, whose spaces are escaped.
    pub fn encode(&self, vocabulary: &Vocabulary, text: &str, tokens: &mut Vec<u32>) {
        let mut steps: Vec<Option<Step>> = vec![None; text.len() + 1];
        let mut offer = |end: usize, step: Step| {
            if steps[end].is_none_or(|best| step.score > best.score) {
                steps[end] = Some(step);
            }
            steps[end].map_or(0.0, |best| best.score)
        };
        offer(
            0,
            Step {
                score: 0.0,
                start: 0,
            },
        );
        for (start, character) in text.char_indices() {
            // Every place is reached by the character before it.
            let lowest = Step {
                score: f32::NEG_INFINITY,
                start,
            };
            let before = offer(start, lowest);
            let mut has_single = false;
            self.each_prefix(vocabulary, &text.as_bytes()[start..], |length, token| {
                let end = start + length;
                if text.is_char_boundary(end) {
                    has_single |= length == character.len_utf8();
                    let score = before + self.score(vocabulary, token, length);
                    offer(end, Step { score, start });
                }
            });
            if !has_single {
                let score = before + self.unknown;
                offer(start + character.len_utf8(), Step { score, start });
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

    /// A user-defined piece wins against what it is made of.
    fn score(&self, vocabulary: &Vocabulary, token: u32, length: usize) -> f32 {
        match vocabulary.piece(token) {
            Some((_, TokenKind::UserDefined)) => (length as f32 * self.best) - 0.1,
            _ => vocabulary.score(token),
        }
    }

    /// Calls `found` with the length and the token of each piece that `text` starts with, shortest first.
    fn each_prefix(&self, vocabulary: &Vocabulary, text: &[u8], mut found: impl FnMut(usize, u32)) {
        let Some(first) = text.first() else {
            return;
        };
        let mut range = self.first[usize::from(*first)].clone();
        for depth in 1..=text.len() {
            // The piece of exactly these bytes stands before the longer ones.
            if let Some(token) = self.sorted[range.clone()].first().copied()
                && bytes(vocabulary, token).len() == depth
            {
                found(depth, token);
                range.start += 1;
            }
            let Some(next) = text.get(depth).filter(|_| !range.is_empty()) else {
                return;
            };
            let candidates = &self.sorted[range.clone()];
            let below = |token: &u32| bytes(vocabulary, *token)[depth] < *next;
            let up_to = |token: &u32| bytes(vocabulary, *token)[depth] <= *next;
            let low = range.start + candidates.partition_point(below);
            range.end = range.start + candidates.partition_point(up_to);
            range.start = low;
        }
    }
}
