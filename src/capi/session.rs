//! `iron_session`: sequences that are computed together.

use std::ffi::{c_char, c_void};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use super::arguments::{Room, Value, array, path, some_tokens};
use super::call::{Failure, Outcome, enter};
use super::handle::{Exclusive, Place, acquire, handled, references};
use super::status::of_file;
use super::structs::{self, Output, constant, positive, reserved};
use crate::commands::ActivationPrecision;
use crate::error::Result;
use crate::ffi;
use crate::llama::{CacheType, Model, Sequences, SessionOptions};

/// The sequences, one call at a time, and what is known of them at any time.
pub struct SharedSequences {
    pub(super) sequences: Exclusive<Sequences>,
    model: Model,
    count: usize,
    context: usize,
}

handled!(iron_session, c"session", SharedSequences);
references!(iron_session, iron_session_retain, iron_session_release);

impl SharedSequences {
    /// The index of a sequence that is there.
    pub fn index(&self, sequence: u32) -> Outcome<usize> {
        let index = sequence as usize;
        match index < self.count {
            true => Ok(index),
            false => Err(Failure::out_of_range(format!(
                "sequence: {sequence}, the session has {}",
                self.count
            ))),
        }
    }

    /// Floats of an embedding.
    pub fn width(&self) -> usize {
        self.model.config().width
    }

    /// Runs `body` with one of the sequences.
    pub fn with<T>(
        &self,
        sequence: u32,
        body: impl FnOnce(&mut Sequences, usize) -> Result<T>,
    ) -> Outcome<T> {
        let index = self.index(sequence)?;
        let mut sequences = self.sequences.lock("session")?;
        Ok(body(&mut sequences, index)?)
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn iron_session_create(
    model: *mut ffi::iron_model,
    options: *const ffi::iron_session_options,
    session: *mut *mut ffi::iron_session,
) -> ffi::iron_status {
    enter(c"iron_session_create", || {
        // SAFETY: the caller's pointer, as the header asks.
        let place = unsafe { Place::clear(session, "session") }?;
        let model = acquire(model)?;
        // SAFETY: as above.
        let given = unsafe { structs::read(options, c"options") }?;
        const CACHES: [CacheType; 3] = [CacheType::F32, CacheType::F16, CacheType::Q8_0];
        const PRECISIONS: [ActivationPrecision; 4] = [
            ActivationPrecision::Automatic,
            ActivationPrecision::Float,
            ActivationPrecision::Bytes,
            ActivationPrecision::Automatic,
        ];
        let count = given.sequences.max(1) as usize;
        let options = SessionOptions {
            context: match given.context {
                u64::MAX => Some(model.config().context),
                _ => positive("options.context", given.context)?,
            },
            batch: positive("options.batch", given.batch)?,
            cache: constant("options.cache", &CACHES, given.cache)?,
            outputs: positive("options.outputs", given.outputs)?,
            activations: constant("options.activations", &PRECISIONS, given.activations)?,
        };
        let sequences = Sequences::new(&model, count, options)?;
        place.fill(SharedSequences {
            count,
            context: sequences.context(),
            sequences: Exclusive::new(sequences),
            model: (*model).clone(),
        })
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn iron_session_describe(
    session: *mut ffi::iron_session,
    info: *mut ffi::iron_session_info,
) -> ffi::iron_status {
    enter(c"iron_session_describe", || {
        // SAFETY: the caller's pointer, as the header asks.
        let info = unsafe { Output::clear(info, c"info") }?;
        let session = acquire(session)?;
        info.write(&ffi::iron_session_info {
            size: 0,
            sequences: session.count as u64,
            context: session.context as u64,
        });
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn iron_session_model(
    session: *mut ffi::iron_session,
    model: *mut *mut ffi::iron_model,
) -> ffi::iron_status {
    enter(c"iron_session_model", || {
        // SAFETY: the caller's pointer, as the header asks.
        let place = unsafe { Place::clear(model, "model") }?;
        place.fill(acquire(session)?.model.clone())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn iron_session_tokens(
    session: *mut ffi::iron_session,
    sequence: u32,
    tokens: *mut u32,
    capacity: usize,
    count: *mut usize,
) -> ffi::iron_status {
    enter(c"iron_session_tokens", || {
        // SAFETY: the caller's pointers, as the header asks.
        let room = unsafe { Room::new((tokens, capacity), "tokens", (count, "count")) }?;
        let session = acquire(session)?;
        let index = session.index(sequence)?;
        room.write(session.sequences.lock("session")?.tokens(index))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn iron_session_feed(
    session: *mut ffi::iron_session,
    sequence: u32,
    tokens: *const u32,
    count: usize,
) -> ffi::iron_status {
    enter(c"iron_session_feed", || {
        let session = acquire(session)?;
        // SAFETY: the caller's pointer, as the header asks.
        let tokens = unsafe { some_tokens(tokens, count, "tokens") }?;
        session.with(sequence, |sequences, index| {
            sequences.feed(&[(index, tokens)])
        })
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn iron_session_feed_batch(
    session: *mut ffi::iron_session,
    work: *const ffi::iron_feed,
    count: usize,
) -> ffi::iron_status {
    enter(c"iron_session_feed_batch", || {
        let session = acquire(session)?;
        // SAFETY: the caller's pointer, as the header asks.
        let given = unsafe { array(work, count, "work") }?;
        if given.is_empty() {
            return Err(Failure::invalid("work: there is none"));
        }
        let mut work = Vec::new();
        for (place, feed) in given.iter().enumerate() {
            reserved(&format!("work[{place}]"), &feed.reserved)?;
            // SAFETY: as above.
            let tokens =
                unsafe { some_tokens(feed.tokens, feed.count, &format!("work[{place}].tokens")) }?;
            work.push((session.index(feed.sequence)?, tokens));
        }
        Ok(session.sequences.lock("session")?.feed(&work)?)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn iron_session_logits(
    session: *mut ffi::iron_session,
    sequence: u32,
    logits: *mut f32,
    capacity: usize,
    count: *mut usize,
) -> ffi::iron_status {
    enter(c"iron_session_logits", || {
        // SAFETY: the caller's pointers, as the header asks.
        let room = unsafe { Room::new((logits, capacity), "logits", (count, "count")) }?;
        let session = acquire(session)?;
        let index = session.index(sequence)?;
        let sequences = session.sequences.lock("session")?;
        room.write(&sequences.logits(index)?)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn iron_session_rewind(
    session: *mut ffi::iron_session,
    sequence: u32,
    position: u64,
) -> ffi::iron_status {
    enter(c"iron_session_rewind", || {
        let position = usize::try_from(position).unwrap_or(usize::MAX);
        acquire(session)?.with(sequence, |sequences, index| {
            sequences.rewind(index, position);
            Ok(())
        })
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn iron_session_keep_prefix(
    session: *mut ffi::iron_session,
    sequence: u32,
    tokens: *const u32,
    count: usize,
    kept: *mut u64,
) -> ffi::iron_status {
    enter(c"iron_session_keep_prefix", || {
        // SAFETY: the caller's pointer, as the header asks.
        let kept = unsafe { Value::clear(kept, "kept") }?;
        let session = acquire(session)?;
        // SAFETY: as above.
        let tokens = unsafe { array(tokens, count, "tokens") }?;
        let common = session.with(sequence, |sequences, index| {
            Ok(sequences.keep_prefix(index, tokens))
        })?;
        kept.set(common as u64);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn iron_session_forget(
    session: *mut ffi::iron_session,
    sequence: u32,
    start: u64,
    end: u64,
) -> ffi::iron_status {
    enter(c"iron_session_forget", || {
        let [start, end] = [start, end].map(|it| usize::try_from(it).unwrap_or(usize::MAX));
        acquire(session)?.with(sequence, |sequences, index| {
            sequences.forget(index, start..end)
        })
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn iron_session_copy(
    session: *mut ffi::iron_session,
    from: u32,
    to: u32,
) -> ffi::iron_status {
    enter(c"iron_session_copy", || {
        let session = acquire(session)?;
        let to = session.index(to)?;
        session.with(from, |sequences, from| sequences.copy(from, to))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn iron_session_save(
    session: *mut ffi::iron_session,
    sequence: u32,
    bytes: *mut c_void,
    capacity: usize,
    length: *mut usize,
) -> ffi::iron_status {
    enter(c"iron_session_save", || {
        // SAFETY: the caller's pointers, as the header asks.
        let room =
            unsafe { Room::new((bytes.cast::<u8>(), capacity), "bytes", (length, "length")) }?;
        let session = acquire(session)?;
        let needed = session.with(sequence, |sequences, index| sequences.saved_length(index))?;
        room.reserve(needed)?;
        if room.only_counts() {
            return Ok(());
        }
        let saved = session.with(sequence, |sequences, index| sequences.save(index));
        room.reserve(0)?;
        room.write(&saved?)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn iron_session_restore(
    session: *mut ffi::iron_session,
    sequence: u32,
    bytes: *const c_void,
    length: usize,
) -> ffi::iron_status {
    enter(c"iron_session_restore", || {
        let session = acquire(session)?;
        // SAFETY: the caller's pointer, as the header asks.
        let bytes = unsafe { array(bytes.cast::<u8>(), length, "bytes") }?;
        session.with(sequence, |sequences, index| sequences.restore(index, bytes))
    })
}

/// Writes a file beside `path` and puts it in its place when it is complete.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let hidden = format!(".{}.{}", name.to_string_lossy(), std::process::id());
    let beside = path.with_file_name(hidden);
    let written = File::create(&beside).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()
    });
    written
        .and_then(|()| fs::rename(&beside, path))
        .inspect_err(|_| drop(fs::remove_file(&beside)))
}

fn file_failure(what: &str, path: &Path, error: &io::Error) -> Failure {
    let message = format!("path: cannot {what} {}: {error}", path.display());
    Failure::new(of_file(error), message)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn iron_session_save_file(
    session: *mut ffi::iron_session,
    sequence: u32,
    path: *const c_char,
) -> ffi::iron_status {
    enter(c"iron_session_save_file", || {
        let session = acquire(session)?;
        // SAFETY: the caller's pointer, as the header asks.
        let path = unsafe { self::path(path, "path") }?;
        let bytes = session.with(sequence, |sequences, index| sequences.save(index))?;
        replace(path, &bytes).map_err(|error| file_failure("write", path, &error))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn iron_session_restore_file(
    session: *mut ffi::iron_session,
    sequence: u32,
    path: *const c_char,
) -> ffi::iron_status {
    enter(c"iron_session_restore_file", || {
        let session = acquire(session)?;
        // SAFETY: the caller's pointer, as the header asks.
        let path = unsafe { self::path(path, "path") }?;
        let bytes = fs::read(path).map_err(|error| file_failure("read", path, &error))?;
        session.with(sequence, |sequences, index| {
            sequences.restore(index, &bytes)
        })
    })
}
