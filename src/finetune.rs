//! Fine-tuning: a language model learns a text by LoRA, a small change beside weights that stay as they are.
//!
//! A [`TrainingText`] is documents, and a [`FinetunePlan`] what a run over them takes: its steps, and its memory before
//! there is any of it. A [`Finetune`] is the run itself. What it has learned becomes an adapter in llama.cpp's form
//! ([`LoraAdapter`](crate::llama::LoraAdapter)). Hu et al. 2021, [arXiv:2106.09685](https://arxiv.org/abs/2106.09685).
//!
//! ```
//! use ironbridge::Device;
//! use ironbridge::finetune::{FinetuneOptions, FinetunePlan, TrainingText};
//! use ironbridge::llama::ModelFile;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/tiny-rustbook-q8_0.gguf");
//! # let folder = tempfile::tempdir()?;
//! # let adapter = folder.path().join("adapter.gguf");
//! let text = TrainingText::from_json_lines("{\"text\": \"The crab walks. The crab swims. The crab sleeps.\"}")?;
//! let options = FinetuneOptions {
//!     sequence: 8,
//!     batch: 1,
//!     steps: Some(3),
//!     hold_out: 0.0,
//!     ..Default::default()
//! };
//! let plan = FinetunePlan::new(&ModelFile::open(path)?, &text, options)?;
//! assert!(plan.memory().total() < 64 << 20);
//! let mut run = plan.start(&Device::open("cpu")?, &mut |_| ())?;
//! while run.steps() < run.all_steps() {
//!     run.step()?;
//! }
//! run.write_adapter(&adapter, false)?;
//! # Ok(())
//! # }
//! ```

mod adapter;
mod batches;
mod error;
mod network;
mod options;
mod run;
mod text;

pub use error::FinetuneError;
pub use options::{FinetuneOptions, LoraTarget};
pub use run::{Evaluation, Finetune, FinetunePlan, FinetuneStep};
pub use text::TrainingText;
