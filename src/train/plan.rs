//! What the passes of a tape do, and where their tensors lie.

use crate::train::arena::{self, Life};
use crate::train::error::TrainError;
use crate::train::optimizer::Optimizer;
use crate::train::tape::{Function, Operation, Source, Tape, Variable};

/// Where a tensor lies: in a buffer of its own, or in the arena that those share which do not always live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Of the tape's tensor of that index.
    Own(usize),
    /// The life of that index.
    Arena(usize),
}

/// An operation of the forward or backward pass.
#[derive(Debug, Clone, Copy)]
pub(super) enum Instruction {
    Linear {
        shape: LinearShape,
        x: Place,
        weight: Place,
        bias: Option<Place>,
        out: Place,
    },
    LinearBackward {
        shape: LinearShape,
        x: Place,
        weight: Place,
        gradient: Place,
        of_x: Option<Place>,
        of_weight: Option<Place>,
        of_bias: Option<Place>,
    },
    Activation {
        function: Function,
        count: usize,
        x: Place,
        out: Place,
    },
    ActivationBackward {
        function: Function,
        count: usize,
        y: Place,
        gradient: Place,
        out: Place,
    },
    Add {
        count: usize,
        a: Place,
        b: Place,
        out: Place,
    },
    Copy {
        count: usize,
        from: Place,
        to: Place,
    },
    Mse {
        shape: [usize; 2],
        prediction: Place,
        target: Place,
        gradient: Place,
        loss: Place,
    },
    CrossEntropy {
        shape: [usize; 2],
        logits: Place,
        labels: Place,
        gradient: Place,
        loss: Place,
    },
}

#[derive(Debug, Clone, Copy)]
pub(super) struct LinearShape {
    pub rows: usize,
    pub inputs: usize,
    pub outputs: usize,
}

/// Device memory of a run in bytes, all of which is there from the first step to the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct TrainMemory {
    /// Weights.
    pub parameters: u64,
    /// What the optimizer keeps for each weight.
    pub optimizer: u64,
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
        self.parameters + self.optimizer + self.inputs + self.activations
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
    /// Of each tensor that is computed.
    pub(super) places: Vec<Place>,
    pub(super) lives: Vec<Life>,
    /// Of each life, its first element in the arena.
    pub(super) starts: Vec<usize>,
    pub(super) arena: usize,
}

/// A part of an operand's gradient.
#[derive(Clone, Copy)]
struct Part {
    operand: usize,
    place: Place,
    /// What it is added to, if it is not the first one.
    sum: Option<Place>,
}

/// A plan in the making.
struct Builder {
    tape: Tape,
    loss: usize,
    places: Vec<Place>,
    lives: Vec<Life>,
    /// The gradient of each tensor, once something has been added to it.
    gradients: Vec<Option<Place>>,
    /// Whether a tensor depends on a parameter.
    learns: Vec<bool>,
    /// The number of the instruction in the making, over both passes.
    now: usize,
}

impl Builder {
    fn of(&self, tensor: usize) -> Place {
        self.places[tensor]
    }

    fn elements(&self, tensor: usize) -> usize {
        self.tape.tensors[tensor].elements()
    }

    /// Memory from now on.
    fn begin(&mut self, elements: usize) -> Place {
        self.lives.push(Life {
            elements,
            during: self.now..=self.now,
        });
        Place::Arena(self.lives.len() - 1)
    }

    /// The instruction in the making uses it.
    fn touch(&mut self, place: Place) -> Place {
        if let Place::Arena(life) = place {
            let during = &mut self.lives[life].during;
            *during = *during.start()..=self.now;
        }
        place
    }

    fn read(&mut self, tensor: usize) -> Place {
        let place = self.of(tensor);
        self.touch(place)
    }

    fn linear_shape(&self, x: usize, weight: usize) -> LinearShape {
        let [rows, inputs] = self.tape.tensors[x].shape;
        LinearShape {
            rows,
            inputs,
            outputs: self.tape.tensors[weight].shape[0],
        }
    }

    /// The instruction of an operation. A loss writes the gradient of what it judges at once.
    fn forward(&mut self, operation: Operation) -> Instruction {
        let new = |builder: &mut Builder, out: usize| {
            let place = builder.begin(builder.elements(out));
            builder.places[out] = place;
            place
        };
        match operation {
            Operation::Linear {
                x,
                weight,
                bias,
                out,
            } => Instruction::Linear {
                shape: self.linear_shape(x, weight),
                x: self.read(x),
                weight: self.read(weight),
                bias: bias.map(|bias| self.read(bias)),
                out: new(self, out),
            },
            Operation::Activation { function, x, out } => Instruction::Activation {
                function,
                count: self.elements(x),
                x: self.read(x),
                out: new(self, out),
            },
            Operation::Add { a, b, out } => Instruction::Add {
                count: self.elements(a),
                a: self.read(a),
                b: self.read(b),
                out: new(self, out),
            },
            Operation::Mse {
                prediction,
                target,
                out,
            } => Instruction::Mse {
                shape: self.tape.tensors[prediction].shape,
                prediction: self.read(prediction),
                target: self.read(target),
                gradient: self.gradient_of_loss(prediction),
                loss: self.of(out),
            },
            Operation::CrossEntropy {
                logits,
                labels,
                out,
            } => Instruction::CrossEntropy {
                shape: self.tape.tensors[logits].shape,
                logits: self.read(logits),
                labels: self.read(labels),
                gradient: self.gradient_of_loss(logits),
                loss: self.of(out),
            },
        }
    }

    fn gradient_of_loss(&mut self, judged: usize) -> Place {
        let place = self.begin(self.elements(judged));
        self.gradients[judged] = Some(place);
        place
    }

    /// The gradient of what an operation made, if the loss depends on it and it on a parameter.
    fn gradient(&mut self, out: usize) -> Option<Place> {
        let place = self.gradients[out].filter(|_| self.learns[out])?;
        Some(self.touch(place))
    }

    /// Memory for a part of an operand's gradient, if it needs one.
    fn gradient_for(&mut self, operand: usize) -> Option<Part> {
        if !self.learns[operand] {
            return None;
        }
        let place = self.begin(self.elements(operand));
        let sum = self.gradients[operand];
        self.gradients[operand] = sum.or(Some(place));
        Some(Part {
            operand,
            place,
            sum,
        })
    }

    /// Adds the parts of gradients that have several.
    fn add_up(&mut self, parts: &[Option<Part>], into: &mut Vec<Instruction>) {
        for part in parts.iter().flatten() {
            let Some(sum) = part.sum else {
                continue;
            };
            into.push(Instruction::Add {
                count: self.elements(part.operand),
                a: self.touch(sum),
                b: self.touch(part.place),
                out: sum,
            });
            self.now += 1;
        }
    }

    fn backward(&mut self, operation: Operation, into: &mut Vec<Instruction>) {
        let place = |part: Option<Part>| part.map(|part| part.place);
        match operation {
            Operation::Linear {
                x,
                weight,
                bias,
                out,
            } => {
                let Some(gradient) = self.gradient(out) else {
                    return;
                };
                let parts = [
                    self.gradient_for(x),
                    self.gradient_for(weight),
                    bias.and_then(|bias| self.gradient_for(bias)),
                ];
                let [of_x, of_weight, of_bias] = parts.map(place);
                into.push(Instruction::LinearBackward {
                    shape: self.linear_shape(x, weight),
                    x: self.read(x),
                    weight: self.read(weight),
                    gradient,
                    of_x,
                    of_weight,
                    of_bias,
                });
                self.now += 1;
                self.add_up(&parts, into);
            }
            Operation::Activation { function, x, out } => {
                let Some(gradient) = self.gradient(out) else {
                    return;
                };
                let part = self.gradient_for(x);
                if let Some(to) = place(part) {
                    into.push(Instruction::ActivationBackward {
                        function,
                        count: self.elements(x),
                        y: self.read(out),
                        gradient,
                        out: to,
                    });
                    self.now += 1;
                    self.add_up(&[part], into);
                }
            }
            Operation::Add { a, b, out } => {
                for operand in [a, b] {
                    let Some(from) = self.gradient(out) else {
                        return;
                    };
                    let count = self.elements(operand);
                    match (self.learns[operand], self.gradients[operand]) {
                        (false, _) => continue,
                        (true, Some(sum)) => into.push(Instruction::Add {
                            count,
                            a: self.touch(sum),
                            b: from,
                            out: sum,
                        }),
                        (true, None) => {
                            let to = self.begin(count);
                            self.gradients[operand] = Some(to);
                            into.push(Instruction::Copy { count, from, to });
                        }
                    }
                    self.now += 1;
                }
            }
            // Their gradients are there since the forward pass.
            Operation::Mse { .. } | Operation::CrossEntropy { .. } => {}
        }
    }
}

/// Which tensors depend on a parameter.
fn learning(tape: &Tape) -> Vec<bool> {
    let is_parameter = |source: &Source| matches!(source, Source::Parameter(_));
    let mut learns: Vec<bool> = tape.sources.iter().map(is_parameter).collect();
    for operation in &tape.operations {
        let (of, out) = match *operation {
            Operation::Linear {
                x,
                weight,
                bias,
                out,
            } => (vec![x, weight, bias.unwrap_or(x)], out),
            Operation::Activation { x, out, .. } => (vec![x], out),
            Operation::Add { a, b, out } => (vec![a, b], out),
            Operation::Mse {
                prediction, out, ..
            } => (vec![prediction], out),
            Operation::CrossEntropy { logits, out, .. } => (vec![logits], out),
        };
        learns[out] = of.into_iter().any(|operand| learns[operand]);
    }
    learns
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
            learns,
            now: 0,
        };
        let (mut forward, mut backward) = (Vec::new(), Vec::new());
        for operation in &operations {
            forward.push(builder.forward(*operation));
            builder.now += 1;
        }
        for operation in operations.iter().rev() {
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
            held.map(|(_, tensor)| 4 * tensor.elements() as u64).sum()
        };
        let is_parameter = |index: usize| matches!(self.tape.sources[index], Source::Parameter(_));
        let is_own = |index: usize| self.places[index] == Place::Own(index);
        let learning = |index: usize| {
            self.parameters
                .iter()
                .any(|&(learning, _)| learning == index)
        };
        TrainMemory {
            parameters: bytes(&is_parameter),
            optimizer: copies * bytes(&learning),
            inputs: bytes(&|index| is_own(index) && !is_parameter(index)),
            activations: 4 * self.arena as u64,
            unshared_activations: self.lives.iter().map(|life| 4 * life.elements as u64).sum(),
        }
    }
}
