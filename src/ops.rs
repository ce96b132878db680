//! The operations that [`Commands`](crate::Commands) record, one file each.
//!
//! An operation takes a struct with named fields; those that are left to `..Default::default()` take the defaults that
//! their documentation states. All operands are checked before anything is recorded, so that a failed call leaves the
//! commands as they were. Unless its documentation says otherwise, an operation's output may not overlap an input.
//!
//! Sizes and strides are in elements, matrices are row-major. In formulas `A[i]` is row `i`.
//!
//! # Errors
//! Of every operation, unless its documentation adds to them:
//! - [`Error::InvalidArgument`](crate::Error::InvalidArgument) when a size is zero or overflows, an operand is missing,
//!   leaves its buffer, has another type than the operation takes, or does not fit the others. The message names the
//!   operand.
//! - [`Error::WrongDevice`](crate::Error::WrongDevice) when an operand belongs to another device than the commands.
//! - [`Error::InUse`](crate::Error::InUse) when the host has mapped an operand in conflict.
//! - [`Error::ReadOnly`](crate::Error::ReadOnly) when the output is wrapped memory.
//!
//! What goes wrong on the device is reported by the wait. An input that a failed submission should have written is such
//! a case: the commands that read it fail as well, with [`Error::Poisoned`](crate::Error::Poisoned).
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
//! commands.matmul(&Matmul {
//!     m: 1,
//!     n: 3,
//!     k: 2,
//!     a: x.tensor(),
//!     b: w.tensor(),
//!     transpose_b: true,
//!     c: y.tensor(),
//!     ..Default::default()
//! })?;
//! commands.run()?;
//! assert_eq!(y.to_vec()?, [1.0, 2.0, 3.0]);
//! # Ok(())
//! # }
//! ```

mod activation;
mod add_bias;
mod argmax;
mod attention;
mod copy;
mod elementwise;
mod embedding;
mod fill;
mod interleave;
pub(crate) mod matmul;
mod rms_norm;
mod rope;
mod softmax;
mod transpose;

pub use activation::Activation;
pub use add_bias::AddBias;
pub use argmax::Argmax;
pub use attention::Attention;
pub use copy::{CopyBytes, CopyRows};
pub use elementwise::Elementwise;
pub use embedding::Embedding;
pub use fill::Fill;
pub use interleave::Interleave;
pub use matmul::Matmul;
pub use rms_norm::RmsNorm;
pub use rope::{Rope, RopePairing};
pub use softmax::Softmax;
pub use transpose::Transpose;
