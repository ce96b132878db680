//! What a model makes of a text: probabilities, embeddings, perplexity.

use super::arguments::{Room, array, some_tokens};
use super::call::enter;
use super::handle::acquire;
use super::progress::Progress;
use super::structs::{self, Output, constant, positive};
use crate::ffi;
use crate::llama::{PerplexityOptions, PerplexityWindows, Pooling};

#[unsafe(no_mangle)]
pub unsafe extern "C" fn iron_session_log_probabilities(
    session: *mut ffi::iron_session,
    sequence: u32,
    tokens: *const u32,
    count: usize,
    logarithms: *mut f64,
    capacity: usize,
    given: *mut usize,
) -> ffi::iron_status {
    enter(c"iron_session_log_probabilities", || {
        // SAFETY: the caller's pointers, as the header asks.
        let room = unsafe { Room::new((logarithms, capacity), "logarithms", (given, "given")) }?;
        let session = acquire(session)?;
        session.index(sequence)?;
        // SAFETY: as above.
        let tokens = unsafe { some_tokens(tokens, count, "tokens") }?;
        room.reserve(count - 1)?;
        if room.only_counts() {
            return Ok(());
        }
        let found = session.with(sequence, |sequences, index| {
            sequences.log_probabilities(index, tokens)
        });
        room.reserve(0)?;
        room.write(&found?)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn iron_session_embed(
    session: *mut ffi::iron_session,
    sequence: u32,
    tokens: *const u32,
    count: usize,
    pooling: u32,
    vector: *mut f32,
    capacity: usize,
    width: *mut usize,
) -> ffi::iron_status {
    enter(c"iron_session_embed", || {
        // SAFETY: the caller's pointers, as the header asks.
        let room = unsafe { Room::new((vector, capacity), "vector", (width, "width")) }?;
        let session = acquire(session)?;
        session.index(sequence)?;
        // SAFETY: as above.
        let tokens = unsafe { some_tokens(tokens, count, "tokens") }?;
        let pooling = constant("pooling", &[Pooling::Mean, Pooling::Last], pooling)?;
        room.reserve(session.width())?;
        if room.only_counts() {
            return Ok(());
        }
        let found = session.with(sequence, |sequences, index| {
            sequences.embed(index, tokens, pooling)
        });
        room.reserve(0)?;
        room.write(&found?)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn iron_session_perplexity(
    session: *mut ffi::iron_session,
    sequence: u32,
    tokens: *const u32,
    count: usize,
    options: *const ffi::iron_perplexity_options,
    perplexity: *mut ffi::iron_perplexity,
) -> ffi::iron_status {
    enter(c"iron_session_perplexity", || {
        // SAFETY: the caller's pointer, as the header asks.
        let output = unsafe { Output::clear(perplexity, c"perplexity") }?;
        let session = acquire(session)?;
        // SAFETY: as above.
        let tokens = unsafe { array(tokens, count, "tokens") }?;
        // SAFETY: as above.
        let options = unsafe { structs::read(options, c"options") }?;
        let progress = Progress::new(options.progress, options.progress_context);
        let options = PerplexityOptions {
            stride: positive("options.stride", options.stride)?,
            windows: constant(
                "options.windows",
                &[PerplexityWindows::Overlapping, PerplexityWindows::Chunks],
                options.windows,
            )?,
        };
        let found = session.with(sequence, |sequences, index| {
            sequences.perplexity(index, tokens, options, &mut |found| {
                progress.report(found.so_far.tokens() as u64, found.total as u64)
            })
        })?;
        output.write(&ffi::iron_perplexity {
            size: 0,
            tokens: found.tokens() as u64,
            mean_log_probability: found.mean_log_probability(),
            value: found.value(),
            standard_error: found.standard_error(),
        });
        Ok(())
    })
}
