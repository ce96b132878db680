//! What a network computes: its tensors and its operations, recorded once.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::dtype::DType;
use crate::train::error::TrainError;
use crate::train::precision::Precision;
use crate::train::random::Random;
use crate::train::rotation::Rotation;

/// A tensor of a [`Tape`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Variable {
    pub(super) tape: u64,
    pub(super) index: usize,
}

/// A tensor's name, shape, strides and type: a row-major matrix.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TensorSpec {
    /// Its name on the tape.
    pub name: String,
    /// Rows, and elements of a row.
    pub shape: [usize; 2],
    /// Elements from row to row, and from element to element.
    pub strides: [usize; 2],
    /// F32, U32 of labels and ids, or what frozen weights are stored as.
    pub dtype: DType,
}

impl TensorSpec {
    /// Elements in all.
    pub fn elements(&self) -> usize {
        self.shape[0] * self.shape[1]
    }

    /// Bytes in all. The rows of a tensor are whole blocks.
    pub(super) fn bytes(&self) -> usize {
        self.elements() / self.dtype.block_elements() * self.dtype.block_bytes()
    }

    pub(super) fn describe(&self) -> String {
        format!(
            "{} × {} {}",
            self.shape[0],
            self.shape[1],
            self.dtype.name()
        )
    }
}

/// Where a tensor's values come from.
#[derive(Debug, Clone)]
pub(super) enum Source {
    /// The caller, before a step.
    Input,
    /// The caller, for a number of classes.
    Labels,
    /// The caller, for the rows of a table.
    Ids,
    /// The place of a row in its sequence of that many rows.
    Positions(usize),
    /// Weights, which begin as these.
    Parameter(Vec<f32>),
    /// The caller, once: weights that do not learn, of any type that a product takes, with the numbers of their rows
    /// where those are needed to take them apart.
    Frozen(Option<usize>),
    /// Ones.
    Ones,
    /// An operation.
    Computed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Function {
    Relu,
    Sigmoid,
    Tanh,
}

/// What a product is gated by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Gate {
    Silu,
    Gelu,
}

/// Operands are indices of tensors.
#[derive(Debug, Clone, Copy)]
pub(super) enum Operation {
    Embedding {
        table: usize,
        ids: usize,
        scale: f32,
        out: usize,
    },
    RmsNorm {
        x: usize,
        weight: usize,
        eps: f32,
        out: usize,
    },
    Gated {
        gate: Gate,
        a: usize,
        b: usize,
        out: usize,
    },
    Softmax {
        x: usize,
        out: usize,
    },
    Rope {
        x: usize,
        positions: usize,
        rotation: Rotation,
        /// Divisors of the frequencies; their number is that of the pairs that are rotated.
        factors: Option<usize>,
        out: usize,
    },
    Attention {
        q: usize,
        k: usize,
        v: usize,
        head_dim: usize,
        sequence: usize,
        /// Of scores; `None`: one over the root of head_dim.
        scale: Option<f32>,
        out: usize,
    },
    Linear {
        x: usize,
        weight: usize,
        bias: Option<usize>,
        /// Of the product; with another one than 1 there is no bias.
        scale: f32,
        out: usize,
    },
    Activation {
        function: Function,
        x: usize,
        out: usize,
    },
    Add {
        a: usize,
        b: usize,
        out: usize,
    },
    Mse {
        prediction: usize,
        target: usize,
        out: usize,
    },
    CrossEntropy {
        logits: usize,
        labels: usize,
        out: usize,
    },
}

impl Operation {
    /// What a gradient of the result goes on to, and the result.
    pub(super) fn flow(&self) -> (Vec<usize>, usize) {
        match *self {
            Operation::Embedding { table, out, .. } => (vec![table], out),
            Operation::RmsNorm { x, weight, out, .. } => (vec![x, weight], out),
            Operation::Gated { a, b, out, .. } => (vec![a, b], out),
            Operation::Softmax { x, out } => (vec![x], out),
            Operation::Rope { x, out, .. } => (vec![x], out),
            Operation::Attention { q, k, v, out, .. } => (vec![q, k, v], out),
            Operation::Linear {
                x,
                weight,
                bias,
                out,
                ..
            } => (vec![x, weight, bias.unwrap_or(x)], out),
            Operation::Activation { x, out, .. } => (vec![x], out),
            Operation::Add { a, b, out } => (vec![a, b], out),
            Operation::Mse {
                prediction, out, ..
            } => (vec![prediction], out),
            Operation::CrossEntropy { logits, out, .. } => (vec![logits], out),
        }
    }

    /// Whether it takes a tensor that may be computed.
    pub(super) fn takes(&self, tensor: usize) -> bool {
        let is_target = matches!(*self, Operation::Mse { target, .. } if target == tensor);
        is_target || self.flow().0.contains(&tensor)
    }
}

/// Tensors and operations in the order in which they were recorded.
#[derive(Debug)]
pub struct Tape {
    id: u64,
    pub(super) tensors: Vec<TensorSpec>,
    pub(super) sources: Vec<Source>,
    pub(super) operations: Vec<Operation>,
    pub(super) kept: Vec<usize>,
    /// Operations whose results are computed again in the backward pass.
    pub(super) blocks: Vec<Range<usize>>,
    /// Tensors of ones by their shape.
    ones: Vec<usize>,
    random: Random,
    pub(super) precision: Precision,
}

impl Tape {
    /// An empty tape. Parameters that are made of random numbers take them from `seed`: the same seed gives the same
    /// weights.
    pub fn new(seed: u64) -> Tape {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Tape {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            tensors: Vec::new(),
            sources: Vec::new(),
            operations: Vec::new(),
            kept: Vec::new(),
            blocks: Vec::new(),
            ones: Vec::new(),
            random: Random::new(seed),
            precision: Precision::F32,
        }
    }

    /// A tensor that the caller writes before a step, rows × width F32.
    ///
    /// # Errors
    /// [`TrainError::Name`], [`TrainError::Size`].
    pub fn input(&mut self, name: &str, rows: usize, width: usize) -> Result<Variable, TrainError> {
        self.tensor(name, [rows, width], DType::F32, Source::Input)
    }

    /// The class of each of `rows` rows, U32, which the caller writes before a step.
    ///
    /// # Errors
    /// [`TrainError::Name`], [`TrainError::Size`].
    pub fn labels(&mut self, name: &str, rows: usize) -> Result<Variable, TrainError> {
        self.tensor(name, [rows, 1], DType::U32, Source::Labels)
    }

    /// Weights that begin as `values`, row by row.
    ///
    /// # Errors
    /// [`TrainError::Name`], [`TrainError::Size`], and [`TrainError::Length`] when there are not rows × width values.
    pub fn parameter(
        &mut self,
        name: &str,
        rows: usize,
        width: usize,
        values: &[f32],
    ) -> Result<Variable, TrainError> {
        if rows.checked_mul(width) != Some(values.len()) && rows > 0 && width > 0 {
            return Err(TrainError::Length {
                tensor: name.to_owned(),
                expected: rows.saturating_mul(width),
                given: values.len(),
            });
        }
        let source = Source::Parameter(values.to_vec());
        self.tensor(name, [rows, width], DType::F32, source)
    }

    /// Weights that begin as random numbers from `-bound` to `bound`.
    pub(super) fn random(
        &mut self,
        name: &str,
        rows: usize,
        width: usize,
        bound: f32,
    ) -> Result<Variable, TrainError> {
        self.check(name, [rows, width])?;
        let values: Vec<f32> = (0..rows * width)
            .map(|_| self.random.uniform(bound))
            .collect();
        self.parameter(name, rows, width, &values)
    }

    /// Records `x · weightᵀ + bias`: x is rows × inputs, the weight outputs × inputs, the bias 1 × outputs.
    ///
    /// # Errors
    /// [`TrainError::Shape`], [`TrainError::Name`], [`TrainError::ForeignVariable`].
    pub fn linear(
        &mut self,
        name: &str,
        x: Variable,
        weight: Variable,
        bias: Option<Variable>,
    ) -> Result<Variable, TrainError> {
        let (x, weight) = (self.floats("linear", x)?, self.weights("linear", weight)?);
        let [rows, inputs] = self.tensors[x].shape;
        let outputs = self.tensors[weight].shape[0];
        self.expect("linear", weight, [outputs, inputs])?;
        let bias = bias.map(|bias| self.floats("linear", bias)).transpose()?;
        if let Some(bias) = bias {
            self.expect("linear", bias, [1, outputs])?;
        }
        self.record(name, [rows, outputs], |out| Operation::Linear {
            x,
            weight,
            bias,
            scale: 1.0,
            out,
        })
    }

    /// Records `max(x, 0)`.
    ///
    /// # Errors
    /// [`TrainError::Name`], [`TrainError::ForeignVariable`].
    pub fn relu(&mut self, name: &str, x: Variable) -> Result<Variable, TrainError> {
        self.activation(name, "relu", Function::Relu, x)
    }

    /// Records `1 / (1 + exp(-x))`. Errors as for [`relu`](Tape::relu).
    pub fn sigmoid(&mut self, name: &str, x: Variable) -> Result<Variable, TrainError> {
        self.activation(name, "sigmoid", Function::Sigmoid, x)
    }

    /// Records `tanh(x)`. Errors as for [`relu`](Tape::relu).
    pub fn tanh(&mut self, name: &str, x: Variable) -> Result<Variable, TrainError> {
        self.activation(name, "tanh", Function::Tanh, x)
    }

    /// Records `a + b`, of the same shape.
    ///
    /// # Errors
    /// [`TrainError::Shape`], [`TrainError::Name`], [`TrainError::ForeignVariable`].
    pub fn add(&mut self, name: &str, a: Variable, b: Variable) -> Result<Variable, TrainError> {
        let (a, b) = (self.floats("add", a)?, self.floats("add", b)?);
        let shape = self.tensors[a].shape;
        self.expect("add", b, shape)?;
        self.record(name, shape, |out| Operation::Add { a, b, out })
    }

    /// Records the mean squared error of a prediction. The result holds a part for each row, whose sum is the loss.
    ///
    /// # Errors
    /// [`TrainError::Shape`], [`TrainError::Name`], [`TrainError::ForeignVariable`].
    pub fn mse(
        &mut self,
        name: &str,
        prediction: Variable,
        target: Variable,
    ) -> Result<Variable, TrainError> {
        let (prediction, target) = (self.floats("mse", prediction)?, self.floats("mse", target)?);
        let shape = self.tensors[prediction].shape;
        self.expect("mse", target, shape)?;
        self.record(name, [shape[0], 1], |out| Operation::Mse {
            prediction,
            target,
            out,
        })
    }

    /// Records the cross-entropy of logits, rows × classes, and labels. The result holds a part for each row, whose sum
    /// is the mean over all rows; rows with the label [`IGNORED`](crate::ops::CrossEntropy::IGNORED) count as 0.
    ///
    /// # Errors
    /// [`TrainError::Shape`], [`TrainError::Name`], [`TrainError::ForeignVariable`].
    pub fn cross_entropy(
        &mut self,
        name: &str,
        logits: Variable,
        labels: Variable,
    ) -> Result<Variable, TrainError> {
        let logits = self.floats("cross_entropy", logits)?;
        let labels = self.index(labels)?;
        let rows = self.tensors[logits].shape[0];
        if self.tensors[labels].shape != [rows, 1] || self.tensors[labels].dtype != DType::U32 {
            return Err(self.misfit("cross_entropy", labels, format!("{rows} × 1 U32")));
        }
        self.record(name, [rows, 1], |out| Operation::CrossEntropy {
            logits,
            labels,
            out,
        })
    }

    /// Records a block, of which the run keeps no more than what other operations use: the backward pass computes the
    /// rest again when it comes to it. With one for each layer, activations take the memory of one layer and of the
    /// tensors between them, for about a third more work (Chen et al. 2016,
    /// [arXiv:1604.06174](https://arxiv.org/abs/1604.06174)). The numbers are the same. A block in another one is a
    /// part of that.
    ///
    /// # Errors
    /// Those of `record`.
    pub fn recomputed<T, E>(
        &mut self,
        record: impl FnOnce(&mut Tape) -> Result<T, E>,
    ) -> Result<T, E> {
        let start = self.recorded();
        let result = record(self)?;
        self.recompute_from(start);
        Ok(result)
    }

    /// Operations so far.
    pub(crate) fn recorded(&self) -> usize {
        self.operations.len()
    }

    /// Makes a block of all operations but the first `start`.
    pub(crate) fn recompute_from(&mut self, start: usize) {
        self.blocks.retain(|block| block.start < start);
        self.blocks.push(start..self.operations.len());
    }

    /// What the products of all parameters are made of, those that are recorded already included; F32 unless this is
    /// called. Frozen weights are multiplied as they are stored.
    pub fn set_precision(&mut self, precision: Precision) {
        self.precision = precision;
    }

    /// Keeps a computed tensor until the next step, so that it can be read ([`Trainer::read`](super::Trainer::read)).
    ///
    /// # Errors
    /// [`TrainError::ForeignVariable`].
    pub fn keep(&mut self, variable: Variable) -> Result<(), TrainError> {
        let index = self.index(variable)?;
        self.kept.push(index);
        Ok(())
    }

    /// What a tensor is.
    ///
    /// # Errors
    /// [`TrainError::ForeignVariable`].
    pub fn spec(&self, variable: Variable) -> Result<&TensorSpec, TrainError> {
        Ok(&self.tensors[self.index(variable)?])
    }

    /// Ones of a tensor's shape.
    pub(super) fn ones_like(&mut self, name: &str, index: usize) -> Result<usize, TrainError> {
        let shape = self.tensors[index].shape;
        let mut known = self.ones.iter();
        if let Some(ones) = known.find(|ones| self.tensors[**ones].shape == shape) {
            return Ok(*ones);
        }
        let name = format!("{name}.ones");
        let ones = self.tensor(&name, shape, DType::F32, Source::Ones)?.index;
        self.ones.push(ones);
        Ok(ones)
    }

    pub(super) fn index(&self, variable: Variable) -> Result<usize, TrainError> {
        match variable.tape == self.id {
            true => Ok(variable.index),
            false => Err(TrainError::ForeignVariable),
        }
    }

    pub(super) fn floats(
        &self,
        operation: &'static str,
        variable: Variable,
    ) -> Result<usize, TrainError> {
        let index = self.index(variable)?;
        let tensor = &self.tensors[index];
        match tensor.dtype {
            DType::F32 => Ok(index),
            _ => Err(self.misfit(
                operation,
                index,
                format!("{} × {} F32", tensor.shape[0], tensor.shape[1]),
            )),
        }
    }

    /// F32, or frozen.
    pub(super) fn weights(
        &self,
        operation: &'static str,
        variable: Variable,
    ) -> Result<usize, TrainError> {
        let index = self.index(variable)?;
        match self.sources[index] {
            Source::Frozen(_) => Ok(index),
            _ => self.floats(operation, variable),
        }
    }

    pub(super) fn expect(
        &self,
        operation: &'static str,
        index: usize,
        shape: [usize; 2],
    ) -> Result<(), TrainError> {
        match self.tensors[index].shape == shape {
            true => Ok(()),
            false => Err(self.misfit(operation, index, format!("{} × {} F32", shape[0], shape[1]))),
        }
    }

    pub(super) fn misfit(
        &self,
        operation: &'static str,
        index: usize,
        expected: String,
    ) -> TrainError {
        TrainError::Shape {
            operation,
            tensor: self.tensors[index].name.clone(),
            found: self.tensors[index].describe(),
            expected,
        }
    }

    fn activation(
        &mut self,
        name: &str,
        operation: &'static str,
        function: Function,
        x: Variable,
    ) -> Result<Variable, TrainError> {
        let x = self.floats(operation, x)?;
        let shape = self.tensors[x].shape;
        self.record(name, shape, |out| Operation::Activation {
            function,
            x,
            out,
        })
    }

    pub(super) fn record(
        &mut self,
        name: &str,
        shape: [usize; 2],
        operation: impl FnOnce(usize) -> Operation,
    ) -> Result<Variable, TrainError> {
        let out = self.tensor(name, shape, DType::F32, Source::Computed)?;
        self.operations.push(operation(out.index));
        Ok(out)
    }

    fn check(&self, name: &str, [rows, width]: [usize; 2]) -> Result<(), TrainError> {
        /// Those of a safetensors file are at most 1024 bytes, of which the optimizer's state needs some.
        const LONGEST: usize = 900;
        let reason = match name {
            "" => Some("it is empty"),
            _ if name.len() > LONGEST => Some("it has more than 900 bytes"),
            _ if name.starts_with("optimizer.") => Some("the optimizer's state is called so"),
            _ if self.tensors.iter().any(|tensor| tensor.name == name) => {
                Some("the tape has such a tensor already")
            }
            _ => None,
        };
        if let Some(reason) = reason {
            let name = name.chars().take(LONGEST).collect();
            return Err(TrainError::Name { name, reason });
        }
        // What a kernel can count to, and what a buffer's bytes can be.
        let most = (u32::MAX / 4) as usize;
        match rows.checked_mul(width) {
            Some(elements) if elements > 0 && elements <= most => Ok(()),
            _ => Err(TrainError::Size {
                tensor: name.to_owned(),
                rows,
                width,
            }),
        }
    }

    pub(super) fn tensor(
        &mut self,
        name: &str,
        shape: [usize; 2],
        dtype: DType,
        source: Source,
    ) -> Result<Variable, TrainError> {
        self.check(name, shape)?;
        self.tensors.push(TensorSpec {
            name: name.to_owned(),
            shape,
            strides: [shape[1], 1],
            dtype,
        });
        self.sources.push(source);
        Ok(Variable {
            tape: self.id,
            index: self.tensors.len() - 1,
        })
    }
}
