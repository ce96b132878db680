//! Elements of buffers: their types, and arrays of them.

use half::{bf16, f16};

/// A type of elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    F32,
    F16,
    Bf16,
    I8,
    U8,
    I16,
    U16,
    I32,
    U32,
    I64,
    U64,
}

impl Type {
    pub const ALL: [(Type, &'static str, usize); 11] = [
        (Type::F32, "f32", 4),
        (Type::F16, "f16", 2),
        (Type::Bf16, "bf16", 2),
        (Type::I8, "i8", 1),
        (Type::U8, "u8", 1),
        (Type::I16, "i16", 2),
        (Type::U16, "u16", 2),
        (Type::I32, "i32", 4),
        (Type::U32, "u32", 4),
        (Type::I64, "i64", 8),
        (Type::U64, "u64", 8),
    ];

    pub fn named(name: &str) -> Option<Type> {
        let mut all = Type::ALL.into_iter();
        all.find(|(_, other, _)| *other == name).map(|(it, ..)| it)
    }

    fn row(self) -> (Type, &'static str, usize) {
        let mut all = Type::ALL.into_iter();
        all.find(|(other, ..)| *other == self)
            .unwrap_or(Type::ALL[0])
    }

    pub fn name(self) -> &'static str {
        self.row().1
    }

    pub fn size(self) -> usize {
        self.row().2
    }

    /// An element as text; NaN and infinity as Rust writes them.
    pub fn show(self, bytes: &[u8]) -> String {
        let integer = |count: usize| {
            let mut wide = [0; 8];
            wide[..count].copy_from_slice(&bytes[..count]);
            u64::from_le_bytes(wide)
        };
        match self {
            Type::F32 => f32::from_bits(integer(4) as u32).to_string(),
            Type::F16 => f16::from_bits(integer(2) as u16).to_string(),
            Type::Bf16 => bf16::from_bits(integer(2) as u16).to_string(),
            Type::I8 => (integer(1) as i8).to_string(),
            Type::I16 => (integer(2) as i16).to_string(),
            Type::I32 => (integer(4) as i32).to_string(),
            Type::I64 => (integer(8) as i64).to_string(),
            Type::U8 | Type::U16 | Type::U32 | Type::U64 => integer(self.size()).to_string(),
        }
    }

    /// The bytes of a number that is written as text.
    pub fn read(self, text: &str) -> Option<Vec<u8>> {
        let text = text.trim();
        let size = self.size();
        match self {
            Type::F32 => Some(text.parse::<f32>().ok()?.to_le_bytes().to_vec()),
            Type::F16 => Some(f16::from_f32(text.parse().ok()?).to_le_bytes().to_vec()),
            Type::Bf16 => Some(bf16::from_f32(text.parse().ok()?).to_le_bytes().to_vec()),
            Type::I8 | Type::I16 | Type::I32 | Type::I64 => {
                let value: i64 = text.parse().ok()?;
                let spare = 64 - 8 * size;
                (value << spare >> spare == value).then(|| value.to_le_bytes()[..size].to_vec())
            }
            Type::U8 | Type::U16 | Type::U32 | Type::U64 => {
                let value: u64 = text.parse().ok()?;
                let spare = 64 - 8 * size;
                (value << spare >> spare == value).then(|| value.to_le_bytes()[..size].to_vec())
            }
        }
    }

    /// The bytes of an index, as the type has it: integers wrap around.
    pub fn ramp(self, index: u64) -> Vec<u8> {
        match self {
            Type::F32 => (index as f32).to_le_bytes().to_vec(),
            Type::F16 => f16::from_f64(index as f64).to_le_bytes().to_vec(),
            Type::Bf16 => bf16::from_f64(index as f64).to_le_bytes().to_vec(),
            _ => index.to_le_bytes()[..self.size()].to_vec(),
        }
    }
}

/// Elements of a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Values {
    pub kind: Type,
    pub bytes: Vec<u8>,
}

impl Values {
    pub fn count(&self) -> usize {
        self.bytes.len() / self.kind.size()
    }

    pub fn elements(&self) -> impl Iterator<Item = String> {
        let size = self.kind.size();
        self.bytes.chunks_exact(size).map(|it| self.kind.show(it))
    }
}
