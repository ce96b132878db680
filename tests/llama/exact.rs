//! The model that comes with the crate, with its blocks multiplied out: what is computed from F32 does not depend on
//! how many tokens are computed together, while products of blocks round the activations of many tokens more than those
//! of few.

use std::fs::File;

use half::f16;
use ironbridge::Device;
use ironbridge::llama::gguf::{GgufWriter, NewTensor, TensorType};
use ironbridge::llama::{Model, ModelFile};

const BLOCK: usize = 32;

pub fn model() -> Model {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/assets/tiny-rustbook-q8_0.gguf"
    );
    let blocks = ModelFile::open(path).unwrap();
    let tensors = blocks.tensors().iter().map(|tensor| NewTensor {
        name: tensor.name().into(),
        tensor_type: TensorType::F32,
        dimensions: tensor.dimensions().to_vec(),
    });
    let tensors: Vec<NewTensor> = tensors.collect();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("exact.gguf");
    let mut file =
        GgufWriter::new(File::create(&path).unwrap(), blocks.metadata(), &tensors).unwrap();
    for tensor in blocks.tensors() {
        let bytes = blocks.bytes(tensor);
        match tensor.tensor_type() {
            TensorType::F32 => file.write(bytes).unwrap(),
            TensorType::Q8_0 => file.write(&multiplied_out(bytes)).unwrap(),
            other => panic!("{other}"),
        }
    }
    file.finish().unwrap();
    // Mapped, the file is there for as long as the model is.
    Model::open(&Device::open("default").unwrap(), &path).unwrap()
}

/// Q8_0: a scale in F16, and 32 signed bytes.
fn multiplied_out(bytes: &[u8]) -> Vec<u8> {
    let blocks = bytes.chunks_exact(2 + BLOCK);
    let numbers = blocks.flat_map(|block| {
        let scale = f16::from_le_bytes([block[0], block[1]]).to_f32();
        block[2..]
            .iter()
            .map(move |byte| scale * f32::from(*byte as i8))
    });
    numbers.flat_map(f32::to_le_bytes).collect()
}
