//! Captures, in processes that were started for them: Metal reads MTL_CAPTURE_ENABLED once.

use std::fs;

use ironbridge::ops::Fill;
use ironbridge::{DType, Device, Status};

crate::harness::cases! {
    what_a_scope_submits_is_captured,
    a_process_with_captures,
}

fn fill(device: &Device, label: &str) {
    let buffer = device.buffer::<u8>(4096).unwrap();
    let mut commands = device.commands_options().label(label).begin().unwrap();
    let filling = Fill::new(buffer.tensor_at(0, DType::U32), 4096).with_value(7);
    commands.fill(&filling).unwrap();
    commands.run().unwrap();
}

fn what_a_scope_submits_is_captured() {
    let status = crate::harness::command("captures::a_process_with_captures")
        .env("MTL_CAPTURE_ENABLED", "1")
        .status()
        .unwrap();
    assert!(status.success());
}

/// Does nothing in a process that was not started by the case above.
fn a_process_with_captures() {
    if std::env::var_os("MTL_CAPTURE_ENABLED").is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("scope.gputrace");
    let (device, other) = (Device::open("cpu").unwrap(), Device::open("cpu").unwrap());
    fill(&device, "before");
    {
        let _capture = device.capture(&path).unwrap();
        fill(&device, "within");
        fill(&other, "elsewhere");
        for device in [&device, &other] {
            let again = device.capture(folder.path().join("again.gputrace"));
            assert_eq!(again.unwrap_err().status(), Some(Status::State));
        }
    }
    fill(&device, "after");
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains("within"), "{text}");
    for outside in ["before", "elsewhere", "after"] {
        assert!(!text.contains(outside), "{text}");
    }
    // A file that is there stays as it is, and one that cannot be made is an error; neither leaves a capture behind.
    for refused in [path.clone(), "/nowhere/scope.gputrace".into()] {
        let error = device.capture(&refused).unwrap_err();
        assert_eq!(error.status(), Some(Status::File), "{error}");
    }
    assert_eq!(fs::read_to_string(&path).unwrap(), text);

    // A device that goes ends its capture.
    let last = folder.path().join("last.gputrace");
    let capture = other.capture(&last).unwrap();
    fill(&other, "last");
    other.clone().close().unwrap();
    drop((capture, other));
    assert!(fs::read_to_string(&last).unwrap().contains("last"));
    drop(
        device
            .capture(folder.path().join("one more.gputrace"))
            .unwrap(),
    );
}
