//! One text in the making: its position, its cache and the memory to compute with.

use super::activations::Activations;
use super::kv_cache::{CacheType, KvCache};
use super::{LlamaError, Model};
use crate::{ReadGuard, Result};

/// How to make a [`Session`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionOptions {
    /// Positions that there is room for, at most as many as the model was trained on. Default, or 0: that many, up to
    /// 4,096.
    pub context: usize,
    /// Tokens that are computed together when there are many, as in a prompt. Default, or 0: 512.
    pub batch: usize,
    /// How keys and values are stored.
    pub cache: CacheType,
}

const DEFAULT_CONTEXT: usize = 4096;
const DEFAULT_BATCH: usize = 512;

/// One text in the making. All of its memory is made at the start.
///
/// After a device error a session may hold memory that was never computed, whose use is an error again: make a new one.
#[derive(Debug)]
pub struct Session<'m> {
    model: &'m Model,
    state: Activations,
    cache: KvCache,
    context: usize,
    batch: usize,
    position: usize,
    /// Whether the logits are those of the last token.
    has_logits: bool,
}

impl<'m> Session<'m> {
    /// # Errors
    ///
    /// [`LlamaError::ContextTooLong`] when the model was not trained on so many positions, and the device's errors,
    /// above all [`Error::OutOfMemory`](crate::Error::OutOfMemory).
    pub fn new(model: &'m Model, options: SessionOptions) -> Result<Session<'m>> {
        let trained = model.config().context;
        let context = match options.context {
            0 => trained.min(DEFAULT_CONTEXT),
            asked if asked > trained => {
                return Err(LlamaError::ContextTooLong { asked, trained }.into());
            }
            asked => asked,
        };
        let batch = match options.batch {
            0 => DEFAULT_BATCH.min(context),
            asked => asked.min(context),
        };
        let (device, config) = (model.device(), model.config());
        Ok(Session {
            model,
            cache: KvCache::new(device, config, context, options.cache)?,
            state: Activations::new(device, config, batch, context)?,
            context,
            batch,
            position: 0,
            has_logits: false,
        })
    }

    /// The model.
    pub fn model(&self) -> &'m Model {
        self.model
    }

    /// How many tokens the session has seen.
    pub fn position(&self) -> usize {
        self.position
    }

    /// How many tokens it has room for.
    pub fn context(&self) -> usize {
        self.context
    }

    /// Forgets everything from `position` on; nothing when there is nothing.
    pub fn rewind(&mut self, position: usize) {
        if position < self.position {
            self.position = position;
            self.has_logits = false;
        }
    }

    /// Computes the next tokens of the text, so that [`logits`](Session::logits) has what comes after them. Waits until
    /// it is done.
    ///
    /// # Errors
    ///
    /// [`LlamaError::NoTokens`], [`LlamaError::TokenOutOfRange`] and [`LlamaError::ContextFull`], each before anything
    /// is computed, and the device's errors.
    pub fn feed(&mut self, tokens: &[u32]) -> Result<()> {
        if tokens.is_empty() {
            return Err(LlamaError::NoTokens.into());
        }
        let vocabulary = self.model.tokenizer().vocabulary_size();
        if let Some(&id) = tokens.iter().find(|token| **token >= vocabulary) {
            return Err(LlamaError::TokenOutOfRange { id, vocabulary }.into());
        }
        if tokens.len() > self.context - self.position {
            let tokens = self.position + tokens.len();
            let context = self.context;
            return Err(LlamaError::ContextFull { tokens, context }.into());
        }
        self.has_logits = false;
        for batch in tokens.chunks(self.batch) {
            self.state.ids.write_at(0, batch)?;
            let mut commands = self
                .model
                .device()
                .commands_options()
                .label("forward pass")
                .begin()?;
            self.model.forward(
                &mut commands,
                &self.state,
                &self.cache,
                self.position,
                batch.len(),
            )?;
            commands.commit()?.wait()?;
            self.position += batch.len();
        }
        self.has_logits = true;
        Ok(())
    }

    /// One score for each token of the vocabulary: the higher, the likelier it comes next.
    ///
    /// # Errors
    ///
    /// [`LlamaError::NoTokens`] when nothing was fed since the start or since the session was rewound, and the device's
    /// errors.
    pub fn logits(&self) -> Result<ReadGuard<'_, f32>> {
        match self.has_logits {
            true => self.state.logits.map(),
            false => Err(LlamaError::NoTokens.into()),
        }
    }
}
