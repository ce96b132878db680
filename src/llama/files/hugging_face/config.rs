//! `config.json`: the hyper-parameters.

use std::path::Path;

use serde_json::Value;

use super::error::HuggingFaceError;
use super::json::{Object, at, read};
use crate::llama::error::LlamaError;
use crate::llama::files::gguf::Metadata;

/// The most bytes in the file. Real ones have a few thousand.
const LIMIT: u64 = 1 << 20;

/// What the rest of a folder is read with.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct FolderConfig {
    /// GGUF's name of the architecture.
    pub architecture: &'static str,
    pub heads: u32,
    pub kv_heads: u32,
    pub vocabulary: u32,
    /// Whether the embedding is the output, too.
    pub tied: bool,
    /// What rotations' frequencies are divided by, a number for each pair of elements of a head: Llama 3.1's scaling.
    pub rope_factors: Option<Vec<f32>>,
    pub bos: Option<u32>,
    /// The tokens that end a text.
    pub eos: Vec<u32>,
}

impl FolderConfig {
    /// Reads the file, and adds to `metadata` what GGUF keeps there.
    pub fn read(path: &Path, metadata: &mut Metadata) -> Result<FolderConfig, LlamaError> {
        let json: Value = read(path, LIMIT)?;
        let config = FolderConfig::parse(&json, metadata);
        config.map_err(|error| at(path, error))
    }

    pub fn parse(json: &Value, metadata: &mut Metadata) -> Result<FolderConfig, HuggingFaceError> {
        if !json.is_object() {
            return Err(HuggingFaceError::Json("it is not an object".to_owned()));
        }
        let config = Object::new(json);
        let architecture = architecture(config)?;
        only_what_is_supported(config)?;

        let heads = positive(config, "num_attention_heads")?;
        let width = positive(config, "hidden_size")?;
        let kv_heads = config.integer("num_key_value_heads")?.unwrap_or(heads);
        let head_dim = config.integer("head_dim")?.unwrap_or(width / heads);
        let vocabulary = positive(config, "vocab_size")?;
        let rope_base = rope_base(config)?;
        // The metadata's only rule, for the alignment, is not touched.
        let mut set = |key: &str, value: crate::llama::files::gguf::Value| {
            let key = match key.starts_with("general.") {
                true => key.to_owned(),
                false => format!("{architecture}.{key}"),
            };
            let _ = metadata.set(key, value);
        };
        set("general.architecture", architecture.into());
        set("vocab_size", vocabulary.into());
        set(
            "context_length",
            positive(config, "max_position_embeddings")?.into(),
        );
        set("embedding_length", width.into());
        let layers = positive(config, "num_hidden_layers")?;
        set("block_count", layers.into());
        set(
            "feed_forward_length",
            positive(config, "intermediate_size")?.into(),
        );
        set("attention.head_count", heads.into());
        set("attention.head_count_kv", kv_heads.into());
        set("attention.key_length", head_dim.into());
        set("attention.value_length", head_dim.into());
        let epsilon = config.require("rms_norm_eps", Object::number)?;
        set("attention.layer_norm_rms_epsilon", epsilon.into());
        set("rope.dimension_count", head_dim.into());
        set("rope.freq_base", rope_base.into());
        if let Some(window) = sliding_window(config, architecture, layers)? {
            set("attention.sliding_window", window.into());
        }
        let rope_factors = rope_scaling(config, rope_base, head_dim, &mut set)?;

        Ok(FolderConfig {
            architecture,
            heads,
            kv_heads,
            vocabulary,
            tied: config.boolean("tie_word_embeddings")?.unwrap_or(false),
            rope_factors,
            bos: config.integer("bos_token_id")?,
            eos: token_list(config, "eos_token_id")?,
        })
    }
}

fn architecture(config: Object) -> Result<&'static str, HuggingFaceError> {
    let model = config.require("model_type", Object::text)?;
    match model {
        "llama" | "mistral" => Ok("llama"),
        "qwen2" => Ok("qwen2"),
        "qwen3" => Ok("qwen3"),
        _ => Err(unsupported(
            "model_type",
            model,
            "only llama, mistral, qwen2 and qwen3 are supported",
        )),
    }
}

/// What would change the results and is not computed here.
fn only_what_is_supported(config: Object) -> Result<(), HuggingFaceError> {
    let activation = config.text("hidden_act")?.unwrap_or("silu");
    if activation != "silu" {
        return Err(unsupported(
            "hidden_act",
            activation,
            "only silu is supported",
        ));
    }
    if config.value("quantization_config").is_some() {
        let reason = "only weights in F32, F16 and BF16 are supported";
        return Err(unsupported("quantization_config", "set", reason));
    }
    match config.number("partial_rotary_factor")?.unwrap_or(1.0) {
        1.0 => Ok(()),
        factor => Err(unsupported(
            "partial_rotary_factor",
            factor,
            "only whole heads are rotated",
        )),
    }
}

/// How many positions back a token sees.
fn sliding_window(
    config: Object,
    architecture: &str,
    layers: u32,
) -> Result<Option<u32>, HuggingFaceError> {
    let Some(window) = config.integer("sliding_window")? else {
        return Ok(None);
    };
    // Qwen states a window whether it is used or not, and uses it in the layers from `max_window_layers` on.
    if architecture != "llama" && !config.boolean("use_sliding_window")?.unwrap_or(false) {
        return Ok(None);
    }
    let first = match architecture {
        "llama" => 0,
        _ => config.integer("max_window_layers")?.unwrap_or(0),
    };
    match first {
        0 => Ok(Some(window)),
        first if first >= layers => Ok(None),
        first => Err(unsupported(
            "max_window_layers",
            first,
            "a window in some of the layers only is not supported",
        )),
    }
}

/// `rope_parameters` in folders of transformers 5, else `rope_scaling`.
fn rope_settings(config: Object<'_>) -> Result<Option<Object<'_>>, HuggingFaceError> {
    match config.object("rope_parameters")? {
        Some(parameters) => Ok(Some(parameters)),
        None => config.object("rope_scaling"),
    }
}

fn rope_base(config: Object) -> Result<f32, HuggingFaceError> {
    let newer =
        rope_settings(config)?.map_or(Ok(None), |settings| settings.number("rope_theta"))?;
    let older = config.number("rope_theta")?;
    Ok(newer.or(older).unwrap_or(10_000.0))
}

/// Adds what GGUF keeps in the metadata, and returns the factors that it keeps in a tensor.
fn rope_scaling(
    config: Object,
    base: f32,
    head_dim: u32,
    set: &mut impl FnMut(&str, crate::llama::files::gguf::Value),
) -> Result<Option<Vec<f32>>, HuggingFaceError> {
    let Some(settings) = rope_settings(config)? else {
        return Ok(None);
    };
    // The older name has the older key.
    let kind = match settings.text("rope_type")? {
        Some(kind) => kind,
        None => settings.text("type")?.unwrap_or("default"),
    };
    let factor = |settings: Object| settings.require("factor", Object::number);
    match kind {
        "default" => Ok(None),
        "linear" => {
            set("rope.scaling.type", "linear".into());
            set("rope.scaling.factor", factor(settings)?.into());
            Ok(None)
        }
        "yarn" => {
            set("rope.scaling.type", "yarn".into());
            set("rope.scaling.factor", factor(settings)?.into());
            let original = "original_max_position_embeddings";
            if let Some(context) = settings.integer(original)? {
                set("rope.scaling.original_context_length", context.into());
            }
            // GGUF's multiplies the paper's factor, theirs stands in for it.
            if let Some(whole) = settings.number("attention_factor")? {
                let papers = 0.1 * factor(settings)?.max(1.0).ln() + 1.0;
                set("rope.scaling.attn_factor", (whole / papers).into());
            }
            for (theirs, ours) in [
                ("beta_fast", "rope.scaling.yarn_beta_fast"),
                ("beta_slow", "rope.scaling.yarn_beta_slow"),
            ] {
                if let Some(number) = settings.number(theirs)? {
                    set(ours, number.into());
                }
            }
            Ok(None)
        }
        "llama3" => {
            let scaling = Llama3Scaling {
                factor: factor(settings)?.into(),
                low: settings.require("low_freq_factor", Object::number)?.into(),
                high: settings.require("high_freq_factor", Object::number)?.into(),
                original_context: settings
                    .require("original_max_position_embeddings", Object::integer)?
                    .into(),
            };
            let numbers = [scaling.factor, scaling.low, scaling.original_context];
            if !numbers.iter().all(|number| *number > 0.0) || scaling.high <= scaling.low {
                let reason =
                    "its numbers must be above zero, and high_freq_factor above low_freq_factor";
                return Err(unsupported("rope_scaling", "llama3", reason));
            }
            // More than any model has, and little to allocate.
            let pairs = (head_dim / 2).min(1 << 16);
            let divisor = |pair| scaling.divisor(f64::from(base), pair, head_dim) as f32;
            Ok(Some((0..pairs).map(divisor).collect()))
        }
        other => Err(unsupported(
            "rope_type",
            other,
            "only default, linear, yarn and llama3 are supported",
        )),
    }
}

/// Dubey et al. 2024, arXiv:2407.21783; transformers' `_compute_llama3_parameters`.
struct Llama3Scaling {
    factor: f64,
    low: f64,
    high: f64,
    original_context: f64,
}

impl Llama3Scaling {
    /// What the frequency of a pair of elements is divided by: 1 where it turns often in the original context, `factor`
    /// where it hardly turns, and between them a ramp of frequencies.
    fn divisor(&self, base: f64, pair: u32, head_dim: u32) -> f64 {
        let frequency = base.powf(-2.0 * f64::from(pair) / f64::from(head_dim));
        let turns = self.original_context * frequency / std::f64::consts::TAU;
        let kept = ((turns - self.low) / (self.high - self.low)).clamp(0.0, 1.0);
        1.0 / ((1.0 - kept) / self.factor + kept)
    }
}

fn positive(config: Object, key: &str) -> Result<u32, HuggingFaceError> {
    match config.require(key, Object::integer)? {
        0 => Err(unsupported(key, 0, "it must not be zero")),
        number => Ok(number),
    }
}

/// One token's number, or a list of them.
fn token_list(config: Object, key: &str) -> Result<Vec<u32>, HuggingFaceError> {
    let wrong = || HuggingFaceError::WrongType {
        key: key.to_owned(),
        expected: "a token's number or a list of them",
    };
    let number = |value: &Value| {
        let number = value.as_u64().and_then(|number| number.try_into().ok());
        number.ok_or_else(wrong)
    };
    match config.value(key) {
        None => Ok(Vec::new()),
        Some(Value::Array(numbers)) => numbers.iter().map(number).collect(),
        Some(value) => Ok(vec![number(value)?]),
    }
}

fn unsupported(key: &str, value: impl ToString, reason: &'static str) -> HuggingFaceError {
    HuggingFaceError::Unsupported {
        key: key.to_owned(),
        value: value.to_string(),
        reason,
    }
}
