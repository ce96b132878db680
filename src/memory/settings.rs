//! Limits of memory that can change while a device is open, and memory given back on request.

use std::time::Duration;

use crate::device::{Device, IdlePolicy, limit, nanoseconds};
use crate::error::{Result, check};
use crate::ffi;

/// Limits of a device's memory (`iron_memory_settings`). From [`Device::memory_settings`], to
/// [`Device::set_memory_settings`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemorySettings {
    /// Idle bytes that the pool keeps for reuse. `None`: no limit.
    pub pool_max_bytes: Option<u64>,
    /// Idle buffers that it keeps. `None`: no limit.
    pub pool_max_buffers: Option<u32>,
    /// Larger buffers bypass the pool, as weights do. `None`: those larger than `pool_max_bytes`.
    pub pool_max_buffer_bytes: Option<u64>,
    /// How long a buffer stays idle before its memory goes back to the system. Zero: it goes at once. `None`: for ever.
    pub pool_idle_time: Option<Duration>,
    /// What becomes of a buffer that nobody uses; [`IdlePolicy::Release`] turns the pool off.
    pub pool_policy: IdlePolicy,
    /// Bytes in buffers, wrapped ones apart, beyond which none is made. `None`: no limit.
    pub memory_limit: Option<u64>,
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
        check("Device::memory_settings", unsafe {
            ffi::iron_memory_configuration(device.handle.as_ptr(), &mut native)
        })?;
        Ok(MemorySettings {
            pool_max_bytes: given(native.pool_max_bytes),
            pool_max_buffers: (native.pool_max_buffers != u32::MAX)
                .then_some(native.pool_max_buffers),
            pool_max_buffer_bytes: given(native.pool_max_buffer_bytes),
            pool_idle_time: given(native.pool_idle_time).map(Duration::from_nanos),
            pool_policy: match native.pool_policy {
                ffi::IRON_IDLE_EMPTY => IdlePolicy::Empty,
                ffi::IRON_IDLE_RELEASE => IdlePolicy::Release,
                _ => IdlePolicy::Volatile,
            },
            memory_limit: given(native.memory_limit),
        })
    }

    pub(crate) fn apply(&self, device: &Device) -> Result<()> {
        let native = ffi::iron_memory_settings {
            size: size_of::<ffi::iron_memory_settings>(),
            pool_max_bytes: limit(self.pool_max_bytes),
            pool_max_buffers: self.pool_max_buffers.map_or(u32::MAX, |most| most.max(1)),
            pool_policy: self.pool_policy.native(),
            pool_max_buffer_bytes: limit(self.pool_max_buffer_bytes),
            pool_idle_time: limit(self.pool_idle_time.map(nanoseconds)),
            memory_limit: limit(self.memory_limit),
        };
        // SAFETY: the device is live, and the struct starts with its size and outlives the call.
        check("Device::set_memory_settings", unsafe {
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
    /// Bytes of the idle buffers given back.
    pub buffer_bytes: u64,
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
        check("Device::reclaim", unsafe {
            ffi::iron_memory_reclaim(device.handle.as_ptr(), what, timeout, &mut native)
        })?;
        Ok(Reclaimed {
            device_before: native.device_before,
            device_after: native.device_after,
            freed_bytes: native.freed_bytes,
            buffers: native.buffers,
            command_buffers: native.command_buffers,
            buffer_bytes: native.buffer_bytes,
        })
    }
}
