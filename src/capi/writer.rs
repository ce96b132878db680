//! `iron_writer`.

use std::sync::Arc;

use super::arguments::{Room, array};
use super::call::{Failure, Outcome, enter};
use super::generation::{LentPiece, Manner, stop_number};
use super::handle::{Exclusive, Place, acquire, handled, references};
use super::sampler::Refused;
use super::structs::Output;
use crate::error::Status;
use crate::ffi;
use crate::llama::Writer;

/// A writer, and the piece that it has lent.
pub struct LendingWriter {
    writer: Writer,
    refused: Arc<Refused>,
    piece: LentPiece,
    /// The tokens of its vocabulary.
    vocabulary: usize,
}

handled!(iron_writer, c"writer", Exclusive<LendingWriter>);
references!(iron_writer, iron_writer_retain, iron_writer_release);

impl LendingWriter {
    fn write(&mut self, logits: &[f32]) -> Outcome<ffi::iron_piece> {
        if let Some(stop) = self.writer.stop() {
            let message = format!("writer: it has ended: {stop:?}");
            return Err(Failure::new(Status::State, message));
        }
        if logits.len() < self.vocabulary {
            return Err(Failure::invalid(format!(
                "logits: there are {}, the vocabulary has {}",
                logits.len(),
                self.vocabulary
            )));
        }
        let written = self.writer.write(logits);
        let piece = written.map_err(|error| self.refused.explain(error.into()))?;
        Ok(self.piece.lend(Some(piece), self.writer.stop()))
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn iron_writer_create(
    model: *mut ffi::iron_model,
    tokens: *const u32,
    count: usize,
    options: *const ffi::iron_generation_options,
    writer: *mut *mut ffi::iron_writer,
) -> ffi::iron_status {
    enter(c"iron_writer_create", || {
        // SAFETY: the caller's pointer, as the header asks.
        let place = unsafe { Place::clear(writer, "writer") }?;
        let model = acquire(model)?;
        // SAFETY: as above.
        let tokens = unsafe { array(tokens, count, "tokens") }?;
        // SAFETY: as above.
        let manner = unsafe { Manner::read(options) }?;
        place.fill(Exclusive::new(LendingWriter {
            writer: Writer::new(&model, tokens, manner.sampler, manner.options),
            refused: manner.refused,
            piece: LentPiece::default(),
            vocabulary: model.tokenizer().vocabulary_size() as usize,
        }))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn iron_session_write(
    session: *mut ffi::iron_session,
    sequence: u32,
    writer: *mut ffi::iron_writer,
    piece: *mut ffi::iron_piece,
) -> ffi::iron_status {
    enter(c"iron_session_write", || {
        // SAFETY: the caller's pointer, as the header asks.
        let output = unsafe { Output::clear(piece, c"piece") }?;
        let (session, writer) = (acquire(session)?, acquire(writer)?);
        let index = session.index(sequence)?;
        let mut writer = writer.lock("writer")?;
        let sequences = session.sequences.lock("session")?;
        output.write(&writer.write(&sequences.logits(index)?)?);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn iron_writer_write(
    writer: *mut ffi::iron_writer,
    logits: *const f32,
    logit_count: usize,
    piece: *mut ffi::iron_piece,
) -> ffi::iron_status {
    enter(c"iron_writer_write", || {
        // SAFETY: the caller's pointer, as the header asks.
        let output = unsafe { Output::clear(piece, c"piece") }?;
        let writer = acquire(writer)?;
        // SAFETY: as above.
        let logits = unsafe { array(logits, logit_count, "logits") }?;
        output.write(&writer.lock("writer")?.write(logits)?);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn iron_writer_tokens(
    writer: *mut ffi::iron_writer,
    tokens: *mut u32,
    capacity: usize,
    count: *mut usize,
) -> ffi::iron_status {
    enter(c"iron_writer_tokens", || {
        // SAFETY: the caller's pointers, as the header asks.
        let room = unsafe { Room::new((tokens, capacity), "tokens", (count, "count")) }?;
        let writer = acquire(writer)?;
        room.write(writer.lock("writer")?.writer.tokens())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn iron_writer_describe(
    writer: *mut ffi::iron_writer,
    info: *mut ffi::iron_generation_info,
) -> ffi::iron_status {
    enter(c"iron_writer_describe", || {
        // SAFETY: the caller's pointer, as the header asks.
        let info = unsafe { Output::clear(info, c"info") }?;
        let writer = acquire(writer)?;
        let writer = writer.lock("writer")?;
        info.write(&ffi::iron_generation_info {
            stop: stop_number(writer.writer.stop()),
            generated_tokens: writer.writer.written() as u64,
            ..Default::default()
        });
        Ok(())
    })
}
