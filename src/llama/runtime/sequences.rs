//! Several texts in the making, computed together.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use super::ahead::{self, Ahead, Place, behind, have_room, positions_of};
use super::cancel::CancelToken;
use super::guess::{Confidence, Guess, Guesses, MOST_TEXTS, TURNS, Texts};
use super::options::SessionOptions;
use super::sequence::{self, Sequence};
use crate::buffer::ReadGuard;
use crate::commands::{Commands, Pending};
use crate::error::Result;
use crate::llama::error::LlamaError;
use crate::llama::model::activations::{Activations, Turn};
use crate::llama::model::kv_cache::KvCache;
use crate::llama::model::{Model, Pass, Span};

/// Several texts in the making that are computed together: a pass reads the weights once for all of them, so that
/// writing eight texts costs little more than writing one.
///
/// Each text has a cache of its own, of `options.context` positions; all memory is made at the start. A server gives
/// each request a sequence, feeds what is new in all of them in one [`feed`](Sequences::feed) and lets each one's
/// [`Writer`](crate::llama::Writer) pick from its [`logits`](Sequences::logits).
///
/// ```
/// use ironbridge::Device;
/// use ironbridge::llama::{Model, Sequences};
///
/// # fn main() -> Result<(), ironbridge::Error> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/tiny-rustbook-q8_0.gguf");
/// let model = Model::open(&Device::open("cpu")?, path)?;
/// let mut sequences = Sequences::new(&model, 2, Default::default())?;
/// let (first, second) = (model.encode_prompt("Ownership is"), model.encode_prompt("Unsafe"));
/// sequences.feed(&[(0, &first), (1, &second)])?;
/// assert_eq!(sequences.logits(0)?.len(), model.config().vocabulary);
/// assert_eq!(sequences.tokens(1), second);
/// # Ok(())
/// # }
/// ```
///
/// After a device error any of the texts may have memory that was never computed, whose use is an error again: make new
/// ones.
#[derive(Debug)]
pub struct Sequences {
    model: Model,
    state: Activations,
    sequences: Vec<Sequence>,
    context: usize,
    batch: usize,
    outputs: usize,
    /// Whether passes are recorded ahead.
    records_ahead: bool,
    /// The next pass, if it is as this one guesses. It stands against the host's use of what it writes.
    ahead: Mutex<Option<Ahead>>,
    /// None where passes are not recorded ahead.
    turns: Vec<Turn>,
    /// Passes of tokens that the host has not picked yet. Like the one above.
    guess: Mutex<Guess>,
    /// Whether guesses pay where nobody says so.
    confidence: Confidence,
    /// The last pass, where the device knows the likeliest tokens after it.
    last: Option<Last>,
    /// Whose logits are wanted: those of a turn, or those of [`Activations`].
    scored: Option<usize>,
}

/// A pass of one token a text.
#[derive(Debug)]
struct Last {
    places: Vec<Place>,
    /// Which has the likeliest tokens.
    turn: usize,
}

const DEFAULT_CONTEXT: usize = 4096;
const DEFAULT_BATCH: usize = 512;

impl Sequences {
    /// `count` empty texts.
    ///
    /// # Errors
    ///
    /// [`LlamaError::NoSequences`] for a count of 0, [`LlamaError::ZeroOption`] for an option that is,
    /// [`LlamaError::ContextTooLong`] when the model was not trained on that many positions, [`LlamaError::CacheType`]
    /// when its heads do not fit the cache's type, and the device's errors, above all
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory).
    pub fn new(model: &Model, count: usize, options: SessionOptions) -> Result<Sequences> {
        if count == 0 {
            return Err(LlamaError::NoSequences.into());
        }
        let (device, config) = (model.device(), model.config());
        let trained = config.context;
        for (option, asked) in [
            ("context", options.context),
            ("batch", options.batch),
            ("outputs", options.outputs),
        ] {
            if asked == Some(0) {
                return Err(LlamaError::ZeroOption(option).into());
            }
        }
        let context = match options.context {
            None => trained.min(DEFAULT_CONTEXT),
            Some(asked) if asked > trained => {
                return Err(LlamaError::ContextTooLong { asked, trained }.into());
            }
            Some(asked) => asked,
        };
        let batch = options.batch.unwrap_or(DEFAULT_BATCH).min(context);
        let batch = batch.max(count); // each sequence can write a token in every pass
        let outputs = options.outputs.unwrap_or(count).clamp(count, batch);
        let caches = KvCache::of_texts(device, config, context, options.cache, count)?;
        let sequences = caches.into_iter().map(|cache| Sequence {
            cache,
            tokens: Vec::with_capacity(context),
            logits: None,
        });
        let records_ahead = ahead::pays_on(device)?;
        let texts = if count <= MOST_TEXTS { count } else { 1 };
        let turns =
            (0..if records_ahead { TURNS } else { 0 }).map(|_| Turn::new(device, config, texts));
        Ok(Sequences {
            sequences: sequences.collect(),
            state: Activations::new(
                device,
                config,
                batch,
                outputs,
                model.largest_rank(),
                options.activations,
            )?,
            model: model.clone(),
            context,
            batch,
            outputs,
            records_ahead,
            ahead: Mutex::new(None),
            turns: turns.collect::<Result<_>>()?,
            guess: Mutex::default(),
            confidence: Confidence::default(),
            last: None,
            scored: None,
        })
    }

    /// The model.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// How many texts there are.
    pub fn count(&self) -> usize {
        self.sequences.len()
    }

    /// How many tokens there is room for in each.
    pub fn context(&self) -> usize {
        self.context
    }

    /// What text `index` has seen; nothing where there is no such text.
    pub fn tokens(&self, index: usize) -> &[u32] {
        self.sequences
            .get(index)
            .map_or(&[], |sequence| &sequence.tokens)
    }

    /// Forgets everything of text `index` from `position` on; nothing when there is nothing.
    pub fn rewind(&mut self, index: usize, position: usize) {
        if let Some(sequence) = self.sequences.get_mut(index)
            && position < sequence.tokens.len()
        {
            sequence.tokens.truncate(position);
            sequence.logits = None;
        }
    }

    /// Goes back to where text `index` and `tokens` part, at the last to before the last of `tokens`, so that there is
    /// one to feed: returns how many tokens are kept. What two calls share, such as a system prompt or the conversation
    /// so far, is not computed again.
    pub fn keep_prefix(&mut self, index: usize, tokens: &[u32]) -> usize {
        let pairs = self.tokens(index).iter().zip(tokens);
        let common = pairs.take_while(|(seen, new)| seen == new).count();
        let kept = common.min(tokens.len().saturating_sub(1));
        self.rewind(index, kept);
        kept
    }

    /// Takes tokens out of text `index`: those that stood behind them are computed again at their new positions.
    ///
    /// # Errors
    ///
    /// [`LlamaError::Forget`] when the text has no such tokens, and the device's errors.
    pub fn forget(&mut self, index: usize, positions: Range<usize>) -> Result<()> {
        let seen = self.tokens(index).len();
        if positions.start > positions.end || positions.end > seen {
            return Err(LlamaError::Forget { positions, seen }.into());
        }
        let behind = self.tokens(index)[positions.end..].to_vec();
        self.rewind(index, positions.start);
        match behind.is_empty() {
            true => Ok(()),
            false => self.feed(&[(index, &behind)]),
        }
    }

    /// Computes the next tokens of some of the texts, so that [`logits`](Sequences::logits) has what comes after them.
    /// Those of the other texts are gone. Waits until it is done.
    ///
    /// On a GPU, after two calls with a token of each of the same 2 to 16 texts that were the likeliest ones, the next
    /// ones are begun by themselves. What was begun in vain is waited for when the tokens are others.
    ///
    /// # Errors
    ///
    /// [`LlamaError::NoTokens`], [`LlamaError::TokenOutOfRange`], [`LlamaError::ContextFull`], and
    /// [`LlamaError::Sequence`] for a text that is not there or named twice, each before anything is computed; and the
    /// device's errors.
    pub fn feed(&mut self, work: &[(usize, &[u32])]) -> Result<()> {
        self.feed_unless(work, &CancelToken::new(), Guesses::Never)
            .map(|_| ())
    }

    /// The same, given up between two passes when `cancel` says so: returns whether all was computed. `guesses`: of the
    /// likeliest token after a single one, in the hope that it will be asked for.
    pub(crate) fn feed_unless(
        &mut self,
        work: &[(usize, &[u32])],
        cancel: &CancelToken,
        guesses: Guesses,
    ) -> Result<bool> {
        self.check(work)?;
        for sequence in &mut self.sequences {
            sequence.logits = None;
        }
        if cancel.is_cancelled() {
            return Ok(false);
        }
        if let [(index, [token])] = work
            && guesses != Guesses::Never
            && !self.turns.is_empty()
        {
            let place = (*index, self.sequences[*index].tokens.len());
            self.step_and_guess(vec![place], &[*token], guesses == Guesses::Always)?;
            return Ok(true);
        }
        let together = self.step_of(work);
        if let Some((places, tokens)) = &together
            && self.step_as_guessed(places, tokens)?
        {
            return Ok(true);
        }
        self.give_up_guess();
        self.last = None;
        self.scored = None;
        let mut scored = 0;
        for chunks in passes(work, self.batch) {
            if cancel.is_cancelled() {
                return Ok(false);
            }
            let mut outputs = Vec::new();
            let mut row = 0;
            for chunk in &chunks {
                row += chunk.tokens.len();
                if chunk.is_last {
                    let index = scored + outputs.len();
                    outputs.push((row - 1) as u32);
                    self.sequences[chunk.sequence].logits = Some(index);
                }
            }
            if !outputs.is_empty() {
                self.state.outputs.write_at(0, &outputs)?;
            }
            let score =
                |model: &Model, commands: &mut Commands, state: &Activations, rows| match outputs
                    .is_empty()
                {
                    true => Ok(()),
                    false => model.score(commands, state, rows, outputs.len(), scored),
                };
            let is_step = self.records_ahead && chunks.iter().all(|chunk| chunk.tokens.len() == 1);
            let computed = match is_step {
                true => self.step(&chunks, score, together.is_some()),
                false => self.pass(&chunks, score),
            };
            if let Err(error) = computed {
                for sequence in &mut self.sequences {
                    sequence.logits = None;
                }
                return Err(error);
            }
            scored += outputs.len();
        }
        Ok(true)
    }

    /// One score for each token of the vocabulary: the higher, the likelier it comes next in text `index`.
    ///
    /// # Errors
    ///
    /// [`LlamaError::NoTokens`] when the last [`feed`](Sequences::feed) had nothing for this text or it was rewound
    /// since, and the device's errors.
    pub fn logits(&self, index: usize) -> Result<Logits<'_>> {
        let row = self.sequences.get(index).and_then(|it| it.logits);
        let row = row.ok_or(LlamaError::NoTokens)?;
        let (buffer, start) = match self.scored {
            None => self.state.logits.row(row),
            Some(turn) => self.turns[turn].logits.row(row),
        };
        Ok(Logits {
            rows: buffer.map()?,
            start,
            length: self.model.config().vocabulary,
        })
    }

    /// Feeds text `index` and calls `visit` with the logits after each of the tokens, in their order.
    pub(crate) fn feed_and_visit(
        &mut self,
        index: usize,
        tokens: &[u32],
        mut visit: impl FnMut(usize, &[f32]),
    ) -> Result<()> {
        self.check(&[(index, tokens)])?;
        self.drop_ahead();
        let vocabulary = self.model.config().vocabulary;
        for (start, chunk) in chunks_of(tokens, self.batch) {
            self.pass(&[Chunk::of(index, chunk)], |_, _, _, _| Ok(()))?;
            let rows: Vec<u32> = (0..chunk.len() as u32).collect();
            for (first, outputs) in chunks_of(&rows, self.outputs) {
                self.state.outputs.write_at(0, outputs)?;
                let mut commands = self.model.device().commands()?;
                let (state, rows) = (&self.state, chunk.len());
                self.model
                    .score(&mut commands, state, rows, outputs.len(), 0)?;
                commands.run()?;
                for row in 0..outputs.len() {
                    let (buffer, place) = self.state.logits.row(row);
                    visit(start + first + row, &buffer.map()?[place..][..vocabulary]);
                }
            }
        }
        self.sequences[index].logits = None;
        Ok(())
    }

    /// Feeds text `index` and calls `visit` with what the model makes of each of the tokens, `width` numbers, in their
    /// order.
    pub(crate) fn feed_and_visit_states(
        &mut self,
        index: usize,
        tokens: &[u32],
        mut visit: impl FnMut(usize, &[f32]),
    ) -> Result<()> {
        self.check(&[(index, tokens)])?;
        let width = self.model.config().width;
        for (start, chunk) in chunks_of(tokens, self.batch) {
            self.pass(
                &[Chunk::of(index, chunk)],
                |model, commands, state, rows| model.normalize(commands, state, rows),
            )?;
            let mut states = vec![0.0; chunk.len() * width];
            self.state.normed.read_at(0, &mut states)?;
            for (row, state) in states.chunks(width).enumerate() {
                visit(start + row, state);
            }
        }
        self.sequences[index].logits = None;
        Ok(())
    }

    /// For a use of its memory.
    pub(super) fn sequence(&self, index: usize) -> Result<&Sequence, LlamaError> {
        self.drop_ahead();
        let count = self.sequences.len();
        let found = self.sequences.get(index);
        found.ok_or(LlamaError::Sequence { index, count })
    }

    /// As [`sequence`](Sequences::sequence).
    pub(super) fn sequence_mut(&mut self, index: usize) -> Result<&mut Sequence, LlamaError> {
        self.drop_ahead();
        let count = self.sequences.len();
        let found = self.sequences.get_mut(index);
        found.ok_or(LlamaError::Sequence { index, count })
    }

    fn check(&self, work: &[(usize, &[u32])]) -> Result<(), LlamaError> {
        let (count, context) = (self.sequences.len(), self.context);
        let vocabulary = self.model.config().vocabulary as u32;
        if work.is_empty() {
            return Err(LlamaError::NoTokens);
        }
        for (place, (index, tokens)) in work.iter().enumerate() {
            let index = *index;
            if index >= count || work[..place].iter().any(|(other, _)| *other == index) {
                return Err(LlamaError::Sequence { index, count });
            }
            if tokens.is_empty() {
                return Err(LlamaError::NoTokens);
            }
            if let Some(&id) = tokens.iter().find(|token| **token >= vocabulary) {
                return Err(LlamaError::TokenOutOfRange { id, vocabulary });
            }
            let seen = self.sequences[index].tokens.len();
            if tokens.len() > context - seen {
                let tokens = seen + tokens.len();
                return Err(LlamaError::ContextFull { tokens, context });
            }
        }
        Ok(())
    }

    fn drop_ahead(&self) {
        self.give_up_guess();
        let ahead = &mut *self.ahead.lock().unwrap_or_else(PoisonError::into_inner);
        *ahead = None;
    }

    fn give_up_guess(&self) {
        let guess = self.guess.lock();
        guess.unwrap_or_else(PoisonError::into_inner).give_up();
    }

    fn take_ahead(&mut self) -> Option<Ahead> {
        let ahead = self.ahead.get_mut();
        ahead.unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Computes the tokens of `chunks`, at most `batch`, and whatever `then` records.
    fn pass(
        &mut self,
        chunks: &[Chunk],
        then: impl FnOnce(&Model, &mut Commands, &Activations, usize) -> Result<()>,
    ) -> Result<()> {
        self.drop_ahead();
        self.model.move_weights();
        let mut ids = Vec::with_capacity(self.batch);
        let mut positions = Vec::with_capacity(self.batch);
        let mut spans = Vec::with_capacity(chunks.len());
        for chunk in chunks {
            let sequence = &self.sequences[chunk.sequence];
            let position = sequence.tokens.len();
            spans.push(Span {
                cache: &sequence.cache,
                position,
                row: ids.len(),
                tokens: chunk.tokens.len(),
            });
            ids.extend(chunk.tokens);
            positions.extend((position..position + chunk.tokens.len()).map(|place| place as u32));
        }
        self.state.ids.write_at(0, &ids)?;
        self.state.positions[0].host.write_at(0, &positions)?;
        let rows = ids.len();
        let device = self.model.device();
        let mut commands = self.state.commands(device, "forward pass").begin()?;
        let pass = Pass {
            rows,
            spans,
            positions: self.state.positions[0].read(),
        };
        self.state.positions[0].record(&mut commands, rows)?;
        self.model
            .embed(&mut commands, &self.state, &self.state.ids, rows)?;
        for piece in ahead::pieces(self.model.config().layers) {
            self.model
                .layers(&mut commands, &self.state, &pass, piece)?;
            // Where the device computes while the host records.
            if self.records_ahead {
                commands.flush()?;
            }
        }
        then(&self.model, &mut commands, &self.state, rows)?;
        commands.run()?;
        self.model.passed(rows);
        self.computed(chunks);
        Ok(())
    }

    /// Where the tokens of `work` stand and which they are, if it is a token of each of several texts whose next ones
    /// may be guessed.
    fn step_of(&self, work: &[(usize, &[u32])]) -> Option<(Vec<Place>, Vec<u32>)> {
        let may_be_guessed = !self.turns.is_empty() && self.count() <= MOST_TEXTS;
        if work.len() < 2 || !may_be_guessed {
            return None;
        }
        let rows = work.iter().map(|(index, tokens)| match tokens {
            [token] => Some(((*index, self.tokens(*index).len()), *token)),
            _ => None,
        });
        Some(rows.collect::<Option<Vec<_>>>()?.into_iter().unzip())
    }

    /// Looks whether the tokens are the likeliest ones after the last pass. If their pass is under way, waits for it,
    /// and returns true.
    fn step_as_guessed(&mut self, places: &[Place], tokens: &[u32]) -> Result<bool> {
        let last = self.last.as_ref();
        if last.is_none_or(|last| behind(&last.places) != places) {
            return Ok(false);
        }
        let (guess, texts) = self.guess_and_texts();
        let are_likeliest = texts.are_likeliest(tokens)?;
        let is_guessed = are_likeliest && guess.is_of(places);
        self.confidence.note(are_likeliest);
        if is_guessed {
            self.step_and_guess(places.to_vec(), tokens, true)?;
        }
        Ok(is_guessed)
    }

    /// The same for one token a text, and records such a pass for the next ones while the device computes. If the next
    /// tokens `may_be_guessed`, the device finds the likeliest ones, and begins with them where that pays.
    fn step(
        &mut self,
        chunks: &[Chunk],
        then: impl FnOnce(&Model, &mut Commands, &Activations, usize) -> Result<()>,
        may_be_guessed: bool,
    ) -> Result<()> {
        let places: Vec<Place> = chunks
            .iter()
            .map(|chunk| (chunk.sequence, self.sequences[chunk.sequence].tokens.len()))
            .collect();
        let recorded = self.take_ahead().filter(|ahead| ahead.places == places);
        let recorded = match recorded {
            Some(recorded) => Some(recorded),
            None => self.record(places.clone(), 0)?,
        };
        let Some(recorded) = recorded else {
            return self.pass(chunks, then);
        };
        self.model.move_weights();
        let ids: Vec<u32> = chunks
            .iter()
            .flat_map(|chunk| chunk.tokens)
            .copied()
            .collect();
        self.state.ids.write_at(0, &ids)?;
        let (rows, device) = (ids.len(), self.model.device());
        let mut committed = Vec::new();
        let mut commands = device.commands_options().label("embedding").begin()?;
        let positions = recorded.positions;
        self.state.positions[positions].record(&mut commands, rows)?;
        self.model
            .embed(&mut commands, &self.state, &self.state.ids, rows)?;
        committed.push(commands.commit()?);
        recorded.commit(&mut committed)?;
        let mut commands = self.state.commands(device, "scores").begin()?;
        then(&self.model, &mut commands, &self.state, rows)?;
        if may_be_guessed {
            let scores = &self.state.logits;
            self.model
                .find_likeliest(&mut commands, scores, &self.turns[0], rows)?;
        }
        committed.push(commands.commit()?);

        let wait = || committed.iter().try_for_each(Pending::wait);
        if may_be_guessed && self.confidence.is_high() {
            let (guess, mut texts) = self.guess_and_texts();
            guess.go_on(&mut texts, &places, 0, wait)?;
        } else {
            let next = behind(&places);
            // What cannot be recorded now is an error when it is wanted.
            let ahead = match have_room(&next, self.context) {
                true => self.record(next, 1 - positions).unwrap_or(None),
                false => None,
            };
            wait()?;
            self.ahead = Mutex::new(ahead);
        }
        self.last = may_be_guessed.then_some(Last { places, turn: 0 });
        self.model.passed(rows);
        self.computed(chunks);
        Ok(())
    }

    /// Computes one token of each of some texts, and if they `go_on` begins with the likeliest tokens after them.
    fn step_and_guess(&mut self, places: Vec<Place>, tokens: &[u32], go_on: bool) -> Result<()> {
        self.take_ahead();
        self.model.move_weights();
        let (guess, mut texts) = self.guess_and_texts();
        let turn = guess.step(&mut texts, places.clone(), tokens, go_on)?;
        self.model.passed(tokens.len());
        for (row, ((text, _), token)) in places.iter().zip(tokens).enumerate() {
            let sequence = &mut self.sequences[*text];
            sequence.tokens.push(*token);
            sequence.logits = Some(row);
        }
        self.last = Some(Last { places, turn });
        self.scored = Some(turn);
        Ok(())
    }

    fn guess_and_texts(&mut self) -> (&mut Guess, Texts<'_>) {
        let guess = self.guess.get_mut();
        let texts = Texts {
            model: &self.model,
            state: &mut self.state,
            turns: &mut self.turns,
            sequences: &self.sequences,
            context: self.context,
            last: self.last.as_ref().map_or(0, |last| last.turn),
        };
        (guess.unwrap_or_else(PoisonError::into_inner), texts)
    }

    /// Records a pass of one token a text, which reads `positions`.
    fn record(&mut self, places: Vec<Place>, positions: usize) -> Result<Option<Ahead>> {
        let host = &mut self.state.positions[positions].host;
        host.write_at(0, &positions_of(&places))?;
        let pass = Pass {
            rows: places.len(),
            spans: sequence::spans(&self.sequences, &places),
            positions: self.state.positions[positions].read(),
        };
        Ahead::record(&self.model, &self.state, &pass, places, positions)
    }

    fn computed(&mut self, chunks: &[Chunk]) {
        for chunk in chunks {
            self.sequences[chunk.sequence].tokens.extend(chunk.tokens);
        }
    }
}

/// The logits of one text, lent until they are dropped.
#[derive(Debug)]
pub struct Logits<'a> {
    rows: ReadGuard<'a, f32>,
    start: usize,
    length: usize,
}

impl std::ops::Deref for Logits<'_> {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        &self.rows[self.start..self.start + self.length]
    }
}

/// Tokens of one sequence in one pass.
#[derive(Debug, PartialEq)]
struct Chunk<'a> {
    sequence: usize,
    tokens: &'a [u32],
    /// Whether no other chunk of the same work comes after it.
    is_last: bool,
}

impl<'a> Chunk<'a> {
    fn of(sequence: usize, tokens: &'a [u32]) -> Chunk<'a> {
        Chunk {
            sequence,
            tokens,
            is_last: true,
        }
    }
}

/// Cuts work into passes of at most `batch` tokens, in its order.
fn passes<'a>(work: &[(usize, &'a [u32])], batch: usize) -> Vec<Vec<Chunk<'a>>> {
    let mut passes = vec![Vec::new()];
    let mut room = batch;
    for (sequence, tokens) in work {
        let mut rest = *tokens;
        while !rest.is_empty() {
            if room == 0 {
                passes.push(Vec::new());
                room = batch;
            }
            let (tokens, left) = rest.split_at(rest.len().min(room));
            let chunk = Chunk {
                sequence: *sequence,
                tokens,
                is_last: left.is_empty(),
            };
            passes.last_mut().expect("there is a pass").push(chunk);
            room -= tokens.len();
            rest = left;
        }
    }
    passes
}

/// Chunks of at most `size`, each with the index of its first element.
fn chunks_of(items: &[u32], size: usize) -> impl Iterator<Item = (usize, &[u32])> {
    let starts = (0..items.len()).step_by(size);
    starts.zip(items.chunks(size))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Device;

    fn model() -> Model {
        let device = Device::open("cpu").expect("it is there");
        let file = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/assets/tiny-rustbook-q8_0.gguf"
        );
        Model::open(&device, file).expect("a model")
    }

    /// Each of up to 24 tokens.
    fn two_texts(model: &Model) -> Sequences {
        let options = SessionOptions {
            context: Some(24),
            ..SessionOptions::default()
        };
        Sequences::new(model, 2, options).expect("memory")
    }

    #[test]
    fn layers_are_committed_in_pieces() {
        let pieces = |layers| ahead::pieces(layers).collect::<Vec<_>>();
        assert_eq!(pieces(32), [0..1, 1..4, 4..13, 13..32]);
        assert_eq!(pieces(4), [0..1, 1..4]);
        assert_eq!(pieces(1).len(), 1);
    }

    #[test]
    fn work_is_cut_into_full_passes() {
        let chunk = |sequence, tokens, is_last| Chunk {
            sequence,
            tokens,
            is_last,
        };
        let work: [(usize, &[u32]); 3] = [(0, &[1, 2, 3]), (2, &[4]), (1, &[5, 6, 7, 8])];
        assert_eq!(
            passes(&work, 3),
            [
                vec![chunk(0, &[1, 2, 3], true)],
                vec![chunk(2, &[4], true), chunk(1, &[5, 6], false)],
                vec![chunk(1, &[7, 8], true)],
            ]
        );
        assert_eq!(passes(&work, 100)[0].len(), 3);
        assert_eq!(passes(&work, 1).len(), 8);
    }

    fn likeliest(logits: &[f32]) -> u32 {
        let larger = |best, next| match logits[next] > logits[best] {
            true => next,
            false => best,
        };
        (0..logits.len()).fold(0, larger) as u32
    }

    /// As on a device that computes while the host records, or not.
    fn record_ahead(sequences: &mut Sequences, records_ahead: bool) {
        sequences.records_ahead = records_ahead;
        if records_ahead {
            let (model, texts) = (&sequences.model, sequences.count());
            let turn = |_| Turn::new(model.device(), model.config(), texts).expect("memory");
            sequences.turns = (0..TURNS).map(turn).collect();
        }
    }

    /// What a program may do between steps, with guesses of which some are right and without.
    #[test]
    fn guessed_passes_compute_the_same() {
        let model = model();
        let results = [false, true].map(|guesses| {
            let mut sequences = two_texts(&model);
            record_ahead(&mut sequences, guesses);
            let mut results = Vec::new();
            let mut feed = |sequences: &mut Sequences, index, tokens: &[u32], goes_on: bool| {
                let work = [(index, tokens)];
                let wanted = match (guesses, goes_on) {
                    (false, _) => Guesses::Never,
                    (true, false) => Guesses::Last,
                    (true, true) => Guesses::Always,
                };
                let fed = sequences.feed_unless(&work, &CancelToken::new(), wanted);
                assert!(fed.expect("there is room"));
                let waits = !sequences.guess.get_mut().expect("no panic").is_none();
                assert_eq!(waits, guesses && goes_on, "{work:?}");
                let logits = sequences.logits(index).expect("fed").to_vec();
                results.push(logits);
                likeliest(results.last().expect("it was pushed"))
            };
            let mut next = feed(&mut sequences, 0, &[1, 5, 9, 11], false);
            let first = next;
            for _ in 0..5 {
                next = feed(&mut sequences, 0, &[next], true);
            }
            next = feed(&mut sequences, 0, &[next], false); // the last of a text
            if guesses {
                let mut written = [0];
                sequences.state.ids.read_at(0, &mut written).expect("one");
                assert_eq!(written, [first], "the host wrote one token of six");
            }
            next = feed(&mut sequences, 0, &[next], true); // which goes on nevertheless
            feed(&mut sequences, 0, &[(next + 1) % 100], true); // wrong
            let after = feed(&mut sequences, 0, &[30], true);
            // As likely as before, at another place.
            sequences.rewind(0, 6);
            feed(&mut sequences, 0, &[after], true);
            let saved = sequences.save(0).expect("memory");
            next = feed(&mut sequences, 0, &[32], true);
            sequences.restore(0, &saved).expect("it is its own");
            feed(&mut sequences, 0, &[next], true);
            sequences.copy(0, 1).expect("they are there");
            next = feed(&mut sequences, 1, &[34], true);
            feed(&mut sequences, 0, &[next], true);
            next = feed(&mut sequences, 1, &[next], true);
            feed(&mut sequences, 1, &[next, 3], false);
            sequences.feed(&[(0, &[40]), (1, &[41])]).expect("room");
            next = likeliest(&sequences.logits(0).expect("fed"));
            while sequences.tokens(0).len() < 23 {
                next = feed(&mut sequences, 0, &[next], true);
            }
            // After the last one no position is left.
            feed(&mut sequences, 0, &[next], false);
            results
        });
        assert_eq!(results[0], results[1]);
    }

    /// The same with steps of two texts, of which nobody says that the likeliest tokens come next.
    #[test]
    fn guessed_steps_of_texts_compute_the_same() {
        let model = model();
        let results = [false, true].map(|guesses| {
            let mut sequences = two_texts(&model);
            record_ahead(&mut sequences, guesses);
            let (mut results, mut next) = (Vec::new(), [0, 0]);
            let mut feed = |sequences: &mut Sequences, work: &[(usize, &[u32])], waits: bool| {
                sequences.feed(work).expect("there is room");
                let under_way = !sequences.guess.get_mut().expect("no panic").is_none();
                assert_eq!(under_way, guesses && waits, "{work:?}");
                for (index, _) in work {
                    let logits = sequences.logits(*index).expect("fed").to_vec();
                    next[*index] = likeliest(&logits);
                    results.push(logits);
                }
                next
            };
            feed(&mut sequences, &[(0, &[1, 5, 9, 11]), (1, &[3, 4])], false);
            let mut next = feed(&mut sequences, &[(1, &[20]), (0, &[21])], false);
            // Which tokens come next is known after two that were the likeliest.
            for waits in [false, true, true, true, true] {
                next = feed(&mut sequences, &[(1, &[next[1]]), (0, &[next[0]])], waits);
            }
            if guesses {
                let mut written = [0; 2];
                sequences.state.ids.read_at(0, &mut written).expect("two");
                let tokens =
                    [1, 0].map(|text| sequences.tokens(text)[sequences.tokens(text).len() - 4]);
                assert_eq!(
                    written, tokens,
                    "the host wrote no tokens of the last three steps"
                );
            }
            // One of both is another.
            let wrong = (next[0] + 1) % 100;
            next = feed(&mut sequences, &[(1, &[next[1]]), (0, &[wrong])], false);
            for step in 1..=8 {
                next = feed(
                    &mut sequences,
                    &[(1, &[next[1]]), (0, &[next[0]])],
                    step == 8,
                );
            }
            // A prompt comes between, and other texts, and memory of others.
            next = feed(&mut sequences, &[(1, &[next[1]])], false);
            sequences.rewind(0, 4);
            sequences.rewind(1, 3);
            next = feed(
                &mut sequences,
                &[(0, &[next[0], 7]), (1, &[next[1]])],
                false,
            );
            next = feed(&mut sequences, &[(0, &[next[0]]), (1, &[next[1]])], true);
            let saved = sequences.save(1).expect("memory");
            next = feed(&mut sequences, &[(0, &[next[0]]), (1, &[next[1]])], true);
            sequences.restore(1, &saved).expect("it is its own");
            next = feed(&mut sequences, &[(0, &[next[0]]), (1, &[next[1]])], true);
            sequences.copy(0, 1).expect("they are there");
            next = [next[0]; 2];
            while sequences.tokens(0).len() < 22 {
                next = feed(&mut sequences, &[(0, &[next[0]]), (1, &[next[1]])], true);
            }
            next = feed(&mut sequences, &[(0, &[next[0]]), (1, &[next[1]])], true);
            // After the last one no position is left.
            feed(&mut sequences, &[(0, &[next[0]]), (1, &[next[1]])], false);
            results
        });
        assert_eq!(results[0], results[1]);
    }

    /// Whose weights are one matrix in this model.
    #[test]
    fn queries_keys_and_values_as_one_product_are_the_same() {
        let model = model();
        let results = [false, true].map(|together| {
            let mut sequences = two_texts(&model);
            sequences.state.projects_together = together;
            let mut results = Vec::new();
            let steps: [&[(usize, &[u32])]; 3] = [
                &[(0, &[1, 5, 9, 11]), (1, &[3, 4])],
                &[(1, &[7]), (0, &[8])],
                &[(0, &[2])],
            ];
            for work in steps {
                sequences.feed(work).expect("there is room");
                for (index, _) in work {
                    results.extend_from_slice(&sequences.logits(*index).expect("fed"));
                }
            }
            results
        });
        for (place, (one, other)) in results[0].iter().zip(&results[1]).enumerate() {
            assert!((one - other).abs() < 1e-4, "{place}: {one}, {other}");
        }
    }

    /// What a program may do between steps, with passes recorded ahead and without.
    #[test]
    fn passes_recorded_ahead_compute_the_same() {
        let model = model();
        let results = [false, true].map(|ahead| {
            let mut sequences = two_texts(&model);
            sequences.records_ahead = ahead;
            let mut results = Vec::new();
            let mut feed = |sequences: &mut Sequences, work: &[(usize, &[u32])], waits: bool| {
                sequences.feed(work).expect("there is room");
                for (index, _) in work {
                    results.push(sequences.logits(*index).expect("fed").to_vec());
                }
                let recorded = sequences.ahead.get_mut().expect("no panic").is_some();
                assert_eq!(recorded, ahead && waits, "{work:?}");
            };
            feed(&mut sequences, &[(0, &[1, 5, 9, 11])], false);
            for token in 20..24 {
                feed(&mut sequences, &[(0, &[token])], true);
            }
            sequences.rewind(0, 5);
            feed(&mut sequences, &[(0, &[30])], true);
            feed(&mut sequences, &[(0, &[31])], true);
            let saved = sequences.save(0).expect("memory");
            feed(&mut sequences, &[(0, &[32])], true);
            sequences.restore(0, &saved).expect("it is its own");
            feed(&mut sequences, &[(0, &[33])], true);
            sequences.copy(0, 1).expect("they are there");
            feed(&mut sequences, &[(1, &[34]), (0, &[35])], true);
            feed(&mut sequences, &[(1, &[36]), (0, &[37])], true);
            feed(&mut sequences, &[(0, &[38]), (1, &[39])], true);
            sequences.forget(1, 2..4).expect("it has them");
            feed(&mut sequences, &[(0, &[40, 41])], false);
            let states = |_: usize, state: &[f32]| assert!(state[0].is_finite());
            feed(&mut sequences, &[(1, &[42])], true);
            sequences
                .feed_and_visit_states(1, &[43], states)
                .expect("there is room");
            while sequences.tokens(0).len() < 23 {
                feed(&mut sequences, &[(0, &[44])], true);
            }
            // After the last one no position is left.
            feed(&mut sequences, &[(0, &[45])], false);
            assert!(sequences.feed(&[(0, &[46])]).is_err(), "it is full");
            feed(&mut sequences, &[(1, &[47])], true);
            results
        });
        assert_eq!(results[0], results[1]);
    }
}
