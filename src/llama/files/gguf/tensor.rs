//! The table of tensors.

use std::ops::Range;

use super::cursor::Cursor;
use super::error::{GgufError, GgufErrorKind};
use super::header::limits;
use super::tensor_type::TensorType;

/// Where a tensor is and what it looks like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorInfo {
    name: String,
    tensor_type: TensorType,
    dimensions: Vec<u64>,
    bytes: Range<u64>,
}

impl TensorInfo {
    /// The tensor's name: `"blk.0.attn_q.weight"`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How its numbers are stored.
    pub fn tensor_type(&self) -> TensorType {
        self.tensor_type
    }

    /// Its one to four sizes in GGML's order, the one whose elements lie side by side first: the weight of a projection
    /// from `n_in` to `n_out` is `[n_in, n_out]`, stored as `n_out` rows of `n_in` numbers.
    pub fn dimensions(&self) -> &[u64] {
        &self.dimensions
    }

    /// How many numbers it has.
    pub fn elements(&self) -> u64 {
        self.dimensions.iter().product() // checked when it was read
    }

    /// Its bytes in the file.
    pub fn bytes(&self) -> Range<u64> {
        self.bytes.clone()
    }

    /// The name must not be that of another tensor, the rest must hold in itself. `bytes` of the result starts at the
    /// offset that the file states, which counts from the start of the data; [`place`](TensorInfo::place) moves it.
    pub(super) fn read(cursor: &mut Cursor) -> Result<TensorInfo, GgufError> {
        let name = cursor
            .utf8("tensor's name", limits::TENSOR_NAME)?
            .to_owned();

        let offset = cursor.position();
        let found = cursor.u32("number of dimensions")?;
        if found == 0 || found > limits::DIMENSIONS {
            let kind = GgufErrorKind::DimensionCount { name, found };
            return Err(GgufError { offset, kind });
        }
        let mut dimensions = Vec::with_capacity(found as usize);
        for index in 0..found as usize {
            let offset = cursor.position();
            match cursor.u64("dimension")? {
                0 => {
                    let kind = GgufErrorKind::ZeroDimension { name, index };
                    return Err(GgufError { offset, kind });
                }
                size => dimensions.push(size),
            }
        }

        let offset = cursor.position();
        let number = cursor.u32("tensor type")?;
        let Some(tensor_type) = TensorType::from_number(number) else {
            let kind = GgufErrorKind::UnknownTensorType { name, number };
            return Err(GgufError { offset, kind });
        };
        let columns = dimensions[0];
        if columns % tensor_type.block_length() != 0 {
            let kind = GgufErrorKind::PartialBlock {
                name,
                columns,
                tensor_type,
            };
            return Err(GgufError { offset, kind });
        }
        let elements = dimensions
            .iter()
            .try_fold(1u64, |product, size| product.checked_mul(*size));
        let length = elements.and_then(|count| {
            (count / tensor_type.block_length()).checked_mul(tensor_type.block_size())
        });

        let offset = cursor.position();
        let start = cursor.u64("tensor's offset")?;
        let end = length.and_then(|length| start.checked_add(length));
        let Some(end) = end else {
            let kind = GgufErrorKind::TensorOverflow(name);
            return Err(GgufError { offset, kind });
        };
        Ok(TensorInfo {
            name,
            tensor_type,
            dimensions,
            bytes: start..end,
        })
    }

    /// Moves the tensor from the start of the data to its place in a file of `length` bytes.
    pub(super) fn place(
        &mut self,
        data_start: u64,
        alignment: u32,
        length: u64,
    ) -> Result<(), GgufErrorKind> {
        let Range { start, end } = self.bytes;
        if start % u64::from(alignment) != 0 {
            return Err(GgufErrorKind::TensorMisaligned {
                name: self.name.clone(),
                found: start,
                alignment,
            });
        }
        match (data_start.checked_add(start), data_start.checked_add(end)) {
            (Some(start), Some(end)) if end <= length => {
                self.bytes = start..end;
                Ok(())
            }
            (_, end) => Err(GgufErrorKind::TensorOutsideFile {
                name: self.name.clone(),
                end: end.unwrap_or(u64::MAX),
                length,
            }),
        }
    }
}
