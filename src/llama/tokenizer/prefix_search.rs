//! Finds every piece that a text starts with.

use std::ops::Range;

use super::vocabulary::{TokenKind, Vocabulary};

/// The pieces that text can become, in the order of their bytes: it needs no more memory than the vocabulary.
#[derive(Clone, Debug)]
pub(super) struct PrefixSearch {
    sorted: Vec<u32>,
    /// Where the pieces of each first byte are.
    first: Vec<Range<usize>>,
}

fn bytes(vocabulary: &Vocabulary, token: u32) -> &[u8] {
    vocabulary.piece(token).map_or(&[], |(piece, _)| piece)
}

impl PrefixSearch {
    /// `wanted`: the kinds of tokens that are found.
    pub fn new(vocabulary: &Vocabulary, wanted: &[TokenKind]) -> PrefixSearch {
        let is_text = |token: &u32| {
            let Some((piece, kind)) = vocabulary.piece(*token) else {
                return false;
            };
            // The empty piece is a part of no text.
            wanted.contains(&kind) && !piece.is_empty() && vocabulary.text(piece) == Some(*token)
        };
        let mut sorted: Vec<u32> = (0..vocabulary.len()).filter(is_text).collect();
        sorted.sort_unstable_by_key(|token| bytes(vocabulary, *token));
        let first = (0..=u8::MAX).map(|byte| {
            let start = sorted.partition_point(|token| bytes(vocabulary, *token)[0] < byte);
            start..sorted.partition_point(|token| bytes(vocabulary, *token)[0] <= byte)
        });
        let first = first.collect();
        PrefixSearch { sorted, first }
    }

    /// Calls `found` with the length and the token of each piece that `text` starts with, shortest first.
    pub fn each(&self, vocabulary: &Vocabulary, text: &[u8], mut found: impl FnMut(usize, u32)) {
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
