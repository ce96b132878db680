//! The trace. Its hook and the number of live handles are the whole process's.

pub mod counters;
#[cfg(feature = "tracing")]
pub mod events;

/// The software device: its figures are exact.
fn open() -> ironbridge::Device {
    ironbridge::Device::open("cpu").unwrap()
}
