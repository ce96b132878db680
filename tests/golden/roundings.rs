//! Plain roundings to the types that neither the crate nor the public `gguf` package writes: `Small` of
//! `scripts/golden_types.py`, to the bit. Each operation is one of IEEE's in f32.

use half::f16;

/// A row of whole blocks of IQ4_NL, Q2_K or Q3_K.
pub fn round(tensor_type: &str, row: &[f32]) -> Vec<u8> {
    match tensor_type {
        "IQ4_NL" => row.as_chunks().0.iter().flat_map(iq4_nl).collect(),
        "Q2_K" => row.as_chunks().0.iter().flat_map(q2_k).collect(),
        "Q3_K" => row.as_chunks().0.iter().flat_map(q3_k).collect(),
        other => panic!("{other} has another way"),
    }
}

/// The quotient, rounded; 0 where there is none.
fn divided(number: f32, by: f32) -> f32 {
    match by == 0.0 {
        true => 0.0,
        false => (number / by).round_ties_even(),
    }
}

fn largest(numbers: impl IntoIterator<Item = f32>) -> f32 {
    numbers.into_iter().fold(0.0, f32::max)
}

/// The largest value becomes `limit`: the unit, and the values in units.
fn scales_of(values: &[f32; 16], limit: f32) -> (f16, [f32; 16]) {
    let unit = f16::from_f32(largest(*values) / limit);
    let steps = values.map(|value| divided(value, unit.to_f32()).min(limit));
    (unit, steps)
}

/// 256 fields to 64 bytes: of each half, four times 32.
fn two_bits(fields: &[u8; 256]) -> [u8; 64] {
    let mut bytes = [0; 64];
    for (index, field) in fields.iter().enumerate() {
        bytes[index / 128 * 32 + index % 32] |= field << (index % 128 / 32 * 2);
    }
    bytes
}

fn iq4_nl(numbers: &[f32; 32]) -> Vec<u8> {
    const TABLE: [f32; 16] = [
        -127.0, -104.0, -83.0, -65.0, -49.0, -35.0, -22.0, -10.0, 1.0, 13.0, 25.0, 38.0, 53.0,
        69.0, 89.0, 113.0,
    ];
    let unit = f16::from_f32(largest(numbers.map(f32::abs)) / 127.0);
    let indices = numbers.map(|number| {
        let scaled = divided(number, unit.to_f32());
        let distances = TABLE.map(|level| (scaled - level).abs());
        let nearest = (0..16u8).min_by(|a, b| {
            let distance = |index: &u8| distances[usize::from(*index)];
            distance(a).total_cmp(&distance(b)) // the first of equals
        });
        nearest.unwrap()
    });
    let mut block = unit.to_le_bytes().to_vec();
    block.extend((0..16).map(|index| indices[index] | indices[index + 16] << 4));
    block
}

fn q2_k(numbers: &[f32; 256]) -> Vec<u8> {
    let parts: &[[f32; 16]; 16] = numbers.as_chunks().0.try_into().unwrap();
    let least = parts.map(|part| largest(part.map(|number| -number)));
    let most = parts.map(|part| part.into_iter().fold(f32::MIN, f32::max));
    let ranges: [f32; 16] = std::array::from_fn(|part| (most[part] + least[part]) / 3.0);
    let (unit, scales) = scales_of(&ranges, 15.0);
    let (least_unit, mins) = scales_of(&least, 15.0);
    let fields: [u8; 256] = std::array::from_fn(|index| {
        let shifted = numbers[index] + least_unit.to_f32() * mins[index / 16];
        divided(shifted, unit.to_f32() * scales[index / 16]).clamp(0.0, 3.0) as u8
    });
    let mut block: Vec<u8> = (0..16)
        .map(|part| scales[part] as u8 | (mins[part] as u8) << 4)
        .collect();
    block.extend(two_bits(&fields));
    block.extend(unit.to_le_bytes());
    block.extend(least_unit.to_le_bytes());
    block
}

fn q3_k(numbers: &[f32; 256]) -> Vec<u8> {
    let parts: &[[f32; 16]; 16] = numbers.as_chunks().0.try_into().unwrap();
    let (unit, scales) = scales_of(&parts.map(|part| largest(part.map(f32::abs)) / 4.0), 31.0);
    let fields: [u8; 256] = std::array::from_fn(|index| {
        let step = unit.to_f32() * scales[index / 16];
        (divided(numbers[index], step).clamp(-4.0, 3.0) + 4.0) as u8
    });
    let mut block = vec![0; 32];
    for (index, field) in fields.iter().enumerate() {
        block[index % 32] |= (field >> 2) << (index / 32);
    }
    block.extend(two_bits(&fields.map(|field| field & 3)));
    // Six bits each: four of two side by side, then the upper two of four.
    let scales = scales.map(|scale| scale as u8 + 32);
    block.extend((0..8).map(|part| scales[part] & 15 | (scales[part + 8] & 15) << 4));
    block.extend((0..4).map(|part| {
        (0..4).fold(0, |byte, quarter| {
            byte | (scales[part + 4 * quarter] >> 4) << (2 * quarter)
        })
    }));
    block.extend(unit.to_le_bytes());
    block
}
