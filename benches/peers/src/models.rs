//! Models of TinyLlama's shape whose weights are random blocks of each type: as large and as slow as a real one.

use std::fs::{self, File};
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use half::f16;
use ironbridge::llama::gguf::{Array, GgufWriter, Metadata, NewTensor, TensorType, Value};

use crate::engines::Result;

const WIDTH: u64 = 2048;
const LAYERS: u64 = 22;
const HEADS: u64 = 32;
const KV_HEADS: u64 = 4;
const FFN: u64 = 5632;
const VOCABULARY: u64 = 32_000;
const KV_WIDTH: u64 = WIDTH / HEADS * KV_HEADS;

/// The types that are compared, as their files are called.
pub const TYPES: [&str; 4] = ["Q4_0", "Q4_K_M", "Q8_0", "F16"];

/// What a token makes the processor do.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// Bytes of weights that are read for a token, all but the rest of the embedding.
    pub bytes: f64,
    /// Weights that each token is multiplied with.
    pub weights: f64,
}

fn of_type(file_type: &str) -> TensorType {
    match file_type {
        "Q4_0" => TensorType::Q4_0,
        "Q4_K_M" => TensorType::Q4_K,
        "Q8_0" => TensorType::Q8_0,
        _ => TensorType::F16,
    }
}

/// llama.cpp gives these matrices two bits more. (llama-quant.cpp, `use_more_bits`.)
fn has_more_bits(layer: u64) -> bool {
    layer < LAYERS / 8 || layer >= 7 * LAYERS / 8 || (layer - LAYERS / 8) % 3 == 2
}

fn tensors(file_type: &str) -> Vec<NewTensor> {
    let plain = of_type(file_type);
    let more = |yes| match yes && plain == TensorType::Q4_K {
        true => TensorType::Q6_K,
        false => plain,
    };
    let tensor = |name: String, tensor_type, dimensions: &[u64]| NewTensor {
        name,
        tensor_type,
        dimensions: dimensions.to_vec(),
    };
    let norm = |name: String| tensor(name, TensorType::F32, &[WIDTH]);
    let mut tensors = vec![tensor(
        "token_embd.weight".into(),
        plain,
        &[WIDTH, VOCABULARY],
    )];
    for layer in 0..LAYERS {
        let name = |part: &str| format!("blk.{layer}.{part}.weight");
        let bits = more(has_more_bits(layer));
        tensors.extend([
            norm(name("attn_norm")),
            tensor(name("attn_q"), plain, &[WIDTH, WIDTH]),
            tensor(name("attn_k"), plain, &[WIDTH, KV_WIDTH]),
            tensor(name("attn_v"), bits, &[WIDTH, KV_WIDTH]),
            tensor(name("attn_output"), plain, &[WIDTH, WIDTH]),
            norm(name("ffn_norm")),
            tensor(name("ffn_gate"), plain, &[WIDTH, FFN]),
            tensor(name("ffn_up"), plain, &[WIDTH, FFN]),
            tensor(name("ffn_down"), bits, &[FFN, WIDTH]),
        ]);
    }
    tensors.push(norm("output_norm.weight".into()));
    let output = more(true);
    tensors.push(tensor("output.weight".into(), output, &[WIDTH, VOCABULARY]));
    tensors
}

pub fn cost(file_type: &str) -> Cost {
    let mut cost = Cost {
        bytes: 0.0,
        weights: 0.0,
    };
    for tensor in tensors(file_type) {
        if tensor.name == "token_embd.weight" || tensor.dimensions.len() < 2 {
            continue;
        }
        let weights: u64 = tensor.dimensions.iter().product();
        let kind = tensor.tensor_type;
        cost.weights += weights as f64;
        cost.bytes += (weights / kind.block_length() * kind.block_size()) as f64;
    }
    cost
}

/// The file of that type in `folder`, made if it is not there.
pub fn make(folder: &Path, file_type: &str) -> Result<PathBuf> {
    let path = folder.join(format!("synthetic-1.1b-{}.gguf", file_type.to_lowercase()));
    if path.exists() {
        return Ok(path);
    }
    fs::create_dir_all(folder)?;
    let unfinished = path.with_extension("unfinished");
    let tensors = tensors(file_type);
    let out = BufWriter::new(File::create(&unfinished)?);
    let mut file = GgufWriter::new(out, &metadata(file_type)?, &tensors)?;
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for tensor in &tensors {
        let (mut left, kind) = (
            tensor.dimensions.iter().product::<u64>(),
            tensor.tensor_type,
        );
        while left > 0 {
            let part = left.min(1 << 16);
            file.write(&weights(kind, part / kind.block_length(), &mut random))?;
            left -= part;
        }
    }
    file.finish()?.into_inner()?.sync_all()?;
    fs::rename(&unfinished, &path)?;
    Ok(path)
}

fn metadata(file_type: &str) -> Result<Metadata> {
    let mut metadata = Metadata::default();
    // Of `llama_ftype`.
    let number: u32 = match file_type {
        "Q4_0" => 2,
        "Q4_K_M" => 15,
        "Q8_0" => 7,
        _ => 1,
    };
    metadata.set("general.architecture", "llama")?;
    metadata.set("general.name", "synthetic")?;
    metadata.set("general.file_type", number)?;
    metadata.set("general.quantization_version", 2u32)?;
    for (key, value) in [
        ("context_length", 4096),
        ("embedding_length", WIDTH),
        ("block_count", LAYERS),
        ("feed_forward_length", FFN),
        ("attention.head_count", HEADS),
        ("attention.head_count_kv", KV_HEADS),
        ("rope.dimension_count", WIDTH / HEADS),
        ("vocab_size", VOCABULARY),
    ] {
        metadata.set(format!("llama.{key}"), value as u32)?;
    }
    metadata.set("llama.attention.layer_norm_rms_epsilon", 1e-5f32)?;
    metadata.set("llama.rope.freq_base", 10_000f32)?;

    let (mut tokens, mut types): (Vec<Box<[u8]>>, Vec<i32>) = (Vec::new(), Vec::new());
    let mut add = |token: String, kind: i32| {
        tokens.push(token.into_bytes().into());
        types.push(kind);
    };
    add("<unk>".into(), 2);
    add("<s>".into(), 3);
    add("</s>".into(), 3);
    (0..256).for_each(|byte| add(format!("<0x{byte:02X}>"), 6));
    (259..VOCABULARY).for_each(|token| add(format!("t{token}"), 1));
    let scores = (0..VOCABULARY).map(|token| -(token as f32)).collect();
    metadata.set("tokenizer.ggml.model", "llama")?;
    metadata.set("tokenizer.ggml.tokens", Value::Array(Array::String(tokens)))?;
    metadata.set("tokenizer.ggml.scores", Value::Array(Array::F32(scores)))?;
    metadata.set("tokenizer.ggml.token_type", Value::Array(Array::I32(types)))?;
    metadata.set("tokenizer.ggml.bos_token_id", 1u32)?;
    metadata.set("tokenizer.ggml.eos_token_id", 2u32)?;
    Ok(metadata)
}

/// `blocks` blocks of random weights with a deviation of about 0.02; norms are about 1.
fn weights(kind: TensorType, blocks: u64, random: &mut Random) -> Vec<u8> {
    let size = kind.block_size() as usize;
    let mut bytes = vec![0; size * blocks as usize];
    for eight in bytes.chunks_mut(8) {
        eight.copy_from_slice(&random.next().to_le_bytes()[..eight.len()]);
    }
    for block in bytes.chunks_mut(size) {
        // The integers have means that differ from 0; signs that change make the weights' mean 0.
        let sign = if random.next() >> 63 == 0 { 1.0 } else { -1.0 };
        let mut put = |at: usize, value: f32| {
            block[at..at + 2].copy_from_slice(&f16::from_f32(value).to_le_bytes());
        };
        match kind {
            TensorType::Q4_0 => put(0, sign * 0.0043),
            TensorType::Q8_0 => put(0, sign * 0.00027),
            TensorType::Q4_K => {
                put(0, sign * 1.2e-4);
                put(2, sign * 9e-4);
            }
            TensorType::Q6_K => {
                put(208, sign * 6e-5);
                block[192..208].iter_mut().for_each(|scale| *scale &= 31);
            }
            TensorType::F16 => put(0, 0.035 * random.uniform()),
            _ => block.copy_from_slice(&(1.0 + 0.02 * random.uniform()).to_le_bytes()),
        }
    }
    bytes
}

/// xorshift64*.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// From -1 to 1.
    fn uniform(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1 << 23) as f32 - 1.0
    }
}
