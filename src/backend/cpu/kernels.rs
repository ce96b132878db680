//! The native kernels of the row-wise operations, one file each.

pub(crate) mod activation;
pub(crate) mod activation_backward;
pub(crate) mod adam;
pub(crate) mod add_bias;
pub(crate) mod argmax;
pub(crate) mod copy;
pub(crate) mod cross_entropy;
pub(crate) mod dot;
pub(crate) mod elementwise;
pub(crate) mod embedding;
pub(crate) mod exponential;
pub(crate) mod mse;
pub(crate) mod rms_norm;
pub(crate) mod rope;
pub(crate) mod sgd;
pub(crate) mod softmax;
pub(crate) mod sum_rows;
pub(crate) mod transpose;
