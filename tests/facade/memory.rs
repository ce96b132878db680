//! Memory: bounded, given back, and every byte named. Each test opens devices of its own.

mod accounts;
mod failures;
mod pool;

use ironbridge::memory::{Category, MemoryReport};

/// A report whose figures agree: the categories, and what is stated as not in them, are what the device says.
#[track_caller]
fn report(device: &ironbridge::Device) -> MemoryReport {
    let report = device.memory().unwrap();
    let counted: u64 = report.categories().map(|(_, usage)| usage.bytes).sum();
    assert_eq!(
        counted + report.rounding_bytes - report.empty_bytes,
        report.device_bytes,
        "{report:?}"
    );
    assert_eq!(report.unaccounted_bytes, 0);
    assert_eq!(report.category(Category::Pool).bytes, report.pool_bytes);
    assert_eq!(report.allocations - report.releases, report.active_buffers);
    report
}

/// The software device: its faults and figures are what these tests are about.
fn open() -> ironbridge::Device {
    ironbridge::Device::open("cpu").unwrap()
}
