//! One text in the making.

use std::ops::Range;

use super::options::SessionOptions;
use super::sequences::{Logits, Sequences};
use crate::error::Result;
#[cfg(doc)]
use crate::llama::error::LlamaError;
use crate::llama::model::Model;

/// One text in the making. All of its memory is made at the start.
///
/// After a device error a session may hold memory that was never computed, whose use is an error again: make a new one.
#[derive(Debug)]
pub struct Session(Sequences);

impl Model {
    /// A session with the default options.
    ///
    /// # Errors
    ///
    /// As [`Session::new`].
    pub fn session(&self) -> Result<Session> {
        Session::new(self, SessionOptions::default())
    }
}

impl Session {
    /// # Errors
    ///
    /// As [`Sequences::new`].
    pub fn new(model: &Model, options: SessionOptions) -> Result<Session> {
        Sequences::new(model, 1, options).map(Session)
    }

    /// The model.
    pub fn model(&self) -> &Model {
        self.0.model()
    }

    /// The tokens that the session has seen.
    pub fn tokens(&self) -> &[u32] {
        self.0.tokens(0)
    }

    /// How many tokens the session has seen.
    pub fn position(&self) -> usize {
        self.tokens().len()
    }

    /// How many tokens it has room for.
    pub fn context(&self) -> usize {
        self.0.context()
    }

    /// Forgets everything from `position` on; nothing when there is nothing.
    pub fn rewind(&mut self, position: usize) {
        self.0.rewind(0, position);
    }

    /// Goes back to where what was seen and `tokens` part, at the last to before the last of `tokens`, so that there is
    /// one to feed: returns how many tokens are kept.
    ///
    /// ```
    /// # use ironbridge::{Device, llama::Model};
    /// # fn main() -> Result<(), ironbridge::Error> {
    /// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/tiny-rustbook-q8_0.gguf");
    /// # let model = Model::open(&Device::open("cpu")?, path)?;
    /// let mut session = model.session()?;
    /// for prompt in ["Ownership is a set of rules", "Ownership is Rust's most unique feature"] {
    ///     let tokens = model.encode_prompt(prompt);
    ///     let kept = session.keep_prefix(&tokens);
    ///     session.feed(&tokens[kept..])?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn keep_prefix(&mut self, tokens: &[u32]) -> usize {
        self.0.keep_prefix(0, tokens)
    }

    /// Takes tokens out of the text: those that stood behind them are computed again at their new positions, so that
    /// the session is what it would be had the others never been there.
    ///
    /// # Errors
    ///
    /// [`LlamaError::Forget`] when the session has not seen such tokens, and the device's errors.
    pub fn forget(&mut self, positions: Range<usize>) -> Result<()> {
        self.0.forget(0, positions)
    }

    /// Computes the next tokens of the text, so that [`logits`](Session::logits) has what comes after them. Waits until
    /// it is done.
    ///
    /// # Errors
    ///
    /// [`LlamaError::NoTokens`], [`LlamaError::TokenOutOfRange`] and [`LlamaError::ContextFull`], each before anything
    /// is computed, and the device's errors.
    pub fn feed(&mut self, tokens: &[u32]) -> Result<()> {
        self.0.feed(&[(0, tokens)])
    }

    /// One score for each token of the vocabulary: the higher, the likelier it comes next.
    ///
    /// # Errors
    ///
    /// [`LlamaError::NoTokens`] when nothing was fed since the start or since the session was rewound, and the device's
    /// errors.
    pub fn logits(&self) -> Result<Logits<'_>> {
        self.0.logits(0)
    }

    /// The text's tokens, keys and values, as [`Sequences::save`] gives them.
    ///
    /// # Errors
    ///
    /// The device's.
    pub fn save(&self) -> Result<Vec<u8>> {
        self.0.save(0)
    }

    /// Makes the text what was saved, as [`Sequences::restore`] does.
    ///
    /// # Errors
    ///
    /// As [`Sequences::restore`].
    pub fn restore(&mut self, bytes: &[u8]) -> Result<()> {
        self.0.restore(0, bytes)
    }

    pub(crate) fn sequences(&mut self) -> &mut Sequences {
        &mut self.0
    }
}
