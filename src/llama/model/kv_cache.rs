//! The keys and values of the positions that a session has seen.

use std::sync::Arc;

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

/// Where the part of a text in a common buffer may begin, in bytes: on a line of a processor's or a GPU's cache, and
/// where Metal may bind it.
const PART: usize = 256;

/// Room for the keys and values of `context` positions in every layer, made once.
#[derive(Debug)]
pub(crate) struct KvCache {
    layers: Vec<LayerCache>,
}

impl KvCache {
    /// One for each of `count` texts. Those of a layer share buffers, as many as the longest buffer has room for, so
    /// that a device can attend to all of the texts at once.
    ///
    /// # Errors
    ///
    /// [`LlamaError::CacheType`] when heads are not whole blocks of the type, and the device's errors.
    pub fn of_texts(
        device: &Device,
        config: &Config,
        context: usize,
        cache_type: CacheType,
        count: usize,
    ) -> Result<Vec<KvCache>> {
        let (head_dim, block) = (config.head_dim, cache_type.dtype().block_elements());
        if !head_dim.is_multiple_of(block) {
            return Err(LlamaError::CacheType {
                cache: cache_type.name(),
                head_dim,
                block,
            }
            .into());
        }
        let layers = (0..config.layers).map(|layer| {
            LayerCache::of_texts(device, config, layer, context, cache_type.dtype(), count)
        });
        let mut layers: Vec<_> = layers
            .map(|texts| texts.map(Vec::into_iter))
            .collect::<Result<_>>()?;
        let text = |_| KvCache {
            layers: layers.iter_mut().filter_map(Iterator::next).collect(),
        };
        Ok((0..count).map(text).collect())
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
        for part in self.layers.iter().flat_map(LayerCache::parts) {
            let start = bytes.len();
            bytes.resize(start + positions * self.row_bytes(), 0);
            if positions > 0 {
                part.buffer.read_at(part.start, &mut bytes[start..])?;
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
        let parts = self.layers.iter().flat_map(LayerCache::parts);
        for (part, bytes) in parts.zip(bytes.chunks(length)) {
            part.buffer.write_part(part.start, bytes)?;
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
    keys: Part,   // context × kv_dim, of `dtype`
    values: Part, // context × kv_dim, of `dtype`
    dtype: DType,
    kv_dim: usize,
}

/// What a text has of a buffer.
#[derive(Clone, Debug)]
struct Part {
    buffer: Arc<Buffer<u8>>,
    /// Bytes.
    start: usize,
}

impl LayerCache {
    fn of_texts(
        device: &Device,
        config: &Config,
        layer: usize,
        context: usize,
        dtype: DType,
        count: usize,
    ) -> Result<Vec<LayerCache>> {
        let kv_dim = config.kv_dim();
        let bytes = context * kv_dim / dtype.block_elements() * dtype.block_bytes();
        let bytes = bytes.next_multiple_of(WORD);
        let (storage, longest) = (inner_storage(device)?, device.info()?.max_buffer_length);
        let buffer = |what: &str, length| {
            let options = device
                .buffer_options()
                .label(format!("layer {layer} {what}"))
                .storage(storage);
            options.category(Category::KvCache).create(length)
        };
        let mut texts = Vec::with_capacity(count);
        for parts in parts_of_buffers(count, bytes, longest) {
            let length = (parts - 1) * bytes.next_multiple_of(PART) + bytes;
            let (keys, values) = (buffer("keys", length)?, buffer("values", length)?);
            let (keys, values) = (Arc::new(keys), Arc::new(values));
            texts.extend((0..parts).map(|part| {
                let start = part * bytes.next_multiple_of(PART);
                let [keys, values] = [&keys, &values].map(|buffer| Part {
                    buffer: Arc::clone(buffer),
                    start,
                });
                LayerCache {
                    keys,
                    values,
                    dtype,
                    kv_dim,
                }
            }));
        }
        Ok(texts)
    }

    fn parts(&self) -> [&Part; 2] {
        [&self.keys, &self.values]
    }

    fn row_bytes(&self) -> usize {
        self.kv_dim / self.dtype.block_elements() * self.dtype.block_bytes()
    }

    pub fn keys(&self) -> Tensor<'_> {
        self.keys.buffer.tensor_at(self.keys.start, self.dtype)
    }

    pub fn values(&self) -> Tensor<'_> {
        self.values.buffer.tensor_at(self.values.start, self.dtype)
    }

    /// Records the copy of the keys and values of tokens to the places of their positions.
    /// `k`, `v`: tokens × kv_dim, F32.
    pub fn store(
        &self,
        commands: &mut Commands,
        first_position: usize,
        k: Tensor<'_>,
        v: Tensor<'_>,
    ) -> Result<()> {
        for (src, cache) in [(k, self.keys()), (v, self.values())] {
            let place = cache.skip(first_position * self.kv_dim);
            let [tokens, kv_dim] = src.shape();
            commands.copy(&CopyRows::new(src, place.matrix(tokens, kv_dim)))?;
        }
        Ok(())
    }
}

/// How many of `count` texts, of `bytes` each, are in each buffer. A text longer than the longest buffer has one of its
/// own, which the device refuses.
fn parts_of_buffers(count: usize, bytes: usize, longest: u64) -> impl Iterator<Item = usize> {
    let longest = usize::try_from(longest).unwrap_or(usize::MAX);
    let behind_first = longest.saturating_sub(bytes) / bytes.next_multiple_of(PART);
    let most = behind_first.saturating_add(1);
    (0..count)
        .step_by(most)
        .map(move |first| most.min(count - first))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_share_buffers_that_are_not_too_long() {
        let parts = |count, bytes, longest| -> Vec<usize> {
            parts_of_buffers(count, bytes, longest).collect()
        };
        assert_eq!(parts(1, 1000, u64::MAX), [1]);
        assert_eq!(parts(16, 1000, u64::MAX), [16]);
        // Each but the last takes 1024.
        assert_eq!(parts(5, 1000, 2 * 1024 + 1000), [3, 2]);
        assert_eq!(parts(5, 1000, 2 * 1024 + 999), [2, 2, 1]);
        assert_eq!(parts(2, 1000, 999), [1, 1]);
    }
}
