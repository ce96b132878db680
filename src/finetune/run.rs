//! A run: what it takes, and its steps.

use std::fs;
use std::path::Path;

use crate::device::Device;
use crate::finetune::adapter::{self, LearnedChange};
use crate::finetune::batches::{Batch, Batches, Sizes, hold_out, once};
use crate::finetune::error::FinetuneError;
use crate::finetune::network::{Load, Network};
use crate::finetune::options::FinetuneOptions;
use crate::finetune::text::TrainingText;
use crate::llama::tokenizer::EncodeOptions;
use crate::llama::{Config, LoadProgress, ModelFile, Tokenizer};
use crate::ops::RopePairing;
use crate::train::{Adam, Lora, Plan, Schedule, TrainMemory, Trainer, Variable};

/// What a run takes, before there is any of it.
#[derive(Debug)]
pub struct FinetunePlan {
    file: ModelFile,
    config: Config,
    options: FinetuneOptions,
    plan: Plan,
    parts: Parts,
    loads: Vec<Load>,
    learned: Vec<Vec<u32>>,
    held: Vec<Vec<u32>>,
    steps: u64,
    notes: Vec<(&'static str, String)>,
}

#[derive(Debug)]
struct Parts {
    ids: Variable,
    labels: Variable,
    changes: Vec<(String, Lora)>,
}

/// A model that learns a text. From [`FinetunePlan::start`].
#[derive(Debug)]
pub struct Finetune {
    config: Config,
    options: FinetuneOptions,
    trainer: Trainer,
    parts: Parts,
    batches: Batches,
    held: Vec<Batch>,
    steps: u64,
}

/// What a step did.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct FinetuneStep {
    /// Its number, from 1 on.
    pub step: u64,
    /// The mean negative log-probability of the tokens that it learned from, before it did.
    pub loss: f32,
    /// Its learning rate.
    pub learning_rate: f32,
    /// The norm of its gradients, before they were clipped.
    pub gradient_norm: f32,
    /// The tokens that it learned from.
    pub tokens: usize,
}

/// How well the held-out part is predicted.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Evaluation {
    /// The mean negative log-probability of a token.
    pub loss: f64,
    /// The tokens that were predicted.
    pub tokens: usize,
}

impl Evaluation {
    /// `exp(loss)`: among how many equally likely tokens the model might as well have guessed.
    pub fn perplexity(&self) -> f64 {
        self.loss.exp()
    }
}

impl FinetunePlan {
    /// Reads a model's configuration, cuts the text into tokens and plans the memory of a run.
    ///
    /// # Errors
    ///
    /// [`FinetuneError::Option`] for an option out of its bounds, [`FinetuneError::TooShort`] for a text that fills no
    /// sequence, [`FinetuneError::Architecture`] for a model that has what has no gradient here, and those of the file.
    pub fn new(
        file: &ModelFile,
        text: &TrainingText,
        options: FinetuneOptions,
    ) -> Result<FinetunePlan, FinetuneError> {
        let tokenizer = Tokenizer::from_metadata(file.metadata())?;
        let config = Config::of_file(file, tokenizer.vocabulary_size())?;
        options.check(&config)?;
        let mut learned: Vec<Vec<u32>> = (text.documents().iter())
            .map(|document| tokens(&tokenizer, document))
            .collect();
        let held = hold_out(&mut learned, options.hold_out);
        let tokens_to_learn = predicted(&learned);
        if tokens_to_learn < options.sequence {
            return Err(FinetuneError::TooShort {
                tokens: tokens_to_learn,
                sequence: options.sequence,
            });
        }
        let rows = options.sequence * options.batch;
        let three_times = (3 * tokens_to_learn).div_ceil(rows) as u64;
        let network = Network::new(file, &config, &options)?;
        Ok(FinetunePlan {
            notes: notes(file, &config, &options, [&learned, &held]),
            steps: options.steps.unwrap_or(three_times),
            file: file.clone(),
            config,
            plan: network.tape.plan(network.loss)?,
            parts: Parts {
                ids: network.ids,
                labels: network.labels,
                changes: network.changes,
            },
            loads: network.loads,
            learned,
            held,
            options,
        })
    }

    /// The memory of the run.
    pub fn memory(&self) -> TrainMemory {
        self.plan.memory(self.adam())
    }

    /// Steps in all.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Tokens that are learned each time through the text.
    pub fn learned_tokens(&self) -> usize {
        predicted(&self.learned)
    }

    /// Tokens that are held out, and predicted by an evaluation.
    pub fn held_out_tokens(&self) -> usize {
        predicted(&self.held)
    }

    /// Numbers that learn.
    pub fn parameters(&self) -> u64 {
        self.memory().parameters / size_of::<f32>() as u64
    }

    fn adam(&self) -> Adam {
        Adam {
            weight_decay: self.options.weight_decay,
            ..Adam::default()
        }
    }

    /// Takes the memory and loads the weights. `progress` hears of the bytes of the file.
    ///
    /// # Errors
    ///
    /// [`FinetuneError::Train`] for an option of the optimizer out of its bounds, and those of the device.
    pub fn start(
        self,
        device: &Device,
        progress: &mut dyn FnMut(LoadProgress),
    ) -> Result<Finetune, FinetuneError> {
        let rate = self.options.learning_rate;
        let warmup = self.options.warmup.unwrap_or(self.steps.div_ceil(20));
        let schedule = Schedule::cosine(rate, rate / 10.0, self.steps).warmup(warmup);
        let adam = self.adam();
        let mut trainer = self.plan.trainer(device, adam, schedule)?;
        if let Some(norm) = self.options.clip_norm {
            trainer.clip_norm(norm)?;
        }
        for (key, value) in self.notes {
            trainer.note(key, value);
        }
        let lengths = self
            .file
            .tensors()
            .iter()
            .map(|tensor| tensor.byte_length());
        let total = lengths.sum();
        let mut done = 0;
        for load in &self.loads {
            done += load.write(&self.file, device, &mut trainer)?;
            progress(LoadProgress { done, total });
        }
        let sizes = Sizes {
            rows: self.options.sequence * self.options.batch,
            sequence: self.options.sequence,
        };
        Ok(Finetune {
            trainer,
            parts: self.parts,
            batches: Batches::new(self.learned, sizes, self.options.seed),
            held: once(&self.held, sizes),
            steps: self.steps,
            config: self.config,
            options: self.options,
        })
    }
}

impl Finetune {
    /// Steps that were done, those before a restored checkpoint included.
    pub fn steps(&self) -> u64 {
        self.trainer.steps()
    }

    /// Steps in all. More are possible, at the last learning rate.
    pub fn all_steps(&self) -> u64 {
        self.steps
    }

    /// The memory that it has.
    pub fn memory(&self) -> TrainMemory {
        self.trainer.memory()
    }

    fn write(&mut self, batch: &Batch) -> Result<(), FinetuneError> {
        self.trainer.write_ids(self.parts.ids, &batch.ids)?;
        self.trainer
            .write_labels(self.parts.labels, &batch.labels)?;
        self.trainer.pack(&batch.lengths)?;
        Ok(())
    }

    /// Learns from the next batch.
    ///
    /// # Errors
    ///
    /// [`TrainError::NotFinite`](crate::train::TrainError::NotFinite) and
    /// [`TrainError::GradientNotFinite`](crate::train::TrainError::GradientNotFinite), which name the step and a
    /// tensor: nothing was learned from it. And those of the device.
    pub fn step(&mut self) -> Result<FinetuneStep, FinetuneError> {
        let batch = self.batches.at(self.steps());
        self.write(&batch)?;
        let learning_rate = self.trainer.learning_rate();
        let loss = self.trainer.step()?;
        Ok(FinetuneStep {
            step: self.steps(),
            loss,
            learning_rate,
            gradient_norm: self.trainer.gradient_norm().unwrap_or(0.0),
            tokens: batch.predicted(),
        })
    }

    /// How well the held-out part is predicted now.
    ///
    /// # Errors
    ///
    /// [`FinetuneError::NothingHeldOut`], and those of the device.
    pub fn evaluate(&mut self) -> Result<Evaluation, FinetuneError> {
        let held = std::mem::take(&mut self.held);
        let found = self.evaluate_on(&held);
        self.held = held;
        found
    }

    fn evaluate_on(&mut self, batches: &[Batch]) -> Result<Evaluation, FinetuneError> {
        let (mut sum, mut tokens) = (0.0, 0);
        for batch in batches {
            self.write(batch)?;
            // The tape's loss is a mean over all rows, and those that do not count are 0.
            sum += f64::from(self.trainer.forward()?) * batch.ids.len() as f64;
            tokens += batch.predicted();
        }
        match tokens {
            0 => Err(FinetuneError::NothingHeldOut),
            _ => Ok(Evaluation {
                loss: sum / tokens as f64,
                tokens,
            }),
        }
    }

    /// Writes what was learned so far, the optimizer's state and the number of steps as a safetensors file. An older
    /// one is replaced once the new one is whole and on the disk.
    ///
    /// # Errors
    ///
    /// [`TrainError::Write`](crate::train::TrainError::Write), and those of the device.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), FinetuneError> {
        Ok(self.trainer.save(path)?)
    }

    /// Goes on where a checkpoint ends: the next steps give the same numbers as if there had been no interruption. A
    /// file that is refused changes nothing.
    ///
    /// # Errors
    ///
    /// [`TrainError::OtherModel`](crate::train::TrainError::OtherModel) for one of another model, text, rank, alpha,
    /// seed, or size of batches, and those of [`Trainer::restore`].
    pub fn restore(&mut self, path: impl AsRef<Path>) -> Result<(), FinetuneError> {
        Ok(self.trainer.restore(path)?)
    }

    /// Writes what was learned as an adapter in llama.cpp's form, which
    /// [`LoraAdapter::open`](crate::llama::LoraAdapter::open) reads. It is there as a whole or not at all.
    ///
    /// # Errors
    ///
    /// [`FinetuneError::Exists`] for a file that is there, unless it is to be overwritten; [`FinetuneError::Write`],
    /// and those of the device.
    pub fn write_adapter(
        &self,
        path: impl AsRef<Path>,
        overwrite: bool,
    ) -> Result<(), FinetuneError> {
        let path = path.as_ref();
        if !overwrite && fs::symlink_metadata(path).is_ok() {
            return Err(FinetuneError::Exists(path.to_owned()));
        }
        let config = &self.config;
        let in_halves =
            config.spec().rotates_neighbors() && config.rope_pairing == RopePairing::Half;
        let learned = |(weight, change): &(String, Lora)| -> Result<_, FinetuneError> {
            let is_rotated =
                weight.ends_with(".attn_q.weight") || weight.ends_with(".attn_k.weight");
            Ok(LearnedChange {
                weight: weight.clone(),
                rank: self.options.rank,
                down: self.trainer.read(change.down())?,
                up: self.trainer.read(change.up())?,
                head_dim: (in_halves && is_rotated).then_some(config.head_dim),
            })
        };
        let learned = self.parts.changes.iter().map(learned);
        let learned = learned.collect::<Result<Vec<_>, _>>()?;
        let architecture = config.architecture.name();
        adapter::write(path, overwrite, architecture, self.options.alpha(), learned)
    }
}

/// A document's tokens, from the one that begins a text to the one that ends it, where the model has them.
fn tokens(tokenizer: &Tokenizer, document: &str) -> Vec<u32> {
    let options = EncodeOptions {
        add_special: true,
        parse_special: false,
    };
    let mut tokens = tokenizer.encode_with(document, options);
    if let Some(end) = tokenizer.eos()
        && tokens.last() != Some(&end)
    {
        tokens.push(end);
    }
    tokens
}

/// Tokens that follow another one.
fn predicted(documents: &[Vec<u32>]) -> usize {
    let lengths = documents.iter().map(Vec::len);
    lengths.map(|length| length.saturating_sub(1)).sum()
}

/// What a checkpoint says about a run, so that another one does not go on from it.
fn notes(
    file: &ModelFile,
    config: &Config,
    options: &FinetuneOptions,
    text: [&[Vec<u32>]; 2],
) -> Vec<(&'static str, String)> {
    let mut model = Digest::new();
    model.add(config.architecture.name().as_bytes());
    for tensor in file.tensors() {
        model.add(tensor.name().as_bytes());
        model.add(tensor.tensor_type().name().as_bytes());
        // A part of each tells models of one shape apart.
        let bytes = file.bytes(tensor);
        model.add(&bytes[..bytes.len().min(1024)]);
    }
    let mut tokens = Digest::new();
    for documents in text {
        for document in documents {
            for token in document {
                tokens.add(&token.to_le_bytes());
            }
            tokens.add(b"end");
        }
    }
    let targets = options.targets.iter().map(|target| target.name());
    vec![
        ("model", model.text()),
        ("text", tokens.text()),
        ("rank", options.rank.to_string()),
        ("alpha", options.alpha().to_string()),
        ("targets", targets.collect::<Vec<_>>().join(" ")),
        ("sequence", options.sequence.to_string()),
        ("batch", options.batch.to_string()),
        ("seed", options.seed.to_string()),
    ]
}

/// FNV-1a with 64 bits (Fowler, Noll and Vo): the same everywhere.
struct Digest(u64);

impl Digest {
    fn new() -> Digest {
        Digest(0xcbf2_9ce4_8422_2325)
    }

    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn text(&self) -> String {
        format!("{:016x}", self.0)
    }
}
