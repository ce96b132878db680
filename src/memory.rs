//! What memory is used, for what, by the device and by the process.

use std::sync::LazyLock;

use crate::device::Device;
use crate::error::{Error, Result, check};
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
    pub const ALL: [Category; ffi::IRON_CATEGORY_COUNT as usize] = [
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

/// What a device's memory is used for at one moment (`iron_memory_info`). From [`Device::memory`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryReport {
    /// The device's own `currentAllocatedSize`, in bytes.
    pub device_bytes: u64,
    /// Bytes in buffers that somebody holds or commands use.
    pub active_bytes: u64,
    /// The most that `active_bytes` has been since the device was opened.
    pub peak_bytes: u64,
    /// Bytes idle in the pool.
    pub pool_bytes: u64,
    /// Buffers idle in the pool.
    pub pool_buffers: u64,
    /// Requests that the pool answered with idle memory.
    pub pool_hits: u64,
    /// Requests that it could not.
    pub pool_misses: u64,
    /// Command buffers submitted and not complete.
    pub in_flight: u64,
    categories: [Usage; Category::ALL.len()],
}

impl MemoryReport {
    pub(crate) fn of(device: &Device) -> Result<MemoryReport> {
        let mut info = ffi::iron_memory_info {
            size: size_of::<ffi::iron_memory_info>(),
            ..Default::default()
        };
        // SAFETY: the device is live, and `info` may be written and starts with its size.
        check("iron_memory_describe", unsafe {
            ffi::iron_memory_describe(device.handle.as_ptr(), &mut info)
        })?;
        Ok(MemoryReport {
            device_bytes: info.device_bytes,
            active_bytes: info.active_bytes,
            peak_bytes: info.peak_bytes,
            pool_bytes: info.pool_bytes,
            pool_buffers: info.pool_buffers,
            pool_hits: info.pool_hits,
            pool_misses: info.pool_misses,
            in_flight: info.in_flight,
            categories: info.categories.map(|usage| Usage {
                bytes: usage.bytes,
                count: usage.count,
            }),
        })
    }

    /// What one category holds.
    pub fn category(&self, category: Category) -> Usage {
        self.categories[category.native() as usize]
    }

    /// Every category with what it holds.
    pub fn categories(&self) -> impl Iterator<Item = (Category, Usage)> + '_ {
        Category::ALL
            .into_iter()
            .map(|category| (category, self.category(category)))
    }
}

/// What the operating system says about this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProcessMemory {
    /// Bytes resident now (RSS).
    pub resident_bytes: u64,
    /// The most bytes that have been resident.
    pub peak_resident_bytes: u64,
}

/// The memory of this process: Linux's `/proc/self/statm`, macOS's `task_info`.
///
/// # Errors
/// [`Error::System`] when the system does not tell.
pub fn process_memory() -> Result<ProcessMemory> {
    system::process_memory()
}

/// Bytes of a page of memory.
pub(crate) fn page_size() -> usize {
    static PAGE_SIZE: LazyLock<usize> = LazyLock::new(|| {
        // SAFETY: takes a constant and returns a number.
        let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        // POSIX has no system without a page size; 16 KiB is the largest on our hosts, and a multiple of the others.
        usize::try_from(size).unwrap_or(16 * 1024)
    });
    *PAGE_SIZE
}

#[cfg(not(target_vendor = "apple"))]
mod system {
    use super::{Error, ProcessMemory, Result, page_size};
    use std::io;

    pub fn process_memory() -> Result<ProcessMemory> {
        let statm = std::fs::read_to_string("/proc/self/statm").and_then(|text| {
            // proc(5): total, then resident, in pages.
            let resident = text
                .split_ascii_whitespace()
                .nth(1)
                .and_then(|pages| pages.parse::<u64>().ok());
            resident.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, text))
        });
        let resident = statm.map_err(|source| Error::System {
            action: "reading /proc/self/statm",
            source,
        })?;

        let mut usage = std::mem::MaybeUninit::<libc::rusage>::uninit();
        // SAFETY: `usage` may be written.
        let status = unsafe { libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()) };
        if status != 0 {
            return Err(Error::System {
                action: "getrusage",
                source: io::Error::last_os_error(),
            });
        }
        // SAFETY: a successful getrusage has filled it.
        let usage = unsafe { usage.assume_init() };
        let resident_bytes = resident * page_size() as u64;
        // getrusage(2): in kibibytes. The kernel updates it now and then, so that it can lag behind.
        let peak = u64::try_from(usage.ru_maxrss).unwrap_or(0) * 1024;
        Ok(ProcessMemory {
            resident_bytes,
            peak_resident_bytes: peak.max(resident_bytes),
        })
    }
}

#[cfg(target_vendor = "apple")]
mod system {
    use super::{Error, ProcessMemory, Result};
    use std::io;

    pub fn process_memory() -> Result<ProcessMemory> {
        // SAFETY: a plain C struct of numbers, for which zeros are a value.
        let mut info: libc::mach_task_basic_info = unsafe { std::mem::zeroed() };
        let mut count = libc::MACH_TASK_BASIC_INFO_COUNT;
        #[allow(
            deprecated,
            reason = "libc points to a crate that this one call is not worth"
        )]
        // SAFETY: a process may ask about itself, and `info` has room for `count` numbers.
        let status = unsafe {
            libc::task_info(
                libc::mach_task_self(),
                libc::MACH_TASK_BASIC_INFO,
                (&raw mut info).cast(),
                &mut count,
            )
        };
        if status != libc::KERN_SUCCESS {
            return Err(Error::System {
                action: "task_info",
                source: io::Error::other(format!("kern_return_t {status}")),
            });
        }
        Ok(ProcessMemory {
            resident_bytes: info.resident_size,
            peak_resident_bytes: info.resident_size_max,
        })
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

    #[test]
    fn resident_memory_grows_by_what_is_touched() -> Result<()> {
        const SIZE: usize = 64 << 20;
        let before = process_memory()?;
        let touched = std::hint::black_box(vec![1u8; SIZE]);
        let after = process_memory()?;
        assert_eq!(touched.len(), SIZE);
        assert!(after.resident_bytes >= before.resident_bytes + SIZE as u64 / 2);
        assert!(after.peak_resident_bytes >= after.resident_bytes);
        Ok(())
    }

    #[test]
    fn a_page_is_a_power_of_two() {
        assert!(page_size().is_power_of_two());
        assert!(page_size() >= 4096);
    }
}
