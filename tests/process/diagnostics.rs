//! Figures of the whole process go back to where they were. In a binary of its own, since every device counts in them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use ironbridge::diagnostics::{Diagnostics, diagnose, live_objects};
use ironbridge::{Device, MatmulExecutor};

crate::harness::cases! {
    a_device_counts_while_it_is_open,
    devices_and_products_leave_nothing,
    refusals_leave_nothing,
    no_object_is_autoreleased_without_a_pool,
}

/// Does `work` twice, to let caches fill, and then again until it changes nothing: no more handles and objects than
/// before may be left.
fn leaves_nothing(work: impl Fn()) {
    work();
    work();
    let mut before = (diagnose().unwrap(), live_objects().unwrap());
    loop {
        work();
        let after = settled(&before);
        // Fewer are what an earlier test released: its device's threads were ending still, and hid as much of what
        // `work` leaves.
        if after.1 == before.1 {
            break;
        }
        before = after;
    }
}

type Figures = (Diagnostics, BTreeMap<String, i64>);

/// The figures once none is above `before`: the software device's thread holds a command buffer for a moment after it
/// is complete.
fn settled(before: &Figures) -> Figures {
    let start = Instant::now();
    loop {
        let after = (diagnose().unwrap(), live_objects().unwrap());
        let none_above = after
            .1
            .iter()
            .all(|(class, &count)| count <= before.1.get(class).copied().unwrap_or(0));
        if none_above && after.0.live_handles == before.0.live_handles {
            assert_eq!(
                after.0.autoreleased_without_pool,
                before.0.autoreleased_without_pool
            );
            return after;
        }
        assert!(
            start.elapsed() < Duration::from_secs(10),
            "{before:?} became {after:?}"
        );
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn a_device_counts_while_it_is_open() {
    let before = diagnose().unwrap();
    let device = Device::open("default").unwrap();
    let buffer = device.buffer::<f32>(4).unwrap();
    let commands = device.commands().unwrap();
    let during = diagnose().unwrap();
    assert_eq!(during.live_handles - before.live_handles, 3);
    assert!(during.live_objects > before.live_objects);
    let sum: i64 = live_objects().unwrap().values().sum();
    assert_eq!(sum, during.live_objects);
    drop((commands, buffer, device));
    assert_eq!(diagnose().unwrap().live_handles, before.live_handles);
}

fn devices_and_products_leave_nothing() {
    leaves_nothing(|| {
        let executor = MatmulExecutor::on(Device::open("default").unwrap());
        for round in 1..=50 {
            let mut c = vec![0.0; round * round];
            let (a, b) = (vec![1.0; round * 8], vec![2.0; 8 * round]);
            executor
                .matmul_f32(&a, &b, &mut c, round, 8, round)
                .unwrap();
            assert!(c.iter().all(|&c| c == 16.0));
        }
    });
}

fn refusals_leave_nothing() {
    let device = Device::open("default").unwrap();
    leaves_nothing(|| {
        let buffer = device.buffer::<f32>(4).unwrap();
        let mut commands = device.commands().unwrap();
        commands.add(&Default::default()).unwrap_err();
        device.buffer::<f32>(0).unwrap_err();
        Device::open("nonsense").unwrap_err();
        drop((buffer, commands));
    });
}

fn no_object_is_autoreleased_without_a_pool() {
    let device = Device::open("default").unwrap();
    let before = diagnose().unwrap().autoreleased_without_pool;
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let executor = MatmulExecutor::on(device.clone());
                for _ in 0..25 {
                    executor
                        .matmul_f32(&[1.0; 64], &[1.0; 64], &mut [0.0; 64], 8, 8, 8)
                        .unwrap();
                }
            });
        }
    });
    assert_eq!(diagnose().unwrap().autoreleased_without_pool, before);
}
