//! Small models with random weights, written to files here: of every shape they compute what float64 computes, and
//! spoilt in every way they are refused.

mod bad_models;
mod gguf;
mod oracle;
mod parts;
mod shapes;
