//! The operations in double precision, straight from their formulas.

use half::f16;
use ironbridge::ops::RopePairing;

/// `m × k` times `k × n`, both row-major.
pub fn matmul(a: &[f64], b: &[f64], m: usize, k: usize, n: usize) -> Vec<f64> {
    let mut c = vec![0.0; m * n];
    for i in 0..m {
        for j in 0..n {
            c[i * n + j] = (0..k).map(|x| a[i * k + x] * b[x * n + j]).sum();
        }
    }
    c
}

/// The transpose of a `rows × columns` matrix.
pub fn transpose<T: Copy>(matrix: &[T], rows: usize, columns: usize) -> Vec<T> {
    (0..columns)
        .flat_map(|column| (0..rows).map(move |row| matrix[row * columns + column]))
        .collect()
}

pub fn softmax(x: &[f64], scale: f64) -> Vec<f64> {
    let max = x
        .iter()
        .fold(f64::NEG_INFINITY, |max, &v| max.max(scale * v));
    let exps: Vec<f64> = x.iter().map(|v| (scale * v - max).exp()).collect();
    let sum: f64 = exps.iter().sum();
    exps.iter().map(|e| e / sum).collect()
}

pub fn relu(x: f64) -> f64 {
    x.max(0.0)
}

pub fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

pub fn silu(x: f64) -> f64 {
    x * sigmoid(x)
}

pub fn gelu(x: f64) -> f64 {
    let u = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3));
    x / 2.0 * (1.0 + u.tanh())
}

pub fn rms_norm(x: &[f64], weight: &[f64], eps: f64) -> Vec<f64> {
    x.chunks(weight.len())
        .flat_map(|row| {
            let mean = row.iter().map(|v| v * v).sum::<f64>() / row.len() as f64;
            let scale = 1.0 / (mean + eps).sqrt();
            row.iter().zip(weight).map(move |(v, w)| v * scale * w)
        })
        .collect()
}

/// A cache of `positions × kv_heads × head_dim`, and where the elements of a key or value lie in it.
pub struct Cache {
    pub values: Vec<f64>,
    pub position_stride: usize,
    pub head_stride: usize,
}

impl Cache {
    fn at(&self, position: usize, head: usize, head_dim: usize) -> &[f64] {
        &self.values[position * self.position_stride + head * self.head_stride..][..head_dim]
    }
}

/// Who attends to what.
#[derive(Debug, Clone, Copy, Default)]
pub struct Attention {
    pub tokens: usize,
    pub heads: usize,
    pub kv_heads: usize,
    pub head_dim: usize,
    pub first_position: usize,
    /// `None`: all positions.
    pub window: Option<usize>,
}

/// Scores are multiplied by `scale`.
pub fn attention(
    attention: &Attention,
    q: &[f64],
    keys: &Cache,
    values: &Cache,
    scale: f64,
) -> Vec<f64> {
    let (heads, dim) = (attention.heads, attention.head_dim);
    let mut out = vec![0.0; attention.tokens * heads * dim];
    for token in 0..attention.tokens {
        let position = attention.first_position + token;
        let seen = attention.window.unwrap_or(usize::MAX);
        let first = (position + 1).saturating_sub(seen);
        for head in 0..heads {
            let group = head / (heads / attention.kv_heads);
            let query = &q[(token * heads + head) * dim..][..dim];
            let scores: Vec<f64> = (first..=position)
                .map(|j| {
                    let key = keys.at(j, group, dim);
                    query.iter().zip(key).map(|(q, k)| q * k).sum()
                })
                .collect();
            let weights = softmax(&scores, scale);
            for (j, weight) in (first..=position).zip(weights) {
                for (i, value) in values.at(j, group, dim).iter().enumerate() {
                    out[(token * heads + head) * dim + i] += weight * value;
                }
            }
        }
    }
    out
}

/// How heads are rotated.
#[derive(Debug, Clone, Copy)]
pub struct Rope {
    pub heads: usize,
    pub head_dim: usize,
    pub rotary_dim: usize,
    pub pairing: RopePairing,
    pub frequency_base: f32,
    pub frequency_scale: f32,
}

/// `x` is `tokens × heads × head_dim`, packed.
pub fn rope(rope: &Rope, x: &[f64], positions: &[u32], factors: Option<&[f32]>) -> Vec<f64> {
    let mut out = x.to_vec();
    for (index, vector) in out.chunks_mut(rope.head_dim).enumerate() {
        let rotary_dim = rope.rotary_dim;
        let position = f64::from(positions[index / rope.heads]) * f64::from(rope.frequency_scale);
        for i in 0..rotary_dim / 2 {
            let exponent = -2.0 * i as f64 / rotary_dim as f64;
            let factor = factors.map_or(1.0, |factors| factors[i].into());
            let angle = position * f64::from(rope.frequency_base).powf(exponent) / factor;
            let (p, q) = match rope.pairing {
                RopePairing::Interleaved => (2 * i, 2 * i + 1),
                RopePairing::Half => (i, i + rotary_dim / 2),
            };
            let (a, b) = (vector[p], vector[q]);
            vector[p] = a * angle.cos() - b * angle.sin();
            vector[q] = a * angle.sin() + b * angle.cos();
        }
    }
    out
}

/// GGML's Q8_0: blocks of 32 weights, each one f16 scale and 32 signed bytes. Returns the bytes and the values they
/// stand for.
pub fn q8_0(values: &[f32]) -> (Vec<u8>, Vec<f64>) {
    let mut bytes = Vec::new();
    let mut means = Vec::new();
    for block in values.chunks_exact(32) {
        let max = block.iter().fold(0.0f32, |max, v| max.max(v.abs()));
        let scale = f16::from_f32(max / 127.0);
        bytes.extend(scale.to_le_bytes());
        for &value in block {
            let quant = match scale.to_f32() {
                0.0 => 0,
                scale => (value / scale).round() as i8,
            };
            bytes.push(quant as u8);
            means.push(f64::from(quant) * scale.to_f64());
        }
    }
    (bytes, means)
}
