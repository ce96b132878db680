//! What the layers hand to each other.

use super::Config;
use crate::memory::Category;
use crate::{Buffer, Device, Element, Result};

/// The memory of a forward pass over up to `batch` tokens, made once and used for every pass.
#[derive(Debug)]
pub(super) struct Activations {
    pub ids: Buffer<u32>,       // batch
    pub positions: Buffer<u32>, // context: 0, 1, 2, …
    pub x: Buffer<f32>,         // batch × width: the residual stream
    pub normed: Buffer<f32>,    // batch × width: x, normalised
    pub q: Buffer<f32>,         // batch × heads × head_dim
    pub k: Buffer<f32>,         // batch × kv_heads × head_dim
    pub v: Buffer<f32>,         // batch × kv_heads × head_dim
    pub attended: Buffer<f32>,  // batch × heads × head_dim
    pub gate: Buffer<f32>,      // batch × feed_forward
    pub up: Buffer<f32>,        // batch × feed_forward
    pub delta: Buffer<f32>, // batch × width: what attention or the feed-forward network adds to x
    pub logits: Buffer<f32>, // vocabulary: the last token's
}

impl Activations {
    pub fn new(
        device: &Device,
        config: &Config,
        batch: usize,
        context: usize,
    ) -> Result<Activations> {
        let positions: Vec<u32> = (0..context as u32).collect();
        let options = device.buffer_options().category(Category::Activations);
        Ok(Activations {
            ids: buffer(device, "token ids", batch)?,
            positions: options.label("positions").create_from(&positions)?,
            x: buffer(device, "residual stream", batch * config.width)?,
            normed: buffer(device, "normalised", batch * config.width)?,
            q: buffer(device, "queries", batch * config.query_dim())?,
            k: buffer(device, "keys", batch * config.kv_dim())?,
            v: buffer(device, "values", batch * config.kv_dim())?,
            attended: buffer(device, "attended", batch * config.query_dim())?,
            gate: buffer(device, "gate", batch * config.feed_forward)?,
            up: buffer(device, "up", batch * config.feed_forward)?,
            delta: buffer(device, "delta", batch * config.width)?,
            logits: buffer(device, "logits", config.vocabulary)?,
        })
    }
}

fn buffer<T: Element>(device: &Device, label: &str, length: usize) -> Result<Buffer<T>> {
    let options = device.buffer_options().label(label);
    options.category(Category::Activations).create(length)
}
