//! A model's weights in device memory.

mod forgetter;
mod repacker;

use std::hint::black_box;
use std::ops::{ControlFlow, Range};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::thread;

use half::{bf16, f16};

use crate::buffer::Buffer;
use crate::device::Device;
use crate::dtype::DType;
use crate::error::Result;
use crate::llama::error::LlamaError;
use crate::llama::files::gguf::TensorType;
use crate::llama::files::iq::{self, DecodeBlock};
use crate::llama::files::mapped_file::MappedFile;
use crate::llama::files::model_file::{ModelFile, ModelTensor, Place};
use crate::llama::files::progress::LoadProgress;
use crate::llama::model::activations::inner_storage;
use crate::memory::{BufferUsage, Category, page_size};
use crate::weights::WeightMatrix;
use forgetter::Forgetter;
use repacker::PendingTensor;
pub(super) use repacker::Repacker;
pub(crate) mod weight;
use weight::Weight;

/// Where the weights are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WeightStorage {
    /// [`Moved`](WeightStorage::Moved) where that is faster and there is room: on the software device of a Linux, for
    /// 64 MiB of weights and more, when the machine could hold twice as many in its free memory. Else
    /// [`Mapped`](WeightStorage::Mapped).
    #[default]
    Automatic,
    /// In the pages of the file itself, which the device reads in place: no copy, and the operating system shares them
    /// between processes.
    Mapped,
    /// Mapped at first, so that the model is ready at once. Then, between the passes of its sessions, a 64th of the
    /// weights at a time, matrix after matrix moves into a buffer that layers share, and the file's pages of it are
    /// given back; at the end the file is unmapped. What there is no memory for stays mapped.
    ///
    /// On the way the device lays matrices out as it reads them fastest ([`BufferUsage::Weights`]). Sums are then
    /// rounded in another order, which changes logits by some 1e-4, as the rounding of activations does anyway. What
    /// moves when depends on the tokens that were computed and on nothing else: the same texts, one after another, give
    /// the same results in every run.
    Moved,
    /// In buffers of their own, laid out as the device reads them fastest: the file may change or go afterwards.
    Copied,
}

/// How many bytes are loaded between two reports of progress.
const STEP: usize = repacker::STEP;

/// The same for a device with memory of its own: threads that copy start for each step.
const LONG_STEP: usize = 256 << 20;

/// Reads a byte of each page, on a few threads: the system maps them one after another for each. Calls `touched` with
/// the lengths of what is done, and leaves the rest when that says so.
fn touch(steps: &[&[u8]], mut touched: impl FnMut(usize) -> ControlFlow<()>) -> ControlFlow<()> {
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let touch_next = || {
        let step = steps.get(next.fetch_add(1, Ordering::Relaxed))?;
        for page in step.chunks(page_size()) {
            black_box(page[0]);
        }
        Some(step.len())
    };
    thread::scope(|scope| {
        let threads = thread::available_parallelism().map_or(1, |threads| threads.get().min(4));
        for _ in 1..threads {
            // Where there is no thread to be had, this one does it all.
            let _ = thread::Builder::new().spawn_scoped(scope, || {
                while let Some(length) = touch_next() {
                    done.fetch_add(length, Ordering::Relaxed);
                }
            });
        }
        while let Some(length) = touch_next() {
            if touched(length + done.swap(0, Ordering::Relaxed)).is_break() {
                next.store(steps.len(), Ordering::Relaxed);
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    })?;
    match done.into_inner() {
        0 => ControlFlow::Continue(()),
        rest => touched(rest),
    }
}

/// The weights of a file, handed out by name.
pub(crate) struct Weights<'a> {
    device: &'a Device,
    file: &'a ModelFile,
    source: Source,
    /// Whether each of the file's tensors was handed out.
    taken: Vec<bool>,
    /// Mapped ones that are to move.
    pending: Option<Vec<PendingTensor>>,
    /// The number of the slab for those that are handed out now.
    slab: usize,
    /// Matrices that have their place in a buffer with others already.
    reserved: Vec<Reserved>,
    progress: Progress<'a>,
    /// On a device with memory of its own: copies to it are so fast that unmapping would hold them up.
    forgetter: Option<Forgetter>,
}

/// Where a tensor, by its name, is going to be copied.
struct Reserved {
    name: String,
    buffer: Arc<Buffer<u8>>,
    offset: usize,
}

enum Source {
    /// For each file, buffers around its pages, in their order.
    Mapped(Vec<Vec<Pages>>),
    /// A buffer is made for each tensor that is asked for.
    Copied,
}

impl<'a> Weights<'a> {
    pub fn new(
        device: &'a Device,
        file: &'a ModelFile,
        storage: WeightStorage,
        progress: &'a mut dyn FnMut(LoadProgress) -> ControlFlow<()>,
    ) -> Result<Weights<'a>> {
        let tensors = file.tensors();
        let progress = Progress::new(tensors, progress);
        let info = device.info()?;
        // A device with memory of its own reads the host's over a bus, and keeps its own layout.
        let storage = match info.unified_memory {
            true => storage,
            false => WeightStorage::Copied,
        };
        let moved = match storage {
            WeightStorage::Moved => true,
            WeightStorage::Automatic => repacker::is_worthwhile(device, progress.now.total)?,
            WeightStorage::Mapped | WeightStorage::Copied => false,
        };
        Ok(Weights {
            device,
            file,
            source: match storage {
                WeightStorage::Copied => Source::Copied,
                _ => Source::Mapped(wrap_pages(device, file)?),
            },
            taken: vec![false; tensors.len()],
            pending: moved.then(Vec::new),
            slab: 0,
            reserved: Vec::new(),
            progress,
            forgetter: (!info.unified_memory).then(Forgetter::new),
        })
    }

    /// Says that these matrices have the same inputs. On a device with memory of its own those of one type that follow
    /// each other become neighbors, so that they are one matrix for a single token.
    pub fn together(&mut self, names: &[String]) -> Result<()> {
        if self.device.info()?.unified_memory {
            return Ok(());
        }
        let tensors = self.file.tensors();
        let found = names.iter().filter_map(|name| self.file.tensor_index(name));
        let found: Vec<&ModelTensor> = found.map(|index| &tensors[index]).collect();
        for neighbors in found.chunk_by(|one, next| one.tensor_type() == next.tensor_type()) {
            if neighbors.len() < 2 || dtype_of(neighbors[0].tensor_type()).is_none() {
                continue;
            }
            let label = format!("{} and what follows", neighbors[0].name());
            let lengths = neighbors.iter().map(|tensor| self.file.bytes(tensor).len());
            let buffer = Arc::new(self.weights_buffer(&label, lengths.sum())?);
            let mut offset = 0;
            for tensor in neighbors {
                self.reserved.push(Reserved {
                    name: tensor.name().to_owned(),
                    buffer: Arc::clone(&buffer),
                    offset,
                });
                offset += self.file.bytes(tensor).len();
            }
        }
        Ok(())
    }

    /// What is asked for from here on belongs together, and not to what was before: it may move to another slab.
    pub fn next_part(&mut self) {
        let long_enough = repacker::SLAB.min(self.progress.now.total / 16);
        let pending = self.pending.iter().flatten().rev();
        let in_slab = pending.take_while(|tensor| tensor.slab == self.slab);
        if in_slab.map(PendingTensor::length).sum::<u64>() >= long_enough {
            self.slab += 1;
        }
    }

    /// A matrix that takes `inputs` to `outputs`, stored as `outputs` rows; or a table of such rows.
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
        if let Some(decode) = iq::decoder(tensor.tensor_type()) {
            return self.decoded(tensor, decode).map(Some);
        }
        let dtype =
            dtype_of(tensor.tensor_type()).ok_or_else(|| unsupported(tensor, &MATRIX_TYPES))?;
        let matrix = WeightMatrix::new(outputs, inputs, dtype);
        self.weight(tensor, dtype, Some(matrix)).map(Some)
    }

    /// A vector of `length` weights, in F32.
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
            TensorType::F32 => self.weight(tensor, DType::F32, None).map(Some),
            TensorType::F16 => self.widened(tensor, f16::from_le_bytes).map(Some),
            TensorType::BF16 => self.widened(tensor, bf16::from_le_bytes).map(Some),
            _ => Err(unsupported(tensor, "F32, F16 and BF16")),
        }
    }

    /// Sees to it that all tensors were handed out: one that was not would have changed the results. Then brings mapped
    /// ones into memory, so that it is not the first token that waits for the disk. Returns what is to move.
    pub fn finish(mut self) -> Result<Option<Repacker>> {
        let tensors = self.file.tensors();
        if let Some(index) = self.taken.iter().position(|taken| !taken) {
            return Err(LlamaError::UnexpectedTensor(tensors[index].name().to_owned()).into());
        }
        if let Source::Mapped(_) = self.source {
            let steps: Vec<&[u8]> = tensors
                .iter()
                .flat_map(|tensor| self.file.bytes(tensor).chunks(STEP))
                .collect();
            if touch(&steps, |bytes| self.progress.add(bytes)).is_break() {
                return Err(cancelled());
            }
        }
        let repacker = |pending| Repacker::new(self.device, pending);
        Ok(self.pending.map(repacker))
    }

    fn take(&mut self, name: &str, dimensions: &[usize]) -> Result<Option<&'a ModelTensor>> {
        let tensors = self.file.tensors();
        let Some(index) = self.file.tensor_index(name) else {
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

    /// `matrix`: its shape, if it is one.
    fn weight(
        &mut self,
        tensor: &ModelTensor,
        dtype: DType,
        matrix: Option<WeightMatrix>,
    ) -> Result<Weight> {
        match (&self.source, &tensor.place) {
            // Safetensors may start numbers anywhere; a device cannot read them there.
            (Source::Mapped(files), Place::File(file, bytes))
                if bytes.start.is_multiple_of(dtype.alignment() as u64) =>
            {
                let (start, buffers) = (bytes.start, &files[*file]);
                // Of the buffers that start before a tensor the last one holds it as a whole, and the first starts
                // before every tensor.
                let place = buffers.partition_point(|pages| pages.bytes.start <= start);
                let pages = &buffers[place - 1];
                let offset = (start - pages.bytes.start) as usize;
                let weight = Weight::new(pages.buffer.clone(), offset, dtype);
                if let Some(pending) = &mut self.pending {
                    pending.push(PendingTensor {
                        weight: weight.clone(),
                        matrix,
                        slab: self.slab,
                        name: tensor.name().to_owned(),
                        file: self.file.files()[*file].clone(),
                        bytes: bytes.clone(),
                    });
                }
                Ok(weight)
            }
            _ => {
                let (buffer, offset) = match matrix {
                    Some(matrix) => self.copy_matrix(tensor, &matrix)?,
                    None => {
                        let copy = self.copy(tensor, self.file.bytes(tensor), true)?;
                        (Arc::new(copy), 0)
                    }
                };
                Ok(Weight::new(buffer, offset, dtype))
            }
        }
    }

    /// Blocks that no kernel takes, in F32.
    fn decoded(&mut self, tensor: &ModelTensor, decode: DecodeBlock) -> Result<Weight> {
        let kind = tensor.tensor_type();
        let (length, size) = (kind.block_length() as usize, kind.block_size() as usize);
        let elements = usize::try_from(tensor.elements()).unwrap_or(usize::MAX);
        let options = self.device.buffer_options().label(tensor.name());
        let options = options.category(Category::Weights);
        let mut buffer = options.create::<u8>(elements.saturating_mul(size_of::<f32>()))?;
        let mut bytes = Vec::new();
        let blocks_of_step = STEP / (length * size_of::<f32>());
        let mut done = 0;
        for step in self.file.bytes(tensor).chunks(blocks_of_step * size) {
            bytes.clear();
            iq::decode_to_f32(kind, decode, step, &mut bytes);
            buffer.write_at(done, &bytes)?;
            done += bytes.len();
            self.count_copied(step.len())?;
        }
        Ok(Weight::new(Arc::new(buffer), 0, DType::F32))
    }

    /// A copy in F32.
    fn widened<T: Into<f32>>(
        &mut self,
        tensor: &ModelTensor,
        from: fn([u8; 2]) -> T,
    ) -> Result<Weight> {
        let (numbers, _) = self.file.bytes(tensor).as_chunks();
        let numbers = numbers.iter().map(|number| from(*number).into());
        let bytes: Vec<u8> = numbers.flat_map(f32::to_le_bytes).collect();
        let buffer = Arc::new(self.copy(tensor, &bytes, false)?);
        Ok(Weight::new(buffer, 0, DType::F32))
    }

    /// `bytes` in a buffer. Those of the file leave memory as they are copied: else there would be each twice for a
    /// while.
    fn copy(&mut self, tensor: &ModelTensor, bytes: &[u8], of_file: bool) -> Result<Buffer<u8>> {
        let storage = inner_storage(self.device)?;
        let options = self
            .device
            .buffer_options()
            .label(tensor.name())
            .storage(storage);
        let mut buffer = options.category(Category::Weights).create(bytes.len())?;
        for (index, step) in bytes.chunks(STEP).enumerate() {
            buffer.write_at(index * STEP, step)?;
            self.copied(tensor, index * STEP, step.len(), of_file)?;
        }
        Ok(buffer)
    }

    fn weights_buffer(&self, label: &str, bytes: usize) -> Result<Buffer<u8>> {
        let options = self.device.buffer_options().label(label);
        let options = options
            .category(Category::Weights)
            .usage(BufferUsage::Weights);
        options.create(bytes)
    }

    /// The rows of a matrix in a buffer of weights, as [`copy`](Weights::copy), and the offset of the first one there.
    fn copy_matrix(
        &mut self,
        tensor: &ModelTensor,
        matrix: &WeightMatrix,
    ) -> Result<(Arc<Buffer<u8>>, usize)> {
        let bytes = self.file.bytes(tensor);
        let reserved = self.reserved.iter().position(|it| it.name == tensor.name());
        let (buffer, offset) = match reserved.map(|index| self.reserved.swap_remove(index)) {
            Some(reserved) => (reserved.buffer, reserved.offset),
            None => {
                let buffer = self.weights_buffer(tensor.name(), bytes.len())?;
                (Arc::new(buffer), 0)
            }
        };
        let matrix = matrix.at(offset);
        let row = bytes.len() / matrix.rows;
        let step = match self.forgetter {
            Some(_) => LONG_STEP,
            None => STEP,
        };
        let rows = repacker::rows_of_a_step(row, step);
        for (index, step) in bytes.chunks(rows * row).enumerate() {
            buffer.write_weights(&matrix, index * rows, step)?;
            self.copied(tensor, index * rows * row, step.len(), true)?;
        }
        Ok((buffer, offset))
    }

    /// Says that `length` bytes of a tensor were copied, from byte `start` on.
    fn copied(
        &mut self,
        tensor: &ModelTensor,
        start: usize,
        length: usize,
        of_file: bool,
    ) -> Result<()> {
        if let (true, Place::File(file, range)) = (of_file, &tensor.place) {
            let start = range.start + start as u64;
            let (file, bytes) = (&self.file.files()[*file], start..start + length as u64);
            match &self.forgetter {
                Some(forgetter) => forgetter.forget(file, bytes),
                None => file.forget(bytes),
            }
        }
        self.count_copied(length)
    }

    /// Counts bytes where all are copied at the start; an error when the caller wants no more.
    fn count_copied(&mut self, bytes: usize) -> Result<()> {
        match self.source {
            Source::Copied if self.progress.add(bytes).is_break() => Err(cancelled()),
            _ => Ok(()),
        }
    }
}

/// The type of elements that a file's tensor has on the device, if operations take it.
fn dtype_of(tensor_type: TensorType) -> Option<DType> {
    DType::named(tensor_type.name())
}

/// The types that a matrix may have in a file.
static MATRIX_TYPES: LazyLock<String> = LazyLock::new(|| {
    let all = TensorType::ALL.iter().copied();
    let names = all.filter(|kind| dtype_of(*kind).is_some() || iq::decoder(*kind).is_some());
    names.map(TensorType::name).collect::<Vec<_>>().join(", ")
});

fn cancelled() -> crate::Error {
    LlamaError::Cancelled("loading the model").into()
}

fn unsupported(tensor: &ModelTensor, supported: &'static str) -> crate::Error {
    let error = LlamaError::TensorType {
        name: tensor.name().to_owned(),
        found: tensor.tensor_type(),
        supported,
    };
    error.into()
}

/// Some of a file's bytes, and the buffer that holds them.
struct Pages {
    bytes: Range<u64>,
    buffer: Arc<Buffer<u8>>,
}

/// Wraps the pages of each file's tensors: in one buffer, or in as many as a device with a short longest buffer needs.
fn wrap_pages(device: &Device, file: &ModelFile) -> Result<Vec<Vec<Pages>>> {
    let longest = device.info()?.max_buffer_length;
    let wrap_file = |(number, mapped): (usize, &MappedFile)| {
        let of_file = |tensor: &ModelTensor| match &tensor.place {
            Place::File(file, bytes) if *file == number => Some(bytes.clone()),
            _ => None,
        };
        let mut tensors: Vec<Range<u64>> = file.tensors().iter().filter_map(of_file).collect();
        tensors.sort_by_key(|bytes| bytes.start);
        let ranges = page_ranges(&tensors, page_size() as u64, longest).into_iter();
        let wrap = |bytes: Range<u64>| {
            let label = format!(
                "weights, file {number}, bytes {} to {}",
                bytes.start, bytes.end
            );
            let options = device
                .buffer_options()
                .label(label)
                .category(Category::Weights);
            let buffer = Arc::new(options.wrap(mapped.pages(bytes.clone()))?);
            Ok(Pages { bytes, buffer })
        };
        ranges.map(wrap).collect()
    };
    file.files().iter().enumerate().map(wrap_file).collect()
}

/// Ranges of at most `longest` bytes that start on pages and hold the given ones, which are in order and do not
/// overlap, each as a whole. One that is longer than `longest` gets a range of its own, which the device will refuse by
/// name.
fn page_ranges(ranges: &[Range<u64>], page: u64, longest: u64) -> Vec<Range<u64>> {
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

struct Progress<'a> {
    now: LoadProgress,
    report: &'a mut dyn FnMut(LoadProgress) -> ControlFlow<()>,
}

impl<'a> Progress<'a> {
    fn new(
        tensors: &[ModelTensor],
        report: &'a mut dyn FnMut(LoadProgress) -> ControlFlow<()>,
    ) -> Progress<'a> {
        // Tensors do not overlap, so that the sum is at most the file's length.
        let total = tensors.iter().map(ModelTensor::byte_length).sum();
        Progress {
            now: LoadProgress { done: 0, total },
            report,
        }
    }

    fn add(&mut self, bytes: usize) -> ControlFlow<()> {
        // Vectors grow when they are widened.
        self.now.done = (self.now.done + bytes as u64).min(self.now.total);
        (self.report)(self.now)
    }
}

#[cfg(test)]
mod tests {
    use super::weight::Placed;
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
            let ranges = page_ranges(&tensors, 4096, longest);
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
    fn one_matrix_follows_another_where_they_could_be_one() {
        let device = Device::open("cpu").unwrap();
        let buffer = || Arc::new(device.buffer::<u8>(100 * 34).unwrap());
        let (here, elsewhere) = (buffer(), buffer());
        let place = |buffer: &Arc<Buffer<u8>>, offset, dtype| Placed {
            buffer: buffer.clone(),
            offset,
            dtype,
        };
        let first = place(&here, 34, DType::Q8_0);
        assert!(place(&here, 65 * 34, DType::Q8_0).follows(&first, 32, 64));
        assert!(!place(&here, 65 * 34, DType::Q8_0).follows(&first, 32, 32));
        assert!(!place(&here, 65 * 34, DType::Q4_0).follows(&first, 32, 64));
        assert!(!place(&elsewhere, 65 * 34, DType::Q8_0).follows(&first, 32, 64));
        // Rows that a device may lay out together end between the two.
        assert!(!place(&here, 65 * 34, DType::Q8_0).follows(&first, 16, 128));
    }

    #[test]
    fn a_tensor_is_in_the_last_range_that_starts_before_it() {
        let tensors = [4100..4200, 4200..9000, 9000..12_000, 12_000..12_288];
        for longest in [4096, 8192, 12_288, u64::MAX] {
            let ranges = page_ranges(&tensors, 4096, longest);
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
