//! One layer's operands, what they should give, and the thread that goes through the layers.

use crate::buffer::Buffer;
use crate::device::Device;
use crate::error::Result;
use crate::memory::Category;
use crate::ops::Matmul;

use super::{QkvReport, QkvStress};

/// A layer's operands on the host and its three products in float64.
pub(super) struct Reference {
    x: Vec<f32>,            // seq × d_model
    weights: [Vec<f32>; 3], // d_model × columns
    products: [Matrix; 3],  // seq × columns
}

struct Matrix {
    values: Vec<f64>,
    root_mean_square: f64,
}

impl Reference {
    pub(super) fn random(stress: &QkvStress, layer: u64) -> Reference {
        let mut random = SplitMix64(
            stress
                .seed
                .wrapping_add(layer.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
        );
        let mut matrix = |rows: usize, columns: usize| {
            (0..rows * columns)
                .map(|_| random.unit())
                .collect::<Vec<f32>>()
        };
        let x = matrix(stress.seq, stress.d_model);
        let weights = [stress.d_model, stress.kv_dim, stress.kv_dim]
            .map(|columns| matrix(stress.d_model, columns));
        let products =
            [0, 1, 2].map(|which| product(&x, &weights[which], stress.seq, stress.d_model));
        Reference {
            x,
            weights,
            products,
        }
    }
}

/// `x w` in float64, row-major; `x` is `rows × inner`.
fn product(x: &[f32], w: &[f32], rows: usize, inner: usize) -> Matrix {
    let columns = w.len() / inner;
    let mut values = vec![0.0; rows * columns];
    for (x_row, out_row) in x.chunks_exact(inner).zip(values.chunks_exact_mut(columns)) {
        for (&factor, w_row) in x_row.iter().zip(w.chunks_exact(columns)) {
            for (out, &weight) in out_row.iter_mut().zip(w_row) {
                *out += f64::from(factor) * f64::from(weight);
            }
        }
    }
    let mean_square = values.iter().map(|value| value * value).sum::<f64>() / values.len() as f64;
    Matrix {
        values,
        root_mean_square: mean_square.sqrt(),
    }
}

/// A layer's operands on a device.
pub(super) struct Layer {
    x: Buffer<f32>,
    weights: [Buffer<f32>; 3],
}

impl Layer {
    pub(super) const BUFFERS: usize = 4;

    pub(super) fn new(device: &Device, reference: &Reference) -> Result<Layer> {
        let weights = device
            .buffer_options()
            .category(Category::Weights)
            .label("stress weights");
        let [q, k, v] = &reference.weights;
        Ok(Layer {
            x: device
                .buffer_options()
                .category(Category::Activations)
                .label("stress x")
                .create_from(&reference.x)?,
            weights: [
                weights.create_from(q)?,
                weights.create_from(k)?,
                weights.create_from(v)?,
            ],
        })
    }
}

/// One thread's outputs and what it found in them.
pub(super) struct Worker<'a> {
    device: &'a Device,
    layers: &'a [Layer],
    references: &'a [Reference],
    seq: usize,
    d_model: usize,
    together: bool,
    outputs: [Buffer<f32>; 3],
    host: Vec<f32>,
    pub(super) values: u64,
    pub(super) wrong: u64,
    pub(super) worst_error: f64,
}

impl<'a> Worker<'a> {
    pub(super) const BUFFERS: usize = 3;

    pub(super) fn new(
        stress: &QkvStress,
        device: &'a Device,
        layers: &'a [Layer],
        references: &'a [Reference],
    ) -> Result<Worker<'a>> {
        let output = |columns: usize| {
            device
                .buffer_options()
                .category(Category::Activations)
                .label("stress output")
                .create(stress.seq * columns)
        };
        Ok(Worker {
            device,
            layers,
            references,
            seq: stress.seq,
            d_model: stress.d_model,
            together: stress.together,
            outputs: [
                output(stress.d_model)?,
                output(stress.kv_dim)?,
                output(stress.kv_dim)?,
            ],
            host: vec![0.0; stress.seq * stress.d_model.max(stress.kv_dim)],
            values: 0,
            wrong: 0,
            worst_error: 0.0,
        })
    }

    /// Q, K and V of every layer, each compared with its reference.
    pub(super) fn round(&mut self) -> Result<()> {
        for (layer, reference) in self.layers.iter().zip(self.references) {
            self.project(layer)?;
            for (output, expected) in self.outputs.iter().zip(&reference.products) {
                let host = &mut self.host[..output.len()];
                output.read_into(host)?;
                for (&value, &exact) in host.iter().zip(&expected.values) {
                    let error = (f64::from(value) - exact).abs() / expected.root_mean_square;
                    if error.is_nan() || error > QkvReport::TOLERANCE {
                        self.wrong += 1;
                    }
                    self.worst_error = self.worst_error.max(error);
                }
                self.values += output.len() as u64;
            }
        }
        Ok(())
    }

    fn project(&self, layer: &Layer) -> Result<()> {
        let mut commands = self.device.commands()?;
        for (index, (weight, output)) in layer.weights.iter().zip(&self.outputs).enumerate() {
            commands.matmul(&Matmul::new(
                layer.x.matrix(self.seq, self.d_model),
                weight.matrix(self.d_model, output.len() / self.seq),
                output.matrix(self.seq, output.len() / self.seq),
            ))?;
            if !self.together && index < 2 {
                std::mem::replace(&mut commands, self.device.commands()?)
                    .commit()?
                    .wait()?;
            }
        }
        commands.run()
    }
}

/// Steele, Lea & Flood 2014, "Fast splittable pseudorandom number generators": the constants are the paper's.
struct SplitMix64(u64);

impl SplitMix64 {
    /// Uniform in [-1, 1).
    fn unit(&mut self) -> f32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^= bits >> 31;
        (bits >> 40) as f32 / (1 << 23) as f32 - 1.0
    }
}
