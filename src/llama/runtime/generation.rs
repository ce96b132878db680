//! Writing text, token by token.

use std::time::{Duration, Instant};

use super::decoder::{GenerationOptions, Piece, Stop, WhenFull, Writer};
use super::sequences::Sequences;
use super::session::Session;
use crate::error::Result;
use crate::llama::sampling::sampler::Sampler;

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
    match tokens == 0 || time.is_zero() {
        true => 0.0,
        false => tokens as f64 / time.as_secs_f64(),
    }
}

/// The tokens that a model writes after a prompt: an iterator that computes each one when it is asked for. From
/// [`Session::generate`].
///
/// An error ends it, and so does the token that ends a text. The last token given out is not in the session's cache.
#[derive(Debug)]
#[must_use = "nothing is computed until it is asked for"]
pub struct Generation<'s> {
    session: &'s mut Session,
    steps: GenerationSteps,
}

/// A generation that is handed its sequence each time.
#[derive(Debug)]
pub(crate) struct GenerationSteps {
    index: usize,
    writer: Writer,
    /// The tokens that the sequence has not seen: at first the prompt, later the last one written.
    unseen: Vec<u32>,
    stats: GenerationStats,
}

impl Session {
    /// Goes on with `prompt` after what the session has seen, and then writes up to `limit` tokens.
    pub fn generate(&mut self, prompt: &[u32], sampler: Sampler, limit: usize) -> Generation<'_> {
        let options = GenerationOptions {
            limit: Some(limit),
            ..Default::default()
        };
        self.generate_with(prompt, sampler, options)
    }

    /// Goes on with `prompt` after what the session has seen, and then writes as `options` say.
    ///
    /// ```
    /// # use ironbridge::{Device, llama::Model};
    /// use ironbridge::llama::{GenerationOptions, Sampler, SamplerOptions, Stop};
    ///
    /// # fn main() -> Result<(), ironbridge::Error> {
    /// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/tiny-rustbook-q8_0.gguf");
    /// # let model = Model::open(&Device::open("cpu")?, path)?;
    /// let options = GenerationOptions {
    ///     limit: Some(40),
    ///     stop_strings: vec![" that".into()],
    ///     ..Default::default()
    /// };
    /// let greedy = Sampler::new(SamplerOptions::default())?;
    /// let mut session = model.session()?;
    /// let mut text = String::new();
    /// let mut generation = session.generate_with(&model.encode_prompt("Ownership is"), greedy, options);
    /// for piece in generation.by_ref() {
    ///     text.push_str(&piece?.text);
    /// }
    /// assert_eq!((text.as_str(), generation.stop()), (" a set of rules", Some(Stop::StopString)));
    /// # Ok(())
    /// # }
    /// ```
    pub fn generate_with(
        &mut self,
        prompt: &[u32],
        sampler: Sampler,
        options: GenerationOptions,
    ) -> Generation<'_> {
        let steps = GenerationSteps::new(self.sequences(), 0, prompt, sampler, options);
        Generation {
            session: self,
            steps,
        }
    }
}

impl Generation<'_> {
    /// Why it ended; `None` while it goes on.
    pub fn stop(&self) -> Option<Stop> {
        self.steps.stop()
    }

    /// What it has done so far.
    pub fn stats(&self) -> GenerationStats {
        self.steps.stats()
    }
}

impl Iterator for Generation<'_> {
    type Item = Result<Piece>;

    /// The next token.
    ///
    /// # Errors
    ///
    /// Those of [`Session::feed`], in particular [`LlamaError::ContextFull`](crate::llama::LlamaError::ContextFull)
    /// when there is no room left, and [`LlamaError::Sampler`](crate::llama::LlamaError::Sampler) when the model's
    /// scores are no numbers.
    fn next(&mut self) -> Option<Result<Piece>> {
        self.steps.next(self.session.sequences())
    }
}

impl GenerationSteps {
    /// Goes on with `prompt` after what sequence `index` has seen.
    pub fn new(
        sequences: &Sequences,
        index: usize,
        prompt: &[u32],
        sampler: Sampler,
        options: GenerationOptions,
    ) -> GenerationSteps {
        let text = [sequences.tokens(index), prompt].concat();
        GenerationSteps {
            index,
            writer: Writer::new(sequences.model(), &text, sampler, options),
            unseen: prompt.to_vec(),
            stats: GenerationStats {
                prompt_tokens: prompt.len(),
                ..Default::default()
            },
        }
    }

    /// Why it ended; `None` while it goes on.
    pub fn stop(&self) -> Option<Stop> {
        self.writer.stop()
    }

    /// What it has done so far.
    pub fn stats(&self) -> GenerationStats {
        self.stats
    }

    /// Ends it, unless it has.
    pub fn cancel(&mut self) {
        if self.stop().is_none() {
            self.writer.end(Stop::Cancelled);
        }
    }

    /// The next token; `None` after the end.
    pub fn next(&mut self, sequences: &mut Sequences) -> Option<Result<Piece>> {
        if self.stop().is_some() {
            return None;
        }
        match self.write(sequences) {
            Ok(Some(piece)) => Some(Ok(piece)),
            Ok(None) => {
                self.writer.end(Stop::Cancelled);
                None
            }
            Err(error) => {
                self.writer.end(Stop::Failed);
                Some(Err(error))
            }
        }
    }

    /// `None` when it was cancelled.
    fn write(&mut self, sequences: &mut Sequences) -> Result<Option<Piece>> {
        let start = Instant::now();
        let cancel = self.writer.options().cancel.clone();
        if cancel.is_cancelled() {
            return Ok(None);
        }
        self.make_room(sequences)?;
        let guesses = self.writer.guesses();
        if !sequences.feed_unless(&[(self.index, &self.unseen)], &cancel, guesses)? {
            return Ok(None);
        }
        let piece = self.writer.write(&sequences.logits(self.index)?)?;
        self.unseen.clear();
        self.unseen.push(piece.token);
        match self.stats.generated_tokens {
            0 => self.stats.prompt_time = start.elapsed(),
            _ => self.stats.generation_time += start.elapsed(),
        }
        self.stats.generated_tokens += 1;
        Ok(Some(piece))
    }

    /// Forgets the older half of the text if it has to; when that is not enough, the feed has the error.
    fn make_room(&mut self, sequences: &mut Sequences) -> Result<()> {
        let WhenFull::Forget { keep } = self.writer.options().when_full else {
            return Ok(());
        };
        let (seen, context) = (sequences.tokens(self.index).len(), sequences.context());
        let missing = (seen + self.unseen.len()).saturating_sub(context);
        let keep = keep.min(seen);
        let forgettable = seen - keep;
        match (1..=forgettable).contains(&missing) {
            true => {
                let forgotten = missing.max(forgettable / 2);
                sequences.forget(self.index, keep..keep + forgotten)
            }
            false => Ok(()),
        }
    }
}
