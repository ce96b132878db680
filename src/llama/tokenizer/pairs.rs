//! Byte-pair encoding by a list of pairs, first pair first: `BPE::merge_word` of Hugging Face's `tokenizers`, whose
//! order of equals is the leftmost first.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

/// Which neighbours merge, when, and to what.
#[derive(Clone, Debug, Default)]
pub(super) struct Pairs {
    merges: HashMap<(u32, u32), Merge>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Merge {
    rank: u32,
    token: u32,
}

/// Two neighbours that make a token: the lowest rank first, and of equal ranks the leftmost.
type Candidate = Reverse<(Merge, usize)>;

impl Pairs {
    /// Of equal pairs the last one counts, as in Python's dictionaries.
    pub fn insert(&mut self, left: u32, right: u32, rank: u32, token: u32) {
        self.merges.insert((left, right), Merge { rank, token });
    }

    /// Merges a word's symbols until no two neighbours are a pair, and appends what is left to `tokens`.
    pub fn merge(&self, symbols: &[u32], tokens: &mut Vec<u32>) {
        let mut word = Word::new(symbols);
        let mut candidates = BinaryHeap::new();
        for left in 0..symbols.len() {
            self.consider(&word, left, &mut candidates);
        }
        while let Some(Reverse((merge, left))) = candidates.pop() {
            // Since it was found, one of the two may have merged with its other neighbour.
            if self.at(&word, left) != Some(merge) {
                continue;
            }
            word.merge(left, merge.token);
            if let Some(previous) = word.previous[left] {
                self.consider(&word, previous, &mut candidates);
            }
            self.consider(&word, left, &mut candidates);
        }
        tokens.extend(word.symbols.iter().flatten());
    }

    fn at(&self, word: &Word, left: usize) -> Option<Merge> {
        let right = word.next[left]?;
        let pair = (word.symbols[left]?, word.symbols[right]?);
        self.merges.get(&pair).copied()
    }

    fn consider(&self, word: &Word, left: usize, candidates: &mut BinaryHeap<Candidate>) {
        if let Some(merge) = self.at(word, left) {
            candidates.push(Reverse((merge, left)));
        }
    }
}

/// Symbols in a list; one that was merged into its left neighbour is `None`.
struct Word {
    symbols: Vec<Option<u32>>,
    previous: Vec<Option<usize>>,
    next: Vec<Option<usize>>,
}

impl Word {
    fn new(symbols: &[u32]) -> Word {
        let count = symbols.len();
        Word {
            symbols: symbols.iter().copied().map(Some).collect(),
            previous: (0..count).map(|index| index.checked_sub(1)).collect(),
            next: (0..count)
                .map(|index| Some(index + 1).filter(|next| *next < count))
                .collect(),
        }
    }

    /// Puts `token` in the place of a symbol and its right neighbour.
    fn merge(&mut self, left: usize, token: u32) {
        let right = self.next[left].expect("a candidate has a right neighbour");
        self.symbols[left] = Some(token);
        self.symbols[right] = None;
        self.next[left] = self.next[right];
        if let Some(next) = self.next[left] {
            self.previous[next] = Some(left);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Merges the first pair of the lowest rank, over and over.
    fn naive(pairs: &Pairs, symbols: &[u32]) -> Vec<u32> {
        let mut symbols = symbols.to_vec();
        loop {
            let found = symbols.windows(2).enumerate().filter_map(|(index, pair)| {
                let merge = pairs.merges.get(&(pair[0], pair[1]))?;
                Some((*merge, index))
            });
            let Some((merge, index)) = found.min() else {
                return symbols;
            };
            symbols[index] = merge.token;
            symbols.remove(index + 1);
        }
    }

    proptest! {
        #[test]
        fn merging_is_the_first_pair_over_and_over(
            merges in proptest::collection::vec((0u32..12, 0u32..12, 0u32..12), 0..30),
            symbols in proptest::collection::vec(0u32..6, 0..40),
        ) {
            let mut pairs = Pairs::default();
            for (rank, (left, right, token)) in (0..).zip(merges) {
                pairs.insert(left, right, rank, token);
            }
            let mut tokens = Vec::new();
            pairs.merge(&symbols, &mut tokens);
            prop_assert_eq!(tokens, naive(&pairs, &symbols));
        }
    }
}
