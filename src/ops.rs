//! The operations that [`Commands`](crate::Commands) record, one file each.
//!
//! An operation is a struct: `new` takes its operands, whose shapes are its sizes, and a `with_…` method each thing
//! that has a default. All operands are checked before anything is recorded, so that a failed call leaves the commands
//! as they were. Unless its documentation says otherwise, an operation's output may not overlap an input.
//!
//! Sizes and strides are in elements, matrices are row-major and not transposed, unless an operation says otherwise.
//! What is called a vector may have any shape of as many elements. In formulas `A[i]` is row `i`.
//!
//! # Errors
//! Of every operation, unless its documentation adds to them:
//! - [`Error::InvalidArgument`] when a size is zero or overflows, an operand is missing, leaves its buffer, has another
//!   type or shape than the operation takes, or does not fit the others. The message names the operand.
//! - [`Error::WrongDevice`] when an operand belongs to another device than the commands.
//! - [`Error::InUse`] when the host has mapped an operand in conflict.
//! - [`Error::ReadOnly`] when the output is wrapped memory.
//!
//! What goes wrong on the device is reported by the wait. An input that a failed submission should have written is such
//! a case: the commands that read it fail as well, with [`Error::Poisoned`].
//!
//! ```
//! use ironbridge::{Device, ops::Matmul};
//!
//! # fn main() -> Result<(), ironbridge::Error> {
//! let device = Device::open("cpu")?;
//! let x = device.buffer_from(&[1.0f32, 2.0])?;
//! let w = device.buffer_from(&[1.0f32, 0.0, 0.0, 1.0, 1.0, 1.0])?; // three rows of two: stored [n][k]
//! let y = device.buffer::<f32>(3)?;
//! let mut commands = device.commands()?;
//! commands.matmul(&Matmul::new(x.matrix(1, 2), w.matrix(3, 2).transposed(), y.matrix(1, 3)))?;
//! commands.run()?;
//! assert_eq!(y.to_vec()?, [1.0, 2.0, 3.0]);
//! # Ok(())
//! # }
//! ```
//!
//! Two layers of another network, one after the other in one submission: exclusive or.
//!
//! ```
//! use ironbridge::ops::{Activation, AddBias, Argmax, Matmul, Softmax, Transpose};
//! use ironbridge::Device;
//!
//! # fn main() -> Result<(), ironbridge::Error> {
//! let device = Device::open("cpu")?;
//! let x = device.buffer_from(&[0.0f32, 0.0, 0.0, 1.0, 1.0, 0.0, 1.0, 1.0])?; // four pairs
//! let first = device.buffer_from(&[1.0f32, 1.0, 1.0, 1.0])?; // stored [n][k], as the next one
//! let bias = device.buffer_from(&[0.0f32, -1.0])?;
//! let second = device.buffer_from(&[-20.0f32, 40.0, 20.0, -40.0])?; // scores of "no" and of "yes"
//! let offset = device.buffer_from(&[10.0f32, -10.0])?;
//! let (hidden, scores) = (device.buffer::<f32>(8)?, device.buffer::<f32>(8)?);
//! let (gates, columns) = (device.buffer::<f32>(8)?, device.buffer::<f32>(8)?);
//! let answers = device.buffer::<u32>(4)?;
//!
//! let mut commands = device.commands()?;
//! for (a, b, bias, c) in [(&x, &first, &bias, &hidden), (&hidden, &second, &offset, &scores)] {
//!     let out = c.matrix(4, 2);
//!     commands.matmul(&Matmul::new(a.matrix(4, 2), b.matrix(2, 2).transposed(), out))?;
//!     commands.add_bias(&AddBias::new(out, bias.tensor(), out))?;
//!     if std::ptr::eq(c, &hidden) {
//!         commands.relu(&Activation::new(out, out))?;
//!     }
//! }
//! // A score of each class by itself; all of them together, which sum up to 1.
//! commands.sigmoid(&Activation::new(scores.tensor(), gates.tensor()))?;
//! let scores_of_pairs = scores.matrix(4, 2);
//! commands.softmax(&Softmax::new(scores_of_pairs, scores_of_pairs))?;
//! commands.argmax(&Argmax::new(scores_of_pairs, answers.tensor()))?;
//! commands.transpose(&Transpose::new(scores_of_pairs, columns.matrix(2, 4)))?;
//! commands.tanh(&Activation::new(columns.tensor(), columns.tensor()))?;
//! commands.run()?;
//!
//! assert_eq!(answers.to_vec()?, [0, 1, 1, 0]);
//! assert!(scores.to_vec()?.iter().zip(gates.to_vec()?).all(|(p, gate)| (p - gate).abs() < 1e-4));
//! assert!((columns.to_vec()?[0] - 1f32.tanh()).abs() < 1e-4); // the chance of the first "no"
//! # Ok(())
//! # }
//! ```

mod activation;
mod activation_backward;
mod add_bias;
mod argmax;
mod attention;
mod attention_backward;
mod clip_norm;
mod copy;
mod elementwise;
mod embedding;
mod embedding_backward;
mod fill;
mod gated_backward;
mod linear_backward;
mod loss;
pub(crate) mod matmul;
mod optimizer;
mod rms_norm;
mod rms_norm_backward;
mod rope;
mod shapes;
mod softmax;
mod softmax_backward;
mod sum_rows;
mod sum_squares;
mod transpose;

pub use activation::Activation;
pub use add_bias::AddBias;
pub use argmax::Argmax;
pub use attention::Attention;
pub use attention_backward::AttentionBackward;
pub use clip_norm::ClipNorm;
pub use copy::{CopyBytes, CopyRows};
pub use elementwise::Elementwise;
pub use embedding::Embedding;
pub use embedding_backward::EmbeddingBackward;
pub use fill::Fill;
pub use gated_backward::GatedBackward;
pub use linear_backward::LinearBackward;
pub use loss::{CrossEntropy, Mse};
pub use matmul::Matmul;
pub use optimizer::{Adam, Sgd};
pub use rms_norm::RmsNorm;
pub use rms_norm_backward::RmsNormBackward;
pub use rope::{Rope, RopePairing};
pub use softmax::Softmax;
pub use softmax_backward::SoftmaxBackward;
pub use sum_rows::SumRows;
pub use sum_squares::SumSquares;
pub use transpose::Transpose;

use crate::error::{Error, Result, Status};

/// A number that C has 0 for, where it is not given.
fn optional(call: &'static str, name: &str, given: Option<usize>) -> Result<u64> {
    match given {
        None => Ok(0),
        Some(0) => Err(is_zero(call, name)),
        Some(number) => Ok(number as u64),
    }
}

/// The same for factors.
fn optional_factor(call: &'static str, name: &str, given: Option<f32>) -> Result<f32> {
    match given {
        Some(0.0) => Err(is_zero(call, name)),
        factor => Ok(factor.unwrap_or(0.0)),
    }
}

fn is_zero(call: &'static str, name: &str) -> Error {
    Error::new(call, Status::InvalidArgument, format!("{name}: is 0"))
}
