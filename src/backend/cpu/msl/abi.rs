//! The contract with compiled libraries, `native/msl/cpu/abi.h`, in Rust. A library states the sizes of the
//! structs that it was compiled with, and is refused when they are not these.

use crate::backend::cpu::range::Range;

/// Metal's buffer argument table.
pub const BUFFERS: usize = 31;
/// Threads of a SIMD-group.
pub const SIMD_WIDTH: usize = 32;
/// Bytes that a thread can give to one SIMD-group operation.
const SLOT: usize = 16;
/// Bytes of a fiber's stack, and their alignment.
pub const STACK: usize = 256 * 1024;
/// Where the pointer to the running thread lies, in bytes below the top of its stack.
pub const LANE_BELOW_TOP: usize = 16;

pub type Combine = unsafe extern "C" fn(area: *mut u8, lanes: u32);

#[repr(C)]
pub struct Runtime {
    pub threadgroup_barrier: unsafe extern "C" fn(lane: *mut Lane, site: u32),
    pub simd_barrier: unsafe extern "C" fn(lane: *mut Lane, combine: Option<Combine>, site: u32),
    pub out_of_bounds: unsafe extern "C" fn(lane: *mut Lane, address: u64, size: u64, write: bool),
}

#[repr(C, align(64))]
pub struct SimdGroup {
    pub area: [[u8; SIMD_WIDTH * SLOT]; 2],
    pub operations: u32,
    pub lanes: u32,
}

#[repr(C)]
pub struct Group {
    pub runtime: *const Runtime,
    pub bindings: *const Range,
    pub threadgroup: *const *mut u8,
    pub variables: *mut u8,
    pub accessible: *const Range,
    pub accessible_count: u32,
    pub position: [u32; 3],
    pub threads: [u32; 3],
    pub dispatched_threads: [u32; 3],
    pub groups: [u32; 3],
    pub grid: [u32; 3],
    pub simdgroups: u32,
    pub dispatched_simdgroups: u32,
}

#[repr(C)]
pub struct Lane {
    pub group: *const Group,
    pub simdgroup: *mut SimdGroup,
    pub position: [u32; 3],
    pub index: u32,
}

pub const ARGUMENT_BUFFER: u32 = 1;
pub const ARGUMENT_THREADGROUP: u32 = 2;

#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Argument {
    pub kind: u32,
    pub index: u32,
    pub size: u64,
    pub alignment: u64,
}

/// What a compiled library exports.
#[repr(C)]
pub struct Entry {
    pub lane_size: u32,
    pub group_size: u32,
    pub simdgroup_size: u32,
    pub max_total_threads: u32,
    pub argument_count: u32,
    pub arguments: *const Argument,
    pub variables_start: *const u8,
    pub variables_end: *const u8,
    pub run: unsafe extern "C" fn(lane: *mut Lane),
}
