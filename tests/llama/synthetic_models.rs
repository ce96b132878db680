//! Small models with random weights, written to files here: of every shape they compute what float64 computes, and
//! spoilt in every way they are refused.

mod bad_models;
pub mod gguf;
mod oracle;
pub mod parts;
mod shapes;
