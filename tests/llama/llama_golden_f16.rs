//! The same model in F16, and in every other type, for which it is made here from that file. The file is too large for
//! the crate's package, so that these tests are in the repository alone.

use std::path::{Path, PathBuf};
use std::process::Command;

use ironbridge::Device;
use ironbridge::llama::gguf::TensorType;
use ironbridge::llama::{Model, ModelFile, Quantizer};
use serde_json::Value;

use crate::golden;

fn source() -> PathBuf {
    let path = golden::repository("tests/data/tiny-rustbook-f16.gguf");
    assert!(
        path.exists(),
        "{} is missing: it belongs to the repository",
        path.display()
    );
    path
}

#[test]
fn f16_is_right() {
    source();
    golden::check("tests/data/tiny-rustbook-f16.gguf", "f16");
}

#[test]
fn every_other_type_is_right() {
    let fixtures = golden::fixtures("golden_types.json");
    let types = fixtures.as_object().unwrap();
    assert_eq!(types.len(), 12);
    let model = ModelFile::open(source()).unwrap();
    let folder = tempfile::tempdir().unwrap();
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

/// Both tests once more, in a process whose every kernel is compiled from its Metal source.
#[test]
fn metal_kernels_are_right() {
    let itself = std::env::current_exe().unwrap();
    let output = Command::new(itself)
        .args(["llama_golden_f16::", "--skip", "metal_kernels_are_right"])
        .env("IRONBRIDGE_SOFT_KERNELS", "msl")
        .output()
        .unwrap();
    let report = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && report.contains("2 passed"),
        "{report}"
    );
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
