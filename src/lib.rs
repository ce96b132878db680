//! One Objective-C bridge to Metal, a safe facade over it and a LLaMA runtime.

pub mod ffi;
mod softmetal;
