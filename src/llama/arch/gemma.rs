//! Gemma. Facts that its papers do not state are those of `transformers` and of llama.cpp's converter.

use super::spec::{Gate, Spec, USUAL, Windows};

/// Gemma Team 2024, [arXiv:2403.08295](https://arxiv.org/abs/2403.08295).
pub(super) const GEMMA: Spec = Spec {
    name: "gemma",
    model_types: &["gemma"],
    gate: Gate::Gelu,
    scaled_embedding: true,
    norm_offset: 1.0,
    tied: true,
    ..USUAL
};

/// Gemma Team 2024, [arXiv:2408.00118](https://arxiv.org/abs/2408.00118): a layer with a window, then one that sees all
/// positions. Its published weights were trained with caps of 50 and 30.
pub(super) const GEMMA2: Spec = Spec {
    name: "gemma2",
    model_types: &["gemma2"],
    layer_parts: LAYER_PARTS,
    post_norms: true,
    soft_caps: true,
    windows: Windows::AllButLastOf(2),
    // The 27B.
    layers_scaled_by_width: Some(46),
    ..GEMMA
};

/// With norms after attention and the feed-forward network, and without or with those of heads.
const LAYER_PARTS: &[(&str, &str)] = &[
    ("input_layernorm", "attn_norm"),
    ("self_attn.q_proj", "attn_q"),
    ("self_attn.k_proj", "attn_k"),
    ("self_attn.v_proj", "attn_v"),
    ("self_attn.o_proj", "attn_output"),
    ("self_attn.q_norm", "attn_q_norm"),
    ("self_attn.k_norm", "attn_k_norm"),
    ("post_attention_layernorm", "post_attention_norm"),
    ("pre_feedforward_layernorm", "ffn_norm"),
    ("post_feedforward_layernorm", "post_ffw_norm"),
    ("mlp.gate_proj", "ffn_gate"),
    ("mlp.up_proj", "ffn_up"),
    ("mlp.down_proj", "ffn_down"),
];

/// Gemma Team 2025, [arXiv:2503.19786](https://arxiv.org/abs/2503.19786): five layers with a window, then one that sees
/// all positions.
pub(super) const GEMMA3: Spec = Spec {
    name: "gemma3",
    model_types: &["gemma3_text"],
    layer_parts: LAYER_PARTS,
    head_norms: true,
    post_norms: true,
    windows: Windows::AllButLastOf(6),
    window_rope_base: Some(10_000.0),
    // The 27B.
    layers_scaled_by_width: Some(62),
    ..GEMMA
};
