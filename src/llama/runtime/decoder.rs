//! From logits to text, one token at a time.

use std::fmt;
use std::sync::Arc;

use super::cancel::CancelToken;
use super::guess::Guesses;
use crate::llama::error::LlamaError;
use crate::llama::model::Model;
use crate::llama::sampling::sampler::{LogitMask, Sampler};
use crate::llama::sampling::stop_strings::StopStrings;
use crate::llama::tokenizer::{DecoderState, Tokenizer};

/// A token that the model wrote.
#[derive(Clone, Debug, PartialEq)]
pub struct Piece {
    /// The token.
    pub token: u32,
    /// The text that it completes: whole characters, at times none.
    pub text: String,
    /// How likely the token was, where it was asked for.
    pub log_probabilities: Option<LogProbabilities>,
}

/// Natural logarithms of probabilities that the model gave, before mask, penalties and temperature.
#[derive(Clone, Debug, PartialEq)]
pub struct LogProbabilities {
    /// That of the token that was picked.
    pub picked: f32,
    /// The likeliest tokens, likeliest first.
    pub likeliest: Vec<(u32, f32)>,
}

/// Why a text ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stop {
    /// The model wrote the token that ends a text; it was the last one given out.
    EndOfText,
    /// As many tokens were written as were asked for.
    Limit,
    /// One of the stop strings came; the text ends before it.
    StopString,
    /// The [`CancelToken`] was cancelled.
    Cancelled,
    /// An error was given out.
    Failed,
}

/// What to do when a session has no room for the next token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// [`LlamaError::ContextFull`](crate::llama::LlamaError::ContextFull).
    #[default]
    Fail,
    /// Forget the older half of the text behind its first `keep` tokens and go on. What is left is computed again: the
    /// text goes on exactly as if the forgotten part had never been.
    Forget {
        /// Tokens at the start that stay: a system prompt, or the token that begins a text.
        keep: usize,
    },
}

/// How to write a text.
#[derive(Default)]
pub struct GenerationOptions {
    /// Tokens to write at most. `None`: until the text ends, or the context, as `when_full` says.
    pub limit: Option<usize>,
    /// The text ends before the first of these.
    pub stop_strings: Vec<String>,
    /// Whether each token comes with its log-probability and those of this many likeliest.
    pub log_probabilities: Option<usize>,
    /// Changes logits before a token is picked.
    pub mask: Option<Box<dyn LogitMask>>,
    /// Ends the text from another thread.
    pub cancel: CancelToken,
    /// What to do at the end of the context.
    pub when_full: WhenFull,
}

impl fmt::Debug for GenerationOptions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("GenerationOptions")
            .field("limit", &self.limit)
            .field("stop_strings", &self.stop_strings)
            .field("log_probabilities", &self.log_probabilities)
            .field("mask", &self.mask.is_some())
            .field("cancel", &self.cancel)
            .field("when_full", &self.when_full)
            .finish()
    }
}

/// Picks the tokens of one text from logits and turns them into text: what a [`Generation`](crate::llama::Generation)
/// is made of, for whoever computes the logits of many texts together with [`Sequences`](crate::llama::Sequences).
#[derive(Debug)]
pub struct Writer {
    tokenizer: Arc<Tokenizer>,
    decoder: DecoderState,
    sampler: Sampler,
    options: GenerationOptions,
    stops: StopStrings,
    /// The whole text, from its begin.
    tokens: Vec<u32>,
    written: usize,
    stop: Option<Stop>,
}

impl Writer {
    /// Goes on after `text`, all the tokens from the text's begin.
    pub fn new(
        model: &Model,
        text: &[u32],
        sampler: Sampler,
        options: GenerationOptions,
    ) -> Writer {
        let tokenizer = model.shared_tokenizer();
        let mut decoder = DecoderState::of_text(&tokenizer);
        for token in text {
            // Only where the text stands behind them matters; a token that is none is an error when it is fed.
            let _ = decoder.push(&tokenizer, *token);
        }
        Writer {
            stops: StopStrings::new(&options.stop_strings),
            stop: (options.limit == Some(0)).then_some(Stop::Limit),
            tokenizer,
            decoder,
            sampler,
            options,
            tokens: text.to_vec(),
            written: 0,
        }
    }

    /// Why the text ended; `None` while it goes on.
    pub fn stop(&self) -> Option<Stop> {
        self.stop
    }

    /// How many tokens were written.
    pub fn written(&self) -> usize {
        self.written
    }

    /// All tokens of the text, those it went on from and those that were written.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// The next token, given the model's scores. It is for the caller to feed it to the model, unless this was the
    /// last.
    ///
    /// # Errors
    ///
    /// [`LlamaError::Sampler`] when the scores are no numbers or the mask leaves none.
    pub fn write(&mut self, logits: &[f32]) -> Result<Piece, LlamaError> {
        // Models may have room for more tokens than their tokenizer knows.
        let known = logits.len().min(self.tokenizer.vocabulary_size() as usize);
        let logits = &logits[..known];
        let mask = self.options.mask.as_deref_mut();
        let mask = mask.map(|mask| mask as &mut dyn LogitMask);
        let token = self.sampler.sample_after(&self.tokens, logits, mask)?;
        let scores = self.options.log_probabilities;
        let log_probabilities = scores.map(|count| log_probabilities(logits, token, count));
        self.tokens.push(token);
        self.written += 1;

        let mut text = self.decoder.push(&self.tokenizer, token)?.to_owned();
        if self.tokenizer.is_end(token) {
            self.stop = Some(Stop::EndOfText);
        } else if Some(self.written) == self.options.limit {
            self.stop = Some(Stop::Limit);
        }
        if self.stop.is_some() {
            text.push_str(self.decoder.finish(&self.tokenizer));
        }
        let (mut text, stopped) = self.stops.push(&text);
        if stopped {
            self.stop = Some(Stop::StopString);
        } else if self.stop.is_some() {
            text.push_str(&self.stops.finish());
        }
        Ok(Piece {
            token,
            text,
            log_probabilities,
        })
    }

    /// Whether it picks the likeliest token and then, unless the text ends with it, another one.
    pub(crate) fn guesses(&self) -> Guesses {
        let is_last = self.options.limit == Some(self.written + 1);
        match self.options.mask.is_none() && self.sampler.takes_the_likeliest() {
            false => Guesses::Never,
            true if is_last => Guesses::Last,
            true => Guesses::Always,
        }
    }

    pub(crate) fn options(&self) -> &GenerationOptions {
        &self.options
    }

    pub(crate) fn end(&mut self, stop: Stop) {
        self.stop = Some(stop);
    }
}

/// ln(exp(logit) / sum of exp(logits)), in float64.
fn log_probabilities(logits: &[f32], picked: u32, count: usize) -> LogProbabilities {
    let total = log_sum_exp(logits);
    let of = |token: u32| (f64::from(logits[token as usize]) - total) as f32;
    let mut order: Vec<u32> = (0..logits.len() as u32).collect();
    let likelier = |a: &u32, b: &u32| {
        let (first, second) = (logits[*a as usize], logits[*b as usize]);
        second.total_cmp(&first).then(a.cmp(b))
    };
    let count = count.min(order.len());
    if count > 0 && count < order.len() {
        order.select_nth_unstable_by(count - 1, likelier);
    }
    order.truncate(count);
    order.sort_unstable_by(likelier);
    LogProbabilities {
        picked: of(picked),
        likeliest: order.into_iter().map(|token| (token, of(token))).collect(),
    }
}

/// The logarithm of the sum of the logits' exponentials, in float64.
pub(crate) fn log_sum_exp(logits: &[f32]) -> f64 {
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let largest = f64::from(largest);
    let terms = logits
        .iter()
        .map(|logit| (f64::from(*logit) - largest).exp());
    largest + terms.sum::<f64>().ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_probabilities_are_those_of_the_softmax() {
        let logits = [1.0, 3.0, 2.0, 3.0];
        let total: f64 = logits
            .iter()
            .map(|logit: &f32| f64::from(*logit).exp())
            .sum();
        let exact = |token: usize| (f64::from(logits[token]).exp() / total).ln() as f32;
        let found = log_probabilities(&logits, 2, 3);
        assert_eq!(found.picked, exact(2));
        assert_eq!(
            found.likeliest,
            [(1, exact(1)), (3, exact(3)), (2, exact(2))]
        );
        assert_eq!(log_probabilities(&logits, 0, 99).likeliest.len(), 4);
        assert_eq!(log_probabilities(&logits, 0, 0).likeliest, []);
    }
}
