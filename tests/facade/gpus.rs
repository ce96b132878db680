//! GPUs that Macs have: a device is opened when its GPU can run the kernels, and else refused with the reason.

use ironbridge::ops::Elementwise;
use ironbridge::{Device, Status};

use crate::support::assert_status;

fn doubled(device: &Device) -> ironbridge::Result<Vec<f32>> {
    let a = device.buffer_from(&[1.0f32, 2.0, 3.0])?;
    let out = device.buffer::<f32>(3)?;
    let mut commands = device.commands()?;
    commands.add(&Elementwise::new(
        a.tensor().vector(3),
        a.tensor().vector(3),
        out.tensor().vector(3),
    ))?;
    commands.run()?;
    out.to_vec()
}

#[test]
fn a4_a_gpu_that_can_run_the_kernels_is_opened() {
    let unified = |device: &Device| device.info().unwrap().unified_memory;
    let plain = Device::open("cpu").unwrap();
    for gpu in ["apple7", "apple9"] {
        let device = Device::open(&format!("cpu:gpu={gpu}")).unwrap();
        assert_eq!(unified(&device), unified(&plain), "{gpu}");
        assert_eq!(doubled(&device).unwrap(), [2.0, 4.0, 6.0], "{gpu}");
    }
}

/// Memory of Apple's GPUs comes in pages of 16 KiB.
#[test]
fn memory_is_charged_by_the_pages_of_the_gpu() {
    let device = Device::open("cpu:gpu=apple9").unwrap();
    let before = device.memory().unwrap().device_bytes;
    let buffer = device.buffer::<u8>(1).unwrap();
    let report = device.memory().unwrap();
    assert_eq!(report.device_bytes - before, 16384);
    assert_eq!((report.active_bytes, report.unaccounted_bytes), (1, 0));
    drop(buffer);
    assert_eq!(device.memory().unwrap().device_bytes, before);
}

/// On an AMD GPU 64 threads are one SIMD-group, and half of a product's columns were never written.
#[test]
fn a4_others_are_refused_by_name() {
    for (gpu, name) in [
        ("intel", "Intel(R) UHD Graphics 630"),
        ("amd64", "AMD Radeon Pro Vega 64"),
        ("paravirtual", "Apple Paravirtual device"),
    ] {
        let error = assert_status(Device::open(&format!("cpu:gpu={gpu}")), Status::Unsupported);
        let text = error.to_string();
        assert!(text.contains(name) && text.contains("Apple7"), "{text}");
    }
}

#[test]
fn a4_kernels_need_simd_groups_of_32_threads() {
    for width in [8, 16, 64] {
        let device = Device::open(&format!("cpu:simd_width={width}")).unwrap();
        let error = assert_status(doubled(&device), Status::Unsupported);
        let text = error.to_string();
        assert!(
            text.contains("SIMD-groups of 32 threads") && text.contains(&width.to_string()),
            "{text}"
        );
    }
    let device = Device::open("cpu:simd_width=32").unwrap();
    assert_eq!(doubled(&device).unwrap(), [2.0, 4.0, 6.0]);
}

#[test]
fn wrong_wishes_are_errors() {
    for (wish, text) in [
        ("gpu=riva", "apple7, apple9, intel, amd64, paravirtual"),
        ("gpu=", "apple7"),
        ("simd_width=3", "power of 2"),
        ("simd_width=128", "up to 64"),
        ("gpu=intel,gpu=amd64", "given twice"),
    ] {
        let error = assert_status(
            Device::open(&format!("cpu:{wish}")),
            Status::InvalidArgument,
        );
        assert!(error.to_string().contains(text), "{error}");
    }
}
