//! What a family of models computes, as data. One forward pass (`src/llama/model`) interprets it.

use crate::ops::RopePairing;

/// A family. What is not named here is the same in all of them: RMSNorm before attention and before the feed-forward
/// network, grouped-query attention with rotary positions, a gated feed-forward network.
#[derive(Debug)]
pub(crate) struct Spec {
    /// GGUF's `general.architecture`.
    pub name: &'static str,
    /// The `model_type`s that are it for transformers.
    pub model_types: &'static [&'static str],
    /// What transformers calls the parts of a layer, and what GGUF does.
    pub layer_parts: &'static [(&'static str, &'static str)],
    /// Which elements of a head are rotated together, as the weights in GGUF files are ordered.
    pub rope_pairing: RopePairing,
    /// Whether Q, K and V must have biases. Where a file has others they are added.
    pub qkv_bias: bool,
    /// Whether each head of a query and of a key has an RMSNorm, before it is rotated.
    pub head_norms: bool,
    /// Whether what attention and the feed-forward network add to the residual stream has an RMSNorm, too.
    pub post_norms: bool,
    /// What the gate of the feed-forward network passes through.
    pub gate: Gate,
    /// Whether scores of attention and of the output may have soft caps. In others a file's cap is an error.
    pub soft_caps: bool,
    /// Whether embeddings are multiplied by the square root of their width.
    pub scaled_embedding: bool,
    /// Which layers have the window that a file gives, where the file does not say it.
    pub windows: Windows,
    /// The base of the rotation's frequencies in layers with a window, where it is another one.
    pub window_rope_base: Option<f32>,
    /// The number of layers of those models whose scores are divided by `sqrt(width / heads)`, and not by
    /// `sqrt(head_dim)`.
    pub layers_scaled_by_width: Option<usize>,
    /// What transformers adds to a norm's weights when it uses them. GGUF's have it already.
    pub norm_offset: f32,
    /// Whether the output is the embedding where `config.json` does not say.
    pub tied: bool,
}

/// An activation in front of the product with the up projection. Shazeer 2020, arXiv:2002.05202.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gate {
    /// SwiGLU.
    Silu,
    /// GeGLU, by the approximation with tanh.
    Gelu,
}

impl Gate {
    /// transformers' `hidden_act`.
    pub fn name(self) -> &'static str {
        match self {
            Gate::Silu => "silu",
            Gate::Gelu => "gelu_pytorch_tanh",
        }
    }
}

/// What most families have; a family states what it has else.
pub(super) const USUAL: Spec = Spec {
    name: "",
    model_types: &[],
    layer_parts: &[
        ("input_layernorm", "attn_norm"),
        ("self_attn.q_proj", "attn_q"),
        ("self_attn.k_proj", "attn_k"),
        ("self_attn.v_proj", "attn_v"),
        ("self_attn.o_proj", "attn_output"),
        ("self_attn.q_norm", "attn_q_norm"),
        ("self_attn.k_norm", "attn_k_norm"),
        ("post_attention_layernorm", "ffn_norm"),
        ("mlp.gate_proj", "ffn_gate"),
        ("mlp.up_proj", "ffn_up"),
        ("mlp.down_proj", "ffn_down"),
    ],
    rope_pairing: RopePairing::Half,
    qkv_bias: false,
    head_norms: false,
    post_norms: false,
    gate: Gate::Silu,
    soft_caps: false,
    scaled_embedding: false,
    windows: Windows::All,
    window_rope_base: None,
    layers_scaled_by_width: None,
    norm_offset: 0.0,
    tied: false,
};

impl Spec {
    /// Whether neighbors in a head are rotated together, in GGUF's order. transformers' order has halves.
    pub fn rotates_neighbors(&self) -> bool {
        self.rope_pairing == RopePairing::Interleaved
    }
}

/// Which layers see a window of positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Windows {
    All,
    /// All but the last of this many, which sees all positions.
    AllButLastOf(usize),
}

impl Windows {
    pub fn has(self, layer: usize) -> bool {
        match self {
            Windows::All => true,
            Windows::AllButLastOf(period) => !(layer + 1).is_multiple_of(period),
        }
    }
}
