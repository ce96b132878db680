//! The software device below the public API: every kernel against float64 arithmetic, natively and from its Metal
//! source, and Metal's objects and order over a mock executor.

mod kernel_matrix;
#[cfg(ironbridge_native)]
mod softmetal_device;

#[path = "../facade/oracle.rs"]
mod oracle;
#[allow(dead_code, reason = "the facade's tests use the rest")]
#[path = "../facade/support.rs"]
mod support;
