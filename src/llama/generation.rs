//! Writing text, token by token.

use std::time::{Duration, Instant};

use super::tokenizer::Decoder;
use super::{Sampler, Session};
use crate::Result;

/// A token that the model wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The token.
    pub token: u32,
    /// The text that it completes: whole characters, at times none.
    pub text: String,
}

/// Why a generation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stop {
    /// The model wrote the token that ends a text; it was the last one given out.
    EndOfText,
    /// As many tokens were written as were asked for.
    Limit,
    /// An error was given out.
    Failed,
}

/// What a generation has done so far and how long it took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GenerationStats {
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// From the prompt to the first token.
    pub prompt_time: Duration,
    /// Tokens that were written.
    pub generated_tokens: usize,
    /// From the first token to the last.
    pub generation_time: Duration,
}

impl GenerationStats {
    /// Tokens of the prompt per second.
    pub fn prompt_rate(&self) -> f64 {
        rate(self.prompt_tokens, self.prompt_time)
    }

    /// Tokens written per second, without the first, which the prompt's pass gives.
    pub fn generation_rate(&self) -> f64 {
        rate(
            self.generated_tokens.saturating_sub(1),
            self.generation_time,
        )
    }
}

fn rate(tokens: usize, time: Duration) -> f64 {
    match tokens {
        0 => 0.0,
        _ => tokens as f64 / time.as_secs_f64().max(1e-9),
    }
}

/// The tokens that a model writes after a prompt: an iterator that computes each one when it is asked for. From
/// [`Session::generate`].
///
/// An error ends it, and so does the token that ends a text. The last token given out is not in the session's cache.
#[derive(Debug)]
#[must_use = "nothing is computed until it is asked for"]
pub struct Generation<'s, 'm> {
    session: &'s mut Session<'m>,
    sampler: Sampler,
    decoder: Decoder<'m>,
    /// The tokens that the session has not seen: at first the prompt, later the last one written.
    unseen: Vec<u32>,
    limit: usize,
    stop: Option<Stop>,
    stats: GenerationStats,
}

impl<'m> Session<'m> {
    /// Goes on with `prompt` after what the session has seen, and then writes up to `limit` tokens.
    pub fn generate(
        &mut self,
        prompt: &[u32],
        sampler: Sampler,
        limit: usize,
    ) -> Generation<'_, 'm> {
        let tokenizer = self.model().tokenizer();
        let mut decoder = match self.position() {
            0 => Decoder::of_text(tokenizer),
            _ => Decoder::of_continuation(tokenizer),
        };
        for token in prompt {
            // Only where the text stands after the prompt matters; a token that is none is an error when it is fed.
            let _ = decoder.push(*token);
        }
        Generation {
            session: self,
            sampler,
            decoder,
            unseen: prompt.to_vec(),
            limit,
            stop: (limit == 0).then_some(Stop::Limit),
            stats: GenerationStats {
                prompt_tokens: prompt.len(),
                ..Default::default()
            },
        }
    }
}

impl Generation<'_, '_> {
    /// Why it ended; `None` while it goes on.
    pub fn stop(&self) -> Option<Stop> {
        self.stop
    }

    /// What it has done so far.
    pub fn stats(&self) -> GenerationStats {
        self.stats
    }

    fn write(&mut self) -> Result<Piece> {
        let start = Instant::now();
        self.session.feed(&self.unseen)?;
        let token = self.sampler.sample(&self.session.logits()?)?;
        self.unseen.clear();
        self.unseen.push(token);
        match self.stats.generated_tokens {
            0 => self.stats.prompt_time = start.elapsed(),
            _ => self.stats.generation_time += start.elapsed(),
        }
        self.stats.generated_tokens += 1;

        let mut text = self.decoder.push(token)?.to_owned();
        if self.session.model().tokenizer().is_end(token) {
            self.stop = Some(Stop::EndOfText);
        } else if self.stats.generated_tokens == self.limit {
            self.stop = Some(Stop::Limit);
        }
        if self.stop.is_some() {
            text.push_str(self.decoder.finish());
        }
        Ok(Piece { token, text })
    }
}

impl Iterator for Generation<'_, '_> {
    type Item = Result<Piece>;

    /// The next token.
    ///
    /// # Errors
    ///
    /// Those of [`Session::feed`], in particular [`LlamaError::ContextFull`](super::LlamaError::ContextFull) when there
    /// is no room left, and [`LlamaError::Sampler`](super::LlamaError::Sampler) when the model's scores are no numbers.
    fn next(&mut self) -> Option<Result<Piece>> {
        if self.stop.is_some() {
            return None;
        }
        let piece = self.write();
        if piece.is_err() {
            self.stop = Some(Stop::Failed);
        }
        Some(piece)
    }
}
