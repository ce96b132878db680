//! A model's weights in device memory.

use std::hint::black_box;
use std::ops::Range;
use std::sync::Arc;

use super::LlamaError;
use super::gguf::{GgufFile, TensorInfo, TensorType};
use crate::memory::{Category, page_size};
use crate::{Buffer, Device, Dtype, Result, Tensor};

/// How much of a model is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadProgress {
    /// Bytes of tensors that are in memory.
    pub done: u64,
    /// Bytes of all tensors.
    pub total: u64,
}

/// Where the weights are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WeightStorage {
    /// In the pages of the file itself, which the device reads in place: no copy, and the operating system shares them between
    /// processes.
    #[default]
    Mapped,
    /// In buffers of their own: the file may change or go afterwards.
    Copied,
}

/// How many bytes are loaded between two reports of progress.
const STEP: usize = 8 << 20;

/// One matrix or vector of weights.
#[derive(Clone, Debug)]
pub(super) struct Weight {
    buffer: Arc<Buffer<u8>>,
    offset: usize,
    dtype: Dtype,
}

impl Weight {
    pub fn tensor(&self) -> Tensor<'_> {
        self.buffer.tensor_at(self.offset, self.dtype)
    }
}

/// The weights of a file, handed out by name.
pub(super) struct Weights<'a> {
    file: &'a GgufFile,
    /// The bytes of the file that each buffer holds, in their order.
    buffers: Vec<(Range<u64>, Arc<Buffer<u8>>)>,
    /// Whether each of the file's tensors was handed out.
    taken: Vec<bool>,
}

impl<'a> Weights<'a> {
    /// Brings all tensors of the file to the device.
    pub fn load(
        device: &Device,
        file: &'a GgufFile,
        storage: WeightStorage,
        progress: &mut dyn FnMut(LoadProgress),
    ) -> Result<Weights<'a>> {
        let mut tensors: Vec<&TensorInfo> = file.header().tensors().iter().collect();
        tensors.sort_by_key(|tensor| tensor.bytes().start);
        let mut progress = Progress::new(&tensors, progress);
        let buffers = match storage {
            WeightStorage::Mapped => map(device, file, &tensors, &mut progress)?,
            WeightStorage::Copied => copy(device, file, &tensors, &mut progress)?,
        };
        Ok(Weights {
            file,
            buffers,
            taken: vec![false; tensors.len()],
        })
    }

    /// A matrix that takes `inputs` to `outputs`, stored as `outputs` rows.
    pub fn matrix(&mut self, name: &str, inputs: usize, outputs: usize) -> Result<Weight> {
        self.optional_matrix(name, inputs, outputs)?
            .ok_or_else(|| LlamaError::MissingTensor(name.to_owned()).into())
    }

    /// The same, if there is one.
    pub fn optional_matrix(
        &mut self,
        name: &str,
        inputs: usize,
        outputs: usize,
    ) -> Result<Option<Weight>> {
        let Some(tensor) = self.take(name, &[inputs, outputs])? else {
            return Ok(None);
        };
        let dtype = match tensor.tensor_type() {
            TensorType::F32 => Dtype::F32,
            TensorType::F16 => Dtype::F16,
            TensorType::BF16 => Dtype::Bf16,
            TensorType::Q8_0 => Dtype::Q8_0,
            _ => return Err(unsupported(tensor, "F32, F16, BF16 and Q8_0")),
        };
        Ok(Some(self.weight(tensor, dtype)))
    }

    /// A vector of `length` F32 weights.
    pub fn vector(&mut self, name: &str, length: usize) -> Result<Weight> {
        self.optional_vector(name, length)?
            .ok_or_else(|| LlamaError::MissingTensor(name.to_owned()).into())
    }

    /// The same, if there is one.
    pub fn optional_vector(&mut self, name: &str, length: usize) -> Result<Option<Weight>> {
        let Some(tensor) = self.take(name, &[length])? else {
            return Ok(None);
        };
        match tensor.tensor_type() {
            TensorType::F32 => Ok(Some(self.weight(tensor, Dtype::F32))),
            _ => Err(unsupported(tensor, "F32")),
        }
    }

    /// Whether all tensors were handed out. One that was not would have changed the results.
    pub fn finish(self) -> Result<()> {
        let tensors = self.file.header().tensors().iter();
        match tensors.zip(&self.taken).find(|(_, taken)| !**taken) {
            None => Ok(()),
            Some((tensor, _)) => Err(LlamaError::UnexpectedTensor(tensor.name().to_owned()).into()),
        }
    }

    fn take(&mut self, name: &str, dimensions: &[usize]) -> Result<Option<&'a TensorInfo>> {
        let tensors = self.file.header().tensors();
        let Some(index) = self.file.header().tensor_index(name) else {
            return Ok(None);
        };
        self.taken[index] = true;
        let expected: Vec<u64> = dimensions.iter().map(|size| *size as u64).collect();
        match tensors[index].dimensions() == expected {
            true => Ok(Some(&tensors[index])),
            false => Err(LlamaError::TensorShape {
                name: name.to_owned(),
                expected,
                found: tensors[index].dimensions().to_vec(),
            }
            .into()),
        }
    }

    fn weight(&self, tensor: &TensorInfo, dtype: Dtype) -> Weight {
        let bytes = tensor.bytes();
        // Of the buffers that start before a tensor the last one holds it as a whole, and the first starts before every tensor.
        let place = self
            .buffers
            .partition_point(|(range, _)| range.start <= bytes.start);
        let (range, buffer) = &self.buffers[place - 1];
        Weight {
            buffer: buffer.clone(),
            offset: (bytes.start - range.start) as usize,
            dtype,
        }
    }
}

fn unsupported(tensor: &TensorInfo, supported: &'static str) -> crate::Error {
    let error = LlamaError::TensorType {
        name: tensor.name().to_owned(),
        found: tensor.tensor_type(),
        supported,
    };
    error.into()
}

type Buffers = Vec<(Range<u64>, Arc<Buffer<u8>>)>;

/// Wraps the file's pages: in one buffer, or in as many as a device with a short longest buffer needs. Then reads a byte of each
/// page, so that the file is in memory when the model is used, and not when its first token waits.
fn map(
    device: &Device,
    file: &GgufFile,
    tensors: &[&TensorInfo],
    progress: &mut Progress,
) -> Result<Buffers> {
    let longest = device.info()?.max_buffer_length;
    let ranges = tensors.iter().map(|tensor| tensor.bytes());
    let mut buffers = Buffers::new();
    for pages in page_ranges(ranges, page_size() as u64, longest) {
        let label = format!("weights, bytes {} to {}", pages.start, pages.end);
        let options = device
            .buffer_options()
            .label(label)
            .category(Category::Weights);
        let buffer = options.wrap(file.pages(pages.clone()))?;
        buffers.push((pages, Arc::new(buffer)));
    }
    for tensor in tensors {
        for step in file.bytes(tensor.bytes()).chunks(STEP) {
            for page in step.chunks(page_size()) {
                black_box(page[0]);
            }
            progress.add(step.len());
        }
    }
    Ok(buffers)
}

/// Ranges of at most `longest` bytes that start on pages and hold the given ones, which are in order and do not overlap, each as a
/// whole. One that is longer than `longest` gets a range of its own, which the device will refuse by name.
fn page_ranges(
    ranges: impl Iterator<Item = Range<u64>>,
    page: u64,
    longest: u64,
) -> Vec<Range<u64>> {
    let mut result: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        let start = range.start - range.start % page;
        match result.last_mut() {
            Some(last) if range.end.next_multiple_of(page) - last.start <= longest => {
                last.end = range.end
            }
            _ => result.push(start..range.end),
        }
    }
    result
}

/// Copies each tensor to a buffer of its own.
fn copy(
    device: &Device,
    file: &GgufFile,
    tensors: &[&TensorInfo],
    progress: &mut Progress,
) -> Result<Buffers> {
    let mut buffers = Buffers::new();
    for tensor in tensors {
        let bytes = file.bytes(tensor.bytes());
        let options = device
            .buffer_options()
            .label(tensor.name())
            .category(Category::Weights);
        let mut buffer = options.create(bytes.len())?;
        for (index, step) in bytes.chunks(STEP).enumerate() {
            buffer.write_at(index * STEP, step)?;
            progress.add(step.len());
        }
        buffers.push((tensor.bytes(), Arc::new(buffer)));
    }
    Ok(buffers)
}

struct Progress<'a> {
    now: LoadProgress,
    report: &'a mut dyn FnMut(LoadProgress),
}

impl<'a> Progress<'a> {
    fn new(tensors: &[&TensorInfo], report: &'a mut dyn FnMut(LoadProgress)) -> Progress<'a> {
        // Tensors do not overlap, so that the sum is at most the file's length.
        let total = tensors
            .iter()
            .map(|tensor| tensor.bytes().end - tensor.bytes().start)
            .sum();
        Progress {
            now: LoadProgress { done: 0, total },
            report,
        }
    }

    fn add(&mut self, bytes: usize) {
        self.now.done += bytes as u64;
        (self.report)(self.now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_pages_hold_each_tensor_as_a_whole() {
        let tensors = [
            100..200,
            200..5000,
            8192..9000,
            9000..20_000,
            40_960..40_961,
        ];
        let of = |longest| -> Vec<(u64, u64)> {
            let ranges = page_ranges(tensors.iter().cloned(), 4096, longest);
            ranges
                .iter()
                .map(|range| (range.start, range.end))
                .collect()
        };
        assert_eq!(of(u64::MAX), [(0, 40_961)]);
        assert_eq!(of(24_576), [(0, 20_000), (40_960, 40_961)]);
        assert_eq!(of(16_384), [(0, 9000), (8192, 20_000), (40_960, 40_961)]);
        // The longest is refused by the device; the others still fit.
        assert_eq!(
            of(8192),
            [(0, 5000), (8192, 9000), (8192, 20_000), (40_960, 40_961)]
        );
    }

    #[test]
    fn a_tensor_is_in_the_last_range_that_starts_before_it() {
        let tensors = [4100..4200, 4200..9000, 9000..12_000, 12_000..12_288];
        for longest in [4096, 8192, 12_288, u64::MAX] {
            let ranges = page_ranges(tensors.iter().cloned(), 4096, longest);
            for tensor in &tensors {
                let place = ranges.partition_point(|range| range.start <= tensor.start);
                let range = &ranges[place - 1];
                assert!(
                    range.start <= tensor.start && tensor.end <= range.end,
                    "{tensor:?} {ranges:?}"
                );
            }
        }
    }
}
