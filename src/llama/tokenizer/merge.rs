//! Byte-pair encoding: `Model::SampleEncode` of SentencePiece's `bpe_model.cc`, without sampling.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap};
use std::ops::Range;

use super::vocabulary::Vocabulary;

/// A stretch of the text that becomes one token in the end. Symbols form a list in the text's order; one that was
/// merged into its left neighbour is empty.
struct Symbol {
    text: Range<usize>,
    previous: Option<usize>,
    next: Option<usize>,
    /// A user-defined piece: never merged.
    frozen: bool,
}

/// Two neighbours whose text together is a piece.
struct Candidate {
    score: f32,
    left: usize,
    right: usize,
    /// Of both texts together: when it no longer fits, one of the two was merged with another neighbour.
    length: usize,
}

/// The best score first and, of equal scores, the leftmost.
impl Ord for Candidate {
    fn cmp(&self, other: &Candidate) -> Ordering {
        // No score is NaN. -0 and 0 are equal, as they are in C++.
        let scores = self
            .score
            .partial_cmp(&other.score)
            .unwrap_or(Ordering::Equal);
        scores.then(other.left.cmp(&self.left))
    }
}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Candidate) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Candidate {
    fn eq(&self, other: &Candidate) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Candidate {}

struct Merger<'a> {
    vocabulary: &'a Vocabulary,
    text: &'a str,
    symbols: Vec<Symbol>,
    candidates: BinaryHeap<Candidate>,
    /// Where each unused piece that was met can be split again. The text is the key: the last split that was seen
    /// counts.
    splits: HashMap<&'a str, usize>,
}

/// Appends the tokens of `text`, whose spaces are escaped.
pub(super) fn encode(vocabulary: &Vocabulary, text: &str, tokens: &mut Vec<u32>) {
    let mut merger = Merger {
        vocabulary,
        text,
        symbols: split(vocabulary, text),
        candidates: BinaryHeap::new(),
        splits: HashMap::new(),
    };
    merger.merge();
    let mut unknown = UnknownRun::default();
    let mut symbol = merger.symbols.first();
    while let Some(current) = symbol {
        merger.resegment(current.text.clone(), &mut |piece| {
            push_tokens(vocabulary, piece, &mut unknown, tokens);
        });
        symbol = current.next.map(|next| &merger.symbols[next]);
    }
}

/// The characters and user-defined pieces of a text.
fn split(vocabulary: &Vocabulary, text: &str) -> Vec<Symbol> {
    let mut symbols = Vec::new();
    let mut start = 0;
    while let Some(character) = text[start..].chars().next() {
        let piece = vocabulary.user_defined_prefix(&text.as_bytes()[start..]);
        let piece = piece.filter(|length| text.is_char_boundary(start + length));
        let end = start + piece.unwrap_or(character.len_utf8());
        let index = symbols.len();
        symbols.push(Symbol {
            text: start..end,
            previous: index.checked_sub(1),
            next: (end < text.len()).then_some(index + 1),
            frozen: piece.is_some(),
        });
        start = end;
    }
    symbols
}

impl<'a> Merger<'a> {
    fn merge(&mut self) {
        for right in 1..self.symbols.len() {
            self.consider(Some(right - 1), Some(right));
        }
        while let Some(Candidate {
            left,
            right,
            length,
            ..
        }) = self.candidates.pop()
        {
            let (first, second) = (&self.symbols[left].text, &self.symbols[right].text);
            if first.is_empty() || second.is_empty() || first.len() + second.len() != length {
                continue;
            }
            let next = self.symbols[right].next;
            self.symbols[left].text.end = second.end;
            self.symbols[left].next = next;
            self.symbols[right].text = 0..0;
            if let Some(next) = next {
                self.symbols[next].previous = Some(left);
            }
            self.consider(self.symbols[left].previous, Some(left));
            self.consider(Some(left), next);
        }
    }

    /// Adds the pair to the candidates if it makes a piece.
    fn consider(&mut self, left: Option<usize>, right: Option<usize>) {
        let (Some(left), Some(right)) = (left, right) else {
            return;
        };
        let (first, second) = (&self.symbols[left], &self.symbols[right]);
        if first.frozen || second.frozen {
            return;
        }
        let text = self.text;
        let piece = &text[first.text.start..second.text.end];
        let Some(token) = self.vocabulary.text(piece.as_bytes()) else {
            return;
        };
        if self.vocabulary.is_unused(token) {
            self.splits.insert(piece, first.text.len());
        }
        self.candidates.push(Candidate {
            score: self.vocabulary.score(token),
            left,
            right,
            length: piece.len(),
        });
    }

    /// Calls `piece` with the pieces of a symbol from left to right: itself, or what an unused piece was merged from.
    fn resegment(&self, symbol: Range<usize>, piece: &mut impl FnMut(&'a str)) {
        let text = self.text;
        let mut open = vec![symbol];
        while let Some(part) = open.pop() {
            let token = self.vocabulary.text(text[part.clone()].as_bytes());
            let unused = token.is_some_and(|token| self.vocabulary.is_unused(token));
            match self.splits.get(&text[part.clone()]) {
                Some(length) if unused => {
                    let middle = part.start + length;
                    open.push(middle..part.end);
                    open.push(part.start..middle);
                }
                _ => piece(&text[part]),
            }
        }
    }
}

/// Whether the last token stands for unknown text: a run of it is one token.
#[derive(Default)]
pub(super) struct UnknownRun(bool);

/// Appends the token of a piece, or else those of its bytes, or else the unknown token.
pub(super) fn push_tokens(
    vocabulary: &Vocabulary,
    piece: &str,
    unknown: &mut UnknownRun,
    tokens: &mut Vec<u32>,
) {
    if let Some(token) = vocabulary.text(piece.as_bytes()) {
        unknown.0 = false;
        tokens.push(token);
        return;
    }
    for byte in piece.bytes() {
        match vocabulary.byte(byte) {
            Some(token) => tokens.push(token),
            None if unknown.0 => (),
            None => {
                unknown.0 = true;
                tokens.push(vocabulary.unknown());
            }
        }
    }
}
