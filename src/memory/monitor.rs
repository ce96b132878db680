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

impl Process {
    /// In buffers of all its devices that are in use. Figures are what the process says: the sum stops at [`u64::MAX`].
    pub fn active_bytes(&self) -> u64 {
        self.sum(|device| device.active_bytes)
    }

    /// Idle in the pools of all its devices, likewise.
    pub fn cached_bytes(&self) -> u64 {
        self.sum(|device| device.cached_bytes)
    }

    fn sum(&self, of: impl Fn(&PublishedDevice) -> u64) -> u64 {
        self.devices.iter().map(of).fold(0, u64::saturating_add)
    }
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

/// What has the name of a process's figures and cannot be read as such.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Skipped {
    /// Where it is.
    pub path: PathBuf,
    /// Why it cannot be read.
    pub reason: String,
}

/// The processes of this user, and what was skipped to find them.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Survey {
    /// The live processes, the newest last.
    pub processes: Vec<Process>,
    /// One entry that cannot be read does not hide the others.
    pub skipped: Vec<Skipped>,
}

/// The live processes of this user, the newest last, without those whose figures cannot be read.
///
/// # Errors
/// [`Error::System`] when a folder of publications is there and cannot be read.
pub fn processes() -> Result<Vec<Process>> {
    survey().map(|survey| survey.processes)
}

/// The live processes of this user, and whose figures cannot be read.
///
/// # Errors
/// [`Error::System`] when a folder of publications is there and cannot be read.
pub fn survey() -> Result<Survey> {
    let mut survey = Survey::default();
    for publication in folder::publications(&mut survey.skipped)? {
        match file::read(&publication) {
            Ok(process) => survey.processes.extend(process),
            // It may have ended between two looks.
            Err(_) if !publication.is_alive() => {}
            Err(error) => survey.skipped.push(Skipped {
                path: publication.path,
                reason: error.to_string(),
            }),
        }
    }
    survey
        .processes
        .sort_by_key(|process| (process.published_at, process.pid));
    Ok(survey)
}

/// Removes what processes left behind that were killed, and returns how many did.
///
/// # Errors
/// [`Error::System`] when a folder of publications is there and cannot be read, or changed.
pub fn remove_stale() -> Result<usize> {
    let mut removed = 0;
    for publication in folder::publications(&mut Vec::new())? {
        removed += usize::from(folder::remove_if_stale(&publication)?);
    }
    Ok(removed)
}

fn checked<T>(action: &'static str, path: &Path, result: io::Result<T>) -> Result<T> {
    result.map_err(|source| Error::System {
        action,
        source: io::Error::new(source.kind(), format!("{}: {source}", path.display())),
    })
}
