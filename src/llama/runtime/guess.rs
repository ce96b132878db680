//! The token after the next one, computed before the host has picked the next one: the device takes the likeliest for
//! it, without a word from the host, and goes on. A host that then picks another has lost that time and nothing else.

use super::ahead::{self, Place, Room};
use crate::buffer::Buffer;
use crate::commands::{Commands, Pending};
use crate::error::Result;
use crate::llama::model::activations::{Activations, Turn};
use crate::llama::model::kv_cache::KvCache;
use crate::llama::model::{Model, Pass, Span};

/// How many passes there are at a time: the host reads the scores of one, the device computes another, and the one
/// after that is recorded. The pass of position `p` uses turn `p % TURNS`.
pub(super) const TURNS: usize = 3;

/// Whether the likeliest token after one that is fed is computed before it is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Guesses {
    Never,
    /// What was guessed before is used, and nothing more is begun: nobody wants a token after this one.
    Last,
    Always,
}

/// What there is of the passes behind the last one that the host has seen.
#[derive(Debug, Default)]
pub(super) struct Guess {
    /// Its token is the likeliest one after the place before it.
    running: Option<(Place, Pending)>,
    /// Likewise, of the place behind that.
    recorded: Option<(Place, Commands, Room)>,
}

/// One text, and what its passes use.
pub(super) struct Text<'a> {
    pub model: &'a Model,
    pub state: &'a mut Activations,
    /// [`TURNS`].
    pub turns: &'a mut [Turn],
    pub cache: &'a KvCache,
    pub context: usize,
}

/// Which token a pass computes: the one that the host has written, or the likeliest after the place before.
#[derive(Clone, Copy)]
enum Token {
    OfHost,
    Likeliest,
}

impl Guess {
    /// Whether nothing of it stands in the way of the host.
    #[cfg(test)]
    pub fn is_none(&self) -> bool {
        self.running.is_none() && self.recorded.is_none()
    }

    /// Waits for what runs and drops the rest. A failure of what nobody asked for shows in the memory that it should
    /// have written.
    pub fn give_up(&mut self) {
        self.recorded = None;
        if let Some((_, pending)) = self.running.take() {
            let _ = pending.wait();
        }
    }

    /// Computes `token`, which stands at `place`, the text's end, unless that is under way, and if the text `goes_on`
    /// begins with the likeliest token after it.
    pub fn step(&mut self, text: &mut Text, place: Place, token: u32, goes_on: bool) -> Result<()> {
        let running = match self.running.take() {
            Some((found, pending)) if found == place && text.likeliest_before(place)? == token => {
                pending
            }
            wrong => {
                self.running = wrong;
                self.give_up();
                text.state.ids.write_at(0, &[token])?;
                text.record_pass(place, Token::OfHost)?.commit()?
            }
        };
        if goes_on {
            // What cannot be computed now is an error when it is wanted.
            let _ = self.go_on(text, (place.0, place.1 + 1));
        } else {
            self.recorded = None;
        }
        running.wait()
    }

    /// Commits the pass of `place`, and records the one behind it.
    fn go_on(&mut self, text: &mut Text, place: Place) -> Result<()> {
        let recorded = self.recorded.take().filter(|(found, ..)| *found == place);
        if place.1 >= text.context {
            return Ok(());
        }
        let commands = match recorded {
            Some((_, commands, _)) => commands,
            None => text.record_pass(place, Token::Likeliest)?,
        };
        self.running = Some((place, commands.commit()?));
        let behind = (place.0, place.1 + 1);
        if behind.1 < text.context
            && let Some(room) = Room::take()
        {
            let commands = text.record_pass(behind, Token::Likeliest)?;
            self.recorded = Some((behind, commands, room));
        }
        Ok(())
    }
}

impl Text<'_> {
    /// Where the likeliest token is that stands at `place`.
    fn likeliest(&self, place: Place) -> &Buffer<u32> {
        &self.turns[(place.1 + TURNS - 1) % TURNS].likeliest
    }

    fn likeliest_before(&self, place: Place) -> Result<u32> {
        let mut token = [0];
        self.likeliest(place).read_at(0, &mut token)?;
        Ok(token[0])
    }

    /// Records a whole pass of the token at `place`.
    fn record_pass(&mut self, place: Place, token: Token) -> Result<Commands> {
        let positions = &mut self.turns[place.1 % TURNS].positions;
        positions.host.write_at(0, &[place.1 as u32])?;
        let turn = &self.turns[place.1 % TURNS];
        let ids = match token {
            Token::OfHost => &self.state.ids,
            Token::Likeliest => self.likeliest(place),
        };
        let pass = Pass {
            rows: 1,
            spans: vec![Span {
                cache: self.cache,
                position: place.1,
                row: 0,
                tokens: 1,
            }],
            positions: turn.positions.read(),
        };
        let (model, state) = (self.model, &*self.state);
        let options = state.commands(model.device(), "guessed pass");
        let mut commands = options.max_operations(u32::MAX).begin()?;
        turn.positions.record(&mut commands, 1)?;
        model.embed(&mut commands, state, ids, 1)?;
        for piece in ahead::pieces(model.config().layers) {
            model.layers(&mut commands, state, &pass, piece)?;
            // The device waits for this one. Of a guess it has another before.
            if matches!(token, Token::OfHost) {
                commands.flush()?;
            }
        }
        model.score_row(&mut commands, state, turn)?;
        Ok(commands)
    }
}
