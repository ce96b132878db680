//! How a model is fine-tuned.

use crate::finetune::error::FinetuneError;
use crate::llama::Config;

/// How a model is fine-tuned. The defaults suit models of some billion parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct FinetuneOptions {
    /// What the two matrices of each change have in common; 8.
    pub rank: usize,
    /// A change is multiplied by `alpha / rank`. `None`: 2.
    pub alpha: Option<f32>,
    /// The matrices of each layer that are changed; all seven.
    pub targets: Vec<LoraTarget>,
    /// The longest piece of a document, in tokens; 256.
    pub sequence: usize,
    /// A step learns from as many tokens as this many sequences have; 2.
    pub batch: usize,
    /// Steps in all. `None`: as many as go through the text three times.
    pub steps: Option<u64>,
    /// The highest learning rate; 5e-4.
    pub learning_rate: f32,
    /// The steps in which the rate rises to that; from there on it falls by half a cosine to a tenth. `None`: a
    /// twentieth of all steps.
    pub warmup: Option<u64>,
    /// AdamW's weight decay; 0.
    pub weight_decay: f32,
    /// The norm that gradients are scaled down to; 1. `None`: they are as they are.
    pub clip_norm: Option<f32>,
    /// Of the first weights and of the order of documents; 0.
    pub seed: u64,
    /// The share of the text's tokens, its last ones, that is not learned but evaluated; 0.1.
    pub hold_out: f32,
    /// Whether the weights become F32 before the first step. It takes more memory, and products are then exact where
    /// those of quantized weights round what they multiply.
    pub dequantize: bool,
    /// Whether the backward pass computes each layer again, so that activations take the memory of one layer, for about
    /// a third more work. The numbers are the same.
    pub recompute: bool,
}

impl Default for FinetuneOptions {
    fn default() -> FinetuneOptions {
        FinetuneOptions {
            rank: 8,
            alpha: None,
            targets: LoraTarget::ALL.to_vec(),
            sequence: 256,
            batch: 2,
            steps: None,
            learning_rate: 5e-4,
            warmup: None,
            weight_decay: 0.0,
            clip_norm: Some(1.0),
            seed: 0,
            hold_out: 0.1,
            dequantize: false,
            recompute: false,
        }
    }
}

/// A matrix of each layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LoraTarget {
    /// To queries: `attn_q`.
    Query,
    /// To keys: `attn_k`.
    Key,
    /// To values: `attn_v`.
    Value,
    /// From what attention found: `attn_output`.
    AttentionOutput,
    /// `ffn_gate`.
    Gate,
    /// `ffn_up`.
    Up,
    /// `ffn_down`.
    Down,
}

impl LoraTarget {
    /// All seven.
    pub const ALL: [LoraTarget; 7] = [
        LoraTarget::Query,
        LoraTarget::Key,
        LoraTarget::Value,
        LoraTarget::AttentionOutput,
        LoraTarget::Gate,
        LoraTarget::Up,
        LoraTarget::Down,
    ];

    /// GGUF's name, without the layer: `"attn_q"`.
    pub fn name(self) -> &'static str {
        match self {
            LoraTarget::Query => "attn_q",
            LoraTarget::Key => "attn_k",
            LoraTarget::Value => "attn_v",
            LoraTarget::AttentionOutput => "attn_output",
            LoraTarget::Gate => "ffn_gate",
            LoraTarget::Up => "ffn_up",
            LoraTarget::Down => "ffn_down",
        }
    }

    /// The matrix that GGUF calls so.
    pub fn from_name(name: &str) -> Option<LoraTarget> {
        LoraTarget::ALL
            .into_iter()
            .find(|target| target.name() == name)
    }
}

impl FinetuneOptions {
    pub(super) fn alpha(&self) -> f32 {
        self.alpha.unwrap_or(2.0 * self.rank as f32)
    }

    /// Holds each option against its bounds and against the model.
    pub(super) fn check(&self, config: &Config) -> Result<(), FinetuneError> {
        /// Rows that a pass may have.
        const ROWS: usize = 1 << 20;
        let smallest = [config.width, config.kv_dim(), config.query_dim()];
        let smallest = smallest.into_iter().min().unwrap_or(1);
        let between = |option, value: usize, most: usize| match (1..=most).contains(&value) {
            true => Ok(()),
            false => wrong(option, value, format!("from 1 to {most}")),
        };
        between("rank", self.rank, smallest)?;
        between("sequence", self.sequence, config.context)?;
        between("batch", self.batch, ROWS / self.sequence)?;
        if self.steps == Some(0) {
            return wrong("steps", 0, "at least 1");
        }
        if self.targets.is_empty() {
            return wrong("targets", "nothing", "at least one matrix");
        }
        let alpha = self.alpha();
        if !(alpha.is_finite() && alpha != 0.0) {
            return wrong("alpha", alpha, "finite and not 0");
        }
        let rate = self.learning_rate;
        if !(rate > 0.0 && rate.is_finite()) {
            return wrong("learning_rate", rate, "finite and above 0");
        }
        match (0.0..=0.5).contains(&self.hold_out) {
            true => Ok(()),
            false => wrong("hold_out", self.hold_out, "from 0 to 0.5"),
        }
    }
}

fn wrong(
    option: &'static str,
    value: impl ToString,
    expected: impl Into<String>,
) -> Result<(), FinetuneError> {
    Err(FinetuneError::Option {
        option,
        value: value.to_string(),
        expected: expected.into(),
    })
}
