//! What the passes of a tape do, and where their tensors lie.

use crate::train::arena::{self, Life};
use crate::train::differentiate::{Builder, learning};
use crate::train::error::TrainError;
use crate::train::instruction::{Instruction, Place};
use crate::train::optimizer::Optimizer;
use crate::train::tape::{Operation, Source, Tape, Variable};

/// Device memory of a run in bytes, all of which is there from the first step to the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct TrainMemory {
    /// Weights.
    pub parameters: u64,
    /// What the optimizer keeps for each weight.
    pub optimizer: u64,
    /// Weights that do not learn.
    pub frozen: u64,
    /// Inputs, labels and the losses of rows.
    pub inputs: u64,
    /// What layers hand to each other, and gradients. Tensors that never live at the same time share memory.
    pub activations: u64,
    /// What the activations and gradients would take if each had memory of its own.
    pub unshared_activations: u64,
}

impl TrainMemory {
    /// All of it.
    pub fn total(&self) -> u64 {
        self.parameters + self.optimizer + self.frozen + self.inputs + self.activations
    }
}

/// A tape's passes and their memory, before there is any of it. From [`Tape::plan`].
#[derive(Debug)]
pub struct Plan {
    pub(super) tape: Tape,
    pub(super) loss: usize,
    pub(super) forward: Vec<Instruction>,
    pub(super) backward: Vec<Instruction>,
    /// Each parameter's tensor, and its gradient.
    pub(super) parameters: Vec<(usize, Place)>,
    /// The sum of the squares of all gradients, one element.
    pub(super) squares: Place,
    /// Of each tensor that is computed.
    pub(super) places: Vec<Place>,
    pub(super) lives: Vec<Life>,
    /// Of each life, its first element in the arena.
    pub(super) starts: Vec<usize>,
    pub(super) arena: usize,
}
impl Tape {
    /// Plans the backward pass of a loss and the memory of both passes.
    ///
    /// # Errors
    /// [`TrainError::NoLoss`], [`TrainError::NothingToLearn`], [`TrainError::ForeignVariable`].
    pub fn plan(self, loss: Variable) -> Result<Plan, TrainError> {
        let loss = self.index(loss)?;
        Plan::new(self, loss)
    }
}

impl Plan {
    fn new(tape: Tape, loss: usize) -> Result<Plan, TrainError> {
        let learns = learning(&tape);
        let tensor = || tape.tensors[loss].name.clone();
        let is_loss = |operation: &Operation| match *operation {
            Operation::Mse { out, .. } | Operation::CrossEntropy { out, .. } => out == loss,
            _ => false,
        };
        let losses = tape.operations.iter().filter(|operation| {
            matches!(
                operation,
                Operation::Mse { .. } | Operation::CrossEntropy { .. }
            )
        });
        if losses.count() != 1 || !tape.operations.last().is_some_and(is_loss) {
            return Err(TrainError::NoLoss { tensor: tensor() });
        }
        if !learns[loss] {
            return Err(TrainError::NothingToLearn { tensor: tensor() });
        }

        let operations = tape.operations.clone();
        let mut builder = Builder {
            places: (0..tape.tensors.len()).map(Place::Own).collect(),
            gradients: vec![None; tape.tensors.len()],
            tape,
            loss,
            lives: Vec::new(),
            copies: Vec::new(),
            learns,
            now: 0,
        };
        let (mut forward, mut backward) = (Vec::new(), Vec::new());
        for operation in &operations {
            builder.forward(*operation, &mut forward);
        }
        for (index, operation) in operations.iter().enumerate().rev() {
            let mut blocks = builder.tape.blocks.iter();
            let block = blocks.find(|block| block.end == index + 1).cloned();
            if let Some(block) = block {
                builder.recompute(block, &mut backward);
            }
            builder.backward(*operation, &mut backward);
        }
        // Gradients of parameters live until the weights have learned from them, kept tensors as long.
        let mut parameters = Vec::new();
        for index in 0..builder.tape.tensors.len() {
            if let (Source::Parameter(_), Some(gradient)) =
                (&builder.tape.sources[index], builder.gradients[index])
            {
                parameters.push((index, builder.touch(gradient)));
            }
        }
        let squares = builder.sum_squares(&parameters, &mut backward);
        // What the optimizer reads last.
        for &(_, gradient) in &parameters {
            builder.touch(gradient);
        }
        builder.touch(squares);
        for kept in builder.tape.kept.clone() {
            builder.read(kept);
        }
        let (starts, arena) = arena::place(&builder.lives);
        Ok(Plan {
            tape: builder.tape,
            loss: builder.loss,
            forward,
            backward,
            parameters,
            squares,
            places: builder.places,
            lives: builder.lives,
            starts,
            arena,
        })
    }

    /// The memory that a run with this optimizer takes.
    pub fn memory(&self, optimizer: impl Into<Optimizer>) -> TrainMemory {
        let copies = optimizer.into().state().len() as u64;
        let bytes = |holds: &dyn Fn(usize) -> bool| -> u64 {
            let tensors = self.tape.tensors.iter().enumerate();
            let held = tensors.filter(|(index, _)| holds(*index));
            held.map(|(_, tensor)| tensor.bytes() as u64).sum()
        };
        let is_parameter = |index: usize| matches!(self.tape.sources[index], Source::Parameter(_));
        let is_frozen = |index: usize| matches!(self.tape.sources[index], Source::Frozen(_));
        let is_own = |index: usize| self.places[index] == Place::Own(index);
        let learning = |index: usize| {
            self.parameters
                .iter()
                .any(|&(learning, _)| learning == index)
        };
        TrainMemory {
            parameters: bytes(&is_parameter),
            optimizer: copies * bytes(&learning),
            frozen: bytes(&is_frozen),
            inputs: bytes(&|index| is_own(index) && !is_parameter(index) && !is_frozen(index)),
            activations: 4 * self.arena as u64,
            unshared_activations: self.lives.iter().map(|life| 4 * life.elements as u64).sum(),
        }
    }
}
