//! A matrix of weights, and a bias where there is one.

use crate::llama::weights::{Placed, Weight, Weights};
use crate::ops::Matmul;
use crate::{Commands, Result, Tensor};

#[derive(Clone, Debug)]
pub(super) struct Linear {
    weight: Weight,       // outputs × inputs
    bias: Option<Weight>, // outputs
    inputs: usize,
    outputs: usize,
}

impl Linear {
    /// The tensors `name.weight` and, if the file has one, `name.bias`.
    pub fn load(
        weights: &mut Weights,
        name: &str,
        inputs: usize,
        outputs: usize,
    ) -> Result<Linear> {
        Ok(Linear {
            weight: weights.matrix(&format!("{name}.weight"), inputs, outputs)?,
            bias: weights.optional_vector(&format!("{name}.bias"), outputs)?,
            inputs,
            outputs,
        })
    }

    /// The same, with a bias that must be there.
    pub fn load_with_bias(
        weights: &mut Weights,
        name: &str,
        inputs: usize,
        outputs: usize,
    ) -> Result<Linear> {
        Ok(Linear {
            weight: weights.matrix(&format!("{name}.weight"), inputs, outputs)?,
            bias: Some(weights.vector(&format!("{name}.bias"), outputs)?),
            inputs,
            outputs,
        })
    }

    /// A matrix that was loaded already, without bias.
    pub fn of(weight: Weight, inputs: usize, outputs: usize) -> Linear {
        Linear {
            weight,
            bias: None,
            inputs,
            outputs,
        }
    }

    /// `x` (rows × inputs) to `out` (rows × outputs).
    pub fn forward(
        &self,
        commands: &mut Commands,
        rows: usize,
        x: Tensor<'_>,
        out: Tensor<'_>,
    ) -> Result<()> {
        let bias = self.bias.as_ref().map(Weight::place);
        let weight = self.weight.place();
        commands.matmul(&Matmul {
            m: rows,
            n: self.outputs,
            k: self.inputs,
            a: x,
            b: weight.tensor(),
            transpose_b: true,
            interleaved_b: weight.is_interleaved(),
            bias: bias.as_ref().map(Placed::tensor),
            c: out,
            ..Default::default()
        })
    }
}
