//! The pieces of a vocabulary and the ways to look one up.

use crate::llama::quote::quoted;
use std::collections::HashMap;

use crate::llama::pre_tokenizer::PreTokenizer;

/// What a token is for. The numbers are the file's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TokenKind {
    /// A piece of text.
    Normal = 1,
    /// Stands for text that the vocabulary cannot express.
    Unknown = 2,
    /// Has a meaning and no text: the begin or the end of a text.
    Control = 3,
    /// A piece of text that is never split nor merged with its neighbours.
    UserDefined = 4,
    /// A piece that helps to merge and is split again in the end.
    Unused = 5,
    /// One byte, named `<0x41>`.
    Byte = 6,
}

impl TokenKind {
    fn from_number(number: i32) -> Option<TokenKind> {
        Some(match number {
            1 => TokenKind::Normal,
            2 => TokenKind::Unknown,
            3 => TokenKind::Control,
            4 => TokenKind::UserDefined,
            5 => TokenKind::Unused,
            6 => TokenKind::Byte,
            _ => return None,
        })
    }
}

/// Why a file's vocabulary cannot be used, or a token is none of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "each message says what its fields are")]
pub enum TokenizerError {
    #[error(
        "the model file's tokenizer is of the kind {quoted}; \"llama\" and \"t5\" (SentencePiece), \"gpt2\" (byte-level) and \"bert\" (WordPiece) are supported",
        quoted = quoted(.0)
    )]
    Model(String),
    #[error(
        "the model file's pre-tokenizer is {quoted}, which is none of the {count} that are known: {names}",
        quoted = quoted(.0),
        count = PreTokenizer::all_names().count(),
        names = PreTokenizer::all_names().collect::<Vec<_>>().join(", ")
    )]
    PreTokenizer(String),
    #[error("the model file's normalizer cannot be used: {0}")]
    Normalizer(&'static str),
    #[error("the metadata key {key} is not the JSON that it should be: {error}")]
    Json { key: &'static str, error: String },
    #[error("the model file's {part} has the step {kind}: {reason}", kind = quoted(kind))]
    Step {
        part: &'static str,
        kind: String,
        reason: &'static str,
    },
    #[error("merge {0} is no pair of two tokens that make a third")]
    Merge(usize),
    #[error(
        "the vocabulary has {tokens} tokens, {scores} scores and {kinds} types; there must be as many of each, and some"
    )]
    Lengths {
        tokens: usize,
        scores: usize,
        kinds: usize,
    },
    #[error("token {id} has the unknown type {kind}")]
    Kind { id: usize, kind: i32 },
    #[error("token {0} has a score that is not a number")]
    Score(usize),
    #[error("token {0} is a byte and not named like one (\"<0x41>\")")]
    Byte(usize),
    #[error("the {name} token is {id}, outside the vocabulary of {vocabulary}")]
    SpecialToken {
        name: &'static str,
        id: u32,
        vocabulary: u32,
    },
    #[error("token {id} is outside the vocabulary of {vocabulary}")]
    OutOfRange { id: u32, vocabulary: u32 },
}

#[derive(Clone, Debug)]
pub(super) struct Vocabulary {
    pieces: Vec<Box<[u8]>>,
    scores: Vec<f32>,
    kinds: Vec<TokenKind>,
    /// What text can become: normal, user-defined and unused pieces. Of two pieces with the same text the first one
    /// counts.
    text: HashMap<Box<[u8]>, u32>,
    longest: usize,
    user_defined: PrefixMatcher,
    /// Those of them that have a space.
    user_defined_with_space: PrefixMatcher,
    /// The unknown token among them: both `tokenizers` and llama.cpp find it by its name.
    control: PrefixMatcher,
    unknown: u32,
    /// The token of each byte, when every byte has one.
    bytes: Option<Box<[u32; 256]>>,
}

impl Vocabulary {
    pub fn new(
        pieces: &[Box<[u8]>],
        scores: &[f32],
        kinds: &[i32],
        unknown: u32,
    ) -> Result<Vocabulary, TokenizerError> {
        // A file's arrays are far shorter than 2^32.
        let count = pieces.len() as u32;
        if pieces.is_empty() || scores.len() != pieces.len() || kinds.len() != pieces.len() {
            return Err(TokenizerError::Lengths {
                tokens: pieces.len(),
                scores: scores.len(),
                kinds: kinds.len(),
            });
        }
        if unknown >= count {
            return Err(TokenizerError::SpecialToken {
                name: "unknown",
                id: unknown,
                vocabulary: count,
            });
        }
        if let Some(id) = scores.iter().position(|score| score.is_nan()) {
            return Err(TokenizerError::Score(id));
        }

        let mut vocabulary = Vocabulary {
            pieces: pieces.to_vec(),
            scores: scores.to_vec(),
            kinds: Vec::with_capacity(kinds.len()),
            text: HashMap::with_capacity(pieces.len()),
            longest: 0,
            user_defined: PrefixMatcher::default(),
            user_defined_with_space: PrefixMatcher::default(),
            control: PrefixMatcher::default(),
            unknown,
            bytes: None,
        };
        let mut bytes = [None; 256];
        for (id, (piece, kind)) in pieces.iter().zip(kinds).enumerate() {
            let token = id as u32;
            let Some(kind) = TokenKind::from_number(*kind) else {
                return Err(TokenizerError::Kind { id, kind: *kind });
            };
            vocabulary.kinds.push(kind);
            match kind {
                TokenKind::Byte => {
                    let byte = byte_of(piece).ok_or(TokenizerError::Byte(id))?;
                    bytes[usize::from(byte)].get_or_insert(token);
                }
                TokenKind::Control | TokenKind::Unknown => vocabulary.control.add(piece, token),
                TokenKind::UserDefined => {
                    vocabulary.user_defined.add(piece, token);
                    if piece.contains(&b' ') {
                        vocabulary.user_defined_with_space.add(piece, token);
                    }
                    vocabulary.add_text(piece, token);
                }
                TokenKind::Normal | TokenKind::Unused => vocabulary.add_text(piece, token),
            }
        }
        let every: Option<Vec<u32>> = bytes.into_iter().collect();
        vocabulary.bytes = every.and_then(|tokens| tokens.into_boxed_slice().try_into().ok());
        Ok(vocabulary)
    }

    /// Leaves the user-defined pieces to what finds them before a text is split: they keep their names alone.
    pub fn only_name_user_defined(&mut self) {
        for (piece, token) in std::mem::take(&mut self.user_defined).tokens {
            if self.text.get(&piece) == Some(&token) {
                self.text.remove(&piece);
            }
            self.control.add(&piece, token);
        }
        self.user_defined_with_space = PrefixMatcher::default();
    }

    fn add_text(&mut self, piece: &[u8], token: u32) {
        self.longest = self.longest.max(piece.len());
        self.text.entry(piece.into()).or_insert(token);
    }

    pub fn len(&self) -> u32 {
        self.pieces.len() as u32
    }

    pub fn piece(&self, token: u32) -> Option<(&[u8], TokenKind)> {
        let index = token as usize;
        Some((self.pieces.get(index)?, self.kinds[index]))
    }

    pub fn unknown(&self) -> u32 {
        self.unknown
    }

    /// The token that text can become.
    pub fn text(&self, piece: &[u8]) -> Option<u32> {
        if piece.len() > self.longest {
            return None;
        }
        self.text.get(piece).copied()
    }

    pub fn score(&self, token: u32) -> f32 {
        self.scores[token as usize]
    }

    pub fn is_unused(&self, token: u32) -> bool {
        self.kinds[token as usize] == TokenKind::Unused
    }

    pub fn byte(&self, byte: u8) -> Option<u32> {
        let bytes = self.bytes.as_deref()?;
        Some(bytes[usize::from(byte)])
    }

    /// The length of the longest user-defined piece that `text` starts with.
    pub fn user_defined_prefix(&self, text: &[u8]) -> Option<usize> {
        self.user_defined.longest(text).map(|(length, _)| length)
    }

    /// The first token in `text` that is found by its name before the text is split, of several that start there the
    /// longest: (where, its length, the token). Those are the control tokens if `control`, and `user_defined` ones.
    pub fn find_named(
        &self,
        text: &str,
        control: bool,
        user_defined: UserDefined,
    ) -> Option<(usize, usize, u32)> {
        let user_defined = match user_defined {
            UserDefined::All => &self.user_defined,
            UserDefined::WithSpace => &self.user_defined_with_space,
        };
        let matchers = [(&self.control, control), (user_defined, true)];
        let matchers = matchers.map(|(matcher, wanted)| matcher.filter(wanted));
        let found = matchers.iter().flatten().filter_map(|it| it.find(text, 0));
        // The leftmost, and of several there the longest.
        found.min_by_key(|(start, length, _)| (*start, usize::MAX - length))
    }

    /// The control, user-defined or ordinary token of that text, in this order.
    pub fn named(&self, name: &[u8]) -> Option<u32> {
        let control = self.control.tokens.get(name);
        let token = control.or_else(|| self.user_defined.tokens.get(name));
        token.copied().or_else(|| self.text(name))
    }
}

/// Which user-defined pieces are found in text as it is, before its spaces are escaped.
#[derive(Clone, Copy)]
pub(super) enum UserDefined {
    All,
    /// llama.cpp's converter writes the escaped spaces of SentencePiece's user-defined pieces as spaces, and llama.cpp
    /// looks for them so: Gemma has one for each number of spaces up to 31.
    WithSpace,
}

/// The byte that a piece like `<0x41>` names.
pub(super) fn byte_of(piece: &[u8]) -> Option<u8> {
    let digits = piece.strip_prefix(b"<0x")?.strip_suffix(b">")?;
    if digits.len() != 2 || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

/// Finds the longest of some strings that a text starts with.
#[derive(Clone, Debug, Default)]
pub(super) struct PrefixMatcher {
    tokens: HashMap<Box<[u8]>, u32>,
    /// The strings' lengths, longest first.
    lengths: Vec<usize>,
    /// The bytes that strings begin with: most places of a text are passed over by it.
    first: FirstBytes,
}

/// A set of bytes.
#[derive(Clone, Debug, Default)]
struct FirstBytes([u64; 4]);

impl FirstBytes {
    fn insert(&mut self, byte: u8) {
        self.0[usize::from(byte >> 6)] |= 1 << (byte & 63);
    }

    fn contains(&self, byte: u8) -> bool {
        self.0[usize::from(byte >> 6)] >> (byte & 63) & 1 == 1
    }
}

impl PrefixMatcher {
    /// Itself, if it is wanted and has anything to find.
    fn filter(&self, wanted: bool) -> Option<&PrefixMatcher> {
        (wanted && !self.tokens.is_empty()).then_some(self)
    }

    /// The empty string is no prefix of anything here.
    pub fn add(&mut self, text: &[u8], token: u32) {
        let Some(first) = text.first() else {
            return;
        };
        self.first.insert(*first);
        self.tokens.entry(text.into()).or_insert(token);
        if let Err(place) = self
            .lengths
            .binary_search_by(|length| text.len().cmp(length))
        {
            self.lengths.insert(place, text.len());
        }
    }

    fn longest(&self, text: &[u8]) -> Option<(usize, u32)> {
        if !self.first.contains(*text.first()?) {
            return None;
        }
        self.lengths.iter().find_map(|length| {
            let token = self.tokens.get(text.get(..*length)?)?;
            Some((*length, *token))
        })
    }

    /// The first of the strings in `text` from a place on, of several that start there the longest: (where, its length,
    /// its token).
    pub fn find(&self, text: &str, from: usize) -> Option<(usize, usize, u32)> {
        let bytes = text.as_bytes();
        (from..bytes.len()).find_map(|start| {
            if !self.first.contains(bytes[start]) || !text.is_char_boundary(start) {
                return None;
            }
            let (length, token) = self.longest(&bytes[start..])?;
            // A name that is no UTF-8 may end inside a character.
            text.is_char_boundary(start + length)
                .then_some((start, length, token))
        })
    }
}
