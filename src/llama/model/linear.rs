//! A matrix of weights, and a bias and changes of low rank where there are some.

use super::weights::Weights;
use crate::commands::Commands;
use crate::error::Result;
use crate::llama::model::weights::weight::{Placed, Weight};
use crate::ops::Matmul;
use crate::tensor::Tensor;

#[derive(Clone, Debug)]
pub(super) struct Linear {
    weight: Weight,       // outputs × inputs
    bias: Option<Weight>, // outputs
    changes: Vec<Change>,
    inputs: usize,
    outputs: usize,
}

/// What an adapter adds to a product: `up · down · x`.
#[derive(Clone, Debug)]
pub(super) struct Change {
    pub down: Weight, // rank × inputs
    pub up: Weight,   // outputs × rank
    pub rank: usize,
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
            changes: Vec::new(),
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
            changes: Vec::new(),
            inputs,
            outputs,
        })
    }

    /// A matrix that was loaded already, without bias.
    pub fn of(weight: Weight, inputs: usize, outputs: usize) -> Linear {
        Linear {
            weight,
            bias: None,
            changes: Vec::new(),
            inputs,
            outputs,
        }
    }

    /// Inputs and outputs.
    pub fn sizes(&self) -> [usize; 2] {
        [self.inputs, self.outputs]
    }

    pub fn add_change(&mut self, change: Change) {
        self.changes.push(change);
    }

    /// `x` (rows × inputs) to `out` (rows × outputs). `low` is memory for what changes hand on.
    pub fn forward(
        &self,
        commands: &mut Commands,
        rows: usize,
        x: Tensor<'_>,
        out: Tensor<'_>,
        low: Tensor<'_>,
    ) -> Result<()> {
        self.multiply(commands, &self.weight.place(), (rows, self.outputs), x, out)?;
        self.change(commands, rows, x, out, low)
    }

    /// Adds to `out` what adapters change.
    fn change(
        &self,
        commands: &mut Commands,
        rows: usize,
        x: Tensor<'_>,
        out: Tensor<'_>,
        low: Tensor<'_>,
    ) -> Result<()> {
        for change in &self.changes {
            let (down, up) = (change.down.place(), change.up.place());
            commands.matmul(&Matmul::new(
                x.matrix(rows, self.inputs),
                down.tensor().matrix(change.rank, self.inputs).transposed(),
                low.matrix(rows, change.rank),
            ))?;
            commands.matmul(
                &Matmul::new(
                    low.matrix(rows, change.rank),
                    up.tensor().matrix(self.outputs, change.rank).transposed(),
                    out.matrix(rows, self.outputs),
                )
                .with_beta(1.0),
            )?;
        }
        Ok(())
    }

    /// `x` to the outputs of each of `linears`, of the same inputs, one after another in `out`: rows × all of its
    /// outputs, then those of the next. The outputs of a single row are neighbours, so that matrices that are
    /// neighbours, too, are one for it: half the operations, and one rounding of `x` where a device rounds it.
    pub fn forward_all(
        linears: &[&Linear],
        commands: &mut Commands,
        rows: usize,
        x: Tensor<'_>,
        out: Tensor<'_>,
        low: Tensor<'_>,
    ) -> Result<()> {
        Linear::multiply_all(linears, commands, rows, x, out)?;
        let mut own = out;
        for linear in linears {
            linear.change(commands, rows, x, own, low)?;
            own = own.skip(rows * linear.outputs);
        }
        Ok(())
    }

    /// Whether they are one matrix: its outputs are the first one's, then the second one's, and so on.
    pub fn are_one(linears: &[&Linear]) -> bool {
        let Some((first, others)) = linears.split_first() else {
            return false;
        };
        let is_plain = |linear: &&Linear| linear.bias.is_none() && linear.changes.is_empty();
        let (start, mut outputs) = (first.weight.place(), first.outputs);
        linears.iter().all(is_plain)
            && others.iter().all(|next| {
                let follows = next.weight.place().follows(&start, outputs, first.inputs);
                outputs += next.outputs;
                follows
            })
    }

    /// `x` to `out`, rows × all outputs of `linears`, which [are one](Linear::are_one).
    pub fn forward_one(
        linears: &[&Linear],
        commands: &mut Commands,
        rows: usize,
        x: Tensor<'_>,
        out: Tensor<'_>,
    ) -> Result<()> {
        let (first, weight) = (linears[0], linears[0].weight.place());
        let outputs = linears.iter().map(|linear| linear.outputs).sum();
        first.multiply(commands, &weight, (rows, outputs), x, out)
    }

    /// Without changes.
    fn multiply_all(
        linears: &[&Linear],
        commands: &mut Commands,
        rows: usize,
        x: Tensor<'_>,
        mut out: Tensor<'_>,
    ) -> Result<()> {
        let mut linears = linears.iter().peekable();
        while let Some(first) = linears.next() {
            let weight = first.weight.place();
            let mut outputs = first.outputs;
            while let Some(next) = linears.next_if(|next| {
                let without_bias = first.bias.is_none() && next.bias.is_none();
                let place = next.weight.place();
                rows == 1 && without_bias && place.follows(&weight, outputs, first.inputs)
            }) {
                outputs += next.outputs;
            }
            first.multiply(commands, &weight, (rows, outputs), x, out)?;
            out = out.skip(rows * outputs);
        }
        Ok(())
    }

    fn multiply(
        &self,
        commands: &mut Commands,
        weight: &Placed,
        (rows, outputs): (usize, usize),
        x: Tensor<'_>,
        out: Tensor<'_>,
    ) -> Result<()> {
        let bias = self.bias.as_ref().map(Weight::place);
        commands.matmul(
            &Matmul::new(
                x.matrix(rows, self.inputs),
                weight.tensor().matrix(outputs, self.inputs).transposed(),
                out.matrix(rows, outputs),
            )
            .with_bias(bias.as_ref().map(|bias| bias.tensor().vector(outputs))),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Device;
    use crate::llama::model::Model;

    #[test]
    fn matrices_that_follow_each_other_are_one() {
        let device = Device::open("cpu").expect("it is there");
        let file = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/assets/tiny-rustbook-q8_0.gguf"
        );
        let model = Model::open(&device, file).expect("a model");
        let mut block = model.0.blocks[0].clone();
        let [q, k, v] = ["attn_q", "attn_k", "attn_v"]
            .map(|part| block.linear(part).expect("every layer has it").clone());
        assert!(Linear::are_one(&[&q, &k, &v]));
        assert!(!Linear::are_one(&[&q, &v]) && !Linear::are_one(&[&k, &q, &v]));
        let mut changed = k.clone();
        changed.add_change(Change {
            down: q.weight.clone(),
            up: q.weight.clone(),
            rank: 1,
        });
        assert!(!Linear::are_one(&[&q, &changed, &v]));
    }
}
