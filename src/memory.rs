//! What memory is used, for what, by the device and by the process; limits, leaks and the trace.
//!
//! [`docs/MEMORY.md`](https://github.com/ironbridge-rs/ironbridge/blob/main/docs/MEMORY.md) has the whole picture.

mod device;
mod leaks;
pub mod monitor;
mod process;
mod report;
mod settings;
mod trace;

pub use leaks::{Allocation, LEAK_THRESHOLD, LeakHook, Leaks, set_leak_hook};
pub(crate) use process::page_size;
pub use process::{ProcessMemory, process_memory};
pub use report::{Change, MemoryChange, MemoryReport};
pub use settings::{MemorySettings, Reclaim, Reclaimed};
#[cfg(feature = "tracing")]
pub use trace::emit_tracing_events;
pub use trace::{TraceEvent, TraceHook, set_trace_hook};

pub use crate::device::IdlePolicy;
use crate::ffi;

/// What memory is for; every allocation is counted under one of these (`iron_category`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Category {
    /// Nothing of the below.
    #[default]
    Other,
    /// A model's parameters.
    Weights,
    /// What layers hand to each other.
    Activations,
    /// Keys and values of earlier positions.
    KvCache,
    /// Needed during one submission only.
    Scratch,
    /// Idle, kept for reuse.
    Pool,
    /// Libraries, functions and pipeline states. Counted; their bytes are the driver's.
    Pipelines,
    /// Queues and command buffers. Counted; their bytes are the driver's.
    Queues,
}

impl Category {
    /// All of them, in the order of the C header.
    pub const ALL: [Category; 8] = [
        Category::Other,
        Category::Weights,
        Category::Activations,
        Category::KvCache,
        Category::Scratch,
        Category::Pool,
        Category::Pipelines,
        Category::Queues,
    ];

    /// A name for reports.
    pub const fn name(self) -> &'static str {
        match self {
            Category::Other => "other",
            Category::Weights => "weights",
            Category::Activations => "activations",
            Category::KvCache => "KV cache",
            Category::Scratch => "scratch",
            Category::Pool => "pool",
            Category::Pipelines => "pipelines",
            Category::Queues => "queues",
        }
    }

    pub(crate) fn from_native(native: ffi::iron_category) -> Category {
        let known = Category::ALL.get(native as usize);
        known.copied().unwrap_or_default()
    }

    pub(crate) const fn native(self) -> ffi::iron_category {
        match self {
            Category::Other => ffi::IRON_CATEGORY_OTHER,
            Category::Weights => ffi::IRON_CATEGORY_WEIGHTS,
            Category::Activations => ffi::IRON_CATEGORY_ACTIVATIONS,
            Category::KvCache => ffi::IRON_CATEGORY_KV_CACHE,
            Category::Scratch => ffi::IRON_CATEGORY_SCRATCH,
            Category::Pool => ffi::IRON_CATEGORY_POOL,
            Category::Pipelines => ffi::IRON_CATEGORY_PIPELINES,
            Category::Queues => ffi::IRON_CATEGORY_QUEUES,
        }
    }
}

/// Live allocations (`iron_memory_usage`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Usage {
    /// Their bytes.
    pub bytes: u64,
    /// How many.
    pub count: u64,
}

/// Where a buffer's memory is (`iron_storage`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Storage {
    /// Host and device see the same memory.
    #[default]
    Shared,
    /// The device's own: it cannot be mapped, and reads and writes go through a copy.
    Private,
}

/// Which commands may use a [`Buffer`](crate::Buffer), and how the host reaches it (`iron_usage`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum BufferUsage {
    /// All of them, and all methods of the buffer but [`Buffer::write_weights`](crate::Buffer::write_weights) and
    /// [`Buffer::read_weights`](crate::Buffer::read_weights).
    #[default]
    Any,
    /// [`Matmul::b`](crate::ops::Matmul::b), stored `[n][k]`, and [`Embedding::table`](crate::ops::Embedding::table).
    /// The host writes matrices by their rows ([`Buffer::write_weights`](crate::Buffer::write_weights)), once; then
    /// they never change. The device keeps them in the layout that it reads fastest, in as many bytes. Every other use
    /// is an [`Error::InvalidArgument`](crate::Error::InvalidArgument) that names the operand and the buffer.
    Weights,
}

impl BufferUsage {
    pub(crate) const fn native(self) -> ffi::iron_usage {
        match self {
            BufferUsage::Any => ffi::IRON_USAGE_ANY,
            BufferUsage::Weights => ffi::IRON_USAGE_WEIGHTS,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn categories_are_where_the_header_has_them() {
        for (index, category) in Category::ALL.into_iter().enumerate() {
            assert_eq!(category.native() as usize, index);
        }
    }
}
