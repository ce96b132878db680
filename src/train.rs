//! Training on a device: a tape of operations, gradients, optimizers and checkpoints.
//!
//! A [`Tape`] records the operations of a network once, with the shapes of their tensors. [`Tape::plan`] finds what the
//! backward pass computes and where each tensor lies, so that the memory of a run is known before its first step
//! ([`Plan::memory`]). A [`Trainer`] then plays the plan back, as often as there are steps, through
//! [`Commands`](crate::Commands).
//!
//! ```
//! use ironbridge::Device;
//! use ironbridge::train::{Adam, Linear, Schedule, Tape};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut tape = Tape::new(7); // the seed of the first weights
//! let x = tape.input("x", 4, 2)?;
//! let target = tape.input("target", 4, 1)?;
//! let hidden = Linear::new(&mut tape, "hidden", 2, 4)?.forward(&mut tape, x)?;
//! let hidden = tape.tanh("activated", hidden)?;
//! let out = Linear::new(&mut tape, "out", 4, 1)?.forward(&mut tape, hidden)?;
//! let out = tape.sigmoid("answer", out)?;
//! let loss = tape.mse("loss", out, target)?;
//!
//! let plan = tape.plan(loss)?;
//! let device = Device::open("cpu")?;
//! let mut trainer = plan.trainer(&device, Adam::default(), Schedule::constant(0.1))?;
//! trainer.write(x, &[0.0, 0.0, 0.0, 1.0, 1.0, 0.0, 1.0, 1.0])?;
//! trainer.write(target, &[0.0, 1.0, 1.0, 0.0])?;
//! let first = trainer.step()?;
//! let last = (0..200).try_fold(first, |_, _| trainer.step())?;
//! assert!(last < first / 2.0);
//! # Ok(())
//! # }
//! ```

mod arena;
mod checkpoint;
mod differentiate;
mod error;
mod instruction;
mod language;
mod layers;
mod lora;
mod optimizer;
mod plan;
mod play;
mod precision;
pub(crate) mod random;
mod rotation;
mod schedule;
mod tape;
mod trainer;

pub use error::TrainError;
pub use layers::{Attention, Embedding, Heads, Linear, RmsNorm};
pub use lora::Lora;
pub use optimizer::{Adam, Optimizer, Sgd};
pub use plan::{Plan, TrainMemory};
pub use precision::Precision;
pub use rotation::Rotation;
pub use schedule::Schedule;
pub use tape::{Tape, TensorSpec, Variable};
pub use trainer::Trainer;
