//! Reads rows of a tensor as f32 and encodes them in another type, on several threads.

use half::{bf16, f16};

use super::blocks::Weighted;
use super::error::QuantizeError;
use super::weights::mean_square;
use super::{blocks, microscaling, nonlinear, super_blocks};
use crate::llama::files::gguf::TensorType;
use crate::llama::files::model_file::{ModelFile, ModelTensor, RowOrder};

/// The types that can be written.
pub(super) const TYPES: &[TensorType] = &[
    TensorType::F32,
    TensorType::F16,
    TensorType::BF16,
    TensorType::Q8_0,
    TensorType::Q4_0,
    TensorType::Q4_1,
    TensorType::Q5_0,
    TensorType::Q5_1,
    TensorType::Q2_K,
    TensorType::Q3_K,
    TensorType::Q4_K,
    TensorType::Q5_K,
    TensorType::Q6_K,
    TensorType::IQ4_NL,
    TensorType::IQ4_XS,
    TensorType::MXFP4,
];

pub(super) fn check_target(tensor_type: TensorType) -> Result<(), QuantizeError> {
    match TYPES.contains(&tensor_type) {
        true => Ok(()),
        false => Err(QuantizeError::Target(tensor_type)),
    }
}

/// The rows of a tensor, in GGUF's order.
pub(super) struct Rows<'a> {
    name: &'a str,
    bytes: &'a [u8],
    from: TensorType,
    to: TensorType,
    columns: usize,
    count: usize,
    order: RowOrder,
    importance: Option<&'a [f32]>,
}

impl<'a> Rows<'a> {
    /// The type must be one that rows of this length can be stored in. `importance`: how much each column matters.
    pub fn new(
        model: &'a ModelFile,
        tensor: &'a ModelTensor,
        to: TensorType,
        importance: Option<&'a [f32]>,
    ) -> Result<Rows<'a>, QuantizeError> {
        let from = tensor.tensor_type();
        if !matches!(from, TensorType::F32 | TensorType::F16 | TensorType::BF16) {
            return Err(QuantizeError::Source {
                name: tensor.name().to_owned(),
                found: from,
            });
        }
        // All are in memory, so that their numbers are sizes. The order of a vector is that of its single numbers.
        let elements = tensor.elements() as usize;
        let columns = match (tensor.row_order, tensor.dimensions()) {
            (RowOrder::Halves { .. }, [_]) => 1,
            (_, dimensions) => dimensions[0] as usize,
        };
        Ok(Rows {
            name: tensor.name(),
            bytes: model.bytes(tensor),
            from,
            to,
            columns,
            count: elements / columns,
            order: tensor.row_order,
            importance,
        })
    }

    pub fn columns(&self) -> usize {
        self.columns
    }

    pub fn count(&self) -> usize {
        self.count
    }

    /// The bytes that this many rows take before.
    pub fn source_bytes(&self, rows: usize) -> u64 {
        (rows * self.columns) as u64 * self.from.block_size()
    }

    /// The bytes of `count` rows from `first` on.
    pub fn encode(
        &self,
        first: usize,
        count: usize,
        threads: usize,
    ) -> Result<Vec<u8>, QuantizeError> {
        let blocks = self.columns / self.to.block_length() as usize;
        let row_bytes = blocks * self.to.block_size() as usize;
        let mut bytes = vec![0; count * row_bytes];
        let share = count.div_ceil(threads);
        std::thread::scope(|scope| {
            let shares = bytes.chunks_mut(share * row_bytes).enumerate();
            let encode = |(index, bytes): (usize, &'_ mut [u8])| {
                let first = first + index * share;
                self.encode_rows(first, bytes.chunks_mut(row_bytes))
            };
            // The first share is for this thread.
            let mut shares = shares.collect::<Vec<_>>().into_iter();
            let own = shares.next();
            let others: Vec<_> = shares
                .map(|share| scope.spawn(move || encode(share)))
                .collect();
            let result = own.map_or(Ok(()), encode);
            others.into_iter().fold(result, |result, other| {
                let other = other
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                result.and(other)
            })
        })?;
        Ok(bytes)
    }

    fn encode_rows<'b>(
        &self,
        first: usize,
        rows: impl Iterator<Item = &'b mut [u8]>,
    ) -> Result<(), QuantizeError> {
        let mut numbers = vec![0f32; self.columns];
        for (row, bytes) in (first..).zip(rows) {
            self.read(self.stored_row(row), &mut numbers);
            let index = (row * self.columns) as u64;
            check_numbers(self.to, &numbers, self.name, index)?;
            encode(self.to, &numbers, self.importance, bytes);
        }
        Ok(())
    }

    /// Where a row of GGUF's is in the file. Pair `p` of a head is its rows `2p` and `2p + 1` in GGUF, and row `p` of
    /// its halves in Hugging Face's order.
    fn stored_row(&self, row: usize) -> usize {
        match self.order {
            RowOrder::Same => row,
            RowOrder::Halves { heads } => {
                let head_dim = self.count / heads as usize;
                let (head, index) = (row / head_dim, row % head_dim);
                head * head_dim + index % 2 * (head_dim / 2) + index / 2
            }
        }
    }

    fn read(&self, row: usize, numbers: &mut [f32]) {
        let size = self.from.block_size() as usize;
        let start = row * self.columns * size;
        let bytes = &self.bytes[start..start + self.columns * size];
        match self.from {
            TensorType::F32 => widen(bytes, numbers, f32::from_le_bytes),
            TensorType::F16 => widen(bytes, numbers, |half| f16::from_le_bytes(half).to_f32()),
            _ => widen(bytes, numbers, |half| bf16::from_le_bytes(half).to_f32()),
        }
    }
}

fn widen<const N: usize>(bytes: &[u8], numbers: &mut [f32], from: impl Fn([u8; N]) -> f32) {
    for (number, bytes) in numbers.iter_mut().zip(bytes.as_chunks::<N>().0) {
        *number = from(*bytes);
    }
}

/// The numbers must be finite, and stay so. `index` is that of the first one in its tensor.
pub(super) fn check_numbers(
    tensor_type: TensorType,
    numbers: &[f32],
    name: &str,
    index: u64,
) -> Result<(), QuantizeError> {
    // The first numbers that would be rounded to infinity. Blocks have scales in F16.
    let limit = match tensor_type {
        TensorType::F32 | TensorType::MXFP4 => f32::INFINITY,
        TensorType::BF16 => f32::from_bits(0x7F7F_8000),
        _ => 65_520.0,
    };
    // Not a number is not below anything.
    let holds = |number: &f32| number.abs() < limit;
    match numbers.iter().position(|number| !holds(number)) {
        None => Ok(()),
        Some(position) => Err(QuantizeError::Number {
            name: name.to_owned(),
            index: index + position as u64,
            value: numbers[position],
            tensor_type,
        }),
    }
}

/// Whether an importance matrix changes how this type is rounded.
pub(super) fn has_weights(tensor_type: TensorType) -> bool {
    !matches!(
        tensor_type,
        TensorType::F32 | TensorType::F16 | TensorType::BF16 | TensorType::Q8_0 | TensorType::MXFP4
    )
}

/// Whole blocks of numbers, one row, to as many bytes. `importance`: of each number.
pub(super) fn encode(
    tensor_type: TensorType,
    numbers: &[f32],
    importance: Option<&[f32]>,
    bytes: &mut [u8],
) {
    use super_blocks as supers;
    match (tensor_type, importance) {
        (TensorType::F32, _) => each(numbers, bytes, |[number], to| *to = number.to_le_bytes()),
        (TensorType::F16, _) => each(numbers, bytes, |[number], to| {
            *to = f16::from_f32(*number).to_le_bytes();
        }),
        (TensorType::BF16, _) => each(numbers, bytes, |[number], to| {
            *to = bf16::from_f32(*number).to_le_bytes();
        }),
        (TensorType::Q8_0, _) => each(numbers, bytes, blocks::q8_0),
        (TensorType::MXFP4, _) => each(numbers, bytes, microscaling::mxfp4),
        (TensorType::Q2_K, _) => each_with(numbers, importance, bytes, supers::q2_k),
        (TensorType::Q3_K, _) => each_with(numbers, importance, bytes, supers::q3_k),
        (TensorType::Q4_K, _) => each_with(numbers, importance, bytes, supers::q4_k),
        (TensorType::Q5_K, _) => each_with(numbers, importance, bytes, supers::q5_k),
        (TensorType::Q6_K, _) => each_with(numbers, importance, bytes, supers::q6_k),
        (TensorType::IQ4_NL, _) => each_with(numbers, importance, bytes, nonlinear::iq4_nl),
        (TensorType::IQ4_XS, _) => each_with(numbers, importance, bytes, nonlinear::iq4_xs),
        (TensorType::Q4_0, None) => each(numbers, bytes, blocks::q4_0),
        (TensorType::Q4_1, None) => each(numbers, bytes, blocks::q4_1),
        (TensorType::Q5_0, None) => each(numbers, bytes, blocks::q5_0),
        (TensorType::Q5_1, None) => each(numbers, bytes, blocks::q5_1),
        (TensorType::Q4_0, Some(them)) => {
            each_weighted(numbers, them, bytes, blocks::q4_0_weighted)
        }
        (TensorType::Q4_1, Some(them)) => {
            each_weighted(numbers, them, bytes, blocks::q4_1_weighted)
        }
        (TensorType::Q5_0, Some(them)) => {
            each_weighted(numbers, them, bytes, blocks::q5_0_weighted)
        }
        (TensorType::Q5_1, Some(them)) => {
            each_weighted(numbers, them, bytes, blocks::q5_1_weighted)
        }
        // Refused when the quantizer was made.
        (other, _) => unreachable!("{other} is not among the types that are written"),
    }
}

/// Block by block.
fn each<const NUMBERS: usize, const BYTES: usize>(
    numbers: &[f32],
    bytes: &mut [u8],
    encode: impl Fn(&[f32; NUMBERS], &mut [u8; BYTES]),
) {
    let blocks = numbers.as_chunks().0.iter();
    for (numbers, bytes) in blocks.zip(bytes.as_chunks_mut().0) {
        encode(numbers, bytes);
    }
}

/// Block by block, with the importance of its numbers if there is one.
fn each_with<const NUMBERS: usize, const BYTES: usize>(
    numbers: &[f32],
    importance: Option<&[f32]>,
    bytes: &mut [u8],
    encode: impl Fn(&[f32; NUMBERS], Option<&[f32; NUMBERS]>, &mut [u8; BYTES]),
) {
    let blocks = numbers.as_chunks().0.iter().enumerate();
    let importance = importance.map(|importance| importance.as_chunks().0);
    for ((index, numbers), bytes) in blocks.zip(bytes.as_chunks_mut().0) {
        encode(numbers, importance.map(|blocks| &blocks[index]), bytes);
    }
}

/// Block by block, with the importance of its numbers and the mean square of the row.
fn each_weighted<const BYTES: usize>(
    numbers: &[f32],
    importance: &[f32],
    bytes: &mut [u8],
    encode: impl Fn(&[f32; blocks::LENGTH], &Weighted, &mut [u8; BYTES]),
) {
    let mean_square = mean_square(numbers);
    let blocks = numbers.as_chunks().0.iter().zip(importance.as_chunks().0);
    for ((numbers, importance), bytes) in blocks.zip(bytes.as_chunks_mut().0) {
        let weighted = Weighted {
            importance,
            mean_square,
        };
        encode(numbers, &weighted, bytes);
    }
}
