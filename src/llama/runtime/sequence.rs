//! One text in the making.

use crate::llama::model::kv_cache::KvCache;

/// The tokens that were computed, and their keys and values.
#[derive(Debug)]
pub(super) struct Sequence {
    pub cache: KvCache,
    pub tokens: Vec<u32>,
    /// Which row of the logits is that of the last token.
    pub logits: Option<usize>,
}
