//! One tensor of a model in device memory.

use std::sync::{Arc, PoisonError, RwLock};

use crate::buffer::Buffer;
use crate::device::Device;
use crate::dtype::DType;
use crate::error::Result;
use crate::memory::Category;
use crate::tensor::Tensor;
use crate::weights::WeightMatrix;

/// One matrix or vector of weights. Clones are the same one.
#[derive(Clone, Debug)]
pub(crate) struct Weight(Arc<RwLock<Placed>>);

/// Where a weight is at a time. It stays there while somebody has this.
#[derive(Clone, Debug)]
pub(crate) struct Placed {
    pub(crate) buffer: Arc<Buffer<u8>>,
    pub(crate) offset: usize,
    pub(crate) dtype: DType,
}

impl Placed {
    pub fn tensor(&self) -> Tensor<'_> {
        self.buffer.tensor_at(self.offset, self.dtype)
    }

    /// Whether it begins where `rows` rows of `width` weights end that begin at `first`, so that all are one matrix.
    pub fn follows(&self, first: &Placed, rows: usize, width: usize) -> bool {
        let bytes = first.dtype.bytes(rows * width);
        Arc::ptr_eq(&self.buffer, &first.buffer)
            && self.dtype == first.dtype
            && rows.is_multiple_of(WeightMatrix::ROWS)
            && bytes.is_some_and(|bytes| self.offset == first.offset + bytes)
    }
}

impl Weight {
    pub(crate) fn new(buffer: Arc<Buffer<u8>>, offset: usize, dtype: DType) -> Weight {
        Weight(Arc::new(RwLock::new(Placed {
            buffer,
            offset,
            dtype,
        })))
    }

    /// Weights that no file has.
    pub fn of_numbers(device: &Device, label: &str, numbers: &[f32]) -> Result<Weight> {
        let options = device.buffer_options().label(label);
        let options = options.category(Category::Weights);
        let bytes: Vec<u8> = numbers
            .iter()
            .flat_map(|number| number.to_le_bytes())
            .collect();
        let buffer = Arc::new(options.create_from(&bytes)?);
        Ok(Weight::new(buffer, 0, DType::F32))
    }

    pub fn place(&self) -> Placed {
        self.0
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// The same weights, elsewhere.
    pub(crate) fn relocate(&self, buffer: Arc<Buffer<u8>>, offset: usize) {
        let mut place = self.0.write().unwrap_or_else(PoisonError::into_inner);
        *place = Placed {
            buffer,
            offset,
            dtype: place.dtype,
        };
    }
}
