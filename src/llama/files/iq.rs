//! Types of one to four bits a number whose blocks are words of a codebook, and NVFP4: read, and computed in F32.
//!
//! Formats are those of `ggml-common.h` and `dequantize_row_…` in llama.cpp's `ggml-quants.c`. No kernel multiplies
//! them: a file's matrices become F32 when they are loaded, value for value.

mod grids;

use half::f16;

use super::gguf::TensorType;

/// Writes the numbers of one block, as many as a block has, and reads one block's bytes.
pub(crate) type DecodeBlock = fn(&[u8], &mut [f32]);

/// How a type's blocks become numbers; `None` for types that kernels take, and for those of intermediate results.
pub(crate) fn decoder(tensor_type: TensorType) -> Option<DecodeBlock> {
    match tensor_type {
        TensorType::IQ1_S => Some(iq1_s),
        TensorType::IQ1_M => Some(iq1_m),
        TensorType::IQ2_XXS => Some(iq2_xxs),
        TensorType::IQ2_XS => Some(iq2_xs),
        TensorType::IQ2_S => Some(iq2_s),
        TensorType::IQ3_XXS => Some(iq3_xxs),
        TensorType::IQ3_S => Some(iq3_s),
        TensorType::NVFP4 => Some(nvfp4),
        _ => None,
    }
}

/// Appends the numbers of whole blocks, as bytes of F32.
pub(crate) fn decode_to_f32(
    tensor_type: TensorType,
    decode: DecodeBlock,
    blocks: &[u8],
    numbers: &mut Vec<u8>,
) {
    let mut of_block = vec![0.0f32; tensor_type.block_length() as usize];
    for block in blocks.chunks_exact(tensor_type.block_size() as usize) {
        decode(block, &mut of_block);
        numbers.extend(of_block.iter().flat_map(|number| number.to_le_bytes()));
    }
}

/// What is added to the words of IQ1, in one direction or the other.
const DELTA: f32 = 0.125;

fn u16_at(bytes: &[u8], place: usize) -> u16 {
    u16::from_le_bytes([bytes[place], bytes[place + 1]])
}

fn u32_at(bytes: &[u8], place: usize) -> u32 {
    u32::from(u16_at(bytes, place)) | u32::from(u16_at(bytes, place + 2)) << 16
}

fn scale(bytes: &[u8]) -> f32 {
    f16::from_bits(u16_at(bytes, 0)).to_f32()
}

/// The four bits of a half byte.
fn nibble(bytes: &[u8], index: usize) -> f32 {
    f32::from(bytes[index / 2] >> (4 * (index % 2)) & 15)
}

/// Seven signs, and an eighth so that their number is even.
fn even_signs(seven: u32) -> u8 {
    let seven = (seven & 127) as u8;
    seven | ((seven.count_ones() as u8 & 1) << 7)
}

/// A word times a scale, negative where `signs` has a bit.
fn write_signed<const N: usize>(to: &mut [f32], word: [f32; N], scale: f32, signs: u8) {
    for (place, (to, value)) in to.iter_mut().zip(word).enumerate() {
        *to = scale * value * if signs >> place & 1 == 1 { -1.0 } else { 1.0 };
    }
}

fn iq1_s(block: &[u8], to: &mut [f32]) {
    let (low, high) = (&block[2..34], &block[34..50]);
    for (part, to) in to.chunks_exact_mut(32).enumerate() {
        let bits = u16_at(high, 2 * part);
        let scale = scale(block) * f32::from(2 * (bits >> 12 & 7) + 1);
        let delta = if bits & 0x8000 == 0 { DELTA } else { -DELTA };
        for (word, to) in to.chunks_exact_mut(8).enumerate() {
            let index =
                usize::from(low[4 * part + word]) | usize::from(bits >> (3 * word) & 7) << 8;
            let values = grids::IQ1_S.word::<8>(index);
            to.iter_mut()
                .zip(values)
                .for_each(|(to, value)| *to = scale * (value + delta));
        }
    }
}

fn iq1_m(block: &[u8], to: &mut [f32]) {
    let (low, high, scales) = (&block[..32], &block[32..48], &block[48..56]);
    // The block's scale is in the upper bits of the four words of scales.
    let bits = (0..4).fold(0, |bits, word| {
        bits | (u16_at(scales, 2 * word) >> 12) << (4 * word)
    });
    let whole = f16::from_bits(bits).to_f32();
    for (word, to) in to.chunks_exact_mut(8).enumerate() {
        let of_two = word / 2;
        let scale = u16_at(scales, of_two / 4 * 2) >> (3 * (of_two % 4)) & 7;
        let scale = whole * f32::from(2 * scale + 1);
        let bits = high[of_two] >> (4 * (word % 2));
        let delta = if bits & 8 == 0 { DELTA } else { -DELTA };
        let values = grids::IQ1_S.word::<8>(usize::from(low[word]) | usize::from(bits & 7) << 8);
        to.iter_mut()
            .zip(values)
            .for_each(|(to, value)| *to = scale * (value + delta));
    }
}

fn iq2_xxs(block: &[u8], to: &mut [f32]) {
    for (part, to) in to.chunks_exact_mut(32).enumerate() {
        let bytes = &block[2 + 8 * part..][..8];
        let signs = u32_at(bytes, 4);
        let scale = scale(block) * (0.5 + (signs >> 28) as f32) * 0.25;
        for (word, to) in to.chunks_exact_mut(8).enumerate() {
            let values = grids::IQ2_XXS.word::<8>(bytes[word].into());
            write_signed(to, values, scale, even_signs(signs >> (7 * word)));
        }
    }
}

fn iq2_xs(block: &[u8], to: &mut [f32]) {
    for (word, to) in to.chunks_exact_mut(8).enumerate() {
        let bits = u16_at(&block[2..66], 2 * word);
        let scale = scale(block) * (0.5 + nibble(&block[66..74], word / 2)) * 0.25;
        let values = grids::IQ2_XS.word::<8>(usize::from(bits & 511));
        write_signed(to, values, scale, even_signs(u32::from(bits >> 9)));
    }
}

fn iq2_s(block: &[u8], to: &mut [f32]) {
    let (low, signs, high, scales) = (
        &block[2..34],
        &block[34..66],
        &block[66..74],
        &block[74..82],
    );
    for (word, to) in to.chunks_exact_mut(8).enumerate() {
        let scale = scale(block) * (0.5 + nibble(scales, word / 2)) * 0.25;
        let upper = usize::from(high[word / 4] >> (2 * (word % 4)) & 3);
        let values = grids::IQ2_S.word::<8>(usize::from(low[word]) | upper << 8);
        write_signed(to, values, scale, signs[word]);
    }
}

fn iq3_xxs(block: &[u8], to: &mut [f32]) {
    let (words, scales) = (&block[2..66], &block[66..98]);
    for (part, to) in to.chunks_exact_mut(32).enumerate() {
        let signs = u32_at(scales, 4 * part);
        let scale = scale(block) * (0.5 + (signs >> 28) as f32) * 0.5;
        for (word, to) in to.chunks_exact_mut(4).enumerate() {
            let values = grids::IQ3_XXS.word::<4>(words[8 * part + word].into());
            let eight = even_signs(signs >> (7 * (word / 2)));
            write_signed(to, values, scale, eight >> (4 * (word % 2)));
        }
    }
}

fn iq3_s(block: &[u8], to: &mut [f32]) {
    let (low, high, signs, scales) = (
        &block[2..66],
        &block[66..74],
        &block[74..106],
        &block[106..110],
    );
    for (word, to) in to.chunks_exact_mut(4).enumerate() {
        let scale = scale(block) * (1.0 + 2.0 * nibble(scales, word / 8));
        let upper = usize::from(high[word / 8] >> (word % 8) & 1);
        let values = grids::IQ3_S.word::<4>(usize::from(low[word]) | upper << 8);
        write_signed(to, values, scale, signs[word / 2] >> (4 * (word % 2)));
    }
}

/// Four groups of 16 numbers of E2M1, each with a scale of E4M3 without a sign.
fn nvfp4(block: &[u8], to: &mut [f32]) {
    const TWICE: [f32; 8] = [0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0];
    let value = |bits: u8| TWICE[usize::from(bits & 7)] * if bits & 8 == 0 { 1.0 } else { -1.0 };
    for (group, to) in to.chunks_exact_mut(16).enumerate() {
        let scale = half_of_e4m3(block[group]);
        for (place, byte) in block[4 + 8 * group..][..8].iter().enumerate() {
            to[place] = scale * value(byte & 15);
            to[place + 8] = scale * value(byte >> 4);
        }
    }
}

/// Half of what the bits stand for: the table of E2M1 has doubles. 0x7f, which is no number, is 0, as in llama.cpp.
fn half_of_e4m3(bits: u8) -> f32 {
    let (exponent, fraction) = (i32::from(bits >> 3 & 15), f32::from(bits & 7));
    match (bits, exponent) {
        (0 | 0x7f, _) => 0.0,
        (_, 0) => fraction * (0.5f32).powi(10),
        _ => (1.0 + fraction / 8.0) * 2f32.powi(exponent - 8),
    }
}

#[cfg(test)]
mod tests;
