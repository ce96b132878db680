//! Memory that a kernel is given.

/// A range of memory: a buffer argument, or something else that a kernel may touch.
// As in `native/msl/cpu/abi.h`, which compiled libraries are made with.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Range {
    pub pointer: *mut u8,
    pub length: u64,
}

impl Range {
    pub const NONE: Range = Range {
        pointer: std::ptr::null_mut(),
        length: 0,
    };
}
