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
use crate::tensor::Tensor;

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
    pub logits: Scores,
    pub low: Buffer<f32>, // rows × the largest rank of adapters, or nothing that is used
    /// Whether the queries, keys and values of several rows are one product, where their weights are one matrix.
    pub projects_together: bool,
    /// What products have of the activations of up to 16 rows.
    pub precision: ActivationPrecision,
}

/// What passes of one token a text have of their own, where several are under way at a time.
#[derive(Debug)]
pub(crate) struct Turn {
    pub positions: Positions,   // of `rows` rows
    pub logits: Scores,         // rows × vocabulary
    pub likeliest: Buffer<u32>, // rows: the lowest index of the largest of each row's
}

impl Turn {
    pub fn new(device: &Device, config: &Config, rows: usize) -> Result<Turn> {
        let storage = inner_storage(device)?;
        Ok(Turn {
            positions: Positions::new(device, storage, rows)?,
            logits: Scores::new(device, storage, rows, config.vocabulary)?,
            likeliest: buffer(device, "likeliest tokens", rows)?,
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
            normed: inner("normalized", rows * config.width)?,
            qkv: inner("queries, keys, values", rows * qkv_dim)?,
            attended: inner("attended", rows * config.query_dim())?,
            gate_up: inner("gate and up", rows * 2 * config.feed_forward)?,
            delta: inner("delta", rows * config.width)?,
            logits: Scores::new(device, storage, outputs, config.vocabulary)?,
            low: inner("adapters", (rows * rank).max(1))?,
            // A GPU like this loses time between kernels. The others do not.
            projects_together: storage != Storage::Shared,
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

/// The scores that the host reads: outputs × vocabulary. A device with memory of its own computes them there, and then
/// copies them to buffers that are short enough to lie in the host's (docs/NVIDIA.md).
#[derive(Debug)]
pub(crate) struct Scores {
    vocabulary: usize,
    /// What products write, where it is not what the host reads.
    inner: Option<Buffer<f32>>,
    /// Each of them has `rows` outputs, but the last one.
    pieces: Vec<Buffer<f32>>,
    rows: usize,
}

/// The longest shared buffer that a device with memory of its own reads and writes in the host's, in bytes.
const LONGEST_PIECE: usize = 2 << 20;

impl Scores {
    fn new(device: &Device, inner: Storage, outputs: usize, vocabulary: usize) -> Result<Scores> {
        let most = match inner {
            Storage::Shared => outputs,
            _ => (LONGEST_PIECE / size_of::<f32>() / vocabulary).max(1),
        };
        let rows = most.min(outputs);
        let pieces = (0..outputs).step_by(rows).map(|first| {
            let length = rows.min(outputs - first) * vocabulary;
            buffer(device, "logits", length)
        });
        let own = device.buffer_options().label("scores").storage(inner);
        let own = own.category(Category::Activations);
        Ok(Scores {
            vocabulary,
            pieces: pieces.collect::<Result<_>>()?,
            inner: match rows < outputs {
                true => Some(own.create(outputs * vocabulary)?),
                false => None,
            },
            rows,
        })
    }

    /// Where the product of the outputs from `first` on belongs.
    pub fn place(&self, first: usize) -> Tensor<'_> {
        let all = self.inner.as_ref().unwrap_or(&self.pieces[0]);
        all.tensor().skip(first * self.vocabulary)
    }

    /// Records that the host can read the outputs from `first` on, which stand in their [`place`](Scores::place).
    pub fn record(&self, commands: &mut Commands, first: usize, outputs: usize) -> Result<()> {
        if self.inner.is_none() {
            return Ok(());
        }
        let mut row = first;
        while row < first + outputs {
            let rows = (self.rows - row % self.rows).min(first + outputs - row);
            let piece = &self.pieces[row / self.rows];
            let to = piece.tensor().skip(row % self.rows * self.vocabulary);
            commands.copy(&CopyRows::new(
                self.place(row).matrix(rows, self.vocabulary),
                to.matrix(rows, self.vocabulary),
            ))?;
            row += rows;
        }
        Ok(())
    }

    /// The buffer that has output `row`, and where in it.
    pub fn row(&self, row: usize) -> (&Buffer<f32>, usize) {
        let start = row % self.rows * self.vocabulary;
        (&self.pieces[row / self.rows], start)
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Two of five outputs in each piece, as on a device with memory of its own.
    #[test]
    fn scores_in_pieces_are_read_where_they_belong() {
        let device = Device::open("cpu").expect("it is there");
        let vocabulary = LONGEST_PIECE / size_of::<f32>() / 2;
        let scores = Scores::new(&device, Storage::Private, 5, vocabulary).expect("memory");
        assert_eq!(scores.pieces.len(), 3);
        let one = Scores::new(&device, Storage::Shared, 5, vocabulary).expect("memory");
        assert!(one.inner.is_none() && one.pieces.len() == 1);
        // A pass scores the first output, and the next one the others.
        for (first, outputs) in [(0, 1), (1, 4)] {
            let rows = (first..first + outputs).flat_map(|row| vec![row as f32; vocabulary]);
            let computed = device.buffer_from(&rows.collect::<Vec<_>>());
            let computed = computed.expect("memory");
            for scores in [&scores, &one] {
                let mut commands = device.commands().expect("the device is open");
                let (from, to) = (computed.tensor(), scores.place(first));
                let [from, to] = [from, to].map(|it| it.matrix(outputs, vocabulary));
                commands.copy(&CopyRows::new(from, to)).expect("it fits");
                let recorded = scores.record(&mut commands, first, outputs);
                recorded.expect("it fits");
                commands.run().expect("it can be computed");
            }
        }
        for scores in [scores, one] {
            for row in 0..5 {
                let (buffer, start) = scores.row(row);
                let found = &buffer.map().expect("it is complete")[start..][..vocabulary];
                assert!(found.iter().all(|score| *score == row as f32), "{row}");
            }
        }
    }
}
