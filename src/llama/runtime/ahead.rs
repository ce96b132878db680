//! Passes of one token a text, recorded while the device computes those before: then it has the next one as soon as its
//! tokens are known.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::commands::{Commands, Pending};
use crate::device::{Device, DeviceKind};
use crate::error::Result;
use crate::llama::model::activations::Activations;
use crate::llama::model::{Model, Pass};

/// Of the whole process, so that passes that may never run leave others room to record.
const MOST: usize = 4;

static RECORDED: AtomicUsize = AtomicUsize::new(0);

/// Where the token of a text stands: the text and the position.
pub(super) type Place = (usize, usize);

/// The places after these.
pub(super) fn behind(places: &[Place]) -> Vec<Place> {
    let next = places.iter().map(|(text, position)| (*text, position + 1));
    next.collect()
}

/// What [`Positions`](crate::llama::model::activations::Positions) have of them.
pub(super) fn positions_of(places: &[Place]) -> Vec<u32> {
    let positions = places.iter().map(|(_, position)| *position as u32);
    positions.collect()
}

/// Whether texts of `context` positions have these.
pub(super) fn have_room(places: &[Place], context: usize) -> bool {
    places.iter().all(|(_, position)| *position < context)
}

/// A pass without its beginning, the embedding of tokens, and without what follows the layers.
#[derive(Debug)]
pub(super) struct Ahead {
    pub places: Vec<Place>,
    /// Which of [`Activations::positions`] it reads.
    pub positions: usize,
    /// In [`pieces`].
    layers: Vec<Commands>,
    _room: Room,
}

/// For a pass that is recorded and may never run.
#[derive(Debug)]
pub(super) struct Room;

impl Room {
    /// Nothing where enough passes are recorded already.
    pub fn take() -> Option<Room> {
        let room = Room; // its drop takes it off again
        let before = RECORDED.fetch_add(1, Ordering::Relaxed);
        (before < MOST).then_some(room)
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        RECORDED.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Whether a device computes while the host records. The processor does not: there the thread that waits computes.
pub(super) fn pays_on(device: &Device) -> Result<bool> {
    let info = device.info()?;
    Ok(info.kind == DeviceKind::Metal || !info.unified_memory)
}

/// In which pieces layers are committed: the first ones are short, so that the device has work soon.
pub(super) fn pieces(layers: usize) -> impl Iterator<Item = Range<usize>> {
    let ends = [1, 4, 13, layers].map(|end| end.min(layers));
    let starts = [0].into_iter().chain(ends);
    let pieces = starts.zip(ends).map(|(start, end)| start..end);
    pieces.filter(|piece| !piece.is_empty())
}

impl Ahead {
    /// Nothing where enough passes are recorded already.
    pub fn record(
        model: &Model,
        state: &Activations,
        pass: &Pass,
        places: Vec<Place>,
        positions: usize,
    ) -> Result<Option<Ahead>> {
        let Some(room) = Room::take() else {
            return Ok(None);
        };
        let mut ahead = Ahead {
            places,
            positions,
            layers: Vec::new(),
            _room: room,
        };
        let options = state.commands(model.device(), "layers");
        let options = options.max_operations(u32::MAX);
        for piece in pieces(model.config().layers) {
            let mut commands = options.begin()?;
            model.layers(&mut commands, state, pass, piece)?;
            ahead.layers.push(commands);
        }
        Ok(Some(ahead))
    }

    /// Commits all.
    pub fn commit(self, committed: &mut Vec<Pending>) -> Result<()> {
        for commands in self.layers {
            committed.push(commands.commit()?);
        }
        Ok(())
    }
}
