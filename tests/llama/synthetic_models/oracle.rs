//! A LLaMA's forward pass in float64, written from the papers and not from the crate.

use crate::synthetic_models::parts::{Parts, Shape, VOCABULARY};

const EPSILON: f64 = 1e-5;

/// A model's weights in float64.
pub struct Oracle<'a> {
    shape: &'a Shape,
    parts: &'a Parts,
}

type Vector = Vec<f64>;

impl<'a> Oracle<'a> {
    pub fn new(shape: &'a Shape, parts: &'a Parts) -> Oracle<'a> {
        Oracle { shape, parts }
    }

    /// The logits after the last token.
    pub fn logits(&self, tokens: &[u32]) -> Vector {
        let table = self.weight("token_embd.weight").unwrap();
        let width = self.shape.width;
        let row = |token: &u32| table[*token as usize * width..][..width].to_vec();
        let mut x: Vec<Vector> = tokens.iter().map(row).collect();
        for layer in 0..self.shape.layers {
            let normed = self.norm(&x, &format!("blk.{layer}.attn_norm.weight"));
            accumulate(&mut x, self.attention(&normed, layer));
            let normed = self.norm(&x, &format!("blk.{layer}.ffn_norm.weight"));
            accumulate(&mut x, self.mlp(&normed, layer));
        }
        let normed = self.norm(&x[x.len() - 1..], "output_norm.weight");
        let output = self.weight("output.weight").unwrap_or(table);
        product(&output, &normed[0], VOCABULARY)
    }

    fn weight(&self, name: &str) -> Option<Vector> {
        let tensor = self
            .parts
            .tensors
            .iter()
            .find(|tensor| tensor.name == name)?;
        Some(tensor.stored())
    }

    fn project(&self, x: &[Vector], layer: usize, name: &str, outputs: usize) -> Vec<Vector> {
        let weight = self.weight(&format!("blk.{layer}.{name}.weight")).unwrap();
        x.iter().map(|row| product(&weight, row, outputs)).collect()
    }

    fn norm(&self, x: &[Vector], name: &str) -> Vec<Vector> {
        let weight = self.weight(name).unwrap();
        let one = |row: &Vector| {
            let mean = row.iter().map(|value| value * value).sum::<f64>() / row.len() as f64;
            row.iter()
                .zip(&weight)
                .map(|(value, weight)| value / (mean + EPSILON).sqrt() * weight)
                .collect()
        };
        x.iter().map(one).collect()
    }

    fn rotate(&self, row: &mut [f64], position: usize) {
        let Shape {
            rotary_dim,
            head_dim,
            ..
        } = *self.shape;
        let factors = self
            .weight("rope_freqs.weight")
            .unwrap_or(vec![1.0; rotary_dim / 2]);
        for head in row.chunks_mut(head_dim) {
            for (pair, factor) in factors.iter().enumerate() {
                let frequency =
                    f64::from(self.shape.rope_base).powf(-2.0 * pair as f64 / rotary_dim as f64);
                let angle =
                    position as f64 / f64::from(self.shape.rope_factor) * frequency / factor;
                let (a, b) = (head[2 * pair], head[2 * pair + 1]);
                head[2 * pair] = a * angle.cos() - b * angle.sin();
                head[2 * pair + 1] = a * angle.sin() + b * angle.cos();
            }
        }
    }

    fn attention(&self, x: &[Vector], layer: usize) -> Vec<Vector> {
        let Shape {
            heads,
            kv_heads,
            head_dim,
            window,
            ..
        } = *self.shape;
        let mut q = self.project(x, layer, "attn_q", heads * head_dim);
        let mut k = self.project(x, layer, "attn_k", kv_heads * head_dim);
        let v = self.project(x, layer, "attn_v", kv_heads * head_dim);
        for (position, row) in q.iter_mut().enumerate() {
            self.rotate(row, position);
        }
        for (position, row) in k.iter_mut().enumerate() {
            self.rotate(row, position);
        }
        let mut attended = vec![vec![0.0; heads * head_dim]; x.len()];
        for (t, out) in attended.iter_mut().enumerate() {
            let first = if window == 0 {
                0
            } else {
                (t + 1).saturating_sub(window)
            };
            for head in 0..heads {
                let q = &q[t][head * head_dim..][..head_dim];
                let group = head / (heads / kv_heads) * head_dim;
                let scores = (first..=t)
                    .map(|j| dot(q, &k[j][group..][..head_dim]) / (head_dim as f64).sqrt());
                let weights: Vector = scores.map(f64::exp).collect();
                let total: f64 = weights.iter().sum();
                for (weight, j) in weights.iter().zip(first..) {
                    for d in 0..head_dim {
                        out[head * head_dim + d] += weight / total * v[j][group + d];
                    }
                }
            }
        }
        self.project(&attended, layer, "attn_output", self.shape.width)
    }

    fn mlp(&self, x: &[Vector], layer: usize) -> Vec<Vector> {
        let mut gate = self.project(x, layer, "ffn_gate", self.shape.feed_forward);
        let up = self.project(x, layer, "ffn_up", self.shape.feed_forward);
        for (gate, up) in gate.iter_mut().flatten().zip(up.iter().flatten()) {
            *gate = *gate / (1.0 + (-*gate).exp()) * up;
        }
        self.project(&gate, layer, "ffn_down", self.shape.width)
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// `matrix` (outputs × inputs) times a vector.
fn product(matrix: &[f64], vector: &[f64], outputs: usize) -> Vector {
    let rows = matrix.chunks(vector.len()).take(outputs);
    rows.map(|row| dot(row, vector)).collect()
}

fn accumulate(x: &mut [Vector], delta: Vec<Vector>) {
    for (value, delta) in x.iter_mut().flatten().zip(delta.into_iter().flatten()) {
        *value += delta;
    }
}
