//! The tokens after the next ones, computed before the host has picked the next ones: the device takes the likeliest
//! for them, without a word from the host, and goes on. A host that then picks another has lost that time and nothing
//! else.

use std::ops::Range;

use super::ahead::{self, Place, Room, behind, have_room, positions_of};
use super::sequence::{self, Sequence};
use super::worker::Worker;
use crate::commands::{Commands, Pending};
use crate::error::Result;
use crate::llama::model::activations::{Activations, Turn};
use crate::llama::model::{Model, Pass};

/// How many passes there are at a time: the host reads the scores of one, the device computes another, and the one
/// after that is recorded. They use the turns one after another.
pub(super) const TURNS: usize = 3;

/// The most texts whose tokens are guessed together: the turns have logits for them.
pub(super) const MOST_TEXTS: usize = 16;

/// Whether the likeliest token after one that is fed is computed before it is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Guesses {
    Never,
    /// What was guessed before is used, and nothing more is begun: nobody wants a token after this one.
    Last,
    Always,
}

/// Whether a program that says nothing about it picks the likeliest tokens.
#[derive(Debug)]
pub(super) struct Confidence {
    /// How often it did, one after another.
    hits: u32,
    needed: u32,
}

impl Confidence {
    const FIRST: u32 = 2;
    const MOST: u32 = 512;

    pub fn is_high(&self) -> bool {
        self.hits >= self.needed
    }

    /// A guess that was wrong costs a pass, so that the next one needs more evidence.
    pub fn note(&mut self, was_likeliest: bool) {
        if was_likeliest {
            self.hits = self.hits.saturating_add(1);
            return;
        }
        if self.is_high() {
            self.needed = (4 * self.needed).min(Confidence::MOST);
        }
        self.hits = 0;
    }
}

impl Default for Confidence {
    fn default() -> Confidence {
        Confidence {
            hits: 0,
            needed: Confidence::FIRST,
        }
    }
}

/// What there is of the passes behind the last one that the host has seen.
#[derive(Debug, Default)]
pub(super) struct Guess {
    running: Option<Running>,
    recorded: Option<Recorded>,
    recorder: Worker,
}

/// A pass whose tokens are the likeliest ones after the places before it.
#[derive(Debug)]
struct Running {
    places: Vec<Place>,
    turn: usize,
    committed: Committed,
}

/// Likewise, of the places behind those.
#[derive(Debug)]
struct Recorded {
    places: Vec<Place>,
    parts: Parts,
    _room: Room,
}

/// A recorded pass, whose parts follow each other.
#[derive(Debug)]
struct Parts(Vec<Commands>);

impl Parts {
    fn commit(self) -> Result<Committed> {
        let mut committed = Committed(Vec::new());
        for commands in self.0 {
            match commands.commit() {
                Ok(pending) => committed.0.push(pending),
                Err(error) => {
                    // The next pass begins with memory that nothing uses.
                    let _ = committed.wait();
                    return Err(error);
                }
            }
        }
        Ok(committed)
    }
}

/// The same on its way.
#[derive(Debug)]
struct Committed(Vec<Pending>);

impl Committed {
    /// For all of it, also behind an error.
    fn wait(&self) -> Result<()> {
        let waited = self.0.iter().map(Pending::wait);
        waited.fold(Ok(()), Result::and)
    }
}

/// Which part of a pass is recorded.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Whole,
    /// Most layers, and what stands before them.
    Most,
    /// The other layers, and what stands behind them.
    Rest,
}

impl Part {
    /// Those that it has of `all`.
    fn layers(self, all: usize) -> Range<usize> {
        let most = 2 * all / 3;
        match self {
            Part::Whole => 0..all,
            Part::Most => 0..most,
            Part::Rest => most..all,
        }
    }
}

/// The texts, and what their passes use.
pub(super) struct Texts<'a> {
    pub model: &'a Model,
    pub state: &'a mut Activations,
    /// [`TURNS`].
    pub turns: &'a mut [Turn],
    pub sequences: &'a [Sequence],
    pub context: usize,
    /// The turn of the last pass that the host has seen.
    pub last: usize,
}

/// Which tokens a pass computes: those that the host has written, or the likeliest after the places before.
#[derive(Clone, Copy)]
enum Token {
    OfHost,
    Likeliest,
}

/// The turn after that one.
fn next(turn: usize) -> usize {
    (turn + 1) % TURNS
}

impl Guess {
    /// Whether nothing of it stands in the way of the host.
    #[cfg(test)]
    pub fn is_none(&self) -> bool {
        self.running.is_none() && self.recorded.is_none()
    }

    /// Whether what is under way is a pass of these places.
    pub fn is_of(&self, places: &[Place]) -> bool {
        let running = self.running.as_ref();
        running.is_some_and(|running| running.places == places)
    }

    /// Waits for what runs and drops the rest. A failure of what nobody asked for shows in the memory that it should
    /// have written.
    pub fn give_up(&mut self) {
        self.recorded = None;
        if let Some(running) = self.running.take() {
            let _ = running.committed.wait();
        }
    }

    /// Computes `tokens`, which stand at `places`, the ends of texts, unless that is under way. If the texts `go_on`,
    /// it begins with the likeliest tokens after them. Returns the turn that has their scores.
    pub fn step(
        &mut self,
        texts: &mut Texts,
        places: Vec<Place>,
        tokens: &[u32],
        go_on: bool,
    ) -> Result<usize> {
        let running = match self.running.take() {
            Some(running) if running.places == places && texts.are_likeliest(tokens)? => running,
            wrong => {
                self.running = wrong;
                self.give_up();
                texts.state.ids.write_at(0, tokens)?;
                let turn = next(texts.last);
                let pass = texts.record_pass(&places, turn, Token::OfHost)?;
                Running {
                    committed: pass.commit()?,
                    places,
                    turn,
                }
            }
        };
        let Running {
            places,
            turn,
            committed,
        } = running;
        match go_on {
            true => self.go_on(texts, &places, turn, || committed.wait())?,
            false => {
                self.recorded = None;
                committed.wait()?;
            }
        }
        Ok(turn)
    }

    /// Commits the pass behind `places`, whose pass uses `turn`, and records the one behind that while it `waits`. The
    /// recorder does most of that, since this thread commits first. What cannot be computed now is an error when it is
    /// wanted.
    pub fn go_on(
        &mut self,
        texts: &mut Texts,
        places: &[Place],
        turn: usize,
        waits: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let (places, turn) = (behind(places), next(turn));
        let recorded = self.recorded.take().filter(|found| found.places == places);
        if !have_room(&places, texts.context) {
            return waits();
        }
        let pass = match recorded {
            Some(found) => Ok(found.parts),
            None => texts.record_pass(&places, turn, Token::Likeliest),
        };
        let (later, later_turn) = (behind(&places), next(turn));
        let is_placed = have_room(&later, texts.context) && texts.place(&later, later_turn).is_ok();
        let room = if is_placed { Room::take() } else { None };
        let texts = &*texts;
        let record = |part| {
            let recorded = texts.record_part(&later, later_turn, Token::Likeliest, part);
            recorded.ok()
        };
        let commit = || pass.and_then(Parts::commit).ok();
        let (committed, recorded, waited) = match room {
            Some(room) => {
                let (most, (committed, rest, waited)) = self.recorder.join(
                    || record(Part::Most),
                    || (commit(), record(Part::Rest), waits()),
                );
                let recorded = most.zip(rest).map(|(most, rest)| Recorded {
                    places: later.clone(),
                    parts: Parts(vec![most, rest]),
                    _room: room,
                });
                (committed, recorded, waited)
            }
            None => (commit(), None, waits()),
        };
        if let Some(committed) = committed {
            self.running = Some(Running {
                places,
                turn,
                committed,
            });
            self.recorded = recorded;
        }
        waited
    }
}

impl Texts<'_> {
    /// Whether `tokens` are the likeliest ones after the last pass.
    pub fn are_likeliest(&self, tokens: &[u32]) -> Result<bool> {
        let mut likeliest = vec![0; tokens.len()];
        let last = &self.turns[self.last];
        last.likeliest.read_at(0, &mut likeliest)?;
        Ok(likeliest == tokens)
    }

    /// Tells the device where the tokens of the pass of `turn` stand.
    fn place(&mut self, places: &[Place], turn: usize) -> Result<()> {
        let host = &mut self.turns[turn].positions.host;
        host.write_at(0, &positions_of(places))
    }

    /// Records a whole pass of the tokens at `places`.
    fn record_pass(&mut self, places: &[Place], turn: usize, token: Token) -> Result<Parts> {
        self.place(places, turn)?;
        let whole = self.record_part(places, turn, token, Part::Whole)?;
        Ok(Parts(vec![whole]))
    }

    /// Records a part of it when they are placed.
    fn record_part(
        &self,
        places: &[Place],
        turn: usize,
        token: Token,
        part: Part,
    ) -> Result<Commands> {
        let rows = places.len();
        let ids = match token {
            Token::OfHost => &self.state.ids,
            Token::Likeliest => &self.turns[(turn + TURNS - 1) % TURNS].likeliest,
        };
        let turn = &self.turns[turn];
        let pass = Pass {
            rows,
            spans: sequence::spans(self.sequences, places),
            positions: turn.positions.read(),
        };
        let (model, state) = (self.model, &*self.state);
        let options = state.commands(model.device(), "guessed pass");
        let mut commands = options.max_operations(u32::MAX).begin()?;
        if part != Part::Rest {
            turn.positions.record(&mut commands, rows)?;
            model.embed(&mut commands, state, ids, rows)?;
        }
        let layers = part.layers(model.config().layers);
        match token {
            // The device waits for this one. Of a guess it has another before.
            Token::OfHost => {
                for piece in ahead::pieces(layers.end) {
                    model.layers(&mut commands, state, &pass, piece)?;
                    commands.flush()?;
                }
            }
            Token::Likeliest => model.layers(&mut commands, state, &pass, layers)?,
        }
        if part != Part::Most {
            model.score_turn(&mut commands, state, turn, rows)?;
        }
        Ok(commands)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn confidence_grows_and_is_dearer_after_a_wrong_guess() {
        let mut confidence = Confidence::default();
        assert!(!confidence.is_high());
        confidence.note(true);
        confidence.note(false);
        confidence.note(true);
        assert!(!confidence.is_high());
        confidence.note(true);
        assert!(confidence.is_high());
        confidence.note(false);
        for _ in 0..4 * Confidence::FIRST {
            assert!(!confidence.is_high());
            confidence.note(true);
        }
        assert!(confidence.is_high());
        for _ in 0..10 {
            (0..Confidence::MOST).for_each(|_| confidence.note(true));
            confidence.note(false);
        }
        (0..Confidence::MOST).for_each(|_| confidence.note(true));
        assert!(confidence.is_high());
    }
}
