//! Beside a program's own Metal code: objects wrapped and handed out, compile options, pipeline caches, times.

use std::fs;
use std::path::Path;
use std::ptr::null_mut;

use ironbridge::kernel::{Argument, Dispatch, Grid, Library, MathMode, Options};
use ironbridge::memory::BufferUsage;
use ironbridge::ops::Fill;
use ironbridge::{DType, Device, Error, Status};

use crate::support::assert_status;

const LENGTH: usize = 4096;

fn cpu() -> Device {
    Device::open("cpu").unwrap()
}

/// The same Metal device and its queue, opened once more.
fn wrapped(device: &Device) -> Device {
    let objects = device.metal_objects().unwrap();
    // SAFETY: the device's own objects.
    unsafe { Device::options().wrap_metal(objects.device, objects.queue) }.unwrap()
}

fn fill(device: &Device, buffer: &ironbridge::Buffer<u8>, value: u8) {
    let mut commands = device.commands().unwrap();
    let filling = Fill::new(buffer.tensor_at(0, DType::U32), LENGTH).with_value(value);
    commands.fill(&filling).unwrap();
    commands.run().unwrap();
}

#[test]
fn a_wrapped_device_uses_the_callers_queue_and_buffers() {
    let first = cpu();
    let second = wrapped(&first);
    assert_eq!(
        first.metal_objects().unwrap(),
        second.metal_objects().unwrap()
    );
    assert_eq!(first.info().unwrap().kind, second.info().unwrap().kind);

    let buffer = first.buffer_from(&[1u8; LENGTH]).unwrap();
    let object = buffer.metal_object().unwrap();
    let options = second.buffer_options().label("theirs");
    // SAFETY: the buffer's own object; nothing uses it at the same time as what is made of it.
    let theirs = unsafe { options.wrap_metal(object) }.unwrap();
    assert_eq!(theirs.metal_object().unwrap(), object);
    assert_eq!(theirs.label().unwrap(), "theirs");
    assert_eq!(theirs.to_vec().unwrap(), [1; LENGTH]);
    fill(&second, &theirs, 7);
    assert_eq!(buffer.to_vec().unwrap(), [7; LENGTH]);

    // What was wrapped is kept, and so is the device that it is of.
    drop((buffer, first));
    fill(&second, &theirs, 9);
    assert_eq!(theirs.to_vec().unwrap(), [9; LENGTH]);
}

#[test]
fn a_wrapped_device_may_have_a_queue_of_its_own() {
    let first = cpu();
    let objects = first.metal_objects().unwrap();
    // SAFETY: the device's own object.
    let second = unsafe { Device::options().wrap_metal(objects.device, null_mut()) }.unwrap();
    let others = second.metal_objects().unwrap();
    assert_eq!(objects.device, others.device);
    assert_ne!(objects.queue, others.queue);
}

/// On a Mac every open of a GPU gives the same Metal device, whose figure of memory is everybody's.
#[test]
fn b7_devices_that_share_a_gpu_count_their_own_memory() {
    let first = cpu();
    let second = wrapped(&first);
    let bytes = |device: &Device| {
        let report = device.memory().unwrap();
        let own = report.device_bytes as i64 - report.unaccounted_bytes;
        (report.device_bytes, own, report.active_bytes)
    };
    let (device_before, own_before, active_before) = bytes(&second);
    let buffer = first.buffer::<u8>(LENGTH).unwrap();
    assert_eq!(
        bytes(&second),
        (device_before + LENGTH as u64, own_before, active_before)
    );
    let (device, own, active) = bytes(&first);
    assert_eq!(active, LENGTH as u64);
    drop(buffer);
    assert_eq!(bytes(&second).0, device_before);
    let after = bytes(&first);
    assert!(after.0 < device && after.1 < own && after.2 < active);
}

#[test]
fn objects_that_are_none_are_refused() {
    let (device, other) = (cpu(), cpu());
    let objects = device.metal_objects().unwrap();
    let others = other.metal_objects().unwrap();
    let options = Device::options();
    for (metal, queue, status) in [
        (null_mut(), null_mut(), Status::InvalidArgument),
        (objects.queue, null_mut(), Status::InvalidArgument),
        (objects.device, objects.device, Status::InvalidArgument),
        (objects.device, others.queue, Status::WrongDevice),
    ] {
        // SAFETY: NULL, or objects of Metal's, if not of the right kind.
        assert_status(unsafe { options.wrap_metal(metal, queue) }, status);
    }
    let many = options.max_in_flight(17);
    // SAFETY: the device's own objects.
    let refused = unsafe { many.wrap_metal(objects.device, objects.queue) };
    assert_status(refused, Status::InvalidArgument);

    let foreign = other.buffer::<u8>(LENGTH).unwrap();
    for (buffer, status) in [
        (null_mut(), Status::InvalidArgument),
        (objects.queue, Status::InvalidArgument),
        (foreign.metal_object().unwrap(), Status::WrongDevice),
    ] {
        // SAFETY: NULL, or objects of Metal's, if not of the right kind.
        assert_status(
            unsafe { device.buffer_options().wrap_metal(buffer) },
            status,
        );
    }
    let weights = device.buffer_options().usage(BufferUsage::Weights);
    let weights = weights.create::<u8>(LENGTH).unwrap();
    assert_status(weights.metal_object(), Status::InvalidArgument);
}

/// What `x[0] = EXPRESSION` computes.
fn compute(device: &Device, source: &str, options: &Options) -> Result<f32, Error> {
    let kernel = Library::with_options(device, source, options)?.kernel("set")?;
    let x = device.buffer::<f32>(1)?;
    let mut commands = device.commands()?;
    let dispatch = Dispatch {
        arguments: &[Argument::write(0, &x)],
        grid: Grid::Threads([1, 1, 1]),
        threadgroup: [1, 1, 1],
    };
    // SAFETY: the one thread writes the one element.
    unsafe { commands.dispatch(&kernel, &dispatch)? };
    commands.run()?;
    Ok(x.to_vec()?[0])
}

const SET: &str = "kernel void set(device float *x [[buffer(0)]]) { x[0] = VALUE; }";

#[test]
fn macros_are_known_to_the_source() {
    let device = cpu();
    let options = Options::default()
        .macro_value("TWICE(x)", "")
        .macro_value("VALUE", "1.0f");
    assert_status(compute(&device, SET, &options), Status::InvalidArgument);
    let options = Options::default()
        .macro_value("VALUE", "HALF + HALF")
        .macro_value("HALF", "21.0f");
    assert_eq!(compute(&device, SET, &options).unwrap(), 42.0);
    for mode in [MathMode::Safe, MathMode::Relaxed, MathMode::Fast] {
        let options = options.clone().math_mode(mode);
        assert_eq!(compute(&device, SET, &options).unwrap(), 42.0);
    }
    // The compiler's lines are the source's, whatever the macros are.
    let broken = format!("\n{SET}\nkernel void broken(device float *x) {{ y; }}");
    let error = compute(&device, &broken, &options).unwrap_err();
    assert_eq!(error.status(), Some(Status::Compile));
    assert!(error.to_string().contains("program_source:3"), "{error}");
}

#[test]
fn macros_that_are_none_are_refused() {
    let device = cpu();
    for (name, value) in [("", "1"), ("1X", "1"), ("A B", "1"), ("A", "1\n2")] {
        let options = Options::default().macro_value(name, value);
        assert_status(compute(&device, SET, &options), Status::InvalidArgument);
    }
    let twice = Options::default()
        .macro_value("VALUE", "1.0f")
        .macro_value("VALUE", "2.0f");
    let error = assert_status(compute(&device, SET, &twice), Status::InvalidArgument);
    assert!(
        error.to_string().contains("VALUE is defined twice"),
        "{error}"
    );
}

#[test]
fn b8_the_languages_version_is_the_one_that_is_asked_for() {
    let device = cpu();
    let source = SET.replace("VALUE", "__METAL_VERSION__");
    for (version, known) in [(0, 310.0), (300, 300.0), (310, 310.0), (240, 240.0)] {
        let options = Options::default().language_version(version);
        assert_eq!(compute(&device, &source, &options).unwrap(), known);
    }
    for version in [330, 400, 990] {
        let options = Options::default().language_version(version);
        assert_status(compute(&device, &source, &options), Status::Unsupported);
    }
    for version in [1, 305, 1000, u32::MAX] {
        let options = Options::default().language_version(version);
        assert_status(compute(&device, &source, &options), Status::InvalidArgument);
    }
}

#[test]
fn a_metallib_is_apples_to_run() {
    let device = cpu();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kernels.metallib");
    // SAFETY: there is no such file.
    assert_status(unsafe { Library::open(&device, &path) }, Status::File);
    fs::write(&path, b"MTLB").unwrap();
    // SAFETY: the device runs none.
    let refused = unsafe { Library::open(&device, &path) };
    let error = assert_status(refused, Status::Unsupported);
    assert!(error.to_string().contains("metallib"), "{error}");
}

#[test]
fn pipelines_are_kept_in_a_file_of_the_callers() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pipelines");
    let options = Options::default().macro_value("VALUE", "3.0f");
    let device = cpu();
    assert_status(device.save_pipeline_cache(), Status::State);
    device.open_pipeline_cache(&path).unwrap();
    assert_status(device.open_pipeline_cache(&path), Status::State);
    // Without a pipeline there is nothing to write.
    device.save_pipeline_cache().unwrap();
    assert!(!path.exists());
    assert_eq!(compute(&device, SET, &options).unwrap(), 3.0);
    device.save_pipeline_cache().unwrap();
    let kept = fs::read_to_string(&path).unwrap();
    assert!(kept.lines().any(|line| line == "set"), "{kept}");

    // The next process's device; what it makes is there beside what was.
    let device = cpu();
    device.open_pipeline_cache(&path).unwrap();
    fill(&device, &device.buffer::<u8>(LENGTH).unwrap(), 1);
    let a = device.buffer_from(&[1.0f32, 2.0]).unwrap();
    let out = device.buffer::<f32>(2).unwrap();
    let mut commands = device.commands().unwrap();
    let sum = ironbridge::ops::Elementwise::new(
        a.tensor().vector(2),
        a.tensor().vector(2),
        out.tensor().vector(2),
    );
    commands.add(&sum).unwrap();
    commands.run().unwrap();
    device.save_pipeline_cache().unwrap();
    let more = fs::read_to_string(&path).unwrap();
    assert!(more.lines().count() > kept.lines().count(), "{more}");
    assert!(more.lines().any(|line| line == "set"), "{more}");
}

#[test]
fn a_file_that_is_no_pipeline_cache_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pipelines");
    for damaged in [&b""[..], b"something else\nset\n", b"\xff\xfe"] {
        fs::write(&path, damaged).unwrap();
        assert_status(cpu().open_pipeline_cache(&path), Status::File);
        assert_eq!(fs::read(&path).unwrap(), damaged);
    }
    assert_status(cpu().open_pipeline_cache(""), Status::InvalidArgument);
    // A folder that does not exist shows when the file is written.
    let device = cpu();
    let nowhere = Path::new("/nowhere/pipelines");
    device.open_pipeline_cache(nowhere).unwrap();
    let options = Options::default().macro_value("VALUE", "3.0f");
    compute(&device, SET, &options).unwrap();
    let error = assert_status(device.save_pipeline_cache(), Status::File);
    assert!(matches!(error, Error::File(_)), "{error:?}");
    assert!(error.to_string().contains("/nowhere/pipelines"), "{error}");
}

#[test]
fn each_submission_says_when_it_ran() {
    let device = Device::open("cpu:delay_us=200").unwrap();
    let buffer = device.buffer::<u8>(LENGTH).unwrap();
    let mut commands = device.commands_options().max_operations(2).begin().unwrap();
    for value in 0..5 {
        let filling = Fill::new(buffer.tensor_at(0, DType::U32), LENGTH).with_value(value);
        commands.fill(&filling).unwrap();
    }
    let pending = commands.commit().unwrap();
    pending.wait().unwrap();
    let submissions = pending.submissions().unwrap();
    let operations: Vec<_> = submissions.iter().map(|each| each.operations).collect();
    assert_eq!(operations, [2, 2, 1]);
    // A device may run two of them at once.
    for each in &submissions {
        assert!(each.failure.is_none(), "{submissions:?}");
        assert!(each.start > std::time::Duration::ZERO, "{submissions:?}");
        assert!(each.end >= each.start, "{submissions:?}");
    }
    let worked = submissions.iter().map(|each| each.end - each.start).sum();
    assert_eq!(pending.info().unwrap().device_time, worked);
}

#[test]
fn a_submission_that_failed_says_how() {
    let device = Device::open("cpu:fail_command_buffer=2:timeout").unwrap();
    let buffer = device.buffer::<u8>(LENGTH).unwrap();
    let mut commands = device.commands_options().max_operations(1).begin().unwrap();
    for value in 0..3 {
        let filling = Fill::new(buffer.tensor_at(0, DType::U32), LENGTH).with_value(value);
        commands.fill(&filling).unwrap();
    }
    let pending = commands.commit().unwrap();
    assert_status(pending.wait(), Status::DeviceTimeout);
    let submissions = pending.submissions().unwrap();
    let failures: Vec<_> = submissions.iter().map(|each| each.failure).collect();
    assert_eq!(failures, [None, Some(Status::DeviceTimeout), None]);
}

/// This process was started without MTL_CAPTURE_ENABLED; `process` has captures.
#[test]
fn captures_need_a_process_that_may() {
    assert!(std::env::var_os("MTL_CAPTURE_ENABLED").is_none());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("work.gputrace");
    let error = assert_status(cpu().capture(&path), Status::Unsupported);
    assert!(
        error.to_string().contains("MTL_CAPTURE_ENABLED=1"),
        "{error}"
    );
    assert!(!path.exists());
}
