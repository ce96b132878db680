//! Models with a LoRA adapter beside their weights.

use super::linear::{Change, Linear};
use super::{Model, Parts};
use crate::error::Result;
use crate::llama::files::adapter::{AdapterError, LoraAdapter, in_halves};
use crate::llama::model::weights::weight::Weight;
use crate::ops::RopePairing;

impl Model {
    /// The same model with an adapter's changes, times `scale`; 1 is as the adapter was trained. Weights are shared
    /// with this one and stay as they are: products get a small one of low rank beside them. Adapters add up.
    ///
    /// # Errors
    ///
    /// [`LlamaError::Adapter`](crate::llama::LlamaError::Adapter) when the adapter was made for another model, and the
    /// device's errors.
    pub fn with_adapter(&self, adapter: &LoraAdapter, scale: f32) -> Result<Model> {
        let wrong = |error| crate::Error::from(adapter.wrong(error));
        if !scale.is_finite() {
            return Err(wrong(AdapterError::Scale(scale)));
        }
        let model = self.0.config.architecture.name();
        if adapter.architecture() != model {
            return Err(wrong(AdapterError::Architecture {
                adapter: adapter.architecture().to_owned(),
                model,
            }));
        }
        let mut parts = Parts::clone(&self.0);
        for (name, sizes) in adapter.changes() {
            let Some(linear) = parts.linear(name) else {
                return Err(wrong(AdapterError::NoWeight(name.to_owned())));
            };
            let (found, expected) = ([sizes.inputs, sizes.outputs], linear.sizes());
            if found != expected {
                return Err(wrong(AdapterError::Sizes {
                    weight: name.to_owned(),
                    found,
                    expected,
                }));
            }
            let [down, mut up] = adapter.numbers(name);
            let factor = scale * adapter.factor(sizes.rank);
            up.iter_mut().for_each(|number| *number *= factor);
            if let Some(heads) = parts.heads_in_halves(name) {
                up = in_halves(&up, sizes.rank, sizes.outputs / heads);
            }
            let device = &self.0.device;
            let change = Change {
                down: Weight::of_numbers(device, &format!("{name}.lora_a"), &down)?,
                up: Weight::of_numbers(device, &format!("{name}.lora_b"), &up)?,
                rank: sizes.rank,
            };
            if let Some(linear) = parts.linear(name) {
                linear.add_change(change);
            }
            parts.largest_rank = parts.largest_rank.max(sizes.rank);
        }
        Ok(Model(parts.into()))
    }

    /// The largest rank of its adapters; 0: it has none.
    pub(in crate::llama) fn largest_rank(&self) -> usize {
        self.0.largest_rank
    }
}

impl Parts {
    /// The matrix of weights that has this name in GGUF.
    fn linear(&mut self, name: &str) -> Option<&mut Linear> {
        let name = name.strip_suffix(".weight")?;
        if name == "output" {
            return Some(&mut self.output);
        }
        let (layer, part) = name.strip_prefix("blk.")?.split_once('.')?;
        self.blocks
            .get_mut(layer.parse::<usize>().ok()?)?
            .linear(part)
    }

    /// The heads of these outputs, where they are in halves and an adapter's are in pairs: queries and keys of a
    /// `llama` in Hugging Face's order.
    fn heads_in_halves(&self, name: &str) -> Option<usize> {
        let in_pairs = self.config.spec().rotates_neighbors();
        if !in_pairs || self.config.rope_pairing == RopePairing::Interleaved {
            return None;
        }
        let of_part = |part: &str| name.ends_with(&format!(".{part}.weight"));
        match (of_part("attn_q"), of_part("attn_k")) {
            (true, _) => Some(self.config.heads),
            (_, true) => Some(self.config.kv_heads),
            _ => None,
        }
    }
}
