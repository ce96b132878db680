//! The trace. A program of its own, whose tests are serial: the hook and the number of live handles are the whole
//! process's.

mod counters;
#[cfg(feature = "tracing")]
mod events;

/// The software device: its figures are exact.
fn open() -> ironbridge::Device {
    ironbridge::Device::open("cpu").unwrap()
}
