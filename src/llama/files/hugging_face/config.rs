//! `config.json`: the hyper-parameters.

use std::path::Path;

use serde_json::Value as Json;

use super::error::HuggingFaceError;
use super::json::{Object, at, read};
use crate::llama::arch::architecture::{Architecture, SUPPORTED_MODEL_TYPES};
use crate::llama::arch::spec::{Gate, Spec, Windows};
use crate::llama::error::LlamaError;
use crate::llama::files::gguf::{Array, Metadata, Value};

/// The most bytes in the file. Real ones have a few thousand.
const LIMIT: u64 = 1 << 20;

/// What the rest of a folder is read with.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct FolderConfig {
    pub architecture: Architecture,
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
    pub fn read(folder: &Path, metadata: &mut Metadata) -> Result<FolderConfig, LlamaError> {
        let path = &folder.join("config.json");
        let json: Json = read(path, LIMIT)?;
        let config = FolderConfig::parse(&json, metadata);
        let mut config = config.map_err(|error| at(path, error))?;
        let path = &folder.join("generation_config.json");
        if path.exists() {
            let json: Json = read(path, LIMIT)?;
            config.add_ends(&json).map_err(|error| at(path, error))?;
        }
        Ok(config)
    }

    /// The tokens that end a text when one is generated, which may be more.
    fn add_ends(&mut self, json: &Json) -> Result<(), HuggingFaceError> {
        for token in token_list(Object::new(json), "eos_token_id")? {
            if !self.eos.contains(&token) {
                self.eos.push(token);
            }
        }
        Ok(())
    }

    pub fn parse(json: &Json, metadata: &mut Metadata) -> Result<FolderConfig, HuggingFaceError> {
        if !json.is_object() {
            return Err(HuggingFaceError::Json("it is not an object".to_owned()));
        }
        let config = Object::new(json);
        let (model_type, architecture) = architecture(config)?;
        let (name, spec) = (architecture.name(), architecture.spec());
        only_what_is_supported(config, spec)?;

        let heads = positive(config, "num_attention_heads")?;
        let width = positive(config, "hidden_size")?;
        let kv_heads = config.integer("num_key_value_heads")?.unwrap_or(heads);
        let head_dim = config.integer("head_dim")?.unwrap_or(width / heads);
        let vocabulary = positive(config, "vocab_size")?;
        let rope_base = rope_base(config)?;
        // The metadata's only rule, for the alignment, is not touched.
        let mut set = |key: &str, value: Value| {
            let key = match key.starts_with("general.") {
                true => key.to_owned(),
                false => format!("{name}.{key}"),
            };
            let _ = metadata.set(key, value);
        };
        set("general.architecture", name.into());
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
        if let Some(window) = window(config, model_type)? {
            set("attention.sliding_window", window.into());
            // GGUF's files say it only where it is not as the family has it.
            let windowed = windowed(config, architecture, layers)?;
            let mut usual = (0..layers as usize).map(|layer| spec.windows.has(layer));
            if !windowed
                .iter()
                .all(|windowed| usual.next() == Some(*windowed))
            {
                let list = Array::Bool(windowed);
                set("attention.sliding_window_pattern", Value::Array(list));
            }
        }
        if let Some(base) = window_rope_base(config)?.filter(|_| spec.window_rope_base.is_some()) {
            set("rope.freq_base_swa", base.into());
        }
        if let Some(squared) = config.number("query_pre_attn_scalar")? {
            set("attention.scale", squared.sqrt().recip().into());
        }
        for cap in ["attn_logit_softcapping", "final_logit_softcapping"] {
            if let Some(cap_value) = config.number(cap)? {
                set(cap, cap_value.into());
            }
        }
        let rope_factors = rope_scaling(config, rope_base, head_dim, &mut set)?;

        Ok(FolderConfig {
            architecture,
            heads,
            kv_heads,
            vocabulary,
            tied: config.boolean("tie_word_embeddings")?.unwrap_or(spec.tied),
            rope_factors,
            bos: config.integer("bos_token_id")?,
            eos: token_list(config, "eos_token_id")?,
        })
    }
}

/// transformers' name of the architecture, and ours.
fn architecture(config: Object<'_>) -> Result<(&str, Architecture), HuggingFaceError> {
    let name = config.require("model_type", Object::text)?;
    let known = Architecture::from_model_type(name);
    let architecture =
        known.ok_or_else(|| unsupported("model_type", name, &SUPPORTED_MODEL_TYPES))?;
    Ok((name, architecture))
}

/// What would change the results and is not computed here.
fn only_what_is_supported(config: Object, spec: &Spec) -> Result<(), HuggingFaceError> {
    // Gemma's newer name is the one that counts for it.
    for key in ["hidden_activation", "hidden_act"] {
        match config.text(key)? {
            None => (),
            Some(activation) if activation == spec.gate.name() => break,
            Some(activation) => {
                let reason = match spec.gate {
                    Gate::Silu => "only silu is supported",
                    Gate::Gelu => "only gelu_pytorch_tanh is supported",
                };
                return Err(unsupported(key, activation, reason));
            }
        }
    }
    if config.boolean("use_bidirectional_attention")? == Some(true) {
        let reason = "only causal attention is supported";
        return Err(unsupported("use_bidirectional_attention", true, reason));
    }
    if let Some(quantized) = config.object("quantization_config")? {
        let method = quantized.text("quant_method")?.unwrap_or("set");
        let reason = "of folders only weights in F32, F16 and BF16 are read; quantized ones are read from GGUF files";
        return Err(unsupported("quantization_config", method, reason));
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

/// How many positions back a token sees, in the layers that have a window.
fn window(config: Object, model_type: &str) -> Result<Option<u32>, HuggingFaceError> {
    match model_type {
        // It has none in transformers, whatever the file says.
        "llama" => Ok(None),
        // Qwen states a window whether it is used or not.
        "qwen2" | "qwen3" if config.boolean("use_sliding_window")? != Some(true) => Ok(None),
        _ => config.integer("sliding_window"),
    }
}

/// Which layers have the window.
fn windowed(
    config: Object,
    architecture: Architecture,
    layers: u32,
) -> Result<Vec<bool>, HuggingFaceError> {
    // A stranger's number; the model's limit is checked later.
    let layers = layers.min(1 << 16) as usize;
    if let Some(types) = config.value("layer_types") {
        let one = |kind: &Json| match kind.as_str() {
            Some("sliding_attention") => Some(true),
            Some("full_attention") => Some(false),
            _ => None,
        };
        let list = types.as_array().filter(|list| list.len() == layers);
        let known = list.and_then(|list| list.iter().map(one).collect());
        return known.ok_or_else(|| {
            let reason =
                "\"sliding_attention\" and \"full_attention\" are supported, one for each layer";
            unsupported("layer_types", "another list", reason)
        });
    }
    let windows = match architecture {
        Architecture::Qwen2 | Architecture::Qwen3 => {
            let first = config.integer("max_window_layers")?.unwrap_or(0) as usize;
            return Ok((0..layers).map(|layer| layer >= first).collect());
        }
        _ => match config.integer("sliding_window_pattern")? {
            None => architecture.spec().windows,
            Some(0) => {
                let reason = "it must not be zero";
                return Err(unsupported("sliding_window_pattern", 0, reason));
            }
            Some(period) => Windows::AllButLastOf(period as usize),
        },
    };
    Ok((0..layers).map(|layer| windows.has(layer)).collect())
}

/// The rotation's base in layers with a window, where it is another one: `rope_local_base_freq` before transformers 5.
fn window_rope_base(config: Object) -> Result<Option<f32>, HuggingFaceError> {
    let parameters = config.object("rope_parameters")?;
    let own = parameters.map_or(Ok(None), |all| all.object("sliding_attention"))?;
    let Some(own) = own else {
        return config.number("rope_local_base_freq");
    };
    match own.text("rope_type")?.unwrap_or("default") {
        "default" => own.number("rope_theta"),
        kind => {
            let reason = "layers with a window are rotated by default only";
            Err(unsupported("rope_type", kind, reason))
        }
    }
}

/// `rope_parameters` in folders of transformers 5, else `rope_scaling`.
fn rope_settings(config: Object<'_>) -> Result<Option<Object<'_>>, HuggingFaceError> {
    let Some(parameters) = config.object("rope_parameters")? else {
        return config.object("rope_scaling");
    };
    // Where layers with a window have their own.
    let of_full_layers = parameters.object("full_attention")?;
    Ok(Some(of_full_layers.unwrap_or(parameters)))
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
    set: &mut impl FnMut(&str, Value),
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
            if settings.boolean("truncate")? == Some(false) {
                let reason = "a ramp between whole pairs only is supported";
                return Err(unsupported("truncate", false, reason));
            }
            // GGUF's multiplies the paper's factor, theirs stands in for it.
            let by = |scale: f32| Ok(0.1 * scale * factor(settings)?.max(1.0).ln() + 1.0);
            let mscale = settings.number("mscale")?.filter(|scale| *scale != 0.0);
            let of_all = settings
                .number("mscale_all_dim")?
                .filter(|scale| *scale != 0.0);
            let whole = match (settings.number("attention_factor")?, mscale, of_all) {
                (Some(whole), ..) => Some(whole),
                (None, Some(scale), Some(of_all)) => Some(by(scale)? / by(of_all)?),
                _ => None,
            };
            if let Some(whole) = whole {
                set("rope.scaling.attn_factor", (whole / by(1.0)?).into());
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
    let number = |value: &Json| {
        let number = value.as_u64().and_then(|number| number.try_into().ok());
        number.ok_or_else(wrong)
    };
    match config.value(key) {
        None => Ok(Vec::new()),
        Some(Json::Array(numbers)) => numbers.iter().map(number).collect(),
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
