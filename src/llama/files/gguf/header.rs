//! The header, the metadata and the tensor table as a whole.

use std::collections::HashMap;

use super::cursor::Cursor;
use super::error::{GgufError, GgufErrorKind};
use super::metadata::Metadata;
use super::tensor::TensorInfo;

/// The most of everything that is read. Real files stay far below: the largest vocabularies have 262,144 tokens.
pub mod limits {
    /// Metadata entries in a file.
    pub const ENTRIES: u64 = 1 << 16;
    /// Bytes in a metadata key; the format's own limit.
    pub const KEY: u64 = (1 << 16) - 1;
    /// Bytes in a string value.
    pub const STRING: u64 = 1 << 24;
    /// Elements in an array.
    pub const ARRAY: u64 = 1 << 24;
    /// Arrays inside arrays.
    pub const NESTING: u32 = 4;
    /// Tensors in a file.
    pub const TENSORS: u64 = 1 << 16;
    /// Bytes in a tensor's name. The format's limit is 64.
    pub const TENSOR_NAME: u64 = 256;
    /// Dimensions of a tensor; the format's own limit.
    pub const DIMENSIONS: u32 = 4;
    /// The largest alignment of the tensors' bytes.
    pub const ALIGNMENT: u32 = 1 << 20;
}

/// Everything in a GGUF file but the tensors' bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct GgufHeader {
    version: u32,
    metadata: Metadata,
    tensors: Vec<TensorInfo>,
    tensor_index: HashMap<String, usize>,
}

impl GgufHeader {
    /// Reads the header of a whole file.
    ///
    /// # Errors
    ///
    /// [`GgufError`] when the bytes are not a whole and consistent GGUF file. Tensors that reach past the end of the
    /// bytes, that overlap or that are not aligned are errors as well.
    pub fn parse(file: &[u8]) -> Result<GgufHeader, GgufError> {
        GgufHeader::parse_start(file, file.len() as u64)
    }

    /// Reads the header from the start of a file of `length` bytes; tensors are held against that length.
    pub(super) fn parse_start(start: &[u8], length: u64) -> Result<GgufHeader, GgufError> {
        let mut cursor = Cursor::new(start);
        let version = read_version(&mut cursor)?;
        // The smallest tensor has a name's length, one dimension, a type and an offset; the smallest entry a key's
        // length, a type and one byte of value.
        let tensor_count = cursor.count("number of tensors", 8 + 4 + 8 + 4 + 8, limits::TENSORS)?;
        let entry_count = cursor.count("number of metadata entries", 8 + 4 + 1, limits::ENTRIES)?;
        let metadata = Metadata::read(&mut cursor, entry_count)?;
        let (tensors, tensor_index) =
            read_tensors(&mut cursor, tensor_count, metadata.alignment(), length)?;
        Ok(GgufHeader {
            version,
            metadata,
            tensors,
            tensor_index,
        })
    }

    /// The format's version, 2 or 3.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// The typed metadata.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// The tensors in the file's order.
    pub fn tensors(&self) -> &[TensorInfo] {
        &self.tensors
    }

    /// The tensor of that name.
    pub fn tensor(&self, name: &str) -> Option<&TensorInfo> {
        self.tensor_index(name).map(|index| &self.tensors[index])
    }

    /// Where the tensor of that name is in the table.
    pub fn tensor_index(&self, name: &str) -> Option<usize> {
        self.tensor_index.get(name).copied()
    }
}

fn read_version(cursor: &mut Cursor) -> Result<u32, GgufError> {
    let found = cursor.array("magic number")?;
    if found != *b"GGUF" {
        let kind = GgufErrorKind::Magic { found };
        return Err(GgufError { offset: 0, kind });
    }
    let offset = cursor.position();
    let version = cursor.u32("version")?;
    let kind = match version {
        2 | 3 => return Ok(version),
        _ if matches!(version.swap_bytes(), 2 | 3) => GgufErrorKind::BigEndian,
        _ => GgufErrorKind::Version(version),
    };
    Err(GgufError { offset, kind })
}

type Tensors = (Vec<TensorInfo>, HashMap<String, usize>);

fn read_tensors(
    cursor: &mut Cursor,
    count: usize,
    alignment: u32,
    file_length: u64,
) -> Result<Tensors, GgufError> {
    let mut tensors = Vec::with_capacity(count);
    let mut index = HashMap::with_capacity(count);
    let mut offsets = Vec::with_capacity(count);
    for position in 0..count {
        let offset = cursor.position();
        let tensor = TensorInfo::read(cursor)?;
        if index.insert(tensor.name().to_owned(), position).is_some() {
            let kind = GgufErrorKind::DuplicateTensor(tensor.name().to_owned());
            return Err(GgufError { offset, kind });
        }
        offsets.push(offset);
        tensors.push(tensor);
    }

    // The bytes start at the next multiple of the alignment. Nothing overflows: a position in memory and a small power
    // of two.
    let data_start = cursor.position().next_multiple_of(alignment.into());
    for (tensor, offset) in tensors.iter_mut().zip(&offsets) {
        tensor
            .place(data_start, alignment, file_length)
            .map_err(|kind| GgufError {
                offset: *offset,
                kind,
            })?;
    }
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by_key(|position| tensors[*position].bytes().start);
    for pair in order.windows(2) {
        let (first, second) = (&tensors[pair[0]], &tensors[pair[1]]);
        if first.bytes().end > second.bytes().start {
            let kind = GgufErrorKind::TensorOverlap {
                first: first.name().to_owned(),
                second: second.name().to_owned(),
            };
            let offset = offsets[pair[1]];
            return Err(GgufError { offset, kind });
        }
    }
    Ok((tensors, index))
}
