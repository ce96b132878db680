//! The model: Touvron et al. 2023, arXiv:2302.13971, section 2.2.

pub(crate) mod activations;
mod adapter;
mod attention;
mod block;
pub(crate) mod kv_cache;
mod linear;
mod mlp;
mod norm;
pub(crate) mod weights;

use std::ops::{ControlFlow, Range};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use super::tokenizer::{EncodeOptions, Tokenizer};
use crate::buffer::Buffer;
use crate::commands::Commands;
use crate::device::Device;
use crate::error::Result;
use crate::llama::arch::config::{Config, LayerPlan};
use crate::llama::files::model_file::ModelFile;
use crate::llama::files::progress::LoadProgress;
use crate::ops::{Activation, Argmax, Embedding};
use crate::tensor::Tensor;
use activations::{Activations, Scores, Turn};
use block::Block;
use kv_cache::KvCache;
use linear::Linear;
use norm::Norm;
use weights::weight::Weight;
use weights::{Repacker, WeightStorage, Weights};

/// A model whose weights are on a device. It is never changed: any number of sessions can use it, on any threads. A
/// clone is the same model.
///
/// ```no_run
/// use ironbridge::Device;
/// use ironbridge::llama::{Model, Sampler, SamplerOptions};
///
/// # fn main() -> Result<(), ironbridge::Error> {
/// let model = Model::open(&Device::open("default")?, "assets/tiny-rustbook-q8_0.gguf")?;
/// let mut session = model.session()?;
/// let prompt = model.encode_prompt("Ownership is");
/// for piece in session.generate(&prompt, Sampler::new(SamplerOptions::default())?, 24) {
///     print!("{}", piece?.text);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Model(Arc<Parts>);

#[derive(Clone, Debug)]
struct Parts {
    device: Device,
    config: Config,
    tokenizer: Arc<Tokenizer>,
    chat_template: Option<String>,
    embedding: Weight, // vocabulary × width
    blocks: Vec<Block>,
    norm: Norm,
    output: Linear, // width to vocabulary
    /// Of weights that are still in their file and are to leave it.
    repacker: Arc<Mutex<Option<Repacker>>>,
    /// Of adapters; 0: there is none.
    largest_rank: usize,
}

/// A forward pass: tokens of one sequence or of several, each token one row of the activations.
pub(super) struct Pass<'a> {
    /// The rows of all spans, in their order and without gaps.
    pub rows: usize,
    pub spans: Vec<Span<'a>>,
    /// Where each row's token stands in its text.
    pub positions: &'a Buffer<u32>,
}

/// Tokens of one sequence: rows from `row` on, which follow the first `position` ones in its cache.
#[derive(Clone, Copy)]
pub(super) struct Span<'a> {
    pub cache: &'a KvCache,
    pub position: usize,
    pub row: usize,
    pub tokens: usize,
}

/// How to load a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoadOptions {
    /// Where the weights are to be.
    pub weights: WeightStorage,
}

impl Model {
    /// Loads a GGUF file, or a folder of Hugging Face's.
    ///
    /// # Errors
    ///
    /// [`Error::Llama`](crate::Error::Llama) when the file is no model that can run here, and the device's errors.
    pub fn open(device: &Device, path: impl AsRef<Path>) -> Result<Model> {
        Model::load(
            device,
            &ModelFile::open(path)?,
            LoadOptions::default(),
            &mut |_| (),
        )
    }

    /// Loads a file that is open already and reports progress on the way. The file itself may be dropped afterwards.
    ///
    /// # Errors
    ///
    /// As [`open`](Model::open).
    pub fn load(
        device: &Device,
        file: &ModelFile,
        options: LoadOptions,
        progress: &mut dyn FnMut(LoadProgress),
    ) -> Result<Model> {
        Model::load_while(device, file, options, &mut |loaded| {
            progress(loaded);
            ControlFlow::Continue(())
        })
    }

    /// The same, given up when `progress` says so.
    ///
    /// # Errors
    ///
    /// As [`open`](Model::open), and [`LlamaError::Cancelled`](crate::llama::LlamaError::Cancelled) after
    /// [`ControlFlow::Break`].
    pub fn load_while(
        device: &Device,
        file: &ModelFile,
        options: LoadOptions,
        progress: &mut dyn FnMut(LoadProgress) -> ControlFlow<()>,
    ) -> Result<Model> {
        let tokenizer = Tokenizer::from_metadata(file.metadata())?;
        let config = Config::of_file(file, tokenizer.vocabulary_size())?;
        let mut weights = Weights::new(device, file, options.weights, progress)?;
        let (vocabulary, width) = (config.vocabulary, config.width);
        let embedding = weights.matrix("token_embd.weight", width, vocabulary)?;
        let mut rope_factors = RopeFactors::new(device, &config, &mut weights)?;
        let blocks = (0..config.layers).map(|layer| {
            let factors = rope_factors.of(&config, layer)?;
            Block::load(&mut weights, &config, layer, factors)
        });
        let blocks = blocks.collect::<Result<_>>()?;
        weights.next_part();
        let norm = Norm::load(&mut weights, &config, "output_norm.weight", width)?;
        // Models that have none use the embedding both ways.
        let output = weights.optional_matrix("output.weight", width, vocabulary)?;
        let repacker = weights.finish()?;
        let output = output.unwrap_or_else(|| embedding.clone());
        Ok(Model(Arc::new(Parts {
            device: device.clone(),
            output: Linear::of(output, width, vocabulary),
            config,
            tokenizer: Arc::new(tokenizer),
            chat_template: file
                .metadata()
                .get("tokenizer.chat_template")?
                .map(str::to_owned),
            embedding,
            blocks,
            norm,
            repacker: Arc::new(Mutex::new(repacker)),
            largest_rank: 0,
        })))
    }

    /// The model's shape.
    pub fn config(&self) -> &Config {
        &self.0.config
    }

    /// The model's tokenizer.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.0.tokenizer
    }

    pub(crate) fn shared_tokenizer(&self) -> Arc<Tokenizer> {
        self.0.tokenizer.clone()
    }

    /// The Jinja template that writes a conversation as this model was trained to read it, where the file has one.
    pub fn chat_template(&self) -> Option<&str> {
        self.0.chat_template.as_deref()
    }

    /// The device that the weights are on.
    pub fn device(&self) -> &Device {
        &self.0.device
    }

    /// The tokens of a prompt, with the token that begins a text where the model wants one. Names of control tokens in
    /// the prompt are text.
    pub fn encode_prompt(&self, prompt: &str) -> Vec<u32> {
        let options = EncodeOptions {
            add_special: true,
            parse_special: false,
        };
        self.tokenizer().encode_with(prompt, options)
    }

    /// Moves at once all weights that [`WeightStorage::Moved`] would move little by little. For a program that has time
    /// now rather than later, such as a server that starts. What there is no memory for stays where it is.
    pub fn settle(&self) {
        let repacker = &self.0.repacker;
        let mut repacker = repacker.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(all) = repacker.take() {
            all.finish();
        }
    }

    /// Between passes: moves some of the weights that are to move.
    pub(super) fn move_weights(&self) {
        // Where another session does it at this moment, this one need not.
        if let Ok(mut repacker) = self.0.repacker.try_lock()
            && repacker.as_mut().is_some_and(|repacker| !repacker.step())
        {
            *repacker = None;
        }
    }

    /// Says of how many tokens a pass was.
    pub(super) fn passed(&self, tokens: usize) {
        if let Ok(mut repacker) = self.0.repacker.try_lock()
            && let Some(repacker) = &mut *repacker
        {
            repacker.add_budget(tokens);
        }
    }

    /// Records the beginning of a forward pass: `state.x` of `ids`.
    pub(super) fn embed(
        &self,
        commands: &mut Commands,
        state: &Activations,
        ids: &Buffer<u32>,
        rows: usize,
    ) -> Result<()> {
        let parts = &*self.0;
        let Config {
            vocabulary, width, ..
        } = parts.config;
        let table = parts.embedding.place();
        let embedding = Embedding::new(
            table.tensor().matrix(vocabulary, width),
            ids.tensor().vector(rows),
            state.x.matrix(rows, width),
        );
        commands.embedding(&embedding.with_scale(parts.config.embedding_scale()))
    }

    /// Records some of its layers, one after another; the last one's end is `state.x`, before the last norm.
    pub(super) fn layers(
        &self,
        commands: &mut Commands,
        state: &Activations,
        pass: &Pass,
        layers: Range<usize>,
    ) -> Result<()> {
        let parts = &*self.0;
        for layer in layers {
            parts.blocks[layer].forward(commands, &parts.config, state, layer, pass)?;
        }
        Ok(())
    }

    /// Records the scores of what comes after each of the rows `state.outputs` of `rows`: rows `first` and on of
    /// `state.logits`, outputs × vocabulary.
    pub(super) fn score(
        &self,
        commands: &mut Commands,
        state: &Activations,
        rows: usize,
        outputs: usize,
        first: usize,
    ) -> Result<()> {
        let width = self.0.config.width;
        let gathered = state.delta.matrix(outputs, width);
        commands.embedding(&Embedding::new(
            state.x.matrix(rows, width),
            state.outputs.tensor().vector(outputs),
            gathered,
        ))?;
        let logits = state.logits.place(first);
        self.score_of(commands, state, gathered, logits, outputs)?;
        state.logits.record(commands, first, outputs)
    }

    /// Records the scores of what comes after each of the rows, and which are the largest of them.
    pub(super) fn score_turn(
        &self,
        commands: &mut Commands,
        state: &Activations,
        turn: &Turn,
        rows: usize,
    ) -> Result<()> {
        let (x, logits) = (
            state.x.matrix(rows, self.0.config.width),
            turn.logits.place(0),
        );
        self.score_of(commands, state, x, logits, rows)?;
        self.find_likeliest(commands, &turn.logits, turn, rows)?;
        turn.logits.record(commands, 0, rows)
    }

    /// Records which are the largest of the first `rows` rows of `scores`: `turn.likeliest`.
    pub(super) fn find_likeliest(
        &self,
        commands: &mut Commands,
        scores: &Scores,
        turn: &Turn,
        rows: usize,
    ) -> Result<()> {
        let logits = scores.place(0).matrix(rows, self.0.config.vocabulary);
        commands.argmax(&Argmax::new(logits, turn.likeliest.tensor().vector(rows)))
    }

    /// Records `logits`, rows × vocabulary, of `x`, rows × width.
    fn score_of(
        &self,
        commands: &mut Commands,
        state: &Activations,
        x: Tensor,
        logits: Tensor,
        rows: usize,
    ) -> Result<()> {
        let parts = &*self.0;
        let Config {
            vocabulary, width, ..
        } = parts.config;
        let normed = state.normed.matrix(rows, width);
        parts.norm.forward(commands, rows, x, normed)?;
        let logits = logits.matrix(rows, vocabulary);
        let low = state.low.tensor();
        parts.output.forward(commands, rows, normed, logits, low)?;
        match parts.config.output_cap {
            None => Ok(()),
            Some(cap) => commands.tanh(&Activation::new(logits, logits).with_scale(cap)),
        }
    }

    /// Records the last norm of all rows: `state.normed`, rows × width.
    pub(super) fn normalize(
        &self,
        commands: &mut Commands,
        state: &Activations,
        rows: usize,
    ) -> Result<()> {
        let (x, normed) = (state.x.tensor(), state.normed.tensor());
        self.0.norm.forward(commands, rows, x, normed)
    }
}

/// What the frequencies of the rotation are divided by, for the layers that share a rotation.
struct RopeFactors<'a> {
    device: &'a Device,
    /// The file's, which hold for all layers.
    stored: Option<Weight>,
    /// Those that follow from the configuration, each once.
    made: Vec<(LayerPlan, Option<Weight>)>,
}

impl<'a> RopeFactors<'a> {
    fn new(device: &'a Device, config: &Config, weights: &mut Weights) -> Result<RopeFactors<'a>> {
        Ok(RopeFactors {
            device,
            stored: weights.optional_vector("rope_freqs.weight", config.rotary_dim / 2)?,
            made: Vec::new(),
        })
    }

    fn of(&mut self, config: &Config, layer: usize) -> Result<Option<Weight>> {
        if self.stored.is_some() {
            return Ok(self.stored.clone());
        }
        let plan = config.plans[layer];
        let mut made = self.made.iter();
        if let Some((_, weight)) = made.find(|(known, _)| known.has_rotation_of(&plan)) {
            return Ok(weight.clone());
        }
        let factors = plan
            .rope_scaling
            .frequency_factors(plan.rope_base, config.rotary_dim);
        let weight = factors
            .map(|factors| Weight::of_numbers(self.device, "frequency factors", &factors))
            .transpose()?;
        self.made.push((plan, weight.clone()));
        Ok(weight)
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    /// It ends the call as any panic does, and what was loaded until then goes.
    #[test]
    fn progress_that_panics_leaves_nothing_behind() {
        let device = Device::open("cpu").unwrap();
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/assets/tiny-rustbook-q8_0.gguf"
        );
        let file = ModelFile::open(path).unwrap();
        let before = device.memory().unwrap();
        let load = || {
            Model::load(&device, &file, LoadOptions::default(), &mut |_| {
                panic!("the caller's own")
            })
        };
        assert!(catch_unwind(AssertUnwindSafe(load)).is_err());
        device.cleanup().unwrap();
        assert_eq!(device.memory().unwrap().since(&before).bytes(), 0);
        Model::open(&device, path).unwrap();
    }
}
