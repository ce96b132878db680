//! `tokenizer.model`: SentencePiece's model, a protocol buffer
//! (<https://github.com/google/sentencepiece/blob/master/src/sentencepiece_model.proto>).

use super::error::HuggingFaceError;
use crate::llama::tokenizer_json::CharacterMap;

/// What of the file a tokenizer is made from.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct SentencePieceModel {
    pub kind: SentencePieceKind,
    pub pieces: Vec<Piece>,
    pub add_space_prefix: bool,
    pub removes_extra_spaces: bool,
    /// The normalizer's table, checked; empty for none.
    pub character_map: Vec<u8>,
    pub unknown: u32,
    pub bos: Option<u32>,
    pub eos: Option<u32>,
}

/// `TrainerSpec.ModelType`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum SentencePieceKind {
    #[default]
    Unigram,
    BytePairs,
}

impl SentencePieceKind {
    fn from_number(number: u64) -> Option<SentencePieceKind> {
        match number {
            1 => Some(SentencePieceKind::Unigram),
            2 => Some(SentencePieceKind::BytePairs),
            _ => None,
        }
    }

    /// GGUF's name for it.
    pub fn in_gguf(self) -> &'static str {
        match self {
            SentencePieceKind::Unigram => "t5",
            SentencePieceKind::BytePairs => "llama",
        }
    }
}

/// Kinds have the numbers that GGUF has for them: 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Piece {
    pub text: Box<[u8]>,
    pub score: f32,
    pub kind: i32,
}

/// The numbers of the fields that are read.
mod fields {
    pub const PIECES: u64 = 1;
    pub const TRAINER: u64 = 2;
    pub const NORMALIZER: u64 = 3;

    pub const PIECE_TEXT: u64 = 1;
    pub const PIECE_SCORE: u64 = 2;
    pub const PIECE_KIND: u64 = 3;

    pub const MODEL_TYPE: u64 = 3;
    pub const SPACE_AS_SUFFIX: u64 = 24;
    pub const UNKNOWN_ID: u64 = 40;
    pub const BOS_ID: u64 = 41;
    pub const EOS_ID: u64 = 42;

    pub const CHARACTER_MAP: u64 = 2;
    pub const ADD_DUMMY_PREFIX: u64 = 3;
    pub const REMOVE_EXTRA_WHITESPACES: u64 = 4;
    pub const ESCAPE_WHITESPACES: u64 = 5;
}

impl SentencePieceModel {
    pub fn parse(file: &[u8]) -> Result<SentencePieceModel, HuggingFaceError> {
        // The format's defaults.
        let mut model = SentencePieceModel {
            add_space_prefix: true,
            removes_extra_spaces: true,
            unknown: 0,
            bos: Some(1),
            eos: Some(2),
            ..SentencePieceModel::default()
        };
        let mut fields = Fields::new(file, 0);
        while let Some((field, value)) = fields.next()? {
            match (field, value) {
                (fields::PIECES, Field::Bytes(bytes, offset)) => {
                    model.pieces.push(piece(Fields::new(bytes, offset))?);
                }
                (fields::TRAINER, Field::Bytes(bytes, offset)) => {
                    model.read_trainer(Fields::new(bytes, offset))?;
                }
                (fields::NORMALIZER, Field::Bytes(bytes, offset)) => {
                    model.read_normalizer(Fields::new(bytes, offset))?;
                }
                _ => (),
            }
        }
        Ok(model)
    }

    fn read_trainer(&mut self, mut trainer: Fields) -> Result<(), HuggingFaceError> {
        while let Some((field, value)) = trainer.next()? {
            match (field, value) {
                (fields::MODEL_TYPE, Field::Number(number)) => {
                    let kind = SentencePieceKind::from_number(number);
                    let reason = "it is a model of words or characters; unigram and byte-pair encoding are supported";
                    self.kind = kind.ok_or_else(|| trainer.error(reason))?;
                }
                (fields::SPACE_AS_SUFFIX, Field::Number(1..)) => {
                    return Err(
                        trainer.error("it writes spaces behind words, which is not supported")
                    );
                }
                (fields::UNKNOWN_ID, Field::Number(id)) => self.unknown = id as u32,
                (fields::BOS_ID, Field::Number(id)) => self.bos = token(id),
                (fields::EOS_ID, Field::Number(id)) => self.eos = token(id),
                _ => (),
            }
        }
        Ok(())
    }

    fn read_normalizer(&mut self, mut normalizer: Fields) -> Result<(), HuggingFaceError> {
        while let Some((field, value)) = normalizer.next()? {
            match (field, value) {
                (fields::CHARACTER_MAP, Field::Bytes(map, offset)) => {
                    if !map.is_empty() {
                        CharacterMap::parse(map)
                            .map_err(|reason| HuggingFaceError::SentencePiece { offset, reason })?;
                    }
                    self.character_map = map.to_vec();
                }
                (fields::ADD_DUMMY_PREFIX, Field::Number(number)) => {
                    self.add_space_prefix = number != 0
                }
                (fields::REMOVE_EXTRA_WHITESPACES, Field::Number(number)) => {
                    self.removes_extra_spaces = number != 0
                }
                (fields::ESCAPE_WHITESPACES, Field::Number(0)) => {
                    return Err(
                        normalizer.error("it does not escape spaces, which is not supported")
                    );
                }
                _ => (),
            }
        }
        Ok(())
    }
}

/// -1 stands for none.
fn token(id: u64) -> Option<u32> {
    u32::try_from(id).ok()
}

fn piece(mut fields: Fields) -> Result<Piece, HuggingFaceError> {
    let mut piece = Piece {
        text: Box::default(),
        score: 0.0,
        kind: 1,
    };
    while let Some((field, value)) = fields.next()? {
        match (field, value) {
            (fields::PIECE_TEXT, Field::Bytes(text, _)) => piece.text = text.into(),
            (fields::PIECE_SCORE, Field::Four(bytes)) => piece.score = f32::from_le_bytes(bytes),
            (fields::PIECE_KIND, Field::Number(number)) => piece.kind = number as i32,
            _ => (),
        }
    }
    Ok(piece)
}

/// The fields of a message: <https://protobuf.dev/programming-guides/encoding/>.
struct Fields<'a> {
    bytes: &'a [u8],
    /// Where `bytes` starts in the file.
    offset: usize,
}

enum Field<'a> {
    Number(u64),
    Eight,
    Four([u8; 4]),
    /// And where they are in the file.
    Bytes(&'a [u8], usize),
}

impl<'a> Fields<'a> {
    fn new(bytes: &'a [u8], offset: usize) -> Fields<'a> {
        Fields { bytes, offset }
    }

    fn next(&mut self) -> Result<Option<(u64, Field<'a>)>, HuggingFaceError> {
        if self.bytes.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let value = match tag & 7 {
            0 => Field::Number(self.varint()?),
            1 => {
                self.take(8)?;
                Field::Eight
            }
            2 => {
                let length = self.varint()?;
                let bytes = self.take(length)?;
                Field::Bytes(bytes, self.offset - bytes.len())
            }
            5 => {
                let mut four = [0; 4];
                four.copy_from_slice(self.take(4)?);
                Field::Four(four)
            }
            _ => return Err(self.error("a field of a kind that is not known")),
        };
        Ok(Some((tag >> 3, value)))
    }

    fn varint(&mut self) -> Result<u64, HuggingFaceError> {
        let mut number = 0u64;
        for position in 0..10 {
            let byte = self.take(1)?[0];
            // The tenth byte has one bit of the 64.
            number |= u64::from(byte & 0x7f) << (7 * position);
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(self.error("a number of more than 64 bits"))
    }

    fn take(&mut self, length: u64) -> Result<&'a [u8], HuggingFaceError> {
        if length > self.bytes.len() as u64 {
            return Err(self.error("the file, or a part of it, ends inside a field"));
        }
        let (taken, rest) = self.bytes.split_at(length as usize);
        self.bytes = rest;
        self.offset += taken.len();
        Ok(taken)
    }

    fn error(&self, reason: &'static str) -> HuggingFaceError {
        let offset = self.offset;
        HuggingFaceError::SentencePiece { offset, reason }
    }
}
