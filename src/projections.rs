//! Matrix products for code that brings its own model: the projections of an attention layer, and a drop-in for slices.

mod attention;
pub(crate) mod matmul_executor;

pub use attention::{AttentionProjections, Projected, Projection, WeightLayout};
pub use matmul_executor::MatmulExecutor;
