//! A run: the memory of a plan, and its steps.

use std::path::Path;

use crate::buffer::Buffer;
use crate::commands::Commands;
use crate::device::Device;
use crate::dtype::DType;
use crate::memory::Category;
use crate::ops;
use crate::tensor::Tensor;
use crate::train::checkpoint;
use crate::train::error::TrainError;
use crate::train::optimizer::Optimizer;
use crate::train::plan::{Instruction, Place, Plan, TrainMemory};
use crate::train::schedule::Schedule;
use crate::train::tape::{Function, Operation, Source, TensorSpec, Variable};

/// A tensor with a buffer of its own.
#[derive(Debug)]
enum Owned {
    Floats(Buffer<f32>),
    Labels(Buffer<u32>),
}

/// What was played last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Played {
    /// Nothing, or the weights have changed since.
    Nothing,
    Forward,
    Backward,
}

/// A network's weights, the optimizer's state and the memory of its passes on a device. From
/// [`Plan::trainer`](super::Plan::trainer).
///
/// Each pass is recorded into [`Commands`], which flush at the device's limit, so that a run of any length has bounded
/// memory. Nothing is allocated after the first step.
#[derive(Debug)]
pub struct Trainer {
    device: Device,
    plan: Plan,
    optimizer: Optimizer,
    schedule: Schedule,
    /// By tensor; `None` of those in the arena.
    own: Vec<Option<Owned>>,
    arena: Option<Buffer<f32>>,
    /// By the plan's parameters, in the order of [`Optimizer::state`].
    state: Vec<Vec<Buffer<f32>>>,
    steps: u64,
    played: Played,
}

impl Plan {
    /// Takes the memory, and writes the first weights.
    ///
    /// # Errors
    /// [`TrainError::Option`] when a number of the optimizer is out of its range, and those of the device.
    pub fn trainer(
        self,
        device: &Device,
        optimizer: impl Into<Optimizer>,
        schedule: Schedule,
    ) -> Result<Trainer, TrainError> {
        Trainer::new(self, device, optimizer.into(), schedule)
    }
}

impl Trainer {
    fn new(
        plan: Plan,
        device: &Device,
        optimizer: Optimizer,
        schedule: Schedule,
    ) -> Result<Trainer, TrainError> {
        optimizer.check()?;
        let options = |spec: &TensorSpec, category| {
            let options = device.buffer_options().category(category);
            options.label(spec.name.replace('\0', " "))
        };
        let mut own = Vec::new();
        for (index, spec) in plan.tape.tensors.iter().enumerate() {
            let activations = options(spec, Category::Activations);
            own.push(match &plan.tape.sources[index] {
                _ if plan.places[index] != Place::Own(index) => None,
                Source::Parameter(values) => {
                    let weights = options(spec, Category::Weights);
                    Some(Owned::Floats(weights.create_from(values)?))
                }
                Source::Labels => Some(Owned::Labels(activations.create(spec.elements())?)),
                _ => Some(Owned::Floats(activations.create(spec.elements())?)),
            });
        }
        let arena = match plan.arena {
            0 => None,
            elements => Some(
                device
                    .buffer_options()
                    .category(Category::Activations)
                    .label("activations and gradients")
                    .create(elements)?,
            ),
        };
        let mut state = Vec::new();
        for &(index, _) in &plan.parameters {
            let spec = &plan.tape.tensors[index];
            let make = |_: &&str| options(spec, Category::Weights).create(spec.elements());
            let made: crate::Result<Vec<_>> = optimizer.state().iter().map(make).collect();
            state.push(made?);
        }
        Ok(Trainer {
            device: device.clone(),
            plan,
            optimizer,
            schedule,
            own,
            arena,
            state,
            steps: 0,
            played: Played::Nothing,
        })
    }

    /// The memory that it has.
    pub fn memory(&self) -> TrainMemory {
        self.plan.memory(self.optimizer)
    }

    /// Steps that the weights have learned from, those before a restored checkpoint included.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// The learning rate of the next step.
    pub fn learning_rate(&self) -> f32 {
        self.schedule.at(self.steps + 1)
    }

    /// All tensors of the tape.
    pub fn tensors(&self) -> &[TensorSpec] {
        &self.plan.tape.tensors
    }

    /// Writes all elements of an input, or of a parameter, row by row.
    ///
    /// # Errors
    /// [`TrainError::Length`], [`TrainError::NotWritable`], [`TrainError::ForeignVariable`], and those of the device.
    pub fn write(&mut self, variable: Variable, values: &[f32]) -> Result<(), TrainError> {
        let index = self.plan.tape.index(variable)?;
        self.check_length(index, values.len())?;
        let is_computed = matches!(self.plan.tape.sources[index], Source::Computed);
        match &mut self.own[index] {
            Some(Owned::Floats(buffer)) if !is_computed => {
                buffer.write(values)?;
                self.played = Played::Nothing;
                Ok(())
            }
            _ => Err(TrainError::NotWritable {
                tensor: self.name(index),
            }),
        }
    }

    /// Writes the labels of all rows.
    ///
    /// # Errors
    /// [`TrainError::Label`] when one is outside of the classes and not
    /// [`IGNORED`](crate::ops::CrossEntropy::IGNORED), and those of [`write`](Trainer::write).
    pub fn write_labels(&mut self, variable: Variable, labels: &[u32]) -> Result<(), TrainError> {
        let index = self.plan.tape.index(variable)?;
        self.check_length(index, labels.len())?;
        let classes = self.classes_of(index);
        let is_none =
            |label: &u32| *label as usize >= classes && *label != ops::CrossEntropy::IGNORED;
        if let Some(row) = labels.iter().position(is_none) {
            return Err(TrainError::Label {
                tensor: self.name(index),
                row,
                label: labels[row],
                classes,
            });
        }
        match &mut self.own[index] {
            Some(Owned::Labels(buffer)) => {
                buffer.write(labels)?;
                self.played = Played::Nothing;
                Ok(())
            }
            _ => Err(TrainError::NotWritable {
                tensor: self.name(index),
            }),
        }
    }

    /// The fewest classes of the operations that use these labels.
    fn classes_of(&self, labels: usize) -> usize {
        let operations = self.plan.tape.operations.iter();
        let classes = operations.filter_map(|operation| match *operation {
            Operation::CrossEntropy {
                logits, labels: of, ..
            } if of == labels => Some(self.plan.tape.tensors[logits].shape[1]),
            _ => None,
        });
        classes.min().unwrap_or(usize::MAX)
    }

    /// All elements of an input, a parameter, the losses of rows, or a tensor that the tape keeps
    /// ([`Tape::keep`](super::Tape::keep)), as the last pass left them.
    ///
    /// # Errors
    /// [`TrainError::NotKept`] of other tensors and of labels, [`TrainError::ForeignVariable`], and those of the
    /// device.
    pub fn read(&self, variable: Variable) -> Result<Vec<f32>, TrainError> {
        let index = self.plan.tape.index(variable)?;
        match &self.own[index] {
            Some(Owned::Floats(buffer)) => Ok(buffer.to_vec()?),
            None if self.plan.tape.kept.contains(&index) => self.values(self.plan.places[index]),
            _ => Err(TrainError::NotKept {
                tensor: self.name(index),
            }),
        }
    }

    /// The gradient of a parameter, as the last backward pass left it.
    ///
    /// # Errors
    /// [`TrainError::PlayedTwice`] when there was no backward pass since the last forward pass,
    /// [`TrainError::NotKept`] of other tensors, [`TrainError::ForeignVariable`], and those of the device.
    pub fn gradient(&self, variable: Variable) -> Result<Vec<f32>, TrainError> {
        let index = self.plan.tape.index(variable)?;
        if self.played != Played::Backward {
            return Err(TrainError::PlayedTwice { call: "gradient" });
        }
        let mut parameters = self.plan.parameters.iter();
        match parameters.find(|(parameter, _)| *parameter == index) {
            Some(&(_, gradient)) => self.values(gradient),
            None => Err(TrainError::NotKept {
                tensor: self.name(index),
            }),
        }
    }

    /// Plays the tape forward and returns the loss, the sum over rows. Changes no weight.
    ///
    /// # Errors
    /// Those of the device.
    pub fn forward(&mut self) -> Result<f32, TrainError> {
        self.played = Played::Nothing;
        let mut commands = self.device.commands()?;
        self.play(&mut commands, &self.plan.forward)?;
        commands.run()?;
        self.played = Played::Forward;
        let losses = self.values(Place::Own(self.plan.loss))?;
        Ok(losses.iter().map(|loss| f64::from(*loss)).sum::<f64>() as f32)
    }

    /// Plays the tape backward: the gradients of all parameters.
    ///
    /// # Errors
    /// [`TrainError::PlayedTwice`] when it was not played forward since the last time, and those of the device.
    pub fn backward(&mut self) -> Result<(), TrainError> {
        if self.played != Played::Forward {
            return Err(TrainError::PlayedTwice { call: "backward" });
        }
        let mut commands = self.device.commands()?;
        self.play(&mut commands, &self.plan.backward)?;
        commands.run()?;
        self.played = Played::Backward;
        Ok(())
    }

    /// Lets the weights learn from the gradients of the last backward pass, once.
    ///
    /// # Errors
    /// [`TrainError::PlayedTwice`] when there was no backward pass since the last time, and those of the device.
    pub fn update(&mut self) -> Result<(), TrainError> {
        if self.played != Played::Backward {
            return Err(TrainError::PlayedTwice { call: "update" });
        }
        let mut commands = self.device.commands()?;
        self.learn(&mut commands)?;
        self.played = Played::Nothing;
        commands.run()?;
        self.steps += 1;
        Ok(())
    }

    /// Forward, backward and update. Returns the loss before the update.
    ///
    /// # Errors
    /// [`TrainError::NotFinite`] when the loss is NaN or infinite: the weights and the optimizer's state stay as they
    /// were. And those of the device.
    pub fn step(&mut self) -> Result<f32, TrainError> {
        let loss = self.forward()?;
        if !loss.is_finite() {
            let tensor = self.first_not_finite()?;
            let step = self.steps + 1;
            return Err(TrainError::NotFinite { step, tensor, loss });
        }
        self.played = Played::Nothing;
        let mut commands = self.device.commands()?;
        self.play(&mut commands, &self.plan.backward)?;
        self.learn(&mut commands)?;
        commands.run()?;
        self.steps += 1;
        Ok(loss)
    }

    /// Writes the weights, the optimizer's state and the number of steps as a safetensors file. A file that is there is
    /// replaced once the new one is whole and on the disk; until then, and when anything fails, it stays as it was.
    ///
    /// # Errors
    /// [`TrainError::Write`], and those of the device.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), TrainError> {
        checkpoint::save(path.as_ref(), self.steps, &self.saved()?)
    }

    /// Goes on where a file of [`save`](Trainer::save) ends: the next steps give the same numbers as if there had been
    /// no interruption, for the same network, optimizer, schedule and inputs. When anything fails, nothing has changed.
    ///
    /// # Errors
    /// [`TrainError::Read`], [`TrainError::Safetensors`], [`TrainError::OtherModel`] when the file has not just this
    /// network's and optimizer's tensors, and those of the device.
    pub fn restore(&mut self, path: impl AsRef<Path>) -> Result<(), TrainError> {
        let expected: Vec<(String, [usize; 2])> = self.saved_names();
        let (steps, values) = checkpoint::read(path.as_ref(), &expected)?;
        self.played = Played::Nothing;
        let mut values = values.into_iter();
        let mut next = || values.next().unwrap_or_default();
        for (own, source) in self.own.iter_mut().zip(&self.plan.tape.sources) {
            if let (Some(Owned::Floats(buffer)), Source::Parameter(_)) = (own, source) {
                buffer.write(&next())?;
            }
        }
        for buffer in self.state.iter_mut().flatten() {
            buffer.write(&next())?;
        }
        self.steps = steps;
        Ok(())
    }

    /// Name, shape and buffer of each tensor of a checkpoint, in the order in which they are restored.
    fn saved_buffers(&self) -> Vec<(String, [usize; 2], &Buffer<f32>)> {
        let mut saved = Vec::new();
        for (index, spec) in self.plan.tape.tensors.iter().enumerate() {
            if let (Some(Owned::Floats(buffer)), Source::Parameter(_)) =
                (&self.own[index], &self.plan.tape.sources[index])
            {
                saved.push((spec.name.clone(), spec.shape, buffer));
            }
        }
        for (&(index, _), state) in self.plan.parameters.iter().zip(&self.state) {
            let spec = &self.plan.tape.tensors[index];
            for (kind, buffer) in self.optimizer.state().iter().zip(state) {
                let name = format!("optimizer.{kind}.{}", spec.name);
                saved.push((name, spec.shape, buffer));
            }
        }
        saved
    }

    fn saved_names(&self) -> Vec<(String, [usize; 2])> {
        let saved = self.saved_buffers().into_iter();
        saved.map(|(name, shape, _)| (name, shape)).collect()
    }

    fn saved(&self) -> Result<Vec<checkpoint::Saved>, TrainError> {
        let saved = self.saved_buffers().into_iter();
        saved
            .map(|(name, shape, buffer)| {
                let values = buffer.to_vec()?;
                Ok(checkpoint::Saved {
                    name,
                    shape,
                    values,
                })
            })
            .collect()
    }

    fn name(&self, index: usize) -> String {
        self.plan.tape.tensors[index].name.clone()
    }

    fn check_length(&self, index: usize, given: usize) -> Result<(), TrainError> {
        let expected = self.plan.tape.tensors[index].elements();
        match given == expected {
            true => Ok(()),
            false => Err(TrainError::Length {
                tensor: self.name(index),
                expected,
                given,
            }),
        }
    }

    /// In the order of the tape, among those that still lie where the forward pass left them.
    fn first_not_finite(&self) -> Result<String, TrainError> {
        for (index, spec) in self.plan.tape.tensors.iter().enumerate() {
            let place = self.plan.places[index];
            let is_there = match place {
                Place::Own(_) => spec.dtype == DType::F32,
                Place::Arena(life) => {
                    *self.plan.lives[life].during.end() + 1 >= self.plan.forward.len()
                }
            };
            if is_there && self.values(place)?.iter().any(|value| !value.is_finite()) {
                return Ok(spec.name.clone());
            }
        }
        Ok(self.name(self.plan.loss))
    }

    fn values(&self, place: Place) -> Result<Vec<f32>, TrainError> {
        let (buffer, start, elements) = match place {
            Place::Own(index) => match &self.own[index] {
                Some(Owned::Floats(buffer)) => (buffer, 0, buffer.len()),
                _ => return Ok(Vec::new()),
            },
            Place::Arena(life) => match &self.arena {
                Some(arena) => (
                    arena,
                    self.plan.starts[life],
                    self.plan.lives[life].elements,
                ),
                None => return Ok(Vec::new()),
            },
        };
        let mut values = vec![0.0; elements];
        buffer.read_at(start, &mut values)?;
        Ok(values)
    }

    fn tensor(&self, place: Place) -> Tensor<'_> {
        let own = |index: usize| match &self.own[index] {
            Some(Owned::Floats(buffer)) => buffer.tensor(),
            Some(Owned::Labels(buffer)) => buffer.tensor(),
            None => Tensor::default(),
        };
        match (place, &self.arena) {
            (Place::Own(index), _) => own(index),
            (Place::Arena(life), Some(arena)) => arena.tensor().skip(self.plan.starts[life]),
            (Place::Arena(_), None) => Tensor::default(),
        }
    }

    fn learn(&self, commands: &mut Commands) -> Result<(), TrainError> {
        let step = self.steps + 1;
        let learning_rate = self.schedule.at(step);
        for (&(index, gradient), state) in self.plan.parameters.iter().zip(&self.state) {
            let count = self.plan.tape.tensors[index].elements();
            let (gradient, weights) = (self.tensor(gradient), self.tensor(Place::Own(index)));
            match (self.optimizer, &state[..]) {
                (Optimizer::Adam(adam), [first, second]) => commands.adam_step(&ops::Adam {
                    count,
                    step,
                    gradient,
                    weights,
                    first_moment: first.tensor(),
                    second_moment: second.tensor(),
                    learning_rate,
                    beta1: Some(adam.beta1),
                    beta2: Some(adam.beta2),
                    eps: Some(adam.eps),
                    weight_decay: adam.weight_decay,
                })?,
                (Optimizer::Sgd(sgd), [velocity]) => commands.sgd_step(&ops::Sgd {
                    count,
                    gradient,
                    weights,
                    velocity: velocity.tensor(),
                    learning_rate,
                    momentum: sgd.momentum,
                    weight_decay: sgd.weight_decay,
                })?,
                _ => unreachable!("there is a buffer for each name of the state"),
            }
        }
        Ok(())
    }

    fn play(&self, commands: &mut Commands, pass: &[Instruction]) -> Result<(), TrainError> {
        for instruction in pass {
            self.record(commands, instruction)?;
        }
        Ok(())
    }

    fn record(
        &self,
        commands: &mut Commands,
        instruction: &Instruction,
    ) -> Result<(), crate::Error> {
        let tensor = |place: Place| self.tensor(place);
        match *instruction {
            Instruction::Linear {
                shape,
                x,
                weight,
                bias,
                out,
            } => commands.matmul(&ops::Matmul {
                m: shape.rows,
                n: shape.outputs,
                k: shape.inputs,
                a: tensor(x),
                b: tensor(weight),
                transpose_b: true,
                bias: bias.map(tensor),
                c: tensor(out),
                ..Default::default()
            }),
            Instruction::LinearBackward {
                shape,
                x,
                weight,
                gradient,
                of_x,
                of_weight,
                of_bias,
            } => commands.linear_backward(&ops::LinearBackward {
                rows: shape.rows,
                inputs: shape.inputs,
                outputs: shape.outputs,
                x: tensor(x),
                weight: tensor(weight),
                gradient: tensor(gradient),
                x_gradient: of_x.map(tensor),
                weight_gradient: of_weight.map(tensor),
                bias_gradient: of_bias.map(tensor),
            }),
            Instruction::Activation {
                function,
                count,
                x,
                out,
            } => {
                let operands = ops::Activation {
                    count,
                    x: tensor(x),
                    out: tensor(out),
                    scale: None,
                };
                match function {
                    Function::Relu => commands.relu(&operands),
                    Function::Sigmoid => commands.sigmoid(&operands),
                    Function::Tanh => commands.tanh(&operands),
                }
            }
            Instruction::ActivationBackward {
                function,
                count,
                y,
                gradient,
                out,
            } => {
                let operands = ops::Elementwise {
                    count,
                    a: tensor(y),
                    b: tensor(gradient),
                    out: tensor(out),
                };
                match function {
                    Function::Relu => commands.relu_backward(&operands),
                    Function::Sigmoid => commands.sigmoid_backward(&operands),
                    Function::Tanh => commands.tanh_backward(&operands),
                }
            }
            Instruction::Add { count, a, b, out } => commands.add(&ops::Elementwise {
                count,
                a: tensor(a),
                b: tensor(b),
                out: tensor(out),
            }),
            Instruction::Copy { count, from, to } => commands.copy(&ops::CopyRows {
                rows: 1,
                width: count,
                src: tensor(from),
                dst: tensor(to),
            }),
            Instruction::Mse {
                shape: [rows, width],
                prediction,
                target,
                gradient,
                loss,
            } => commands.mse(&ops::Mse {
                rows,
                width,
                prediction: tensor(prediction),
                target: tensor(target),
                gradient: tensor(gradient),
                loss: tensor(loss),
                scale: Some(1.0 / (rows as f32 * width as f32)),
            }),
            Instruction::CrossEntropy {
                shape: [rows, width],
                logits,
                labels,
                gradient,
                loss,
            } => commands.cross_entropy(&ops::CrossEntropy {
                rows,
                width,
                logits: tensor(logits),
                labels: tensor(labels),
                gradient: tensor(gradient),
                loss: tensor(loss),
                scale: Some(1.0 / rows as f32),
            }),
        }
    }
}
