//! `iron_generate` and `iron_generation`.

use std::ffi::c_void;
use std::sync::Arc;
use std::time::Duration;

use super::arguments::{array, optional_string, some_tokens};
use super::call::{Failure, Outcome, enter};
use super::handle::{Exclusive, Place, acquire, acquire_optional, handled, references};
use super::sampler::{Callbacks, Refused, sampler};
use super::session::SharedSequences;
use super::structs::{self, Output, positive, truth};
use crate::ffi;
use crate::llama::{
    GenerationOptions, GenerationStats, GenerationSteps, Piece, Sampler, Sequences, Stop, WhenFull,
};

/// A generation that is asked step by step, and the piece that it has lent.
pub struct LendingGeneration {
    session: Arc<SharedSequences>,
    steps: Exclusive<Steps>,
}

struct Steps {
    steps: GenerationSteps,
    refused: Arc<Refused>,
    piece: LentPiece,
}

handled!(iron_generation, c"generation", LendingGeneration);
references!(
    iron_generation,
    iron_generation_retain,
    iron_generation_release
);

/// How a text is to be written, as the caller's options say.
pub(super) struct Manner {
    pub sampler: Sampler,
    pub options: GenerationOptions,
    /// Whether the limit is left to the room that there is.
    pub fills_context: bool,
    pub refused: Arc<Refused>,
}

impl Manner {
    /// # Safety
    ///
    /// `given` is NULL or as the header asks, with all that it leads to.
    pub unsafe fn read(given: *const ffi::iron_generation_options) -> Outcome<Manner> {
        // SAFETY: as the caller promises.
        let given = unsafe { structs::read(given, c"options") }?;
        let stop_strings =
            // SAFETY: as the caller promises.
            unsafe { array(given.stop_strings, given.stop_string_count, "options.stop_strings") }?;
        let stop_strings = stop_strings.iter().enumerate().map(|(place, text)| {
            let argument = format!("options.stop_strings[{place}]");
            // SAFETY: as the caller promises.
            let text = unsafe { optional_string(*text, &argument) }?;
            match text {
                None | Some("") => Err(Failure::invalid(format!("{argument}: is NULL or empty"))),
                Some(text) => Ok(text.to_owned()),
            }
        });
        let callbacks = Callbacks::new(
            (given.mask, given.mask_context),
            (given.sample, given.sample_context),
        );
        let refused = callbacks.refused();
        let probabilities = truth("options.log_probabilities", given.log_probabilities)?;
        if given.likeliest > 0 && !probabilities {
            return Err(Failure::invalid(format!(
                "options.likeliest: is {}, which needs log_probabilities",
                given.likeliest
            )));
        }
        let cancel = acquire_optional(given.cancel, c"options.cancel")?;
        Ok(Manner {
            // SAFETY: as the caller promises.
            sampler: unsafe { sampler(given.sampler, c"options.sampler") }?,
            fills_context: given.limit == 0,
            refused,
            options: GenerationOptions {
                limit: positive("options.limit", given.limit)?,
                stop_strings: stop_strings.collect::<Outcome<_>>()?,
                log_probabilities: probabilities.then_some(given.likeliest as usize),
                mask: callbacks.into_mask(),
                cancel: cancel.as_deref().cloned().unwrap_or_default(),
                when_full: match given.when_full {
                    ffi::IRON_WHEN_FULL_FAIL => WhenFull::Fail,
                    ffi::IRON_WHEN_FULL_FORGET => WhenFull::Forget {
                        keep: usize::try_from(given.keep).unwrap_or(usize::MAX),
                    },
                    other => {
                        let message =
                            format!("options.when_full: is {other}, 0 and 1 are possible");
                        return Err(Failure::invalid(message));
                    }
                },
            },
        })
    }

    fn begin(mut self, sequences: &Sequences, index: usize, prompt: &[u32]) -> Steps {
        if self.fills_context {
            // The last token written is not in the cache.
            let room = (sequences.context() + 1).saturating_sub(sequences.tokens(index).len());
            // Where there is none, the feed has the error.
            self.options.limit = Some(room.saturating_sub(prompt.len()).max(1));
        }
        Steps {
            steps: GenerationSteps::new(sequences, index, prompt, self.sampler, self.options),
            refused: self.refused,
            piece: LentPiece::default(),
        }
    }
}

impl Steps {
    /// The next piece as C wants it: without a token after the end.
    fn next(&mut self, sequences: &mut Sequences) -> Outcome<ffi::iron_piece> {
        let written = self.steps.next(sequences).transpose();
        let written = written.map_err(|error| self.refused.explain(error.into()))?;
        Ok(self.piece.lend(written, self.steps.stop()))
    }

    fn describe(&self) -> ffi::iron_generation_info {
        let GenerationStats {
            prompt_tokens,
            prompt_time,
            generated_tokens,
            generation_time,
        } = self.steps.stats();
        ffi::iron_generation_info {
            size: 0,
            stop: stop_number(self.steps.stop()),
            prompt_tokens: prompt_tokens as u64,
            prompt_time: nanoseconds(prompt_time),
            generated_tokens: generated_tokens as u64,
            generation_time: nanoseconds(generation_time),
        }
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

pub(super) fn stop_number(stop: Option<Stop>) -> u32 {
    match stop {
        None => ffi::IRON_STOP_NONE,
        Some(Stop::EndOfText) => ffi::IRON_STOP_END_OF_TEXT,
        Some(Stop::Limit) => ffi::IRON_STOP_LIMIT,
        Some(Stop::StopString) => ffi::IRON_STOP_STRING,
        Some(Stop::Cancelled) => ffi::IRON_STOP_CANCELED,
        Some(Stop::Failed) => ffi::IRON_STOP_FAILED,
    }
}

/// What an `iron_piece` leads to.
#[derive(Default)]
pub(super) struct LentPiece {
    /// With a NUL behind it.
    text: String,
    likeliest: Vec<ffi::iron_token_probability>,
}

impl LentPiece {
    /// The piece, whose pointers are valid until the next call.
    pub fn lend(&mut self, piece: Option<Piece>, stop: Option<Stop>) -> ffi::iron_piece {
        self.text.clear();
        self.likeliest.clear();
        let mut native = ffi::iron_piece {
            token: ffi::IRON_NO_TOKEN,
            stop: stop_number(stop),
            ..Default::default()
        };
        if let Some(piece) = piece {
            native.token = piece.token;
            self.text.push_str(&piece.text);
            if let Some(found) = piece.log_probabilities {
                native.log_probability = found.picked;
                self.likeliest.extend(found.likeliest.into_iter().map(
                    |(token, log_probability)| ffi::iron_token_probability {
                        token,
                        log_probability,
                    },
                ));
            }
        }
        native.text_length = self.text.len();
        self.text.push('\0');
        native.text = self.text.as_ptr().cast();
        native.likeliest_count = self.likeliest.len() as u32;
        if !self.likeliest.is_empty() {
            native.likeliest = self.likeliest.as_ptr();
        }
        native
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn iron_generate(
    session: *mut ffi::iron_session,
    sequence: u32,
    prompt: *const u32,
    prompt_count: usize,
    options: *const ffi::iron_generation_options,
    write: ffi::iron_piece_callback,
    context: *mut c_void,
    info: *mut ffi::iron_generation_info,
) -> ffi::iron_status {
    enter(c"iron_generate", || {
        // SAFETY: the caller's pointer, as the header asks.
        let info = unsafe { Output::clear_optional(info, c"info") }?;
        let session = acquire(session)?;
        let index = session.index(sequence)?;
        // SAFETY: as above.
        let prompt = unsafe { some_tokens(prompt, prompt_count, "prompt") }?;
        // SAFETY: as above.
        let manner = unsafe { Manner::read(options) }?;
        let mut sequences = session.sequences.lock("session")?;
        let mut steps = manner.begin(&sequences, index, prompt);
        loop {
            let mut piece = steps.next(&mut sequences)?;
            if piece.token == ffi::IRON_NO_TOKEN {
                break;
            }
            piece.size = size_of::<ffi::iron_piece>();
            // SAFETY: the function is the caller's, and all that the piece leads to lives through its call.
            let answer = write.map(|write| unsafe { write(&piece, context) });
            if answer.unwrap_or(0) != 0 {
                steps.steps.cancel();
            }
        }
        if let Some(info) = info {
            info.write(&steps.describe());
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn iron_generation_create(
    session: *mut ffi::iron_session,
    sequence: u32,
    prompt: *const u32,
    prompt_count: usize,
    options: *const ffi::iron_generation_options,
    generation: *mut *mut ffi::iron_generation,
) -> ffi::iron_status {
    enter(c"iron_generation_create", || {
        // SAFETY: the caller's pointer, as the header asks.
        let place = unsafe { Place::clear(generation, "generation") }?;
        let session = acquire(session)?;
        let index = session.index(sequence)?;
        // SAFETY: as above.
        let prompt = unsafe { some_tokens(prompt, prompt_count, "prompt") }?;
        // SAFETY: as above.
        let manner = unsafe { Manner::read(options) }?;
        let steps = manner.begin(&*session.sequences.lock("session")?, index, prompt);
        place.fill(LendingGeneration {
            session,
            steps: Exclusive::new(steps),
        })
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn iron_generation_next(
    generation: *mut ffi::iron_generation,
    piece: *mut ffi::iron_piece,
) -> ffi::iron_status {
    enter(c"iron_generation_next", || {
        // SAFETY: the caller's pointer, as the header asks.
        let output = unsafe { Output::clear(piece, c"piece") }?;
        let generation = acquire(generation)?;
        let mut steps = generation.steps.lock("generation")?;
        let mut sequences = generation.session.sequences.lock("session")?;
        output.write(&steps.next(&mut sequences)?);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn iron_generation_describe(
    generation: *mut ffi::iron_generation,
    info: *mut ffi::iron_generation_info,
) -> ffi::iron_status {
    enter(c"iron_generation_describe", || {
        // SAFETY: the caller's pointer, as the header asks.
        let info = unsafe { Output::clear(info, c"info") }?;
        let generation = acquire(generation)?;
        info.write(&generation.steps.lock("generation")?.describe());
        Ok(())
    })
}
