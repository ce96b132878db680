//! The native kernels of the row-wise operations, one file each.

pub(crate) mod accumulate;
pub(crate) mod activation;
pub(crate) mod activation_backward;
pub(crate) mod adam;
pub(crate) mod add_bias;
pub(crate) mod argmax;
pub(crate) mod clip_norm;
pub(crate) mod copy;
pub(crate) mod cross_entropy;
pub(crate) mod dot;
pub(crate) mod elementwise;
pub(crate) mod embedding;
pub(crate) mod embedding_backward;
pub(crate) mod exponential;
pub(crate) mod gated_backward;
pub(crate) mod mse;
pub(crate) mod rms_norm;
pub(crate) mod rms_norm_backward;
pub(crate) mod rope;
pub(crate) mod sgd;
pub(crate) mod softmax;
pub(crate) mod softmax_backward;
pub(crate) mod sum_rows;
pub(crate) mod sum_squares;
pub(crate) mod transpose;
pub(crate) mod trigonometry;
