//! One text in the making.

use super::ahead::Place;
use crate::llama::model::Span;
use crate::llama::model::kv_cache::KvCache;

/// The tokens that were computed, and their keys and values.
#[derive(Debug)]
pub(super) struct Sequence {
    pub cache: KvCache,
    pub tokens: Vec<u32>,
    /// Which row of the logits is that of the last token.
    pub logits: Option<usize>,
}

/// A token of each of some texts, at `places`, in a pass of these.
pub(super) fn spans<'a>(sequences: &'a [Sequence], places: &[Place]) -> Vec<Span<'a>> {
    let rows = places.iter().enumerate();
    let spans = rows.map(|(row, (text, position))| Span {
        cache: &sequences[*text].cache,
        position: *position,
        row,
        tokens: 1,
    });
    spans.collect()
}
