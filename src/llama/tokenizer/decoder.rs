//! Tokens to text, one by one.

use super::space_prefix::SpacePrefix;
use super::vocabulary::{TokenKind, TokenizerError, byte_of};
use super::{SPACE, Tokenizer};

/// What SentencePiece writes for the unknown token.
const UNKNOWN_TEXT: &str = " \u{2047} ";

/// Turns a stream of tokens into a stream of text that never ends inside a character: bytes of one that is not complete
/// yet wait for the rest of it.
#[derive(Clone, Debug)]
pub struct Decoder<'a> {
    tokenizer: &'a Tokenizer,
    state: DecoderState,
}

impl<'a> Decoder<'a> {
    /// Decodes a text from its begin: the space that encoding puts before a text is left out.
    pub fn of_text(tokenizer: &'a Tokenizer) -> Decoder<'a> {
        Decoder {
            tokenizer,
            state: DecoderState::of_text(tokenizer),
        }
    }

    /// Decodes tokens that go on after a text: every space counts.
    pub fn of_continuation(tokenizer: &'a Tokenizer) -> Decoder<'a> {
        Decoder {
            tokenizer,
            state: DecoderState::default(),
        }
    }

    /// The text that this token completes, often all of its own and at times none.
    ///
    /// # Errors
    ///
    /// [`TokenizerError::OutOfRange`] for a token outside the vocabulary; the decoder can go on with the next one.
    pub fn push(&mut self, token: u32) -> Result<&str, TokenizerError> {
        self.state.push(self.tokenizer, token)
    }

    /// What is left of a character that does not become complete, as U+FFFD: one for each byte where SentencePiece made
    /// the vocabulary, else one for all.
    pub fn finish(&mut self) -> &str {
        self.state.finish(self.tokenizer)
    }
}

/// A decoder that is handed its tokenizer each time.
#[derive(Clone, Debug, Default)]
pub(crate) struct DecoderState {
    /// Whether a space that comes now is the one that encoding put before the text.
    at_start: bool,
    /// The bytes of a character that is not complete.
    pending: Vec<u8>,
    /// What the last call gave out.
    text: String,
}

impl DecoderState {
    pub fn of_text(tokenizer: &Tokenizer) -> DecoderState {
        DecoderState {
            at_start: tokenizer.normalizer.prefix() != SpacePrefix::Nowhere
                || tokenizer.normalizer.removes_extra_spaces(),
            ..DecoderState::default()
        }
    }

    pub fn push(&mut self, tokenizer: &Tokenizer, token: u32) -> Result<&str, TokenizerError> {
        self.text.clear();
        let Some((piece, kind)) = tokenizer.piece(token) else {
            return Err(TokenizerError::OutOfRange {
                id: token,
                vocabulary: tokenizer.vocabulary_size(),
            });
        };
        let escaped = tokenizer.escapes_spaces();
        match kind {
            // It has no text. SentencePiece's characters do not go on behind it, those of byte-level tokenizers do.
            TokenKind::Control if escaped => return Ok(self.finish(tokenizer)),
            TokenKind::Control => return Ok(&self.text),
            TokenKind::Unknown if escaped => self.pending.extend(UNKNOWN_TEXT.as_bytes()),
            TokenKind::Byte => self.pending.extend(byte_of(piece)),
            TokenKind::Normal | TokenKind::UserDefined | TokenKind::Unused if escaped => {
                let stripped = piece
                    .strip_prefix(SPACE.as_bytes())
                    .filter(|_| self.at_start);
                extend_with_spaces(&mut self.pending, stripped.unwrap_or(piece));
            }
            _ => self.pending.extend(piece),
        }
        // SentencePiece leaves out every space before the text where it removes extra ones.
        self.at_start &= tokenizer.normalizer.removes_extra_spaces() && self.pending.is_empty();
        self.take_characters(tokenizer);
        Ok(&self.text)
    }

    pub fn finish(&mut self, tokenizer: &Tokenizer) -> &str {
        self.text.clear();
        let pending = std::mem::take(&mut self.pending);
        replace(&mut self.text, tokenizer, &pending);
        &self.text
    }

    /// Moves whole characters from `pending` to `text`, and U+FFFD for bytes that cannot be part of one.
    fn take_characters(&mut self, tokenizer: &Tokenizer) {
        let mut rest = self.pending.as_slice();
        for chunk in self.pending.utf8_chunks() {
            self.text.push_str(chunk.valid());
            rest = &rest[chunk.valid().len()..];
            let incomplete = rest.len() == chunk.invalid().len() && may_continue(rest);
            if incomplete {
                break;
            }
            replace(&mut self.text, tokenizer, chunk.invalid());
            rest = &rest[chunk.invalid().len()..];
        }
        let taken = self.pending.len() - rest.len();
        self.pending.drain(..taken);
    }
}

/// Appends U+FFFD for the longest begin of a character that these bytes are: SentencePiece writes one for each byte,
/// and byte-level tokenizers, which leave it to UTF-8 decoders, one for all.
fn replace(text: &mut String, tokenizer: &Tokenizer, invalid: &[u8]) {
    let count = match tokenizer.escapes_spaces() {
        true => invalid.len(),
        false => invalid.len().min(1),
    };
    text.extend(std::iter::repeat_n(char::REPLACEMENT_CHARACTER, count));
}

/// Whether these bytes could be the begin of a character.
fn may_continue(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

/// Appends a piece with spaces for [`SPACE`]s.
fn extend_with_spaces(bytes: &mut Vec<u8>, mut piece: &[u8]) {
    let space = SPACE.as_bytes();
    while let Some(place) = piece
        .windows(space.len())
        .position(|window| window == space)
    {
        bytes.extend(&piece[..place]);
        bytes.push(b' ');
        piece = &piece[place + space.len()..];
    }
    bytes.extend(piece);
}
