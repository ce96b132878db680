//! A run: the memory of a plan, and its steps.

use std::collections::BTreeMap;
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
use crate::train::instruction::{Instruction, Place};
use crate::train::optimizer::Optimizer;
use crate::train::plan::{Plan, TrainMemory};
use crate::train::precision::LossScale;
use crate::train::schedule::Schedule;
use crate::train::tape::{Operation, Source, TensorSpec, Variable};

/// A tensor with a buffer of its own.
#[derive(Debug)]
enum Owned {
    Floats(Buffer<f32>),
    Integers(Buffer<u32>),
    Frozen(Buffer<u8>, DType),
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
    /// The largest norm that the weights learn from.
    clip: Option<f32>,
    /// That of the gradients of the last backward pass.
    norm: Option<f32>,
    /// Of a tape in F16.
    loss_scale: Option<LossScale>,
    /// What the losses and gradients of the last passes are multiplied by.
    scaled_by: f32,
    skipped: u64,
    /// The rows of each sequence, where they are not the tape's.
    pub(super) packed: Option<Vec<usize>>,
    /// What a checkpoint says about the run.
    notes: BTreeMap<String, String>,
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
                Source::Frozen(_) => {
                    let weights = options(spec, Category::Weights);
                    Some(Owned::Frozen(weights.create(spec.bytes())?, spec.dtype))
                }
                Source::Labels | Source::Ids => {
                    Some(Owned::Integers(activations.create(spec.elements())?))
                }
                Source::Positions(sequence) => {
                    let positions: Vec<u32> = (0..spec.shape[0])
                        .map(|row| (row % sequence) as u32)
                        .collect();
                    Some(Owned::Integers(activations.create_from(&positions)?))
                }
                Source::Ones => {
                    let ones = vec![1.0; spec.elements()];
                    Some(Owned::Floats(activations.create_from(&ones)?))
                }
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
        let loss_scale = LossScale::of(plan.tape.precision);
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
            clip: None,
            norm: None,
            loss_scale,
            scaled_by: 1.0,
            skipped: 0,
            packed: None,
            notes: BTreeMap::new(),
        })
    }

    /// From the next update on, gradients whose norm is larger are scaled down to it. The norm is the root of the sum
    /// of the squares of all parameters' gradients ([`ops::ClipNorm`] has the formula). A checkpoint does not hold
    /// this.
    ///
    /// # Errors
    /// [`TrainError::Option`] when it is not above 0 or not finite.
    pub fn clip_norm(&mut self, norm: f32) -> Result<(), TrainError> {
        if !(norm > 0.0 && norm.is_finite()) {
            return Err(TrainError::Option {
                option: "clip_norm",
                value: norm,
                expected: "finite and above 0",
            });
        }
        self.clip = Some(norm);
        Ok(())
    }

    /// The norm of all gradients of the last backward pass, before they were clipped. `None` before the first one.
    pub fn gradient_norm(&self) -> Option<f32> {
        self.norm
    }

    /// What the loss is multiplied by in the next pass, so that gradients in F16 do not vanish; `None` where there are
    /// none ([`Precision`](super::Precision)). Losses, gradients and norms that are read do not have it.
    ///
    /// It begins as 65,536, doubles after 2,000 updates, and halves when a gradient is not finite.
    pub fn loss_scale(&self) -> Option<f32> {
        self.loss_scale.map(|scale| scale.factor)
    }

    /// Sets it, for the next pass. With a power of two no digit of a gradient changes.
    ///
    /// # Errors
    /// [`TrainError::Option`] when it is below 1 or not finite, and of a tape that is not in F16.
    pub fn set_loss_scale(&mut self, factor: f32) -> Result<(), TrainError> {
        let expected = match self.loss_scale {
            None => "left alone: this tape is not in F16",
            Some(_) => "finite and at least 1",
        };
        match &mut self.loss_scale {
            Some(scale) if factor >= 1.0 && factor.is_finite() => {
                *scale = LossScale { factor, steady: 0 };
                Ok(())
            }
            _ => Err(TrainError::Option {
                option: "loss_scale",
                value: factor,
                expected,
            }),
        }
    }

    /// Updates that were left out because a gradient in F16 was not finite with the loss scale of then.
    pub fn skipped_updates(&self) -> u64 {
        self.skipped
    }

    pub(super) fn loss_factor(&self) -> f32 {
        self.scaled_by
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
        let is_labels = matches!(self.plan.tape.sources[index], Source::Labels);
        self.write_integers(index, is_labels, labels)
    }

    /// Writes the ids of all rows.
    ///
    /// # Errors
    /// [`TrainError::Id`] when one is outside of a table, and those of [`write`](Trainer::write).
    pub fn write_ids(&mut self, variable: Variable, ids: &[u32]) -> Result<(), TrainError> {
        let index = self.plan.tape.index(variable)?;
        self.check_length(index, ids.len())?;
        let tables = self.plan.tape.operations.iter();
        let tables = tables.filter_map(|operation| match *operation {
            Operation::Embedding { table, ids, .. } if ids == index => {
                Some(self.plan.tape.tensors[table].shape[0])
            }
            _ => None,
        });
        let vocab = tables.min().unwrap_or(usize::MAX);
        if let Some(row) = ids.iter().position(|id| *id as usize >= vocab) {
            return Err(TrainError::Id {
                tensor: self.name(index),
                row,
                id: ids[row],
                vocab,
            });
        }
        let is_ids = matches!(self.plan.tape.sources[index], Source::Ids);
        self.write_integers(index, is_ids, ids)
    }

    /// From the next pass on, the rows of a batch are sequences of these lengths, one after another, and not the equal
    /// ones of the tape: positions begin anew with each, and attention stays within it. A checkpoint does not hold
    /// this.
    ///
    /// # Errors
    /// [`TrainError::Sequences`] when one is empty or they are not all rows, and those of the device.
    pub fn pack(&mut self, lengths: &[usize]) -> Result<(), TrainError> {
        let given = lengths
            .iter()
            .fold(0usize, |sum, one| sum.saturating_add(*one));
        let mut position_tensors = Vec::new();
        for operation in &self.plan.tape.operations {
            let rows = match *operation {
                Operation::Attention { q, .. } => self.plan.tape.tensors[q].shape[0],
                Operation::Rope { positions, .. } => {
                    position_tensors.push(positions);
                    self.plan.tape.tensors[positions].shape[0]
                }
                _ => continue,
            };
            if rows != given || lengths.contains(&0) {
                return Err(TrainError::Sequences { rows, given });
            }
        }
        let positions: Vec<u32> = (lengths.iter())
            .flat_map(|length| 0..*length as u32)
            .collect();
        for index in position_tensors {
            if let Some(Owned::Integers(buffer)) = &mut self.own[index] {
                buffer.write(&positions)?;
            }
        }
        self.packed = Some(lengths.to_vec());
        self.played = Played::Nothing;
        Ok(())
    }

    /// Lets checkpoints say this about the run. One that says something else is refused when it is restored.
    pub fn note(&mut self, key: &str, value: impl Into<String>) {
        self.notes.insert(key.to_owned(), value.into());
    }

    /// Writes frozen weights, row by row as their type stores them.
    ///
    /// # Errors
    /// [`TrainError::Bytes`] when there are not as many as the rows have, [`TrainError::NotWritable`] of other tensors,
    /// [`TrainError::ForeignVariable`], and those of the device.
    pub fn write_frozen(&mut self, variable: Variable, bytes: &[u8]) -> Result<(), TrainError> {
        let index = self.plan.tape.index(variable)?;
        let expected = self.plan.tape.tensors[index].bytes();
        match &mut self.own[index] {
            Some(Owned::Frozen(buffer, _)) if bytes.len() == expected => {
                buffer.write(bytes)?;
                self.played = Played::Nothing;
                Ok(())
            }
            Some(Owned::Frozen(..)) => Err(TrainError::Bytes {
                tensor: self.name(index),
                expected,
                given: bytes.len(),
            }),
            _ => Err(TrainError::NotWritable {
                tensor: self.name(index),
            }),
        }
    }

    fn write_integers(
        &mut self,
        index: usize,
        are_these: bool,
        values: &[u32],
    ) -> Result<(), TrainError> {
        match &mut self.own[index] {
            Some(Owned::Integers(buffer)) if are_these => {
                buffer.write(values)?;
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
            Some(Owned::Floats(buffer)) if index == self.plan.loss => {
                Ok(self.unscaled(buffer.to_vec()?))
            }
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
            Some(&(_, gradient)) => Ok(self.unscaled(self.values(gradient)?)),
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
        let mut commands = self.begin_pass()?;
        self.play(&mut commands, &self.plan.forward)?;
        commands.run()?;
        self.played = Played::Forward;
        self.loss()
    }

    fn begin_pass(&mut self) -> Result<Commands, TrainError> {
        self.played = Played::Nothing;
        self.scaled_by = self.loss_scale().unwrap_or(1.0);
        Ok(self.device.commands()?)
    }

    fn loss(&self) -> Result<f32, TrainError> {
        let losses = self.unscaled(self.values(Place::Own(self.plan.loss))?);
        Ok(losses.iter().map(|loss| f64::from(*loss)).sum::<f64>() as f32)
    }

    /// Losses or gradients without the scale of the pass that made them.
    fn unscaled(&self, mut values: Vec<f32>) -> Vec<f32> {
        if self.scaled_by != 1.0 {
            values.iter_mut().for_each(|value| *value /= self.scaled_by);
        }
        values
    }

    /// Plays the tape backward: the gradients of all parameters.
    ///
    /// # Errors
    /// [`TrainError::PlayedTwice`] when it was not played forward since the last time,
    /// [`TrainError::GradientNotFinite`] unless the loss scale can be halved, and those of the device.
    pub fn backward(&mut self) -> Result<(), TrainError> {
        if self.played != Played::Forward {
            return Err(TrainError::PlayedTwice { call: "backward" });
        }
        let mut commands = self.device.commands()?;
        self.play(&mut commands, &self.plan.backward)?;
        self.played = Played::Nothing;
        commands.run()?;
        self.check_norm()?;
        self.played = Played::Backward;
        Ok(())
    }

    fn check_norm(&mut self) -> Result<(), TrainError> {
        let squares = self.values(self.plan.squares)?;
        let norm = squares.iter().sum::<f32>().sqrt() / self.scaled_by;
        self.norm = Some(norm);
        if norm.is_finite() || self.scaled_by > 1.0 {
            return Ok(());
        }
        let of_gradient = self.worst_gradient()?;
        // What the forward pass computed lies under gradients by now.
        self.forward()?;
        self.played = Played::Nothing;
        Err(TrainError::GradientNotFinite {
            step: self.steps + 1,
            tensor: self.first_not_finite()?.unwrap_or(of_gradient),
            norm,
        })
    }

    /// The parameter nearest to the loss whose gradient is not finite, or the one with the largest.
    fn worst_gradient(&self) -> Result<String, TrainError> {
        let mut worst = (self.plan.loss, -1.0);
        for &(index, gradient) in self.plan.parameters.iter().rev() {
            let values = self.values(gradient)?;
            let squares: f64 = values.iter().map(|value| f64::from(*value).powi(2)).sum();
            if !squares.is_finite() {
                return Ok(self.name(index));
            }
            if squares > worst.1 {
                worst = (index, squares);
            }
        }
        Ok(self.name(worst.0))
    }

    /// Lets the weights learn from the gradients of the last backward pass, once. Where a gradient in F16 is not finite
    /// they stay as they are, the loss scale is halved ([`loss_scale`](Trainer::loss_scale)), and the update is not
    /// among the [`steps`](Trainer::steps).
    ///
    /// # Errors
    /// [`TrainError::PlayedTwice`] when there was no backward pass since the last time, and those of the device.
    pub fn update(&mut self) -> Result<(), TrainError> {
        if self.played != Played::Backward {
            return Err(TrainError::PlayedTwice { call: "update" });
        }
        self.played = Played::Nothing;
        self.update_weights()
    }

    fn update_weights(&mut self) -> Result<(), TrainError> {
        let is_finite = self.norm.is_none_or(f32::is_finite);
        if let Some(scale) = self.loss_scale.as_mut().filter(|_| !is_finite) {
            scale.lower();
            self.skipped += 1;
            return Ok(());
        }
        let mut commands = self.device.commands()?;
        self.learn(&mut commands)?;
        commands.run()?;
        self.steps += 1;
        if let Some(scale) = &mut self.loss_scale {
            scale.learned();
        }
        Ok(())
    }

    /// Forward, backward and [`update`](Trainer::update). Returns the loss before the update.
    ///
    /// # Errors
    /// [`TrainError::NotFinite`] when the loss is NaN or infinite, [`TrainError::GradientNotFinite`] when the norm of
    /// the gradients is: the weights and the optimizer's state stay as they were. And those of the device.
    pub fn step(&mut self) -> Result<f32, TrainError> {
        let mut commands = self.begin_pass()?;
        self.play(&mut commands, &self.plan.forward)?;
        self.play(&mut commands, &self.plan.backward)?;
        commands.run()?;
        let loss = self.loss()?;
        if !loss.is_finite() {
            // What the forward pass computed lies under gradients by now.
            self.forward()?;
            self.played = Played::Nothing;
            let tensor = self.first_not_finite()?;
            return Err(TrainError::NotFinite {
                step: self.steps + 1,
                tensor: tensor.unwrap_or_else(|| self.name(self.plan.loss)),
                loss,
            });
        }
        self.check_norm()?;
        self.update_weights()?;
        Ok(loss)
    }

    /// Writes the weights, the optimizer's state and the number of steps as a safetensors file. A file that is there is
    /// replaced once the new one is whole and on the disk; until then, and when anything fails, it stays as it was.
    ///
    /// # Errors
    /// [`TrainError::Write`], and those of the device.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), TrainError> {
        checkpoint::save(path.as_ref(), self.steps, &self.saved()?, &self.notes)
    }

    /// Goes on where a file of [`save`](Trainer::save) ends: the next steps give the same numbers as if there had been
    /// no interruption, for the same network, optimizer, schedule and inputs. A file that is refused changes nothing.
    ///
    /// # Errors
    /// [`TrainError::Read`], [`TrainError::Safetensors`], [`TrainError::OtherModel`] when the file has not just this
    /// network's and optimizer's tensors or says something else about the run ([`note`](Trainer::note)), and those of
    /// the device.
    pub fn restore(&mut self, path: impl AsRef<Path>) -> Result<(), TrainError> {
        let expected: Vec<(String, [usize; 2])> = self.saved_names();
        let (steps, values) = checkpoint::read(path.as_ref(), &expected, &self.notes)?;
        let last = values.last().map(Vec::as_slice);
        let loss_scale = match (self.loss_scale, last) {
            (Some(_), Some(saved)) => {
                let scale = LossScale::restored(saved);
                Some(scale.ok_or_else(|| TrainError::OtherModel {
                    path: path.as_ref().to_owned(),
                    reason: format!("its {} is {saved:?}", LossScale::NAME),
                })?)
            }
            _ => None,
        };
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
        self.loss_scale = loss_scale;
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
        let saved = saved.map(|(name, shape, _)| (name, shape));
        let scale = self
            .loss_scale
            .map(|_| (LossScale::NAME.to_owned(), [1, 2]));
        saved.chain(scale).collect()
    }

    fn saved(&self) -> Result<Vec<checkpoint::Saved>, TrainError> {
        let saved = self.saved_buffers().into_iter();
        let saved = saved.map(|(name, shape, buffer)| {
            let values = buffer.to_vec()?;
            Ok(checkpoint::Saved {
                name,
                shape,
                values,
            })
        });
        let scale = self.loss_scale.map(|scale| {
            Ok(checkpoint::Saved {
                name: LossScale::NAME.to_owned(),
                shape: [1, 2],
                values: scale.saved(),
            })
        });
        saved.chain(scale).collect()
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
    fn first_not_finite(&self) -> Result<Option<String>, TrainError> {
        for (index, spec) in self.plan.tape.tensors.iter().enumerate() {
            let place = self.plan.places[index];
            let is_there = match place {
                Place::Own(_) => matches!(self.own[index], Some(Owned::Floats(_))),
                Place::Arena(life) => {
                    // What is computed again begins to live in the backward pass.
                    let (during, forward) =
                        (&self.plan.lives[life].during, self.plan.forward.len());
                    *during.start() < forward && *during.end() + 1 >= forward
                }
            };
            if is_there && self.values(place)?.iter().any(|value| !value.is_finite()) {
                return Ok(Some(spec.name.clone()));
            }
        }
        Ok(None)
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

    pub(super) fn tensor(&self, place: Place) -> Tensor<'_> {
        let own = |index: usize| match &self.own[index] {
            Some(Owned::Floats(buffer)) => buffer.tensor(),
            Some(Owned::Integers(buffer)) => buffer.tensor(),
            Some(Owned::Frozen(buffer, dtype)) => buffer.tensor_at(0, *dtype),
            None => Tensor::default(),
        };
        match (place, &self.arena) {
            (Place::Own(index), _) => own(index),
            (Place::Arena(life), Some(arena)) => {
                let start = size_of::<f32>() * self.plan.starts[life];
                arena.tensor_at(start, self.plan.lives[life].dtype)
            }
            (Place::Arena(_), None) => Tensor::default(),
        }
    }

    fn learn(&self, commands: &mut Commands) -> Result<(), TrainError> {
        let step = self.steps + 1;
        let learning_rate = self.schedule.at(step);
        for (&(index, gradient), state) in self.plan.parameters.iter().zip(&self.state) {
            let count = self.plan.tape.tensors[index].elements();
            let (gradient, weights) = (self.tensor(gradient), self.tensor(Place::Own(index)));
            if self.clip.is_some() || self.scaled_by != 1.0 {
                commands.clip_norm(
                    &ops::ClipNorm::new(
                        gradient.vector(count),
                        self.tensor(self.plan.squares).vector(1),
                        self.clip.unwrap_or(f32::MAX),
                    )
                    .with_scale(1.0 / self.scaled_by),
                )?;
            }
            match (self.optimizer, &state[..]) {
                (Optimizer::Adam(adam), [first, second]) => commands.adam_step(
                    &ops::Adam::new(
                        weights.vector(count),
                        gradient.vector(count),
                        first.tensor().vector(count),
                        second.tensor().vector(count),
                        step,
                        learning_rate,
                    )
                    .with_beta1(adam.beta1)
                    .with_beta2(adam.beta2)
                    .with_eps(adam.eps)
                    .with_weight_decay(adam.weight_decay),
                )?,
                (Optimizer::Sgd(sgd), [velocity]) => commands.sgd_step(
                    &ops::Sgd::new(
                        weights.vector(count),
                        gradient.vector(count),
                        velocity.tensor().vector(count),
                        learning_rate,
                    )
                    .with_momentum(sgd.momentum)
                    .with_weight_decay(sgd.weight_decay),
                )?,
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
}
