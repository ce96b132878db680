//! `iron_decoder`.

use std::ffi::c_char;
use std::sync::Arc;

use super::arguments::Value;
use super::call::{Failure, Outcome, enter};
use super::handle::{Exclusive, Place, acquire, handled, references};
use crate::ffi;
use crate::llama::Tokenizer;
use crate::llama::tokenizer::DecoderState;

/// A decoder, and the text that it has lent.
pub struct LendingDecoder {
    tokenizer: Arc<Tokenizer>,
    state: DecoderState,
    /// With a NUL behind it.
    lent: String,
}

impl LendingDecoder {
    fn lend(
        &mut self,
        text: &Value<*const c_char>,
        length: &Value<usize>,
        decode: impl FnOnce(&mut DecoderState, &Tokenizer, &mut String) -> Outcome,
    ) -> Outcome {
        self.lent.clear();
        decode(&mut self.state, &self.tokenizer, &mut self.lent)?;
        length.set(self.lent.len());
        self.lent.push('\0');
        text.set(self.lent.as_ptr().cast());
        Ok(())
    }
}

handled!(iron_decoder, c"decoder", Exclusive<LendingDecoder>);
references!(iron_decoder, iron_decoder_retain, iron_decoder_release);

#[unsafe(no_mangle)]
pub unsafe extern "C" fn iron_decoder_create(
    tokenizer: *mut ffi::iron_tokenizer,
    continues: u32,
    decoder: *mut *mut ffi::iron_decoder,
) -> ffi::iron_status {
    enter(c"iron_decoder_create", || {
        // SAFETY: the caller's pointer, as the header asks.
        let place = unsafe { Place::clear(decoder, "decoder") }?;
        let tokenizer = acquire(tokenizer)?;
        let state = match continues {
            0 => DecoderState::of_text(&tokenizer),
            1 => DecoderState::default(),
            other => {
                let message = format!("continues: is {other}, 0 and 1 are possible");
                return Err(Failure::invalid(message));
            }
        };
        place.fill(Exclusive::new(LendingDecoder {
            tokenizer,
            state,
            lent: String::new(),
        }))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn iron_decoder_push(
    decoder: *mut ffi::iron_decoder,
    token: u32,
    text: *mut *const c_char,
    length: *mut usize,
) -> ffi::iron_status {
    enter(c"iron_decoder_push", || {
        // SAFETY: the caller's pointer, as the header asks.
        let text = unsafe { Value::clear(text, "text") }?;
        // SAFETY: as above.
        let length = unsafe { Value::clear(length, "length") }?;
        let decoder = acquire(decoder)?;
        let mut decoder = decoder.lock("decoder")?;
        decoder.lend(&text, &length, |state, tokenizer, lent| {
            lent.push_str(state.push(tokenizer, token)?);
            Ok(())
        })
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn iron_decoder_finish(
    decoder: *mut ffi::iron_decoder,
    text: *mut *const c_char,
    length: *mut usize,
) -> ffi::iron_status {
    enter(c"iron_decoder_finish", || {
        // SAFETY: the caller's pointer, as the header asks.
        let text = unsafe { Value::clear(text, "text") }?;
        // SAFETY: as above.
        let length = unsafe { Value::clear(length, "length") }?;
        let decoder = acquire(decoder)?;
        let mut decoder = decoder.lock("decoder")?;
        decoder.lend(&text, &length, |state, tokenizer, lent| {
            lent.push_str(state.finish(tokenizer));
            Ok(())
        })
    })
}
