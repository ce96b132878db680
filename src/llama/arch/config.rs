//! The hyper-parameters of a model.

use super::architecture::{Architecture, SUPPORTED_NAMES};
use super::rope_scaling::{RopeScaling, Yarn, above_zero, wrong};
use super::spec::{Spec, Windows};
use crate::llama::error::LlamaError;
use crate::llama::files::gguf::{Array, FromValue, Metadata, Value};
use crate::llama::files::model_file::{ModelFile, ModelFormat};
use crate::ops::RopePairing;

/// The shape of a model, as its file's metadata or its folder's `config.json` states it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Config {
    /// The family of models that it is one of.
    pub architecture: Architecture,
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
    /// What the layers differ in; one plan for each.
    pub plans: Vec<LayerPlan>,
    /// Elements of a head that are rotated; even, at most `head_dim`.
    pub rotary_dim: usize,
    /// What the product of a query and a key is multiplied by, before [`RopeScaling`] sharpens it.
    pub attention_scale: f32,
    /// What scores of attention are softly kept below: `s` becomes `cap · tanh(s / cap)`.
    pub attention_cap: Option<f32>,
    /// The same for the scores of the next token.
    pub output_cap: Option<f32>,
    /// Which elements of a head are rotated together: how the weights of queries and keys are ordered in the file.
    pub rope_pairing: RopePairing,
    /// What keeps the norms from dividing by zero.
    pub rms_epsilon: f32,
}

/// What one layer has for itself.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct LayerPlan {
    /// How many positions back a token sees, its own counted; `None`: all.
    pub window: Option<usize>,
    /// The base of the rotation's frequencies.
    pub rope_base: f32,
    /// How the rotation was changed to stretch the model to a longer context.
    pub rope_scaling: RopeScaling,
}

impl LayerPlan {
    pub(crate) fn has_rotation_of(&self, other: &LayerPlan) -> bool {
        (self.rope_base, self.rope_scaling) == (other.rope_base, other.rope_scaling)
    }
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
    /// A file's configuration, with what follows from its format. Its tokenizer has `vocabulary` tokens.
    ///
    /// # Errors
    ///
    /// As [`from_metadata`](Config::from_metadata).
    pub fn of_file(file: &ModelFile, vocabulary: u32) -> Result<Config, LlamaError> {
        let mut config = Config::from_metadata(file.metadata(), vocabulary)?;
        if file.format() == ModelFormat::HuggingFace {
            // Whatever the architecture; its weights are used as they are.
            config.rope_pairing = RopePairing::Half;
        }
        Ok(config)
    }

    /// Reads the hyper-parameters of a file whose tokenizer has `vocabulary` tokens.
    ///
    /// # Errors
    ///
    /// [`LlamaError::Metadata`] when a key is missing or has another type, [`LlamaError::Hyperparameter`] when a value
    /// is absurd, contradicts another one or asks for what is not supported here.
    pub fn from_metadata(metadata: &Metadata, vocabulary: u32) -> Result<Config, LlamaError> {
        let name: &str = metadata.require("general.architecture")?;
        let architecture = Architecture::from_name(name)
            .ok_or_else(|| wrong("general.architecture", name, &SUPPORTED_NAMES))?;
        let reader = Reader {
            metadata,
            architecture,
        };
        let width = reader.size("embedding_length", None, limits::WIDTH)?;
        let heads = reader.size("attention.head_count", None, limits::HEADS)?;
        let head_dim = match width % heads {
            0 => Some(width / heads),
            _ => None, // then the file has to say
        };
        let head_dim = reader.size("attention.key_length", head_dim, limits::HEAD_DIM)?;
        let context = reader.size("context_length", None, limits::CONTEXT)?;
        let layers = reader.size("block_count", None, limits::LAYERS)?;
        let config = Config {
            architecture,
            vocabulary: vocabulary as usize,
            width,
            layers,
            heads,
            kv_heads: reader.size("attention.head_count_kv", Some(heads), heads)?,
            head_dim,
            feed_forward: reader.size("feed_forward_length", None, limits::FEED_FORWARD)?,
            context,
            plans: reader.plans(layers, context)?,
            rotary_dim: reader.size("rope.dimension_count", Some(head_dim), head_dim)?,
            attention_scale: reader.attention_scale(layers, width, heads, head_dim)?,
            attention_cap: reader.cap("attn_logit_softcapping")?,
            output_cap: reader.cap("final_logit_softcapping")?,
            rope_pairing: architecture.spec().rope_pairing,
            rms_epsilon: reader.positive("attention.layer_norm_rms_epsilon", None)?,
        };
        config.check()?;
        for (key, expected, reason) in [
            (
                "attention.value_length",
                config.head_dim,
                "values as long as keys are supported",
            ),
            (
                "vocab_size",
                config.vocabulary,
                "the tokenizer has another number of tokens",
            ),
            ("expert_count", 0, "mixtures of experts are not supported"),
        ] {
            let stated: Option<u64> = reader.get(key)?;
            if let Some(stated) = stated.filter(|stated| *stated != expected as u64) {
                return Err(wrong(&reader.key(key), stated, reason));
            }
        }
        Ok(config)
    }

    /// Holds the sizes against their bounds and against each other, whichever file they are from. The keys of errors
    /// are GGUF's.
    ///
    /// # Errors
    ///
    /// [`LlamaError::Hyperparameter`].
    pub(crate) fn check(&self) -> Result<(), LlamaError> {
        let key = |name: &str| format!("{}.{name}", self.architecture.name());
        for (name, size, limit) in [
            ("vocab_size", self.vocabulary, u32::MAX as usize),
            ("embedding_length", self.width, limits::WIDTH),
            ("block_count", self.layers, limits::LAYERS),
            ("attention.head_count", self.heads, limits::HEADS),
            ("attention.head_count_kv", self.kv_heads, self.heads),
            ("attention.key_length", self.head_dim, limits::HEAD_DIM),
            (
                "feed_forward_length",
                self.feed_forward,
                limits::FEED_FORWARD,
            ),
            ("context_length", self.context, limits::CONTEXT),
            ("rope.dimension_count", self.rotary_dim, self.head_dim),
        ] {
            bounded(&key(name), size as u64, limit)?;
        }
        if !self.heads.is_multiple_of(self.kv_heads) {
            let reason = "the number of heads must be a multiple of it";
            return Err(wrong(
                &key("attention.head_count_kv"),
                self.kv_heads,
                reason,
            ));
        }
        if !self.rotary_dim.is_multiple_of(2) {
            let reason = "elements are rotated in pairs";
            return Err(wrong(&key("rope.dimension_count"), self.rotary_dim, reason));
        }
        above_zero(&key("attention.layer_norm_rms_epsilon"), self.rms_epsilon)?;
        above_zero(&key("attention.scale"), self.attention_scale)?;
        for plan in &self.plans {
            above_zero(&key("rope.freq_base"), plan.rope_base)?;
            plan.rope_scaling.check(&key("rope.scaling"))?;
        }
        Ok(())
    }

    /// What the family computes.
    pub(crate) fn spec(&self) -> &'static Spec {
        self.architecture.spec()
    }

    /// What embeddings are multiplied by; `None`: nothing.
    pub(crate) fn embedding_scale(&self) -> Option<f32> {
        let scaled = self.spec().scaled_embedding;
        scaled.then(|| (self.width as f32).sqrt())
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

/// Reads the keys of one architecture.
struct Reader<'a> {
    metadata: &'a Metadata,
    architecture: Architecture,
}

impl<'a> Reader<'a> {
    fn key(&self, name: &str) -> String {
        format!("{}.{name}", self.architecture.name())
    }

    fn get<T: FromValue<'a>>(&self, name: &str) -> Result<Option<T>, LlamaError> {
        Ok(self.metadata.get(&self.key(name))?)
    }

    /// A size from 1 to `limit`.
    fn size(&self, name: &str, default: Option<usize>, limit: usize) -> Result<usize, LlamaError> {
        let key = self.key(name);
        let value = match default {
            None => self.metadata.require(&key)?,
            Some(size) => self.metadata.get(&key)?.unwrap_or(size as u64),
        };
        bounded(&key, value, limit)
    }

    fn positive(&self, name: &str, default: Option<f32>) -> Result<f32, LlamaError> {
        let key = self.key(name);
        let value = match default {
            None => self.metadata.require(&key)?,
            Some(number) => self.metadata.get(&key)?.unwrap_or(number),
        };
        above_zero(&key, value)
    }

    /// A soft cap of scores; 0 is none.
    fn cap(&self, name: &str) -> Result<Option<f32>, LlamaError> {
        let Some(cap) = self.get::<f32>(name)?.filter(|cap| *cap != 0.0) else {
            return Ok(None);
        };
        let key = self.key(name);
        match self.architecture.spec().soft_caps {
            true => above_zero(&key, cap).map(Some),
            false => Err(wrong(&key, cap, "this architecture has no capped scores")),
        }
    }

    /// What the layers differ in. A window of 0 is none.
    fn plans(&self, layers: usize, context: usize) -> Result<Vec<LayerPlan>, LlamaError> {
        let spec = self.architecture.spec();
        let window: u32 = self.get("attention.sliding_window")?.unwrap_or(0);
        let windowed = self.windowed(spec.windows, layers)?;
        let full = LayerPlan {
            window: None,
            rope_base: self.positive("rope.freq_base", Some(10_000.0))?,
            rope_scaling: self.rope_scaling(context)?,
        };
        let base = spec.window_rope_base.unwrap_or(full.rope_base);
        let near = LayerPlan {
            window: (window > 0).then_some(window as usize),
            rope_base: self.positive("rope.freq_base_swa", Some(base))?,
            // A family with another base for them stretches only the others.
            rope_scaling: match spec.window_rope_base {
                Some(_) => RopeScaling::None,
                None => full.rope_scaling,
            },
        };
        let plan = |windowed| if windowed { near } else { full };
        Ok(windowed.into_iter().map(plan).collect())
    }

    /// Which layers have the window: a list with a boolean for each layer, the period of those that do not, or as the
    /// family has it.
    fn windowed(&self, usual: Windows, layers: usize) -> Result<Vec<bool>, LlamaError> {
        let name = "attention.sliding_window_pattern";
        let key = self.key(name);
        let by = |windows: Windows| (0..layers).map(|layer| windows.has(layer)).collect();
        match self.metadata.value(&key) {
            None => Ok(by(usual)),
            Some(Value::Array(Array::Bool(list))) if list.len() == layers => Ok(list.to_vec()),
            Some(Value::Array(_)) => {
                let reason = "it must be a number, or a list with a boolean for each layer";
                Err(wrong(&key, "another list", reason))
            }
            Some(_) => match self.size(name, None, limits::LAYERS)? {
                1 => Ok(by(Windows::All)),
                period => Ok(by(Windows::AllButLastOf(period))),
            },
        }
    }

    fn attention_scale(
        &self,
        layers: usize,
        width: usize,
        heads: usize,
        head_dim: usize,
    ) -> Result<f32, LlamaError> {
        let of_width = self.architecture.spec().layers_scaled_by_width == Some(layers);
        let divisor = match of_width {
            true => width as f32 / heads as f32,
            false => head_dim as f32,
        };
        self.positive("attention.scale", Some(divisor.sqrt().recip()))
    }

    /// What llama.cpp's converter writes. Llama 3's scaling is a tensor of factors, and no metadata.
    fn rope_scaling(&self, context: usize) -> Result<RopeScaling, LlamaError> {
        let name = "rope.scaling.type";
        match self.get(name)?.unwrap_or("linear") {
            "none" => Ok(RopeScaling::None),
            "linear" => {
                let older = self.positive("rope.scale_linear", Some(1.0))?;
                match self.positive("rope.scaling.factor", Some(older))? {
                    1.0 => Ok(RopeScaling::None),
                    factor => Ok(RopeScaling::Linear { factor }),
                }
            }
            "yarn" => {
                let limit = limits::CONTEXT;
                let original =
                    self.size("rope.scaling.original_context_length", Some(context), limit)?;
                Ok(RopeScaling::Yarn(Yarn {
                    factor: self.positive("rope.scaling.factor", None)?,
                    original_context: original,
                    beta_fast: self.positive("rope.scaling.yarn_beta_fast", Some(32.0))?,
                    beta_slow: self.positive("rope.scaling.yarn_beta_slow", Some(1.0))?,
                    attention_factor: self.positive("rope.scaling.attn_factor", Some(1.0))?,
                }))
            }
            other => Err(wrong(
                &self.key(name),
                other,
                "only \"none\", \"linear\" and \"yarn\" are supported",
            )),
        }
    }
}

fn bounded(key: &str, value: u64, limit: usize) -> Result<usize, LlamaError> {
    match usize::try_from(value) {
        Ok(size) if (1..=limit).contains(&size) => Ok(size),
        Ok(0) => Err(wrong(key, value, "it must not be zero")),
        _ => Err(wrong(key, value, "it is larger than is possible")),
    }
}
