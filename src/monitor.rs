//! The memory of every process of this user that uses ironbridge, as each of them publishes it
//! (`include/ironbridge_monitor.h`).
//!
//! ```
//! let device = ironbridge::Device::open("cpu")?;
//! let buffer = device.buffer::<u8>(1 << 20)?;
//! let us = ironbridge::monitor::processes()?
//!     .into_iter()
//!     .find(|process| process.pid == u64::from(std::process::id()))
//!     .expect("this process, unless its environment has IRONBRIDGE_PUBLISH=0");
//! assert!(us.devices.iter().any(|device| device.active_bytes >= 1 << 20));
//! # drop(buffer);
//! # Ok::<(), ironbridge::Error>(())
//! ```
//!
//! There is no server. A process that was killed is no longer listed, whatever it left behind, and other users cannot
//! read any of it.

mod file;
mod folder;
mod system;

use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::device::DeviceKind;
use crate::error::{Error, Result};

/// A process that has opened a device.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Process {
    /// Its number.
    pub pid: u64,
    /// The executable's name.
    pub program: String,
    /// When it opened its first device.
    pub published_at: SystemTime,
    /// Its resident memory in bytes; `None` when the system does not tell.
    pub resident_bytes: Option<u64>,
    /// Its open devices.
    pub devices: Vec<PublishedDevice>,
    /// Open devices beyond those that a process can publish.
    pub unpublished_devices: u32,
}

/// A device that some process has open. Memory in bytes.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct PublishedDevice {
    /// Whose Metal it is.
    pub kind: DeviceKind,
    /// Its place in that process's list of devices.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// When it was opened.
    pub opened_at: SystemTime,
    /// In buffers that somebody holds or commands use.
    pub active_bytes: u64,
    /// The number of these buffers.
    pub active_buffers: u64,
    /// Idle in the pool.
    pub cached_bytes: u64,
    /// The number of buffers idle in the pool.
    pub cached_buffers: u64,
    /// The most that `active_bytes` has been since the peak was last reset.
    pub peak_bytes: u64,
    /// `active_bytes` when the baseline was set, 0 at first.
    pub baseline_bytes: u64,
    /// What the device may have at most, when there is a limit.
    pub memory_limit: Option<u64>,
    /// Buffers made so far, pooled ones each time.
    pub allocations: u64,
    /// Of those, given back.
    pub releases: u64,
    /// Requests that the pool answered with idle memory.
    pub pool_hits: u64,
    /// Requests that it could not.
    pub pool_misses: u64,
    /// Operations recorded so far: the rate is the difference of two readings.
    pub operations: u64,
    place: Place,
}

/// Where a device's figures are published.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    path: PathBuf,
    /// Bytes from the file's start to the device's slot.
    slot: u64,
}

impl PublishedDevice {
    /// What is active now above what was active when the baseline was set; negative when it is less.
    pub fn delta_bytes(&self) -> i128 {
        i128::from(self.active_bytes) - i128::from(self.baseline_bytes)
    }

    /// Makes what is active now the baseline of the device, for every observer and the process itself.
    ///
    /// # Errors
    /// [`Error::System`] when the process is gone.
    pub fn set_baseline(&self) -> Result<()> {
        file::write_baseline(&self.place, self.active_bytes)
    }

    /// Counts the peak anew: from the process's next allocation or release on, it is the most since then.
    ///
    /// # Errors
    /// [`Error::System`] when the process is gone.
    pub fn reset_peak(&self) -> Result<()> {
        file::request_peak_reset(&self.place)
    }
}

/// The live processes of this user, the newest last.
///
/// # Errors
/// [`Error::System`] when a folder of publications is there and cannot be read.
pub fn processes() -> Result<Vec<Process>> {
    let mut processes = Vec::new();
    for publication in folder::publications()? {
        processes.extend(file::read(&publication)?);
    }
    processes.sort_by_key(|process| (process.published_at, process.pid));
    Ok(processes)
}

/// Removes what processes left behind that were killed, and returns how many did.
///
/// # Errors
/// [`Error::System`] when a folder of publications is there and cannot be read, or changed.
pub fn remove_stale() -> Result<usize> {
    let mut removed = 0;
    for publication in folder::publications()? {
        if !publication.is_alive() {
            folder::remove(&publication)?;
            removed += 1;
        }
    }
    Ok(removed)
}

fn checked<T>(action: &'static str, path: &Path, result: io::Result<T>) -> Result<T> {
    result.map_err(|source| Error::System {
        action,
        source: io::Error::new(source.kind(), format!("{}: {source}", path.display())),
    })
}
