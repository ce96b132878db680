//! Frozen weights, and what is learned beside them.

use crate::dtype::DType;
use crate::train::error::TrainError;
use crate::train::tape::{Operation, Source, Tape, Variable};

impl Tape {
    /// Weights of a [`linear`](Tape::linear) layer that do not learn, outputs × inputs, of any type that a product's
    /// `b` has. The caller writes them once ([`Trainer::write_frozen`](super::Trainer::write_frozen)).
    ///
    /// A gradient goes through all types but F32 as through the F32 that they stand for, which needs memory for one
    /// such matrix at a time.
    ///
    /// # Errors
    /// [`TrainError::Frozen`] when it is U32 or a row is not whole blocks, [`TrainError::Name`], [`TrainError::Size`].
    pub fn frozen(
        &mut self,
        name: &str,
        outputs: usize,
        inputs: usize,
        dtype: DType,
    ) -> Result<Variable, TrainError> {
        if dtype == DType::U32 || !inputs.is_multiple_of(dtype.block_elements()) {
            return Err(TrainError::Frozen {
                tensor: name.to_owned(),
                dtype: dtype.name(),
                inputs,
            });
        }
        let rows = match dtype {
            DType::F32 => None,
            _ => Some(
                self.positions(&format!("{name}.rows"), outputs, outputs)?
                    .index,
            ),
        };
        self.tensor(name, [outputs, inputs], dtype, Source::Frozen(rows))
    }

    /// Records `scale · x · weightᵀ`: a linear layer without a bias.
    fn scaled_linear(
        &mut self,
        name: &str,
        x: Variable,
        weight: Variable,
        scale: f32,
    ) -> Result<Variable, TrainError> {
        let out = self.linear(name, x, weight, None)?;
        if let Some(Operation::Linear { scale: of, .. }) = self.operations.last_mut() {
            *of = scale;
        }
        Ok(out)
    }
}

/// A low-rank change of frozen weights: `y = x · weightᵀ + alpha / rank · (x · downᵀ) · upᵀ`.
///
/// Hu et al. 2021, [arXiv:2106.09685](https://arxiv.org/abs/2106.09685), section 4.1.
#[derive(Debug, Clone)]
pub struct Lora {
    name: String,
    weight: Variable,
    down: Variable,
    up: Variable,
    bias: Option<Variable>,
    scale: f32,
}

impl Lora {
    /// Makes the parameters `NAME.lora_a`, rank × inputs, with numbers as those of a [`Linear`](super::Linear), and
    /// `NAME.lora_b`, outputs × rank, of zeros: the first output is that of the frozen weight.
    ///
    /// # Errors
    /// [`TrainError::Option`] when alpha is not finite or 0, and those of [`Linear::new`](super::Linear::new).
    pub fn new(
        tape: &mut Tape,
        name: &str,
        weight: Variable,
        rank: usize,
        alpha: f32,
    ) -> Result<Lora, TrainError> {
        let [outputs, inputs] = tape.spec(weight)?.shape;
        let scale = alpha / rank as f32;
        if rank > 0 && (!scale.is_finite() || scale == 0.0) {
            return Err(TrainError::Option {
                option: "alpha",
                value: alpha,
                expected: "finite and not 0",
            });
        }
        let bound = 1.0 / (inputs as f32).sqrt();
        let down = tape.random(&format!("{name}.lora_a"), rank, inputs, bound)?;
        let zeros = vec![0.0; outputs.saturating_mul(rank)];
        let up = tape.parameter(&format!("{name}.lora_b"), outputs, rank, &zeros)?;
        Ok(Lora {
            name: name.to_owned(),
            weight,
            down,
            up,
            bias: None,
            scale,
        })
    }

    /// Adds a bias, 1 × outputs, which may be an input of the caller's.
    #[must_use]
    pub fn with_bias(self, bias: Variable) -> Lora {
        Lora {
            bias: Some(bias),
            ..self
        }
    }

    /// Records the layer; the result is called `NAME.out`.
    ///
    /// # Errors
    /// Those of [`Tape::linear`].
    pub fn forward(&self, tape: &mut Tape, x: Variable) -> Result<Variable, TrainError> {
        let named = |part: &str| format!("{}.{part}", self.name);
        let frozen = tape.linear(&named("frozen"), x, self.weight, self.bias)?;
        let low = tape.linear(&named("low"), x, self.down, None)?;
        let change = tape.scaled_linear(&named("change"), low, self.up, self.scale)?;
        tape.add(&named("out"), frozen, change)
    }

    /// Rank × inputs.
    pub fn down(&self) -> Variable {
        self.down
    }

    /// Outputs × rank.
    pub fn up(&self) -> Variable {
        self.up
    }
}
