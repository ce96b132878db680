//! Failures that are planned: each is reported once, typed, and the device goes on.

use ironbridge::ops::{Elementwise, Fill, Matmul};
use ironbridge::{
    Buffer, CommandsState, Device, DeviceKind, DeviceSelector, Error, Pending, Result, Status,
};

use crate::support::{assert_status, device};

fn commit_add(device: &Device, a: &Buffer<f32>, out: &Buffer<f32>) -> Result<Pending> {
    let mut commands = device.commands()?;
    commands.add(&Elementwise::new(
        a.tensor().vector(out.len()),
        a.tensor().vector(out.len()),
        out.tensor().vector(out.len()),
    ))?;
    commands.commit()
}

#[test]
fn each_device_error_has_its_type() {
    for (planned, status) in [
        ("timeout", Status::DeviceTimeout),
        ("page_fault", Status::DevicePageFault),
        ("access_revoked", Status::DeviceLost),
        ("device_removed", Status::DeviceLost),
        ("not_permitted", Status::DeviceInvalid),
        ("invalid_resource", Status::DeviceInvalid),
        ("internal", Status::DeviceInternal),
        ("out_of_memory", Status::OutOfMemory),
    ] {
        let device = Device::open(&format!("cpu:fail_command_buffer=1:{planned}")).unwrap();
        let a = device.buffer_from(&[1.0f32; 8]).unwrap();
        let mut out = device.buffer::<f32>(8).unwrap();
        let pending = commit_add(&device, &a, &out).unwrap();
        let error = assert_status(pending.wait(), status);
        match status {
            Status::OutOfMemory => assert!(matches!(error, Error::OutOfMemory(_))),
            _ => assert!(matches!(error, Error::Device(_))),
        }
        pending.wait().expect("reported once");
        assert_eq!(pending.info().unwrap().state, CommandsState::Failed);
        device.sync().expect("was reported by the wait");

        // No wrong numbers.
        let error = assert_status(out.to_vec(), Status::Poisoned);
        assert!(matches!(error, Error::Poisoned(_)));
        assert_status(out.map(), Status::Poisoned);
        assert_eq!(a.to_vec().unwrap(), [1.0; 8], "was only read");

        // Wholly rewritten, it is sound again, and the device is usable.
        out.write(&[0.0; 8]).unwrap();
        commit_add(&device, &a, &out).unwrap().wait().unwrap();
        assert_eq!(out.to_vec().unwrap(), [2.0; 8]);
    }
}

#[test]
fn a_failure_that_nobody_waited_for_is_reported_by_the_next_sync() {
    let device = Device::open("cpu:fail_command_buffer=1:page_fault").unwrap();
    let a = device.buffer_from(&[1.0f32; 8]).unwrap();
    let out = device.buffer::<f32>(8).unwrap();
    drop(commit_add(&device, &a, &out).unwrap());
    assert_status(device.sync(), Status::DevicePageFault);
    device.sync().expect("reported once");
}

#[test]
fn what_reads_a_failed_result_fails_as_well() {
    let device = Device::open("cpu:fail_command_buffer=1:internal").unwrap();
    let a = device.buffer_from(&[1.0f32; 8]).unwrap();
    let middle = device.buffer::<f32>(8).unwrap();
    let out = device.buffer::<f32>(8).unwrap();
    let first = commit_add(&device, &a, &middle).unwrap();
    let second = commit_add(&device, &middle, &out).unwrap();
    assert_status(second.wait(), Status::Poisoned);
    assert_status(first.wait(), Status::DeviceInternal);
    assert_status(out.to_vec(), Status::Poisoned);
}

#[test]
fn filling_the_whole_buffer_clears_a_poisoning() {
    let device = Device::open("cpu:fail_command_buffer=1:internal").unwrap();
    let a = device.buffer_from(&[1.0f32; 8]).unwrap();
    let out = device.buffer::<f32>(8).unwrap();
    let pending = commit_add(&device, &a, &out).unwrap();
    assert_status(pending.wait(), Status::DeviceInternal);
    let mut commands = device.commands().unwrap();
    commands
        .fill(&Fill::new(out.tensor(), 32).with_value(0))
        .unwrap();
    commands.commit().unwrap().wait().unwrap();
    assert_eq!(out.to_vec().unwrap(), [0.0; 8]);
}

#[test]
fn an_allocation_that_fails_is_reported_and_the_next_one_works() {
    let device = Device::open("cpu:fail_allocation=1").unwrap();
    let error = device.buffer::<f32>(1024).unwrap_err();
    assert!(matches!(error, Error::OutOfMemory(_)), "{error:?}");
    device.buffer::<f32>(1024).unwrap();
}

#[test]
fn a_small_device_says_so() {
    let device = Device::open("cpu:max_buffer_length=1M").unwrap();
    assert_eq!(device.info().unwrap().max_buffer_length, 1 << 20);
    device.buffer::<u8>(1 << 20).unwrap();
    let error = device.buffer::<u8>((1 << 20) + 1).unwrap_err();
    assert!(
        matches!(error, Error::InvalidArgument(_) | Error::OutOfMemory(_)),
        "{error:?}"
    );
    assert!(error.to_string().contains("1048577"), "{error}");
}

#[test]
fn a_full_device_gives_its_idle_memory_back_before_it_fails() {
    let device = Device::open("cpu:memory_limit=8M").unwrap();
    drop(device.buffer_options().pooled().create::<u8>(5 << 20));
    device.buffer::<u8>(6 << 20).unwrap();
    let error = device.buffer::<u8>(9 << 20).unwrap_err();
    assert!(matches!(error, Error::OutOfMemory(_)), "{error:?}");
}

#[test]
fn selectors_that_nothing_answers_to_are_refused_by_name() {
    for selector in ["nonsense", "999", "-1", "cpu:nonsense=1", "cpu:delay_us=x"] {
        let error = Device::open(selector).unwrap_err();
        assert!(
            matches!(error, Error::NoDevice(_) | Error::InvalidArgument(_)),
            "{selector}: {error:?}"
        );
        assert!(!error.to_string().is_empty());
    }
    assert!(matches!(Device::open("c\0pu"), Err(Error::Text { .. })));
}

/// A Rust program never called `iron_…`: messages name the argument, and their source the method.
#[test]
fn errors_name_methods_of_rust() {
    let device = device();
    let buffer = device.buffer::<f32>(4).unwrap();
    let mut commands = device.commands().unwrap();
    let errors = [
        (device.buffer::<f32>(0).unwrap_err(), "Device::buffer"),
        (Device::from_index(999).unwrap_err(), "Device::open"),
        (Device::open("cpu:no_key=1").unwrap_err(), "Device::open"),
        (
            buffer.read_at(3, &mut [0.0; 2]).unwrap_err(),
            "Buffer::read_at",
        ),
        (
            commands.matmul(&Matmul::default()).unwrap_err(),
            "Commands::matmul",
        ),
    ];
    for (error, call) in errors {
        assert!(!error.to_string().contains("iron_"), "{error}");
        let failure = error.failure().expect("a call failed");
        assert_eq!(failure.call(), call, "{error}");
        let source = std::error::Error::source(&error)
            .expect("a failure")
            .to_string();
        assert!(source.starts_with(call), "{source}");
    }
    // A selector with an option that does not exist is no missing device.
    let unknown = Device::open("cpu:no_key=1").unwrap_err();
    assert!(matches!(unknown, Error::InvalidArgument(_)), "{unknown:?}");
    assert!(
        unknown
            .to_string()
            .starts_with("selector: software device: there is no key 'no_key'"),
        "{unknown}"
    );
    let unknown = Device::open(DeviceSelector::Cpu("delay_us".into())).unwrap_err();
    assert!(matches!(unknown, Error::InvalidArgument(_)), "{unknown:?}");
    assert!(matches!(Device::open("nothing"), Err(Error::NoDevice(_))));
}

#[test]
fn devices_are_opened_by_what_they_are() {
    let software = Device::cpu().unwrap().info().unwrap();
    assert_eq!(software.kind, DeviceKind::Software);
    let listed = Device::list().unwrap();
    for (index, info) in listed.iter().enumerate() {
        let opened = Device::from_index(index as u32).unwrap().info().unwrap();
        assert_eq!((opened.index, &opened.name), (info.index, &info.name));
    }
    match listed.iter().any(|info| info.kind == DeviceKind::Metal) {
        true => assert_eq!(
            Device::metal().unwrap().info().unwrap().kind,
            DeviceKind::Metal
        ),
        false => assert!(matches!(Device::metal(), Err(Error::NoDevice(_)))),
    }
}
