//! Picking a token from logits.

pub(crate) mod sampler;
pub(crate) mod stop_strings;
