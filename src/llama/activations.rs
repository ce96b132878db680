//! What the layers hand to each other.

use super::Config;
use crate::memory::Category;
use crate::{Buffer, Device, Element, Result};

/// The memory of a forward pass over up to `rows` tokens, made once and used for every pass.
#[derive(Debug)]
pub(super) struct Activations {
    pub ids: Buffer<u32>,       // rows
    pub positions: Buffer<u32>, // rows: where each token stands in its text
    pub outputs: Buffer<u32>,   // outputs: the rows whose logits are wanted
    pub x: Buffer<f32>,         // rows × width: the residual stream
    pub normed: Buffer<f32>,    // rows × width: x, normalised
    pub q: Buffer<f32>,         // rows × heads × head_dim
    pub k: Buffer<f32>,         // rows × kv_heads × head_dim
    pub v: Buffer<f32>,         // rows × kv_heads × head_dim
    pub attended: Buffer<f32>,  // rows × heads × head_dim
    pub gate: Buffer<f32>,      // rows × feed_forward
    pub up: Buffer<f32>,        // rows × feed_forward
    pub delta: Buffer<f32>, // rows × width: what attention or the feed-forward network adds to x
    pub logits: Buffer<f32>, // outputs × vocabulary
}

impl Activations {
    /// `outputs` is at most `rows`.
    pub fn new(
        device: &Device,
        config: &Config,
        rows: usize,
        outputs: usize,
    ) -> Result<Activations> {
        Ok(Activations {
            ids: buffer(device, "token ids", rows)?,
            positions: buffer(device, "positions", rows)?,
            outputs: buffer(device, "output rows", outputs)?,
            x: buffer(device, "residual stream", rows * config.width)?,
            normed: buffer(device, "normalised", rows * config.width)?,
            q: buffer(device, "queries", rows * config.query_dim())?,
            k: buffer(device, "keys", rows * config.kv_dim())?,
            v: buffer(device, "values", rows * config.kv_dim())?,
            attended: buffer(device, "attended", rows * config.query_dim())?,
            gate: buffer(device, "gate", rows * config.feed_forward)?,
            up: buffer(device, "up", rows * config.feed_forward)?,
            delta: buffer(device, "delta", rows * config.width)?,
            logits: buffer(device, "logits", outputs * config.vocabulary)?,
        })
    }
}

fn buffer<T: Element>(device: &Device, label: &str, length: usize) -> Result<Buffer<T>> {
    let options = device.buffer_options().label(label);
    options.category(Category::Activations).create(length)
}
