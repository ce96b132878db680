//! The C ABI of `include/ironbridge.h` and `ironbridge_memory.h`, as bindgen declares it.
//!
//! The safe facade is built on these and hides them. Every function checks its handles and arguments and
//! is documented in its header.
#![allow(
    missing_docs,
    non_camel_case_types,
    non_upper_case_globals,
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    reason = "made by bindgen, documented in the header"
)]

include!(concat!(env!("OUT_DIR"), "/ironbridge.rs"));

/// The layout of the file in which a process publishes its memory: `include/ironbridge_monitor.h`.
pub mod monitor {
    include!(concat!(env!("OUT_DIR"), "/monitor.rs"));
}
