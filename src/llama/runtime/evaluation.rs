//! What a model makes of a text that is there already: how likely it finds it, and where it stands among others.

use super::decoder::log_sum_exp;
use super::sequences::Sequences;
use super::session::Session;
use crate::error::Result;
use crate::llama::error::LlamaError;

/// How the states of a text's tokens become one vector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pooling {
    /// Their mean.
    #[default]
    Mean,
    /// That of the last token, which has seen all the others.
    Last,
}

impl Session {
    /// Computes the next tokens of the text: the natural logarithm of each one's probability after all before it, from
    /// the second token on. What the session had seen before counts as context.
    ///
    /// The perplexity of a text is `exp(-mean)` of them. `options.outputs` of the session says for how many tokens the
    /// logits are computed together.
    ///
    /// # Errors
    ///
    /// As [`feed`](Session::feed).
    pub fn log_probabilities(&mut self, tokens: &[u32]) -> Result<Vec<f64>> {
        self.sequences().log_probabilities(0, tokens)
    }

    /// Computes the next tokens of the text and pools what the model makes of them, after its last norm, into one
    /// vector of `width` numbers and of length 1: near vectors are texts with near meanings, as far as the model was
    /// trained to that.
    ///
    /// # Errors
    ///
    /// As [`feed`](Session::feed), and [`LlamaError::Embedding`] when the vector has no direction.
    pub fn embed(&mut self, tokens: &[u32], pooling: Pooling) -> Result<Vec<f32>> {
        self.sequences().embed(0, tokens, pooling)
    }
}

impl Sequences {
    /// [`Session::log_probabilities`] of text `index`.
    ///
    /// # Errors
    ///
    /// As [`feed`](Sequences::feed).
    pub fn log_probabilities(&mut self, index: usize, tokens: &[u32]) -> Result<Vec<f64>> {
        let mut found = Vec::with_capacity(tokens.len());
        self.feed_and_visit(index, tokens, |place, logits| {
            if let Some(next) = tokens.get(place + 1) {
                found.push(f64::from(logits[*next as usize]) - log_sum_exp(logits));
            }
        })?;
        Ok(found)
    }

    /// [`Session::embed`] of text `index`.
    ///
    /// # Errors
    ///
    /// As [`feed`](Sequences::feed), and [`LlamaError::Embedding`] when the vector has no direction.
    pub fn embed(&mut self, index: usize, tokens: &[u32], pooling: Pooling) -> Result<Vec<f32>> {
        let mut sum = vec![0f64; self.model().config().width];
        self.feed_and_visit_states(index, tokens, |place, state| {
            if pooling == Pooling::Mean || place + 1 == tokens.len() {
                let pairs = sum.iter_mut().zip(state);
                pairs.for_each(|(sum, state)| *sum += f64::from(*state));
            }
        })?;
        let length = sum.iter().map(|value| value * value).sum::<f64>().sqrt();
        match length.is_normal() {
            true => Ok(sum.iter().map(|value| (value / length) as f32).collect()),
            false => Err(LlamaError::Embedding(length).into()),
        }
    }
}
