//! The keys and values of the positions that a session has seen.

use crate::buffer::Buffer;
use crate::commands::Commands;
use crate::device::Device;
use crate::dtype::DType;
use crate::error::Result;
use crate::llama::arch::config::Config;
use crate::llama::error::LlamaError;
use crate::llama::model::activations::inner_storage;
use crate::memory::Category;
use crate::ops::{CopyBytes, CopyRows};
use crate::tensor::Tensor;

/// How keys and values are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CacheType {
    /// As they are computed.
    #[default]
    F32,
    /// Rounded, in half the memory.
    F16,
    /// In blocks of 32 with one scale each, in little more than a quarter of the memory: 34 bytes for 32 elements.
    /// Heads must be whole blocks.
    Q8_0,
}

impl CacheType {
    fn dtype(self) -> DType {
        match self {
            CacheType::F32 => DType::F32,
            CacheType::F16 => DType::F16,
            CacheType::Q8_0 => DType::Q8_0,
        }
    }

    fn name(self) -> &'static str {
        match self {
            CacheType::F32 => "F32",
            CacheType::F16 => "F16",
            CacheType::Q8_0 => "Q8_0",
        }
    }
}

/// Bytes that the device copies at the least.
const WORD: usize = 4;

/// Room for the keys and values of `context` positions in every layer, made once.
#[derive(Debug)]
pub(crate) struct KvCache {
    layers: Vec<LayerCache>,
}

impl KvCache {
    /// # Errors
    ///
    /// [`LlamaError::CacheType`] when heads are not whole blocks of the type, and the device's errors.
    pub fn new(
        device: &Device,
        config: &Config,
        context: usize,
        cache_type: CacheType,
    ) -> Result<KvCache> {
        let (head_dim, block) = (config.head_dim, cache_type.dtype().block_elements());
        if !head_dim.is_multiple_of(block) {
            return Err(LlamaError::CacheType {
                cache: cache_type.name(),
                head_dim,
                block,
            }
            .into());
        }
        let layers = (0..config.layers)
            .map(|layer| LayerCache::new(device, config, layer, context, cache_type.dtype()));
        Ok(KvCache {
            layers: layers.collect::<Result<_>>()?,
        })
    }

    pub fn layer(&self, layer: usize) -> &LayerCache {
        &self.layers[layer]
    }

    /// The number of the elements' type in the C ABI.
    pub fn dtype_number(&self) -> u32 {
        self.layers[0].dtype.native()
    }

    /// Bytes of one position's keys, or values, in one layer.
    pub fn row_bytes(&self) -> usize {
        self.layers[0].row_bytes()
    }

    /// Bytes of one position's keys and values in all layers.
    pub fn position_bytes(&self) -> usize {
        self.layers.len() * 2 * self.row_bytes()
    }

    /// Appends the keys and values of the first `positions`.
    pub fn read(&self, positions: usize, bytes: &mut Vec<u8>) -> Result<()> {
        for buffer in self.layers.iter().flat_map(LayerCache::buffers) {
            let start = bytes.len();
            bytes.resize(start + positions * self.row_bytes(), 0);
            if positions > 0 {
                buffer.read_at(0, &mut bytes[start..])?;
            }
        }
        Ok(())
    }

    /// Sets the keys and values of the first `positions` to what [`read`](KvCache::read) gave.
    pub fn write(&mut self, positions: usize, bytes: &[u8]) -> Result<()> {
        let length = positions * self.row_bytes();
        if length == 0 {
            return Ok(());
        }
        let buffers = self
            .layers
            .iter_mut()
            .flat_map(|layer| [&mut layer.keys, &mut layer.values]);
        for (buffer, bytes) in buffers.zip(bytes.chunks(length)) {
            buffer.write_at(0, bytes)?;
        }
        Ok(())
    }

    /// Records the copy of the first `positions` into another cache of the same shape.
    pub fn copy_to(
        &self,
        target: &KvCache,
        commands: &mut Commands,
        positions: usize,
    ) -> Result<()> {
        // Rows of blocks may end in half a word, and copies are of whole ones.
        let length = (positions * self.row_bytes()).next_multiple_of(WORD);
        for (from, to) in self.layers.iter().zip(&target.layers) {
            for (src, dst) in [(from.keys(), to.keys()), (from.values(), to.values())] {
                commands.copy_bytes(&CopyBytes::new(src, dst, length))?;
            }
        }
        Ok(())
    }
}

/// The cache of one layer.
#[derive(Debug)]
pub(crate) struct LayerCache {
    keys: Buffer<u8>,   // context × kv_dim, of `dtype`
    values: Buffer<u8>, // context × kv_dim, of `dtype`
    dtype: DType,
    kv_dim: usize,
}

impl LayerCache {
    fn new(
        device: &Device,
        config: &Config,
        layer: usize,
        context: usize,
        dtype: DType,
    ) -> Result<LayerCache> {
        let kv_dim = config.kv_dim();
        let bytes = context * kv_dim / dtype.block_elements() * dtype.block_bytes();
        let bytes = bytes.next_multiple_of(WORD);
        let storage = inner_storage(device)?;
        let buffer = |what: &str| {
            let options = device
                .buffer_options()
                .label(format!("layer {layer} {what}"))
                .storage(storage);
            options.category(Category::KvCache).create(bytes)
        };
        Ok(LayerCache {
            keys: buffer("keys")?,
            values: buffer("values")?,
            dtype,
            kv_dim,
        })
    }

    fn buffers(&self) -> [&Buffer<u8>; 2] {
        [&self.keys, &self.values]
    }

    fn row_bytes(&self) -> usize {
        self.kv_dim / self.dtype.block_elements() * self.dtype.block_bytes()
    }

    pub fn keys(&self) -> Tensor<'_> {
        self.keys.tensor_at(0, self.dtype)
    }

    pub fn values(&self) -> Tensor<'_> {
        self.values.tensor_at(0, self.dtype)
    }

    /// Records the copy of the keys and values of `tokens` tokens to the places of their positions.
    /// `k`, `v`: tokens × kv_dim, F32.
    pub fn store(
        &self,
        commands: &mut Commands,
        first_position: usize,
        tokens: usize,
        k: Tensor<'_>,
        v: Tensor<'_>,
    ) -> Result<()> {
        for (src, cache) in [(k, self.keys()), (v, self.values())] {
            commands.copy(&CopyRows::new(
                src.matrix(tokens, self.kv_dim),
                cache
                    .skip(first_position * self.kv_dim)
                    .matrix(tokens, self.kv_dim),
            ))?;
        }
        Ok(())
    }
}
