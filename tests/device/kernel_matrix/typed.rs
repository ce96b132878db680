//! Numbers as each type stores them.

use half::{bf16, f16};
use ironbridge::DType;

use crate::oracle;
use crate::support::{f64s, numbers};

/// The floats, in which activations and caches come.
pub const FLOATS: [DType; 3] = [DType::F32, DType::F16, DType::Bf16];

/// What weights are stored as.
pub fn weights() -> impl Iterator<Item = DType> {
    let all = DType::ALL.iter().copied();
    all.filter(|dtype| *dtype != DType::U32)
}

/// Elements as they lie in memory, and what they are worth.
pub struct Typed {
    pub dtype: DType,
    pub bytes: Vec<u8>,
    pub values: Vec<f64>,
}

impl Typed {
    /// The nearest that a float type, or Q8_0, has.
    pub fn nearest(dtype: DType, numbers: &[f32]) -> Typed {
        let bytes = match dtype {
            DType::F32 => numbers.iter().flat_map(|v| v.to_le_bytes()).collect(),
            DType::F16 => (numbers.iter())
                .flat_map(|&v| f16::from_f32(v).to_le_bytes())
                .collect(),
            DType::Bf16 => (numbers.iter())
                .flat_map(|&v| bf16::from_f32(v).to_le_bytes())
                .collect(),
            DType::Q8_0 => oracle::q8_0(numbers).0,
            other => panic!("{other:?} is not made here"),
        };
        let values = values(dtype, &bytes);
        Typed {
            dtype,
            bytes,
            values,
        }
    }

    pub fn integers(integers: &[u32]) -> Typed {
        Typed {
            dtype: DType::U32,
            bytes: integers.iter().flat_map(|v| v.to_le_bytes()).collect(),
            values: integers.iter().map(|&v| v.into()).collect(),
        }
    }

    /// Made up, the same for the same seed: numbers in [-1, 1), or any integers, or a row of the blocks of which
    /// another implementation has said what they are worth (tests/data/blocks.json).
    pub fn made_up(dtype: DType, elements: usize, seed: u64) -> Typed {
        match dtype {
            DType::F32 | DType::F16 | DType::Bf16 | DType::Q8_0 => {
                Typed::nearest(dtype, &numbers(elements, seed))
            }
            DType::U32 => {
                let numbers = numbers(elements, seed);
                Typed::integers(&numbers.iter().map(|v| v.to_bits()).collect::<Vec<_>>())
            }
            _ => blocks(dtype, elements, seed),
        }
    }
}

fn blocks(dtype: DType, elements: usize, seed: u64) -> Typed {
    let fixtures: serde_json::Value =
        serde_json::from_str(include_str!("../../data/blocks.json")).expect("JSON");
    let name = dtype.name();
    let list = |field: &str| {
        let list = fixtures[name][field].as_array().expect("a list");
        list.iter()
            .map(|number| number.as_u64().expect("a number"))
            .collect::<Vec<u64>>()
    };
    let (bytes, weights) = (list("bytes"), list("weights"));
    let (size, length) = (dtype.block_bytes(), dtype.block_elements());
    let mut made = Typed {
        dtype,
        bytes: Vec::new(),
        values: Vec::new(),
    };
    for choice in numbers(elements / length, seed) {
        let block = usize::from(choice < 0.0);
        let bytes = &bytes[block * size..][..size];
        made.bytes.extend(bytes.iter().map(|&byte| byte as u8));
        let weights = &weights[block * length..][..length];
        let weights = weights.iter().map(|&bits| f32::from_bits(bits as u32));
        made.values.extend(weights.map(f64::from));
    }
    made
}

/// What the bytes of a float type, of U32 or of Q8_0 are worth.
pub fn values(dtype: DType, bytes: &[u8]) -> Vec<f64> {
    let half = |pair: &[u8]| f16::from_le_bytes([pair[0], pair[1]]);
    let word = |four: &[u8]| <[u8; 4]>::try_from(four).expect("four bytes");
    let elements = bytes.chunks_exact(dtype.block_bytes());
    match dtype {
        DType::F32 => elements
            .map(|v| f32::from_le_bytes(word(v)).into())
            .collect(),
        DType::U32 => elements
            .map(|v| u32::from_le_bytes(word(v)).into())
            .collect(),
        DType::F16 => elements.map(|v| half(v).to_f64()).collect(),
        DType::Bf16 => elements
            .map(|v| bf16::from_le_bytes([v[0], v[1]]).to_f64())
            .collect(),
        DType::Q8_0 => elements
            .flat_map(|block| {
                let scale = half(block).to_f64();
                block[2..].iter().map(move |&v| scale * f64::from(v as i8))
            })
            .collect(),
        other => panic!("{other:?} is no output"),
    }
}

/// `rows` rows of `width` values, apart by `stride` elements, out of all of them.
pub fn rows(all: &[f64], rows: usize, width: usize, stride: usize) -> Vec<f64> {
    let row = |row: usize| &all[row * stride..][..width];
    (0..rows).flat_map(row).copied().collect()
}

/// `f32`s and what they are worth.
pub fn floats(elements: usize, seed: u64) -> (Typed, Vec<f64>) {
    let numbers = numbers(elements, seed);
    (Typed::nearest(DType::F32, &numbers), f64s(&numbers))
}
