//! What the operating system says about this process.

use std::sync::LazyLock;

use crate::error::{Error, Result};

/// The memory of a process.
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
    fn a_page_is_a_power_of_two() {
        assert!(page_size().is_power_of_two());
        assert!(page_size() >= 4096);
    }
}
