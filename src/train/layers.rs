//! Modules: parameters, and what is done with them.

use crate::train::error::TrainError;
use crate::train::tape::{Tape, Variable};

/// `y = x · weightᵀ + bias`.
#[derive(Debug, Clone)]
pub struct Linear {
    name: String,
    weight: Variable,
    bias: Variable,
}

impl Linear {
    /// Makes the parameters `NAME.weight`, outputs × inputs, and `NAME.bias`, with numbers of the tape's seed between
    /// `±1 / √inputs` (as PyTorch's `nn.Linear` does; He et al. 2015,
    /// [arXiv:1502.01852](https://arxiv.org/abs/1502.01852), with a gain of `1 / √3`).
    ///
    /// # Errors
    /// [`TrainError::Name`] when the tape has such tensors, [`TrainError::Size`] when there is nothing in them.
    pub fn new(
        tape: &mut Tape,
        name: &str,
        inputs: usize,
        outputs: usize,
    ) -> Result<Linear, TrainError> {
        let bound = 1.0 / (inputs as f32).sqrt();
        let weight = tape.random(&format!("{name}.weight"), outputs, inputs, bound)?;
        let bias = tape.random(&format!("{name}.bias"), 1, outputs, bound)?;
        Ok(Linear {
            name: name.to_owned(),
            weight,
            bias,
        })
    }

    /// Records the layer; the result is called `NAME.out`. A layer that is used again needs
    /// [`Tape::linear`], where the result has a name of the caller's.
    ///
    /// # Errors
    /// Those of [`Tape::linear`].
    pub fn forward(&self, tape: &mut Tape, x: Variable) -> Result<Variable, TrainError> {
        let name = format!("{}.out", self.name);
        tape.linear(&name, x, self.weight, Some(self.bias))
    }

    /// Outputs × inputs.
    pub fn weight(&self) -> Variable {
        self.weight
    }

    /// One row of outputs.
    pub fn bias(&self) -> Variable {
        self.bias
    }
}
