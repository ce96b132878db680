//! Views: which part of a buffer an operation reads or writes, as what, and of which shape.

use crate::buffer::Buffer;
use crate::dtype::{DType, Element, Number};
use crate::ffi;
use crate::handle::Handle;

/// A row-major matrix (or several, for batches) in a [`Buffer`]: the operand of the operations in [`ops`](crate::ops).
///
/// Its rows and columns are the sizes of the operations that it is given to.
///
/// A view borrows its buffer, so that it cannot outlive it; recording an operation keeps the buffer's memory alive
/// beyond that. Nothing is checked here: each operation checks its operands' ranges, strides and types when it is
/// recorded.
///
/// The default is no tensor at all, which operations refuse by name unless they document that the operand may be
/// absent.
///
/// ```compile_fail,E0505
/// # fn main() -> Result<(), ironbridge::Error> {
/// let device = ironbridge::Device::open("cpu")?;
/// let weights = device.buffer::<f32>(16)?;
/// let view = weights.tensor();
/// drop(weights); // still borrowed
/// println!("{view:?}");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct Tensor<'a> {
    buffer: Option<&'a Handle<ffi::iron_buffer>>,
    offset: u64,
    rows: usize,
    columns: usize,
    transposed: bool,
    row_stride: u64,
    batch_stride: u64,
    dtype: Option<DType>,
}

impl<'a> Tensor<'a> {
    /// The same place as a matrix of this shape.
    #[must_use]
    pub fn matrix(self, rows: usize, columns: usize) -> Self {
        Tensor {
            rows,
            columns,
            transposed: false,
            ..self
        }
    }

    /// The same place as one row.
    #[must_use]
    pub fn vector(self, elements: usize) -> Self {
        self.matrix(1, elements)
    }

    /// The transposed matrix, for products: its rows are the columns that are stored.
    #[must_use]
    pub fn transposed(self) -> Self {
        Tensor {
            rows: self.columns,
            columns: self.rows,
            transposed: !self.transposed,
            ..self
        }
    }

    /// The same place as a matrix of this shape, which is stored transposed where `transposed` says so: as
    /// `columns × rows`.
    #[must_use]
    pub fn oriented(self, rows: usize, columns: usize, transposed: bool) -> Self {
        match transposed {
            true => self.matrix(columns, rows).transposed(),
            false => self.matrix(rows, columns),
        }
    }

    /// `[rows, columns]`, of the transposed matrix where it is one.
    pub fn shape(&self) -> [usize; 2] {
        [self.rows, self.columns]
    }

    /// Whether columns are stored one after the other, and not rows.
    pub fn is_transposed(&self) -> bool {
        self.transposed
    }

    /// From row to row as they are stored, in elements, where they are not packed.
    #[must_use]
    pub fn row_stride(self, elements: usize) -> Self {
        Tensor {
            row_stride: elements as u64,
            ..self
        }
    }

    /// From matrix to matrix of a batch, in elements. Without it every batch uses the same matrix.
    #[must_use]
    pub fn batch_stride(self, elements: usize) -> Self {
        Tensor {
            batch_stride: elements as u64,
            ..self
        }
    }

    /// The view that starts `elements` further on: a single row is as much shorter, and a matrix keeps its shape. Where
    /// they are not whole blocks, operations refuse the result as out of range.
    #[must_use]
    pub fn skip(self, elements: usize) -> Self {
        let skipped = match self.dtype.and_then(|dtype| dtype.bytes(elements)) {
            Some(bytes) => self.skip_bytes(bytes),
            None => self.skip_bytes(usize::MAX),
        };
        match self.rows {
            1 => skipped.vector(self.columns.saturating_sub(elements)),
            _ => skipped,
        }
    }

    /// The view of the same shape that starts `bytes` further on.
    #[must_use]
    pub fn skip_bytes(self, bytes: usize) -> Self {
        Tensor {
            offset: self.offset.saturating_add(bytes as u64),
            ..self
        }
    }

    /// How the elements are stored; `None` for the default, which is no tensor.
    pub fn dtype(&self) -> Option<DType> {
        self.dtype
    }

    /// Bytes from the buffer's start.
    pub fn byte_offset(&self) -> u64 {
        self.offset
    }

    pub(crate) fn is_missing(&self) -> bool {
        self.buffer.is_none()
    }

    pub(crate) fn native(&self) -> ffi::iron_tensor {
        ffi::iron_tensor {
            buffer: self.native_buffer(),
            offset: self.offset,
            row_stride: self.row_stride,
            batch_stride: self.batch_stride,
            dtype: self.dtype.map_or(0, DType::native),
            ..Default::default()
        }
    }

    pub(crate) fn native_buffer(&self) -> *mut ffi::iron_buffer {
        self.buffer
            .map_or(std::ptr::null_mut(), |handle| handle.as_ptr())
    }
}

impl<T: Element> Buffer<T> {
    /// The buffer's bytes from `byte_offset` on as elements of `dtype`: one of many weights in a file wrapped as bytes.
    /// The view is one row of all whole blocks that are left; [`Tensor::matrix`] gives it another shape.
    pub fn tensor_at(&self, byte_offset: usize, dtype: DType) -> Tensor<'_> {
        let bytes = (self.len() * size_of::<T>()).saturating_sub(byte_offset);
        let view = Tensor {
            buffer: Some(&self.handle),
            offset: byte_offset as u64,
            dtype: Some(dtype),
            ..Tensor::default()
        };
        view.vector(bytes / dtype.block_bytes() * dtype.block_elements())
    }
}

impl<T: Number> Buffer<T> {
    /// The whole buffer as one row.
    pub fn tensor(&self) -> Tensor<'_> {
        self.tensor_at(0, T::DTYPE)
    }

    /// The buffer's first elements as packed rows.
    pub fn matrix(&self, rows: usize, columns: usize) -> Tensor<'_> {
        self.tensor().matrix(rows, columns)
    }
}

impl<'a, T: Number> From<&'a Buffer<T>> for Tensor<'a> {
    fn from(buffer: &'a Buffer<T>) -> Self {
        buffer.tensor()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skipping_counts_in_elements_of_the_type() {
        let of = |dtype| Tensor {
            dtype: Some(dtype),
            ..Tensor::default()
        };
        assert_eq!(of(DType::F32).skip(3).skip(2).byte_offset(), 20);
        assert_eq!(of(DType::F16).skip_bytes(6).skip(1).byte_offset(), 8);
        assert_eq!(of(DType::Q8_0).skip(64).byte_offset(), 68);
    }

    #[test]
    fn half_a_block_is_nowhere() {
        let tensor = Tensor {
            dtype: Some(DType::Q8_0),
            ..Tensor::default()
        };
        assert_eq!(tensor.skip(16).byte_offset(), u64::MAX);
        assert_eq!(tensor.skip(16).skip(16).byte_offset(), u64::MAX);
    }
}
