//! A device's figures at one moment, and the difference of two.

use serde_json::{Map, Value, json};

use super::{Category, Usage};
use crate::device::Device;
use crate::error::{Result, check};
use crate::ffi;

/// What a device's memory is used for at one moment (`iron_memory_info`). From [`Device::memory`].
///
/// The sum of the categories' bytes + `rounding_bytes` - `empty_bytes` + `unaccounted_bytes` is `device_bytes`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryReport {
    /// The device's own `currentAllocatedSize`, in bytes.
    pub device_bytes: u64,
    /// Bytes in buffers that somebody holds or commands use.
    pub active_bytes: u64,
    /// How many such buffers.
    pub active_buffers: u64,
    /// The most that `active_bytes` has been since the device was opened or the peak reset.
    pub peak_bytes: u64,
    /// The most that `active_buffers` has been since then.
    pub peak_buffers: u64,
    /// Bytes idle in the pool.
    pub pool_bytes: u64,
    /// Buffers idle in the pool.
    pub pool_buffers: u64,
    /// Requests that the pool answered with idle memory.
    pub pool_hits: u64,
    /// Requests that it could not.
    pub pool_misses: u64,
    /// Pooled requests that were too large for it, or weights: neither hits nor misses.
    pub pool_bypasses: u64,
    /// Idle buffers given back because there were too many or too much of them.
    pub pool_evictions: u64,
    /// Idle buffers given back because their idle time was over.
    pub pool_expired: u64,
    /// Idle buffers given back because somebody asked, or memory ran short.
    pub pool_purged: u64,
    /// Buffers made so far, pooled ones each time.
    pub allocations: u64,
    /// Buffers given back so far, pooled ones each time.
    pub releases: u64,
    /// Operations recorded.
    pub operations: u64,
    /// Command buffers submitted.
    pub command_buffers: u64,
    /// Command buffers submitted and not complete.
    pub in_flight: u64,
    /// What the device adds to buffers, to make whole pages of them.
    pub rounding_bytes: u64,
    /// Bytes idle under [`IdlePolicy::Empty`](super::IdlePolicy::Empty), which the device does not count.
    pub empty_bytes: u64,
    /// What others have on the device. 0 for the software device while nothing is being made or released.
    pub unaccounted_bytes: i64,
    categories: [Usage; Category::ALL.len()],
    baseline: [Usage; Category::ALL.len()],
}

impl MemoryReport {
    pub(crate) fn of(device: &Device) -> Result<MemoryReport> {
        let mut info = ffi::iron_memory_info {
            size: size_of::<ffi::iron_memory_info>(),
            ..Default::default()
        };
        // SAFETY: the device is live, and `info` may be written and starts with its size.
        check("Device::memory", unsafe {
            ffi::iron_memory_describe(device.handle.as_ptr(), &mut info)
        })?;
        let usage = |usage: ffi::iron_memory_usage| Usage {
            bytes: usage.bytes,
            count: usage.count,
        };
        Ok(MemoryReport {
            device_bytes: info.device_bytes,
            active_bytes: info.active_bytes,
            active_buffers: info.active_buffers,
            peak_bytes: info.peak_bytes,
            peak_buffers: info.peak_buffers,
            pool_bytes: info.pool_bytes,
            pool_buffers: info.pool_buffers,
            pool_hits: info.pool_hits,
            pool_misses: info.pool_misses,
            pool_bypasses: info.pool_bypasses,
            pool_evictions: info.pool_evictions,
            pool_expired: info.pool_expired,
            pool_purged: info.pool_purged,
            allocations: info.allocations,
            releases: info.releases,
            operations: info.operations,
            command_buffers: info.command_buffers,
            in_flight: info.in_flight,
            rounding_bytes: info.rounding_bytes,
            empty_bytes: info.empty_bytes,
            unaccounted_bytes: info.unaccounted_bytes,
            categories: std::array::from_fn(|index| usage(info.categories[index])),
            baseline: std::array::from_fn(|index| usage(info.baseline[index])),
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

    /// What one category held when the baseline was set ([`Device::set_memory_baseline`]); nothing before that.
    pub fn baseline(&self, category: Category) -> Usage {
        self.baseline[category.native() as usize]
    }

    /// The share of the pool's requests that it answered with idle memory, from 0 to 1; `None` before the first one.
    pub fn reuse_rate(&self) -> Option<f64> {
        let requests = self.pool_hits + self.pool_misses;
        (requests > 0).then(|| self.pool_hits as f64 / requests as f64)
    }

    /// What has changed since the baseline.
    pub fn since_baseline(&self) -> MemoryChange {
        MemoryChange::between(&self.baseline, &self.categories)
    }

    /// What has changed since an earlier report of the same device.
    pub fn since(&self, earlier: &MemoryReport) -> MemoryChange {
        MemoryChange::between(&earlier.categories, &self.categories)
    }

    /// The report as a JSON object: every field under its name, `categories` and `since_baseline` by category.
    pub fn to_json(&self) -> String {
        let change = self.since_baseline();
        let key = |category: Category| category.name().to_lowercase().replace(' ', "_");
        let categories: Map<String, Value> = self
            .categories()
            .map(|(category, Usage { bytes, count })| {
                (key(category), json!({"bytes": bytes, "count": count}))
            })
            .collect();
        let since_baseline: Map<String, Value> = Category::ALL
            .into_iter()
            .map(|category| {
                let Change { bytes, count } = change.category(category);
                (key(category), json!({"bytes": bytes, "count": count}))
            })
            .collect();
        json!({
            "device_bytes": self.device_bytes,
            "active_bytes": self.active_bytes,
            "active_buffers": self.active_buffers,
            "peak_bytes": self.peak_bytes,
            "peak_buffers": self.peak_buffers,
            "pool_bytes": self.pool_bytes,
            "pool_buffers": self.pool_buffers,
            "pool_hits": self.pool_hits,
            "pool_misses": self.pool_misses,
            "pool_bypasses": self.pool_bypasses,
            "pool_evictions": self.pool_evictions,
            "pool_expired": self.pool_expired,
            "pool_purged": self.pool_purged,
            "allocations": self.allocations,
            "releases": self.releases,
            "operations": self.operations,
            "command_buffers": self.command_buffers,
            "in_flight": self.in_flight,
            "rounding_bytes": self.rounding_bytes,
            "empty_bytes": self.empty_bytes,
            "unaccounted_bytes": self.unaccounted_bytes,
            "categories": categories,
            "since_baseline": since_baseline,
        })
        .to_string()
    }
}

/// How one category has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Change {
    /// Bytes more, or less.
    pub bytes: i64,
    /// Allocations more, or fewer.
    pub count: i64,
}

/// The difference of two moments, by category.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemoryChange {
    categories: [Change; Category::ALL.len()],
}

impl MemoryChange {
    fn between(
        before: &[Usage; Category::ALL.len()],
        after: &[Usage; Category::ALL.len()],
    ) -> MemoryChange {
        MemoryChange {
            categories: std::array::from_fn(|index| Change {
                bytes: after[index].bytes.wrapping_sub(before[index].bytes) as i64,
                count: after[index].count.wrapping_sub(before[index].count) as i64,
            }),
        }
    }

    /// How one category has changed.
    pub fn category(&self, category: Category) -> Change {
        self.categories[category.native() as usize]
    }

    /// Bytes more, or less, in all categories together.
    pub fn bytes(&self) -> i64 {
        self.categories.iter().map(|change| change.bytes).sum()
    }
}
