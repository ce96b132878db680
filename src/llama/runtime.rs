//! Sessions, decoding and what is made of their results.

mod ahead;
pub(crate) mod cancel;
pub(crate) mod decoder;
pub(crate) mod evaluation;
pub(crate) mod generation;
mod guess;
pub(crate) mod options;
pub(crate) mod perplexity;
mod sequence;
pub(crate) mod sequences;
pub(crate) mod session;
mod snapshot;
mod worker;
