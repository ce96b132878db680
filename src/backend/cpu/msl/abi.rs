//! The contract with compiled libraries, `native/msl/cpu/abi.h`, in Rust. A library states the sizes of the
//! structs that it was compiled with, and is refused when they are not these.

use std::ffi::c_char;
use std::sync::atomic::AtomicU8;

use crate::backend::cpu::range::Range;

/// Metal's buffer argument table.
pub const BUFFERS: usize = 31;
/// Metal's argument tables of textures and samplers.
pub const TEXTURES: usize = 128;
pub const SAMPLERS: usize = 16;
/// Threads of a SIMD-group.
pub const SIMD_WIDTH: usize = 32;
/// Bytes that a thread can give to one SIMD-group operation.
const SLOT: usize = 16;
/// Bytes of a fiber's stack, and their alignment.
pub const STACK: usize = 256 * 1024;
/// Bytes of device memory that a counted access reads or writes as a whole.
pub const LINE: u64 = 64;
/// Where the pointer to the running thread lies, in bytes below the top of its stack.
pub const LANE_BELOW_TOP: usize = 16;

pub type Combine = unsafe extern "C" fn(area: *mut u8, lanes: u32);

#[repr(C)]
pub struct Runtime {
    pub threadgroup_barrier: unsafe extern "C" fn(lane: *mut Lane, site: u32),
    pub simd_barrier: unsafe extern "C" fn(lane: *mut Lane, combine: Option<Combine>, site: u32),
    pub out_of_bounds: unsafe extern "C" fn(lane: *mut Lane, address: u64, size: u64, write: bool),
    pub out_of_array:
        unsafe extern "C" fn(lane: *mut Lane, index: i64, array: *const c_char, line: u32),
}

/// How a component of a texel is stored: `msl_component`.
#[repr(u8)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Component {
    Unorm = 0,
    Snorm = 1,
    Srgb = 2,
    Float = 3,
    Uint = 4,
    Sint = 5,
}

/// A texture with all its levels: `msl_texture`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Texture {
    /// Null: nothing is bound.
    pub texels: *mut u8,
    pub length: u64,
    pub row_bytes: u64,
    pub slice_bytes: u64,
    pub width: u32,
    pub height: u32,
    pub depth: u32,
    /// Elements of the array.
    pub slices: u32,
    pub levels: u32,
    /// MTLTextureType.
    pub kind: u32,
    pub component: Component,
    pub component_bytes: u8,
    /// 1, 2 or 4.
    pub components: u8,
    pub is_bgra: bool,
}

impl Texture {
    pub const NONE: Texture = Texture {
        texels: std::ptr::null_mut(),
        length: 0,
        row_bytes: 0,
        slice_bytes: 0,
        width: 0,
        height: 0,
        depth: 0,
        slices: 0,
        levels: 0,
        kind: 0,
        component: Component::Unorm,
        component_bytes: 0,
        components: 0,
        is_bgra: false,
    };
}

/// `msl_sampler`, with the values of MTLSamplerDescriptor.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Sampler {
    /// Whether there is one.
    pub bound: bool,
    /// Whether coordinates count texels.
    pub pixels: bool,
    pub address: [u8; 3],
    pub magnify: u8,
    pub minify: u8,
    pub mip: u8,
    pub border: u8,
    pub compare: u8,
    pub lod_min: f32,
    pub lod_max: f32,
}

impl Sampler {
    pub const NONE: Sampler = Sampler {
        bound: false,
        pixels: false,
        address: [0; 3],
        magnify: 0,
        minify: 0,
        mip: 0,
        border: 0,
        compare: 0,
        lod_min: 0.0,
        lod_max: f32::MAX,
    };
}

/// What textures and samplers a dispatch has, by index.
#[derive(Debug, Clone)]
pub struct Images {
    pub textures: [Texture; TEXTURES],
    pub samplers: [Sampler; SAMPLERS],
}

impl Images {
    pub const NONE: Images = Images {
        textures: [Texture::NONE; TEXTURES],
        samplers: [Sampler::NONE; SAMPLERS],
    };
}

/// What most dispatches have.
pub static NO_IMAGES: Images = Images::NONE;

// SAFETY: its pointers are to texels of a dispatch, which the caller of the dispatch lends to all its workers.
unsafe impl Sync for Images {}

#[repr(C, align(64))]
pub struct SimdGroup {
    pub area: [[u8; SIMD_WIDTH * SLOT]; 2],
    pub operations: u32,
    pub lanes: u32,
}

/// Device memory, with what was read and written of it: `msl_extent`.
#[repr(C)]
#[derive(Debug)]
pub struct Extent {
    pub start: u64,
    pub length: u64,
    pub read: *const AtomicU8,
    pub written: *const AtomicU8,
}

/// `msl_counts`.
#[repr(C)]
pub struct Counts {
    pub extents: *const Extent,
    pub extent_count: u64,
    pub threadgroup_start: u64,
    pub threadgroup_length: u64,
    pub loaded: u64,
    pub stored: u64,
    pub threadgroup_loaded: u64,
    pub threadgroup_stored: u64,
}

impl Counts {
    pub const NONE: Counts = Counts {
        extents: std::ptr::null(),
        extent_count: 0,
        threadgroup_start: 0,
        threadgroup_length: 0,
        loaded: 0,
        stored: 0,
        threadgroup_loaded: 0,
        threadgroup_stored: 0,
    };
}

#[repr(C)]
pub struct Group {
    pub runtime: *const Runtime,
    pub bindings: *const Range,
    pub threadgroup: *const *mut u8,
    pub textures: *const Texture,
    pub samplers: *const Sampler,
    pub variables: *mut u8,
    pub accessible: *const Range,
    /// Null: nothing is counted.
    pub counts: *mut Counts,
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
pub const ARGUMENT_TEXTURE: u32 = 3;
pub const ARGUMENT_SAMPLER: u32 = 4;

/// What a kernel takes a texture's components for: `msl_value`.
pub const VALUES: [&str; 3] = ["floats", "unsigned integers", "signed integers"];

#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Argument {
    pub kind: u32,
    pub index: u32,
    pub size: u64,
    pub alignment: u64,
    /// 0: what it points to is const; a texture: it is not written.
    pub writable: u64,
    /// Of textures and samplers: how many, from `index` on.
    pub count: u32,
    /// MTLTextureType.
    pub texture_kind: u32,
    /// An index of `VALUES`.
    pub value: u32,
    /// 0: a texture that is not read.
    pub readable: u32,
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
