//! A model of a file on a tape, with changes of low rank beside its matrices.

use crate::device::Device;
use crate::dtype::DType;
use crate::finetune::error::FinetuneError;
use crate::finetune::options::{FinetuneOptions, LoraTarget};
use crate::llama::floats::floats;
use crate::llama::gguf::TensorType;
use crate::llama::iq::{self, DecodeBlock};
use crate::llama::spec::Gate;
use crate::llama::{Config, LayerPlan, LlamaError, ModelFile, ModelTensor};
use crate::memory::Category;
use crate::ops::Embedding;
use crate::train::{Lora, Rotation, Tape, Trainer, Variable};

/// What a tape has for a model.
pub(super) struct Network {
    pub tape: Tape,
    pub ids: Variable,
    pub labels: Variable,
    pub loss: Variable,
    /// The changes by the weights' names.
    pub changes: Vec<(String, Lora)>,
    /// What is to be written before the first step.
    pub loads: Vec<Load>,
}

/// A tensor of the tape, and where its values come from.
#[derive(Debug)]
pub(super) struct Load {
    pub variable: Variable,
    pub from: Source,
}

#[derive(Debug)]
pub(super) enum Source {
    /// A tensor of the file, by its name.
    Tensor {
        name: String,
        how: How,
    },
    Numbers(Vec<f32>),
}

/// How a tensor of the file becomes one of the tape.
#[derive(Clone, Copy, Debug)]
pub(super) enum How {
    /// As it is stored.
    Stored,
    /// Blocks that no kernel takes, as F32.
    Decoded(DecodeBlock),
    /// As the F32 that this type stands for.
    Unpacked(DType),
    /// A vector, as F32.
    Widened,
}

impl Network {
    /// Records a whole model for as many tokens as the options say.
    pub fn new(
        file: &ModelFile,
        config: &Config,
        options: &FinetuneOptions,
    ) -> Result<Network, FinetuneError> {
        check(config, options)?;
        let mut builder = Builder {
            file,
            config,
            options,
            tape: Tape::new(options.seed),
            taken: vec![false; file.tensors().len()],
            loads: Vec::new(),
            changes: Vec::new(),
            factors: Vec::new(),
        };
        let [ids, labels, loss] = builder.model()?;
        if let Some(index) = builder.taken.iter().position(|taken| !taken) {
            let name = file.tensors()[index].name().to_owned();
            return Err(LlamaError::UnexpectedTensor(name).into());
        }
        Ok(Network {
            tape: builder.tape,
            ids,
            labels,
            loss,
            changes: builder.changes,
            loads: builder.loads,
        })
    }
}

/// Some models have what has no gradient here.
fn check(config: &Config, options: &FinetuneOptions) -> Result<(), FinetuneError> {
    let refuse = |reason: String| {
        Err(FinetuneError::Architecture {
            architecture: config.architecture.name(),
            reason,
        })
    };
    if config.attention_cap.is_some() || config.output_cap.is_some() {
        return refuse("its scores have soft caps, which have no gradient yet".to_owned());
    }
    let windows = config.plans.iter().filter_map(|plan| plan.window);
    match windows.min() {
        Some(window) if window < options.sequence => refuse(format!(
            "it sees {window} tokens back, and sequences of {} are longer",
            options.sequence
        )),
        _ => Ok(()),
    }
}

struct Builder<'a> {
    file: &'a ModelFile,
    config: &'a Config,
    options: &'a FinetuneOptions,
    tape: Tape,
    /// Whether each of the file's tensors is used.
    taken: Vec<bool>,
    loads: Vec<Load>,
    changes: Vec<(String, Lora)>,
    /// Divisors of rotations, each once.
    factors: Vec<(LayerPlan, Option<Variable>)>,
}

impl Builder<'_> {
    /// Records all layers; ids, labels and the loss.
    fn model(&mut self) -> Result<[Variable; 3], FinetuneError> {
        let config = self.config;
        let (vocabulary, width) = (config.vocabulary, config.width);
        let rows = self.options.sequence * self.options.batch;
        let ids = self.tape.ids("ids", rows)?;
        let labels = self.tape.labels("labels", rows)?;
        let positions = (self.tape).positions("positions", rows, self.options.sequence)?;
        let stored_factors = self.stored_factors()?;
        let table = self.matrix("token_embd.weight", width, vocabulary)?;
        let scale = config.embedding_scale().unwrap_or(1.0);
        let mut x = self.tape.scaled_embedding("embedded", table, ids, scale)?;
        for layer in 0..config.layers {
            let start = self.tape.recorded();
            x = self.block(layer, x, positions, stored_factors)?;
            if self.options.recompute {
                self.tape.recompute_from(start);
            }
        }
        let normed = self.norm("output_norm", x, width)?;
        // Models that have none use the embedding both ways.
        let output = match self.file.tensor("output.weight") {
            Some(_) => self.matrix("output.weight", width, vocabulary)?,
            None => table,
        };
        let logits = self.tape.linear("logits", normed, output, None)?;
        let loss = self.tape.cross_entropy("loss", logits, labels)?;
        Ok([ids, labels, loss])
    }

    /// x = x + attention(norm(x)), then x = x + mlp(norm(x)), with the norms that the family has.
    fn block(
        &mut self,
        layer: usize,
        x: Variable,
        positions: Variable,
        stored_factors: Option<Variable>,
    ) -> Result<Variable, FinetuneError> {
        let config = self.config;
        let named = |part: &str| format!("blk.{layer}.{part}");
        let normed = self.norm(&named("attn_norm"), x, config.width)?;
        let mut delta = self.attention(layer, normed, positions, stored_factors)?;
        if config.spec().post_norms {
            delta = self.norm(&named("post_attention_norm"), delta, config.width)?;
        }
        let x = self.tape.add(&named("attended"), x, delta)?;

        let normed = self.norm(&named("ffn_norm"), x, config.width)?;
        let mut delta = self.feed_forward(layer, normed)?;
        if config.spec().post_norms {
            delta = self.norm(&named("post_ffw_norm"), delta, config.width)?;
        }
        Ok(self.tape.add(&named("fed"), x, delta)?)
    }

    fn attention(
        &mut self,
        layer: usize,
        x: Variable,
        positions: Variable,
        stored_factors: Option<Variable>,
    ) -> Result<Variable, FinetuneError> {
        let config = self.config;
        let (plan, head_dim) = (config.plans[layer], config.head_dim);
        let (width, query_dim, kv_dim) = (config.width, config.query_dim(), config.kv_dim());
        let named = |part: &str| format!("blk.{layer}.{part}");
        let mut q = self.linear(layer, LoraTarget::Query, x, [width, query_dim])?;
        let mut k = self.linear(layer, LoraTarget::Key, x, [width, kv_dim])?;
        let v = self.linear(layer, LoraTarget::Value, x, [width, kv_dim])?;
        if config.spec().head_norms {
            q = self.norm(&named("attn_q_norm"), q, head_dim)?;
            k = self.norm(&named("attn_k_norm"), k, head_dim)?;
        }
        let rotation = Rotation {
            head_dim,
            base: plan.rope_base,
            pairing: config.rope_pairing,
        };
        let factors = match stored_factors {
            Some(stored) => Some(stored),
            None => self.factors_of(&plan)?,
        };
        let [q, k] = [("attn_q.rotated", q), ("attn_k.rotated", k)].map(|(name, x)| {
            let (tape, name) = (&mut self.tape, named(name));
            match factors {
                Some(factors) => tape.rope_with_factors(&name, x, positions, rotation, factors),
                None => tape.rope(&name, x, positions, rotation),
            }
        });
        let scale = plan.rope_scaling.score_scale() * config.attention_scale;
        let heads = self.tape.scaled_attention(
            &named("heads"),
            [q?, k?, v],
            head_dim,
            self.options.sequence,
            scale,
        )?;
        self.linear(
            layer,
            LoraTarget::AttentionOutput,
            heads,
            [query_dim, width],
        )
    }

    fn feed_forward(&mut self, layer: usize, x: Variable) -> Result<Variable, FinetuneError> {
        let (width, inner) = (self.config.width, self.config.feed_forward);
        let gate = self.linear(layer, LoraTarget::Gate, x, [width, inner])?;
        let up = self.linear(layer, LoraTarget::Up, x, [width, inner])?;
        let name = format!("blk.{layer}.gated");
        let gated = match self.config.spec().gate {
            Gate::Silu => self.tape.silu_mul(&name, gate, up)?,
            Gate::Gelu => self.tape.gelu_mul(&name, gate, up)?,
        };
        self.linear(layer, LoraTarget::Down, gated, [inner, width])
    }

    /// A product with a layer's matrix, and with its change if it has one.
    fn linear(
        &mut self,
        layer: usize,
        target: LoraTarget,
        x: Variable,
        [inputs, outputs]: [usize; 2],
    ) -> Result<Variable, FinetuneError> {
        let name = format!("blk.{layer}.{}", target.name());
        let weight_name = format!("{name}.weight");
        let weight = self.matrix(&weight_name, inputs, outputs)?;
        let bias_name = format!("{name}.bias");
        let is_projection = matches!(
            target,
            LoraTarget::Query | LoraTarget::Key | LoraTarget::Value
        );
        let needs_bias = is_projection && self.config.spec().qkv_bias;
        let bias = match self.file.tensor(&bias_name).is_some() || needs_bias {
            true => Some(self.vector(&bias_name, outputs)?),
            false => None,
        };
        if !self.options.targets.contains(&target) {
            let out = self.tape.linear(&format!("{name}.out"), x, weight, bias)?;
            return Ok(out);
        }
        let (rank, alpha) = (self.options.rank, self.options.alpha());
        let mut change = Lora::new(&mut self.tape, &weight_name, weight, rank, alpha)?;
        if let Some(bias) = bias {
            change = change.with_bias(bias);
        }
        let out = change.forward(&mut self.tape, x)?;
        self.changes.push((weight_name, change));
        Ok(out)
    }

    fn norm(&mut self, name: &str, x: Variable, length: usize) -> Result<Variable, FinetuneError> {
        let weight = self.vector(&format!("{name}.weight"), length)?;
        let name = format!("{name}.out");
        Ok(self
            .tape
            .rms_norm(&name, x, weight, self.config.rms_epsilon)?)
    }

    /// Divisors that the file has, which hold for all layers.
    fn stored_factors(&mut self) -> Result<Option<Variable>, FinetuneError> {
        let name = "rope_freqs.weight";
        match self.file.tensor(name) {
            None => Ok(None),
            Some(_) => Ok(Some(self.vector(name, self.config.rotary_dim / 2)?)),
        }
    }

    /// Divisors that follow from the configuration. A stretch of all positions is one, too.
    fn factors_of(&mut self, plan: &LayerPlan) -> Result<Option<Variable>, FinetuneError> {
        let known = self.factors.iter();
        if let Some((_, made)) = known.rev().find(|(known, _)| known.has_rotation_of(plan)) {
            return Ok(*made);
        }
        let config = self.config;
        let stretch = plan.rope_scaling.frequency_scale();
        let of_plan = (plan.rope_scaling).frequency_factors(plan.rope_base, config.rotary_dim);
        let is_plain = stretch == 1.0 && config.rotary_dim == config.head_dim;
        let made = match (of_plan, is_plain) {
            (None, true) => None,
            (of_plan, _) => {
                let pairs = config.rotary_dim / 2;
                let numbers = of_plan.unwrap_or_else(|| vec![1.0; pairs]);
                let numbers: Vec<f32> = numbers.iter().map(|factor| factor / stretch).collect();
                let name = format!("rope_factors.{}", self.factors.len());
                let variable = self.tape.input(&name, 1, pairs)?;
                self.loads.push(Load {
                    variable,
                    from: Source::Numbers(numbers),
                });
                Some(variable)
            }
        };
        self.factors.push((*plan, made));
        Ok(made)
    }

    fn take(&mut self, name: &str, dimensions: &[usize]) -> Result<TensorType, FinetuneError> {
        let Some(index) = self.file.tensor_index(name) else {
            return Err(LlamaError::MissingTensor(name.to_owned()).into());
        };
        self.taken[index] = true;
        let tensor = &self.file.tensors()[index];
        let expected: Vec<u64> = dimensions.iter().map(|size| *size as u64).collect();
        match tensor.dimensions() == expected {
            true => Ok(tensor.tensor_type()),
            false => Err(LlamaError::TensorShape {
                name: name.to_owned(),
                expected,
                found: tensor.dimensions().to_vec(),
            }
            .into()),
        }
    }

    /// A frozen matrix that takes `inputs` to `outputs`.
    fn matrix(
        &mut self,
        name: &str,
        inputs: usize,
        outputs: usize,
    ) -> Result<Variable, FinetuneError> {
        let stored = self.take(name, &[inputs, outputs])?;
        let (dtype, how) = match (iq::decoder(stored), DType::named(stored.name())) {
            (Some(decode), _) => (DType::F32, How::Decoded(decode)),
            (None, Some(DType::F32)) => (DType::F32, How::Stored),
            (None, Some(dtype)) if self.options.dequantize => (DType::F32, How::Unpacked(dtype)),
            (None, Some(dtype)) => (dtype, How::Stored),
            (None, None) => {
                return Err(LlamaError::TensorType {
                    name: name.to_owned(),
                    found: stored,
                    supported: "types of weights",
                }
                .into());
            }
        };
        let variable = self.tape.frozen(name, outputs, inputs, dtype)?;
        self.load(variable, name, how);
        Ok(variable)
    }

    /// A vector in F32.
    fn vector(&mut self, name: &str, length: usize) -> Result<Variable, FinetuneError> {
        match self.take(name, &[length])? {
            TensorType::F32 | TensorType::F16 | TensorType::BF16 => (),
            found => {
                return Err(LlamaError::TensorType {
                    name: name.to_owned(),
                    found,
                    supported: "F32, F16 and BF16",
                }
                .into());
            }
        }
        let variable = self.tape.input(name, 1, length)?;
        self.load(variable, name, How::Widened);
        Ok(variable)
    }

    fn load(&mut self, variable: Variable, name: &str, how: How) {
        let name = name.to_owned();
        let from = Source::Tensor { name, how };
        self.loads.push(Load { variable, from });
    }
}

impl Load {
    /// Writes the values. Returns how many bytes of the file they were.
    pub fn write(
        &self,
        file: &ModelFile,
        device: &Device,
        trainer: &mut Trainer,
    ) -> Result<u64, FinetuneError> {
        let (tensor, how) = match &self.from {
            Source::Numbers(numbers) => {
                trainer.write(self.variable, numbers)?;
                return Ok(0);
            }
            Source::Tensor { name, how } => (file.tensor(name), how),
        };
        let Some(tensor) = tensor else {
            return Ok(0); // it was there when the plan was made, and a file does not change
        };
        let bytes = file.bytes(tensor);
        match how {
            How::Stored => trainer.write_frozen(self.variable, bytes)?,
            How::Decoded(decode) => {
                let mut numbers = Vec::new();
                iq::decode_to_f32(tensor.tensor_type(), *decode, bytes, &mut numbers);
                trainer.write_frozen(self.variable, &numbers)?;
            }
            How::Unpacked(dtype) => {
                let numbers = unpacked(device, tensor, bytes, *dtype)?;
                trainer.write_frozen(self.variable, &numbers)?;
            }
            How::Widened => {
                let numbers: Vec<f32> = floats(bytes, tensor.tensor_type()).collect();
                trainer.write(self.variable, &numbers)?;
            }
        }
        Ok(bytes.len() as u64)
    }
}

/// The numbers of a matrix as bytes of F32, by the device, some rows at a time.
fn unpacked(
    device: &Device,
    tensor: &ModelTensor,
    bytes: &[u8],
    dtype: DType,
) -> Result<Vec<u8>, FinetuneError> {
    /// Numbers that become F32 together.
    const STEP: usize = 4 << 20;
    let width = tensor.dimensions()[0] as usize;
    let row_bytes = width / dtype.block_elements() * dtype.block_bytes();
    let rows = (STEP / width).max(1);
    let mut numbers = Vec::new();
    for step in bytes.chunks(rows * row_bytes) {
        let rows = step.len() / row_bytes;
        let options = device.buffer_options().label("weights as they are stored");
        let table = options.category(Category::Weights).create_from(step)?;
        let ids: Vec<u32> = (0..rows as u32).collect();
        let ids = device.buffer_from(&ids)?;
        let out = device.buffer::<f32>(rows * width)?;
        let mut commands = device.commands()?;
        commands.embedding(&Embedding::new(
            table.tensor_at(0, dtype).matrix(rows, width),
            ids.tensor().vector(rows),
            out.matrix(rows, width),
        ))?;
        commands.run()?;
        let values = out.map()?;
        numbers.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    }
    Ok(numbers)
}
