//! What the families of models differ in, as data.

pub(crate) mod architecture;
pub(crate) mod config;
pub(crate) mod rope_scaling;
