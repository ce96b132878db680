//! Normalization before attention, before the feed-forward network and before the output, and of heads.

use super::weights::Weights;
use crate::commands::Commands;
use crate::error::Result;
use crate::llama::arch::config::Config;
use crate::llama::model::weights::weight::Weight;
use crate::ops::RmsNorm;
use crate::tensor::Tensor;

#[derive(Clone, Debug)]
pub(super) struct Norm {
    weight: Weight, // width
    width: usize,
    epsilon: f32,
}

impl Norm {
    pub fn load(weights: &mut Weights, config: &Config, name: &str, width: usize) -> Result<Norm> {
        Ok(Norm {
            weight: weights.vector(name, width)?,
            width,
            epsilon: config.rms_epsilon,
        })
    }

    /// `x`, `out`: rows × width; `out` may be `x`.
    pub fn forward(
        &self,
        commands: &mut Commands,
        rows: usize,
        x: Tensor<'_>,
        out: Tensor<'_>,
    ) -> Result<()> {
        commands.rms_norm(&RmsNorm::new(
            x.matrix(rows, self.width),
            self.weight.place().tensor().vector(self.width),
            out.matrix(rows, self.width),
            self.epsilon,
        ))
    }
}
