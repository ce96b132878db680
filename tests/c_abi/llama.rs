//! The functions of ironbridge_llama.h.

mod arguments;
mod fixture;
mod generation;
mod models;
mod parity;
mod sessions;
