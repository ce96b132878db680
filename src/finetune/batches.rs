//! Tokens of documents, packed into batches without gaps.

use crate::ops::CrossEntropy;
use crate::train::random::Random;

/// A batch: as many tokens as a pass has rows, what follows each of them, and how many belong together.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Batch {
    pub ids: Vec<u32>,
    pub labels: Vec<u32>,
    pub lengths: Vec<usize>,
}

/// The sizes of batches.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    pub rows: usize,
    /// The most tokens that belong together.
    pub sequence: usize,
}

impl Batch {
    /// Appends some of what is left of a document behind its token `at`. Returns how many were taken.
    fn fill(&mut self, document: &[u32], at: usize, sizes: Sizes) -> usize {
        let room = sizes.rows - self.ids.len();
        let count = (document.len() - 1 - at).min(sizes.sequence).min(room);
        self.ids.extend(&document[at..at + count]);
        self.labels.extend(&document[at + 1..=at + count]);
        self.lengths.push(count);
        count
    }

    fn is_full(&self, sizes: Sizes) -> bool {
        self.ids.len() == sizes.rows
    }

    /// Tokens whose next one counts.
    pub fn predicted(&self) -> usize {
        let labels = self.labels.iter();
        labels
            .filter(|label| **label != CrossEntropy::IGNORED)
            .count()
    }
}

/// Batches over documents again and again, in another order each time. The same seed gives the same batches.
#[derive(Debug)]
pub(super) struct Batches {
    documents: Vec<Vec<u32>>,
    sizes: Sizes,
    seed: u64,
    random: Random,
    /// Of this time.
    order: Vec<usize>,
    /// The place in the order, and in the document there.
    next: (usize, usize),
    made: u64,
}

impl Batches {
    /// Each document has at least two tokens.
    pub fn new(documents: Vec<Vec<u32>>, sizes: Sizes, seed: u64) -> Batches {
        let mut batches = Batches {
            documents,
            sizes,
            seed,
            random: Random::new(seed),
            order: Vec::new(),
            next: (0, 0),
            made: 0,
        };
        batches.begin();
        batches
    }

    fn begin(&mut self) {
        self.random = Random::new(self.seed);
        self.order = self.random.order(self.documents.len());
        self.next = (0, 0);
        self.made = 0;
    }

    /// The batch with that number, from 0 on.
    pub fn at(&mut self, number: u64) -> Batch {
        if number < self.made {
            self.begin();
        }
        while self.made < number {
            self.make();
        }
        self.make()
    }

    fn make(&mut self) -> Batch {
        let mut batch = Batch::default();
        while !batch.is_full(self.sizes) {
            let (place, at) = self.next;
            let document = &self.documents[self.order[place]];
            let at = at + batch.fill(document, at, self.sizes);
            self.next = match at + 1 < document.len() {
                true => (place, at),
                false => (place + 1, 0),
            };
            if self.next.0 == self.order.len() {
                self.order = self.random.order(self.documents.len());
                self.next = (0, 0);
            }
        }
        self.made += 1;
        batch
    }
}

/// Batches over all documents once. The last one is filled up with tokens that do not count.
pub(super) fn once(documents: &[Vec<u32>], sizes: Sizes) -> Vec<Batch> {
    let mut batches = Vec::new();
    let mut batch = Batch::default();
    for document in documents {
        let mut at = 0;
        while at + 1 < document.len() {
            at += batch.fill(document, at, sizes);
            if batch.is_full(sizes) {
                batches.push(std::mem::take(&mut batch));
            }
        }
    }
    if !batch.ids.is_empty() {
        while !batch.is_full(sizes) {
            let count = sizes.sequence.min(sizes.rows - batch.ids.len());
            let filled = batch.ids.len() + count;
            batch.ids.resize(filled, 0);
            batch.labels.resize(filled, CrossEntropy::IGNORED);
            batch.lengths.push(count);
        }
        batches.push(batch);
    }
    batches
}

/// The last `share` of all tokens, away from their documents. What has then no token to predict is left out.
pub(super) fn hold_out(documents: &mut Vec<Vec<u32>>, share: f32) -> Vec<Vec<u32>> {
    let all: usize = documents.iter().map(Vec::len).sum();
    let mut left = (all as f64 * f64::from(share)) as usize;
    let mut held = Vec::new();
    while left > 0 {
        let Some(document) = documents.last_mut() else {
            break;
        };
        let taken = left.min(document.len());
        held.push(document.split_off(document.len() - taken));
        if document.is_empty() {
            documents.pop();
        }
        left -= taken;
    }
    held.reverse();
    documents.retain(|document| document.len() > 1);
    held.retain(|document| document.len() > 1);
    held
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const IGNORED: u32 = CrossEntropy::IGNORED;

    fn documents(lengths: &[usize]) -> Vec<Vec<u32>> {
        let document = |(index, length): (usize, &usize)| {
            let first = 1000 * (index as u32 + 1);
            (first..first + *length as u32).collect()
        };
        lengths.iter().enumerate().map(document).collect()
    }

    #[test]
    fn documents_are_cut_and_packed() {
        let sizes = Sizes {
            rows: 6,
            sequence: 4,
        };
        let batches = once(&documents(&[7, 3, 2]), sizes);
        assert_eq!(
            batches,
            [
                Batch {
                    ids: vec![1000, 1001, 1002, 1003, 1004, 1005],
                    labels: vec![1001, 1002, 1003, 1004, 1005, 1006],
                    lengths: vec![4, 2],
                },
                Batch {
                    ids: vec![2000, 2001, 3000, 0, 0, 0],
                    labels: vec![2001, 2002, 3001, IGNORED, IGNORED, IGNORED],
                    lengths: vec![2, 1, 3],
                },
            ]
        );
        assert_eq!(batches[1].predicted(), 3);
    }

    #[test]
    fn the_last_tokens_are_held_out() {
        let mut learned = documents(&[10, 10, 4]);
        let held = hold_out(&mut learned, 0.25);
        assert_eq!(held, [vec![2008, 2009], vec![3000, 3001, 3002, 3003]]);
        assert_eq!(learned.iter().map(Vec::len).collect::<Vec<_>>(), [10, 8]);
        let mut learned = documents(&[5]);
        assert!(hold_out(&mut learned, 0.0).is_empty());
        assert_eq!(learned, documents(&[5]));
        // A single token has none to be predicted from.
        assert!(hold_out(&mut documents(&[10]), 0.1).is_empty());
    }

    proptest! {
        #[test]
        fn each_token_is_predicted_once_each_time(
            lengths in prop::collection::vec(2usize..40, 1..8),
            rows in 1usize..30,
            sequence in 1usize..30,
        ) {
            let sizes = Sizes { rows, sequence };
            let documents = documents(&lengths);
            let mut expected: Vec<u32> = documents.iter().flat_map(|document| &document[1..]).copied().collect();
            expected.sort_unstable();
            let mut batches = Batches::new(documents.clone(), sizes, 5);
            let mut labels = Vec::new();
            let mut number = 0;
            while labels.len() < 2 * expected.len() {
                let batch = batches.at(number);
                prop_assert_eq!(batch.ids.len(), rows);
                prop_assert_eq!(batch.lengths.iter().sum::<usize>(), rows);
                prop_assert!(batch.lengths.iter().all(|length| (1..=sequence).contains(length)));
                prop_assert!(batch.ids.iter().zip(&batch.labels).all(|(id, next)| id + 1 == *next));
                labels.extend(batch.labels);
                number += 1;
            }
            for time in labels.chunks_exact(expected.len()) {
                let mut time = time.to_vec();
                time.sort_unstable();
                prop_assert_eq!(&time, &expected);
            }
            // Whichever was asked for before.
            let last = batches.at(number - 1);
            let mut again = Batches::new(documents.clone(), sizes, 5);
            prop_assert_eq!(again.at(number - 1), last);

            let held: Vec<u32> = once(&documents, sizes).into_iter().flat_map(|batch| batch.labels).collect();
            let mut held: Vec<u32> = held.into_iter().filter(|label| *label != IGNORED).collect();
            held.sort_unstable();
            prop_assert_eq!(held, expected);
        }
    }
}
