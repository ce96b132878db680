//! The tokens after the next ones, computed before the host has picked the next ones: the device takes the likeliest
//! for them, without a word from the host, and goes on. A host that then picks another has lost that time and nothing
//! else.

use super::ahead::{self, Place, Room};
use super::helper::Helper;
use super::sequence::Sequence;
use crate::buffer::Buffer;
use crate::commands::{Commands, Pending};
use crate::error::Result;
use crate::llama::model::activations::{Activations, Turn};
use crate::llama::model::{Model, Pass, Span};

/// How many passes there are at a time: the host reads the scores of one, the device computes another, and the one
/// after that is recorded. They use the turns one after another.
pub(super) const TURNS: usize = 3;

/// Of at most so many texts: the turns have logits for them.
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
    recorder: Helper,
}

/// A pass whose tokens are the likeliest ones after the places before it.
#[derive(Debug)]
struct Running {
    places: Vec<Place>,
    turn: usize,
    pending: Pending,
}

/// Likewise, of the places behind those.
#[derive(Debug)]
struct Recorded {
    places: Vec<Place>,
    commands: Commands,
    _room: Room,
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

/// The places after these.
pub(super) fn behind(places: &[Place]) -> Vec<Place> {
    let next = places.iter().map(|(text, position)| (*text, position + 1));
    next.collect()
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
            let _ = running.pending.wait();
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
            Some(running)
                if running.places == places && texts.likeliest_before(running.turn, tokens)? =>
            {
                running
            }
            wrong => {
                self.running = wrong;
                self.give_up();
                texts.state.ids.write_at(0, tokens)?;
                let turn = (texts.last + 1) % TURNS;
                let commands = texts.record_pass(&places, turn, Token::OfHost)?;
                Running {
                    pending: commands.commit()?,
                    places,
                    turn,
                }
            }
        };
        let Running {
            places,
            turn,
            pending,
        } = running;
        match go_on {
            true => self.go_on(texts, &places, turn, || pending.wait())?,
            false => {
                self.recorded = None;
                pending.wait()?;
            }
        }
        Ok(turn)
    }

    /// Commits the pass behind `places`, whose pass uses `turn`, and records the one behind that while it `waits`. What
    /// cannot be computed now is an error when it is wanted.
    pub fn go_on(
        &mut self,
        texts: &mut Texts,
        places: &[Place],
        turn: usize,
        waits: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let (next, turn) = (behind(places), (turn + 1) % TURNS);
        let recorded = self.recorded.take().filter(|found| found.places == next);
        if !texts.have_room_for(&next) {
            return waits();
        }
        let commands = match recorded {
            Some(found) => Ok(found.commands),
            None => texts.record_pass(&next, turn, Token::Likeliest),
        };
        let then = (behind(&next), (turn + 1) % TURNS);
        let room = match texts.have_room_for(&then.0) {
            true => Room::take().filter(|_| texts.place(&then.0, then.1).is_ok()),
            false => None,
        };
        let record = |room: Room| {
            let commands = texts.record_placed(&then.0, then.1, Token::Likeliest);
            commands.ok().map(|commands| (commands, room))
        };
        let commit = || {
            let pending = commands.and_then(Commands::commit).ok();
            (pending, waits())
        };
        let (recorded, (pending, waited)) = match room {
            Some(room) => self.recorder.beside(|| record(room), commit),
            None => (None, commit()),
        };
        if let Some(pending) = pending {
            self.running = Some(Running {
                places: next,
                turn,
                pending,
            });
            self.recorded = recorded.map(|(commands, room)| Recorded {
                places: then.0,
                commands,
                _room: room,
            });
        }
        waited
    }
}

impl Texts<'_> {
    fn have_room_for(&self, places: &[Place]) -> bool {
        places.iter().all(|(_, position)| *position < self.context)
    }

    /// Where the likeliest tokens are that the pass of `turn` takes.
    fn likeliest(&self, turn: usize) -> &Buffer<u32> {
        &self.turns[(turn + TURNS - 1) % TURNS].likeliest
    }

    /// Whether `tokens` are those.
    pub fn likeliest_before(&self, turn: usize, tokens: &[u32]) -> Result<bool> {
        let mut likeliest = vec![0; tokens.len()];
        self.likeliest(turn).read_at(0, &mut likeliest)?;
        Ok(likeliest == tokens)
    }

    /// Tells the device where the tokens of the pass of `turn` stand.
    fn place(&mut self, places: &[Place], turn: usize) -> Result<()> {
        let positions: Vec<u32> = places.iter().map(|(_, place)| *place as u32).collect();
        let host = &mut self.turns[turn].positions.host;
        host.write_at(0, &positions)
    }

    /// Records a whole pass of the tokens at `places`.
    fn record_pass(&mut self, places: &[Place], turn: usize, token: Token) -> Result<Commands> {
        self.place(places, turn)?;
        self.record_placed(places, turn, token)
    }

    /// The same when they are placed.
    fn record_placed(&self, places: &[Place], turn: usize, token: Token) -> Result<Commands> {
        let rows = places.len();
        let ids = match token {
            Token::OfHost => &self.state.ids,
            Token::Likeliest => self.likeliest(turn),
        };
        let turn = &self.turns[turn];
        let spans = places
            .iter()
            .enumerate()
            .map(|(row, (text, position))| Span {
                cache: &self.sequences[*text].cache,
                position: *position,
                row,
                tokens: 1,
            });
        let pass = Pass {
            rows,
            spans: spans.collect(),
            positions: turn.positions.read(),
        };
        let (model, state) = (self.model, &*self.state);
        let options = state.commands(model.device(), "guessed pass");
        let mut commands = options.max_operations(u32::MAX).begin()?;
        turn.positions.record(&mut commands, rows)?;
        model.embed(&mut commands, state, ids, rows)?;
        for piece in ahead::pieces(model.config().layers) {
            model.layers(&mut commands, state, &pass, piece)?;
            // The device waits for this one. Of a guess it has another before.
            if matches!(token, Token::OfHost) {
                commands.flush()?;
            }
        }
        model.score_turn(&mut commands, state, turn, rows)?;
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
