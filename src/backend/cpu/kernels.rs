//! The native kernels of the row-wise operations, one file each.

pub(crate) mod activation;
pub(crate) mod add_bias;
pub(crate) mod argmax;
pub(crate) mod copy;
pub(crate) mod dot;
pub(crate) mod elementwise;
pub(crate) mod embedding;
pub(crate) mod exponential;
pub(crate) mod rms_norm;
pub(crate) mod rope;
pub(crate) mod softmax;
pub(crate) mod transpose;
