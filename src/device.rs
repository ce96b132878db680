//! Devices: finding, opening, describing, waiting.

use std::ffi::{CStr, CString};
use std::path::Path;
use std::time::Duration;

use crate::build_profile::warn_if_unoptimized;
use crate::device_selector::DeviceSelector;
use crate::error::{Error, Result, Status, check};
use crate::ffi;
use crate::handle::Handle;

/// A Metal device, Apple's or the software one, with its own queue, memory pool and figures (`iron_device`).
///
/// Clones share the device. It closes when the last clone, buffer and submission are gone.
#[derive(Debug, Clone)]
pub struct Device {
    pub(crate) handle: Handle<ffi::iron_device>,
}

impl Device {
    /// Opens a device with the default options (`iron_device_open`): by a [`DeviceSelector`], or by the text of one.
    ///
    /// ```
    /// use ironbridge::Device;
    ///
    /// # fn main() -> Result<(), ironbridge::Error> {
    /// let device = Device::open("default")?; // a GPU where there is one
    /// let software = Device::cpu()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::NoDevice`] when none answers to the selector, [`Error::InvalidArgument`] when it has options that the
    /// device does not know.
    pub fn open<S>(selector: S) -> Result<Device>
    where
        S: TryInto<DeviceSelector>,
        Error: From<S::Error>,
    {
        Device::options().open(selector)
    }

    /// Opens ironbridge's software device, which every host has.
    pub fn cpu() -> Result<Device> {
        Device::open(DeviceSelector::cpu())
    }

    /// Opens Apple's default Metal device.
    ///
    /// # Errors
    /// [`Error::NoDevice`] when this machine has none.
    pub fn metal() -> Result<Device> {
        Device::open(DeviceSelector::Metal)
    }

    /// Opens the device at this place of [`Device::list`].
    ///
    /// # Errors
    /// [`Error::NoDevice`] past its end.
    pub fn from_index(index: u32) -> Result<Device> {
        Device::open(DeviceSelector::Index(index))
    }

    /// Limits that can be set before opening.
    pub fn options() -> DeviceOptions {
        DeviceOptions::default()
    }

    /// Every device of this machine, Apple's first, the software device last (`iron_device_count`,
    /// `iron_device_describe_index`). Opens none.
    pub fn list() -> Result<Vec<DeviceInfo>> {
        let mut count = 0;
        // SAFETY: `count` may be written.
        check("Device::list", unsafe {
            ffi::iron_device_count(&mut count)
        })?;
        (0..count)
            .map(|index| {
                let mut info = DeviceInfo::blank();
                // SAFETY: `info` may be written and starts with its size.
                check("Device::list", unsafe {
                    ffi::iron_device_describe_index(index, &mut info)
                })?;
                Ok(DeviceInfo::from_native(&info))
            })
            .collect()
    }

    /// What this device is and can do (`iron_device_describe`).
    pub fn info(&self) -> Result<DeviceInfo> {
        let mut info = DeviceInfo::blank();
        // SAFETY: the handle is live, and `info` may be written and starts with its size.
        check("Device::info", unsafe {
            ffi::iron_device_describe(self.handle.as_ptr(), &mut info)
        })?;
        Ok(DeviceInfo::from_native(&info))
    }

    /// Waits until everything committed on the device is complete (`iron_device_sync`).
    ///
    /// # Errors
    /// The oldest failure of a submission whose [`Pending`](crate::Pending) was dropped without a wait, once.
    pub fn sync(&self) -> Result<()> {
        self.sync_native(u64::MAX)
    }

    /// [`sync`](Device::sync) with a limit; zero polls.
    ///
    /// # Errors
    /// [`Error::Timeout`] when the limit passes first; the work goes on.
    pub fn sync_timeout(&self, limit: Duration) -> Result<()> {
        self.sync_native(nanoseconds(limit))
    }

    fn sync_native(&self, timeout: u64) -> Result<()> {
        // SAFETY: the handle is live.
        check("Device::sync", unsafe {
            ffi::iron_device_sync(self.handle.as_ptr(), timeout)
        })
    }

    /// How many threads the software device computes on (`iron_compute_threads`). On a Metal device this and what
    /// changes it are [`Error::Unsupported`].
    pub fn compute_threads(&self) -> Result<u32> {
        let mut threads = 0;
        // SAFETY: the handle is live and `threads` may be written.
        check("Device::compute_threads", unsafe {
            ffi::iron_compute_threads(self.handle.as_ptr(), &mut threads)
        })?;
        Ok(threads)
    }

    /// Changes their number, from 1 to 1024, at any time and for all software devices of the process
    /// (`iron_compute_set_threads`). `IRONBRIDGE_THREADS` sets it from the start.
    pub fn set_compute_threads(&self, threads: u32) -> Result<()> {
        // SAFETY: the handle is live.
        check("Device::set_compute_threads", unsafe {
            ffi::iron_compute_set_threads(self.handle.as_ptr(), threads)
        })
    }

    /// Pins them to these processors, in turn, or, with none, lets them run on all of the process (`iron_compute_pin`).
    /// `IRONBRIDGE_PIN` does it from the start. Until somebody does, they have a processor each if there are as many
    /// threads as processors. [`Error::Unsupported`] on macOS; [`Error::InvalidArgument`] when a processor is not one
    /// of the process's.
    pub fn pin_compute_threads(&self, processors: &[u32]) -> Result<()> {
        // SAFETY: the handle is live, and there are as many processors as stated.
        check("Device::pin_compute_threads", unsafe {
            ffi::iron_compute_pin(self.handle.as_ptr(), processors.as_ptr(), processors.len())
        })
    }
}

/// Limits of a device, set before it is opened (`iron_device_options`).
#[derive(Debug, Clone, Copy, Default)]
pub struct DeviceOptions {
    pub(crate) native: ffi::iron_device_options,
}

impl DeviceOptions {
    /// Operations recorded before commands flush by themselves. Default (or 0): 100.
    #[must_use]
    pub fn max_operations(mut self, operations: u32) -> Self {
        self.native.max_operations = operations;
        self
    }

    /// Command buffers that may be submitted and not complete; beyond that a flush waits. Default (or 0): 8; at most
    /// 64.
    #[must_use]
    pub fn max_in_flight(mut self, command_buffers: u32) -> Self {
        self.native.max_in_flight = command_buffers;
        self
    }

    /// Bytes touched by recorded operations before commands flush by themselves. Default (or 0): 1 GiB.
    #[must_use]
    pub fn max_flush_bytes(mut self, bytes: u64) -> Self {
        self.native.max_flush_bytes = bytes;
        self
    }

    /// Idle bytes that the pool keeps for reuse; `u64::MAX`: no limit. [`IdlePolicy::Release`] keeps none. Default:
    /// 256 MiB.
    #[must_use]
    pub fn pool_max_bytes(mut self, bytes: u64) -> Self {
        self.native.pool_max_bytes = limit(Some(bytes));
        self
    }

    /// Idle buffers that the pool keeps for reuse, at least 1; `u32::MAX`: no limit. Default: 64.
    #[must_use]
    pub fn pool_max_buffers(mut self, buffers: u32) -> Self {
        self.native.pool_max_buffers = buffers.max(1);
        self
    }

    /// Larger buffers bypass the pool, as weights do. Default: those larger than the pool's bytes.
    #[must_use]
    pub fn pool_max_buffer_bytes(mut self, bytes: u64) -> Self {
        self.native.pool_max_buffer_bytes = limit(Some(bytes));
        self
    }

    /// How long a buffer stays idle in the pool before its memory goes back to the system. Zero: it goes at once;
    /// [`Duration::MAX`]: it stays. Default: 30 seconds.
    #[must_use]
    pub fn pool_idle_time(mut self, time: Duration) -> Self {
        self.native.pool_idle_time = limit(Some(nanoseconds(time)));
        self
    }

    /// What becomes of a pooled buffer that nobody uses. Default: [`IdlePolicy::Volatile`].
    #[must_use]
    pub fn pool_policy(mut self, policy: IdlePolicy) -> Self {
        self.native.pool_policy = policy.native();
        self
    }

    /// Bytes in buffers, wrapped ones apart, beyond which none is made. Default: no limit.
    #[must_use]
    pub fn memory_limit(mut self, bytes: u64) -> Self {
        self.native.memory_limit = limit(Some(bytes));
        self
    }

    /// Opens a device with these limits; for `selector` and errors see [`Device::open`] (`iron_device_open`).
    pub fn open<S>(&self, selector: S) -> Result<Device>
    where
        S: TryInto<DeviceSelector>,
        Error: From<S::Error>,
    {
        warn_if_unoptimized();
        let selector: DeviceSelector = selector.try_into()?;
        let selector = text("selector", &selector.to_string())?;
        let options = ffi::iron_device_options {
            size: size_of::<ffi::iron_device_options>(),
            ..self.native
        };
        let handle = Handle::create("Device::open", |device| {
            // SAFETY: the text is NUL-terminated, the options start with their size, `device` may be written.
            unsafe { ffi::iron_device_open(selector.as_ptr(), &options, device) }
        })?;
        Ok(Device { handle })
    }
}

/// What becomes of a pooled buffer that nobody uses (`iron_idle_policy`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum IdlePolicy {
    /// The system may take the pages when it needs them: quick to use again.
    #[default]
    Volatile,
    /// The pages go back after a second; only the addresses stay.
    Empty,
    /// Nothing is kept: the buffer goes back to the system at once.
    Release,
}

impl IdlePolicy {
    pub(crate) fn native(self) -> ffi::iron_idle_policy {
        match self {
            IdlePolicy::Volatile => ffi::IRON_IDLE_VOLATILE,
            IdlePolicy::Empty => ffi::IRON_IDLE_EMPTY,
            IdlePolicy::Release => ffi::IRON_IDLE_RELEASE,
        }
    }
}

/// Whose Metal it is (`iron_device_kind`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DeviceKind {
    /// Apple's.
    Metal,
    /// ironbridge's own, on the CPU.
    Software,
    /// One that this version does not know.
    Unknown,
}

impl DeviceKind {
    pub(crate) fn from_native(kind: ffi::iron_device_kind) -> DeviceKind {
        match kind {
            ffi::IRON_DEVICE_METAL => DeviceKind::Metal,
            ffi::IRON_DEVICE_SOFTWARE => DeviceKind::Software,
            _ => DeviceKind::Unknown,
        }
    }
}

/// The description of a device (`iron_device_info`).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceInfo {
    /// Whose Metal it is.
    pub kind: DeviceKind,
    /// Its place in [`Device::list`].
    pub index: u32,
    /// Its name, for people.
    pub name: String,
    /// Whether host and device share one memory.
    pub unified_memory: bool,
    /// Threads in a threadgroup, at most.
    pub max_threads_per_threadgroup: u32,
    /// Bytes of threadgroup memory, at most.
    pub max_threadgroup_memory: u32,
    /// Bytes of the longest buffer.
    pub max_buffer_length: u64,
    /// Bytes beyond which the device expects to slow down.
    pub recommended_working_set: u64,
    /// Bytes that the device itself says this process has allocated on it.
    pub allocated: u64,
    /// How long it executed command buffers since it was opened; what overlaps counts once. Zero of a device that is
    /// not open.
    pub worked: Duration,
}

impl DeviceInfo {
    fn blank() -> ffi::iron_device_info {
        ffi::iron_device_info {
            size: size_of::<ffi::iron_device_info>(),
            ..Default::default()
        }
    }

    fn from_native(info: &ffi::iron_device_info) -> DeviceInfo {
        let name = info.name.map(|unit| unit as u8);
        DeviceInfo {
            kind: DeviceKind::from_native(info.kind),
            index: info.index,
            name: CStr::from_bytes_until_nul(&name)
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned(),
            unified_memory: info.unified_memory != 0,
            max_threads_per_threadgroup: info.max_threads_per_threadgroup,
            max_threadgroup_memory: info.max_threadgroup_memory,
            max_buffer_length: info.max_buffer_length,
            recommended_working_set: info.recommended_working_set,
            allocated: info.allocated,
            worked: Duration::from_nanos(info.worked),
        }
    }
}

/// A text as C wants it.
pub(crate) fn text(argument: &'static str, text: &str) -> Result<CString> {
    CString::new(text).map_err(|source| Error::Text { argument, source })
}

/// A path as C wants it: in UTF-8.
pub(crate) fn path_text(path: &Path) -> Result<CString> {
    match path.to_str() {
        Some(path) => text("path", path),
        None => {
            let message = format!("path: {} is not UTF-8", path.display());
            Err(Error::new("path", Status::InvalidArgument, message))
        }
    }
}

/// A limit in the C ABI's unit, where the largest number means for ever: 584 years are.
pub(crate) fn nanoseconds(limit: Duration) -> u64 {
    u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX)
}

/// The C ABI's zero stands for its default, its largest number for "no limit". A limit of 0 becomes 1.
pub(crate) fn limit(most: Option<u64>) -> u64 {
    most.map_or(u64::MAX, |most| most.max(1))
}
