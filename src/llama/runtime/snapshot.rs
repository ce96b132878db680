//! Sequences as bytes, and copies of them.
//!
//! The layout, in the machine's byte order: [`Header`], the tokens as u32, then each layer's keys and values of the
//! tokens' positions as they lie in the cache.

use super::sequences::Sequences;
use crate::error::Result;
use crate::llama::error::LlamaError;
use crate::llama::model::kv_cache::KvCache;

/// "ironseq" and the version of the layout.
const MAGIC: u64 = u64::from_ne_bytes(*b"ironseq\x01");

/// What must be the same where bytes are restored. All numbers are u64.
#[derive(Debug, PartialEq, Eq)]
struct Header {
    vocabulary: u64,
    width: u64,
    layers: u64,
    /// Bytes of one position's keys in one layer.
    row: u64,
    /// The number of the cache's type in the C ABI.
    cache_type: u64,
}

const NUMBERS: usize = 7;
const WORD: usize = size_of::<u64>();

impl Sequences {
    fn header(&self, cache: &KvCache) -> Header {
        let config = self.model().config();
        Header {
            vocabulary: config.vocabulary as u64,
            width: config.width as u64,
            layers: config.layers as u64,
            row: cache.row_bytes() as u64,
            cache_type: u64::from(cache.dtype_number()),
        }
    }

    /// The tokens of text `index` and their keys and values, as bytes for [`restore`](Sequences::restore). The logits
    /// are not among them.
    ///
    /// # Errors
    ///
    /// [`LlamaError::Sequence`] when there is no such text, and the device's errors.
    pub fn save(&self, index: usize) -> Result<Vec<u8>> {
        let sequence = self.sequence(index)?;
        let (tokens, cache) = (&sequence.tokens, &sequence.cache);
        let Header {
            vocabulary,
            width,
            layers,
            row,
            cache_type,
        } = self.header(cache);
        let numbers: [u64; NUMBERS] = [
            MAGIC,
            vocabulary,
            width,
            layers,
            row,
            cache_type,
            tokens.len() as u64,
        ];
        let mut bytes = Vec::with_capacity(self.saved_length(index)?);
        bytes.extend(numbers.iter().flat_map(|number| number.to_ne_bytes()));
        bytes.extend(tokens.iter().flat_map(|token| token.to_ne_bytes()));
        cache.read(tokens.len(), &mut bytes)?;
        Ok(bytes)
    }

    /// How many bytes [`save`](Sequences::save) gives.
    ///
    /// # Errors
    ///
    /// [`LlamaError::Sequence`] when there is no such text.
    pub fn saved_length(&self, index: usize) -> Result<usize> {
        let sequence = self.sequence(index)?;
        Ok(saved_length(&sequence.cache, sequence.tokens.len()))
    }

    /// Makes text `index` what was saved, by this model or another one of its file and with the same
    /// [`CacheType`](crate::llama::CacheType). There are no logits until a token is fed: rewind by one and feed the
    /// last token again.
    ///
    /// The bytes are checked for what they belong to and for their length, and then used: they are as trusted as the
    /// program.
    ///
    /// # Errors
    ///
    /// [`LlamaError::Snapshot`] when the bytes are of something else, [`LlamaError::ContextFull`] when the text has
    /// more tokens than there is room for, both before anything is changed; [`LlamaError::Sequence`], and the device's
    /// errors, after which the text is empty.
    pub fn restore(&mut self, index: usize, bytes: &[u8]) -> Result<()> {
        let expected = self.header(&self.sequence(index)?.cache);
        let context = self.context();
        let wrong = |reason: &str| LlamaError::Snapshot(reason.to_owned());
        let (numbers, rest) = bytes
            .split_at_checked(NUMBERS * WORD)
            .ok_or_else(|| wrong("it is too short"))?;
        let (words, _) = numbers.as_chunks::<WORD>();
        let number = |place: usize| u64::from_ne_bytes(words[place]);
        if number(0) != MAGIC {
            return Err(wrong("it is none, or of another version or byte order").into());
        }
        let found = Header {
            vocabulary: number(1),
            width: number(2),
            layers: number(3),
            row: number(4),
            cache_type: number(5),
        };
        if found != expected {
            let reason = format!("it is of another model or cache: {found:?}, {expected:?}");
            return Err(LlamaError::Snapshot(reason).into());
        }
        let count = usize::try_from(number(6)).unwrap_or(usize::MAX);
        if count > context {
            let tokens = count;
            return Err(LlamaError::ContextFull { tokens, context }.into());
        }
        let vocabulary = expected.vocabulary;
        let sequence = self.sequence_mut(index)?;
        if bytes.len() != saved_length(&sequence.cache, count) {
            return Err(wrong("its length is not that of its tokens").into());
        }
        let (tokens, cache) = rest.split_at(count * size_of::<u32>());
        let (tokens, _) = tokens.as_chunks();
        let tokens: Vec<u32> = tokens
            .iter()
            .map(|token| u32::from_ne_bytes(*token))
            .collect();
        if let Some(id) = tokens.iter().find(|token| u64::from(**token) >= vocabulary) {
            return Err(LlamaError::Snapshot(format!("it has the token {id}")).into());
        }
        sequence.tokens.clear();
        sequence.logits = None;
        sequence.cache.write(count, cache)?;
        sequence.tokens.extend(tokens);
        Ok(())
    }

    /// Makes text `to` what `from` is, but for the logits.
    ///
    /// # Errors
    ///
    /// [`LlamaError::Sequence`] when one of them is not there, and the device's errors, after which `to` is empty.
    pub fn copy(&mut self, from: usize, to: usize) -> Result<()> {
        let tokens = self.sequence(from)?.tokens.clone();
        self.sequence(to)?;
        if from == to {
            return Ok(());
        }
        let target = self.sequence_mut(to)?;
        target.tokens.clear();
        target.logits = None;
        if !tokens.is_empty() {
            let mut commands = self.model().device().commands()?;
            let (source, target) = (&self.sequence(from)?.cache, &self.sequence(to)?.cache);
            source.copy_to(target, &mut commands, tokens.len())?;
            commands.run()?;
        }
        self.sequence_mut(to)?.tokens.extend(tokens);
        Ok(())
    }
}

fn saved_length(cache: &KvCache, tokens: usize) -> usize {
    NUMBERS * WORD + tokens * (size_of::<u32>() + cache.position_bytes())
}
