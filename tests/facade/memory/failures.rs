//! Memory that runs short, by a limit or by a device that refuses.

use ironbridge::memory::Category;
use ironbridge::ops::Fill;
use ironbridge::{DType, Device, Error, MatmulExecutor, Storage};

use crate::memory::accounts::pages;
use crate::memory::{open, report};

#[test]
fn the_limit_is_kept_and_idle_memory_makes_room() {
    let device = Device::options().memory_limit(1 << 20).open("cpu").unwrap();
    let options = device.buffer_options();
    let half = options.create::<u8>(1 << 19).unwrap();
    drop(options.clone().pooled().create::<u8>(1 << 18).unwrap());
    assert_eq!(report(&device).pool_bytes, 1 << 18);
    let rest = options.create::<u8>(1 << 19).unwrap();
    let full = report(&device);
    assert_eq!((full.pool_bytes, full.pool_purged), (0, 1));
    assert_eq!(full.active_bytes, 1 << 20);
    assert!(matches!(
        options.create::<u8>(1),
        Err(Error::OutOfMemory(_))
    ));
    drop(rest);
    options.create::<u8>(1 << 19).unwrap();
    drop(half);
    assert_eq!(report(&device).device_bytes, 0);
}

#[test]
fn work_in_flight_that_keeps_memory_is_waited_for() {
    let options = Device::options().memory_limit(1 << 20);
    let device = options.open("cpu:delay_us=20000").unwrap();
    let buffer = device.buffer::<u8>(1 << 20).unwrap();
    let mut commands = device.commands().unwrap();
    let out = buffer.tensor_at(0, DType::U32);
    let length = 1 << 20;
    commands
        .fill(&Fill::new(out, length).with_value(1))
        .unwrap();
    let pending = commands.commit().unwrap();
    drop(buffer);
    let next = device.buffer::<u8>(1 << 20).unwrap();
    pending.wait().unwrap();
    assert_eq!(next.to_vec().unwrap(), vec![0; 1 << 20]);
}

/// Every way to allocate, over and over.
fn work(device: &Device) -> Result<(), Error> {
    let executor = MatmulExecutor::on(device.clone());
    for round in 1..=40usize {
        let plain = device.buffer::<f32>(100 * round)?;
        let filled = device.buffer_from(&[1.0f32; 50])?;
        let private = device
            .buffer_options()
            .storage(Storage::Private)
            .create_from(&[7u8; 9])?;
        let mapped = pages(1);
        let wrapped = device
            .buffer_options()
            .category(Category::Weights)
            .wrap(mapped)?;
        let mut c = [0.0; 4];
        executor.matmul_f32(
            &[1.0, 2.0, 3.0, 4.0],
            &[0.0, 1.0, 1.0, 0.0],
            &mut c,
            2,
            2,
            2,
        )?;
        assert_eq!(c, [2.0, 1.0, 4.0, 3.0]);
        assert_eq!(private.to_vec()?, [7; 9]);
        assert_eq!(filled.to_vec()?, [1.0; 50]);
        drop((plain, wrapped));
        device.sync()?;
        device.purge()?; // the pool allocates anew in each round
    }
    Ok(())
}

#[test]
fn each_of_the_first_200_allocations_may_fail() {
    let healthy = open();
    work(&healthy).unwrap();
    let made = report(&healthy);
    assert!(made.allocations - made.pool_hits >= 200, "{made:?}");

    for number in 1..=200 {
        let device = Device::open(&format!("cpu:fail_allocation={number}")).unwrap();
        // Nothing is idle or in flight that could make room for a second attempt.
        match work(&device) {
            Err(Error::OutOfMemory(failure)) => assert!(!failure.message().is_empty()),
            other => panic!("allocation {number}: {other:?}"),
        }
        device.sync().unwrap();
        device.purge().unwrap();
        let after = report(&device);
        assert_eq!(
            (after.device_bytes, after.active_buffers),
            (0, 0),
            "allocation {number}"
        );
        if number % 50 == 0 {
            work(&device).unwrap();
        }
        let usable = device.buffer_from(&[1.0f32, 2.0]).unwrap();
        assert_eq!(usable.to_vec().unwrap(), [1.0, 2.0]);
    }
}

#[test]
fn a_limit_that_nothing_fits_in_is_an_error_each_time() {
    let device = open();
    let mut settings = device.memory_settings().unwrap();
    settings.memory_limit = Some(1);
    device.set_memory_settings(&settings).unwrap();
    for _ in 0..3 {
        assert!(matches!(device.buffer::<u8>(2), Err(Error::OutOfMemory(_))));
    }
    settings.memory_limit = None;
    device.set_memory_settings(&settings).unwrap();
    device.buffer::<u8>(2).unwrap();
}
