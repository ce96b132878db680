//! Numbers that are stored as F32, F16 or BF16.

use half::{bf16, f16};

use super::gguf::TensorType;

/// The numbers of a tensor of one of the three types, in its order.
pub(crate) fn floats(bytes: &[u8], tensor_type: TensorType) -> Box<dyn Iterator<Item = f32> + '_> {
    let halves = bytes.as_chunks().0.iter();
    match tensor_type {
        TensorType::F16 => Box::new(halves.map(|half| f16::from_le_bytes(*half).to_f32())),
        TensorType::BF16 => Box::new(halves.map(|half| bf16::from_le_bytes(*half).to_f32())),
        _ => {
            let words = bytes.as_chunks().0.iter();
            Box::new(words.map(|word| f32::from_le_bytes(*word)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_their_types() {
        let expected = [1.5f32, -0.25, 0.0];
        let of = |bytes: &[u8], tensor_type| floats(bytes, tensor_type).collect::<Vec<f32>>();
        let f32s = expected.map(f32::to_le_bytes).concat();
        let f16s = expected.map(|x| f16::from_f32(x).to_le_bytes()).concat();
        let bf16s = expected.map(|x| bf16::from_f32(x).to_le_bytes()).concat();
        assert_eq!(of(&f32s, TensorType::F32), expected);
        assert_eq!(of(&f16s, TensorType::F16), expected);
        assert_eq!(of(&bf16s, TensorType::BF16), expected);
        assert!(of(&[], TensorType::F16).is_empty());
    }
}
