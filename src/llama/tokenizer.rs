//! The tokenizer that a model brings with it.
//!
//! There are four kinds. SentencePiece's (`merge`) merges characters, best score first, as its `bpe_model.cc` does;
//! what the vocabulary lacks is spelled in byte tokens, and a space is the character `▁` (U+2581) inside a piece. The
//! byte-level ones of GPT-2, Llama 3 and Qwen cut a text into words (`pre_tokenizer`) and merge bytes by a list of
//! pairs (`pairs`). SentencePiece's unigram models (`unigram`) have the pieces of the best sum of scores. BERT's
//! (`word_piece`) take the longest piece that a word starts with. What `tokenizer.json` does around them is `pipeline`.
//!
//! The `tokenizers` crate is not used, though the tests hold this to what that package does: it cannot read
//! vocabularies from GGUF, its tokens have no bytes to stream, and it brings some sixty crates.

mod added_tokens;
mod byte_alphabet;
mod decoder;
mod merge;
mod pairs;
mod pipeline;
mod prefix_search;
mod sentencepiece_normalizer;
mod space_prefix;
mod unigram;
mod vocabulary;
mod word_piece;

use std::borrow::Cow;

use unicode_normalization::UnicodeNormalization;

use super::error::LlamaError;
use crate::llama::files::gguf::Metadata;
use crate::llama::pre_tokenizer::PreTokenizer;
use crate::llama::tokenizer_json::{Bert, Normalizer, bert_words, keys};
pub use decoder::Decoder;
pub(crate) use decoder::DecoderState;
use pairs::Pairs;
use pipeline::Pipeline;
use sentencepiece_normalizer::SentencePieceNormalizer;
use space_prefix::SpacePrefix;
use unigram::{Precision, Unigram};
pub use vocabulary::{TokenKind, TokenizerError};
use vocabulary::{UserDefined, Vocabulary};
use word_piece::WordPiece;

/// What SentencePiece writes for a space.
const SPACE: &str = "\u{2581}";

/// Turns text into tokens and back.
#[derive(Clone, Debug)]
pub struct Tokenizer {
    vocabulary: Vocabulary,
    algorithm: Algorithm,
    /// What SentencePiece does first.
    normalizer: SentencePieceNormalizer,
    /// What `tokenizer.json` does first, in its place.
    pipeline: Option<Box<Pipeline>>,
    bos: Option<u32>,
    eos: Option<u32>,
    /// Every token that ends a text or a turn.
    ends: Vec<u32>,
    /// What a text gets before it and behind it.
    prefix: Vec<u32>,
    suffix: Vec<u32>,
}

/// How text becomes tokens.
#[derive(Clone, Debug)]
enum Algorithm {
    /// Characters merge to the piece of the best score.
    Scores,
    /// The pieces have the best sum of scores.
    Unigram(Unigram),
    /// The longest piece of a word counts.
    WordPiece(WordPiece),
    /// The bytes of each word merge by a list of pairs.
    Bytes {
        pairs: Pairs,
        pre_tokenizer: &'static PreTokenizer,
        /// The token of each byte, where it has one. A byte without one is left out, as `tokenizers` and llama.cpp do.
        letters: Box<[Option<u32>; 256]>,
    },
}

/// Names of tokens that end a text or a turn in the families of models that are supported here. Files often name one as
/// the end while the model writes another.
const ENDS: [&str; 7] = [
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end_of_text|>",
    "<|endoftext|>",
    "<|im_end|>",
    "<|end|>",
    "<end_of_turn>",
];

/// What [`Tokenizer::encode_with`] does besides splitting text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EncodeOptions {
    /// Puts the tokens for the begin and the end of a text where the model wants them.
    pub add_special: bool,
    /// Reads the names of control tokens, such as `</s>`, as those tokens and not as text. Leave it off for text from
    /// strangers.
    pub parse_special: bool,
}

impl Tokenizer {
    fn new(
        vocabulary: Vocabulary,
        algorithm: Algorithm,
        normalizer: SentencePieceNormalizer,
    ) -> Tokenizer {
        let named = |name: &&str| vocabulary.named(name.as_bytes());
        Tokenizer {
            ends: ENDS.iter().filter_map(named).collect(),
            vocabulary,
            algorithm,
            normalizer,
            pipeline: None,
            bos: None,
            eos: None,
            prefix: Vec::new(),
            suffix: Vec::new(),
        }
    }

    /// The tokenizer in a GGUF file's metadata, whose `tokenizer.ggml.model` must be `"llama"`, `"t5"`,
    /// `"gpt2"` or `"bert"`.
    ///
    /// # Errors
    ///
    /// [`LlamaError::Metadata`] when a key is missing or of another type, [`LlamaError::Tokenizer`] when the values do
    /// not make a tokenizer.
    pub fn from_metadata(metadata: &Metadata) -> Result<Tokenizer, LlamaError> {
        let model: &str = metadata.require("tokenizer.ggml.model")?;
        // Files that do not say have LLaMA's own: <unk>, <s>, </s> and a space before the text.
        let (mut tokenizer, bos, eos) = match model {
            "llama" => (Tokenizer::with_scores(metadata)?, Some(1), Some(2)),
            "t5" => (Tokenizer::with_unigram(metadata)?, None, Some(1)),
            "gpt2" => (Tokenizer::with_merges(metadata)?, None, None),
            "bert" => (Tokenizer::with_word_pieces(metadata)?, Some(101), Some(102)),
            other => return Err(TokenizerError::Model(other.to_owned()).into()),
        };
        let id = |name: &str| metadata.get(&format!("tokenizer.ggml.{name}_token_id"));
        // BERT's files name the tokens around a text by their own names, with the format's spelling.
        let around = |own: &str, general: &str| match model {
            "bert" => Ok(id(own)?.or(id(general)?)),
            _ => id(general),
        };
        tokenizer.set_bos(around("cls", "bos")?.or(bos))?;
        tokenizer.set_eos(around("seperator", "eos")?.or(eos))?;
        for name in ["eot", "eom"] {
            if let Some(token) = id(name)? {
                tokenizer.ends.push(tokenizer.checked(name, token)?);
            }
        }
        // A folder may name any number of them.
        let others: Option<&[u32]> = metadata.get("tokenizer.huggingface.end_token_ids")?;
        for token in others.unwrap_or_default() {
            tokenizer.ends.push(tokenizer.checked("end", *token)?);
        }
        let add_bos = match &tokenizer.algorithm {
            Algorithm::Bytes { pre_tokenizer, .. } => pre_tokenizer.adds_bos(),
            Algorithm::Unigram(_) => false,
            Algorithm::Scores | Algorithm::WordPiece(_) => true,
        };
        let add_eos = matches!(
            tokenizer.algorithm,
            Algorithm::Unigram(_) | Algorithm::WordPiece(_)
        );
        let flag = |key: &str| metadata.get::<bool>(&format!("tokenizer.ggml.{key}"));
        let add_bos = flag("add_bos_token")?.unwrap_or(add_bos);
        let add_eos = flag("add_eos_token")?.unwrap_or(add_eos);
        tokenizer.prefix = tokenizer.bos.into_iter().filter(|_| add_bos).collect();
        tokenizer.suffix = tokenizer.eos.into_iter().filter(|_| add_eos).collect();
        let pipeline = Pipeline::from_metadata(metadata, tokenizer.vocabulary_size())?;
        tokenizer.pipeline = pipeline.map(Box::new);
        Ok(tokenizer)
    }

    /// SentencePiece's of merges, in GGUF.
    fn with_scores(metadata: &Metadata) -> Result<Tokenizer, LlamaError> {
        let vocabulary = Tokenizer::scored(metadata, 0)?;
        let normalizer = SentencePieceNormalizer::from_metadata(metadata)?;
        Ok(Tokenizer::new(vocabulary, Algorithm::Scores, normalizer))
    }

    /// SentencePiece's of a unigram model, in GGUF.
    fn with_unigram(metadata: &Metadata) -> Result<Tokenizer, LlamaError> {
        let vocabulary = Tokenizer::scored(metadata, 2)?;
        let precision = match metadata.value(keys::PRE_TOKENIZER) {
            Some(_) => Precision::Double,
            None => Precision::Single,
        };
        let algorithm = Algorithm::Unigram(Unigram::new(&vocabulary, precision));
        let normalizer = SentencePieceNormalizer::from_metadata(metadata)?;
        Ok(Tokenizer::new(vocabulary, algorithm, normalizer))
    }

    /// BERT's, in GGUF. The format has no scores for it, and llama.cpp takes 100 for the unknown token.
    fn with_word_pieces(metadata: &Metadata) -> Result<Tokenizer, LlamaError> {
        let pieces: &[Box<[u8]>] = metadata.require("tokenizer.ggml.tokens")?;
        let unknown = metadata.get("tokenizer.ggml.unknown_token_id")?;
        let scores = vec![0.0; pieces.len()];
        let vocabulary = Tokenizer::vocabulary(metadata, pieces, &scores, unknown.unwrap_or(100))?;
        let longest_word = metadata.get(keys::LONGEST_WORD)?;
        let algorithm = Algorithm::WordPiece(WordPiece::new(&vocabulary, longest_word));
        // Words are joined by spaces, and the first has none.
        let normalizer = SentencePieceNormalizer::new(SpacePrefix::EveryPart);
        Ok(Tokenizer::new(vocabulary, algorithm, normalizer))
    }

    /// The vocabulary of a file with scores; `otherwise`: the unknown token where the file does not say.
    fn scored(metadata: &Metadata, otherwise: u32) -> Result<Vocabulary, LlamaError> {
        let unknown = metadata.get("tokenizer.ggml.unknown_token_id")?;
        let scores = metadata.require("tokenizer.ggml.scores")?;
        let pieces = metadata.require("tokenizer.ggml.tokens")?;
        Tokenizer::vocabulary(metadata, pieces, scores, unknown.unwrap_or(otherwise))
    }

    fn vocabulary(
        metadata: &Metadata,
        pieces: &[Box<[u8]>],
        scores: &[f32],
        unknown: u32,
    ) -> Result<Vocabulary, LlamaError> {
        let kinds = metadata.require("tokenizer.ggml.token_type")?;
        let mut vocabulary = Vocabulary::new(pieces, scores, kinds, unknown)?;
        if Pipeline::is_described(metadata) {
            vocabulary.only_name_user_defined();
        }
        Ok(vocabulary)
    }

    /// A byte-level one, in GGUF.
    fn with_merges(metadata: &Metadata) -> Result<Tokenizer, LlamaError> {
        let name: Option<&str> = metadata.get("tokenizer.ggml.pre")?;
        let name = name.unwrap_or("default");
        let pre_tokenizer = PreTokenizer::from_gguf_name(name)
            .ok_or_else(|| TokenizerError::PreTokenizer(name.to_owned()))?;
        let pieces: &[Box<[u8]>] = metadata.require("tokenizer.ggml.tokens")?;
        let kinds: &[i32] = metadata.require("tokenizer.ggml.token_type")?;
        // Only ordinary tokens are written in the alphabet of bytes.
        let ordinary = |kind: Option<&i32>| kind == Some(&(TokenKind::Normal as i32));
        let texts = pieces
            .iter()
            .enumerate()
            .map(|(id, piece)| match ordinary(kinds.get(id)) {
                true => byte_alphabet::bytes_of(piece),
                false => piece.clone(),
            });
        let texts: Vec<Box<[u8]>> = texts.collect();
        let scores = vec![0.0; texts.len()];
        let vocabulary = Tokenizer::vocabulary(metadata, &texts, &scores, 0)?;
        let merges: &[Box<[u8]>] = metadata.require("tokenizer.ggml.merges")?;
        let pairs = read_pairs(merges, &vocabulary)?;
        let algorithm = Algorithm::Bytes {
            pairs,
            pre_tokenizer,
            letters: letters(&vocabulary),
        };
        let normalizer = SentencePieceNormalizer::new(SpacePrefix::Nowhere);
        Ok(Tokenizer::new(vocabulary, algorithm, normalizer))
    }

    fn set_bos(&mut self, token: Option<u32>) -> Result<(), TokenizerError> {
        self.bos = token.map(|token| self.checked("bos", token)).transpose()?;
        Ok(())
    }

    fn set_eos(&mut self, token: Option<u32>) -> Result<(), TokenizerError> {
        self.eos = token.map(|token| self.checked("eos", token)).transpose()?;
        self.ends.extend(self.eos);
        Ok(())
    }

    fn checked(&self, name: &'static str, id: u32) -> Result<u32, TokenizerError> {
        let vocabulary = self.vocabulary.len();
        match id < vocabulary {
            true => Ok(id),
            false => Err(TokenizerError::SpecialToken {
                name,
                id,
                vocabulary,
            }),
        }
    }

    /// How many tokens there are.
    pub fn vocabulary_size(&self) -> u32 {
        self.vocabulary.len()
    }

    /// The token that begins a text, where there is one.
    pub fn bos(&self) -> Option<u32> {
        self.bos
    }

    /// The token that ends a text, where it is known.
    pub fn eos(&self) -> Option<u32> {
        self.eos
    }

    /// Whether a model that writes this token has finished its text or its turn.
    pub fn is_end(&self, token: u32) -> bool {
        self.ends.contains(&token)
    }

    /// A token's piece and what kind it is; `None` outside the vocabulary. A piece of SentencePiece's is as the
    /// vocabulary has it, one of a byte-level vocabulary is the bytes that it stands for.
    pub fn piece(&self, token: u32) -> Option<(&[u8], TokenKind)> {
        self.vocabulary.piece(token)
    }

    /// The control or other token of exactly this name.
    pub fn token(&self, name: &str) -> Option<u32> {
        self.vocabulary.named(name.as_bytes())
    }

    /// Whether pieces have [`SPACE`] for a space.
    fn escapes_spaces(&self) -> bool {
        !matches!(self.algorithm, Algorithm::Bytes { .. })
    }

    /// The tokens of a text, and nothing else.
    pub fn encode(&self, text: &str) -> Vec<u32> {
        self.encode_with(text, EncodeOptions::default())
    }

    /// The tokens of a text.
    pub fn encode_with(&self, text: &str, options: EncodeOptions) -> Vec<u32> {
        let mut tokens = Vec::new();
        if options.add_special {
            tokens.extend(&self.prefix);
        }
        self.encode_parts(text, true, options.parse_special, &mut tokens);
        if options.add_special {
            tokens.extend(&self.suffix);
        }
        tokens
    }

    /// Appends the tokens of what begins a text, or of what goes on behind a control token in it.
    pub(super) fn encode_parts(
        &self,
        text: &str,
        begins: bool,
        parse_special: bool,
        tokens: &mut Vec<u32>,
    ) {
        if let Some(pipeline) = &self.pipeline {
            let encode = |word: &str, tokens: &mut Vec<u32>| self.encode_word(word, tokens);
            return pipeline.encode(text, begins, parse_special, tokens, encode);
        }
        // SentencePiece looks for the others when it splits, after the spaces are escaped.
        let user_defined = match self.algorithm {
            Algorithm::Scores | Algorithm::Unigram(_) => UserDefined::WithSpace,
            Algorithm::Bytes { .. } | Algorithm::WordPiece(_) => UserDefined::All,
        };
        let mut rest = text;
        let find = |text| {
            self.vocabulary
                .find_named(text, parse_special, user_defined)
        };
        let is_first = |rest: &str| begins && rest.len() == text.len();
        while let Some((start, length, token)) = find(rest) {
            self.encode_part(&rest[..start], is_first(rest), tokens);
            tokens.push(token);
            rest = &rest[start + length..];
        }
        self.encode_part(rest, is_first(rest), tokens);
    }

    /// Appends the tokens of text without named ones.
    fn encode_part(&self, text: &str, first: bool, tokens: &mut Vec<u32>) {
        if text.is_empty() {
            return;
        }
        match &self.algorithm {
            Algorithm::Scores | Algorithm::Unigram(_) => {
                let normalized = self.normalizer.apply(&self.vocabulary, text, first);
                self.encode_word(&normalized, tokens);
            }
            // GGUF does not say how the text was normalized, and most models are uncased.
            Algorithm::WordPiece(_) => {
                let normalized = Normalizer::Bert(Bert::UNCASED).apply(text);
                for word in bert_words(&normalized) {
                    self.encode_word(word, tokens);
                }
            }
            Algorithm::Bytes { .. } => self.encode_word(text, tokens),
        }
    }

    /// Appends the tokens of text to which all else has happened.
    fn encode_word(&self, text: &str, tokens: &mut Vec<u32>) {
        match &self.algorithm {
            Algorithm::Scores => merge::encode(&self.vocabulary, text, tokens),
            Algorithm::Unigram(unigram) => unigram.encode(&self.vocabulary, text, tokens),
            Algorithm::WordPiece(word_piece) => word_piece.encode(&self.vocabulary, text, tokens),
            Algorithm::Bytes {
                pairs,
                pre_tokenizer,
                letters,
            } => {
                let text = match pre_tokenizer.composes() {
                    true => Cow::Owned(text.nfc().collect()),
                    false => Cow::Borrowed(text),
                };
                for word in pre_tokenizer.split(&text) {
                    let whole = self.vocabulary.text(word.as_bytes());
                    match whole.filter(|_| pre_tokenizer.keeps_whole_words()) {
                        Some(token) => tokens.push(token),
                        None => {
                            let bytes = word.bytes();
                            let symbols: Vec<u32> = bytes
                                .filter_map(|byte| letters[usize::from(byte)])
                                .collect();
                            pairs.merge(&symbols, tokens);
                        }
                    }
                }
            }
        }
    }

    /// The text of tokens. The space that encoding puts before a text is taken away again; control tokens have no text;
    /// bytes that are no UTF-8 become U+FFFD.
    ///
    /// # Errors
    ///
    /// [`TokenizerError::OutOfRange`] for a token outside the vocabulary.
    pub fn decode(&self, tokens: &[u32]) -> Result<String, TokenizerError> {
        let mut decoder = Decoder::of_text(self);
        let mut text = String::new();
        for token in tokens {
            text.push_str(decoder.push(*token)?);
        }
        text.push_str(decoder.finish());
        Ok(text)
    }
}

/// Pairs of pieces, written with a space between them: no piece has one in the alphabet of bytes.
fn read_pairs(merges: &[Box<[u8]>], vocabulary: &Vocabulary) -> Result<Pairs, TokenizerError> {
    let token = |piece: &[u8]| vocabulary.text(&byte_alphabet::bytes_of(piece));
    let mut pairs = Pairs::default();
    for (rank, merge) in (0..).zip(merges) {
        let split = merge.iter().position(|byte| *byte == b' ');
        let halves = split.map(|space| (&merge[..space], &merge[space + 1..]));
        let tokens = halves.and_then(|(left, right)| {
            Some((token(left)?, token(right)?, token(&[left, right].concat())?))
        });
        let (left, right, merged) = tokens.ok_or(TokenizerError::Merge(rank as usize))?;
        pairs.insert(left, right, rank, merged);
    }
    Ok(pairs)
}

/// The token of each byte, where it has one.
fn letters(vocabulary: &Vocabulary) -> Box<[Option<u32>; 256]> {
    let mut tokens = Box::new([None; 256]);
    for (byte, token) in (0..=u8::MAX).zip(tokens.iter_mut()) {
        *token = vocabulary.text(&[byte]);
    }
    tokens
}

#[cfg(test)]
mod tests;
