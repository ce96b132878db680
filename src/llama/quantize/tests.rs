//! Blocks held against those that others make (`scripts/quantize_fixtures.py`), and files against their sources.

use std::collections::BTreeMap;
use std::fs;

use proptest::prelude::*;

use super::*;
use crate::llama::files::gguf::{GgufFile, Value};

#[derive(serde::Deserialize)]
struct Fixtures {
    numbers: String,
    blocks: BTreeMap<String, String>,
    importance: String,
    weighted: BTreeMap<String, String>,
}

impl Fixtures {
    fn read() -> Fixtures {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/quantized.json");
        serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
    }
}

fn floats(hexadecimal: &str) -> Vec<f32> {
    let bytes = bytes(hexadecimal);
    let floats = bytes.as_chunks().0.iter();
    floats.map(|float| f32::from_le_bytes(*float)).collect()
}

fn bytes(hexadecimal: &str) -> Vec<u8> {
    (0..hexadecimal.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&hexadecimal[at..at + 2], 16).unwrap())
        .collect()
}

fn type_named(name: &str) -> TensorType {
    let mut all = TensorType::ALL.iter();
    *all.find(|known| known.name() == name).unwrap()
}

#[test]
fn blocks_are_those_of_the_gguf_package_and_of_llama_cpp() {
    let fixtures = Fixtures::read();
    let numbers = floats(&fixtures.numbers);
    let mut compared = 0;
    for (name, blocks) in &fixtures.blocks {
        let tensor_type = type_named(name);
        let size = tensor_type.block_size() as usize;
        let expected = bytes(blocks);
        let found = quantize(tensor_type, &numbers).unwrap();
        assert_eq!(found.len(), expected.len());
        for (index, (found, expected)) in found.chunks(size).zip(expected.chunks(size)).enumerate()
        {
            assert_eq!(found, expected, "{name}, block {index}");
            compared += 1;
        }
    }
    assert!(compared > 1000);
    // All of them, but for F32.
    assert_eq!(fixtures.blocks.len() + 1, Quantizer::TYPES.len());
}

#[test]
fn weighted_blocks_are_those_of_llama_cpp() {
    let fixtures = Fixtures::read();
    let numbers = floats(&fixtures.numbers);
    let importance = floats(&fixtures.importance);
    assert_eq!(numbers.len(), importance.len());
    let mut names = Vec::new();
    for (name, blocks) in &fixtures.weighted {
        let tensor_type = type_named(name);
        let size = tensor_type.block_size() as usize;
        let expected = bytes(blocks);
        // One row, as the fixture has it.
        let found = encode(tensor_type, &numbers, Some(&importance)).unwrap();
        assert_ne!(found, quantize(tensor_type, &numbers).unwrap(), "{name}");
        assert_eq!(found.len(), expected.len());
        for (index, (found, expected)) in found.chunks(size).zip(expected.chunks(size)).enumerate()
        {
            assert_eq!(found, expected, "{name}, block {index}");
        }
        names.push(tensor_type);
    }
    let with_weights = Quantizer::TYPES.iter().copied();
    let with_weights = with_weights.filter(|kind| rows::has_weights(*kind));
    assert_eq!(with_weights.count(), names.len());
}

/// A table of [`ImportanceMatrix`]'s older form.
fn importance(entries: &[(&str, &[f32])]) -> ImportanceMatrix {
    let mut bytes = Vec::from((entries.len() as i32).to_le_bytes());
    for (name, columns) in entries {
        bytes.extend((name.len() as i32).to_le_bytes());
        bytes.extend(name.as_bytes());
        bytes.extend([1, columns.len() as i32].map(i32::to_le_bytes).concat());
        bytes.extend(columns.iter().flat_map(|it| it.to_le_bytes()));
    }
    bytes.extend([9, 5].map(i32::to_le_bytes).concat());
    bytes.extend(b"a.txt");
    ImportanceMatrix::parse(&bytes).unwrap()
}

#[test]
fn important_columns_have_the_smaller_errors() {
    let folder = tempfile::tempdir().unwrap();
    let model = model(folder.path(), TensorType::F32);
    let out = folder.path().join("out.gguf");
    let columns: Vec<f32> = (0..96)
        .map(|it| if it % 3 == 0 { 1e4 } else { 1e-4 })
        .collect();
    let name = "blk.0.ffn_up.weight";
    let write = |quantizer: Quantizer| quantizer.write(&model, &out, &mut |_| ());
    let error = || {
        let written = ModelFile::open(&out).unwrap();
        let blocks = written.bytes(written.tensor(name).unwrap());
        let back = blocks.as_chunks::<18>().0.iter().flat_map(|block| {
            let scale = half::f16::from_le_bytes([block[0], block[1]]).to_f32();
            let level = move |nibble: u8| scale * (f32::from(nibble) - 8.0);
            let low = (0..16).map(move |at| level(block[2 + at] & 15));
            low.chain((0..16).map(move |at| level(block[2 + at] >> 4)))
        });
        let numbers = model
            .bytes(model.tensor(name).unwrap())
            .as_chunks()
            .0
            .iter();
        let errors = back.zip(numbers).enumerate().map(|(at, (found, number))| {
            let error = f64::from(found - f32::from_le_bytes(*number)).powi(2);
            error * f64::from(columns[at % 96])
        });
        errors.sum::<f64>()
    };
    let quantizer = || Quantizer::new(TensorType::Q4_0).unwrap().overwrite(true);
    write(quantizer()).unwrap();
    let before = error();
    let matrix = importance(&[(name, &columns)]);
    let report = write(quantizer().importance(matrix.clone())).unwrap();
    assert!(error() < 0.8 * before, "{} {before}", error());
    // The embedding is the output here, which the matrix does not know; vectors and F16 have no part in it.
    assert_eq!(report.without_importance, ["token_embd.weight"]);
    let written = GgufFile::open(&out).unwrap();
    let value = |key: &str| written.header().metadata().value(key).cloned();
    assert_eq!(value("quantize.imatrix.entries_count"), Some(Value::I32(1)));
    assert_eq!(value("quantize.imatrix.chunks_count"), Some(Value::U32(9)));
    assert_eq!(value("quantize.imatrix.dataset"), Some("a.txt".into()));

    // Types without a search are the same with it.
    let plain = Quantizer::new(TensorType::Q8_0).unwrap().overwrite(true);
    let report = write(plain.importance(matrix)).unwrap();
    assert!(report.without_importance.is_empty(), "{report:?}");

    let error = write(quantizer().importance(importance(&[(name, &columns[1..])]))).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the importance matrix has 95 columns for \"blk.0.ffn_up.weight\", which has 96"
    );
    let error = write(quantizer().importance(importance(&[("other", &columns)]))).unwrap_err();
    assert!(matches!(
        error,
        LlamaError::Quantize(QuantizeError::NoImportance)
    ));
}

#[test]
fn what_cannot_be_rounded_is_an_error() {
    for tensor_type in Quantizer::TYPES {
        let length = 256;
        for (position, value) in [(0, f32::NAN), (17, f32::INFINITY), (255, f32::NEG_INFINITY)] {
            let mut numbers = vec![1.0; length];
            numbers[position] = value;
            let error = quantize(*tensor_type, &numbers).unwrap_err();
            assert!(
                matches!(error, QuantizeError::Number { index, .. } if index == position as u64),
                "{tensor_type}: {error}"
            );
        }
    }
    assert!(quantize(TensorType::Q4_0, &[65_536.0; 32]).is_err());
    assert!(quantize(TensorType::BF16, &[65_536.0; 32]).is_ok());
    assert!(matches!(
        quantize(TensorType::Q4_K, &[0.0; 128]),
        Err(QuantizeError::PartialBlock { columns: 128, .. })
    ));
    assert!(matches!(
        quantize(TensorType::Q8_K, &[0.0; 256]),
        Err(QuantizeError::Target(TensorType::Q8_K))
    ));
    assert!(Quantizer::new(TensorType::IQ3_S).is_err());
}

proptest! {
    #[test]
    fn any_numbers_become_blocks(
        bits in proptest::collection::vec(any::<u32>(), 256),
        scale in -40i32..20,
    ) {
        // Floats of every kind, and those of about one size.
        let wild: Vec<f32> = bits.iter().map(|bits| f32::from_bits(*bits)).collect();
        let tame: Vec<f32> = bits.iter().map(|bits| (*bits as i32) as f32 * 2f32.powi(scale - 32)).collect();
        let importance: Vec<f32> = tame.iter().map(|number| number.abs()).collect();
        for tensor_type in Quantizer::TYPES {
            let _ = quantize(*tensor_type, &wild);
            let _ = encode(*tensor_type, &wild, Some(&importance));
            if scale < 15 {
                prop_assert!(quantize(*tensor_type, &tame).is_ok());
                for importance in [&importance, &vec![0.0; 256]] {
                    prop_assert!(encode(*tensor_type, &tame, Some(importance)).is_ok());
                }
            }
        }
    }
}

/// A model of two matrices and a vector, 512 columns each.
fn sample(tensor_type: TensorType) -> Vec<u8> {
    let mut metadata = Metadata::default();
    metadata.set("general.architecture", "llama").unwrap();
    metadata.set("general.alignment", 64u32).unwrap();
    metadata.set("general.file_type", 0u32).unwrap();
    let shapes: [(&str, &[u64]); 4] = [
        ("token_embd.weight", &[512, 7]),
        ("blk.0.ffn_up.weight", &[96, 5]),
        ("blk.0.ffn_norm.weight", &[512]),
        ("odd.weight", &[5, 3]),
    ];
    let tensors = shapes.map(|(name, dimensions)| NewTensor {
        name: name.to_owned(),
        tensor_type,
        dimensions: dimensions.to_vec(),
    });
    let mut file = GgufWriter::new(Vec::new(), &metadata, &tensors).unwrap();
    for tensor in &tensors {
        let count = tensor.dimensions.iter().product::<u64>();
        for index in 0..count {
            let number = ((index * 37 % 101) as f32 - 50.0) / 64.0; // exact in every type
            file.write(&quantize(tensor_type, &[number]).unwrap())
                .unwrap();
        }
    }
    file.finish().unwrap()
}

fn model(folder: &Path, tensor_type: TensorType) -> ModelFile {
    let path = folder.join(format!("{tensor_type}.gguf"));
    fs::write(&path, sample(tensor_type)).unwrap();
    ModelFile::open(path).unwrap()
}

#[test]
fn each_tensor_gets_its_type_and_every_source_gives_the_same_file() {
    let folder = tempfile::tempdir().unwrap();
    let mut files = Vec::new();
    for (source, threads) in [
        (TensorType::F32, 1),
        (TensorType::F16, 3),
        (TensorType::BF16, 64),
    ] {
        let out = folder.path().join(format!("{source}-out.gguf"));
        let mut last = LoadProgress { done: 0, total: 0 };
        let quantizer = Quantizer::new(TensorType::Q4_K).unwrap().threads(threads);
        let report = quantizer
            .write(&model(folder.path(), source), &out, &mut |progress| {
                assert!(progress.done > last.done);
                last = progress;
            })
            .unwrap();
        assert_eq!(last.done, last.total);
        assert_eq!(report.bytes_before, last.total);
        let types: Vec<_> = report.tensors.iter().map(|(_, to)| *to).collect();
        let expected = [
            TensorType::Q6_K, // the output as well
            TensorType::Q5_0, // rows of 96
            TensorType::F32,
            TensorType::F16, // rows of 5
        ];
        assert_eq!(types, expected);
        let written = GgufFile::open(&out).unwrap();
        let metadata = written.header().metadata();
        assert_eq!(metadata.alignment(), 64);
        assert_eq!(metadata.value("general.file_type"), Some(&Value::U32(14)));
        assert_eq!(
            metadata.require::<&str>("general.architecture"),
            Ok("llama")
        );
        files.push(fs::read(&out).unwrap());
    }
    assert!(files.windows(2).all(|pair| pair[0] == pair[1]));
}

#[test]
fn types_can_be_asked_for_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let model = model(folder.path(), TensorType::F32);
    let out = folder.path().join("out.gguf");
    let quantizer = || Quantizer::new(TensorType::Q8_0).unwrap();
    let report = quantizer()
        .tensor("token_embd.weight", TensorType::BF16)
        .and_then(|quantizer| quantizer.tensor("odd.weight", TensorType::F32))
        .unwrap()
        .write(&model, &out, &mut |_| ())
        .unwrap();
    let to = |name: &str| {
        report
            .tensors
            .iter()
            .find(|(other, _)| other == name)
            .unwrap()
            .1
    };
    assert_eq!(to("token_embd.weight"), TensorType::BF16);
    assert_eq!(to("blk.0.ffn_up.weight"), TensorType::Q8_0);
    assert_eq!(to("odd.weight"), TensorType::F32);
    // Exact types give the numbers back.
    let back = ModelFile::open(&out).unwrap();
    let (old, new) = (model.tensor("odd.weight"), back.tensor("odd.weight"));
    assert_eq!(model.bytes(old.unwrap()), back.bytes(new.unwrap()));

    let absent = quantizer().tensor("absent", TensorType::F32).unwrap();
    let error = absent.write(&model, &out, &mut |_| ()).unwrap_err();
    assert!(matches!(error, LlamaError::MissingTensor(name) if name == "absent"));
    let partial = quantizer().tensor("odd.weight", TensorType::Q8_0).unwrap();
    let error = partial.write(&model, &out, &mut |_| ()).unwrap_err();
    assert!(error.to_string().contains("odd.weight"), "{error}");
    // Twice rounded is worse than once.
    let error = quantizer()
        .write(&back, folder.path().join("twice.gguf"), &mut |_| ())
        .unwrap_err();
    assert!(
        matches!(
            error,
            LlamaError::Quantize(QuantizeError::Source {
                found: TensorType::Q8_0,
                ..
            })
        ),
        "{error}"
    );
}

#[test]
fn a_file_is_there_as_a_whole_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let model = model(folder.path(), TensorType::F32);
    let out = folder.path().join("out.gguf");
    let names = || {
        let entries = fs::read_dir(folder.path()).unwrap();
        entries.count()
    };
    let quantizer = Quantizer::new(TensorType::Q8_0).unwrap();
    fs::write(&out, "something dear").unwrap();
    let error = quantizer.write(&model, &out, &mut |_| ()).unwrap_err();
    assert!(
        matches!(error, LlamaError::Quantize(QuantizeError::Exists(_))),
        "{error}"
    );
    assert_eq!(fs::read_to_string(&out).unwrap(), "something dear");

    // Made by somebody else while this one was at work.
    let late = folder.path().join("late.gguf");
    let error = quantizer
        .write(&model, &late, &mut |_| {
            fs::write(&late, "something dear").unwrap();
        })
        .unwrap_err();
    assert!(
        matches!(error, LlamaError::Quantize(QuantizeError::Exists(_))),
        "{error}"
    );
    assert_eq!(fs::read_to_string(&late).unwrap(), "something dear");

    let before = names();
    let forced = quantizer.clone().overwrite(true);
    forced.write(&model, &out, &mut |_| ()).unwrap();
    assert!(GgufFile::open(&out).is_ok());
    assert_eq!(names(), before, "nothing is left beside it");

    // A tensor that fails in the middle leaves nothing.
    let mut spoilt = sample(TensorType::F32);
    let end = spoilt.len() - 64; // inside of the last tensor
    spoilt[end..end + 4].copy_from_slice(&f32::NAN.to_le_bytes());
    let path = folder.path().join("spoilt.gguf");
    fs::write(&path, spoilt).unwrap();
    let before = names();
    let spoilt = ModelFile::open(path).unwrap();
    let error = quantizer
        .write(&spoilt, folder.path().join("nan.gguf"), &mut |_| ())
        .unwrap_err();
    assert!(
        matches!(error, LlamaError::Quantize(QuantizeError::Number { .. })),
        "{error}"
    );
    assert_eq!(names(), before);
    let nowhere = quantizer.write(&model, "/no/such/folder/x.gguf", &mut |_| ());
    assert!(matches!(
        nowhere,
        Err(LlamaError::Quantize(QuantizeError::Write { .. }))
    ));
    let error = forced
        .write(&model, folder.path(), &mut |_| ())
        .unwrap_err();
    assert!(error.to_string().contains("directory"), "{error}");
}

#[test]
fn a_file_may_replace_its_source() {
    let folder = tempfile::tempdir().unwrap();
    let model = model(folder.path(), TensorType::F16);
    let path = folder.path().join("F16.gguf");
    Quantizer::new(TensorType::Q8_0)
        .unwrap()
        .overwrite(true)
        .write(&model, &path, &mut |_| ())
        .unwrap();
    let written = ModelFile::open(&path).unwrap();
    let embedding = written.tensor("token_embd.weight").unwrap();
    assert_eq!(embedding.tensor_type(), TensorType::Q8_0);
}
