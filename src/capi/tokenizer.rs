//! `iron_tokenizer`.

use std::ffi::c_char;

use super::arguments::{Room, Value, array, string, text};
use super::call::{Failure, Outcome, enter};
use super::handle::{Place, acquire, handled, references};
use super::structs::Output;
use crate::error::Status;
use crate::ffi;
use crate::llama::Tokenizer;
use crate::llama::tokenizer::EncodeOptions;

handled!(iron_tokenizer, c"tokenizer", Tokenizer);
references!(
    iron_tokenizer,
    iron_tokenizer_retain,
    iron_tokenizer_release
);

#[unsafe(no_mangle)]
pub unsafe extern "C" fn iron_tokenizer_create(
    file: *mut ffi::iron_model_file,
    tokenizer: *mut *mut ffi::iron_tokenizer,
) -> ffi::iron_status {
    enter(c"iron_tokenizer_create", || {
        // SAFETY: the caller's pointer, as the header asks.
        let place = unsafe { Place::clear(tokenizer, "tokenizer") }?;
        place.fill(Tokenizer::from_metadata(acquire(file)?.file.metadata())?)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn iron_tokenizer_describe(
    tokenizer: *mut ffi::iron_tokenizer,
    info: *mut ffi::iron_tokenizer_info,
) -> ffi::iron_status {
    enter(c"iron_tokenizer_describe", || {
        // SAFETY: the caller's pointer, as the header asks.
        let info = unsafe { Output::clear(info, c"info") }?;
        let tokenizer = acquire(tokenizer)?;
        info.write(&ffi::iron_tokenizer_info {
            size: 0,
            vocabulary: tokenizer.vocabulary_size(),
            bos: tokenizer.bos().unwrap_or(ffi::IRON_NO_TOKEN),
            eos: tokenizer.eos().unwrap_or(ffi::IRON_NO_TOKEN),
        });
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn iron_tokenizer_encode(
    tokenizer: *mut ffi::iron_tokenizer,
    text: *const c_char,
    length: usize,
    flags: u32,
    tokens: *mut u32,
    capacity: usize,
    count: *mut usize,
) -> ffi::iron_status {
    enter(c"iron_tokenizer_encode", || {
        // SAFETY: the caller's pointers, as the header asks.
        let room = unsafe { Room::new((tokens, capacity), "tokens", (count, "count")) }?;
        let tokenizer = acquire(tokenizer)?;
        // SAFETY: as above.
        let text = unsafe { self::text(text, length, "text") }?;
        if flags & !(ffi::IRON_ENCODE_SPECIAL | ffi::IRON_ENCODE_PARSE_SPECIAL) != 0 {
            return Err(Failure::invalid(format!("flags: {flags} has unknown bits")));
        }
        let options = EncodeOptions {
            add_special: flags & ffi::IRON_ENCODE_SPECIAL != 0,
            parse_special: flags & ffi::IRON_ENCODE_PARSE_SPECIAL != 0,
        };
        room.write(&tokenizer.encode_with(text, options))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn iron_tokenizer_decode(
    tokenizer: *mut ffi::iron_tokenizer,
    tokens: *const u32,
    count: usize,
    text: *mut c_char,
    capacity: usize,
    length: *mut usize,
) -> ffi::iron_status {
    enter(c"iron_tokenizer_decode", || {
        // SAFETY: the caller's pointers, as the header asks.
        let room = unsafe { Room::new((text, capacity), "text", (length, "length")) }?;
        let tokenizer = acquire(tokenizer)?;
        // SAFETY: as above.
        let tokens = unsafe { array(tokens, count, "tokens") }?;
        room.write_text(tokenizer.decode(tokens)?.as_bytes())
    })
}

/// A token's piece and kind.
fn piece(tokenizer: &Tokenizer, token: u32) -> Outcome<(&[u8], u32)> {
    let found = tokenizer.piece(token);
    let (bytes, kind) = found.ok_or_else(|| {
        Failure::out_of_range(format!(
            "token: {token} is outside the vocabulary of {}",
            tokenizer.vocabulary_size()
        ))
    })?;
    Ok((bytes, kind as u32))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn iron_tokenizer_piece(
    tokenizer: *mut ffi::iron_tokenizer,
    token: u32,
    bytes: *mut c_char,
    capacity: usize,
    length: *mut usize,
    kind: *mut u32,
) -> ffi::iron_status {
    enter(c"iron_tokenizer_piece", || {
        // SAFETY: the caller's pointers, as the header asks.
        let room = unsafe { Room::new((bytes, capacity), "bytes", (length, "length")) }?;
        let kind = match kind.is_null() {
            true => None,
            // SAFETY: as above.
            false => Some(unsafe { Value::clear(kind, "kind") }?),
        };
        let tokenizer = acquire(tokenizer)?;
        let (bytes, number) = piece(&tokenizer, token)?;
        room.write_text(bytes)?;
        if let Some(kind) = kind {
            kind.set(number);
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn iron_tokenizer_find(
    tokenizer: *mut ffi::iron_tokenizer,
    name: *const c_char,
    token: *mut u32,
) -> ffi::iron_status {
    enter(c"iron_tokenizer_find", || {
        // SAFETY: the caller's pointer, as the header asks.
        let place = unsafe { Value::clear(token, "token") }?;
        let tokenizer = acquire(tokenizer)?;
        // SAFETY: as above.
        let name = unsafe { string(name, "name") }?;
        let found = tokenizer.token(name);
        place.set(found.ok_or_else(|| {
            Failure::new(
                Status::NotFound,
                format!("name: no token is called {name:?}"),
            )
        })?);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn iron_tokenizer_is_end(
    tokenizer: *mut ffi::iron_tokenizer,
    token: u32,
    is_end: *mut u32,
) -> ffi::iron_status {
    enter(c"iron_tokenizer_is_end", || {
        // SAFETY: the caller's pointer, as the header asks.
        let place = unsafe { Value::clear(is_end, "is_end") }?;
        let tokenizer = acquire(tokenizer)?;
        piece(&tokenizer, token)?;
        place.set(tokenizer.is_end(token).into());
        Ok(())
    })
}
