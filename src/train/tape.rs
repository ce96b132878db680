//! What a network computes: its tensors and its operations, recorded once.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::dtype::DType;
use crate::train::error::TrainError;
use crate::train::random::Random;

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
    /// F32, or U32 of labels.
    pub dtype: DType,
}

impl TensorSpec {
    /// Elements in all.
    pub fn elements(&self) -> usize {
        self.shape[0] * self.shape[1]
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
    /// Weights, which begin as these.
    Parameter(Vec<f32>),
    /// An operation.
    Computed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Function {
    Relu,
    Sigmoid,
    Tanh,
}

/// Operands are indices of tensors.
#[derive(Debug, Clone, Copy)]
pub(super) enum Operation {
    Linear {
        x: usize,
        weight: usize,
        bias: Option<usize>,
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

/// Tensors and operations in the order in which they were recorded.
#[derive(Debug)]
pub struct Tape {
    id: u64,
    pub(super) tensors: Vec<TensorSpec>,
    pub(super) sources: Vec<Source>,
    pub(super) operations: Vec<Operation>,
    pub(super) kept: Vec<usize>,
    random: Random,
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
            random: Random::new(seed),
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
        let (x, weight) = (self.floats("linear", x)?, self.floats("linear", weight)?);
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

    pub(super) fn index(&self, variable: Variable) -> Result<usize, TrainError> {
        match variable.tape == self.id {
            true => Ok(variable.index),
            false => Err(TrainError::ForeignVariable),
        }
    }

    fn floats(&self, operation: &'static str, variable: Variable) -> Result<usize, TrainError> {
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

    fn expect(
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

    fn misfit(&self, operation: &'static str, index: usize, expected: String) -> TrainError {
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

    fn record(
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

    fn tensor(
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
