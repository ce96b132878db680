//! What transformers and GGUF call the same tensor.

use super::config::FolderConfig;
use crate::llama::files::model_file::RowOrder;

/// The parts of a layer.
const LAYER: [(&str, &str); 11] = [
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
];

/// GGUF's name; `None` where it has none.
pub(super) fn gguf_name(name: &str) -> Option<String> {
    match name {
        "model.embed_tokens.weight" => return Some("token_embd.weight".to_owned()),
        "model.norm.weight" => return Some("output_norm.weight".to_owned()),
        "lm_head.weight" => return Some("output.weight".to_owned()),
        _ => (),
    }
    let (layer, rest) = name.strip_prefix("model.layers.")?.split_once('.')?;
    // As the number is written, so that no two names become one.
    let number: u32 = layer.parse().ok()?;
    if number.to_string() != layer {
        return None;
    }
    let (part, suffix) = rest.rsplit_once('.')?;
    if !matches!(suffix, "weight" | "bias") {
        return None;
    }
    let (_, ours) = LAYER.iter().find(|(theirs, _)| *theirs == part)?;
    Some(format!("blk.{number}.{ours}.{suffix}"))
}

/// Whether the tensor says nothing that the configuration does not say.
pub(super) fn is_redundant(name: &str, config: &FolderConfig) -> bool {
    // Frequencies that old versions stored; an output that is the embedding once more.
    name.ends_with(".rotary_emb.inv_freq") || (config.tied && name == "lm_head.weight")
}

/// llama.cpp's converter makes pairs of neighbours out of the halves of each head, for `llama` only.
pub(super) fn row_order(gguf_name: &str, config: &FolderConfig) -> RowOrder {
    let part = gguf_name.rsplit_once('.').map_or("", |(part, _)| part);
    match config.architecture {
        "llama" if part.ends_with(".attn_q") => RowOrder::Halves {
            heads: config.heads.into(),
        },
        "llama" if part.ends_with(".attn_k") => RowOrder::Halves {
            heads: config.kv_heads.into(),
        },
        _ => RowOrder::Same,
    }
}
