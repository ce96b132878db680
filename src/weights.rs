//! Buffers of weights, which the device lays out.

use crate::buffer::Buffer;
use crate::dtype::{DType, Element};
use crate::error::{Error, Result, Status, check};
use crate::ffi;

/// A matrix in a buffer of weights: rows without gaps (`iron_weights`).
///
/// ```
/// use ironbridge::{BufferUsage, DType, Device, WeightMatrix, memory::Category, ops::Matmul};
///
/// # fn main() -> Result<(), ironbridge::Error> {
/// let device = Device::open("cpu")?;
/// let matrix = WeightMatrix::new(64, 2, DType::F32); // 64 outputs of two inputs
/// let options = device.buffer_options().usage(BufferUsage::Weights).category(Category::Weights);
/// let weights = options.create::<u8>(matrix.bytes().expect("whole rows"))?;
/// // As a file has them, some rows at a time.
/// let rows: Vec<u8> = (0..128).flat_map(|i| (i as f32).to_le_bytes()).collect();
/// weights.write_weights(&matrix, 0, &rows[..32 * 8])?;
/// weights.write_weights(&matrix, 32, &rows[32 * 8..])?;
///
/// let (x, y) = (device.buffer_from(&[1.0f32, 10.0])?, device.buffer::<f32>(64)?);
/// let mut commands = device.commands()?;
/// let matrix = weights.tensor_at(0, DType::F32).matrix(64, 2);
/// commands.matmul(&Matmul::new(x.matrix(1, 2), matrix.transposed(), y.matrix(1, 64)))?;
/// commands.run()?;
/// assert_eq!(y.to_vec()?[..3], [10.0, 32.0, 54.0]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct WeightMatrix {
    /// Bytes from the buffer's start to the first row, as if all rows of the buffer lay as they are written. Matrices
    /// of one type and width that lie end to end can be multiplied as one, if all but the last have a multiple of
    /// [`ROWS`](WeightMatrix::ROWS) rows.
    pub offset: usize,
    /// How many rows there are.
    pub rows: usize,
    /// Elements of a row.
    pub width: usize,
    /// F32, F16, BF16, or a block type, of which a row is whole blocks.
    pub dtype: DType,
}

impl WeightMatrix {
    /// Rows that are written together, and that a use begins and ends at a multiple of (`IRON_WEIGHT_ROWS`).
    pub const ROWS: usize = ffi::IRON_WEIGHT_ROWS as usize;

    /// A matrix at the start of its buffer.
    pub const fn new(rows: usize, width: usize, dtype: DType) -> WeightMatrix {
        WeightMatrix {
            offset: 0,
            rows,
            width,
            dtype,
        }
    }

    /// The same, `offset` bytes behind the start of the buffer.
    #[must_use]
    pub const fn at(self, offset: usize) -> WeightMatrix {
        WeightMatrix { offset, ..self }
    }

    /// The bytes of all rows; `None` when a row is not whole blocks, or the number overflows.
    pub fn bytes(&self) -> Option<usize> {
        self.dtype.bytes(self.width)?.checked_mul(self.rows)
    }

    fn native(&self) -> ffi::iron_weights {
        ffi::iron_weights {
            size: size_of::<ffi::iron_weights>(),
            offset: self.offset as u64,
            rows: self.rows as u64,
            width: self.width as u64,
            dtype: self.dtype.native(),
        }
    }

    /// How many rows `bytes` bytes are.
    fn rows_in(&self, call: &'static str, bytes: usize) -> Result<u64> {
        let row = self.dtype.bytes(self.width).filter(|row| *row > 0);
        match row.filter(|row| bytes.is_multiple_of(*row)) {
            Some(row) => Ok((bytes / row) as u64),
            None => {
                let WeightMatrix { width, dtype, .. } = self;
                let name = dtype.name();
                let message = format!("rows: {bytes} bytes are not whole rows of {width} {name}");
                Err(Error::new(call, Status::Shape, message))
            }
        }
    }
}

impl<T: Element> Buffer<T> {
    /// Writes rows of a matrix into a buffer of weights, from row `first` on, without gaps and in the plain layout of
    /// their type (`iron_weights_write`). Rows come in their order, each once, and a multiple of
    /// [`WeightMatrix::ROWS`] at a time; the last ones may be fewer. With the last row the matrix can be used, and
    /// nothing changes it any more. Commands in flight may use other matrices of the buffer meanwhile.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for a buffer that was not made for
    /// [`BufferUsage::Weights`](crate::BufferUsage::Weights), rows that are not the next ones or not whole, and a
    /// matrix that is complete, leaves the buffer or overlaps another.
    pub fn write_weights(&self, matrix: &WeightMatrix, first: usize, rows: &[u8]) -> Result<()> {
        let count = matrix.rows_in("Buffer::write_weights", rows.len())?;
        // SAFETY: the handle is live, the struct starts with its size and outlives the call, and `rows` has as many
        // rows.
        check("Buffer::write_weights", unsafe {
            ffi::iron_weights_write(
                self.handle.as_ptr(),
                &matrix.native(),
                first as u64,
                count,
                rows.as_ptr().cast(),
            )
        })
    }

    /// Reads rows of a matrix back, from row `first` on, in the plain layout of their type (`iron_weights_read`).
    ///
    /// # Errors
    /// As for [`write_weights`](Buffer::write_weights), and for rows that were not written.
    pub fn read_weights(&self, matrix: &WeightMatrix, first: usize, rows: &mut [u8]) -> Result<()> {
        let count = matrix.rows_in("Buffer::read_weights", rows.len())?;
        // SAFETY: as in `write_weights`; the bytes are ours to write.
        check("Buffer::read_weights", unsafe {
            ffi::iron_weights_read(
                self.handle.as_ptr(),
                &matrix.native(),
                first as u64,
                count,
                rows.as_mut_ptr().cast(),
            )
        })
    }
}
