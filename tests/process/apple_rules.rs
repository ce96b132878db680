//! Apple's rules, on a device that ends the process where Metal's validation layer would: what breaks one of them is no
//! failed test, it is a dead process.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use ironbridge::memory::{Category, IdlePolicy, MemoryReport};
use ironbridge::ops::CopyBytes;
use ironbridge::{DType, Device, Status};

crate::harness::cases! {
    b1_idle_memory_is_made_volatile_outside_handlers,
    b1_idle_memory_is_emptied_outside_handlers_and_used_again,
    b1_leaked_memory_is_emptied_when_its_uses_are_over,
    b3_weights_and_caches_are_resident_while_they_live,
    b3_residency_is_requested_again_while_a_session_lives,
    a_session_that_lives,
    b5_a_device_that_a_fault_killed_says_so_and_is_opened_again,
    b6_queues_have_room_when_metal_frees_their_places_late,
}

const LENGTH: usize = 1 << 16;

/// Commands whose last references to pooled buffers are those that the completion handler gives up.
fn work(device: &Device, rounds: usize) {
    let options = device.buffer_options().category(Category::Scratch).pooled();
    let mut pending = Vec::new();
    for round in 0..rounds {
        let source = options.create_from(&[round as u8; LENGTH]).unwrap();
        let copy = options.create::<u8>(LENGTH).unwrap();
        let mut commands = device.commands().unwrap();
        let copying = CopyBytes {
            length: LENGTH,
            src: source.tensor_at(0, DType::U32),
            dst: copy.tensor_at(0, DType::U32),
        };
        commands.copy_bytes(&copying).unwrap();
        pending.push(commands.commit().unwrap());
    }
    for each in pending {
        each.wait().unwrap();
    }
}

/// The report, once it is as wanted.
fn eventually(device: &Device, wanted: impl Fn(&MemoryReport) -> bool) -> MemoryReport {
    let begin = Instant::now();
    loop {
        let report = device.memory().unwrap();
        if wanted(&report) {
            return report;
        }
        assert!(begin.elapsed() < Duration::from_secs(120), "{report:?}");
        thread::sleep(Duration::from_millis(20));
    }
}

fn b1_idle_memory_is_made_volatile_outside_handlers() {
    let device = Device::open("cpu:strict=apple,delay_us=500").unwrap();
    work(&device, 64);
    let report = device.memory().unwrap();
    assert!(report.pool_buffers > 0, "{report:?}");
    // Used again, whatever its state is by now.
    work(&device, 4);
}

fn b1_idle_memory_is_emptied_outside_handlers_and_used_again() {
    let options = Device::options().pool_policy(IdlePolicy::Empty);
    let device = options.open("cpu:strict=apple,delay_us=500").unwrap();
    work(&device, 8);
    let report = eventually(&device, |report| {
        report.empty_bytes > 0 && report.empty_bytes >= report.pool_bytes
    });
    assert!(
        report.pool_buffers > 0 && report.unaccounted_bytes == 0,
        "{report:?}"
    );
    work(&device, 8);
    let report = device.memory().unwrap();
    assert!(
        report.pool_hits > 0 && report.unaccounted_bytes == 0,
        "{report:?}"
    );
}

fn b1_leaked_memory_is_emptied_when_its_uses_are_over() {
    let device = Device::open("cpu:strict=apple").unwrap();
    let source = device.buffer_from(&[1u8; LENGTH]).unwrap();
    let copy = device.buffer::<u8>(LENGTH).unwrap();
    let mut commands = device.commands().unwrap();
    let copying = CopyBytes {
        length: LENGTH,
        src: source.tensor_at(0, DType::U32),
        dst: copy.tensor_at(0, DType::U32),
    };
    commands.copy_bytes(&copying).unwrap();
    commands.commit().unwrap().wait().unwrap();
    let leaks = device.clone().close().unwrap();
    assert_eq!(leaks.allocations.len(), 2, "{leaks:?}");
    assert_eq!(leaks.freed_bytes, 2 * LENGTH as u64, "{leaks:?}");
    drop((source, copy));
}

fn residency_sets() -> i64 {
    let live = ironbridge::diagnostics::live_objects().unwrap();
    live.get("SoftResidencySet").copied().unwrap_or(0)
}

/// A strict device ends the process when a buffer goes that its residency set still has.
fn b3_weights_and_caches_are_resident_while_they_live() {
    let device = Device::open("cpu:strict=apple").unwrap();
    assert_eq!(residency_sets(), 1);
    for category in [Category::Weights, Category::KvCache, Category::Activations] {
        let options = device.buffer_options().category(category);
        let kept = options.create_from(&[1u8; LENGTH]).unwrap();
        drop(options.create_from(&[2u8; LENGTH]).unwrap());
        assert_eq!(kept.to_vec().unwrap(), [1; LENGTH]);
    }
    // A buffer that its commands keep alive leaves in the completion handler.
    let options = device.buffer_options().category(Category::KvCache);
    let source = options.create_from(&[3u8; LENGTH]).unwrap();
    let copy = device.buffer::<u8>(LENGTH).unwrap();
    let mut commands = device.commands().unwrap();
    let copying = CopyBytes {
        length: LENGTH,
        src: source.tensor_at(0, DType::U32),
        dst: copy.tensor_at(0, DType::U32),
    };
    commands.copy_bytes(&copying).unwrap();
    drop(source);
    commands.commit().unwrap().wait().unwrap();
    assert_eq!(copy.to_vec().unwrap(), [3; LENGTH]);
    drop((copy, device));
    assert_eq!(residency_sets(), 0);
    let without = Device::open("cpu:strict=no").unwrap();
    drop(
        without
            .buffer_options()
            .category(Category::KvCache)
            .create::<u8>(LENGTH)
            .unwrap(),
    );
    assert_eq!(residency_sets(), 0);
}

const SESSION: &str = "IRONBRIDGE_TEST_SESSION";

/// In the process that the case below starts it lives until the standard input ends.
fn a_session_that_lives() {
    let device = Device::open("cpu:strict=apple").unwrap();
    let cache = device.buffer_options().category(Category::KvCache);
    let cache = cache.create::<u8>(LENGTH).unwrap();
    if std::env::var_os(SESSION).is_some() {
        std::io::copy(&mut std::io::stdin(), &mut std::io::sink()).unwrap();
    }
    assert_eq!(cache.to_vec().unwrap(), [0; LENGTH]);
}

fn b3_residency_is_requested_again_while_a_session_lives() {
    let mut child = crate::harness::command("apple_rules::a_session_that_lives")
        .env(SESSION, "1")
        .env("IRONBRIDGE_DEBUG_MEMORY", "1")
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let requests = lines
        .map_while(Result::ok)
        .filter(|line| line.contains("resident"))
        .take(3)
        .collect::<Vec<_>>();
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
    assert_eq!(requests.len(), 3, "{requests:?}");
    let bytes = format!("{LENGTH} bytes");
    assert!(
        requests.iter().all(|line| line.contains(&bytes)),
        "{requests:?}"
    );
}

fn b5_a_device_that_a_fault_killed_says_so_and_is_opened_again() {
    let killed = "cpu:after_fault=ignore,fail_command_buffer=1:page_fault";
    let device = Device::open(killed).unwrap();
    let fill = |device: &Device| {
        let buffer = device.buffer::<u8>(LENGTH)?;
        let mut commands = device.commands()?;
        commands.fill(&ironbridge::ops::Fill {
            length: LENGTH,
            out: buffer.tensor_at(0, DType::U32),
            value: 7,
        })?;
        commands.commit()?.wait()?;
        buffer.to_vec()
    };
    assert_eq!(
        fill(&device).unwrap_err().status(),
        Some(Status::DevicePageFault)
    );
    for _ in 0..2 {
        let error = fill(&device).unwrap_err();
        assert_eq!(error.status(), Some(Status::DeviceLost), "{error}");
    }
    drop(device);
    let device = Device::open("cpu").unwrap();
    assert_eq!(fill(&device).unwrap(), [7; LENGTH]);
}

fn b6_queues_have_room_when_metal_frees_their_places_late() {
    let options = Device::options().max_in_flight(1);
    let device = options.open("cpu:strict=apple").unwrap();
    work(&device, 200);
}
