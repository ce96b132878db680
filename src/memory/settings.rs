//! Limits of memory that can change while a device is open, and memory given back on request.

use std::time::Duration;

use crate::device::{Device, nanoseconds};
use crate::error::{Result, check};
use crate::ffi;

/// What becomes of the contents of an idle pooled buffer (`iron_idle_policy`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum IdlePolicy {
    /// The system may take the pages when it needs them: quick to use again.
    #[default]
    Volatile,
    /// The pages go back at once and only the addresses are kept.
    Empty,
}

impl IdlePolicy {
    pub(crate) fn native(self) -> ffi::iron_idle_policy {
        match self {
            IdlePolicy::Volatile => ffi::IRON_IDLE_VOLATILE,
            IdlePolicy::Empty => ffi::IRON_IDLE_EMPTY,
        }
    }
}

/// Limits of a device's memory (`iron_memory_settings`). From [`Device::memory_settings`], to
/// [`Device::set_memory_settings`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemorySettings {
    /// Idle bytes that the pool keeps for reuse. 0: none.
    pub cache_limit: u64,
    /// Idle buffers that it keeps, at least 1.
    pub cache_buffers: u32,
    /// Larger buffers bypass the pool, as weights do. `None`: those larger than `cache_limit`.
    pub max_buffer_bytes: Option<u64>,
    /// How long a buffer stays idle before its memory goes back to the system. `None`: for ever.
    pub idle_time: Option<Duration>,
    /// What becomes of an idle buffer's contents.
    pub idle_policy: IdlePolicy,
    /// Bytes in buffers, wrapped ones apart, beyond which none is made. `None`: no limit.
    pub memory_limit: Option<u64>,
}

/// The C ABI's zero stands for "as it is", its largest number for "no limit".
fn limit(bytes: Option<u64>) -> u64 {
    bytes.map_or(u64::MAX, |bytes| bytes.max(1))
}

fn given(value: u64) -> Option<u64> {
    (value != u64::MAX).then_some(value)
}

impl MemorySettings {
    pub(crate) fn of(device: &Device) -> Result<MemorySettings> {
        let mut native = ffi::iron_memory_settings {
            size: size_of::<ffi::iron_memory_settings>(),
            ..Default::default()
        };
        // SAFETY: the device is live, and `native` may be written and starts with its size.
        check("iron_memory_configuration", unsafe {
            ffi::iron_memory_configuration(device.handle.as_ptr(), &mut native)
        })?;
        Ok(MemorySettings {
            cache_limit: given(native.cache_limit).unwrap_or(0),
            cache_buffers: native.cache_buffers,
            max_buffer_bytes: given(native.max_buffer_bytes),
            idle_time: given(native.idle_time).map(Duration::from_nanos),
            idle_policy: match native.policy {
                ffi::IRON_IDLE_EMPTY => IdlePolicy::Empty,
                _ => IdlePolicy::Volatile,
            },
            memory_limit: given(native.memory_limit),
        })
    }

    pub(crate) fn apply(&self, device: &Device) -> Result<()> {
        let native = ffi::iron_memory_settings {
            size: size_of::<ffi::iron_memory_settings>(),
            cache_limit: limit((self.cache_limit > 0).then_some(self.cache_limit)),
            memory_limit: limit(self.memory_limit),
            idle_time: limit(self.idle_time.map(nanoseconds)),
            max_buffer_bytes: limit(self.max_buffer_bytes),
            cache_buffers: self.cache_buffers.max(1),
            policy: self.idle_policy.native(),
        };
        // SAFETY: the device is live, and the struct starts with its size and outlives the call.
        check("iron_memory_configure", unsafe {
            ffi::iron_memory_configure(device.handle.as_ptr(), &native)
        })
    }
}

/// How memory is given back by [`Device::reclaim`] (`iron_reclaim`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reclaim {
    /// Waits for all work: what only that kept is given back.
    Sync,
    /// Gives the pool's idle memory back to the system and waits for nothing.
    Purge,
    /// Both, and resets the counters and peaks.
    Cleanup,
}

/// What [`Device::reclaim`] brought (`iron_reclaimed`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reclaimed {
    /// The device's `currentAllocatedSize` before, in bytes.
    pub device_before: u64,
    /// The same afterwards.
    pub device_after: u64,
    /// The difference; 0 when others allocated more meanwhile.
    pub freed_bytes: u64,
    /// Idle buffers given back.
    pub buffers: u64,
    /// Command buffers waited for.
    pub command_buffers: u64,
}

impl Reclaimed {
    pub(crate) fn by(device: &Device, what: Reclaim, timeout: u64) -> Result<Reclaimed> {
        let what = match what {
            Reclaim::Sync => ffi::IRON_RECLAIM_SYNC,
            Reclaim::Purge => ffi::IRON_RECLAIM_PURGE,
            Reclaim::Cleanup => ffi::IRON_RECLAIM_CLEANUP,
        };
        let mut native = ffi::iron_reclaimed {
            size: size_of::<ffi::iron_reclaimed>(),
            ..Default::default()
        };
        // SAFETY: the device is live, and `native` may be written and starts with its size.
        check("iron_memory_reclaim", unsafe {
            ffi::iron_memory_reclaim(device.handle.as_ptr(), what, timeout, &mut native)
        })?;
        Ok(Reclaimed {
            device_before: native.device_before,
            device_after: native.device_after,
            freed_bytes: native.freed_bytes,
            buffers: native.buffers,
            command_buffers: native.command_buffers,
        })
    }
}
