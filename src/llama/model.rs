//! The model: Touvron et al. 2023, arXiv:2302.13971, section 2.2.

mod attention;
mod block;
mod mlp;
mod norm;

use std::path::Path;

use super::activations::Activations;
use super::kv_cache::KvCache;
use super::model_file::{ModelFile, ModelFormat};
use super::tokenizer::{EncodeOptions, Tokenizer};
use super::weights::{LoadProgress, Weight, WeightStorage, Weights};
use super::{Config, Session, SessionOptions};
use crate::ops::{Embedding, Matmul, RopePairing};
use crate::{Commands, Device, Result};
use block::Block;
use norm::Norm;

/// A LLaMA whose weights are on a device. It is never changed: any number of sessions can use it, on any threads.
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
#[derive(Debug)]
pub struct Model {
    device: Device,
    config: Config,
    tokenizer: Tokenizer,
    embedding: Weight, // vocabulary × width
    blocks: Vec<Block>,
    norm: Norm,
    output: Weight, // vocabulary × width
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
    /// [`Error::Llama`](crate::Error::Llama) when the file is not a LLaMA that can run here, and the device's errors.
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
        let metadata = file.metadata();
        let tokenizer = Tokenizer::from_metadata(metadata)?;
        let mut config = Config::from_metadata(metadata, tokenizer.vocabulary_size())?;
        if file.format() == ModelFormat::HuggingFace {
            // Whatever the architecture; its weights are used as they are.
            config.rope_pairing = RopePairing::Half;
        }
        let (vocabulary, width) = (config.vocabulary, config.width);

        let mut weights = Weights::new(device, file, options.weights, progress)?;
        let embedding = weights.matrix("token_embd.weight", width, vocabulary)?;
        let rope_factors = weights.optional_vector("rope_freqs.weight", config.rotary_dim / 2)?;
        let blocks = (0..config.layers)
            .map(|layer| Block::load(&mut weights, &config, layer, rope_factors.clone()));
        let blocks = blocks.collect::<Result<_>>()?;
        let norm = Norm::load(&mut weights, &config, "output_norm.weight")?;
        // Models that have none use the embedding both ways.
        let output = weights.optional_matrix("output.weight", width, vocabulary)?;
        weights.finish()?;
        Ok(Model {
            device: device.clone(),
            output: output.unwrap_or_else(|| embedding.clone()),
            config,
            tokenizer,
            embedding,
            blocks,
            norm,
        })
    }

    /// The model's shape.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The model's tokenizer.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// The device that the weights are on.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The tokens of a prompt, with the token that begins a text where the model wants one. Names of control tokens in
    /// the prompt are text.
    pub fn encode_prompt(&self, prompt: &str) -> Vec<u32> {
        let options = EncodeOptions {
            add_special: true,
            parse_special: false,
        };
        self.tokenizer.encode_with(prompt, options)
    }

    /// A session with the default options.
    ///
    /// # Errors
    ///
    /// As [`Session::new`].
    pub fn session(&self) -> Result<Session<'_>> {
        Session::new(self, SessionOptions::default())
    }

    /// Records a forward pass over the first `tokens` of `state.ids`, which follow the first `position` ones of the
    /// cache. At its end `state.logits` has the scores of what comes after the last token.
    pub(super) fn forward(
        &self,
        commands: &mut Commands,
        state: &Activations,
        cache: &KvCache,
        position: usize,
        tokens: usize,
    ) -> Result<()> {
        let (vocabulary, width) = (self.config.vocabulary, self.config.width);
        let x = state.x.tensor(); // tokens × width
        commands.embedding(&Embedding {
            rows: tokens,
            width,
            vocab: vocabulary,
            table: self.embedding.tensor(),
            ids: state.ids.tensor(),
            out: x,
        })?;
        for (layer, block) in self.blocks.iter().enumerate() {
            block.forward(
                commands,
                &self.config,
                state,
                cache.layer(layer),
                position,
                tokens,
            )?;
        }
        let last = (tokens - 1) * width;
        let normed = state.normed.tensor(); // width: the last token's alone
        self.norm.forward(commands, 1, x.skip(last), normed)?;
        commands.matmul(&Matmul {
            m: 1,
            n: vocabulary,
            k: width,
            a: normed,
            b: self.output.tensor(),
            transpose_b: true,
            c: state.logits.tensor(),
            ..Default::default()
        })
    }
}
