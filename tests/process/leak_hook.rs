//! Closing a device with something left on it.

use std::sync::{Arc, Mutex};

use ironbridge::memory::{Category, LEAK_THRESHOLD, set_leak_hook};
use ironbridge::{Device, Error};

/// The software device: its faults and figures are what these tests are about.
fn open() -> Device {
    Device::open("cpu").unwrap()
}

crate::harness::cases! {
    a_forgotten_buffer_is_named_and_its_memory_given_back,
    the_report_has_before_after_and_freed,
    what_is_mapped_is_not_taken_away,
    the_threshold_is_respected,
    nothing_is_reported_when_nothing_leaks,
}

type Place = Option<(String, u32)>;

/// Closes the device and returns what the hook was told.
fn close(device: Device) -> Vec<(u64, String, Category, Place)> {
    let told = Arc::new(Mutex::new(Vec::new()));
    let listener = told.clone();
    set_leak_hook(Some(Box::new(move |leaks| {
        assert!(!leaks.at_exit);
        assert_eq!(leaks.freed_bytes, leaks.device_before - leaks.device_after);
        let list = leaks.allocations.iter();
        let list = list.map(|one| {
            (
                one.bytes,
                one.label.clone(),
                one.category,
                one.place.clone(),
            )
        });
        listener.lock().unwrap().extend(list);
    })));
    device.close().unwrap();
    set_leak_hook(None);
    let told = told.lock().unwrap();
    told.clone()
}

fn a_forgotten_buffer_is_named_and_its_memory_given_back() {
    let device = open();
    let options = device
        .buffer_options()
        .label("layer 3 wq")
        .category(Category::Weights);
    let (forgotten, line) = (options.create::<u8>(2 << 20).unwrap(), line!());
    drop(
        device
            .buffer_options()
            .pooled()
            .create::<u8>(1 << 20)
            .unwrap(),
    );
    let again = device.clone();
    let leaks = close(device);
    let place = Some((file!().to_string(), line));
    assert_eq!(
        leaks,
        [(2 << 20, "layer 3 wq".to_string(), Category::Weights, place)]
    );
    // Nobody can use what is gone, and everybody can still let go of it.
    assert!(matches!(forgotten.to_vec(), Err(Error::InvalidArgument(_))));
    assert!(matches!(
        again.buffer::<u8>(1),
        Err(Error::InvalidArgument(_))
    ));
    assert!(matches!(again.memory(), Err(Error::InvalidArgument(_))));
    drop((forgotten, again));
}

fn the_report_has_before_after_and_freed() {
    let device = open();
    let forgotten = device.buffer::<u8>(3 << 20).unwrap();
    set_leak_hook(Some(Box::new(|_| {})));
    let leaks = device.close().unwrap();
    set_leak_hook(None);
    assert_eq!((leaks.device_before, leaks.device_after), (3 << 20, 0));
    assert_eq!((leaks.freed_bytes, leaks.leaked_bytes), (3 << 20, 3 << 20));
    assert_eq!(leaks.allocations[0].references, 1);
    drop(forgotten);
}

fn what_is_mapped_is_not_taken_away() {
    let device = open();
    let held = device.buffer_from(&[7u8; 2 << 20]).unwrap();
    let map = held.map().unwrap();
    assert_eq!(close(device).len(), 1);
    assert!(map.iter().all(|&byte| byte == 7));
}

fn the_threshold_is_respected() {
    let device = open();
    let small = device.buffer::<u8>(LEAK_THRESHOLD as usize).unwrap();
    assert_eq!(close(device), []);
    drop(small);
    let device = open();
    let (small, one_more) = (
        device.buffer::<u8>(LEAK_THRESHOLD as usize),
        device.buffer::<u8>(1),
    );
    assert_eq!(close(device).len(), 2);
    drop((small, one_more));
}

fn nothing_is_reported_when_nothing_leaks() {
    let device = open();
    let executor = ironbridge::MatmulExecutor::on(device.clone());
    executor
        .matmul_f32(&[1.0; 64], &[1.0; 64], &mut [0.0; 64], 8, 8, 8)
        .unwrap();
    drop(device.buffer::<u8>(8 << 20).unwrap());
    drop(executor);
    assert_eq!(close(device), []);
}
