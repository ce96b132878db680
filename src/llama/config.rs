//! The hyper-parameters of a LLaMA.

use super::LlamaError;
use super::gguf::Metadata;
use crate::ops::RopePairing;

/// The shape of a model, as its file's metadata states it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Config {
    /// Tokens that the model knows.
    pub vocabulary: usize,
    /// Elements of a token between the layers.
    pub width: usize,
    /// Layers.
    pub layers: usize,
    /// Heads of a query.
    pub heads: usize,
    /// Heads of a key and of a value; `heads` is a multiple of it.
    pub kv_heads: usize,
    /// Elements of a head, at most 256.
    pub head_dim: usize,
    /// Elements of a token inside the feed-forward network.
    pub feed_forward: usize,
    /// Positions that the model was trained on.
    pub context: usize,
    /// How many positions back a token sees; 0: all.
    pub window: usize,
    /// Elements of a head that are rotated; even, at most `head_dim`.
    pub rotary_dim: usize,
    /// The base of the rotation's frequencies.
    pub rope_base: f32,
    /// What positions are multiplied with: below 1 where a model was stretched to a longer context.
    pub rope_scale: f32,
    /// Which elements of a head are rotated together: how the weights of queries and keys are ordered in the file.
    pub rope_pairing: RopePairing,
    /// What keeps the norms from dividing by zero.
    pub rms_epsilon: f32,
}

/// Bounds far above those of any LLaMA, below which no product of two sizes, nor of a size and a batch, overflows.
mod limits {
    pub const LAYERS: usize = 1 << 12;
    pub const WIDTH: usize = 1 << 20;
    pub const FEED_FORWARD: usize = 1 << 22;
    pub const HEADS: usize = 1 << 12;
    pub const HEAD_DIM: usize = 256; // the attention kernels'
    pub const CONTEXT: usize = 1 << 28;
}

impl Config {
    /// Reads the hyper-parameters of a file whose tokenizer has `vocabulary` tokens.
    ///
    /// # Errors
    ///
    /// [`LlamaError::Metadata`] when a key is missing or has another type, [`LlamaError::Hyperparameter`] when a value
    /// is absurd, contradicts another one or asks for what is not supported here.
    pub fn from_metadata(metadata: &Metadata, vocabulary: u32) -> Result<Config, LlamaError> {
        let architecture: &str = metadata.require("general.architecture")?;
        if architecture != "llama" {
            return Err(wrong(
                "general.architecture",
                architecture,
                "only \"llama\" is supported",
            ));
        }
        let reader = Reader(metadata);
        let width = reader.size("llama.embedding_length", None, limits::WIDTH)?;
        let heads = reader.size("llama.attention.head_count", None, limits::HEADS)?;
        let head_dim = match width % heads {
            0 => Some(width / heads),
            _ => None, // then the file has to say
        };
        let head_dim = reader.size("llama.attention.key_length", head_dim, limits::HEAD_DIM)?;
        let config = Config {
            vocabulary: vocabulary as usize,
            width,
            layers: reader.size("llama.block_count", None, limits::LAYERS)?,
            heads,
            kv_heads: reader.size("llama.attention.head_count_kv", Some(heads), heads)?,
            head_dim,
            feed_forward: reader.size("llama.feed_forward_length", None, limits::FEED_FORWARD)?,
            context: reader.size("llama.context_length", None, limits::CONTEXT)?,
            window: metadata
                .get("llama.attention.sliding_window")?
                .unwrap_or(0u32) as usize,
            rotary_dim: reader.size("llama.rope.dimension_count", Some(head_dim), head_dim)?,
            rope_base: reader.positive("llama.rope.freq_base", Some(10_000.0))?,
            rope_scale: reader.rope_scale()?,
            // llama.cpp's converter reorders the weights for it.
            rope_pairing: RopePairing::Interleaved,
            rms_epsilon: reader.positive("llama.attention.layer_norm_rms_epsilon", None)?,
        };
        config.check(&reader)?;
        Ok(config)
    }

    fn check(&self, reader: &Reader) -> Result<(), LlamaError> {
        if !self.heads.is_multiple_of(self.kv_heads) {
            let reason = "the number of heads must be a multiple of it";
            return Err(wrong(
                "llama.attention.head_count_kv",
                self.kv_heads,
                reason,
            ));
        }
        if !self.rotary_dim.is_multiple_of(2) {
            let reason = "elements are rotated in pairs";
            return Err(wrong("llama.rope.dimension_count", self.rotary_dim, reason));
        }
        for (key, expected, reason) in [
            (
                "llama.attention.value_length",
                self.head_dim,
                "values as long as keys are supported",
            ),
            (
                "llama.vocab_size",
                self.vocabulary,
                "the tokenizer has another number of tokens",
            ),
            (
                "llama.expert_count",
                0,
                "mixtures of experts are not supported",
            ),
        ] {
            let stated: Option<u64> = reader.0.get(key)?;
            if let Some(stated) = stated.filter(|stated| *stated != expected as u64) {
                return Err(wrong(key, stated, reason));
            }
        }
        Ok(())
    }

    /// Elements of all of a token's query heads.
    pub fn query_dim(&self) -> usize {
        self.heads * self.head_dim
    }

    /// Elements of all of a token's key heads, and of its value heads.
    pub fn kv_dim(&self) -> usize {
        self.kv_heads * self.head_dim
    }
}

struct Reader<'a>(&'a Metadata);

impl Reader<'_> {
    /// A size from 1 to `limit`.
    fn size(&self, key: &str, default: Option<usize>, limit: usize) -> Result<usize, LlamaError> {
        let value = match default {
            None => self.0.require(key)?,
            Some(size) => self.0.get(key)?.unwrap_or(size as u64),
        };
        match usize::try_from(value) {
            Ok(size) if (1..=limit).contains(&size) => Ok(size),
            Ok(0) => Err(wrong(key, value, "it must not be zero")),
            _ => Err(wrong(key, value, "it is larger than is possible")),
        }
    }

    fn positive(&self, key: &str, default: Option<f32>) -> Result<f32, LlamaError> {
        let value = match default {
            None => self.0.require(key)?,
            Some(number) => self.0.get(key)?.unwrap_or(number),
        };
        match value.is_finite() && value > 0.0 {
            true => Ok(value),
            false => Err(wrong(key, value, "it must be a number above zero")),
        }
    }

    /// Chen et al. 2023, arXiv:2306.15595: positions are divided by the factor. `llama.rope.scale_linear` is its older
    /// name.
    fn rope_scale(&self) -> Result<f32, LlamaError> {
        let key = "llama.rope.scaling.type";
        match self.0.get(key)?.unwrap_or("linear") {
            "none" => Ok(1.0),
            "linear" => {
                let older = self.positive("llama.rope.scale_linear", Some(1.0))?;
                Ok(1.0 / self.positive("llama.rope.scaling.factor", Some(older))?)
            }
            other => Err(wrong(
                key,
                other,
                "only \"none\" and \"linear\" are supported",
            )),
        }
    }
}

fn wrong(key: &str, value: impl ToString, reason: &'static str) -> LlamaError {
    LlamaError::Hyperparameter {
        key: key.to_owned(),
        value: value.to_string(),
        reason,
    }
}
