//! Writes small GGUF files.

use half::{bf16, f16};
use ironbridge::DType;
use ironbridge::llama::gguf::TensorType;

pub enum Value {
    U32(u32),
    F32(f32),
    Bool(bool),
    Text(String),
    Texts(Vec<String>),
    Floats(Vec<f32>),
    Integers(Vec<i32>),
}

/// How a tensor is to be stored.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Storage {
    F32,
    F16,
    Bf16,
    Q8_0,
    /// Blocks of which another implementation has said what they are worth (tests/data/blocks.json). The numbers choose
    /// among them.
    Blocks(DType),
    /// A type that cannot be computed with.
    Q8_1,
}

pub struct Tensor {
    pub name: String,
    /// In GGML's order.
    pub dimensions: Vec<u64>,
    pub storage: Storage,
    pub numbers: Vec<f32>,
}

/// The bytes of a GGUF file of version 3.
pub fn write(metadata: &[(String, Value)], tensors: &[Tensor]) -> Vec<u8> {
    let mut file = b"GGUF".to_vec();
    file.extend(3u32.to_le_bytes());
    file.extend((tensors.len() as u64).to_le_bytes());
    file.extend((metadata.len() as u64).to_le_bytes());
    for (key, value) in metadata {
        text(&mut file, key);
        match value {
            Value::U32(number) => scalar(&mut file, 4, &number.to_le_bytes()),
            Value::F32(number) => scalar(&mut file, 6, &number.to_le_bytes()),
            Value::Bool(boolean) => scalar(&mut file, 7, &[u8::from(*boolean)]),
            Value::Text(string) => {
                file.extend(8u32.to_le_bytes());
                text(&mut file, string);
            }
            Value::Texts(strings) => {
                array(&mut file, 8, strings.len());
                strings.iter().for_each(|string| text(&mut file, string));
            }
            Value::Floats(numbers) => {
                array(&mut file, 6, numbers.len());
                numbers
                    .iter()
                    .for_each(|number| file.extend(number.to_le_bytes()));
            }
            Value::Integers(numbers) => {
                array(&mut file, 5, numbers.len());
                numbers
                    .iter()
                    .for_each(|number| file.extend(number.to_le_bytes()));
            }
        }
    }

    let data: Vec<Vec<u8>> = tensors.iter().map(Tensor::bytes).collect();
    let mut offset = 0u64;
    for (tensor, bytes) in tensors.iter().zip(&data) {
        text(&mut file, &tensor.name);
        file.extend((tensor.dimensions.len() as u32).to_le_bytes());
        tensor
            .dimensions
            .iter()
            .for_each(|size| file.extend(size.to_le_bytes()));
        file.extend(tensor.storage.number().to_le_bytes());
        file.extend(offset.to_le_bytes());
        offset += (bytes.len() as u64).next_multiple_of(32);
    }
    for bytes in data {
        file.resize(file.len().next_multiple_of(32), 0);
        file.extend(bytes);
    }
    file
}

fn text(file: &mut Vec<u8>, string: &str) {
    file.extend((string.len() as u64).to_le_bytes());
    file.extend(string.as_bytes());
}

fn scalar(file: &mut Vec<u8>, value_type: u32, bytes: &[u8]) {
    file.extend(value_type.to_le_bytes());
    file.extend(bytes);
}

fn array(file: &mut Vec<u8>, value_type: u32, length: usize) {
    scalar(file, 9, &value_type.to_le_bytes());
    file.extend((length as u64).to_le_bytes());
}

impl Storage {
    fn number(self) -> u32 {
        match self {
            Storage::F32 => 0,
            Storage::F16 => 1,
            Storage::Q8_1 => 9,
            Storage::Q8_0 => 8,
            Storage::Bf16 => 30,
            Storage::Blocks(dtype) => {
                let mut all = TensorType::ALL.iter();
                let same = all.find(|known| known.name() == dtype.name());
                *same.expect("every type of weights is GGML's") as u32
            }
        }
    }
}

/// The blocks of a type and their weights.
pub struct Fixture {
    length: usize,
    blocks: Vec<(Vec<u8>, Vec<f64>)>,
}

impl Fixture {
    pub fn of(dtype: DType) -> Fixture {
        let text = include_str!(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/data/blocks.json"
        ));
        let all: serde_json::Value = serde_json::from_str(text).unwrap();
        let list = |field: &str| {
            let list = all[dtype.name()][field].as_array().unwrap().iter();
            list.map(|number| number.as_u64().unwrap() as u32)
                .collect::<Vec<u32>>()
        };
        let (bytes, weights) = (list("bytes"), list("weights"));
        let bytes = bytes.chunks(dtype.block_bytes());
        let bytes = bytes.map(|block| block.iter().map(|byte| *byte as u8).collect());
        let weights = weights.chunks(dtype.block_elements());
        let worth = |bits: &u32| f64::from(f32::from_bits(*bits));
        let weights = weights.map(|block| block.iter().map(worth).collect());
        Fixture {
            length: dtype.block_elements(),
            blocks: bytes.zip(weights).collect(),
        }
    }

    /// The root of the mean square of the weights.
    pub fn size(&self) -> f64 {
        let weights: Vec<f64> = (self.blocks.iter())
            .flat_map(|(_, weights)| weights.clone())
            .collect();
        (weights.iter().map(|weight| weight * weight).sum::<f64>() / weights.len() as f64).sqrt()
    }

    fn chosen<'a>(&'a self, numbers: &'a [f32]) -> impl Iterator<Item = &'a (Vec<u8>, Vec<f64>)> {
        let choose = |numbers: &[f32]| &self.blocks[usize::from(numbers[0] < 0.0)];
        numbers.chunks(self.length).map(choose)
    }
}

impl Tensor {
    fn bytes(&self) -> Vec<u8> {
        let numbers = self.numbers.iter();
        match self.storage {
            Storage::F32 => numbers.flat_map(|number| number.to_le_bytes()).collect(),
            Storage::F16 => numbers
                .flat_map(|number| f16::from_f32(*number).to_le_bytes())
                .collect(),
            Storage::Bf16 => numbers
                .flat_map(|number| bf16::from_f32(*number).to_le_bytes())
                .collect(),
            Storage::Q8_0 => self
                .numbers
                .chunks(32)
                .flat_map(|block| q8_0(block).0)
                .collect(),
            Storage::Blocks(dtype) => {
                let fixture = Fixture::of(dtype);
                let chosen = fixture.chosen(&self.numbers);
                chosen.flat_map(|(bytes, _)| bytes.clone()).collect()
            }
            Storage::Q8_1 => vec![0; self.numbers.len() / 32 * 40],
        }
    }

    /// The numbers as they are after the rounding.
    pub fn stored(&self) -> Vec<f64> {
        let numbers = self.numbers.iter();
        match self.storage {
            Storage::F32 => numbers.map(|number| f64::from(*number)).collect(),
            Storage::F16 => numbers
                .map(|number| f16::from_f32(*number).to_f64())
                .collect(),
            Storage::Bf16 => numbers
                .map(|number| bf16::from_f32(*number).to_f64())
                .collect(),
            Storage::Q8_0 => self
                .numbers
                .chunks(32)
                .flat_map(|block| q8_0(block).1)
                .collect(),
            Storage::Blocks(dtype) => {
                let fixture = Fixture::of(dtype);
                let chosen = fixture.chosen(&self.numbers);
                chosen.flat_map(|(_, weights)| weights.clone()).collect()
            }
            Storage::Q8_1 => vec![0.0; self.numbers.len()],
        }
    }
}

/// A block's bytes and the numbers that they stand for: a scale in F16 and 32 signed bytes.
fn q8_0(block: &[f32]) -> (Vec<u8>, Vec<f64>) {
    let largest = block
        .iter()
        .fold(0f32, |largest, number| largest.max(number.abs()));
    let scale = f16::from_f32(largest / 127.0);
    let steps = block.iter().map(|number| match scale.to_f32() {
        0.0 => 0,
        scale => (number / scale).round().clamp(-127.0, 127.0) as i8,
    });
    let steps: Vec<i8> = steps.collect();
    let mut bytes = scale.to_le_bytes().to_vec();
    bytes.extend(steps.iter().map(|step| *step as u8));
    (
        bytes,
        steps
            .iter()
            .map(|step| scale.to_f64() * f64::from(*step))
            .collect(),
    )
}
