//! Small LLaMAs with random weights.

use crate::synthetic_models::gguf::{Storage, Tensor, Value};

/// The shape of a model to make.
#[derive(Clone, Debug)]
pub struct Shape {
    pub width: usize,
    pub layers: usize,
    pub heads: usize,
    pub kv_heads: usize,
    pub head_dim: usize,
    pub rotary_dim: usize,
    pub feed_forward: usize,
    pub context: usize,
    pub window: usize,
    pub rope_base: f32,
    /// Linear stretching of positions; 1: none.
    pub rope_factor: f32,
    pub rope_factors: bool,
    pub tied: bool,
    pub storage: Storage,
}

impl Default for Shape {
    fn default() -> Shape {
        Shape {
            width: 64,
            layers: 2,
            heads: 4,
            kv_heads: 2,
            head_dim: 16,
            rotary_dim: 16,
            feed_forward: 96,
            context: 64,
            window: 0,
            rope_base: 10_000.0,
            rope_factor: 1.0,
            rope_factors: false,
            tied: false,
            storage: Storage::F32,
        }
    }
}

pub const VOCABULARY: usize = 288;

/// A model's file, still in parts so that tests can spoil it.
pub struct Parts {
    pub metadata: Vec<(String, Value)>,
    pub tensors: Vec<Tensor>,
}

impl Parts {
    pub fn new(shape: &Shape) -> Parts {
        Parts {
            metadata: metadata(shape),
            tensors: tensors(shape),
        }
    }

    /// Sets a metadata key, or takes it away.
    pub fn set(&mut self, key: &str, value: Option<Value>) {
        self.metadata.retain(|(known, _)| known != key);
        self.metadata
            .extend(value.map(|value| (key.to_owned(), value)));
    }

    pub fn tensor(&mut self, name: &str) -> &mut Tensor {
        self.tensors
            .iter_mut()
            .find(|tensor| tensor.name == name)
            .unwrap()
    }

    pub fn bytes(&self) -> Vec<u8> {
        crate::synthetic_models::gguf::write(&self.metadata, &self.tensors)
    }

    /// Writes the file to a place that goes with the returned handle.
    pub fn file(&self) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), self.bytes()).unwrap();
        file
    }
}

fn metadata(shape: &Shape) -> Vec<(String, Value)> {
    let mut pieces: Vec<String> = ["<unk>", "<s>", "</s>"].map(String::from).to_vec();
    pieces.extend((0..256).map(|byte| format!("<0x{byte:02X}>")));
    pieces.extend(
        (0..VOCABULARY - pieces.len()).map(|index| char::from(b'a' + index as u8).to_string()),
    );
    let mut kinds = vec![2, 3, 3];
    kinds.resize(259, 6);
    kinds.resize(VOCABULARY, 1);
    let mut entries = vec![
        ("general.architecture", Value::Text("llama".into())),
        ("llama.embedding_length", Value::U32(shape.width as u32)),
        ("llama.block_count", Value::U32(shape.layers as u32)),
        ("llama.attention.head_count", Value::U32(shape.heads as u32)),
        (
            "llama.attention.head_count_kv",
            Value::U32(shape.kv_heads as u32),
        ),
        (
            "llama.attention.key_length",
            Value::U32(shape.head_dim as u32),
        ),
        (
            "llama.attention.value_length",
            Value::U32(shape.head_dim as u32),
        ),
        ("llama.attention.layer_norm_rms_epsilon", Value::F32(1e-5)),
        (
            "llama.attention.sliding_window",
            Value::U32(shape.window as u32),
        ),
        (
            "llama.feed_forward_length",
            Value::U32(shape.feed_forward as u32),
        ),
        ("llama.context_length", Value::U32(shape.context as u32)),
        (
            "llama.rope.dimension_count",
            Value::U32(shape.rotary_dim as u32),
        ),
        ("llama.rope.freq_base", Value::F32(shape.rope_base)),
        ("llama.vocab_size", Value::U32(VOCABULARY as u32)),
        ("tokenizer.ggml.model", Value::Text("llama".into())),
        (
            "tokenizer.ggml.scores",
            Value::Floats(vec![0.0; VOCABULARY]),
        ),
        ("tokenizer.ggml.token_type", Value::Integers(kinds)),
        ("tokenizer.ggml.tokens", Value::Texts(pieces)),
        ("tokenizer.ggml.add_bos_token", Value::Bool(true)),
    ];
    if shape.rope_factor != 1.0 {
        entries.push(("llama.rope.scaling.type", Value::Text("linear".into())));
        entries.push(("llama.rope.scaling.factor", Value::F32(shape.rope_factor)));
    }
    entries
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value))
        .collect()
}

fn tensors(shape: &Shape) -> Vec<Tensor> {
    let (width, inner) = (shape.width, shape.feed_forward);
    let (query, kv) = (
        shape.heads * shape.head_dim,
        shape.kv_heads * shape.head_dim,
    );
    let mut random = Random(1);
    let mut tensors = Vec::new();
    let mut matrix = |name: String, inputs: usize, outputs: usize| {
        // Outputs about as large as inputs.
        let scale = 1.7 / (inputs as f32).sqrt();
        Tensor {
            name,
            dimensions: vec![inputs as u64, outputs as u64],
            storage: shape.storage,
            numbers: (0..inputs * outputs)
                .map(|_| scale * random.next())
                .collect(),
        }
    };
    tensors.push(matrix("token_embd.weight".into(), width, VOCABULARY));
    for layer in 0..shape.layers {
        for (name, inputs, outputs) in [
            ("attn_q", width, query),
            ("attn_k", width, kv),
            ("attn_v", width, kv),
            ("attn_output", query, width),
            ("ffn_gate", width, inner),
            ("ffn_up", width, inner),
            ("ffn_down", inner, width),
        ] {
            tensors.push(matrix(
                format!("blk.{layer}.{name}.weight"),
                inputs,
                outputs,
            ));
        }
    }
    if !shape.tied {
        tensors.push(matrix("output.weight".into(), width, VOCABULARY));
    }
    let mut vector = |name: String, length: usize| Tensor {
        name,
        dimensions: vec![length as u64],
        storage: Storage::F32,
        numbers: (0..length).map(|_| 1.0 + 0.2 * random.next()).collect(),
    };
    for layer in 0..shape.layers {
        tensors.push(vector(format!("blk.{layer}.attn_norm.weight"), width));
        tensors.push(vector(format!("blk.{layer}.ffn_norm.weight"), width));
    }
    tensors.push(vector("output_norm.weight".into(), width));
    if shape.rope_factors {
        tensors.push(vector("rope_freqs.weight".into(), shape.rotary_dim / 2));
    }
    tensors
}

/// Xorshift (Marsaglia 2003), from -1 to 1.
struct Random(u64);

impl Random {
    fn next(&mut self) -> f32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    }
}
