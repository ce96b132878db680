//! The same model in F16, and in every other type, for which it is made here from that file. The one in F16 is made of
//! the one in Q8_0 that comes with the crate: the fixtures' checksums say whether it is theirs.

use std::fs::File;
use std::path::{Path, PathBuf};

use half::f16;
use ironbridge::Device;
use ironbridge::llama::gguf::{GgufWriter, NewTensor, TensorType};
use ironbridge::llama::{Model, ModelFile, Quantizer};
use serde_json::Value;
use tempfile::TempDir;

use crate::golden;

/// A folder with the model in F16.
fn source() -> (TempDir, PathBuf) {
    let model = ModelFile::open(golden::repository("assets/tiny-rustbook-q8_0.gguf")).unwrap();
    let mut metadata = model.metadata().clone();
    metadata.set("general.file_type", 1u32).unwrap();
    let described: Vec<NewTensor> = (model.tensors().iter())
        .map(|tensor| NewTensor {
            name: tensor.name().into(),
            tensor_type: match tensor.tensor_type() {
                TensorType::Q8_0 => TensorType::F16,
                other => other,
            },
            dimensions: tensor.dimensions().to_vec(),
        })
        .collect();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tiny-rustbook-f16.gguf");
    let mut file = GgufWriter::new(File::create(&path).unwrap(), &metadata, &described).unwrap();
    for tensor in model.tensors() {
        let bytes = model.bytes(tensor);
        match tensor.tensor_type() {
            TensorType::Q8_0 => file.write(&rounded(bytes)).unwrap(),
            _ => file.write(bytes).unwrap(),
        }
    }
    file.finish().unwrap();
    (folder, path)
}

/// Blocks of Q8_0, a scale in F16 and 32 bytes each, as F16. The products have 19 bits, so only this rounds.
fn rounded(blocks: &[u8]) -> Vec<u8> {
    let weights = |block: &[u8]| -> Vec<u8> {
        let scale = f16::from_le_bytes([block[0], block[1]]).to_f32();
        let weights = block[2..].iter().map(|byte| scale * f32::from(*byte as i8));
        weights
            .flat_map(|weight| f16::from_f32(weight).to_le_bytes())
            .collect()
    };
    blocks.chunks_exact(34).flat_map(weights).collect()
}

#[test]
fn f16_is_right() {
    let (_folder, path) = source();
    let file = ModelFile::open(&path).unwrap();
    assert_eq!(
        golden::fixtures("golden.json")["f16"]["crc32"],
        checksum(&file)
    );
    golden::check(path.to_str().unwrap(), "f16");
}

#[test]
fn every_other_type_is_right() {
    let fixtures = golden::fixtures("golden_types.json");
    let types = fixtures.as_object().unwrap();
    assert_eq!(types.len(), 12);
    let (folder, path) = source();
    let model = ModelFile::open(path).unwrap();
    for (name, fixture) in types {
        let path = folder.path().join(name);
        write_in_type(&model, fixture, &path);
        let file = ModelFile::open(&path).unwrap();
        // Then these are the blocks of the `gguf` package and of llama.cpp's quantiser, for the whole model.
        assert_eq!(
            fixture["crc32"],
            checksum(&file),
            "{name}: other blocks than those of the fixtures"
        );
        for info in Device::list().unwrap() {
            let device = Device::open(&info.index.to_string()).unwrap();
            let model = Model::open(&device, &path).unwrap();
            let what = format!("{name} on {}", info.name);
            golden::check_cases(&model, fixture, golden::bounds(name), &what);
        }
    }
}

/// Writes the model with each matrix in the type that the fixture has for it.
fn write_in_type(model: &ModelFile, fixture: &Value, path: &Path) {
    let mut quantizer = Quantizer::new(TensorType::F32).unwrap();
    for (name, wanted) in fixture["types"].as_object().unwrap() {
        let mut types = Quantizer::TYPES.iter();
        let wanted = types.find(|known| known.name() == wanted).unwrap();
        quantizer = quantizer.tensor(name, *wanted).unwrap();
    }
    quantizer.write(model, path, &mut |_| ()).unwrap();
}

/// The CRC-32 of all tensors' bytes, in the order of their names.
fn checksum(file: &ModelFile) -> u32 {
    let table: Vec<u32> = (0..256u32)
        .map(|byte| {
            (0..8).fold(byte, |rest, _| match rest & 1 {
                0 => rest >> 1,
                _ => rest >> 1 ^ 0xEDB8_8320,
            })
        })
        .collect();
    let mut tensors: Vec<_> = file.tensors().iter().collect();
    tensors.sort_by_key(|tensor| tensor.name());
    let bytes = tensors.into_iter().flat_map(|tensor| file.bytes(tensor));
    !bytes.fold(!0, |rest, byte| {
        table[(rest as u8 ^ byte) as usize] ^ rest >> 8
    })
}
