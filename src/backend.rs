//! What executes below the software Metal device: the CPU backend behind `native/softmetal/executor.h`.

pub(crate) mod cpu;
mod fault;
mod ffi;
#[cfg(all(feature = "nvidia", target_os = "linux"))]
pub(crate) mod nvidia;
#[allow(dead_code, reason = "the next commits put the CPU behind it")]
mod vtable;
