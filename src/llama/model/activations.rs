//! What the layers hand to each other.

use crate::buffer::Buffer;
use crate::commands::{ActivationPrecision, Commands, CommandsOptions};
use crate::device::Device;
use crate::dtype::Element;
use crate::error::Result;
use crate::llama::arch::config::Config;
use crate::memory::Category;
use crate::memory::Storage;
use crate::ops::CopyRows;

/// The memory of a forward pass over up to `rows` tokens, made once and used for every pass.
#[derive(Debug)]
pub(crate) struct Activations {
    pub ids: Buffer<u32>,          // rows
    pub positions: [Positions; 2], // of passes that take turns
    pub outputs: Buffer<u32>,      // outputs: the rows whose logits are wanted
    pub x: Buffer<f32>,            // rows × width: the residual stream
    pub normed: Buffer<f32>,       // rows × width: x, normalized
    pub qkv: Buffer<f32>,          // rows × heads × head_dim, and twice rows × kv_heads × head_dim
    pub attended: Buffer<f32>,     // rows × heads × head_dim
    pub gate_up: Buffer<f32>,      // twice rows × feed_forward
    pub delta: Buffer<f32>, // rows × width: what attention or the feed-forward network adds to x
    pub logits: Buffer<f32>, // outputs × vocabulary
    pub low: Buffer<f32>,   // rows × the largest rank of adapters, or nothing that is used
    /// What products have of the activations of a single row.
    pub precision: ActivationPrecision,
}

/// What passes of single tokens have of their own, where several are under way at a time.
#[derive(Debug)]
pub(crate) struct Turn {
    pub positions: Positions,   // of one row
    pub logits: Buffer<f32>,    // vocabulary
    pub likeliest: Buffer<u32>, // the lowest index of the largest of them
}

impl Turn {
    pub fn new(device: &Device, config: &Config) -> Result<Turn> {
        Ok(Turn {
            positions: Positions::new(device, inner_storage(device)?, 1)?,
            logits: buffer(device, "logits", config.vocabulary)?,
            likeliest: buffer(device, "likeliest token", 1)?,
        })
    }
}

impl Activations {
    /// `outputs` is at most `rows`; `rank` is the largest one of adapters.
    pub fn new(
        device: &Device,
        config: &Config,
        rows: usize,
        outputs: usize,
        rank: usize,
        precision: ActivationPrecision,
    ) -> Result<Activations> {
        let qkv_dim = config.query_dim() + 2 * config.kv_dim();
        let storage = inner_storage(device)?;
        let inner = |label, length| {
            let options = device.buffer_options().label(label).storage(storage);
            options.category(Category::Activations).create(length)
        };
        Ok(Activations {
            ids: buffer(device, "token ids", rows)?,
            positions: [
                Positions::new(device, storage, rows)?,
                Positions::new(device, storage, rows)?,
            ],
            outputs: buffer(device, "output rows", outputs)?,
            x: inner("residual stream", rows * config.width)?,
            normed: buffer(device, "normalized", rows * config.width)?,
            qkv: inner("queries, keys, values", rows * qkv_dim)?,
            attended: inner("attended", rows * config.query_dim())?,
            gate_up: inner("gate and up", rows * 2 * config.feed_forward)?,
            delta: inner("delta", rows * config.width)?,
            logits: buffer(device, "logits", outputs * config.vocabulary)?,
            low: inner("adapters", (rows * rank).max(1))?,
            precision,
        })
    }

    /// How to record what uses this memory.
    pub fn commands<'d>(&self, device: &'d Device, label: &str) -> CommandsOptions<'d> {
        device
            .commands_options()
            .label(label)
            .activations(self.precision)
    }
}

/// Where each token of a pass stands in its text: one number for each of `rows`.
#[derive(Debug)]
pub(crate) struct Positions {
    /// What the host writes.
    pub host: Buffer<u32>,
    /// The same in memory of the device's own, where there is such memory: every layer reads it.
    device: Option<Buffer<u32>>,
}

impl Positions {
    fn new(device: &Device, inner: Storage, rows: usize) -> Result<Positions> {
        let own = device.buffer_options().label("positions").storage(inner);
        let own = own.category(Category::Activations);
        Ok(Positions {
            host: buffer(device, "positions", rows)?,
            device: match inner {
                Storage::Shared => None,
                _ => Some(own.create(rows)?),
            },
        })
    }

    /// Records that the device reads what the host has written, before the first layer does.
    pub fn record(&self, commands: &mut Commands, rows: usize) -> Result<()> {
        match &self.device {
            None => Ok(()),
            Some(device) => commands.copy(&CopyRows::new(
                self.host.matrix(1, rows),
                device.matrix(1, rows),
            )),
        }
    }

    /// What layers read.
    pub fn read(&self) -> &Buffer<u32> {
        self.device.as_ref().unwrap_or(&self.host)
    }
}

/// Of what the host never sees: the device's alone, where the host has memory of its own.
pub(super) fn inner_storage(device: &Device) -> Result<Storage> {
    Ok(match device.info()?.unified_memory {
        true => Storage::Shared,
        false => Storage::Private,
    })
}

fn buffer<T: Element>(device: &Device, label: &str, length: usize) -> Result<Buffer<T>> {
    let options = device.buffer_options().label(label);
    options.category(Category::Activations).create(length)
}
