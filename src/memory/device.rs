//! What a device says of its memory, and does about it.

use super::{Allocation, Leaks, MemoryReport, MemorySettings, Reclaim, Reclaimed};
use crate::device::Device;
use crate::error::{Result, check};
use crate::ffi;

impl Device {
    /// What this device's memory is used for (`iron_memory_describe`).
    pub fn memory(&self) -> Result<MemoryReport> {
        MemoryReport::of(self)
    }

    /// Gives all idle memory of the pool back to the system and returns its bytes: [`Reclaim::Purge`]. Memory that
    /// commands use is not touched.
    pub fn purge(&self) -> Result<u64> {
        Ok(self.reclaim(Reclaim::Purge)?.buffer_bytes)
    }

    /// Gives memory back as `what` says, waiting for as long as it takes, and tells what that brought
    /// (`iron_memory_reclaim`). Failures of work that this waits for are left to
    /// [`Pending::wait`](crate::Pending::wait) and [`sync`](Device::sync).
    pub fn reclaim(&self, what: Reclaim) -> Result<Reclaimed> {
        Reclaimed::by(self, what, u64::MAX)
    }

    /// Waits for all work, gives idle memory back and resets counters and peaks: [`Reclaim::Cleanup`].
    pub fn cleanup(&self) -> Result<Reclaimed> {
        self.reclaim(Reclaim::Cleanup)
    }

    /// The limits of this device's memory (`iron_memory_configuration`).
    pub fn memory_settings(&self) -> Result<MemorySettings> {
        MemorySettings::of(self)
    }

    /// Changes them. Idle memory beyond the new ones goes back to the system at once (`iron_memory_configure`).
    pub fn set_memory_settings(&self, settings: &MemorySettings) -> Result<()> {
        settings.apply(self)
    }

    /// The live buffers, the largest first; idle ones of the pool apart (`iron_memory_list`).
    pub fn allocations(&self) -> Result<Vec<Allocation>> {
        Allocation::list(self)
    }

    /// The peaks of [`memory`](Device::memory) are what is active now (`iron_memory_reset`).
    pub fn reset_memory_peak(&self) -> Result<()> {
        self.reset_memory(ffi::IRON_RESET_PEAK)
    }

    /// What is allocated now is the baseline that later changes are counted from (`iron_memory_reset`).
    pub fn set_memory_baseline(&self) -> Result<()> {
        self.reset_memory(ffi::IRON_RESET_BASELINE)
    }

    /// Hits, misses, bypasses, evictions, operations and command buffers start at 0 again (`iron_memory_reset`).
    pub fn reset_memory_counters(&self) -> Result<()> {
        self.reset_memory(ffi::IRON_RESET_COUNTERS)
    }

    fn reset_memory(&self, what: u32) -> Result<()> {
        // SAFETY: the handle is live.
        check("Device::reset_memory", unsafe {
            ffi::iron_memory_reset(self.handle.as_ptr(), what)
        })
    }

    /// Ends the use of the device for everybody who has it, and finds what is still allocated (`iron_device_close`).
    ///
    /// Waits for the work in flight. Every buffer that is still held then is taken for leaked: its memory goes back to
    /// the system unless a map or commands use it, and beyond [`LEAK_THRESHOLD`](crate::memory::LEAK_THRESHOLD) bytes
    /// the leaks are reported on stderr or to the [hook](crate::memory::set_leak_hook). Clones of the device, its
    /// buffers and commands answer with [`Error::InvalidArgument`](crate::Error::InvalidArgument) from then on;
    /// dropping them is fine.
    ///
    /// A device that is dropped without this closes when nobody has any of it any more; if that is never, the leaks are
    /// reported when the process exits.
    pub fn close(self) -> Result<Leaks> {
        Leaks::at_close(&self, u64::MAX)
    }
}
