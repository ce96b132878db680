//! `native/kernels/args.h` and the headers of `native/softmetal`, as bindgen declares them.
#![allow(
    non_camel_case_types,
    non_upper_case_globals,
    dead_code,
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    reason = "made by bindgen, documented in the headers"
)]

/// The argument structs and buffer indices of the kernels.
pub mod args {
    include!(concat!(env!("OUT_DIR"), "/args.rs"));
}

/// The table of functions between the device and a backend.
pub mod backend {
    include!(concat!(env!("OUT_DIR"), "/backend.rs"));
}
