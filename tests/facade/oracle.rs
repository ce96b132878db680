//! The operations in double precision, straight from their formulas.

use half::f16;

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

pub fn silu(x: f64) -> f64 {
    x / (1.0 + (-x).exp())
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

/// GGML's Q8_0: blocks of 32 weights, each one f16 scale and 32 signed bytes. Returns the bytes and the values they stand for.
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
