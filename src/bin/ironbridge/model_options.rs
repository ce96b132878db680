//! Which model a command runs, and with how much room.

use std::error::Error;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use indicatif::ProgressBar;
use ironbridge::llama::{
    CacheType, LoadOptions, LoraAdapter, Model, ModelFile, SessionOptions, WeightStorage,
};
use ironbridge::{ActivationPrecision, Device};

use crate::rope_options::RopeOptions;
use crate::terminal::progress;

#[derive(Args)]
pub struct ModelOptions {
    /// A GGUF file, or a folder with config.json and .safetensors files
    #[arg(short, long, value_name = "FILE")]
    pub model: PathBuf,
    /// Positions to make room for; 0: what the model was trained on, up to 4096
    #[arg(long, default_value_t = 0, value_name = "N")]
    context: usize,
    /// Tokens that are computed together; 0: 512
    #[arg(long, default_value_t = 0, value_name = "N")]
    batch: usize,
    /// How keys and values are cached
    #[arg(long, value_enum, default_value_t = Cache::F32, value_name = "TYPE")]
    cache: Cache,
    /// How exactly products have the activations of up to 16 tokens: 8 bits where the device is faster with them, at
    /// least 16 bits, or 8 bits where there is a kernel for it
    #[arg(long, value_enum, default_value_t = Activations::Automatic, value_name = "HOW")]
    activations: Activations,
    /// Where the weights are: in the mapped file, moved out of it while the model is used, copied when it is loaded, or
    /// what suits the device and the machine's memory
    #[arg(long, value_enum, default_value_t = Storage::Automatic, value_name = "WHERE")]
    weights: Storage,
    /// A LoRA adapter in llama.cpp's GGUF form, to run the model with; can be given again
    #[arg(long = "lora", value_name = "FILE")]
    adapters: Vec<PathBuf>,
    /// What the changes of all adapters are multiplied by
    #[arg(long = "lora-scale", default_value_t = 1.0, value_name = "X")]
    adapter_scale: f32,
    #[command(flatten)]
    rope: RopeOptions,
    /// Device: default, metal, cpu, or an index of `ironbridge devices`
    #[arg(long, default_value = "default")]
    device: String,
}

/// For commands that run it once, with that many threads.
#[derive(Args)]
pub struct RunOptions {
    #[command(flatten)]
    model: ModelOptions,
    /// Threads of the software device; without it, what IRONBRIDGE_THREADS says, or one for each processor
    #[arg(short, long, value_name = "T", value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: Option<u32>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Cache {
    F32,
    F16,
    #[value(name = "q8_0")]
    Q8_0,
}

#[derive(Clone, Copy, ValueEnum)]
enum Activations {
    Automatic,
    Float,
    Bytes,
}

#[derive(Clone, Copy, ValueEnum)]
enum Storage {
    Automatic,
    Mapped,
    Moved,
    Copied,
}

impl RunOptions {
    /// As [`ModelOptions::load`], on the threads that were asked for.
    pub fn load(&self, quiet: bool) -> Result<Model, Box<dyn Error>> {
        let model = self.model.load(quiet)?;
        if let Some(threads) = self.threads {
            model.device().set_compute_threads(threads)?;
        }
        Ok(model)
    }

    pub fn name(&self) -> String {
        self.model.name()
    }

    pub fn session_options(&self) -> SessionOptions {
        self.model.session_options()
    }
}

impl ModelOptions {
    /// Opens the device and loads the model, with a progress bar unless `quiet`.
    pub fn load(&self, quiet: bool) -> Result<Model, Box<dyn Error>> {
        self.load_on(&Device::open(&self.device)?, quiet)
    }

    /// Loads the model on a device that a command has chosen.
    pub fn load_on(&self, device: &Device, quiet: bool) -> Result<Model, Box<dyn Error>> {
        let mut file = ModelFile::open(&self.model)?;
        self.rope.apply(&mut file)?;
        let bar = match quiet {
            true => ProgressBar::hidden(),
            false => progress(0, "{msg} {bar:40} {bytes}/{total_bytes}")
                .with_message(format!("loading {}", self.name())),
        };
        let options = LoadOptions {
            weights: match self.weights {
                Storage::Automatic => WeightStorage::Automatic,
                Storage::Mapped => WeightStorage::Mapped,
                Storage::Moved => WeightStorage::Moved,
                Storage::Copied => WeightStorage::Copied,
            },
        };
        let model = Model::load(device, &file, options, &mut |loaded| {
            bar.set_length(loaded.total);
            bar.set_position(loaded.done);
        });
        bar.finish_and_clear();
        let mut model = model?;
        for path in &self.adapters {
            let adapter = LoraAdapter::open(path)?;
            model = model.with_adapter(&adapter, self.adapter_scale)?;
        }
        Ok(model)
    }

    /// The file's or the folder's own name.
    pub fn name(&self) -> String {
        let name = self.model.file_name().unwrap_or(self.model.as_os_str());
        name.to_string_lossy().into_owned()
    }

    pub fn session_options(&self) -> SessionOptions {
        SessionOptions {
            context: (self.context > 0).then_some(self.context),
            batch: (self.batch > 0).then_some(self.batch),
            cache: match self.cache {
                Cache::F32 => CacheType::F32,
                Cache::F16 => CacheType::F16,
                Cache::Q8_0 => CacheType::Q8_0,
            },
            activations: match self.activations {
                Activations::Automatic => ActivationPrecision::Automatic,
                Activations::Float => ActivationPrecision::Float,
                Activations::Bytes => ActivationPrecision::Bytes,
            },
            ..Default::default()
        }
    }
}
