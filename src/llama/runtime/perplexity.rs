//! How well a model predicts a text that may be longer than its context.

use std::ops::ControlFlow;

use super::sequences::Sequences;
use super::session::Session;
use crate::error::Result;
use crate::llama::error::LlamaError;

/// How to read a text for [`Session::perplexity`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PerplexityOptions {
    /// Tokens by which the window moves on where the text is longer than the context. A token is predicted from at
    /// least `context - 1 - stride` tokens, so small strides are exact and slow. `None`: half the context.
    /// [`Chunks`](PerplexityWindows::Chunks) have none.
    pub stride: Option<usize>,
    /// Which tokens are predicted, and from what.
    pub windows: PerplexityWindows,
}

/// How a text is cut for a perplexity. Figures of different cuts are not comparable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum PerplexityWindows {
    /// Windows overlap, and each token but the first is predicted once.
    #[default]
    Overlapping,
    /// As llama.cpp's `llama-perplexity` does, whose figures are the published ones: pieces of a context's length, each
    /// on its own, without the rest at the end. In each the tokens after the first `context / 2 + 1` are predicted. The
    /// token that begins a text, where the model has one, stands in for the first of each piece.
    Chunks,
}

/// How well a model predicts a text.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Perplexity {
    tokens: usize,
    total: f64,
    total_of_squares: f64,
}

/// How far [`Session::perplexity`] is.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct PerplexityProgress {
    /// That of the text so far.
    pub so_far: Perplexity,
    /// Tokens that are to be predicted in all.
    pub total: usize,
}

impl Perplexity {
    /// How many tokens were predicted.
    pub fn tokens(&self) -> usize {
        self.tokens
    }

    /// The mean of the natural logarithms of the tokens' probabilities; 0 for no tokens.
    pub fn mean_log_probability(&self) -> f64 {
        self.total / self.tokens.max(1) as f64
    }

    /// `exp(-mean)`: among how many equally likely tokens the model might as well have guessed.
    pub fn value(&self) -> f64 {
        (-self.mean_log_probability()).exp()
    }

    /// The standard error of [`value`](Perplexity::value) as if the tokens were independent: that of the mean, times
    /// the slope of the exponential. It does not tell two models apart on one text, whose errors go together.
    pub fn standard_error(&self) -> f64 {
        let count = self.tokens as f64;
        if self.tokens < 2 {
            return 0.0;
        }
        let mean = self.mean_log_probability();
        let variance =
            (self.total_of_squares / count - mean * mean).max(0.0) * count / (count - 1.0);
        self.value() * (variance / count).sqrt()
    }

    fn add(&mut self, log_probabilities: &[f64]) {
        self.tokens += log_probabilities.len();
        self.total += log_probabilities.iter().sum::<f64>();
        self.total_of_squares += log_probabilities
            .iter()
            .map(|value| value * value)
            .sum::<f64>();
    }
}

impl Session {
    /// How well the model predicts a text, which may be longer than the context: windows move over it, each token is
    /// predicted once, and every window begins with the token that begins the text, where it has one. Forgets what the
    /// session has seen. `options.outputs` of the session says for how many tokens logits are computed together.
    ///
    /// ```
    /// # use ironbridge::{Device, llama::Model};
    /// # fn main() -> Result<(), ironbridge::Error> {
    /// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/tiny-rustbook-q8_0.gguf");
    /// # let model = Model::open(&Device::open("cpu")?, path)?;
    /// let text = model.encode_prompt("Ownership is a set of rules that govern how a Rust program manages memory.");
    /// let perplexity = model.session()?.perplexity(&text, Default::default(), &mut |_| ())?;
    /// assert!(perplexity.value() < 10.0, "the model knows its book: {}", perplexity.value());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`LlamaError::NothingToPredict`] for a text of fewer than two tokens, [`LlamaError::NoWholeChunk`] for one that
    /// is shorter than a chunk, [`LlamaError::ZeroOption`] for a stride of 0, and as [`feed`](Session::feed).
    pub fn perplexity(
        &mut self,
        tokens: &[u32],
        options: PerplexityOptions,
        progress: &mut dyn FnMut(PerplexityProgress),
    ) -> Result<Perplexity> {
        self.sequences()
            .perplexity(0, tokens, options, &mut |found| {
                progress(found);
                ControlFlow::Continue(())
            })
    }
}

impl Sequences {
    /// [`Session::perplexity`] of text `index`, which ends when `progress` says so.
    ///
    /// # Errors
    ///
    /// As [`Session::perplexity`], and [`LlamaError::Cancelled`] after [`ControlFlow::Break`].
    pub fn perplexity(
        &mut self,
        index: usize,
        tokens: &[u32],
        options: PerplexityOptions,
        progress: &mut dyn FnMut(PerplexityProgress) -> ControlFlow<()>,
    ) -> Result<Perplexity> {
        self.sequence(index)?;
        let context = self.context();
        if tokens.len() < 2 {
            return Err(LlamaError::NothingToPredict(tokens.len()).into());
        }
        if context < 2 {
            return Err(LlamaError::ContextFull { tokens: 2, context }.into());
        }
        let stride = match options.stride {
            None => (context / 2).max(1),
            Some(0) => return Err(LlamaError::ZeroOption("stride").into()),
            Some(asked) => asked.min(context - 1),
        };
        let bos = self.model().tokenizer().bos();
        let begin = tokens[..1].iter().filter(|first| Some(**first) == bos);
        let begin: Vec<u32> = begin.copied().collect();
        if options.windows == PerplexityWindows::Chunks {
            return self.perplexity_of_chunks(index, tokens, &begin, progress);
        }

        let mut perplexity = Perplexity::default();
        let mut predicted = 1; // the first token comes from nothing
        while predicted < tokens.len() {
            let end = match predicted {
                1 => context.min(tokens.len()),
                _ => (predicted + stride).min(tokens.len()),
            };
            let window = match end <= context {
                true => tokens[..end].to_vec(),
                false => [&begin, &tokens[end - (context - begin.len())..end]].concat(),
            };
            let (known, new) = window.split_at(window.len() - (end - predicted) - 1);
            self.rewind(index, 0);
            if !known.is_empty() {
                self.feed(&[(index, known)])?;
            }
            perplexity.add(&self.log_probabilities(index, new)?);
            predicted = end;
            let so_far = PerplexityProgress {
                so_far: perplexity,
                total: tokens.len() - 1,
            };
            if progress(so_far).is_break() {
                return Err(LlamaError::Cancelled("measuring a perplexity").into());
            }
        }
        Ok(perplexity)
    }

    /// llama.cpp's `tools/perplexity/perplexity.cpp`, function `perplexity`.
    fn perplexity_of_chunks(
        &mut self,
        index: usize,
        tokens: &[u32],
        begin: &[u32],
        progress: &mut dyn FnMut(PerplexityProgress) -> ControlFlow<()>,
    ) -> Result<Perplexity> {
        let context = self.context();
        let first = context / 2;
        let chunks = tokens.chunks_exact(context);
        if chunks.len() == 0 || context < 3 {
            let tokens = tokens.len();
            return Err(LlamaError::NoWholeChunk { tokens, context }.into());
        }
        let total = chunks.len() * (context - 1 - first);
        let mut perplexity = Perplexity::default();
        for chunk in chunks {
            let mut chunk = chunk.to_vec();
            chunk[..begin.len()].copy_from_slice(begin);
            let (known, new) = chunk.split_at(first);
            self.rewind(index, 0);
            self.feed(&[(index, known)])?;
            perplexity.add(&self.log_probabilities(index, new)?);
            let so_far = perplexity;
            if progress(PerplexityProgress { so_far, total }).is_break() {
                return Err(LlamaError::Cancelled("measuring a perplexity").into());
            }
        }
        Ok(perplexity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_those_of_the_mean() {
        let mut found = Perplexity::default();
        assert_eq!((found.value(), found.standard_error()), (1.0, 0.0));
        found.add(&[-1.0, -2.0]);
        found.add(&[-3.0]);
        assert_eq!(found.tokens(), 3);
        assert_eq!(found.mean_log_probability(), -2.0);
        assert_eq!(found.value(), 2f64.exp());
        // The sample's variance is 1.
        let error = 2f64.exp() * (1.0 / 3.0f64).sqrt();
        assert!((found.standard_error() - error).abs() < 1e-12);
    }
}
