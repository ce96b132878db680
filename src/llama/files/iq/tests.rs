//! Against what the `gguf` package reads: `scripts/block_fixtures.py` made the blocks.

use std::collections::HashMap;

use serde::Deserialize;

use super::*;

#[derive(Deserialize)]
struct Fixture {
    bytes: Vec<u8>,
    weights: Vec<u32>,
}

#[test]
fn blocks_are_the_numbers_that_the_gguf_package_reads() {
    let fixtures: HashMap<String, Fixture> =
        serde_json::from_str(include_str!("../../../../tests/data/iq_blocks.json")).unwrap();
    let decoded = TensorType::ALL
        .iter()
        .filter_map(|kind| Some((*kind, decoder(*kind)?)));
    let decoded: Vec<(TensorType, DecodeBlock)> = decoded.collect();
    assert_eq!(decoded.len(), fixtures.len());
    for (kind, decode) in decoded {
        let Fixture { bytes, weights } = &fixtures[kind.name()];
        let (length, size) = (kind.block_length() as usize, kind.block_size() as usize);
        let mut block = vec![f32::NAN; length];
        for (index, bytes) in bytes.chunks_exact(size).enumerate() {
            decode(bytes, &mut block);
            let found: Vec<u32> = block.iter().map(|number| number.to_bits()).collect();
            let expected = &weights[index * length..(index + 1) * length];
            let differs = found.iter().zip(expected).position(|(found, expected)| {
                // Zeros have signs by the order of the factors.
                found != expected && f32::from_bits(*found) != f32::from_bits(*expected)
            });
            assert_eq!(differs, None, "{kind}, block {index}");
        }
    }
}

#[test]
fn any_bytes_are_numbers() {
    for kind in TensorType::ALL {
        let Some(decode) = decoder(*kind) else {
            continue;
        };
        let mut block = vec![0.0; kind.block_length() as usize];
        for byte in 0..=255 {
            decode(&vec![byte; kind.block_size() as usize], &mut block);
        }
    }
}
