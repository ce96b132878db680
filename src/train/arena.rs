//! Where tensors lie that do not all live at the same time.

use std::ops::RangeInclusive;

use crate::dtype::DType;

/// A tensor's memory, and the operations from the one that writes it to the last one that uses it.
#[derive(Debug, Clone)]
pub(super) struct Life {
    /// Elements of F32 that would take as much.
    pub elements: usize,
    pub dtype: DType,
    pub during: RangeInclusive<usize>,
}

/// Elements that a tensor's place is a multiple of: 256 bytes of F32.
const ALIGNMENT: usize = 64;

/// The first element of each, and how many there are in all. Those that live at the same time lie apart.
///
/// The largest ones come first, each at the lowest place that is free during its life (Pisarchyk and Lee 2020,
/// [arXiv:2001.03288](https://arxiv.org/abs/2001.03288), greedy by size for offset calculation).
pub(super) fn place(lives: &[Life]) -> (Vec<usize>, usize) {
    let mut order: Vec<usize> = (0..lives.len()).collect();
    order.sort_by_key(|&index| std::cmp::Reverse(lives[index].elements));
    let (mut starts, mut placed) = (vec![0; lives.len()], Vec::<usize>::new());
    let mut whole = 0;
    for index in order {
        let life = &lives[index];
        let mut neighbors: Vec<usize> = (placed.iter().copied())
            .filter(|&other| overlap(&lives[other].during, &life.during))
            .collect();
        neighbors.sort_by_key(|&other| starts[other]);
        let mut start = 0;
        for other in neighbors {
            if start + life.elements <= starts[other] {
                break;
            }
            start = start.max((starts[other] + lives[other].elements).next_multiple_of(ALIGNMENT));
        }
        starts[index] = start;
        whole = whole.max(start + life.elements);
        placed.push(index);
    }
    (starts, whole)
}

fn overlap(one: &RangeInclusive<usize>, other: &RangeInclusive<usize>) -> bool {
    one.start() <= other.end() && other.start() <= one.end()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn those_that_live_together_lie_apart(
            lives in prop::collection::vec((1usize..500, 0usize..20, 0usize..6), 0..40),
        ) {
            let lives: Vec<Life> = lives
                .into_iter()
                .map(|(elements, from, length)| Life {
                    elements,
                    dtype: DType::F32,
                    during: from..=from + length,
                })
                .collect();
            let (starts, whole) = place(&lives);
            let end = |index: usize| starts[index] + lives[index].elements;
            for one in 0..lives.len() {
                prop_assert!(end(one) <= whole && starts[one].is_multiple_of(ALIGNMENT));
                for other in 0..one {
                    let together = overlap(&lives[one].during, &lives[other].during);
                    prop_assert!(!together || end(one) <= starts[other] || end(other) <= starts[one]);
                }
            }
        }
    }

    #[test]
    fn a_chain_needs_two_places() {
        let life = |first| Life {
            elements: 64,
            dtype: DType::F32,
            during: first..=first + 1,
        };
        let lives: Vec<Life> = (0..10).map(life).collect();
        assert_eq!(place(&lives).1, 128);
    }
}
