//! Weights that are copied when a model is loaded are in memory once, and not beside the file's pages. The peak
//! is the process's.

use std::fs::{self, File};
use std::path::Path;

use ironbridge::Device;
use ironbridge::llama::gguf::{GgufWriter, NewTensor};
use ironbridge::llama::{LoadOptions, Model, ModelFile, ModelTensor, WeightStorage};

crate::harness::cases! {
    a_copied_model_is_in_memory_once,
}

const MODEL: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/assets/tiny-rustbook-q8_0.gguf"
);

/// The model that comes with the crate, with each of its layers twenty times.
pub fn write_deep_model(path: &Path) {
    const TIMES: usize = 20;
    let model = ModelFile::open(MODEL).unwrap();
    let layers = 6;
    let mut metadata = model.metadata().clone();
    metadata
        .set("llama.block_count", (layers * TIMES) as u32)
        .unwrap();
    let mut tensors: Vec<(String, &ModelTensor)> = Vec::new();
    for tensor in model.tensors() {
        match tensor.name().strip_prefix("blk.") {
            None => tensors.push((tensor.name().into(), tensor)),
            Some(rest) => {
                let (layer, name) = rest.split_once('.').unwrap();
                let layer: usize = layer.parse().unwrap();
                let copies = (0..TIMES).map(|time| layer + time * layers);
                tensors.extend(copies.map(|layer| (format!("blk.{layer}.{name}"), tensor)));
            }
        }
    }
    let described: Vec<NewTensor> = tensors
        .iter()
        .map(|(name, tensor)| NewTensor {
            name: name.clone(),
            tensor_type: tensor.tensor_type(),
            dimensions: tensor.dimensions().to_vec(),
        })
        .collect();
    let file = File::create(path).unwrap();
    let mut file = GgufWriter::new(file, &metadata, &described).unwrap();
    for (_, tensor) in &tensors {
        file.write(model.bytes(tensor)).unwrap();
    }
    file.finish().unwrap();
}

/// The most memory that was resident so far, bytes.
fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let kilobytes = line.unwrap().split_whitespace().nth(1).unwrap();
    kilobytes.parse::<u64>().unwrap() << 10
}

fn a_copied_model_is_in_memory_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("deep.gguf");
    write_deep_model(&path);
    let length = fs::metadata(&path).unwrap().len();
    assert!(length > 90 << 20, "{length}");

    let device = Device::open("cpu").unwrap();
    let before = peak();
    let file = ModelFile::open(&path).unwrap();
    let options = LoadOptions {
        weights: WeightStorage::Copied,
    };
    let model = Model::load(&device, &file, options, &mut |_| ()).unwrap();
    let taken = peak() - before;
    assert!(device.memory().unwrap().active_bytes > length * 9 / 10);
    drop(model);
    assert!(
        taken < length * 11 / 10,
        "{taken} bytes more were resident for a model of {length}"
    );
}
