//! Modules: parameters, and what is done with them.

use crate::train::error::TrainError;
use crate::train::rotation::Rotation;
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

/// A table with a row for each token.
#[derive(Debug, Clone)]
pub struct Embedding {
    name: String,
    table: Variable,
}

impl Embedding {
    /// Makes the parameter `NAME.weight`, vocabulary × width, with numbers of the tape's seed whose standard deviation
    /// is 0.02, as GPT-2's.
    ///
    /// # Errors
    /// Those of [`Linear::new`].
    pub fn new(
        tape: &mut Tape,
        name: &str,
        vocab: usize,
        width: usize,
    ) -> Result<Embedding, TrainError> {
        // Of uniform numbers up to a bound the deviation is the bound over √3.
        let bound = 0.02 * 3f32.sqrt();
        Ok(Embedding {
            name: name.to_owned(),
            table: tape.random(&format!("{name}.weight"), vocab, width, bound)?,
        })
    }

    /// Records the rows of these ids as `NAME.out`.
    ///
    /// # Errors
    /// Those of [`Tape::embedding`].
    pub fn forward(&self, tape: &mut Tape, ids: Variable) -> Result<Variable, TrainError> {
        tape.embedding(&format!("{}.out", self.name), self.table, ids)
    }

    /// Vocabulary × width.
    pub fn weight(&self) -> Variable {
        self.table
    }
}

/// The root mean square normalization with a weight for each element of a row.
#[derive(Debug, Clone)]
pub struct RmsNorm {
    name: String,
    weight: Variable,
    eps: f32,
}

impl RmsNorm {
    /// Makes the parameter `NAME.weight`, 1 × width, of ones.
    ///
    /// # Errors
    /// Those of [`Linear::new`].
    pub fn new(tape: &mut Tape, name: &str, width: usize, eps: f32) -> Result<RmsNorm, TrainError> {
        let ones = vec![1.0; width];
        Ok(RmsNorm {
            name: name.to_owned(),
            weight: tape.parameter(&format!("{name}.weight"), 1, width, &ones)?,
            eps,
        })
    }

    /// Records the normalization as `NAME.out`.
    ///
    /// # Errors
    /// Those of [`Tape::rms_norm`].
    pub fn forward(&self, tape: &mut Tape, x: Variable) -> Result<Variable, TrainError> {
        tape.rms_norm(&format!("{}.out", self.name), x, self.weight, self.eps)
    }

    /// One row.
    pub fn weight(&self) -> Variable {
        self.weight
    }
}

/// The heads of an [`Attention`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Heads {
    /// Of a query, a multiple of `kv_heads`.
    pub heads: usize,
    /// Of a key and of a value.
    pub kv_heads: usize,
    /// What queries and keys are rotated by; it has the elements of a head.
    pub rotation: Rotation,
}

/// LLaMA's causal self-attention: projections to queries, keys and values, rotary positions, grouped heads, and a
/// projection back. None has a bias.
#[derive(Debug, Clone)]
pub struct Attention {
    name: String,
    heads: Heads,
    projections: [Variable; 4],
}

impl Attention {
    /// Makes the parameters `NAME.q.weight`, `NAME.k.weight`, `NAME.v.weight` and `NAME.o.weight`, with numbers as
    /// those of [`Linear::new`].
    ///
    /// # Errors
    /// Those of [`Linear::new`].
    pub fn new(
        tape: &mut Tape,
        name: &str,
        width: usize,
        heads: Heads,
    ) -> Result<Attention, TrainError> {
        let [wide, narrow] =
            [heads.heads, heads.kv_heads].map(|count| count * heads.rotation.head_dim);
        let mut projection = |letter: &str, outputs: usize, inputs: usize| {
            let bound = 1.0 / (inputs as f32).sqrt();
            tape.random(&format!("{name}.{letter}.weight"), outputs, inputs, bound)
        };
        Ok(Attention {
            name: name.to_owned(),
            heads,
            projections: [
                projection("q", wide, width)?,
                projection("k", narrow, width)?,
                projection("v", narrow, width)?,
                projection("o", width, wide)?,
            ],
        })
    }

    /// Records the layer within each sequence of `sequence` rows; the result is called `NAME.out`. The positions are
    /// those of [`Tape::positions`].
    ///
    /// # Errors
    /// Those of [`Tape::linear`], [`Tape::rope`] and [`Tape::attention`].
    pub fn forward(
        &self,
        tape: &mut Tape,
        x: Variable,
        positions: Variable,
        sequence: usize,
    ) -> Result<Variable, TrainError> {
        let named = |part: &str| format!("{}.{part}", self.name);
        let [q, k, v, o] = self.projections;
        let rotation = self.heads.rotation;
        let q = tape.linear(&named("q"), x, q, None)?;
        let k = tape.linear(&named("k"), x, k, None)?;
        let v = tape.linear(&named("v"), x, v, None)?;
        let q = tape.rope(&named("q.rotated"), q, positions, rotation)?;
        let k = tape.rope(&named("k.rotated"), k, positions, rotation)?;
        let heads = tape.attention(&named("heads"), [q, k, v], rotation.head_dim, sequence)?;
        tape.linear(&named("out"), heads, o, None)
    }

    /// The weights of queries, keys, values and of the way back.
    pub fn weights(&self) -> [Variable; 4] {
        self.projections
    }
}
