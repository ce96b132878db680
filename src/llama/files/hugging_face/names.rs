//! What transformers and GGUF call the same tensor.

use super::config::FolderConfig;
use crate::llama::arch::spec::Spec;
use crate::llama::files::model_file::RowOrder;

/// GGUF's name; `None` where it has none.
pub(super) fn gguf_name(name: &str, spec: &Spec) -> Option<String> {
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
    let mut parts = spec.layer_parts.iter();
    let (_, ours) = parts.find(|(theirs, _)| *theirs == part)?;
    Some(format!("blk.{number}.{ours}.{suffix}"))
}

/// Whether the tensor says nothing that the configuration does not say.
pub(super) fn is_redundant(name: &str, config: &FolderConfig) -> bool {
    // Frequencies that old versions stored; an output that is the embedding once more.
    name.ends_with(".rotary_emb.inv_freq") || (config.tied && name == "lm_head.weight")
}

/// llama.cpp's converter makes pairs of neighbors out of the halves of each head, where the family rotates those.
pub(super) fn row_order(gguf_name: &str, config: &FolderConfig) -> RowOrder {
    let part = gguf_name.rsplit_once('.').map_or("", |(part, _)| part);
    let pairs = config.architecture.spec().rotates_neighbors();
    let heads = match part.rsplit_once('.') {
        Some((_, "attn_q")) if pairs => config.heads,
        Some((_, "attn_k")) if pairs => config.kv_heads,
        _ => return RowOrder::Same,
    };
    RowOrder::Halves {
        heads: heads.into(),
    }
}
