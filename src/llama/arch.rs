//! What the families of models differ in, as data.

pub(crate) mod architecture;
pub(crate) mod config;
mod gemma;
mod llama;
mod qwen;
pub(crate) mod rope_scaling;
pub(crate) mod spec;
