//! How to make a session.

use crate::commands::ActivationPrecision;
use crate::llama::model::kv_cache::CacheType;

/// How to make a [`Session`](super::session::Session) or [`Sequences`](super::sequences::Sequences).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionOptions {
    /// Positions that there is room for, at most as many as the model was trained on. `None`: that many, up to 4,096.
    pub context: Option<usize>,
    /// Tokens that are computed together when there are many, as in a prompt. `None`: 512.
    pub batch: Option<usize>,
    /// How keys and values are stored.
    pub cache: CacheType,
    /// For how many tokens logits are computed together where each one's are wanted, as for a perplexity; each takes a
    /// row of the vocabulary's size. `None`: one for each sequence.
    pub outputs: Option<usize>,
    /// How exactly products have the activations of passes of up to 16 tokens.
    pub activations: ActivationPrecision,
}
