//! The C functions of `include/ironbridge_llama.h`, over the runtime that Rust programs use, and
//! `iron_source_with_includes`.
//!
//! Each begins with [`call::enter`], which catches panics and keeps the message for `iron_last_error`. Handles, errors
//! and sized structs are those of `native/bridge/base`, so that both halves of the C ABI answer alike. The header
//! documents the functions.

#![allow(
    clippy::missing_safety_doc,
    missing_docs,
    reason = "the header documents the functions"
)]

mod arguments;
mod call;
mod cancel;
mod chat;
mod decoder;
mod evaluation;
mod files;
mod generation;
mod handle;
mod metal_source;
mod model;
mod progress;
mod quantize;
mod sampler;
mod session;
mod status;
mod structs;
mod tokenizer;
mod writer;
